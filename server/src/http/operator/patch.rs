//! HTTP handlers for partial updates: `PATCH` of jobs and items, with the version in `If-Match`.

use axum::{Json as Answer, extract::State, http::header, response::IntoResponse};
use domain::{
    Item, Job,
    api::{ItemPatch, JobPatch},
};
use uuid::Uuid;

use crate::http::callers::Writer;
use crate::http::extract::{IfMatch, Json, Path};
use crate::{App, http::error::Result};

/// Update a job
///
/// Changes the given fields; `null` clears a value. Waiting items that had the job's own priority and times follow.
/// With `If-Match`, a job with another version is not changed (412).
#[utoipa::path(patch, path = "/jobs/{id}", tag = "jobs", request_body = JobPatch,
    params(("id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "Expected version of the object")),
    responses((status = 200, body = Job, headers(("ETag" = String)))))]
pub async fn patch_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    IfMatch(version): IfMatch,
    Json(body): Json<JobPatch>,
) -> Result<impl IntoResponse> {
    let job = app.engine.patch_job(&caller, id, body, version).await?;
    Ok(([(header::ETAG, format!("\"{}\"", job.version))], Answer(job)))
}

/// Update a waiting item
///
/// Changes the fields that determine when it may run; `null` restores the job's value. A running or final item is 409.
/// With `If-Match`, an item with another version is not changed (412).
#[utoipa::path(patch, path = "/items/{id}", tag = "items", request_body = ItemPatch,
    params(("id" = Uuid, Path), ("If-Match" = Option<String>, Header, description = "Expected version of the object")),
    responses((status = 200, body = Item, headers(("ETag" = String)))))]
pub async fn patch_item(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    IfMatch(version): IfMatch,
    Json(body): Json<ItemPatch>,
) -> Result<impl IntoResponse> {
    let item = app.engine.patch_item(&caller, id, body, version).await?;
    Ok(([(header::ETAG, format!("\"{}\"", item.version))], Answer(item)))
}
