//! Deletion of unused files.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::Mutex;

use super::driver::Tasks;
use crate::{App, uploads};
use engine::error::Result;

/// Interval of the search for orphaned objects in the store.
const ORPHANS: Duration = Duration::from_hours(1);

/// Minimum age of an orphaned object that is deleted. To a database that was restored from a dump, files that were
/// uploaded after the dump seem to be orphans.
const ORPHAN_AGE: Duration = Duration::from_hours(7 * 24);

/// Starts the task. Its interval is short enough for a short lifetime of uploads.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    let pause = (f64::from(tasks.app.config.files.upload_ttl_seconds) / 4.0).clamp(0.5, 60.0);
    let orphans_at = Arc::new(Mutex::new(None));
    tasks.every(pause, "uploads", move |app| {
        let orphans_at = Arc::clone(&orphans_at);
        async move { tick(&app, &mut *orphans_at.lock().await).await }
    });
}

/// Checks the rows, and at intervals the store.
async fn tick(app: &App, orphans_at: &mut Option<Instant>) -> Result<usize> {
    let ttl = Duration::from_secs(app.config.files.upload_ttl_seconds.into());
    while uploads::sweep(&app.pool, &app.files, ttl).await? && !app.shutdown.is_cancelled() {}
    if orphans_at.is_none_or(|at| at.elapsed() > ORPHANS) {
        *orphans_at = Some(Instant::now());
        uploads::sweep_orphans(&app.pool, &app.files, ORPHAN_AGE).await?;
    }
    Ok(0)
}
