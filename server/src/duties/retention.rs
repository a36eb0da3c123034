//! Trees whose time has come, and the rows of those that are gone.
//!
//! Two duties, so that a large tree whose rows take a while does not hold up the next one's end. What
//! goes and when is decided in `jobs::tend` and `jobs::remove`; here is only how often.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::App;

use super::Every;

/// Starts them.
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
