//! HTTP handlers for workers: claim, heartbeat, step, and the outcome of an attempt (`claiming`, `lease-expiry`,
//! `fencing`, `retry-budget`, `steps`).

use std::time::SystemTime;

use axum::{Json as Answer, extract::State};
use domain::{
    Code, Document, Problem,
    api::{
        Claim, Claimed, Ended, FailureBody, FinishBody, Finished, Heartbeat, HeartbeatBody, HeartbeatOf, Heartbeats,
        HeartbeatsBody, ReleaseBody, ResultBody, StepBody,
    },
    dispatch::assignment::AssignmentId,
    item::Step,
    limits::MOST_HEARTBEATS,
};

use crate::http::{
    extract::{Json, JsonOrDefault, JsonParts, Path, complete, is_null},
    trace::Trace,
};
use crate::{
    App,
    auth::Ongoing,
    http::{
        callers::Worker,
        error::{Error, Result},
    },
};
use engine::{EndingKind, check_progress};

/// Claim items
///
/// Waits up to `wait_seconds` for items, and may return none. Needs a token with the scope `work`. Several types take
/// turns, trees take turns within a type, and items of a tree come oldest first. Heartbeats extend the lease of each
/// assignment until it ends. A repeated request with the same `claim_id` returns the same assignments that are still
/// open, in case the response was lost. With `item_ids`, `refused` lists the items that could not be claimed.
#[utoipa::path(post, path = "/assignments", tag = "assignments", request_body = Claim,
    responses((status = 200, body = Claimed)))]
pub async fn claim_items(
    State(app): State<App>,
    Worker(caller): Worker,
    Trace(trace): Trace,
    Json(claim): Json<Claim>,
) -> Result<Answer<Claimed>> {
    let began = SystemTime::now();
    app.engine.record_worker(&caller, &claim.worker_id, &claim.types);
    let ongoing = claim.wait_seconds.is_some_and(|seconds| seconds > 0).then(|| Ongoing::of(&app, &caller));
    let mut claimed = app.engine.claim_while(&caller, claim, ongoing).await?;
    claimed.assignments.iter_mut().for_each(|assignment| app.traces.handed_out(assignment, began, trace));
    Ok(Answer(claimed))
}

/// Extend the lease of an assignment
///
/// Send it every `heartbeat_seconds` of the assignment, optionally with the progress. After three missed intervals the
/// lease expires and the item is offered again. `cancel` in the response tells the worker to stop.
#[utoipa::path(post, path = "/assignments/{id}/heartbeat", tag = "assignments", params(("id" = String, Path)),
    request_body = Option<HeartbeatBody>, responses((status = 200, body = Heartbeat)))]
pub async fn heartbeat_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    JsonOrDefault(body): JsonOrDefault<HeartbeatBody>,
) -> Result<Answer<Heartbeat>> {
    body.progress.as_ref().map_or(Ok(()), check_progress)?;
    let heartbeat = HeartbeatOf { assignment_id: id, progress: body.progress };
    let answer = app.engine.heartbeats(&caller, vec![heartbeat]).await?.pop();
    let alive = answer.and_then(|answer| Some((answer.lease_expires_at?, answer.cancel.unwrap_or(false))));
    match alive {
        Some((lease_expires_at, cancel)) => Ok(Answer(Heartbeat { lease_expires_at, cancel })),
        None => Err(app.engine.why_closed(&caller, id).await?.into()),
    }
}

/// Record a step
///
/// A step is a recovery point that a later attempt starts from. The step and its data are stored at once and sent with
/// every later attempt. Steps only move forward: an earlier one, or the same one with different data, is 409
/// `step_behind`; an undeclared one is 422 `unknown_step`. Repeating a step with the same data has no effect.
#[utoipa::path(post, path = "/assignments/{id}/step", tag = "assignments", params(("id" = String, Path)),
    request_body = StepBody, responses((status = 200, body = Step)))]
pub async fn step_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    Json(body): Json<StepBody>,
) -> Result<Answer<Step>> {
    Ok(Answer(app.engine.step(&caller, id, body).await?))
}

