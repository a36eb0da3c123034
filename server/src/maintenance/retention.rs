//! Deletion of expired trees and of their rows.
//!
//! Two tasks, so that purging a large tree does not delay the deletion of others. `retention::due_trees` and
//! `retention::tree_deletion` decide what is deleted and when; this module only sets the intervals.

use std::time::Duration;

use engine::store::notify::outbound_posts;

use super::driver::Tasks;

/// Starts the tasks.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    let stalled_after = Duration::from_secs(tasks.app.config.alerts.stalled_seconds);
    tasks.every(1.0, "retention", move |app| async move { app.engine.check_due_trees(stalled_after).await });
    tasks.every(1.0, "purge", |app| async move { app.engine.purge_deleted_trees().await });
    tasks.every(60.0, "old records", |app| async move { app.engine.delete_expired_records().await });
    let give_up = tasks.app.config.outbound.callback_give_up_seconds;
    tasks.every(60.0, "old messages", move |app| async move {
        let messages = outbound_posts::forget(&app.pool, give_up).await?;
        if messages > 0 {
            tracing::warn!(
                messages,
                "removed messages that no server sends: is TREELINE_ALERT_URL set where the role push runs?"
            );
        }
        Ok(messages as usize)
    });
}
