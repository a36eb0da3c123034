//! Rights that were taken away on other servers, and what opens nothing any more.

use super::Every;
use crate::{
    App,
    auth::look_for_changes,
    store::{people, sign_in},
};

/// Starts them. The first is why a role, a session or a token that is taken away ends everywhere within a
/// second; should it fail, callers are remembered for ten seconds at most.
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
