//! `graphile_worker`, the Rust port, as its own benchmark sets it up: a queue in memory and completions that share a
//! statement. Finished jobs are deleted; no result is kept.
//!
//! Reads what to do next from standard input, one word a line: `add`, `drain`, and the end of it. The clock of a drain
//! stops when the table of jobs is empty, not when the last handler ran. CONCURRENCY and QUEUE override the setting that
//! was fastest in a search.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use graphile_worker::{
    Database, IntoTaskHandlerResult, JobSpec, LocalQueueConfig, RawJobSpec, TaskHandler, WorkerContext, WorkerOptions,
    WorkerUtils,
};
use serde::{Deserialize, Serialize};
use sqlx::{PgPool, postgres::PgPoolOptions};
use tokio::io::{AsyncBufReadExt as _, BufReader};

/// As Cargo.toml pins it.
const VERSION: &str = "0.14.1";
const SCHEMA: &str = "graphile_worker";
const ADDED_AT_ONCE: u64 = 5_000;
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The payload, which the handler does not look at.
#[derive(Clone, Debug, Deserialize, Serialize)]
struct Pay(serde_json::Value);

#[derive(Clone, Debug)]
struct Handled(Arc<AtomicU64>);

impl TaskHandler for Pay {
    const IDENTIFIER: &'static str = "pay";

    async fn run(self, context: WorkerContext) -> impl IntoTaskHandlerResult {
        if let Some(handled) = context.get_ext::<Handled>() {
            handled.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok::<(), String>(())
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let items: u64 = variable("ITEMS")?.parse()?;
    let concurrency: usize = number("CONCURRENCY", 500)?;
    let queue: usize = number("QUEUE", 5_000)?;
    let delay: usize = number("DELAY", 5)?;
    let pool = PgPoolOptions::new().max_connections(20).connect(&variable("DATABASE_URL")?).await?;
    let database = Database::from(pool.clone());
    let utils = WorkerUtils::new(database.clone(), SCHEMA);
    utils.migrate().await?;
    let settings = format!(
        "add_raw_jobs of {ADDED_AT_ONCE}, concurrency {concurrency}, local queue {queue}, completion batches of {delay} ms"
    );
    println!("{}", serde_json::json!({"ready": true, "version": VERSION, "settings": settings}));
    let mut words = BufReader::new(tokio::io::stdin()).lines();
    while let Some(word) = words.next_line().await? {
        let began = Instant::now();
        match word.as_str() {
            "add" => add(&utils, items, &variable("PAYLOAD")?).await?,
            "drain" => {
                let handled = Arc::new(AtomicU64::new(0));
                let options = WorkerOptions::default()
                    .database(database.clone())
                    .schema(SCHEMA)
                    .concurrency(concurrency)
                    .poll_interval(Duration::from_millis(5))
                    .complete_job_batch_delay(Duration::from_millis(delay as u64))
                    .local_queue(LocalQueueConfig::default().with_size(queue))
                    .add_extension(Handled(Arc::clone(&handled)))
                    .define_job::<Pay>();
                drain(options, &pool, items, &handled).await?;
            }
            other => bail!("unknown word: {other}"),
        }
        println!("{}", serde_json::json!({"done": word, "seconds": began.elapsed().as_secs_f64()}));
    }
    Ok(())
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).with_context(|| format!("{name} is missing"))
}

fn number(name: &str, otherwise: usize) -> Result<usize> {
    Ok(std::env::var(name).map_or(Ok(otherwise), |text| text.parse())?)
}

/// Two callers, 5,000 jobs a call.
async fn add(utils: &WorkerUtils, items: u64, payload: &str) -> Result<()> {
    let job = RawJobSpec {
        identifier: Pay::IDENTIFIER.to_owned(),
        payload: serde_json::from_str(payload)?,
        spec: JobSpec::default(),
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
            utils.add_raw_jobs(&vec![job.clone(); part]).await?;
        }
    };
    tokio::try_join!(caller(), caller())?;
    Ok(())
}

async fn drain(options: WorkerOptions, pool: &PgPool, items: u64, handled: &AtomicU64) -> Result<()> {
    let worker = Arc::new(options.init().await?);
    let running = Arc::clone(&worker);
    let running = tokio::spawn(async move { running.run().await });
    // The database is asked only once all handlers have run.
    while handled.load(Ordering::Relaxed) < items {
        ensure!(!running.is_finished(), "the worker ended early");
        tokio::time::sleep(LOOK_EVERY).await;
    }
    while sqlx::query_scalar("select exists (select from graphile_worker._private_jobs)").fetch_one(pool).await? {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let ran = handled.load(Ordering::Relaxed);
    ensure!(ran == items, "{ran} handlers ran for {items} jobs");
    worker.request_shutdown();
    Ok(())
}
