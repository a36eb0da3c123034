//! Connections that are open and lead nowhere: to a PostgreSQL that has stopped accepting writes (a primary that became a
//! standby, or that its operator made read-only), and to a host that has vanished without closing them.
//!
//! Nothing else would ever close such a connection. After the first rejected write, or when the database is silent, every
//! older connection is closed when a pool would hand it out again or takes it back; the pools check new ones when they are
//! opened. Work that waits for a silent database is given up: its connection would never answer.

use std::{
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

/// Time in which a connection that a pool takes back has to answer, and longest time of a batch that may be dropped: longer
/// than any statement may take.
pub const RELEASE_TIMEOUT: Duration = Duration::from_secs(20);

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

/// Returns true if a connection of this age, which a pool takes back, can be used again. Its work may have been dropped in
/// the middle of a statement: the pool's own test, which follows, would wait for the answer of a host that has vanished.
pub(crate) async fn may_be_used_again(connection: &mut PgConnection, age: Duration) -> bool {
    let mut silences = silences();
    if is_suspect(age) {
        return false;
    }
    tokio::select! {
        is_open = answers(connection, RELEASE_TIMEOUT) => is_open,
        _ = silences.changed() => false,
    }
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
