//! Beginning and commit of all transactions of the server, so that a crash just before and just after each commit can be
//! tested. No write uses another path.
//!
//! Work that collides with another transaction is repeated in `flush` (batches), in `dispatch/sweep.rs` (sweeps), and in
//! `task/conflict_retries.rs` (everything else).
//!
//! Statements in their own implicit transaction (a heartbeat, a hint) have no such test point.

use std::{panic::Location, time::Duration};

use futures::future::BoxFuture;
use sqlx::PgPool;

use super::Tx;
use crate::failpoints;

/// Begins a transaction. The future is boxed: it has 14 kB, because it may open a connection, and every future that waits
/// for it would be larger by as much, those of requests among them.
pub fn begin(pool: &PgPool) -> BoxFuture<'_, Result<Tx, sqlx::Error>> {
    Box::pin(pool.begin())
}

/// Rolls back a transaction whose work failed, and returns the error. A transaction that is only dropped holds its locks
/// until its connection has been taken back: work that runs again at once would skip the rows that it has locked itself.
pub async fn roll_back<E>(tx: Tx, error: E) -> E {
    if let Err(failed) = tx.rollback().await {
        // Then the connection is broken, and PostgreSQL rolls back.
        tracing::debug!(error = %failed, "rolling back failed");
    }
    error
}

/// Shortest wait for a lock after which [`deduct_lock_wait`] shortens the timeout.
const LONG_WAIT: Duration = Duration::from_secs(4);

/// PostgreSQL applies the lock timeout to each lock. After a long wait, this shortens it by that wait for the rest of the
/// transaction (to at least 1 s).
pub async fn deduct_lock_wait(tx: &mut Tx, waited: Duration) -> Result<(), sqlx::Error> {
    if waited < LONG_WAIT {
        return Ok(());
    }
    sqlx::query!(
        "select set_config(
           'lock_timeout',
           greatest(extract(epoch from current_setting('lock_timeout')::interval) * 1000 - $1::float8, 1000)::int::text,
           true)",
        waited.as_secs_f64() * 1000.0
    )
    .fetch_one(&mut **tx)
    .await?;
    Ok(())
}

/// Commits. If a failpoint asks for a crash at the calling file, the process ends before or after the commit.
#[track_caller]
pub fn commit(tx: Tx) -> impl Future<Output = Result<(), sqlx::Error>> {
    let file = Location::caller().file();
    async move {
        failpoints::crash("before_commit", file);
        #[cfg(feature = "failpoints")]
        if failpoints::broken("answer_first", file) {
            failpoints::commit_late(tx);
            return Ok(());
        }
        tx.commit().await?;
        failpoints::crash("after_commit", file);
        Ok(())
    }
}
