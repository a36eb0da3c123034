//! Reads of pages and lists from a hot standby, if there is one: never for decisions, and never older than the request.
//!
//! A request asks the primary for the end of its write-ahead log, which no acknowledged commit is behind, and the
//! standby to have replayed it. PostgreSQL before 19 cannot wait for a position, so the standby is asked a few times.
//! Several standbys may share one address, so every connection is asked again when the pool hands it out.
//!
//! Positions are compared only within one cluster, one database and one timeline: after a failover, a standby may have
//! replayed what the new primary never had. A standby learns of a new timeline with its first restartpoint.

use std::{
    str::FromStr,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use sqlx::{
    PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tokio::time::{Instant, sleep, timeout};

use crate::{
    primary::{RELEASE_TIMEOUT, answers},
    read_source::{self, Choice, Miss, Position, ReadSource},
};

/// Wait for a connection to the standby.
const WAIT: Duration = Duration::from_millis(250);
/// Time after which the standby does not answer.
const LONGEST_ANSWER: Duration = Duration::from_millis(500);
/// Time in which a standby may catch up with a request, asked after 1, 2, 4, 8, 16 and 32 ms.
const CATCH_UP: Duration = Duration::from_millis(100);
/// Time for which a standby is left alone.
const PAUSE_BEHIND: Duration = Duration::from_secs(1);
const PAUSE_UNAVAILABLE: Duration = Duration::from_secs(5);

/// A hot standby of the primary. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Standby {
    pub(super) pool: PgPool,
    pause: Arc<Mutex<Option<(Instant, Miss)>>>,
}

/// Answer of a server that should be a standby.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Reached,
    Behind,
    /// Not in recovery, or of another cluster or database.
    NotAStandby,
}

impl Standby {
    /// Opens a pool of `size` connections, each when it is first needed.
    pub(super) fn open(url: &str, size: u32, settings: &[(&str, &str)]) -> Result<Self, sqlx::Error> {
        let options = PgConnectOptions::from_str(url)?
            .options(settings.iter().copied().chain([("statement_timeout", "10s")]))
            .statement_cache_capacity(600);
        let pool = PgPoolOptions::new()
            .max_connections(size)
            .acquire_timeout(WAIT)
            .test_before_acquire(false)
            .after_connect(|connection, _| Box::pin(check(connection)))
            .before_acquire(|connection, _| {
                Box::pin(async move {
                    check(connection).await?;
                    Ok(true)
                })
            })
            .after_release(|connection, _| Box::pin(async move { Ok(answers(connection, RELEASE_TIMEOUT).await) }))
            .connect_lazy_with(options);
        Ok(Self { pool, pause: Arc::default() })
    }

    /// Returns true if the current request reads from this standby. Its first call makes the choice.
    pub(super) async fn is_chosen(&self, primary: &PgPool) -> bool {
        let Some(source) = read_source::current() else { return false };
        matches!(source.choice.get_or_init(|| self.choose(primary)).await, Choice::Standby(..))
    }

    async fn choose(&self, primary: &PgPool) -> Choice {
        if let Some(miss) = self.paused() {
            return Choice::Primary(miss);
        }
        let chosen = self.catch_up(primary).await;
        if let Choice::Primary(miss) = &chosen {
            self.leave_alone(miss);
        }
        chosen
    }

    async fn catch_up(&self, primary: &PgPool) -> Choice {
        let unavailable = |error: String| Choice::Primary(Miss::Unavailable(error));
        let position = match position(primary).await {
            Ok(position) => position,
            Err(error) => return unavailable(format!("the primary does not say its position: {error}")),
        };
        let until = Instant::now() + CATCH_UP;
        let asked = async {
            let mut connection = self.pool.acquire().await?;
            progress_until(&mut connection, &position, until).await
        };
        match timeout(LONGEST_ANSWER, asked).await.unwrap_or(Err(sqlx::Error::PoolTimedOut)) {
            Ok(Progress::Reached) => Choice::Standby(position, until),
            Ok(Progress::Behind) => Choice::Primary(Miss::Behind),
            Ok(Progress::NotAStandby) => unavailable("the server is not a standby of this database".to_owned()),
            Err(error) => unavailable(error.to_string()),
        }
    }

    /// Counts a request that has read something. Returns true if its response must not be sent, because the standby
    /// failed or was behind, or because the response is doubtful: the request then runs again, on the primary.
    pub fn must_repeat(&self, source: &ReadSource, is_doubtful: bool) -> bool {
        let (miss, outcome) = match (source.choice.get(), source.miss()) {
            (None, _) => return false,
            (Some(Choice::Primary(miss)), _) => {
                count(outcome_of(miss));
                return false;
            }
            (Some(Choice::Standby(..)), Some(miss)) => (Some(miss.clone()), outcome_of(&miss)),
            (Some(Choice::Standby(..)), None) if is_doubtful => (None, "repeated"),
            (Some(Choice::Standby(..)), None) => (None, "standby"),
        };
        count(outcome);
        if let Some(miss) = &miss {
            self.leave_alone(miss);
        }
        outcome != "standby"
    }

