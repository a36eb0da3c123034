//! Background tasks, by role. Servers share the work by `skip locked` and need no leader. Each task finds its work by
//! polling; hints only make it faster. A failed task logs the error and retries; none of them stops.

mod alert_channels; // messages about alerts
mod alert_posts; // messages to configured URLs
mod alerts; // alerts about conditions and events
mod audit; // counts, retention and posts of the audit log
mod builtin; // fast built-in executors
mod bulk; // bulk actions and replays
mod callbacks; // callbacks of complete trees
mod credentials; // revocations and expired credentials
mod driver; // the loop of a task
mod exporter; // the executor that writes files
mod imports; // from files to items
mod notices; // notices to people
mod push; // push requests to workers
mod relay; // from the outbox to the broker
mod retention; // expired trees
mod uploads; // unused files

use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::{App, config::roles::Role};

use driver::{IDLE, Tasks};

/// Longest time for the last counts of a server that stops.
const LAST_WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// Starts the background tasks of the server's roles. They end with `app.shutdown`; wait for the tracker.
pub fn spawn(app: &App, tracker: &TaskTracker) {
    let tasks = Tasks { app, tracker };
    every_process(&tasks);
    let roles = &app.config.roles;
    if roles.has(Role::Web) {
        // Leases count only while workers can reach a server (`lease-expiry`).
        tasks.every(1.0, "uptime", |app| async move {
            if app.engine.tick_uptime().await? {
                tracing::info!("service resumed: leases count from five seconds from now");
            }
            Ok(0)
        });
    }
    if roles.has(Role::Maintenance) {
        maintenance(&tasks);
    }
    if roles.has(Role::Push) {
        tracker.spawn(callbacks::run(app.clone()));
        tracker.spawn(push::run(app.clone()));
        alert_posts::spawn(&tasks);
        audit::spawn_posting(&tasks);
    }
    if roles.has(Role::Split) {
        imports::spawn(&tasks);
        tracker.spawn(builtin::run(app.clone()));
        tracker.spawn(exporter::run(app.clone()));
    }
}

/// Writes what this process has counted and not written yet, when it stops. Waits only briefly for a database that is away.
pub async fn write_counts(app: &App) {
    let write = async {
        app.engine.write_activity_counters().await?;
        app.engine.write_error_counters().await?;
        app.engine.write_seen_workers().await?;
        crate::audit::record_all(&app.pool, &app.repeats.take_all()).await
    };
    match tokio::time::timeout(LAST_WRITE_TIMEOUT, write).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::warn!(%error, "writing the last counts failed"),
        Err(_) => tracing::warn!("writing the last counts timed out"),
    }
}

/// Tasks of every process: its caches, its counters, and its connection to the other servers.
fn every_process(tasks: &Tasks<'_>) {
    let Tasks { app, tracker } = tasks;
    tasks.every(5.0, "connections", |app| async move { Ok(app.pools.open_in_advance().await.map(|()| 0)?) });
    tasks.every(2.0, "waiting claims", |app| async move { app.engine.sweep_waiters().await.map(|_| 0) });
    tasks.every(1.0, "job types", |app| async move { app.engine.refresh_types().await.map(|()| 0) });
    tasks.every(1.0, "job edits", |app| async move { app.engine.refresh_jobs().await.map(|_| 0) });
    tasks.every(3.0, "activity counters", |app| async move {
        app.engine.write_activity_counters().await?;
        app.engine.write_error_counters().await?;
        app.engine.write_seen_workers().await.map(|_| 0)
    });
    credentials::spawn_changes(tasks);
    audit::spawn_counts(tasks);
    tracker.spawn(crate::rotation::follow((*app).clone()));
    tracker.spawn(crate::live::listen(app.hub.clone(), app.engine.clone(), app.pools.clone(), app.shutdown.clone()));
}

fn maintenance(tasks: &Tasks<'_>) {
    tasks.every(1.0, "leases", |app| async move { app.engine.sweep_leases().await });
    tasks.every(0.25, "due items", |app| async move { app.engine.sweep_due().await });
    tasks.every(0.5, "expiry", |app| async move { app.engine.sweep_expired().await });
    tasks.every(5.0, "tree completion", |app| async move { app.engine.sweep_completion_checks().await.map(|_| 0) });
    tasks.every(0.5, "feeds", |app| async move { app.engine.sweep_feeds().await });
    tasks.every(0.5, "corrections", |app| async move { app.engine.sweep_corrections().await });
    tasks.every(0.5, "deadlines", |app| async move { app.engine.sweep_deadlines().await });
    tasks.every(1.0, "parked items", |app| async move { app.engine.sweep_parked_items().await });
    tasks.every(1.0, "muted errors", |app| async move { app.engine.end_mutes().await });
    tasks.every(60.0, "rate windows", |app| async move { app.engine.delete_old_rate_windows().await });
    tasks.every(60.0, "fair groups", |app| async move { app.engine.delete_idle_fair_groups().await });
    tasks.every(60.0, "serialize queues", |app| async move { app.engine.sweep_serialize_queues().await });
    tasks.on_wake("propagation", propagate, |app| async move { app.engine.propagation_requested().await });
    tasks.on_wake("interrupted edits", continue_edits, |_| std::future::pending());
    bulk::spawn(tasks);
    tasks.every(60.0, "claim ids", |app| async move { Ok(app.engine.delete_old_claim_ids().await? as usize) });
    tasks.every(60.0, "idempotency keys", |app| async move { app.engine.sweep_idempotency().await });
    tasks.every(
        0.5,
        "schedules",
        |app| async move { app.engine.sweep_schedules(&|| app.traces.begun("schedule")).await },
    );
    retention::spawn(tasks);
    alerts::spawn(tasks);
    alert_channels::spawn(tasks);
    notices::spawn(tasks);
    audit::spawn_retention(tasks);
    relay::spawn(tasks);
    credentials::spawn_cleanup(tasks);
    uploads::spawn(tasks);
    tasks.every(1.0, "statistics", |app| async move { app.engine.scan_type_statistics().await.map(|_| 0) });
    tasks.every(60.0, "old edits", |app| async move { Ok(app.engine.delete_old_job_changes().await? as usize) });
    tasks.every(60.0, "old errors", |app| async move { Ok(app.engine.delete_old_error_history().await? as usize) });
    tasks.every(60.0, "old workers", |app| async move { Ok(app.engine.delete_old_workers().await? as usize) });
    tasks.every(60.0, "old statistics", |app| async move { Ok(app.engine.delete_old_activity().await? as usize) });
}

/// Propagates decisions to the rows of their jobs: at once for those of this process, and by polling for those of other
/// servers and of crashes.
async fn propagate(app: App) -> engine::error::Result<Duration> {
    Ok(pause_after(app.engine.sweep_propagations().await?))
}

/// Continues edits of jobs that were interrupted.
async fn continue_edits(app: App) -> engine::error::Result<Duration> {
    Ok(pause_after(app.engine.sweep_job_edits().await?))
}

/// None while there may be more to do.
fn pause_after(open: usize) -> Duration {
    if open > 0 { Duration::ZERO } else { IDLE }
}
