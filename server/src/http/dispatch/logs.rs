//! HTTP handlers for log lines of attempts (`attempt-logs`).

use axum::{Json as Answer, extract::State};
use domain::{
    Problem,
    api::{LogLine, LogsAdded, LogsBody, Page},
    dispatch::assignment::AssignmentId,
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    extract::{Json, Path, Query},
    query::{
        cursor::{Of, Paged as _, paged},
        sort::OfLogs,
    },
};
use crate::{
    App,
    http::{
        callers::{Reader, Worker},
        error::Result,
    },
};

/// Add log lines to an assignment
///
/// 1 to 1,000 lines in order, all or none. An attempt keeps its newest requests, up to 1 MiB together; `dropped` counts the
/// lines of older ones. Lines are not a heartbeat: they do not extend the lease.
#[utoipa::path(post, path = "/assignments/{id}/logs", tag = "assignments", params(("id" = String, Path)),
    request_body = LogsBody, responses((status = 200, body = LogsAdded)))]
pub async fn log_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    Json(body): Json<LogsBody>,
) -> Result<Answer<LogsAdded>> {
    Ok(Answer(app.engine.add_logs(&caller, id, body).await?))
}

/// Query parameters of the list of log lines.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct LogList {
    /// Number of the attempt, from 1; default: the newest attempt that has a log
    attempt: Option<i32>,
    /// `line` (default): first line first; `-line`: last line first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: OfLogs,
    /// Maximum number of lines on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(LogList, "logs");

/// List the log lines of an attempt
///
/// First line first unless `sort` is given. Lines below the first number were dropped: an attempt keeps its newest
/// requests, up to 1 MiB together.
#[utoipa::path(get, path = "/items/{id}/logs", tag = "items", params(("id" = Uuid, Path), LogList),
    responses((status = 200, body = Page<LogLine>)))]
pub async fn list_logs(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
    Query(query): Query<LogList>,
) -> Result<Answer<Page<LogLine>>> {
    if query.attempt.is_some_and(|attempt| attempt < 1) {
        return Err(Problem::parameter("attempt", "expected a whole number from 1").into());
    }
    let list = Of(id, &query);
    let after = list.place::<(i32, i64)>()?;
    // A page continues in its attempt, even if later attempts have started.
    let (attempt, behind) = after.map_or((query.attempt, None), |(attempt, line)| (Some(attempt), Some(line)));
    let newest_first = query.sort == OfLogs::Newest;
    let found = app.engine.logs_behind(&caller, id, attempt, newest_first, behind, list.rows_to_read()?).await?;
    Ok(Answer(list.page_of(found, |line| (line.attempt, line.line))?))
}
