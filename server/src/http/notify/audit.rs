//! HTTP handlers for the audit log: actions, their actors, objects and reasons.

use axum::{
    Json as Answer,
    body::Body,
    extract::State,
    http::header,
    response::{IntoResponse as _, Response},
};
use domain::{Problem, Time, api::Page, identity::audit::AuditEntry};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    callers::Reader,
    extract::Query,
    query::{
        cursor::{Paged as _, paged},
        sort::ByAge,
    },
};
use crate::{App, audit, auth::Ongoing, http::error::Result};
use engine::store::notify::audit::AuditQuery;

/// Filters of the audit log; all given filters must match.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct AuditList {
    /// Name of the person or service that acted
    actor: Option<String>,
    /// Name of the action, such as `job.delete`
    action: Option<String>,
    /// Actions on this job
    job: Option<Uuid>,
    /// Actions within this tree
    root: Option<Uuid>,
    /// Actions on this item
    item: Option<Uuid>,
    /// Entries of this time or later
    #[param(value_type = Option<String>, format = DateTime)]
    since: Option<Time>,
    /// `-created_at` (default): newest first; `created_at`: oldest first
    #[param(value_type = Option<String>)]
    sort: Option<ByAge>,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
    /// `ndjson`: all matching entries, oldest first, one per line; `json` (default): a page
    #[serde(skip_serializing_if = "no_filter")]
    #[param(value_type = Option<String>)]
    format: Option<Format>,
    /// Only entries after this one, with `ndjson`, to resume a copy
    #[serde(skip_serializing_if = "no_filter")]
    after: Option<Uuid>,
}

/// True for parameters that are no filters, so a cursor does not depend on them. `skip_serializing` would hide them from
/// the API description.
const fn no_filter<T>(_: &T) -> bool {
    true
}

/// Format of the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Format {
    #[default]
    Json,
    Ndjson,
}

paged!(AuditList, "audit");

/// List audit entries
///
/// Newest first. Staff see all entries, other callers those about their own work. Entries outlive the objects that they
/// are about. With `format=ndjson` all matching entries are streamed, oldest first. The stream resumes after the entry
/// `after` and skips none.
#[utoipa::path(get, path = "/audit", tag = "people", params(AuditList),
    responses((status = 200, content((Page<AuditEntry> = "application/json"), (String = "application/x-ndjson")))))]
pub async fn list_audit(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(mut list): Query<AuditList>,
) -> Result<Response> {
    let streams = list.format == Some(Format::Ndjson);
    let odd = if streams {
        list.cursor.is_some() || list.limit.is_some() || list.sort.is_some()
    } else {
        list.after.is_some()
    };
    if odd {
        let (name, expected) = if streams {
            ("format", "expected no `cursor`, `limit`, or `sort` with ndjson; it resumes with `after`")
        } else {
            ("after", "expected format=ndjson with it; pages go on by `cursor`")
        };
        return Err(Problem::parameter(name, expected).into());
    }
    // A cursor does not depend on whether the default is named.
    list.sort.get_or_insert_default();
    let (limit, before) = (list.rows_to_read()?, list.place::<(Time, Uuid)>()?);
    let query = AuditQuery {
        owner_id: None,
        actor: list.actor.clone(),
        action: list.action.clone(),
        job_id: list.job,
        root_id: list.root,
        item_id: list.item,
        since: list.since.map(|at| at.0),
        oldest_first: list.sort.unwrap_or_default().oldest_first(),
        behind: before.map(|(at, id)| (at.0, id)),
        limit,
    };
    if streams {
        let lines = audit::export(&app.pool, &caller, query, list.after).await?;
        let body = Body::from_stream(Ongoing::of(&app, &caller).guard(lines));
        return Ok(([(header::CONTENT_TYPE, "application/x-ndjson")], body).into_response());
    }
    let found = app.engine.audit(&caller, query).await?;
    Ok(Answer(list.page_of(found, |entry| (entry.at, entry.id))?).into_response())
}
