//! Relay from the outbox to the broker, and republication of lost wake-ups.
//!
//! Batches are leased briefly, published, and deleted when the broker has confirmed them, without an open transaction
//! meanwhile. A crash in between repeats them. The sweep republishes wake-ups of items that have waited for a while if
//! their queue is short, and updates the queue lengths of the page and the metrics.

use std::time::Duration;

use crate::{
    App,
    broker::{Broker, BrokerMessage, Subject},
};
use engine::{Engine, OutboxBatch, OutboxMessage, error::Result, task::unless_silent};

use super::driver::Tasks;

/// Poll interval for batches without a hint, such as those of a crashed server.
const POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Queue length from which no wake-up is republished.
const SHORT_QUEUE: i64 = 10_000;
/// Queue length that suggests there are no consumers: wake-ups are left to the sweep, to bound the queue.
const LONG_QUEUE: u32 = 100_000;
/// Downtime after which an alert is raised.
const ALERT_AFTER: Duration = Duration::from_secs(10);

/// Starts the connection and the tasks that need it.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    let Some(broker) = &tasks.app.broker else { return };
    tasks.tracker.spawn(broker.clone().run(tasks.app.shutdown.clone()));
    tasks.tracker.spawn(relay(tasks.app.clone(), broker.clone()));
    let resend = f64::from(tasks.app.config.broker.broker_resend_seconds);
    let sweeping = broker.clone();
    tasks.every((resend / 4.0).min(2.0), "lost wake-ups", move |app| {
        let broker = sweeping.clone();
        async move {
            let expired = app.engine.expire_outbox(resend).await?;
            if expired > 0 {
                tracing::debug!(expired, "unpublished wake-ups left to the sweep");
            }
            sweep(&app.engine, &broker, resend).await.map(|()| 0)
        }
    });
    let broker = broker.clone();
    tasks.every(2.0, "broker's alert", move |app| {
        let broker = broker.clone();
        async move {
            let status = broker.status();
            let is_overdue = !status.is_up && status.lasts >= ALERT_AFTER;
            let fault = status.fault.unwrap_or_else(|| "it has not answered yet".to_owned());
            app.engine.report_broker(broker.address(), is_overdue.then_some(fault.as_str())).await.map(|()| 0)
        }
    });
}

/// Publishes batches as they arrive, until shutdown.
async fn relay(app: App, broker: Broker) {
    let mut pause = Duration::ZERO;
    let stopped = app.shutdown.clone();
    loop {
        let next_messages = async {
            broker.up().await;
            tokio::time::sleep(pause).await;
            tokio::select! {
                () = app.hub.work_arrived() => {}
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        };
        if stopped.run_until_cancelled(next_messages).await.is_none() {
            return;
        }
        pause = match unless_silent(relay_all(&app.engine, &broker)).await.flatten() {
            Ok(true) => Duration::ZERO,
            Ok(false) => POLL_INTERVAL,
            Err(error) => {
                tracing::debug!(%error, "relay to the broker failed, will retry");
                POLL_INTERVAL
            }
        };
    }
}

/// Publishes all pending batches. False if some could not be published.
async fn relay_all(engine: &Engine, broker: &Broker) -> Result<bool> {
    loop {
        let batches = engine.take_message_batches().await?;
        if batches.is_empty() {
            return Ok(true);
        }
        let messages: Vec<Vec<BrokerMessage>> = batches.iter().map(|batch| messages(batch, broker)).collect();
        let flat: Vec<BrokerMessage> = messages.iter().flatten().cloned().collect();
        declare_missing(broker, &flat).await;
        let mut confirmed = broker.send(&flat).await.into_iter();
        let (mut published, mut unpublished) = (Vec::new(), Vec::new());
        for (batch, messages) in batches.iter().zip(&messages) {
            // No short circuit: every message of the batch must be consumed.
            let all_confirmed = confirmed.by_ref().take(messages.len()).filter(|confirmed| !confirmed).count() == 0;
            if all_confirmed { published.push(batch.id) } else { unpublished.push(batch.id) }
        }
        engine.record_published(&published, &unpublished).await?;
        if !unpublished.is_empty() {
            return Ok(false);
        }
    }
}

fn messages(batch: &OutboxBatch, broker: &Broker) -> Vec<BrokerMessage> {
    let message = |next_messages: &OutboxMessage| match next_messages {
        OutboxMessage::Item(item) if broker.depth(&item.job_type).is_some_and(|depth| depth >= LONG_QUEUE) => None,
        OutboxMessage::Item(item) => Some(BrokerMessage::for_item(Subject::Item, item)),
        OutboxMessage::Dead(item) => Some(BrokerMessage::for_item(Subject::Dead, item)),
        OutboxMessage::Completed(tree) => Some(BrokerMessage::completed(tree)),
    };
    batch.messages.iter().filter_map(message).collect()
}

/// Declares the queues that these messages need and that are not known to exist.
async fn declare_missing(broker: &Broker, messages: &[BrokerMessage]) {
    let mut types: Vec<&str> = messages
        .iter()
        .filter(|message| message.subject == Subject::Item)
        .map(|message| message.job_type.as_str())
        .collect();
    types.sort_unstable();
    types.dedup();
    for job_type in types {
        if broker.depth(job_type).is_none() {
            broker.declare_queue(job_type).await;
        }
    }
}

/// Declares every queue again, and republishes old wake-ups to those that are short, after admitting items that their keys
/// no longer hold back.
async fn sweep(engine: &Engine, broker: &Broker, resend: f64) -> Result<()> {
    let types = engine.pulled_types();
    broker.retain_queues(&types.iter().map(|info| info.name.as_str()).collect::<Vec<_>>());
    for info in types {
        let Some(depth) = broker.declare_queue(&info.name).await else { return Ok(()) };
        let capacity = SHORT_QUEUE - i64::from(depth);
        if capacity <= 0 || info.paused || info.concurrency == Some(0) {
            continue;
        }
        if let Err(error) = engine.admit_parked_items(info.id).await {
            // Its items are announced later; those of other types are not delayed.
            tracing::warn!(task = "relay", %error, job_type = info.name, "admitting parked items failed");
        }
        let waiting = engine.long_waiting(info.id, capacity, resend).await?;
        if !waiting.is_empty() {
            let messages: Vec<BrokerMessage> =
                waiting.iter().map(|item| BrokerMessage::for_item(Subject::Item, item)).collect();
            broker.send(&messages).await;
            metrics::counter!("treeline_broker_resent_total").increment(messages.len() as u64);
        }
    }
    Ok(())
}
