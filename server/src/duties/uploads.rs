//! Files that nobody needs any more.

use std::time::{Duration, Instant};

use crate::{App, error::Result, uploads};

/// How often the store is looked through for objects that nobody knows of, and how old they are then.
const ORPHANS: Duration = Duration::from_mins(10);
const ORPHAN_AGE: Duration = Duration::from_hours(1);

/// How long to wait between two looks, in seconds: often enough for what stays only a short while.
pub(super) fn pause(app: &App) -> f64 {
    (f64::from(app.config.files.upload_ttl_seconds) / 4.0).clamp(0.5, 60.0)
}

/// One look at the rows, and now and then one at the store.
pub(super) async fn tick(app: &App, orphans_at: &mut Option<Instant>) -> Result<usize> {
    let ttl = Duration::from_secs(app.config.files.upload_ttl_seconds.into());
    while uploads::sweep(&app.pool, &app.files, ttl).await? && !app.shutdown.is_cancelled() {}
    if orphans_at.is_none_or(|at| at.elapsed() > ORPHANS) {
        *orphans_at = Some(Instant::now());
        uploads::sweep_orphans(&app.pool, &app.files, ORPHAN_AGE).await?;
    }
    Ok(0)
}
