//! Relay from the outbox to the broker, and republication of lost wake-ups.
//!
//! Batches are leased briefly, published, and deleted when the broker has confirmed them, without an open transaction
//! meanwhile. A crash in between repeats them. The sweep republishes wake-ups of items that have waited for a while if
//! their queue is short, and updates the queue lengths of the page and the metrics.

use std::time::Duration;

use crate::{
    App,
    broker::{Broker, Letter, Subject},
    error::Result,
    jobs::{Engine, News, Parcel},
};

use super::driver::Tasks;

/// Poll interval for batches without a hint, such as those of a crashed server.
const LOOK: Duration = Duration::from_millis(500);
/// Queue length from which no wake-up is republished.
const SHORT: i64 = 10_000;
/// Queue length that suggests there are no consumers: wake-ups are left to the sweep, to bound the queue.
const LONG: u32 = 100_000;
/// Downtime after which an alert is raised.
const AWAY: Duration = Duration::from_secs(10);

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
            let forgotten = app.engine.age_news(resend).await?;
            if forgotten > 0 {
                tracing::debug!(forgotten, "unpublished wake-ups left to the sweep");
            }
            sweep(&app.engine, &broker, resend).await.map(|()| 0)
        }
    });
    let broker = broker.clone();
    tasks.every(2.0, "broker's alert", move |app| {
        let broker = broker.clone();
        async move {
            let standing = broker.standing();
            let away = !standing.is_up && standing.lasts >= AWAY;
            let fault = standing.fault.unwrap_or_else(|| "it has not answered yet".to_owned());
            app.engine.broker_stands(broker.place(), away.then_some(fault.as_str())).await.map(|()| 0)
        }
    });
}

/// Publishes batches as they arrive, until shutdown.
async fn relay(app: App, broker: Broker) {
    let mut pause = Duration::ZERO;
    let stopped = app.shutdown.clone();
    loop {
        let news = async {
            broker.up().await;
            tokio::time::sleep(pause).await;
            tokio::select! {
                () = app.hub.work_came() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
        };
        if stopped.run_until_cancelled(news).await.is_none() {
            return;
        }
        pause = match relay_all(&app.engine, &broker).await {
            Ok(true) => Duration::ZERO,
            Ok(false) => LOOK,
            Err(error) => {
                tracing::debug!(%error, "relay to the broker failed, will retry");
                LOOK
            }
        };
    }
}

/// Publishes all pending batches. False if some could not be published.
async fn relay_all(engine: &Engine, broker: &Broker) -> Result<bool> {
    loop {
        let parcels = engine.take_news().await?;
        if parcels.is_empty() {
            return Ok(true);
        }
        let letters: Vec<Vec<Letter>> = parcels.iter().map(|parcel| letters(parcel, broker)).collect();
        let flat: Vec<Letter> = letters.iter().flatten().cloned().collect();
        declare_missing(broker, &flat).await;
        let mut confirmed = broker.send(&flat).await.into_iter();
        let (mut said, mut unsaid) = (Vec::new(), Vec::new());
        for (parcel, letters) in parcels.iter().zip(&letters) {
            // No short circuit: every message of the batch must be consumed.
            let whole = confirmed.by_ref().take(letters.len()).filter(|confirmed| !confirmed).count() == 0;
            if whole { said.push(parcel.id) } else { unsaid.push(parcel.id) }
        }
        engine.news_said(&said, &unsaid).await?;
        if !unsaid.is_empty() {
            return Ok(false);
        }
    }
}

fn letters(parcel: &Parcel, broker: &Broker) -> Vec<Letter> {
    let letter = |news: &News| match news {
        News::Item(item) if broker.depth(&item.job_type).is_some_and(|depth| depth >= LONG) => None,
        News::Item(item) => Some(Letter::about_item(Subject::Item, item)),
        News::Dead(item) => Some(Letter::about_item(Subject::Dead, item)),
        News::Completed(tree) => Some(Letter::completed(tree)),
    };
    parcel.news.iter().filter_map(letter).collect()
}

/// Declares the queues that these messages need and that are not known to exist.
async fn declare_missing(broker: &Broker, letters: &[Letter]) {
    let mut types: Vec<&str> = letters
        .iter()
        .filter(|letter| letter.subject == Subject::Item)
        .map(|letter| letter.job_type.as_str())
        .collect();
    types.sort_unstable();
    types.dedup();
    for job_type in types {
        if broker.depth(job_type).is_none() {
            broker.declare_queue(job_type).await;
        }
    }
}

/// Declares every queue again, and republishes old wake-ups to those that are short.
async fn sweep(engine: &Engine, broker: &Broker, resend: f64) -> Result<()> {
    let types = engine.pulled_types();
    broker.keep_queues(&types.iter().map(|info| info.name.as_str()).collect::<Vec<_>>());
    for info in types {
        let Some(depth) = broker.declare_queue(&info.name).await else { return Ok(()) };
        let room = SHORT - i64::from(depth);
        if room <= 0 || info.paused || info.concurrency == Some(0) {
            continue;
        }
        let waiting = engine.long_waiting(info.id, room, resend).await?;
        if !waiting.is_empty() {
            let letters: Vec<Letter> = waiting.iter().map(|item| Letter::about_item(Subject::Item, item)).collect();
            broker.send(&letters).await;
            metrics::counter!("treeline_broker_resent_total").increment(letters.len() as u64);
        }
    }
    Ok(())
}
