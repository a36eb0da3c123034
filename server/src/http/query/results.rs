//! Results and failures of a tree as a stream: NDJSON for programs, CSV and XLSX for people.
//!
//! The content is written by `exports`. A stream that cannot continue breaks its connection, so a partial response
//! never looks complete.

use std::{net::IpAddr, time::Duration};

use axum::{body::Body, extract::State, response::Response};
use domain::{
    api::{FailureLine, ResultLine},
    import::export::{ExportFormat, ExportLayout, ExportWhat},
};
use futures::TryStreamExt as _;
use serde::Deserialize;
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    extract::{Path, Query},
    import::uploads::attachment,
};
use crate::{
    App,
    auth::Ongoing,
    body_memory::busy,
    exports::Export,
    http::{
        callers::Viewer,
        error::{Error, Result},
    },
};
use engine::{
    access::caller::Caller,
    import::turns::{Turn, Turns},
};

/// Query parameters for the start and the format of a stream.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Streaming {
    /// Format of the stream, default ndjson
    #[serde(default)]
    format: ExportFormat,
    /// CSV: delimiter; default: that of the imported file, else a comma
    delimiter: Option<char>,
    /// CSV: true to start with a byte order mark, which tells Excel that the file is UTF-8; default: as in the imported
    /// file
    bom: Option<bool>,
    /// Id of the last item received; the stream resumes after it
    after: Option<Uuid>,
}

/// Stream the results of a tree
///
/// In order: the items of its final stage, or of its leaf jobs if no stage is marked final. One line for each succeeded
/// item, as NDJSON, CSV or XLSX. `after` resumes a broken stream; an incomplete stream is cut off, never ended normally.
#[utoipa::path(get, path = "/jobs/{id}/results", tag = "jobs", params(("id" = Uuid, Path), Streaming),
    security(("token" = []), ("session" = []), ("share" = [])),
    responses((status = 200, description = "One result per line; a stream that breaks is cut off",
        content((ResultLine = "application/x-ndjson"), (String = "text/csv"), (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")))))]
pub async fn stream_results(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<Uuid>,
    Query(streaming): Query<Streaming>,
) -> Result<Response> {
    stream_tree(app, &viewer, id, streaming, ExportWhat::Results).await
}

/// Stream the failed items of a tree
///
/// In order. One line for each item that is dead, expired or canceled, with its error, as NDJSON, CSV or XLSX. Tables
/// have the columns of the uploaded file and three more for the error. `after` resumes a broken stream.
#[utoipa::path(get, path = "/jobs/{id}/failures", tag = "jobs", params(("id" = Uuid, Path), Streaming),
    security(("token" = []), ("session" = []), ("share" = [])),
    responses((status = 200, description = "One item per line; as CSV the original columns and the error",
        content((FailureLine = "application/x-ndjson"), (String = "text/csv"), (Vec<u8> = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")))))]
pub async fn stream_failures(
    State(app): State<App>,
    viewer: Viewer,
    Path(id): Path<Uuid>,
    Query(streaming): Query<Streaming>,
) -> Result<Response> {
    stream_tree(app, &viewer, id, streaming, ExportWhat::Failures).await
}

/// One workbook at a time for each credential and address, until it has been read: it takes room on the disk of temporary
/// files.
static WORKBOOK_TURNS: Turns = Turns::new();

/// Longest wait for the turn.
const TURN_TIMEOUT: Duration = Duration::from_secs(20);

/// Waits for the turn of a caller; 503 `busy` after [`TURN_TIMEOUT`].
async fn workbook_turn(caller: &Caller) -> Result<Turn> {
    let address = caller.address.map_or(0, |address| match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
        IpAddr::V6(address) => address.to_bits(),
    });
    let holder = Uuid::from_u128(caller.credential_id.as_u128() ^ address);
    let turn = tokio::time::timeout(TURN_TIMEOUT, WORKBOOK_TURNS.take(holder)).await;
    turn.map_err(|_| Error::from(busy("Another workbook is still being downloaded with this credential.")))
}

async fn stream_tree(app: App, viewer: &Viewer, id: Uuid, streaming: Streaming, what: ExportWhat) -> Result<Response> {
    let (caller, _) = viewer.caller_for(&app, id).await?;
    let Streaming { format, delimiter, bom, after } = streaming;
    let export = Export::open(&app, &caller, id, what, ExportLayout { format, delimiter, bom }, after).await?;
    let media_type = match format {
        ExportFormat::Ndjson => "application/x-ndjson",
        ExportFormat::Csv => "text/csv; charset=utf-8",
        ExportFormat::Xlsx => "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    };
    let filename = export.filename.clone();
    let turn = match format {
        ExportFormat::Xlsx => Some(workbook_turn(&caller).await?),
        _ => None,
    };
    let pages = Ongoing::of(&app, &caller).guard(export.pages().await?).inspect_err(move |error| {
        let _turn = &turn;
        tracing::warn!(%error, "result stream failed");
    });
    Ok(attachment(&filename, media_type, Body::from_stream(pages)))
}