/// Complete an assignment with a result
///
/// Without a body or a result in it, the result is `{}`. Only the first ending of an assignment counts. A repeat gets
/// the first response; any other is 409 `assignment_closed`. A result for a canceled job is 409 `job_cancelled`.
#[utoipa::path(post, path = "/assignments/{id}/result", tag = "assignments", params(("id" = String, Path)),
    request_body = Option<ResultBody>, responses((status = 200, body = Ended)))]
pub async fn succeed_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    JsonOrDefault(body): JsonOrDefault<ResultBody>,
) -> Result<Answer<Ended>> {
    let result = body.result.unwrap_or_else(Document::empty_object);
    if is_null(&result) {
        return Err(Problem::invalid_body([("/result".to_owned(), "expected anything but null".to_owned())]).into());
    }
    Ok(Answer(app.engine.end(&caller, id, EndingKind::Result(result)).await?))
}

/// Fail an assignment
///
/// The item is offered again if its retry budget allows. The failure counts against `max_failures`, unless `retryable`
/// is `false`: then the item becomes a dead letter at once. The next attempt starts after the backoff of its type, or
/// after `retry_after_seconds`. `cancel_tree` cancels the whole tree.
#[utoipa::path(post, path = "/assignments/{id}/failure", tag = "assignments", params(("id" = String, Path)),
    request_body = FailureBody, responses((status = 200, body = Ended)))]
pub async fn fail_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    Json(body): Json<FailureBody>,
) -> Result<Answer<Ended>> {
    Ok(Answer(app.engine.end(&caller, id, EndingKind::Failure(body)).await?))
}

/// Release an item without a failure
///
/// The item is available again at once, or after `retry_after_seconds`. An item of an `at_most_once` type can only be
/// released before its first step or progress report (409 `already_started`).
#[utoipa::path(post, path = "/assignments/{id}/release", tag = "assignments", params(("id" = String, Path)),
    request_body = Option<ReleaseBody>, responses((status = 200, body = Ended)))]
pub async fn release_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    JsonOrDefault(body): JsonOrDefault<ReleaseBody>,
) -> Result<Answer<Ended>> {
    Ok(Answer(app.engine.end(&caller, id, EndingKind::Release(body)).await?))
}

/// End many assignments and claim the next items
///
/// Returns results in request order; a refused one does not affect the others, even one that is malformed: its result is
/// 422 `invalid_body` with `errors`. An ending has a `result`, an `error`, or neither, which is the result `{}`. All
/// endings and the claim share one transaction, which makes this the cheapest way to process many items. The claim takes
/// no `wait_seconds`.
#[utoipa::path(post, path = "/assignments/finish", tag = "assignments", request_body = FinishBody,
    responses((status = 200, body = Finished)))]
pub async fn finish_assignments(
    State(app): State<App>,
    Worker(caller): Worker,
    Trace(trace): Trace,
    JsonParts { body, malformed }: JsonParts<FinishBody>,
) -> Result<Answer<Finished>> {
    let began = SystemTime::now();
    if let Some(claim) = &body.claim {
        app.engine.record_worker(&caller, &claim.worker_id, &claim.types);
    }
    let mut finished = app.engine.finish(&caller, body).await?;
    finished.assignments.iter_mut().for_each(|assignment| app.traces.handed_out(assignment, began, trace));
    complete::<FinishBody>(&mut finished.endings, malformed);
    Ok(Answer(finished))
}

/// Extend the leases of many assignments
///
/// One request for all items that a worker holds. Returns results in request order, each with the status of the single
/// request: 200, 404, 409 or 422. A refused one, even one that is malformed, does not affect the others.
#[utoipa::path(post, path = "/assignments/heartbeat", tag = "assignments", request_body = HeartbeatsBody,
    responses((status = 200, body = Heartbeats)))]
pub async fn heartbeat_assignments(
    State(app): State<App>,
    Worker(caller): Worker,
    JsonParts { body, malformed }: JsonParts<HeartbeatsBody>,
) -> Result<Answer<Heartbeats>> {
    if body.heartbeats.len() + malformed.len() > MOST_HEARTBEATS {
        return Err(Error::refuse(Code::TooLarge, format!("At most {MOST_HEARTBEATS} heartbeats a request.")));
    }
    let mut heartbeats = app.engine.heartbeats(&caller, body.heartbeats).await?;
    complete::<HeartbeatsBody>(&mut heartbeats, malformed);
    Ok(Answer(Heartbeats { heartbeats }))
}
