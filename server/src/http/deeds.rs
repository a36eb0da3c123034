//! What people do to work: cancel, retry. Each takes a reason, which is required on somebody else's.

use axum::{Json as Answer, extract::State};
use domain::{
    Item, Job,
    api::{ReasonBody, RetryBody},
};
use uuid::Uuid;

use crate::{
    App,
    auth::Caller,
    error::Result,
    http::extract::{JsonOrDefault, Path},
};

/// Cancel a job with everything below it
///
/// From the answer on nothing of it is claimed, fed, retried or completed. Work under way is told by its
/// next heartbeat; until the last of it has ended the status is `cancelling`. Again is no change; a
/// complete job is 409 `job_completed`.
#[utoipa::path(post, path = "/jobs/{id}/cancel", tag = "jobs", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = Job)))]
pub async fn cancel_job(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<Job>> {
    app.engine.cancel_job(&caller, id, body.reason.as_deref()).await?;
    Ok(Answer(app.engine.changed_job(&caller, id, true).await?))
}

/// Cancel an item: at once where it waits, else its worker is told
///
/// Again is no change; another final state is 409 `item_final`.
#[utoipa::path(post, path = "/items/{id}/cancel", tag = "items", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = Item)))]
pub async fn cancel_item(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<Item>> {
    app.engine.cancel_item(&caller, id, body.reason.as_deref()).await?;
    Ok(Answer(app.engine.changed_item(&caller, id).await?))
}

/// Retry an item that is dead, expired or was cancelled by itself
///
/// The same item with a fresh budget; its history and its original payload stay readable. What waits for
/// its time (`retryable`, `scheduled`) is due now. Anything else is 409 `not_retryable`.
#[utoipa::path(post, path = "/items/{id}/retry", tag = "items", params(("id" = Uuid, Path)),
    request_body = Option<RetryBody>, responses((status = 200, body = Item)))]
pub async fn retry_item(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<RetryBody>,
) -> Result<Answer<Item>> {
    app.engine.retry_item(&caller, id, body).await?;
    Ok(Answer(app.engine.changed_item(&caller, id).await?))
}
