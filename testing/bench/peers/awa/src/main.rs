//! awa with its queue storage, as its own benchmark sets it up: jobs are added by COPY, 512 workers, claims of 512
//! and no deadline. Finished jobs are kept; there is no result to keep.
//!
//! Told on standard input what to do next, one word a line: `add`, `drain`, and the end of it. The clock of a drain
//! stops when the database counts every job as ended.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use awa::{
    Client, InsertOpts, InsertParams, JobContext, JobError, JobResult, QueueConfig, QueueStorage, QueueStorageConfig,
    Worker, migrations,
};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// As Cargo.toml pins it.
const VERSION: &str = "0.6.9";
const KIND: &str = "pay";
const QUEUE: &str = "pay";
const ADDED_AT_ONCE: u64 = 5_000;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Does nothing but count.
struct Counts(Arc<AtomicU64>);

#[async_trait::async_trait]
impl Worker for Counts {
    fn kind(&self) -> &'static str {
        KIND
    }

    async fn perform(&self, _: &JobContext) -> Result<JobResult, JobError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(JobResult::Completed)
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let items: u64 = variable("ITEMS")?.parse()?;
    let workers: u32 = std::env::var("CONCURRENCY").map_or(Ok(512), |text| text.parse())?;
    let claimers: u16 = std::env::var("CLAIMERS").map_or(Ok(1), |text| text.parse())?;
    let pool = PgPoolOptions::new().max_connections(20).connect(&variable("DATABASE_URL")?).await?;
    migrations::run(&pool).await?;
    let store = QueueStorage::new(QueueStorageConfig::default())?;
    store.install(&pool).await?;
    let handled = Arc::new(AtomicU64::new(0));
    let queue = QueueConfig {
        max_workers: workers,
        claimers,
        poll_interval: Duration::from_millis(50),
        deadline_duration: Duration::ZERO,
        ..QueueConfig::default()
    };
    let client =
        Client::builder(pool.clone()).queue(QUEUE, queue).register_worker(Counts(Arc::clone(&handled))).build()?;
    println!(
        "{}",
        serde_json::json!({"ready": true, "version": VERSION, "settings":
            format!("queue storage, COPY of {ADDED_AT_ONCE}, {workers} workers, {claimers} claimer of 512, no deadline")})
    );
    let mut words = BufReader::new(tokio::io::stdin()).lines();
    while let Some(word) = words.next_line().await? {
        let began = Instant::now();
        match word.as_str() {
            "add" => add(&store, &pool, items, &variable("PAYLOAD")?).await?,
            "drain" => drain(&client, &store, &pool, items, &handled).await?,
            other => anyhow::bail!("what is {other}?"),
        }
        println!("{}", serde_json::json!({"done": word, "seconds": began.elapsed().as_secs_f64()}));
    }
    Ok(())
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is missing"))
}

/// Two callers, 5,000 jobs a COPY.
async fn add(store: &QueueStorage, pool: &PgPool, items: u64, payload: &str) -> Result<()> {
    let job = InsertParams {
        kind: KIND.to_owned(),
        args: serde_json::from_str(payload)?,
        opts: InsertOpts { queue: QUEUE.to_owned(), ..InsertOpts::default() },
    };
    let left = AtomicU64::new(items);
    let caller = async || -> Result<()> {
        loop {
            let take = |left: u64| Some(left.saturating_sub(ADDED_AT_ONCE));
            let before = left.try_update(Ordering::Relaxed, Ordering::Relaxed, take).unwrap_or(0);
            let part = before.min(ADDED_AT_ONCE) as usize;
            if part == 0 {
                return Ok(());
            }
            let added = store.enqueue_params_copy(pool, &vec![job.clone(); part]).await?;
            ensure!(added == part, "{added} of {part} jobs were added");
        }
    };
    tokio::try_join!(caller(), caller())?;
    Ok(())
}

async fn drain(client: &Client, store: &QueueStorage, pool: &PgPool, items: u64, handled: &AtomicU64) -> Result<()> {
    client.start().await?;
    // The exact count reads much, so it is asked for only once all handlers have run.
    while handled.load(Ordering::Relaxed) < items {
        tokio::time::sleep(LOOK_EVERY).await;
    }
    loop {
        let counts = store.queue_counts(pool, QUEUE).await?;
        if counts.terminal as u64 == items {
            break;
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    let ran = handled.load(Ordering::Relaxed);
    ensure!(ran == items, "{ran} handlers ran for {items} jobs");
    Ok(())
}
