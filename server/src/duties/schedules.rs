//! Ticks of schedules. Servers share the work by locks on the schedules; `jobs::schedules` makes each tick once.

use tokio_util::task::TaskTracker;

use crate::App;

use super::Every;

/// Starts the task.
pub(super) fn spawn(app: &App, tracker: &TaskTracker, every: impl Fn(f64, &'static str) -> Every) {
    let engine = app.engine.clone();
    tracker.spawn(every(0.5, "schedules").run(move || {
        let engine = engine.clone();
        async move { engine.sweep_schedules().await }
    }));
}
