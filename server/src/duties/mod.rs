//! Background tasks. Every server runs all of them; they share work by `skip locked` and need no leader. Each finds its
//! work by polling; hints only make it faster. A failed task logs the error and retries; none of them stops.

mod alerts; // alerts about conditions and events
mod audit; // counts, retention and posts of the audit log
mod builtin; // fast built-in executors
mod bulk; // bulk actions and replays
mod callbacks; // callbacks of complete trees
mod credentials; // revocations and expired credentials
mod exporter; // the executor that writes files
mod posts; // messages to configured URLs
mod push; // push requests to workers
mod relay; // from the outbox to the broker
mod retention; // expired trees
mod schedules; // ticks of schedules
mod splitter; // from files to items
mod uploads; // unused files
mod walks; // propagation of decisions to rows

use std::time::Duration;

use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{App, error::Result};

/// Starts all background tasks. They end with `app.shutdown`; wait for the tracker.
pub fn spawn(app: &App, tracker: &TaskTracker) {
    let engine = &app.engine;
    let every = |seconds: f64, name: &'static str| Every {
        name,
        pause: Duration::from_secs_f64(seconds),
        shutdown: app.shutdown.clone(),
    };

    // The clock runs before the lease check: after a downtime, its result spares the leases.
    let e = engine.clone();
    tracker.spawn(every(1.0, "leases").run(move || {
        let e = e.clone();
        async move {
            if e.tick_uptime().await? {
                tracing::info!(
                    "nobody could have received a heartbeat for a while: leases count from five seconds after now"
                );
            }
            e.sweep_leases().await
        }
    }));
    let e = engine.clone();
    tracker.spawn(every(0.25, "due").run(move || {
        let e = e.clone();
        async move { e.sweep_due().await }
    }));
    let e = engine.clone();
    tracker.spawn(every(0.5, "expiry").run(move || {
        let e = e.clone();
        async move { e.sweep_expired().await }
    }));
    let e = engine.clone();
    tracker.spawn(every(5.0, "settle").run(move || {
        let e = e.clone();
        async move { e.sweep_settle().await.map(|_| 0) }
    }));
    let e = engine.clone();
    tracker.spawn(every(0.5, "feeds").run(move || {
        let e = e.clone();
        async move { e.sweep_feeds().await }
    }));
    let e = engine.clone();
    tracker.spawn(every(0.5, "corrections").run(move || {
        let e = e.clone();
        async move { e.sweep_corrections().await }
    }));
    let e = engine.clone();
    tracker.spawn(every(0.5, "deadlines").run(move || {
        let e = e.clone();
        async move { e.sweep_deadlines().await }
    }));
    let e = engine.clone();
    tracker.spawn(every(60.0, "lanes").run(move || {
        let e = e.clone();
        async move { e.sweep_lanes().await }
    }));
    tracker.spawn(walks::run(app.clone()));
    bulk::spawn(app, tracker, every);
    let e = engine.clone();
    tracker.spawn(every(2.0, "waiters").run(move || {
        let e = e.clone();
        async move { e.sweep_waiters().await.map(|_| 0) }
    }));
    let e = engine.clone();
    tracker.spawn(every(1.0, "job types").run(move || {
        let e = e.clone();
        async move { e.refresh_types().await.map(|()| 0) }
    }));
    let e = engine.clone();
    tracker.spawn(every(60.0, "claim ids").run(move || {
        let e = e.clone();
        async move { Ok(e.forget_claims().await? as usize) }
    }));
    let e = engine.clone();
    tracker.spawn(every(60.0, "idempotency keys").run(move || {
        let e = e.clone();
        async move { e.sweep_idempotency().await }
    }));
    schedules::spawn(app, tracker, every);
    retention::spawn(app, tracker, every);
    alerts::spawn(app, tracker, every);
    audit::spawn(app, tracker, every);
    relay::spawn(app, tracker, every);
    credentials::spawn(app, tracker, every);
    let a = app.clone();
    let orphans_at = std::sync::Arc::new(tokio::sync::Mutex::new(None));
    tracker.spawn(every(uploads::pause(app), "uploads").run(move || {
        let (a, orphans_at) = (a.clone(), std::sync::Arc::clone(&orphans_at));
        async move { uploads::tick(&a, &mut *orphans_at.lock().await).await }
    }));
    let e = engine.clone();
    tracker.spawn(every(1.0, "job edits").run(move || {
        let e = e.clone();
        async move { e.refresh_jobs().await.map(|_| 0) }
    }));
    let e = engine.clone();
    tracker.spawn(every(1.0, "figures").run(move || {
        let e = e.clone();
        async move { e.walk_figures().await.map(|_| 0) }
    }));
    let e = engine.clone();
    tracker.spawn(every(3.0, "tallies").run(move || {
        let e = e.clone();
        async move {
            e.keep_figures().await?;
            e.keep_seen().await.map(|_| 0)
        }
    }));
    let e = engine.clone();
    tracker.spawn(every(60.0, "old figures").run(move || {
        let e = e.clone();
        async move {
            e.forget_job_changes().await?;
            Ok((e.forget_figures().await? + e.forget_workers().await?) as usize)
        }
    }));
    tracker.spawn(splitter::run(app.clone()));
    tracker.spawn(builtin::run(app.clone()));
    tracker.spawn(exporter::run(app.clone()));
    tracker.spawn(callbacks::run(app.clone()));
    tracker.spawn(push::run(app.clone()));
    tracker.spawn(posts::run(app.clone()));
    tracker.spawn(crate::rotation::follow(app.clone()));
    tracker.spawn(crate::live::listen(app.hub.clone(), app.engine.clone(), app.pools.clone(), app.shutdown.clone()));
}

/// Periodic task.
struct Every {
    name: &'static str,
    pause: Duration,
    shutdown: CancellationToken,
}

impl Every {
    /// Ticks until shutdown. A tick that finds a full batch is repeated at once; failures extend the pause to up to
    /// five seconds.
    async fn run<F: Future<Output = Result<usize>> + Send>(self, mut tick: impl FnMut() -> F + Send) {
        let mut failures = 0_u32;
        loop {
            let pause = match tick().await {
                Ok(found) => {
                    if failures > 0 {
                        tracing::info!(duty = self.name, "works again");
                    }
                    failures = 0;
                    if found >= MUCH { Duration::ZERO } else { self.pause }
                }
                Err(error) => {
                    failures += 1;
                    if failures.is_power_of_two() {
                        tracing::warn!(duty = self.name, %error, failures, "failed; will try again");
                    }
                    (self.pause * (1 << failures.min(5))).min(Duration::from_secs(5))
                }
            };
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.shutdown.cancelled() => return,
            }
        }
    }
}

/// Number of rows that counts as a full batch.
const MUCH: usize = 500;
