//! Connections that are open and lead nowhere: to a PostgreSQL that has stopped accepting writes (a primary that became a
//! standby, or that its operator made read-only), and to a host that has vanished without closing them.
//!
//! Nothing else would ever close such a connection. After the first rejected write, or when the database is silent, every
//! older connection is closed when a pool would hand it out again or takes it back; the pools check new ones when they are
//! opened. Work that waits for a silent database is given up: its connection would never answer.

use std::{
    pin::pin,
    sync::{
        LazyLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use sqlx::{Connection as _, PgConnection, error::DatabaseError};
use tokio::sync::watch;

/// `read_only_sql_transaction`.
pub(crate) const READ_ONLY: &str = "25006";

/// Begin of the clock of [`LOST`].
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Microseconds from [`START`] to the last rejected write or silence; 0: none so far.
static LOST: AtomicU64 = AtomicU64::new(0);

/// Microseconds from [`START`] to the last time at which work was dropped before its end; 0: none so far.
static DROPPED: AtomicU64 = AtomicU64::new(0);

/// Time within which a pool takes back the connections of dropped work.
const TAKEN_BACK: Duration = Duration::from_secs(1);

/// Time in which a connection of dropped work has to answer: longer than any statement may take.
const DROPPED_WORK_TIMEOUT: Duration = Duration::from_secs(20);

/// Changes when the database is found silent.
static SILENCES: LazyLock<watch::Sender<()>> = LazyLock::new(|| watch::Sender::new(()));

/// Notes the time of an error that a read-only database causes.
pub(crate) fn note(error: &sqlx::Error) {
    if error.as_database_error().and_then(DatabaseError::code).is_some_and(|code| code == READ_ONLY) {
        LOST.fetch_max(now_us(), Ordering::Relaxed);
    }
}

/// Notes that an open connection got no answer: all connections of this process are replaced.
pub fn note_silence() {
    LOST.fetch_max(now_us(), Ordering::Relaxed);
    SILENCES.send_replace(());
}

/// Notes that work is dropped, whose connection may wait for an answer that never comes.
fn note_dropped_work() {
    DROPPED.fetch_max(now_us(), Ordering::Relaxed);
}

/// Returns true if a connection that a pool takes back now is none of dropped work, or answers. Waits for the end of its
/// statement, but not for ever. The pool's own test, which follows, has no limit.
pub(crate) async fn may_be_used_again(connection: &mut PgConnection) -> bool {
    let dropped = DROPPED.load(Ordering::Relaxed);
    let is_of_dropped_work = dropped > 0 && was_open_at(dropped, now_us(), TAKEN_BACK);
    !is_of_dropped_work || answers(connection, DROPPED_WORK_TIMEOUT).await
}

/// Returns true if a connection answers within this time.
pub(crate) async fn answers(connection: &mut PgConnection, limit: Duration) -> bool {
    tokio::time::timeout(limit, connection.ping()).await.is_ok_and(|answer| answer.is_ok())
}

/// Changes when the database is found silent.
pub(crate) fn silences() -> watch::Receiver<()> {
    SILENCES.subscribe()
}

/// Returns true if a connection of this age was open when a write was last rejected, or when the database fell silent.
pub(crate) fn is_suspect(age: Duration) -> bool {
    let lost = LOST.load(Ordering::Relaxed);
    lost > 0 && was_open_at(lost, now_us(), age)
}

fn was_open_at(then_us: u64, now_us: u64, age: Duration) -> bool {
    u128::from(now_us.saturating_sub(then_us)) <= age.as_micros()
}

/// At least 1.
fn now_us() -> u64 {
    u64::try_from(START.elapsed().as_micros()).unwrap_or(u64::MAX).max(1)
}

/// Runs work that waits for the database for at most this time. Returns `None` if that was too short.
pub async fn within<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    until(tokio::time::sleep(limit), work).await
}

/// Runs work until `end`. Work that is dropped, also by a caller that is dropped itself, may leave a connection that waits
/// for an answer.
pub(crate) async fn until<T>(end: impl Future<Output = ()>, work: impl Future<Output = T>) -> Option<T> {
    let mut work = pin!(work);
    // Dropped before the work.
    let unfinished = Unfinished;
    let done = tokio::select! {
        biased;
        done = work.as_mut() => Some(done),
        () = end => None,
    };
    if done.is_some() {
        std::mem::forget(unfinished);
    }
    done
}

/// Notes that work is dropped before its end.
struct Unfinished;

impl Drop for Unfinished {
    fn drop(&mut self) {
        note_dropped_work();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_older_than_a_rejected_write_are_suspect() {
        let (then, now) = (5_000_000, 8_000_000);
        assert!(was_open_at(then, now, Duration::from_secs(4)), "opened at 4 s, rejected at 5 s");
        assert!(was_open_at(then, now, Duration::from_secs(3)), "opened at the same moment");
        assert!(!was_open_at(then, now, Duration::from_secs(2)), "opened at 6 s, rejected at 5 s");
        assert!(!was_open_at(then, now, Duration::ZERO), "just opened");
    }
}
