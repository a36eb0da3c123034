//! `GET /stats/series`: activity of job types over time.

use axum::{Json as Answer, extract::State};
use domain::{
    Time,
    api::{Series, SeriesMetric, SeriesPoint, SeriesStep},
    query::histogram,
};
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;

use crate::http::callers::Staff;
use crate::http::extract::Query;
use crate::{App, http::error::Result};
use engine::Span;

/// Query parameters of a series.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct SeriesQuery {
    /// Quantity of the series
    #[param(value_type = String)]
    metric: SeriesMetric,
    /// Name of a job type; default: all together
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Start of the series, rounded down to a whole step; default: 60 steps before `to`
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<Time>,
    /// End of the series, rounded up to a whole step; default: now
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<Time>,
    /// Length of a point: `minute` (default, kept for 48 hours), `hour` (30 days), or `day` (2 years)
    #[serde(default)]
    #[param(value_type = Option<String>)]
    step: SeriesStep,
}

/// Get activity over time
///
/// Items or attempts in each minute, hour, or day in UTC, with quantiles for `wait` and `run`. At most 3,000 points. Counts
/// are written every few seconds; a crash loses the seconds not yet written.
#[utoipa::path(get, path = "/stats/series", tag = "watch", params(SeriesQuery),
    responses((status = 200, body = Series)))]
pub async fn get_series(
    State(app): State<App>,
    Staff(caller): Staff,
    Query(query): Query<SeriesQuery>,
) -> Result<Answer<Series>> {
    let (from, to) = (query.from.map(|at| at.0), query.to.map(|at| at.0));
    let span = Span::new(query.step, from, to, OffsetDateTime::now_utc())?;
    let activity = app.engine.activity(&caller, query.job_type.as_deref(), span).await?;
    let durations = matches!(query.metric, SeriesMetric::Wait | SeriesMetric::Run);
    Ok(Answer(Series {
        metric: query.metric,
        job_type: query.job_type,
        step: span.step,
        from: Time(span.from),
        to: Time(span.to),
        bounds: if durations { histogram::BOUNDS.to_vec() } else { Vec::new() },
        data: activity.iter().map(|(at, activity)| SeriesPoint::of(*at, activity, query.metric)).collect(),
    }))
}
