//! HTTP handlers for schedules, which create trees by a cron expression.

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{
    Document, Problem,
    api::{NewSchedule, Page, Schedule, SchedulePatch, ScheduleRun},
    dispatch::traceparent::Traceparent,
    identity::audit::ReasonBody,
};
use serde::Deserialize;
use uuid::Uuid;

use crate::http::{
    callers::{Reader, Writer},
    enqueue::idempotency::{self, Key, ResponseStorage, Text, once},
    extract::{Path, Query, Reason, ReasonParameter},
    query::{
        cursor::{Of, Paged as _},
        plain_list::{PlainList, plain_list},
    },
    trace::Trace,
};
use crate::{App, http::error::Result};
use engine::access::caller::Caller;

plain_list!(Schedules, PlainList, "schedules");
plain_list!(Runs, PlainList, "runs of a schedule");

/// The job of a body, as text.
#[derive(Deserialize)]
struct JobText {
    job: Option<Document>,
}

impl JobText {
    fn of(text: &str) -> Result<Option<String>, Problem> {
        let read = serde_json::from_str::<Self>(text);
        let fault = |error: serde_json::Error| Problem::invalid_body([("/job".to_owned(), error.to_string())]);
        Ok(read.map_err(fault)?.job.map(|job| job.text().to_owned()))
    }
}

/// Create a schedule
///
/// Each tick of the cron expression creates one tree from `job`, with the current rights of this credential; for a
/// person, of the account. `job` is validated as by `POST /jobs`. A time that daylight saving skips runs at the first
/// moment after the gap; a time that occurs twice runs once. An expression with `*` as its hour counts elapsed time.
#[utoipa::path(post, path = "/schedules", tag = "schedules", request_body = NewSchedule,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = Schedule)))]
pub async fn create_schedule(
    State(app): State<App>,
    Writer(caller): Writer,
    key: Key,
    Text { value: new, text }: Text<NewSchedule>,
) -> Result<Response> {
    let job = JobText::of(&text)?.unwrap_or_default();
    create_once(&app, caller, key, new, job, idempotency::fingerprint(&text)).await.map(idempotency::answer)
}

/// Creates a schedule once for a key. `job` is the text of the job's body.
pub(crate) async fn create_once(
    app: &App,
    caller: Caller,
    key: Key,
    new: NewSchedule,
    job: String,
    fingerprint: [u8; 32],
) -> Result<(StatusCode, String)> {
    let (name, engine) = (key.name(&caller), app.engine.clone());
    let make = move |response_slot| async move { engine.create_schedule(&caller, new, job, response_slot).await };
    // The URL of `on_completed` may contain a secret.
    once(app, name, ResponseStorage::Sealed, "POST /schedules", fingerprint, make).await
}

/// Runs a schedule once for a key; returns the schedule as JSON.
pub(crate) async fn run_once(
    app: &App,
    caller: Caller,
    key: Key,
    id: Uuid,
    reason: Option<String>,
    traceparent: Option<Traceparent>,
) -> Result<String> {
    let (engine, name) = (app.engine.clone(), key.name(&caller));
    let fingerprint = idempotency::fingerprint(Document::of(&(id, &reason)).text());
    let run = move |slot| async move { engine.run_schedule(&caller, id, reason, traceparent, &slot).await };
    Ok(once(app, name, ResponseStorage::Sealed, "POST /schedules/{id}/run", fingerprint, run).await?.1)
}

/// List schedules
///
/// Newest first. Callers see their own schedules, staff see all.
#[utoipa::path(get, path = "/schedules", tag = "schedules", params(PlainList),
    responses((status = 200, body = Page<Schedule>)))]
pub async fn list_schedules(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Schedule>>> {
    let list = Schedules(&query);
    let found = app.engine.schedules(&caller, query.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |schedule| schedule.id)?))
}

/// Get a schedule
///
/// With its next five ticks and its last run.
#[utoipa::path(get, path = "/schedules/{id}", tag = "schedules", params(("id" = Uuid, Path)),
    responses((status = 200, body = Schedule)))]
pub async fn get_schedule(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
) -> Result<Answer<Schedule>> {
    Ok(Answer(app.engine.schedule(&caller, id).await?))
}

/// List the runs of a schedule
///
/// Newest first: each tick with its tree, or with the reason why it has none. The newest thousand are kept. A tree may have
/// been deleted since.
#[utoipa::path(get, path = "/schedules/{id}/runs", tag = "schedules", params(("id" = Uuid, Path), PlainList),
    responses((status = 200, body = Page<ScheduleRun>)))]
pub async fn list_schedule_runs(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<ScheduleRun>>> {
    let query = Runs(&query);
    let list = Of(id, &query);
    let found = app.engine.schedule_runs(&caller, id, query.0.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |run| run.seq)?))
}

/// Update a schedule
///
/// Changes the given fields; `null` clears `starts_at` or `ends_at`. If `job` has the URL of `on_completed` as shown
/// and no `secret`, the stored secret stays; `null` removes it, and so does another URL. After a `job` from its owner,
/// the schedule acts with the rights of this credential. Another owner's schedule requires a `reason`.
#[utoipa::path(patch, path = "/schedules/{id}", tag = "schedules", request_body = SchedulePatch,
    params(("id" = Uuid, Path)), responses((status = 200, body = Schedule)))]
pub async fn patch_schedule(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Text { value: patch, text }: Text<SchedulePatch>,
) -> Result<Answer<Schedule>> {
    let job = JobText::of(&text)?;
    Ok(Answer(app.engine.patch_schedule(&caller, id, patch, job).await?))
}

/// Delete a schedule
///
/// Its trees are kept. Another owner's schedule requires a `reason`, as a parameter or in the body.
#[utoipa::path(delete, path = "/schedules/{id}", tag = "schedules", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Deleted")))]
pub async fn delete_schedule(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<StatusCode> {
    app.engine.delete_schedule(&caller, id, reason).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Run a schedule now
///
/// Creates a tree at once, regardless of `overlap` and also while paused. The id of the tree is `last_run.job_id`.
/// Another owner's schedule requires a `reason`. With an `Idempotency-Key`, a repeated call creates nothing and gets the
/// first response. 403 if the account or the token that the schedule acts for is not valid any more.
#[utoipa::path(post, path = "/schedules/{id}/run", tag = "schedules",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters"),
           ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 200, body = Schedule)))]
pub async fn run_schedule(
    State(app): State<App>,
    Writer(caller): Writer,
    Trace(traceparent): Trace,
    Path(id): Path<Uuid>,
    key: Key,
    Reason(reason): Reason,
) -> Result<Response> {
    let text = run_once(&app, caller, key, id, reason, traceparent).await?;
    Ok(idempotency::answer((StatusCode::OK, text)))
}

/// Pause a schedule
///
/// The schedule has no ticks until it is resumed, and missed ones are not caught up. Repeating the call has no effect.
/// Another owner's schedule requires a `reason`.
#[utoipa::path(post, path = "/schedules/{id}/pause", tag = "schedules", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 200, body = Schedule)))]
pub async fn pause_schedule(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<Answer<Schedule>> {
    Ok(Answer(app.engine.pause_schedule(&caller, id, true, reason).await?))
}

/// Resume a schedule
///
/// The next tick is the first one from now on. Repeating the call has no effect. Another owner's schedule requires a
/// `reason`.
#[utoipa::path(post, path = "/schedules/{id}/resume", tag = "schedules", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 200, body = Schedule)))]
pub async fn resume_schedule(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<Answer<Schedule>> {
    Ok(Answer(app.engine.pause_schedule(&caller, id, false, reason).await?))
}
