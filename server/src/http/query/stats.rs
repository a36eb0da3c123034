//! `GET /stats`: counts and rates of each job type, and the state of the broker.

use axum::{Json as Answer, extract::State};
use domain::{
    api::{BrokerStats, QueueStats, Stats},
    notify::alert::AlertKind,
};

use crate::http::callers::Staff;
use crate::{App, broker::Broker, config::roles::Role, http::error::Result};
use engine::{
    access::caller::Caller,
    store::{
        notify::alerts::{self, AlertQuery},
        page_range::PageRange,
    },
};

/// Get statistics of every job type
///
/// Items by state, oldest waiting item, rates and days. Counts are updated every few seconds, last at `counted_at`.
#[utoipa::path(get, path = "/stats", tag = "watch", responses((status = 200, body = Stats)))]
pub async fn get_stats(State(app): State<App>, Staff(caller): Staff) -> Result<Answer<Stats>> {
    Ok(Answer(stats(&app, &caller).await?))
}

/// Statistics for the API and the page.
pub async fn stats(app: &App, caller: &Caller) -> Result<Stats> {
    let mut stats = app.engine.stats(caller).await?;
    if let Some(broker) = &app.broker {
        stats.broker = Some(broker_stats(app, broker).await?);
    }
    Ok(stats)
}

/// State of the broker: that of this process if it is connected, else by the alert of the processes that are.
async fn broker_stats(app: &App, broker: &Broker) -> Result<BrokerStats> {
    let status = broker.status();
    let outbox_waiting = app.engine.unpublished_batches().await?;
    if app.config.roles.has(Role::Maintenance) {
        let queue = |(job_type, messages)| QueueStats { job_type, messages };
        let queues = status.queues.into_iter().map(queue).collect();
        return Ok(BrokerStats { up: status.is_up, since: status.since, fault: status.fault, outbox_waiting, queues });
    }
    let kind = Some(AlertKind::BrokerAway);
    let query = AlertQuery { owner_id: None, kind, all: true, part: PageRange::newest(None, 1) };
    let alert = alerts::list(&app.pool, &query).await?.pop();
    let up = alert.as_ref().is_none_or(|alert| alert.cleared_at.is_some());
    let since = alert.as_ref().map_or(status.since, |alert| alert.cleared_at.unwrap_or(alert.raised_at));
    let fault = alert.filter(|_| !up).map(|alert| alert.message);
    Ok(BrokerStats { up, since, fault, outbox_waiting, queues: Vec::new() })
}
