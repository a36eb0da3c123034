//! Evaluates alert conditions and queues the messages to `TREELINE_ALERT_URL`.
//!
//! `posts` sends the messages. The message about a raised or cleared alert is written in the transaction that marks it
//! as sent, so a server crash loses nothing. The list of alerts is complete even if messages are late or lost.

use std::time::Duration;

use tokio_util::task::TaskTracker;

use crate::{App, jobs::Worries};

use super::Every;

/// Alerts per transaction.
const BATCH: i64 = 50;

/// Starts the evaluation, and the messages if a URL is configured.
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
