//! HTTP handler for the check of all rows of an upload.

use axum::{Json as Answer, extract::State};
use domain::{
    Problem,
    file_check::{FileCheck, FileCheckBody},
};
use uuid::Uuid;

use super::extract::{Json, Path};
use crate::{
    App,
    http::error::Result,
    uploads::{self, Beside},
};
use engine::caller::Caller;

/// Check all rows of an upload
///
/// Reads the whole file as a job would, and lists the rows that would fail, with the reason of each. With `edits`, the
/// rows are checked as they are edited; the same edits are then those of `POST /jobs`. Nothing is stored. The check
/// ends when the client disconnects.
#[utoipa::path(post, path = "/uploads/{id}/check", tag = "uploads", params(("id" = Uuid, Path)),
    request_body = FileCheckBody,
    responses((status = 200, body = FileCheck),
              (status = 422, description = "The file cannot be read that way, or the mapping or the edits do not fit it",
               body = Problem, content_type = "application/problem+json")))]
pub async fn check_upload(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Json(body): Json<FileCheckBody>,
) -> Result<Answer<FileCheck>> {
    Ok(Answer(uploads::check_rows(&app, &caller, id, body, Beside::default()).await?))
}
