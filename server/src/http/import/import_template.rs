//! HTTP handler for template files of job types.

use axum::{body::Body, extract::State, response::Response};
use domain::{Code, Problem};
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::uploads::attachment;
use crate::http::extract::{Path, Query};
use crate::{
    App,
    http::error::{Error, Result},
    import_template::ImportTemplate,
    job_types,
};
use engine::{access::caller::Caller, task::heavy};

/// Format of a template file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum TemplateFormat {
    #[default]
    Csv,
    Xlsx,
}

/// Query parameters of a template.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Formatting {
    /// `csv` (default) or `xlsx`: a workbook with drop-downs for values that the schema lists
    #[serde(default)]
    #[param(value_type = Option<TemplateFormat>)]
    format: TemplateFormat,
}

/// Download an import template of a job type
///
/// A file with the names of the columns and example rows, to be filled in and uploaded. The columns are the properties
/// of `payload_schema`, without objects and arrays, and those that only `import` names; the rows are
/// `import.template.examples`, or one that fits the schema.
#[utoipa::path(get, path = "/job-types/{name}/template", tag = "job types",
    params(("name" = String, Path), Formatting),
    responses(
        (status = 200, description = "The file", content(
            (String = "text/csv"),
            (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"))),
        (status = 404, description = "The type does not exist or has no columns",
         body = Problem, content_type = "application/problem+json")))]
pub async fn get_import_template(
    State(app): State<App>,
    _: Caller,
    Path(name): Path<String>,
    Query(formatting): Query<Formatting>,
) -> Result<Response> {
    let job_type = job_types::get(&app, &name).await?;
    let no_columns = || Error::refuse(Code::NotFound, "The job type names no columns, so it has no template.");
    let template = ImportTemplate::of(&job_type).ok_or_else(no_columns)?;
    let (ending, media_type, bytes) = match formatting.format {
        TemplateFormat::Csv => ("csv", "text/csv; charset=utf-8", template.csv()?),
        TemplateFormat::Xlsx => {
            ("xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", heavy(|| template.xlsx())?)
        }
    };
    Ok(attachment(&format!("{name}-template.{ending}"), media_type, Body::from(bytes)))
}
