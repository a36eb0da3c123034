//! HTTP handlers for jobs: create, read, list, seal.

use std::{collections::BTreeMap, time::Duration};

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use domain::{
    Job, JobStatus, Outcome, Problem, Time,
    api::{NewJob, Page},
    identity::audit::ReasonBody,
    limits::LONGEST_WAIT_SECONDS,
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    callers::{Reader, Writer},
    enqueue::idempotency::{self, Key, Text},
    extract::{Filters, Path, Query, Reason, ReasonParameter, ids, is_known, names_a_version, read_filters},
    query::{
        cursor::{Paged as _, paged},
        sort::ByAge,
    },
    trace::Trace,
};
use crate::{App, auth::Ongoing, http::error::Result};
use engine::{Creation, CreationOutcome, JobFilter, read_source::from_primary};

/// Filters of the job list; all given filters must match.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobList {
    /// Any of these ids, separated by commas, at most 1,000
    id: Option<String>,
    /// `true`: only roots, with status and outcome of the whole tree
    root: Option<bool>,
    /// Jobs of this tree
    root_id: Option<Uuid>,
    /// Children of this job
    parent: Option<Uuid>,
    status: Option<JobStatus>,
    outcome: Option<Outcome>,
    /// Name of a job type
    #[serde(rename = "type")]
    job_type: Option<String>,
    /// Name of a user or service
    owner: Option<String>,
    initiated_by: Option<String>,
    dedupe_key: Option<String>,
    /// Idempotency-Key of the request that created the tree, as long as it is stored
    idempotency_key: Option<String>,
    /// Replays of this tree
    replay_of: Option<Uuid>,
    /// Text in name, key or metadata
    q: Option<String>,
    /// `true`: open jobs without activity for an hour
    stalled: Option<bool>,
    #[param(value_type = Option<String>, format = DateTime)]
    created_after: Option<Time>,
    #[param(value_type = Option<String>, format = DateTime)]
    created_before: Option<Time>,
    /// `-created_at` (default): newest first; `created_at`: oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: ByAge,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
    /// `metadata.<name>=<value>`, parsed separately
    #[serde(skip_deserializing)]
    #[param(ignore)]
    metadata: BTreeMap<String, String>,
}

paged!(JobList, "jobs");

impl JobList {
    /// Parses a query into its filter.
    pub(crate) fn read(query: &str) -> Result<JobFilter> {
        let Filters(list, metadata) = read_filters::<Self>(query)?;
        Self { metadata, ..list }.filter()
    }

    /// Parses a query into its filter; the flag is true if the oldest jobs come first.
    pub(crate) fn read_ordered(query: &str) -> Result<(JobFilter, bool)> {
        let Filters(list, metadata) = read_filters::<Self>(query)?;
        let oldest_first = list.sort == ByAge::Oldest;
        Ok((Self { metadata, ..list }.filter()?, oldest_first))
    }

    fn filter(&self) -> Result<JobFilter> {
        Ok(JobFilter {
            ids: ids(self.id.as_deref())?,
            root: self.root,
            root_id: self.root_id,
            parent: self.parent,
            status: self.status,
            outcome: self.outcome,
            job_type: self.job_type.clone(),
            owner: self.owner.clone(),
            uploaded_by: None,
            initiated_by: self.initiated_by.clone(),
            dedupe_key: self.dedupe_key.clone(),
            idempotency_key: self.idempotency_key.clone(),
            replay_of: self.replay_of,
            metadata: self.metadata.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            q: self.q.clone(),
            stalled: self.stalled,
            created_after: self.created_after,
            created_before: self.created_before,
        })
    }
}

/// Create a tree of jobs
///
/// Only `type` is required. A request with an `Idempotency-Key` or an `id` can be repeated: a repeat returns the
/// existing tree.
#[utoipa::path(post, path = "/jobs", tag = "jobs", request_body = NewJob,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters; some types require it"),
           ("traceparent" = Option<String>, Header, description = "W3C Trace Context; an invalid one is ignored")),
    responses((status = 201, description = "A new tree", body = Job, headers(("Location" = String), ("ETag" = String))),
              (status = 202, description = "Created by an earlier request; the tree is not complete", body = Job),
              (status = 200, description = "Created by an earlier request; the tree is complete", body = Job),
              (status = 410, description = "Created by an earlier request; the tree was removed",
               body = Problem, content_type = "application/problem+json")))]
pub async fn create_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Key(key): Key,
    Trace(traceparent): Trace,
    Text { value: new, text }: Text<NewJob>,
) -> Result<Response> {
    app.engine.check_sizes(&new)?;
    let key = key.map(|key| (key, idempotency::fingerprint(&text)));
    let body_hash = new.id.map(|_| idempotency::fingerprint_without_id(&text));
    let creation = Creation { new, key, body_hash, may_need_key: true, traceparent };
    created_response(&app, app.engine.create_tree(&caller, creation).await?).await
}

/// Create a tree of jobs with a given id
///
/// A repeat with an equal body has no effect. A different body with the same id is 409 `id_in_use`.
#[utoipa::path(put, path = "/jobs/{id}", tag = "jobs", request_body = NewJob,
    params(("id" = Uuid, Path),
           ("traceparent" = Option<String>, Header, description = "W3C Trace Context; an invalid one is ignored")),
    responses((status = 201, description = "A new tree", body = Job, headers(("Location" = String), ("ETag" = String))),
              (status = 200, description = "Created by an earlier request", body = Job)))]
