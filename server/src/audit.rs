//! Audit log entries outside the use cases: the actor of an entry, entries about reads and refusals, and copies of the
//! log.
//!
//! An action is recorded in its own transaction by its use case. This module writes the entries that belong to no
//! transaction; their number is bounded, because repetitions are counted (`repeats`). Nothing here decides permissions.

mod access; // reads and refusals
mod copy; // the log in order, for external copies
mod repeats; // repetitions within one hour

use domain::identity::audit::AuditEntry;
use scopeguard::{ScopeGuard, guard};
use sqlx::PgPool;

use engine::{
    error::Result,
    store::{self, notify::audit::AuditRow},
};

pub(crate) use access::session_row;
pub use access::{
    AuditedRead, Object, record_export, record_read, record_refusal, record_refused_sign_in, record_returned,
    record_share_use,
};
pub use copy::{FinalEntries, LogCursor, export, final_entries};
pub use repeats::Repeats;

/// Writes an entry that belongs to no other transaction.
pub async fn record(pool: &PgPool, row: &AuditRow) -> Result<()> {
    record_all(pool, std::slice::from_ref(row)).await
}

/// Writes entries that belong to no other transaction.
pub async fn record_all(pool: &PgPool, rows: &[AuditRow]) -> Result<()> {
    let mut tx = engine::store::begin(pool).await?;
    store::notify::audit::record_all(&mut tx, rows).await?;
    Ok(store::commit(tx).await?)
}

/// Writes the counts of repetitions whose windows have ended. If they cannot be written, they stay, also if this future
/// is dropped: a silent database ends it. Counts whose commit gets no answer are written again, so the log may have such an
/// entry twice.
pub async fn record_repetitions(pool: &PgPool, repeats: &Repeats) -> Result<()> {
    let rows = guard(repeats.take_finished(), |rows| repeats.put_back(rows));
    record_all(pool, &rows).await?;
    drop(ScopeGuard::into_inner(rows));
    Ok(())
}

/// An entry as a line of NDJSON.
fn line(entry: &AuditEntry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn counts_of_repetitions_stay_if_their_write_is_dropped() {
        let pool = PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/nothing").expect("a pool");
        let repeats = Repeats::default();
        repeats.put_back(vec![AuditRow::by_nobody("session.refuse", None)]);
        assert!(record_repetitions(&pool, &repeats).now_or_never().is_none(), "it waits for the database");
        assert_eq!(repeats.take_finished().len(), 1);
        assert!(repeats.take_finished().is_empty(), "taken once");
    }
}
