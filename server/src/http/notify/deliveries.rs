//! HTTP handlers for callbacks of complete trees: their status, and resending them (`completion-webhook`).

use axum::{Json as Answer, extract::State};
use domain::{
    Problem, Time,
    api::{Page, ReasonBody},
    notify::delivery::{CallbackDelivery, DeliveryState},
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    callers::{Reader, Writer},
    extract::{JsonOrDefault, Path, Query},
    query::{
        cursor::{Of, Paged as _, paged},
        plain_list::{PlainList, plain_list},
        sort::ByAge,
    },
};
use crate::{App, http::error::Result};
use engine::store::notify::deliveries::DeliveryQuery;

/// Filters of the delivery list; all given filters must match.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeliveryList {
    /// Any of these states, separated by commas: `pending`, `delivered`, `failed`, `abandoned`, `superseded`
    state: Option<String>,
    /// Deliveries of the tree with this root
    job: Option<Uuid>,
    /// Deliveries of this alert channel
    channel: Option<Uuid>,
    /// Deliveries of trees of this owner, by name
    owner: Option<String>,
    /// Deliveries of this time or later
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Time>,
    /// Deliveries before this time
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Time>,
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

paged!(DeliveryList, "deliveries");

impl DeliveryList {
    fn query(&self) -> Result<DeliveryQuery> {
        Ok(DeliveryQuery {
            owner_id: None,
            owner: self.owner.clone(),
            job_id: self.job,
            channel_id: self.channel,
            states: states(self.state.as_deref())?,
            created_after: self.created_after.map(|at| at.0),
            created_before: self.created_before.map(|at| at.0),
            oldest_first: self.sort.oldest_first(),
            behind: self.place::<Uuid>()?,
            limit: self.rows_to_read()?,
        })
    }
}

/// Parses a `state` parameter.
pub(crate) fn states(words: Option<&str>) -> Result<Vec<DeliveryState>, Problem> {
    let state = |word: &str| {
        DeliveryState::parse(word.trim()).ok_or_else(|| {
            let all = DeliveryState::ALL.map(DeliveryState::as_str).join(", ");
            Problem::parameter("state", &format!("expected any of {all}, with commas between them"))
        })
    };
    words.map_or_else(|| Ok(Vec::new()), |words| words.split(',').map(state).collect())
}

/// List deliveries
///
/// Newest first. Staff see all deliveries, other callers those of their own trees. A delivery is one completion of a tree
/// that names a receiver, or one event of an alert for a receiver of an alert channel. It lists every attempt. The former
/// outlives its tree by 30 days, the latter is kept for 30 days.
#[utoipa::path(get, path = "/deliveries", tag = "deliveries", params(DeliveryList),
    responses((status = 200, body = Page<CallbackDelivery>)))]
pub async fn list_deliveries(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(list): Query<DeliveryList>,
) -> Result<Answer<Page<CallbackDelivery>>> {
    let found = app.engine.deliveries(&caller, list.query()?).await?;
    Ok(Answer(list.page_of(found, |delivery| delivery.id)?))
}

plain_list!(JobDeliveries, PlainList, "deliveries of a job");

/// List the callbacks of a job's tree
///
/// Newest first, one for each completion of the tree with a receiver. They outlive the tree by 30 days.
#[utoipa::path(get, path = "/jobs/{id}/deliveries", tag = "deliveries", params(("id" = Uuid, Path), PlainList),
    responses((status = 200, body = Page<CallbackDelivery>)))]
pub async fn list_job_deliveries(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<CallbackDelivery>>> {
    let query = JobDeliveries(&query);
    let list = Of(id, &query);
    let wanted = DeliveryQuery {
        oldest_first: query.0.sort.oldest_first(),
        behind: list.place::<Uuid>()?,
        limit: list.rows_to_read()?,
        ..DeliveryQuery::default()
    };
    let found = app.engine.job_deliveries(&caller, id, wanted).await?;
    Ok(Answer(list.page_of(found, |delivery| delivery.id)?))
}

/// Resend a delivery
///
/// Keeps the `webhook-id`. Sends now, then follows the whole retry schedule; a pending delivery becomes due now. 409
/// `not_resendable` if the tree has completed again since (`id` is the newest delivery), if the alert was cleared before it
/// arrived, or if there is no receiver anymore.
#[utoipa::path(post, path = "/deliveries/{id}/resend", tag = "deliveries", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = CallbackDelivery)))]
pub async fn resend_delivery(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<CallbackDelivery>> {
    Ok(Answer(app.engine.resend(&caller, id, body.reason.as_deref()).await?))
}
