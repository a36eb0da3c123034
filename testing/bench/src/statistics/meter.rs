//! Cost of work: time, commits, write-ahead log, processor time, and wait events of backends.
//!
//! Everything is read from outside the measured work: transaction ids and log positions from PostgreSQL, processor
//! time from `/proc`, wait events by sampling `pg_stat_activity` forty times per second.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use sqlx::{PgPool, Row as _};

/// Interval of the samples.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(25);
/// The unit of processor times in `/proc`, in microseconds.
const TICK_MICROSECONDS: f64 = 10_000.0;

/// Meter of one database.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pool: PgPool,
    /// Process whose time counts, with its children; `None`: this process.
    process: Option<u32>,
}

/// Cost of a piece of work.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(crate) items: f64,
    pub(crate) seconds: f64,
    /// Number of writing transactions.
    pub(crate) commits: f64,
    pub(crate) log_bytes: f64,
    /// Processor time of PostgreSQL, and of this process (server and client; a peer with its children), in microseconds.
    pub(crate) postgres_us: f64,
    pub(crate) process_us: f64,
    /// Wait events of active backends, as shares of all samples.
    pub(crate) wait_shares: Vec<(String, f64)>,
}

impl Cost {
    pub(crate) fn rate(&self) -> f64 {
        self.items / self.seconds
    }

    /// Wait events as text: `working 61 %, Client:ClientRead 20 %`.
    pub(crate) fn waits(&self) -> String {
        let mut text = String::new();
        for (what, share) in self.wait_shares.iter().take(4).filter(|(_, share)| *share >= 0.02) {
            let _ = write!(text, "{}{what} {:.0} %", if text.is_empty() { "" } else { ", " }, share * 100.0);
        }
        text
    }
}

/// Counters at one point in time.
struct Counters {
    at: Instant,
    transactions: i64,
    log: f64,
    postgres: f64,
    process_time: f64,
}

impl Meter {
    /// A meter with connections of its own.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let pool = sqlx::postgres::PgPoolOptions::new().min_connections(2).max_connections(2).connect(url).await?;
        Ok(Self { pool, process: None })
    }

    /// Measures a process and its children instead of this process.
    pub(crate) const fn of(mut self, process: Option<u32>) -> Self {
        self.process = process;
        self
    }

    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Runs the work, which returns its number of items, and measures its cost.
    pub(crate) async fn measure(&self, work: impl Future<Output = Result<u64>>) -> Result<Cost> {
        sqlx::query("checkpoint").execute(&self.pool).await?;
        let over = Arc::new(AtomicBool::new(false));
        let before = self.counters().await?;
        let watch = tokio::spawn(watch(self.pool.clone(), Arc::clone(&over)));
        let items = work.await?;
        let seconds = before.at.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        let wait_shares = watch.await??;
        let after = self.counters().await?;
        ensure!(items > 0, "nothing was done");
        Ok(Cost {
            items: items as f64,
            seconds,
            commits: (after.transactions - before.transactions) as f64,
            log_bytes: after.log - before.log,
            postgres_us: after.postgres - before.postgres,
            process_us: after.process_time - before.process_time,
            wait_shares,
        })
    }

    async fn counters(&self) -> Result<Counters> {
        let row = sqlx::query(
            "select txid_snapshot_xmax(txid_current_snapshot()), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8,
               pg_backend_pid()",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Counters {
            at: Instant::now(),
            transactions: row.get(0),
            log: row.get(1),
            postgres: postgres_time(row.get(2))?,
            process_time: self.process.map_or_else(|| time_of("self").map(|(_, time)| time), time_of_tree)?,
        })
    }
}

/// Samples the wait events of active backends until `over`.
async fn watch(pool: PgPool, over: Arc<AtomicBool>) -> Result<Vec<(String, f64)>> {
    let mut ticks = tokio::time::interval(SAMPLE_INTERVAL);
    let mut wait_shares: BTreeMap<String, f64> = BTreeMap::new();
    while !over.load(Ordering::Relaxed) {
        ticks.tick().await;
        let rows = sqlx::query(
            "select case when state = 'idle in transaction' then 'between statements'
                      when wait_event is null then 'working'
                      else wait_event_type || ':' || wait_event end, count(*)
             from pg_stat_activity
             where state <> 'idle' and pid <> pg_backend_pid() and backend_type = 'client backend' group by 1",
        )
        .fetch_all(&pool)
        .await?;
        for row in rows {
            *wait_shares.entry(row.get(0)).or_default() += row.get::<i64, _>(1) as f64;
        }
    }
    let all: f64 = wait_shares.values().sum();
    let mut shares: Vec<(String, f64)> = wait_shares.into_iter().map(|(what, n)| (what, n / all.max(1.0))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(shares)
}

/// Processor time of all PostgreSQL processes: the siblings of one backend, and those that have ended.
fn postgres_time(backend: i32) -> Result<f64> {
    let (postmaster, _) = time_of(&backend.to_string())?;
    let mut sum = time_of_the_dead(postmaster)?;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) else { continue };
        // A process may have exited.
        if let Ok((parent, time)) = time_of(name)
            && parent == postmaster
        {
            sum += time;
        }
    }
    Ok(sum)
}

/// Processor time of a process with its children and theirs, in microseconds.
fn time_of_tree(process: u32) -> Result<f64> {
    let mut times: BTreeMap<i64, (i64, f64)> = BTreeMap::new();
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str() else { continue };
        if let (Ok(id), Ok(found)) = (name.parse(), time_of(name)) {
            times.insert(id, found);
        }
    }
    let mut sum = 0.0;
    for (&id, &(_, time)) in &times {
        let mut at = id;
        while at != i64::from(process) && at > 1 {
            at = times.get(&at).map_or(0, |&(parent, _)| parent);
        }
        if at == i64::from(process) {
            sum += time;
        }
    }
    Ok(sum)
}

/// The parent of a process, and its processor time in microseconds.
fn time_of(process: &str) -> Result<(i64, f64)> {
    let numbers = stat(process)?;
    Ok((numbers[1], (numbers[11] + numbers[12]) as f64 * TICK_MICROSECONDS))
}

/// Processor time of the children of a process that have ended, in microseconds.
fn time_of_the_dead(parent: i64) -> Result<f64> {
    let numbers = stat(&parent.to_string())?;
    Ok((numbers[13] + numbers[14]) as f64 * TICK_MICROSECONDS)
}

/// Numbers after a process's name: state (as zero), parent, and so on.
fn stat(process: &str) -> Result<Vec<i64>> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("a process without a name")?;
    let numbers: Vec<i64> = fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect();
    ensure!(numbers.len() > 14, "a process without times");
    Ok(numbers)
}

/// Resident memory of a process, in bytes.
pub(crate) fn memory_of(process: u32) -> Result<f64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("a process without memory")?;
    let kilobytes = line.split_whitespace().nth(1).context("a process without memory")?;
    Ok(kilobytes.parse::<f64>()? * 1024.0)
}
