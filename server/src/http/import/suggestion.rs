//! HTTP handler for the suggested column mapping of an upload.

use axum::{Json as Answer, extract::State};
use domain::{
    Problem,
    api::JobUpload,
    import::{settings::MappingSuggestion, upload::UploadFormat},
};
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::reading_parameters::of_query;
use crate::http::callers::ReaderOrWorker;
use crate::http::extract::{Path, Query};
use crate::{App, http::error::Result, uploads};

/// Query parameters of a suggestion: the job type, and how to read the file.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Suggesting {
    /// Job type whose properties the columns become
    #[serde(rename = "type")]
    job_type: String,
    /// Format; default: the upload's own
    format: Option<UploadFormat>,
    /// Line of the row with the column names, from 1; default: the first record
    header_row: Option<i64>,
    /// CSV: one character; default: detected from the first lines
    delimiter: Option<String>,
    /// Text: an encoding such as `windows-1252`; default: detected from the byte order mark and the first lines
    encoding: Option<String>,
    /// XLSX: name of the sheet; default: the first one
    sheet: Option<String>,
}

/// Suggest a column mapping for an upload
///
/// Compares the header of a table with the properties of the type: first with the mapping that the caller used last for
/// the type, then by equal names, by the aliases of the type, and by similar names. Each property is suggested once.
/// Nothing is stored; the columns with a property are the `mapping` of `POST /jobs`.
#[utoipa::path(get, path = "/uploads/{id}/mapping", tag = "uploads", params(("id" = Uuid, Path), Suggesting),
    responses((status = 200, body = MappingSuggestion),
              (status = 422, description = "The file has no header or cannot be read that way, or the type is unknown",
               body = Problem, content_type = "application/problem+json")))]
pub async fn suggest_mapping(
    State(app): State<App>,
    ReaderOrWorker(caller): ReaderOrWorker,
    Path(id): Path<Uuid>,
    Query(Suggesting { job_type, format, header_row, delimiter, encoding, sheet }): Query<Suggesting>,
) -> Result<Answer<MappingSuggestion>> {
    let wanted = JobUpload { id, format, header: None, header_row, delimiter, encoding, sheet };
    Ok(Answer(uploads::suggest(&app, &caller, &wanted, &job_type, None).await.map_err(of_query)?))
}
