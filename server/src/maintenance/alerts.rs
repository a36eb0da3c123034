//! Evaluates alert conditions and queues the messages to `TREELINE_ALERT_URL`.
//!
//! `posts` sends the messages. The message about a raised or cleared alert is written in the transaction that marks it
//! as sent, so a server crash loses nothing. The list of alerts is complete even if messages are late or lost.

use std::time::Duration;

use engine::AlertThresholds;

use super::driver::Tasks;

/// Alerts per transaction.
const BATCH: i64 = 50;

/// Starts the evaluation, and the messages if a URL is configured.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    let config = &tasks.app.config.alerts;
    let thresholds = AlertThresholds {
        unclaimed_after: Duration::from_secs(config.unclaimed_seconds),
        quiet_after: Duration::from_secs(config.quiet_seconds),
    };
    tasks.every(2.0, "alerts", move |app| async move { app.engine.evaluate_alerts(thresholds).await });
    if config.url.is_some() {
        tasks.every(0.5, "messages about alerts", |app| async move { app.engine.write_alert_messages(BATCH).await });
    }
}
