//! `GET /stats`: counts and rates of each job type, and the state of the broker.

use axum::{Json as Answer, extract::State};
use domain::api::{BrokerStats, QueueStats, Stats};

use crate::http::callers::Staff;
use crate::{App, http::error::Result};
use engine::access::caller::Caller;

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
        let status = broker.status();
        let queue = |(job_type, messages)| QueueStats { job_type, messages };
        stats.broker = Some(BrokerStats {
            up: status.is_up,
            since: status.since,
            fault: status.fault,
            outbox_waiting: app.engine.unpublished_batches().await?,
            queues: status.queues.into_iter().map(queue).collect(),
        });
    }
    Ok(stats)
}
