//! Deletion of expired trees and of their rows.
//!
//! Two tasks, so that purging a large tree does not delay the deletion of others. `jobs::tend` and `jobs::remove`
//! decide what is deleted and when; this module only sets the intervals.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::App;

use super::Every;

/// Starts the tasks.
pub(super) fn spawn(app: &App, tracker: &TaskTracker, every: impl Fn(f64, &'static str) -> Every) {
    let engine = app.engine.clone();
    let stalled_after = Duration::from_secs(app.config.alerts.stalled_seconds);
    tracker.spawn(every(1.0, "retention").run(move || {
        let engine = engine.clone();
        async move { engine.tend(stalled_after).await }
    }));
    let engine = app.engine.clone();
    tracker.spawn(every(1.0, "removed rows").run(move || {
        let engine = engine.clone();
        async move { engine.sweep_removed().await }
    }));
    let engine = app.engine.clone();
    tracker.spawn(every(60.0, "old news").run(move || {
        let engine = engine.clone();
        async move { engine.forget_old().await }
    }));
}
