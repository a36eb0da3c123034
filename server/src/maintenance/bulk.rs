//! Bulk actions and replays of trees that are in progress on any server.
//!
//! Operations requested here start at once; polling finds those of other servers and of crashes. `jobs::bulk` and
//! `jobs::replay` define the work and its idempotency.

use std::time::Duration;

use super::driver::{IDLE, Tasks};

/// Starts the tasks.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    let operations = |app: crate::App| async move { app.engine.sweep_bulk().await };
    tasks.on_wake("bulk operations", operations, |app| async move { app.engine.bulk_requested().await });
    let replays =
        |app: crate::App| async move { Ok(if app.engine.sweep_replays().await? > 0 { Duration::ZERO } else { IDLE }) };
    tasks.on_wake("replays", replays, |app| async move { app.engine.replay_requested().await });
    tasks.every(60.0, "old bulk operations", |app| async move { app.engine.delete_old_bulk_operations().await });
}
