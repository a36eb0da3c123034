//! HTTP handlers for actions on jobs and items: cancel, retry. Each takes a reason, required for another owner's work.

use axum::{Json as Answer, extract::State};
use domain::{
    Item, Job,
    api::{ReasonBody, RetryBody},
};
use uuid::Uuid;

use crate::{
    App,
    http::{
        callers::Writer,
        error::Result,
        extract::{JsonOrDefault, Path},
    },
};

/// Cancel a job and everything below it
///
/// After the response nothing in it is claimed, fed, retried or completed. Workers are notified by heartbeat; the
/// status is `cancelling` until the last item has ended. Repeating the call has no effect; a complete job is 409
/// `job_completed`.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = Job)))]
pub async fn cancel_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<Job>> {
    app.engine.cancel_job(&caller, id, body.reason.as_deref()).await?;
    Ok(Answer(app.engine.changed_job(&caller, id, true).await?))
}

/// Cancel an item
///
/// A waiting item is canceled at once; the worker of a running one is notified by its next heartbeat. Repeating the
/// call has no effect; any other final state is 409 `item_final`.
#[utoipa::path(post, path = "/items/{id}/cancel", tag = "items", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = Item)))]
pub async fn cancel_item(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<Item>> {
    app.engine.cancel_item(&caller, id, body.reason.as_deref()).await?;
    Ok(Answer(app.engine.changed_item(&caller, id).await?))
}

/// Retry an item that is dead, expired or was canceled on its own
///
/// The same item gets a new retry budget; its history and its original payload stay readable. A `retryable` or
/// `scheduled` item becomes due now. Any other state is 409 `not_retryable`.
#[utoipa::path(post, path = "/items/{id}/retry", tag = "items", params(("id" = Uuid, Path)),
    request_body = Option<RetryBody>, responses((status = 200, body = Item)))]
pub async fn retry_item(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<RetryBody>,
) -> Result<Answer<Item>> {
    app.engine.retry_item(&caller, id, body).await?;
    Ok(Answer(app.engine.changed_item(&caller, id).await?))
}
