//! Job types over HTTP: the verbs, the versions in `If-Match`, the pages of the list.
//!
//! What may be changed and by whom is in `crate::job_types`, which the pages use as well.

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{JobType, Time, api::Page, job_type::JobTypeSpec};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use super::{
    cursor::{Paged, cut},
    extract::{IfMatch, Json, Path, Query},
    idempotency::{self, Keep, Key, Text, once},
    sort::Named,
};
use crate::{
    App,
    auth::{Caller, Scope},
    error::Result,
    job_types::{self, Fields},
};

/// Where a page of job types begins.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobTypeList {
    /// `-created_at`, the default: the newest first; `created_at`: the oldest first; `name` and `-name`
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: Named,
    /// Rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Paged for JobTypeList {
    const LIST: &'static str = "job-types";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        self.limit
    }
}

/// Make a job type; only `name` is required
///
/// A name that is taken is 409 `duplicate`. Jobs keep delivery, steps, schema, retention and `max_failures`
/// as they were when they were created; pause, concurrency, backoff and executor act on running jobs within
/// a second.
#[utoipa::path(post, path = "/job-types", tag = "job types", request_body = JobTypeSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = JobType)))]
pub async fn create_job_type(
    State(app): State<App>,
    caller: Caller,
    key: Key,
    Text { value: spec, text }: Text<JobTypeSpec>,
) -> Result<Response> {
    caller.require(Scope::Admin)?;
    job_types::check_size(&app, &spec)?;
    let (name, fingerprint, inner) = (key.name(&caller), idempotency::fingerprint(&text), app.clone());
    let make = |keeping| async move { job_types::create(&inner, &caller, spec, keeping).await };
    once(&app, name, Keep::Plain, "POST /job-types", fingerprint, make).await.map(idempotency::answer)
}

/// List job types, newest first
///
/// Every caller with `jobs:read` sees every type. Secrets of push executors are never shown.
#[utoipa::path(get, path = "/job-types", tag = "job types", params(JobTypeList),
    responses((status = 200, body = Page<JobType>)))]
pub async fn list_job_types(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<JobTypeList>,
) -> Result<Answer<Page<JobType>>> {
    let (limit, behind) = (query.rows()?, query.place::<(Time, String)>()?);
    let found = job_types::list(&app, &query.sort.part(behind, limit + 1)).await?;
    let (data, next) = cut(found, limit, |found| (found.created_at, found.name.clone()));
    let data = data.into_iter().map(|found| job_types::shown_to(&caller, found)).collect();
    Ok(Answer(query.page(data, next)))
}

/// A job type
///
/// Secrets of a push executor are never shown.
#[utoipa::path(get, path = "/job-types/{name}", tag = "job types", params(("name" = String, Path)),
    responses((status = 200, body = JobType)))]
pub async fn get_job_type(State(app): State<App>, caller: Caller, Path(name): Path<String>) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::shown_to(&caller, job_types::get(&app, &name).await?)))
}

/// Make or replace a job type; what the body leaves out takes its default
///
/// With `If-Match` it is replaced only if it still has that version (412 otherwise).
#[utoipa::path(put, path = "/job-types/{name}", tag = "job types", request_body = JobTypeSpec,
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The version it must have")),
    responses((status = 200, body = JobType), (status = 201, description = "It is new", body = JobType)))]
pub async fn put_job_type(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
    Json(fields): Json<Fields>,
) -> Result<(StatusCode, Answer<JobType>)> {
    let spec = job_types::named(&name, fields)?;
    let (stored, is_new) = job_types::put(&app, &caller, &spec, version).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Answer(stored)))
}

/// Change the fields that the body names; `null` is a value, and fields of `backoff` count singly
///
/// Secrets of a push executor that the body does not name stay as they are. With `If-Match` it is changed
/// only if it still has that version (412 otherwise).
#[utoipa::path(patch, path = "/job-types/{name}", tag = "job types", request_body = Object,
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The version it must have")),
    responses((status = 200, body = JobType)))]
pub async fn patch_job_type(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
    Json(fields): Json<Fields>,
) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::patch(&app, &caller, &name, &fields, version).await?))
}

/// Remove a job type that no job uses
///
/// 409 `job_type_in_use` while jobs use it; pause it instead.
#[utoipa::path(delete, path = "/job-types/{name}", tag = "job types",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "The version it must have")),
    responses((status = 204, description = "Gone")))]
pub async fn delete_job_type(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
) -> Result<StatusCode> {
    job_types::delete(&app, &caller, &name, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a job type: none of its items is handed out any more; open assignments go on
///
/// Again is no change.
#[utoipa::path(post, path = "/job-types/{name}/pause", tag = "job types", params(("name" = String, Path)),
    responses((status = 200, body = JobType)))]
pub async fn pause_job_type(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::set_paused(&app, &caller, &name, true).await?))
}

/// Resume a job type
///
/// Waiting items are handed out again within a second. Again is no change.
#[utoipa::path(post, path = "/job-types/{name}/resume", tag = "job types", params(("name" = String, Path)),
    responses((status = 200, body = JobType)))]
pub async fn resume_job_type(
    State(app): State<App>,
    caller: Caller,
    Path(name): Path<String>,
) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::set_paused(&app, &caller, &name, false).await?))
}
