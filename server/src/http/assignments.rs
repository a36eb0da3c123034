//! What workers say: claim, heartbeat, step, and how an attempt ended (spec §2 rules 6 to 9, 13).

use axum::{Json as Answer, extract::State};
use domain::{
    Code, Document, Problem,
    api::{
        Claim, Claimed, Ended, FailureBody, FinishBody, Finished, Heartbeat, HeartbeatBody, HeartbeatOf, Heartbeats,
        HeartbeatsBody, ReleaseBody, ResultBody, StepBody,
    },
    item::Step,
};
use uuid::Uuid;

use super::extract::{Json, JsonOrDefault, Path, is_null};
use crate::{
    App,
    auth::Worker,
    error::{Error, Result},
    jobs::EndingKind,
};

/// Claim items; waits up to `wait_seconds` for some, and may answer with none
#[utoipa::path(post, path = "/assignments", tag = "assignments", request_body = Claim,
    responses((status = 200, body = Claimed)))]
pub async fn claim_items(
    State(app): State<App>,
    Worker(caller): Worker,
    Json(claim): Json<Claim>,
) -> Result<Answer<Claimed>> {
    app.engine.seen(&caller, &claim.worker_id, &claim.types);
    Ok(Answer(app.engine.claim(&caller, claim).await?))
}

/// Keep an assignment alive, and say how far it is
#[utoipa::path(post, path = "/assignments/{id}/heartbeat", tag = "assignments", params(("id" = Uuid, Path)),
    request_body = Option<HeartbeatBody>, responses((status = 200, body = Heartbeat)))]
pub async fn heartbeat_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<HeartbeatBody>,
) -> Result<Answer<Heartbeat>> {
    let beat = HeartbeatOf { assignment_id: id, progress: body.progress };
    let answer = app.engine.heartbeats(&caller, vec![beat]).await?.pop();
    let alive = answer.and_then(|answer| Some((answer.lease_expires_at?, answer.cancel.unwrap_or(false))));
    match alive {
        Some((lease_expires_at, cancel)) => Ok(Answer(Heartbeat { lease_expires_at, cancel })),
        None => Err(app.engine.why_closed(id).await?.into()),
    }
}

/// Record a step: a recovery point that a later attempt starts from
#[utoipa::path(post, path = "/assignments/{id}/step", tag = "assignments", params(("id" = Uuid, Path)),
    request_body = StepBody, responses((status = 200, body = Step)))]
pub async fn step_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<Uuid>,
    Json(body): Json<StepBody>,
) -> Result<Answer<Step>> {
    Ok(Answer(app.engine.step(&caller, id, body).await?))
}

/// End an assignment with a result; no body, or none in it, is the result `{}`
#[utoipa::path(post, path = "/assignments/{id}/result", tag = "assignments", params(("id" = Uuid, Path)),
    request_body = Option<ResultBody>, responses((status = 200, body = Ended)))]
pub async fn succeed_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ResultBody>,
) -> Result<Answer<Ended>> {
    let result = body.result.unwrap_or_else(Document::empty_object);
    if is_null(&result) {
        return Err(Problem::invalid_body([("/result".to_owned(), "expected anything but null".to_owned())]).into());
    }
    Ok(Answer(app.engine.end(&caller, id, EndingKind::Result(result)).await?))
}

/// End an assignment with a failure; the item is offered again if its budget allows
#[utoipa::path(post, path = "/assignments/{id}/failure", tag = "assignments", params(("id" = Uuid, Path)),
    request_body = FailureBody, responses((status = 200, body = Ended)))]
pub async fn fail_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<Uuid>,
    Json(body): Json<FailureBody>,
) -> Result<Answer<Ended>> {
    Ok(Answer(app.engine.end(&caller, id, EndingKind::Failure(body)).await?))
}

/// Give an item back without a failure
#[utoipa::path(post, path = "/assignments/{id}/release", tag = "assignments", params(("id" = Uuid, Path)),
    request_body = Option<ReleaseBody>, responses((status = 200, body = Ended)))]
pub async fn release_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReleaseBody>,
) -> Result<Answer<Ended>> {
    Ok(Answer(app.engine.end(&caller, id, EndingKind::Release(body)).await?))
}

/// End many assignments, and claim the next items in the same transaction
#[utoipa::path(post, path = "/assignments/finish", tag = "assignments", request_body = FinishBody,
    responses((status = 200, body = Finished)))]
pub async fn finish_assignments(
    State(app): State<App>,
    Worker(caller): Worker,
    Json(body): Json<FinishBody>,
) -> Result<Answer<Finished>> {
    if let Some(claim) = &body.claim {
        app.engine.seen(&caller, &claim.worker_id, &claim.types);
    }
    Ok(Answer(app.engine.finish(&caller, body).await?))
}

/// Assignments in one batch of heartbeats.
const MOST_HEARTBEATS: usize = 10_000;

/// Keep many assignments alive; answers in order
#[utoipa::path(post, path = "/assignments/heartbeat", tag = "assignments", request_body = HeartbeatsBody,
    responses((status = 200, body = Heartbeats)))]
pub async fn heartbeat_assignments(
    State(app): State<App>,
    Worker(caller): Worker,
    Json(body): Json<HeartbeatsBody>,
) -> Result<Answer<Heartbeats>> {
    if body.heartbeats.len() > MOST_HEARTBEATS {
        return Err(Error::refuse(Code::TooLarge, format!("At most {MOST_HEARTBEATS} heartbeats a request.")));
    }
    Ok(Answer(Heartbeats { heartbeats: app.engine.heartbeats(&caller, body.heartbeats).await? }))
}
