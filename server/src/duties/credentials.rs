//! Revocations made by other servers, and deletion of expired credentials.

use super::Every;
use crate::{
    App,
    auth::look_for_changes,
    store::{people, sign_in},
};

/// Starts the tasks. The first makes a revoked role, session or token end everywhere within a second; if it fails, the
/// cache of callers still expires after ten seconds.
pub(super) fn spawn(app: &App, tracker: &tokio_util::task::TaskTracker, every: impl Fn(f64, &'static str) -> Every) {
    let a = app.clone();
    tracker.spawn(every(0.25, "credentials").run(move || {
        let a = a.clone();
        async move { look_for_changes(&a).await.map(|()| 0) }
    }));
    let a = app.clone();
    tracker.spawn(every(60.0, "failed sign-ins").run(move || {
        let a = a.clone();
        async move {
            sign_in::forget(&a.pool).await?;
            Ok(0)
        }
    }));
    let a = app.clone();
    tracker.spawn(every(3_600.0, "old credentials").run(move || {
        let a = a.clone();
        async move {
            people::forget(&a.pool).await?;
            Ok(0)
        }
    }));
}
