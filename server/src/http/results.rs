//! Results and failures of a tree, as a stream: NDJSON for programs, CSV for people.
//!
//! What is written is in `exports`. A stream that cannot go on breaks its connection: what arrived never
//! looks whole when it is not.

use axum::{body::Body, extract::State, response::Response};
use domain::{
    api::{FailureLine, ResultLine},
    export::{ExportFormat, ExportWhat},
};
use futures::TryStreamExt as _;
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    extract::{Path, Query},
    uploads::attachment,
};
use crate::{
    App,
    auth::{Ongoing, Viewer},
    error::Result,
    exports::Export,
};

/// Where a stream begins, and how it is written.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Streaming {
    /// Default ndjson
    #[serde(default)]
    format: ExportFormat,
    /// Goes on behind this item, the last one that arrived
    after: Option<Uuid>,
}

/// The results of a tree, in order; of its final stage, or of its leaf jobs where none is marked
///
/// One line for each succeeded item, as NDJSON or CSV. `after` is the id of the last item received and
/// resumes a stream that broke; a broken stream is cut off, never ended as if it were whole.
#[utoipa::path(get, path = "/jobs/{id}/results", tag = "jobs", params(("id" = Uuid, Path), Streaming),
    security(("token" = []), ("session" = []), ("share" = [])),
    responses((status = 200, description = "One result a line; a stream that breaks is cut off",
        content((ResultLine = "application/x-ndjson"), (String = "text/csv")))))]
pub async fn stream_results(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<Uuid>,
    Query(streaming): Query<Streaming>,
) -> Result<Response> {
    stream_tree(app, &viewer, id, streaming, ExportWhat::Results).await
}

/// The items of a tree that did not succeed, in order, with what went wrong
///
/// One line for each item that is dead, expired or cancelled, as NDJSON, or as CSV with the columns of the
/// uploaded file and three more that say what was wrong. `after` resumes a stream that broke.
#[utoipa::path(get, path = "/jobs/{id}/failures", tag = "jobs", params(("id" = Uuid, Path), Streaming),
    security(("token" = []), ("session" = []), ("share" = [])),
    responses((status = 200, description = "One item a line; as CSV the original columns and what went wrong",
        content((FailureLine = "application/x-ndjson"), (String = "text/csv")))))]
pub async fn stream_failures(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<Uuid>,
    Query(streaming): Query<Streaming>,
) -> Result<Response> {
    stream_tree(app, &viewer, id, streaming, ExportWhat::Failures).await
}

async fn stream_tree(app: App, viewer: &Viewer, id: Uuid, streaming: Streaming, what: ExportWhat) -> Result<Response> {
    let (caller, _) = viewer.looks_at(&app, id).await?;
    let export = Export::open(&app, &caller, id, what, streaming.format, streaming.after).await?;
    let media_type = match streaming.format {
        ExportFormat::Ndjson => "application/x-ndjson",
        ExportFormat::Csv => "text/csv; charset=utf-8",
    };
    let filename = export.filename.clone();
    let pages = Ongoing::of(&app, &caller).guard(export.pages().await?).inspect_err(|error| {
        tracing::warn!(%error, "a stream of results broke off");
    });
    Ok(attachment(&filename, media_type, Body::from_stream(pages)))
}
