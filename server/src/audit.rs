//! Audit log entries outside the use cases: the actor of an entry, entries about reads and refusals, and copies of the
//! log.
//!
//! An action is recorded in its own transaction by its use case. This module writes the entries that belong to no
//! transaction; their number is bounded, because repetitions are counted (`repeats`). Nothing here decides permissions.

mod access; // reads and refusals
mod copy; // the log in order, for external copies
mod repeats; // repetitions within one hour

use domain::identity::audit::AuditEntry;
use sqlx::PgPool;

use engine::{
    error::Result,
    store::{self, notify::audit::AuditRow},
};

pub(crate) use access::session_row;
pub use access::{
    AuditedRead, Object, record_export, record_read, record_refusal, record_refused_sign_in, record_share_use,
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

/// An entry as a line of NDJSON.
fn line(entry: &AuditEntry) -> Vec<u8> {
    let mut line = serde_json::to_vec(entry).unwrap_or_default();
    line.push(b'\n');
    line
}
