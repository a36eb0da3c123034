//! Alerts over HTTP: the open ones, and those that workers raise themselves (`alerts`).

use axum::{Json as Answer, extract::State, http::StatusCode};
use domain::{
    Problem, Time,
    alert::{Alert, AlertBody, AlertKind},
    api::Page,
    assignment::AssignmentId,
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    cursor::{Paged, cut},
    extract::{Json, Path, Query},
    sort::ByAge,
};
use crate::{
    App,
    auth::{Caller, Worker},
    error::Result,
    store::alerts::AlertQuery,
};

/// Which alerts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AlertList {
    /// `true`: those that are cleared, too
    all: Option<bool>,
    /// Only this kind
    kind: Option<String>,
    /// `-created_at`, the default: the newest first; `created_at`: the oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: ByAge,
    /// Rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Paged for AlertList {
    const LIST: &'static str = "alerts";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        self.limit
    }
}

/// List alerts, newest first: to staff all of them, to others those about their own work
///
/// Each alert is raised once and clears itself when its cause is gone. Without `all` only the open ones are
/// listed.
#[utoipa::path(get, path = "/alerts", tag = "watch", params(AlertList), responses((status = 200, body = Page<Alert>)))]
pub async fn list_alerts(
    State(app): State<App>,
    caller: Caller,
    Query(list): Query<AlertList>,
) -> Result<Answer<Page<Alert>>> {
    let (limit, before) = (list.rows()?, list.place::<(Time, Uuid)>()?);
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
        part: list.sort.part(before.map(|(at, id)| (at.0, id)), limit + 1),
    };
    let (data, next) = cut(app.engine.alerts(&caller, query).await?, limit, |alert| (alert.raised_at, alert.id));
    Ok(Answer(list.page(data, next)))
}

/// Raise an alert about the item in one's hands
///
/// The alert names the item, its job and its tree. The same worker raising it again counts it, and does not
/// raise another. An assignment that is over is 409 `assignment_closed`.
#[utoipa::path(post, path = "/assignments/{id}/alert", tag = "assignments", params(("id" = String, Path)),
    request_body = AlertBody,
    responses((status = 204, description = "Raised, or counted again where it is open already")))]
pub async fn alert_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    Json(body): Json<AlertBody>,
) -> Result<StatusCode> {
    app.engine.alert(&caller, id, &body.message).await?;
    Ok(StatusCode::NO_CONTENT)
}
