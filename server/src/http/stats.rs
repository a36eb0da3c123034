//! `GET /stats`: how much of each type there is, comes in and ends, and how the broker stands.

use axum::{Json as Answer, extract::State};
use domain::api::{BrokerStats, QueueStats, Stats};

use crate::{App, auth::Caller, error::Result};

/// Figures of every job type: items by state, the oldest that waits, rates, days
///
/// The counts of items are added up every few seconds; `counted_at` says when.
#[utoipa::path(get, path = "/stats", tag = "watch", responses((status = 200, body = Stats)))]
pub async fn get_stats(State(app): State<App>, caller: Caller) -> Result<Answer<Stats>> {
    Ok(Answer(stats(&app, &caller).await?))
}

/// The same for API and page.
pub async fn stats(app: &App, caller: &Caller) -> Result<Stats> {
    let mut stats = app.engine.stats(caller).await?;
    if let Some(broker) = &app.broker {
        let standing = broker.standing();
        let queue = |(job_type, messages)| QueueStats { job_type, messages };
        stats.broker = Some(BrokerStats {
            up: standing.is_up,
            since: standing.since,
            fault: standing.fault,
            outbox_waiting: app.engine.news_waiting().await?,
            queues: standing.queues.into_iter().map(queue).collect(),
        });
    }
    Ok(stats)
}
