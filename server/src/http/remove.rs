//! Trees that go, and trees that are kept (rule 20).

use axum::{Json as Answer, extract::State, http::StatusCode};
use domain::{
    Job, Problem,
    audit::{LONGEST_REASON, ReasonBody},
    limits::is_text,
};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::extract::{JsonOrDefault, Path, Query};
use crate::{App, auth::Caller, error::Result};

/// Why, for those who cannot send a body with a DELETE.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Why {
    /// Required on somebody else's work; the body's wins
    reason: Option<String>,
}

impl Why {
    /// The body's reason, else this one. One that is too long is refused whether or not it is the one that counts.
    pub(super) fn or_body(self, body: ReasonBody) -> Result<Option<String>> {
        if self.reason.as_ref().is_some_and(|reason| !is_text(reason, 0, LONGEST_REASON)) {
            return Err(Problem::parameter("reason", &format!("expected at most {LONGEST_REASON} characters")).into());
        }
        Ok(body.reason.or(self.reason))
    }
}

/// Delete a complete tree: gone at once, and 410 from then on
///
/// Owners delete their own complete trees, admins any. The audit log keeps the reason.
#[utoipa::path(delete, path = "/jobs/{id}", tag = "jobs", params(("id" = Uuid, Path), Why),
    request_body = Option<ReasonBody>, responses((status = 204, description = "It is gone")))]
pub async fn delete_job(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(why): Query<Why>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<StatusCode> {
    app.engine.remove(&caller, id, why.or_body(body)?.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pin a tree
///
/// It stays beyond its retention. Only roots have one. Again is no change.
#[utoipa::path(post, path = "/jobs/{id}/pin", tag = "jobs", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 200, body = Job)))]
pub async fn pin_job(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<Job>> {
    Ok(Answer(app.engine.pin(&caller, id, true, body.reason.as_deref()).await?))
}

/// Unpin a tree
///
/// It goes when its retention is over. Again is no change.
#[utoipa::path(delete, path = "/jobs/{id}/pin", tag = "jobs", params(("id" = Uuid, Path), Why),
    request_body = Option<ReasonBody>, responses((status = 200, body = Job)))]
pub async fn unpin_job(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(why): Query<Why>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Answer<Job>> {
    Ok(Answer(app.engine.pin(&caller, id, false, why.or_body(body)?.as_deref()).await?))
}
