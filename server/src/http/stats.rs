//! `GET /stats`: how much of each type there is, comes in and ends.

use axum::{Json as Answer, extract::State};
use domain::api::Stats;

use crate::{App, auth::Caller, error::Result};

/// Figures of every job type: items by state, the oldest that waits, rates, days
#[utoipa::path(get, path = "/stats", tag = "watch", responses((status = 200, body = Stats)))]
pub async fn get_stats(State(app): State<App>, caller: Caller) -> Result<Answer<Stats>> {
    Ok(Answer(app.engine.stats(&caller).await?))
}
