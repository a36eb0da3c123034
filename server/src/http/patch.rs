//! Small edits over HTTP: `PATCH` of jobs and items, with the version in `If-Match`.

use axum::{Json as Answer, extract::State, http::header, response::IntoResponse};
use domain::{
    Item, Job,
    api::{ItemPatch, JobPatch},
};
use uuid::Uuid;

use super::extract::{IfMatch, Json, Path};
use crate::{App, auth::Caller, error::Result};

/// Change the fields of a job that the body names; `null` takes a value away. Waiting items that had the
/// job's own priority and times follow
///
/// With `If-Match` it is changed only if it still has that version (412 otherwise).
#[utoipa::path(patch, path = "/jobs/{id}", tag = "jobs", request_body = JobPatch,
    params(("id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "The version it must have")),
    responses((status = 200, body = Job, headers(("ETag" = String)))))]
pub async fn patch_job(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    IfMatch(version): IfMatch,
    Json(body): Json<JobPatch>,
) -> Result<impl IntoResponse> {
    let job = app.engine.patch_job(&caller, id, body, version).await?;
    Ok(([(header::ETAG, format!("\"{}\"", job.version))], Answer(job)))
}

/// Change what a waiting item is held by; `null` is the job's own
///
/// An item that is running or final is 409. With `If-Match` it is changed only if it still has that version
/// (412 otherwise).
#[utoipa::path(patch, path = "/items/{id}", tag = "items", request_body = ItemPatch,
    params(("id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "The version it must have")),
    responses((status = 200, body = Item, headers(("ETag" = String)))))]
pub async fn patch_item(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    IfMatch(version): IfMatch,
    Json(body): Json<ItemPatch>,
) -> Result<impl IntoResponse> {
    let item = app.engine.patch_item(&caller, id, body, version).await?;
    Ok(([(header::ETAG, format!("\"{}\"", item.version))], Answer(item)))
}
