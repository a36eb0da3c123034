//! Bulk actions and replays of trees that are in progress on any server.
//!
//! Operations requested here start at once; polling finds those of other servers and of crashes. `jobs::bulk` and
//! `jobs::replay` define the work and its idempotency.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::App;

use super::Every;

/// Poll interval.
const IDLE: Duration = Duration::from_millis(500);
/// Longest pause after failures.
const PATIENCE: Duration = Duration::from_secs(5);

/// Starts the tasks.
pub(super) fn spawn(app: &App, tracker: &TaskTracker, every: impl Fn(f64, &'static str) -> Every) {
    tracker.spawn(operations(app.clone()));
    tracker.spawn(replays(app.clone()));
    let engine = app.engine.clone();
    tracker.spawn(every(60.0, "old bulk operations").run(move || {
        let engine = engine.clone();
        async move { engine.forget_bulk().await }
    }));
}

async fn operations(app: App) {
    let mut failures = 0_u32;
    while !app.shutdown.is_cancelled() {
        let pause = match app.engine.sweep_bulk().await {
            Ok(pause) => {
                failures = 0;
                pause
            }
            Err(error) => after("bulk operations", &mut failures, &error),
        };
        if pause.is_zero() {
            continue;
        }
        tokio::select! {
            () = app.engine.bulk_asked() => {}
            () = tokio::time::sleep(pause) => {}
            () = app.shutdown.cancelled() => {}
        }
    }
}

async fn replays(app: App) {
    let mut failures = 0_u32;
    while !app.shutdown.is_cancelled() {
        let pause = match app.engine.sweep_replays().await {
            Ok(0) => {
                failures = 0;
                IDLE
            }
            Ok(_) => Duration::ZERO,
            Err(error) => after("replays", &mut failures, &error),
        };
        if pause.is_zero() {
            continue;
        }
        tokio::select! {
            () = app.engine.replay_asked() => {}
            () = tokio::time::sleep(pause) => {}
            () = app.shutdown.cancelled() => {}
        }
    }
}

/// Delay after a failure.
fn after(duty: &'static str, failures: &mut u32, error: &crate::error::Error) -> Duration {
    *failures += 1;
    if failures.is_power_of_two() {
        tracing::warn!(duty, %error, failures, "failed; will try again");
    }
    (IDLE * (1 << (*failures).min(5))).min(PATIENCE)
}