    /// Notes that a request waits for an answer in vain.
    pub fn give_up(&self, source: &ReadSource) {
        source.missed(Miss::Unavailable("no answer".to_owned()));
    }

    /// Reason for a pause that is not over.
    fn paused(&self) -> Option<Miss> {
        let pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        pause.as_ref().filter(|(until, _)| Instant::now() < *until).map(|(_, miss)| miss.clone())
    }

    /// Leaves the standby alone for a while. Logs that it is unavailable, once per pause.
    fn leave_alone(&self, miss: &Miss) {
        let length = if *miss == Miss::Behind { PAUSE_BEHIND } else { PAUSE_UNAVAILABLE };
        let now = Instant::now();
        let mut pause = self.pause.lock().unwrap_or_else(PoisonError::into_inner);
        let is_logged = pause.as_ref().is_some_and(|(until, earlier)| now < *until && *earlier != Miss::Behind);
        if is_logged {
            return;
        }
        if let Miss::Unavailable(error) = miss {
            tracing::warn!(error, "standby unavailable: pages read from the primary");
        }
        *pause = Some((now + length, miss.clone()));
    }
}

const fn outcome_of(miss: &Miss) -> &'static str {
    match miss {
        Miss::Behind => "behind",
        Miss::Unavailable(_) => "unavailable",
    }
}

fn count(outcome: &'static str) {
    metrics::counter!("treeline_standby_reads_total", "outcome" => outcome).increment(1);
}

/// Checks a connection that the pool is about to hand out. If its server is behind, the whole request is repeated.
async fn check(connection: &mut PgConnection) -> Result<(), sqlx::Error> {
    let Some(source) = read_source::current() else { return Ok(()) };
    // The connection that the choice is made with is asked by itself.
    let Some(Choice::Standby(position, until)) = source.choice.get() else { return Ok(()) };
    match progress_until(connection, position, *until).await? {
        Progress::Reached => {}
        Progress::Behind => source.missed(Miss::Behind),
        Progress::NotAStandby => source.missed(Miss::Unavailable("the server is no longer a standby".to_owned())),
    }
    Ok(())
}

/// Position that no acknowledged commit is behind. Without flushes at commits, that is the end of what was written.
async fn position(primary: &PgPool) -> Result<Position, sqlx::Error> {
    let (lsn, timeline, system, database): (String, String, i64, String) = sqlx::query_as(
        "select lsn::text, left(pg_walfile_name(lsn), 8), (select system_identifier from pg_control_system()), \
                current_database()::text \
         from (select case current_setting('synchronous_commit') when 'off' then pg_current_wal_insert_lsn() \
                      else pg_current_wal_flush_lsn() end as lsn) as written",
    )
    .fetch_one(primary)
    .await?;
    let timeline = i32::from_str_radix(&timeline, 16).map_err(|error| sqlx::Error::Decode(error.into()))?;
    Ok(Position { lsn, timeline, system, database })
}

/// Asks a server until it has reached a position, or the time is over.
async fn progress_until(
    connection: &mut PgConnection,
    position: &Position,
    until: Instant,
) -> Result<Progress, sqlx::Error> {
    let mut pause = Duration::from_millis(1);
    loop {
        let progress = progress(connection, position).await?;
        if progress != Progress::Behind || Instant::now() + pause > until {
            return Ok(progress);
        }
        sleep(pause).await;
        pause *= 2;
    }
}

async fn progress(connection: &mut PgConnection, position: &Position) -> Result<Progress, sqlx::Error> {
    let (is_standby, is_reached): (bool, bool) = sqlx::query_as(
        "select pg_is_in_recovery() and current_database() = $4 \
                and (select system_identifier = $3 from pg_control_system()), \
                coalesce(pg_last_wal_replay_lsn() >= $1::text::pg_lsn, false) \
                and $2 = (select greatest(saved.timeline_id, reached.min_recovery_end_timeline) \
                          from pg_control_checkpoint() as saved, pg_control_recovery() as reached)",
    )
    .bind(&position.lsn)
    .bind(position.timeline)
    .bind(position.system)
    .bind(&position.database)
    .fetch_one(connection)
    .await?;
    Ok(match (is_standby, is_reached) {
        (true, true) => Progress::Reached,
        (true, false) => Progress::Behind,
        (false, _) => Progress::NotAStandby,
    })
}
