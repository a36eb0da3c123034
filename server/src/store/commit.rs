//! The one place where transactions of the server are committed, so that a crash just before and just
//! after each of them can be tested: no write has a road of its own.
//!
//! Statements that commit by themselves (a heartbeat, a hint) have no such edge: they are one with it.

use std::panic::Location;

use super::Tx;
use crate::failpoints;

/// Commits. Where a crash is asked for at the file that calls, the process ends before or after it.
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