pub async fn put_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Trace(traceparent): Trace,
    Text { value: new, text }: Text<NewJob>,
) -> Result<Response> {
    if new.id.is_some_and(|given| given != id) {
        let expected = "expected the id of the path, or none".to_owned();
        return Err(Problem::invalid_body([("/id".to_owned(), expected)]).into());
    }
    app.engine.check_sizes(&new)?;
    let creation = Creation {
        new: NewJob { id: Some(id), ..new },
        key: None,
        body_hash: Some(idempotency::fingerprint_without_id(&text)),
        may_need_key: false,
        traceparent,
    };
    created_response(&app, app.engine.create_tree(&caller, creation).await?).await
}

/// Response with the tree as `GET /jobs/{id}` shows it: a caller who may create a tree may see it.
async fn created_response(app: &App, (created, tree): (CreationOutcome, Option<Box<Job>>)) -> Result<Response> {
    let id = created.root_id();
    let status = match created {
        CreationOutcome::New(_) => StatusCode::CREATED,
        CreationOutcome::InProgress(_) => StatusCode::ACCEPTED,
        CreationOutcome::Existing(_) => StatusCode::OK,
    };
    let job = match tree {
        Some(tree) => *tree,
        None => app.engine.read_tree(id, id).await?,
    };
    let headers = [(header::LOCATION, format!("/api/v1/jobs/{id}")), (header::ETAG, etag(job.version))];
    Ok((status, headers, Answer(job)).into_response())
}

/// List jobs
///
/// Newest first, without children. Callers see their own jobs, staff see all. Counts of trees may be a second old.
#[utoipa::path(get, path = "/jobs", tag = "jobs",
    params(JobList, ("metadata.name" = Option<String>, Query,
        description = "`metadata.<name>`: jobs whose metadata has this value under `<name>`; non-text values as JSON")),
    responses((status = 200, body = Page<Job>)))]
pub async fn list_jobs(
    State(app): State<App>,
    Reader(caller): Reader,
    Filters(query, metadata): Filters<JobList>,
) -> Result<Answer<Page<Job>>> {
    let query = JobList { metadata, ..query };
    let (limit, after) = (query.rows()?, query.place::<i64>()?);
    let (jobs, next) =
        app.engine.list_jobs(&caller, &query.filter()?, query.sort == ByAge::Oldest, after, limit).await?;
    Ok(Answer(query.page(jobs, next)))
}

/// Query parameters for reading a job.
#[derive(Clone, Copy, Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct JobReading {
    /// `false`: omits the jobs below it
    children: Option<bool>,
    /// Seconds to wait until the job is newer than `If-None-Match` (without it: than now), 0 to 30
    wait_seconds: Option<u64>,
}

/// Get a job with its subtree
///
/// Any job of a tree can be read with everything below it. With `If-None-Match` an unchanged job is 304; with
/// `wait_seconds` the response waits for a change.
#[utoipa::path(get, path = "/jobs/{id}", tag = "jobs",
    params(("id" = Uuid, Path), JobReading, ("If-None-Match" = Option<String>, Header, description = "Earlier ETag")),
    responses((status = 200, body = Job, headers(("ETag" = String))),
              (status = 304, description = "The job still has the version of `If-None-Match`")))]
pub async fn get_job(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
    Query(reading): Query<JobReading>,
    headers: HeaderMap,
) -> Result<Response> {
    let wait = reading.wait_seconds.unwrap_or(0);
    if wait > u64::from(LONGEST_WAIT_SECONDS) {
        return Err(Problem::parameter("wait_seconds", "expected 0 to 30").into());
    }
    let children = reading.children.unwrap_or(true);
    let knows = |job: &Job| is_known(&headers, &etag(job.version));
    let mut job = app.engine.job(&caller, id, children).await?;
    if wait > 0 && (knows(&job) || !names_a_version(&headers)) {
        let wait = Duration::from_secs(wait);
        let waiting = from_primary(app.hub.job_newer_than(&app.engine, &caller, id, job.version, wait));
        let mut ongoing = Ongoing::of(&app, &caller);
        let waited = tokio::select! {
            waited = waiting => Some(waited?),
            refused = ongoing.ended() => return Err(refused.into()),
            // When the server stops, the long poll ends with the current state.
            () = app.shutdown.cancelled() => None,
        };
        if let Some(newer) = waited
            && newer.version > job.version
        {
            job = if children { newer } else { Job { children: None, ..newer } };
        }
    }
    let tag = [(header::ETAG, etag(job.version))];
    if knows(&job) {
        return Ok((StatusCode::NOT_MODIFIED, tag).into_response());
    }
    Ok((tag, Answer(job)).into_response())
}

/// Seal a job
///
/// A sealed job accepts no more items. A tree is complete when all its jobs are sealed and none of their items is
/// pending. Treeline seals a job that is fed by its parent (409 `job_is_fed`). Another owner's job requires a `reason`,
/// as a parameter or in the body. Repeating the call has no effect.
#[utoipa::path(post, path = "/jobs/{id}/seal", tag = "jobs", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 200, body = Job)))]
pub async fn seal_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<Answer<Job>> {
    app.engine.seal(&caller, id, reason).await?;
    Ok(Answer(app.engine.changed_job(&caller, id, true).await?))
}

fn etag(version: i64) -> String {
    format!("\"{version}\"")
}
