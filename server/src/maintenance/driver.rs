//! Loop of a background task: ticks until shutdown, pauses in between, and backs off after failures.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use tokio_util::task::TaskTracker;

use crate::App;
use engine::{
    error::{Error, Result},
    task::unless_silent,
};

/// Number of rows that counts as a full batch: there may be more.
const FULL_BATCH: usize = 500;

/// Longest pause after failures.
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Starts background tasks of one server.
pub(super) struct Tasks<'a> {
    pub(super) app: &'a App,
    pub(super) tracker: &'a TaskTracker,
}

impl Tasks<'_> {
    /// Starts a task that ticks every `seconds`, and at once again after a full batch. A tick returns the number of rows
    /// that it processed.
    pub(super) fn every<F>(&self, seconds: f64, name: &'static str, mut tick: impl FnMut(App) -> F + Send + 'static)
    where
        F: Future<Output = Result<usize>> + Send + 'static,
    {
        let pause = Duration::from_secs_f64(seconds);
        let tick = move |app| {
            let rows = tick(app);
            async move { Ok(if rows.await? >= FULL_BATCH { Duration::ZERO } else { pause }) }
        };
        self.tracker.spawn(drive(self.app.clone(), name, pause, tick, |_| std::future::pending()));
    }

    /// Starts a task that ticks when `wake` resolves, or after the pause that its last tick returned.
    pub(super) fn on_wake<F, W>(
        &self,
        name: &'static str,
        tick: impl FnMut(App) -> F + Send + 'static,
        wake: impl FnMut(App) -> W + Send + 'static,
    ) where
        F: Future<Output = Result<Duration>> + Send + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.tracker.spawn(drive(self.app.clone(), name, IDLE, tick, wake));
    }
}

/// Pause of a task that is woken and has nothing to do. Other servers do not wake it.
pub(super) const IDLE: Duration = Duration::from_millis(500);

/// Ticks until shutdown. Each failure doubles the pause, from `pause` up to [`LONGEST_BACKOFF`], and is logged at the 1st,
/// 2nd, 4th, 8th … time in a row.
async fn drive<F, W>(
    app: App,
    name: &'static str,
    pause: Duration,
    mut tick: impl FnMut(App) -> F + Send,
    mut wake: impl FnMut(App) -> W + Send,
) where
    F: Future<Output = Result<Duration>> + Send,
    W: Future<Output = ()> + Send,
{
    let mut failures = 0_u32;
    while !app.shutdown.is_cancelled() {
        // A panic is a failure like any other: the task goes on.
        let ticked = AssertUnwindSafe(async { unless_silent(tick(app.clone())).await.flatten() }).catch_unwind().await;
        let pause = match ticked.unwrap_or_else(|_| Err(Error::Broken("a panic, logged above".to_owned()))) {
            Ok(pause) => {
                if failures > 0 {
                    tracing::info!(task = name, failures, "background task recovered");
                }
                failures = 0;
                pause
            }
            Err(error) => backoff(name, pause, &mut failures, &error),
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = wake(app.clone()) => {}
            () = app.shutdown.cancelled() => return,
        }
    }
}

/// Counts and logs a failure; returns the pause before the next try.
pub(super) fn backoff(name: &'static str, pause: Duration, failures: &mut u32, error: &Error) -> Duration {
    *failures += 1;
    if failures.is_power_of_two() {
        tracing::warn!(task = name, %error, failures = *failures, "background task failed, will retry");
    }
    (pause * (1 << (*failures).min(6))).min(LONGEST_BACKOFF)
}
