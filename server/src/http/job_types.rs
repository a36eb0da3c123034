//! HTTP handlers for job types: the methods, the versions in `If-Match`, the pages of the list.
//!
//! The rules of changes and permissions are in `crate::job_types`, which the pages use as well.

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{JobType, api::Page, job_type::JobTypeSpec};

use super::extract::{Existence, IfMatch, Json, Path, Query, Reason};
use crate::http::{
    callers::Admin,
    enqueue::idempotency::{self, Key, ResponseStorage, Text, once},
    query::{
        cursor::Paged as _,
        plain_list::{NamedList, plain_list},
    },
};
use crate::{
    App,
    http::error::Result,
    job_types::{self, Fields},
};
use engine::access::caller::Caller;

plain_list!(JobTypes, NamedList, "job-types");

/// Create a job type
///
/// Only `name` is required. A name in use is 409 `duplicate`. Jobs keep delivery, steps, schema, retention and
/// `max_failures` of the time of their creation; pause, concurrency, backoff and executor affect running jobs within a
/// second.
#[utoipa::path(post, path = "/job-types", tag = "job types", request_body = JobTypeSpec,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = JobType)))]
pub async fn create_job_type(
    State(app): State<App>,
    Admin(caller): Admin,
    key: Key,
    Text { value: spec, text }: Text<JobTypeSpec>,
) -> Result<Response> {
    job_types::check_size(&app, &spec)?;
    let (name, fingerprint, inner) = (key.name(&caller), idempotency::fingerprint(&text), app.clone());
    let make = |response_slot| async move { job_types::create(&inner, &caller, spec, response_slot).await };
    // The URL of a push executor may contain a secret.
    once(&app, name, ResponseStorage::Sealed, "POST /job-types", fingerprint, make).await.map(idempotency::answer)
}

/// List job types
///
/// Newest first. Every caller with `jobs:read` sees every type. Secrets of push executors are never shown.
#[utoipa::path(get, path = "/job-types", tag = "job types", params(NamedList),
    responses((status = 200, body = Page<JobType>)))]
pub async fn list_job_types(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<NamedList>,
) -> Result<Answer<Page<JobType>>> {
    let list = JobTypes(&query);
    let found = job_types::list(&app, &query.sort.part(list.place()?, list.rows_to_read()?)).await?;
    let found = found.into_iter().map(|found| job_types::visible_to(&caller, found)).collect();
    Ok(Answer(list.page_of(found, |found| (found.created_at, found.name.clone()))?))
}

/// Get a job type
///
/// Secrets of a push executor are never shown.
#[utoipa::path(get, path = "/job-types/{name}", tag = "job types", params(("name" = String, Path)),
    responses((status = 200, body = JobType)))]
pub async fn get_job_type(State(app): State<App>, caller: Caller, Path(name): Path<String>) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::visible_to(&caller, job_types::get(&app, &name).await?)))
}

/// Create or replace a job type
///
/// Omitted fields get their defaults. With `If-Match`, a type with another version is not replaced (412); with
/// `If-None-Match: *`, none is.
#[utoipa::path(put, path = "/job-types/{name}", tag = "job types", request_body = JobTypeSpec,
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "Expected type version"),
        ("If-None-Match" = Option<String>, Header, description = "`*`: the type must not exist")),
    responses((status = 200, body = JobType), (status = 201, description = "Created", body = JobType)))]
pub async fn put_job_type(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
    Existence(exists): Existence,
    Json(fields): Json<Fields>,
) -> Result<(StatusCode, Answer<JobType>)> {
    let spec = job_types::named(&name, fields)?;
    let (stored, is_new) = job_types::put(&app, &caller, &spec, (version, exists)).await?;
    Ok((if is_new { StatusCode::CREATED } else { StatusCode::OK }, Answer(stored)))
}

/// Update a job type
///
/// Changes the given fields; `null` is a value, and the fields of `backoff` are merged one by one. Omitted secrets of a
/// push executor stay as they are. With `If-Match`, a type with another version is not changed (412).
#[utoipa::path(patch, path = "/job-types/{name}", tag = "job types", request_body = Object,
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "Expected type version")),
    responses((status = 200, body = JobType)))]
pub async fn patch_job_type(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
    Json(fields): Json<Fields>,
) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::patch(&app, &caller, &name, &fields, version).await?))
}

/// Delete an unused job type
///
/// 409 `job_type_in_use` while jobs use it; pause it instead.
#[utoipa::path(delete, path = "/job-types/{name}", tag = "job types",
    params(("name" = String, Path), ("If-Match" = Option<String>, Header, description = "Expected type version")),
    responses((status = 204, description = "Deleted")))]
pub async fn delete_job_type(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    IfMatch(version): IfMatch,
) -> Result<StatusCode> {
    job_types::delete(&app, &caller, &name, version).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Pause a job type
///
/// None of its items is assigned anymore; open assignments continue. Repeating the call has no effect.
#[utoipa::path(post, path = "/job-types/{name}/pause", tag = "job types", params(("name" = String, Path)),
    responses((status = 200, body = JobType)))]
pub async fn pause_job_type(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    Reason(reason): Reason,
) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::set_paused(&app, &caller, &name, true, reason).await?))
}

/// Resume a job type
///
/// Waiting items are assigned again within a second. Repeating the call has no effect.
#[utoipa::path(post, path = "/job-types/{name}/resume", tag = "job types", params(("name" = String, Path)),
    responses((status = 200, body = JobType)))]
pub async fn resume_job_type(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    Reason(reason): Reason,
) -> Result<Answer<JobType>> {
    Ok(Answer(job_types::set_paused(&app, &caller, &name, false, reason).await?))
}
