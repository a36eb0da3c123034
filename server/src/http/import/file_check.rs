//! HTTP handler for the check of all rows of an upload.

use axum::{
    Json as Answer,
    body::Body,
    extract::State,
    response::{IntoResponse as _, Response},
};
use domain::{
    Problem,
    import::file_check::{FileCheck, FileCheckBody},
};
use futures::TryStreamExt as _;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::uploads::attachment;
use crate::http::callers::ReaderOrWorker;
use crate::http::extract::{Json, Path, Query};
use crate::{
    App,
    auth::Ongoing,
    http::error::Result,
    uploads::{self, Beside},
};
use engine::access::caller::Caller;

/// Format of the result of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum CheckFormat {
    #[default]
    Json,
    Csv,
}

/// Query parameters of a check.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Checking {
    /// `json` (default): counts, and the first rows that would fail; `csv`: all rows that would fail, each with the reason
    #[serde(default)]
    #[param(value_type = Option<CheckFormat>)]
    format: CheckFormat,
}

/// Check all rows of an upload
///
/// Reads the whole file as a job would, and lists the rows that would fail, with the reason of each. With `edits`, the
/// edited rows are checked; `POST /jobs` takes the same edits. Nothing is stored. The check ends when the client
/// disconnects. As CSV, the rows that would fail have the columns of the file and three more, as for the failures of a
/// job.
#[utoipa::path(post, path = "/uploads/{id}/check", tag = "uploads", params(("id" = Uuid, Path), Checking),
    request_body = FileCheckBody,
    responses((status = 200, description = "The result, or the rows that would fail",
               content((FileCheck = "application/json"), (String = "text/csv"))),
              (status = 422, description = "The file cannot be read that way, or the mapping or the edits do not fit it",
               body = Problem, content_type = "application/problem+json")))]
pub async fn check_upload(
    State(app): State<App>,
    ReaderOrWorker(caller): ReaderOrWorker,
    Path(id): Path<Uuid>,
    Query(checking): Query<Checking>,
    Json(body): Json<FileCheckBody>,
) -> Result<Response> {
    match checking.format {
        CheckFormat::Json => {
            Ok(Answer(uploads::check_rows(&app, &caller, id, body, Beside::default()).await?).into_response())
        }
        CheckFormat::Csv => problem_file(&app, &caller, id, body).await,
    }
}

/// The rows that would fail as a file.
pub(crate) async fn problem_file(app: &App, caller: &Caller, id: Uuid, body: FileCheckBody) -> Result<Response> {
    let upload = uploads::find(&app.pool, caller, id).await?;
    let stem = upload.filename.rsplit_once('.').map_or(upload.filename.as_str(), |(stem, _)| stem);
    let rows = uploads::problem_list(app, caller, id, body).await?;
    let rows = Ongoing::of(app, caller).guard(rows).inspect_err(|error| {
        tracing::warn!(%error, "list of problems failed");
    });
    Ok(attachment(&format!("{stem}-problems.csv"), "text/csv; charset=utf-8", Body::from_stream(rows)))
}
