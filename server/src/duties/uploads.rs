//! Deletion of unused files.

use std::time::{Duration, Instant};

use crate::{App, error::Result, uploads};

/// Interval of the search for orphaned objects in the store, and their minimum age.
const ORPHANS: Duration = Duration::from_mins(10);
const ORPHAN_AGE: Duration = Duration::from_hours(1);

/// Poll interval in seconds: short enough for a short lifetime of uploads.
pub(super) fn pause(app: &App) -> f64 {
    (f64::from(app.config.files.upload_ttl_seconds) / 4.0).clamp(0.5, 60.0)
}

/// Checks the rows, and at intervals the store.
pub(super) async fn tick(app: &App, orphans_at: &mut Option<Instant>) -> Result<usize> {
    let ttl = Duration::from_secs(app.config.files.upload_ttl_seconds.into());
    while uploads::sweep(&app.pool, &app.files, ttl).await? && !app.shutdown.is_cancelled() {}
    if orphans_at.is_none_or(|at| at.elapsed() > ORPHANS) {
        *orphans_at = Some(Instant::now());
        uploads::sweep_orphans(&app.pool, &app.files, ORPHAN_AGE).await?;
    }
    Ok(0)
}
