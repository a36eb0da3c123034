//! The audit log over HTTP: who did what to whose work, and why.

use axum::{
    Json as Answer,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use domain::{Problem, Time, api::Page, audit::AuditEntry};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use super::{
    cursor::{Paged, cut},
    extract::Query,
    sort::ByAge,
};
use crate::{App, audit, auth::Caller, error::Result, store::audit::AuditQuery};

/// Filters of the audit log; all that are given must hold.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditList {
    /// The name of the person or service who did it
    actor: Option<String>,
    /// What was done, such as `job.delete`
    action: Option<String>,
    /// What was done to this job
    job: Option<Uuid>,
    /// What was done within this tree
    root: Option<Uuid>,
    /// What was done to this item
    item: Option<Uuid>,
    /// Not older than this
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Time>,
    /// `-created_at`, the default: the newest first; `created_at`: the oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: ByAge,
    /// Rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// The `next_cursor` of the page before
    #[serde(skip_serializing)]
    cursor: Option<String>,
    /// `ndjson`: everything that matches, oldest first, one entry a line; `json`, the default: a page
    #[serde(skip_serializing)]
    #[param(value_type = Option<String>)]
    format: Option<Format>,
    /// With `ndjson`: only what comes after this entry, so that a copy goes on where it ended
    #[serde(skip_serializing)]
    after: Option<Uuid>,
}

/// Format of the answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Ndjson,
}

impl Paged for AuditList {
    const LIST: &'static str = "audit";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        self.limit
    }
}

/// Who did what, newest first: to staff all of it, to others what was done to their own work
///
/// Entries outlive the work that they speak of.
/// With `format=ndjson` everything that matches comes as a stream, oldest first; it goes on behind the entry `after`,
/// and misses none.
#[utoipa::path(get, path = "/audit", tag = "people", params(AuditList),
    responses((status = 200, content((Page<AuditEntry> = "application/json"), (String = "application/x-ndjson")))))]
pub async fn list_audit(State(app): State<App>, caller: Caller, Query(list): Query<AuditList>) -> Result<Response> {
    let streams = list.format == Some(Format::Ndjson);
    let odd = if streams { list.cursor.is_some() || list.limit.is_some() } else { list.after.is_some() };
    if odd {
        let (name, expected) = if streams {
            ("format", "expected neither `cursor` nor `limit` with ndjson, but `after`")
        } else {
            ("after", "expected format=ndjson with it; pages go on by `cursor`")
        };
        return Err(Problem::parameter(name, expected).into());
    }
    let (limit, before) = (list.rows()?, list.place::<(Time, Uuid)>()?);
    let query = AuditQuery {
        owner_id: None,
        actor: list.actor.clone(),
        action: list.action.clone(),
        job_id: list.job,
        root_id: list.root,
        item_id: list.item,
        since: list.since.map(|at| at.0),
        oldest_first: list.sort.oldest_first(),
        behind: before.map(|(at, id)| (at.0, id)),
        limit: limit + 1,
    };
    if streams {
        let lines = audit::export(&app.pool, &caller, query, list.after).await?;
        let body = Body::from_stream(lines);
        return Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response());
    }
    let (data, next) = cut(app.engine.audit(&caller, query).await?, limit, |entry| (entry.at, entry.id));
    Ok(Answer(list.page(data, next)).into_response())
}
