//! What one piece of work cost: time, commits, write-ahead log, processor, and what backends waited for.
//!
//! Everything is read from outside the work: transaction ids and log positions from PostgreSQL, processor
//! time from `/proc`, waits by looking at `pg_stat_activity` forty times a second. It must not take part.

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

/// How often the backends are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(25);
/// The unit of processor times in `/proc`, in microseconds.
const TICK_MICROSECONDS: f64 = 10_000.0;

/// Looks at one database.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    pool: PgPool,
}

/// What a piece of work cost.
#[derive(Clone, Debug)]
pub(crate) struct Cost {
    pub(crate) items: f64,
    pub(crate) seconds: f64,
    /// Transactions that wrote.
    pub(crate) commits: f64,
    pub(crate) log_bytes: f64,
    /// Processor time of PostgreSQL, and of this process (server and client), in microseconds.
    pub(crate) postgres_us: f64,
    pub(crate) own_us: f64,
    /// What backends in a transaction were seen doing, as shares of all sightings.
    pub(crate) seen: Vec<(String, f64)>,
}

impl Cost {
    pub(crate) fn rate(&self) -> f64 {
        self.items / self.seconds
    }

    /// What backends did, in words: `working 61 %, Client:ClientRead 20 %`.
    pub(crate) fn waits(&self) -> String {
        let mut text = String::new();
        for (what, share) in self.seen.iter().take(4).filter(|(_, share)| *share >= 0.02) {
            let _ = write!(text, "{}{what} {:.0} %", if text.is_empty() { "" } else { ", " }, share * 100.0);
        }
        text
    }
}

/// Counters at one moment.
struct Moment {
    at: Instant,
    transactions: i64,
    log: f64,
    postgres: f64,
    own: f64,
}

impl Meter {
    /// A meter with connections of its own.
    pub(crate) async fn connect(url: &str) -> Result<Self> {
        let pool = sqlx::postgres::PgPoolOptions::new().min_connections(2).max_connections(2).connect(url).await?;
        Ok(Self { pool })
    }

    pub(crate) const fn pool(&self) -> &PgPool {
        &self.pool
    }

    /// Does the work and says what it cost. The work answers how many items it was.
    pub(crate) async fn measure(&self, work: impl Future<Output = Result<u64>>) -> Result<Cost> {
        sqlx::query("checkpoint").execute(&self.pool).await?;
        let over = Arc::new(AtomicBool::new(false));
        let before = self.moment().await?;
        let watch = tokio::spawn(watch(self.pool.clone(), Arc::clone(&over)));
        let items = work.await?;
        let seconds = before.at.elapsed().as_secs_f64();
        over.store(true, Ordering::Relaxed);
        let seen = watch.await??;
        let after = self.moment().await?;
        ensure!(items > 0, "nothing was done");
        Ok(Cost {
            items: items as f64,
            seconds,
            commits: (after.transactions - before.transactions) as f64,
            log_bytes: after.log - before.log,
            postgres_us: after.postgres - before.postgres,
            own_us: after.own - before.own,
            seen,
        })
    }

    async fn moment(&self) -> Result<Moment> {
        let row = sqlx::query(
            "select txid_snapshot_xmax(txid_current_snapshot()), pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8,
               pg_backend_pid()",
        )
        .fetch_one(&self.pool)
        .await?;
        Ok(Moment {
            at: Instant::now(),
            transactions: row.get(0),
            log: row.get(1),
            postgres: postgres_time(row.get(2))?,
            own: time_of("self")?.1,
        })
    }
}

/// Counts what backends that do something are doing, until told to stop.
async fn watch(pool: PgPool, over: Arc<AtomicBool>) -> Result<Vec<(String, f64)>> {
    let mut ticks = tokio::time::interval(LOOK_EVERY);
    let mut seen: BTreeMap<String, f64> = BTreeMap::new();
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
            *seen.entry(row.get(0)).or_default() += row.get::<i64, _>(1) as f64;
        }
    }
    let all: f64 = seen.values().sum();
    let mut shares: Vec<(String, f64)> = seen.into_iter().map(|(what, n)| (what, n / all.max(1.0))).collect();
    shares.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(shares)
}

/// Processor time of all of PostgreSQL's processes that live: the siblings of one backend.
fn postgres_time(backend: i32) -> Result<f64> {
    let (postmaster, _) = time_of(&backend.to_string())?;
    let mut sum = 0.0;
    for entry in std::fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.bytes().all(|b| b.is_ascii_digit())) else { continue };
        // A process may be gone by now.
        if let Ok((parent, time)) = time_of(name)
            && parent == postmaster
        {
            sum += time;
        }
    }
    Ok(sum)
}

/// The parent of a process, and its processor time in microseconds.
fn time_of(process: &str) -> Result<(i64, f64)> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let (_, fields) = stat.rsplit_once(") ").context("a process without a name")?;
    let fields: Vec<&str> = fields.split(' ').collect();
    let number = |at: usize| fields.get(at).and_then(|field| field.parse::<i64>().ok()).unwrap_or(0);
    Ok((number(1), (number(11) + number(12)) as f64 * TICK_MICROSECONDS))
}
