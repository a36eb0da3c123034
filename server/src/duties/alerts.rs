//! Looks for what somebody should look at, and writes the messages to `TREELINE_ALERT_URL`.
//!
//! Apart from posting, which `posts` does: the message that an alert was raised or cleared is written in the commit
//! that marks it as told, so that a server that dies in between loses nothing. Whoever is told late or not at all still
//! finds it in the list.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::{App, jobs::Worries};

use super::Every;

/// Alerts written in one go.
const BATCH: i64 = 50;

/// Starts to look, and where a URL is given to write.
pub(super) fn spawn(app: &App, tracker: &TaskTracker, every: impl Fn(f64, &'static str) -> Every) {
    let config = &app.config.alerts;
    let worries = Worries {
        unclaimed_after: Duration::from_secs(config.unclaimed_seconds),
        quiet_after: Duration::from_secs(config.quiet_seconds),
    };
    let engine = app.engine.clone();
    tracker.spawn(every(2.0, "alerts").run(move || {
        let engine = engine.clone();
        async move { engine.look_for_alerts(worries).await }
    }));
    if config.url.is_none() {
        return;
    }
    let engine = app.engine.clone();
    tracker.spawn(every(0.5, "messages about alerts").run(move || {
        let engine = engine.clone();
        async move { engine.write_alert_messages(BATCH).await }
    }));
}
