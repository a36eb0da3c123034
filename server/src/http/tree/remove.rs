//! HTTP handlers for deleting and pinning trees (`retention`).

use axum::{Json as Answer, extract::State, http::StatusCode};
use domain::{Job, identity::audit::ReasonBody};
use uuid::Uuid;

use crate::http::callers::Writer;
use crate::http::extract::{JsonOrDefault, Path, Reason, ReasonParameter};
use crate::{App, http::error::Result};

/// Delete a complete tree
///
/// The tree is 410 from then on. Owners delete their own complete trees, admins any. The audit log keeps the reason.
#[utoipa::path(delete, path = "/jobs/{id}", tag = "jobs", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Deleted")))]
pub async fn delete_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<StatusCode> {
    app.engine.delete_tree(&caller, id, reason.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pin a tree
///
/// A pinned tree outlives its retention. Only roots can be pinned. Repeating the call has no effect.
#[utoipa::path(post, path = "/jobs/{id}/pin", tag = "jobs", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = Job)))]
pub async fn pin_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<Job>> {
    Ok(Answer(app.engine.pin(&caller, id, true, body.reason.as_deref()).await?))
}

/// Unpin a tree
///
/// The tree is deleted when its retention is over. Repeating the call has no effect.
#[utoipa::path(delete, path = "/jobs/{id}/pin", tag = "jobs", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 200, body = Job)))]
pub async fn unpin_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<Answer<Job>> {
    Ok(Answer(app.engine.pin(&caller, id, false, reason.as_deref()).await?))
}
