//! HTTP handlers for alerts: the list, and the alerts that workers raise (`alerts`).

use axum::{Json as Answer, extract::State, http::StatusCode};
use domain::{
    Problem, Time,
    api::Page,
    dispatch::assignment::AssignmentId,
    notify::alert::{Alert, AlertBody, AlertKind},
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    extract::{Json, Path, Query},
    query::{
        cursor::{Paged as _, paged},
        sort::ByAge,
    },
};
use crate::{
    App,
    http::{
        callers::{Reader, Worker},
        error::Result,
    },
};
use engine::store::notify::alerts::AlertQuery;

/// Filters of the alert list.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AlertList {
    /// `true`: includes cleared alerts
    all: Option<bool>,
    /// Only alerts of this kind
    kind: Option<String>,
    /// `-created_at` (default): newest first; `created_at`: oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: ByAge,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(AlertList, "alerts");

/// List alerts
///
/// Newest first. Staff see all alerts, other callers those about their own work. Each alert is raised once and clears
/// itself when its cause is gone. Without `all` only open alerts are listed.
#[utoipa::path(get, path = "/alerts", tag = "watch", params(AlertList), responses((status = 200, body = Page<Alert>)))]
pub async fn list_alerts(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(list): Query<AlertList>,
) -> Result<Answer<Page<Alert>>> {
    let (rows, before) = (list.rows_to_read()?, list.place::<(Time, Uuid)>()?);
    let kind = match &list.kind {
        Some(word) => {
            let words = AlertKind::ALL.map(AlertKind::as_str).join(", ");
            Some(
                AlertKind::parse(word)
                    .ok_or_else(|| Problem::parameter("kind", &format!("expected one of {words}")))?,
            )
        }
        None => None,
    };
    let query = AlertQuery {
        owner_id: None,
        kind,
        all: list.all.unwrap_or(false),
        part: list.sort.part(before.map(|(at, id)| (at.0, id)), rows),
    };
    let found = app.engine.alerts(&caller, query).await?;
    Ok(Answer(list.page_of(found, |alert| (alert.raised_at, alert.id))?))
}

/// Raise an alert about an assigned item
///
/// The alert names the item, its job and its tree. If the same worker raises it again, its count goes up and no second
/// alert is raised. An assignment that has ended is 409 `assignment_closed`.
#[utoipa::path(post, path = "/assignments/{id}/alert", tag = "assignments", params(("id" = String, Path)),
    request_body = AlertBody,
    responses((status = 204, description = "Raised, or counted again if it is already open")))]
pub async fn alert_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    Json(body): Json<AlertBody>,
) -> Result<StatusCode> {
    app.engine.alert(&caller, id, &body.message).await?;
    Ok(StatusCode::NO_CONTENT)
}
