//! Calls of `/api/v1`, one function each, named like the operations of the API.
//!
//! This module has the calls of workers and of most other programs. Creating trees under a key or an id is in
//! `idempotent_create`, actions of people in `job_actions` and `bulk`, reading items in `items`, files in `files`,
//! users and tokens in `people`, and the rest in `admin`. Each call states its retry policy: reads, claims with a
//! `claim_id`, heartbeats, steps, endings and seals are idempotent; creation carries an id from the client and an
//! `Idempotency-Key`. Nothing here keeps state.

use std::time::Duration;

use domain::{
    Code, Item, Job, JobType, Time,
    api::{
        Added, Claim, Claimed, Ended, FailureBody, FinishBody, Finished, Heartbeat, HeartbeatBody, Heartbeats,
        HeartbeatsBody, LogsAdded, LogsBody, Me, NewItem, NewJob, Page, ReleaseBody, ResultBody, StepBody,
    },
    dispatch::assignment::AssignmentId,
    event_wait::WaitBody,
    id::Uuid,
    item::Step,
    job_type::JobTypeSpec,
};
use reqwest::{Method, header::HeaderValue};

use crate::{
    client::{Call, Client},
    error::{Error, Result},
    retry::RetryPolicy,
};

/// Filter of jobs; all given fields must match. See `GET /jobs`.
#[derive(Clone, Debug, Default)]
pub struct JobFilter {
    /// `waiting`, `running`, `cancelling` or `completed`.
    pub status: Option<String>,
    /// `succeeded`, `partial`, `failed` or `cancelled`.
    pub outcome: Option<String>,
    pub job_type: Option<String>,
    /// Text in name, key or metadata.
    pub q: Option<String>,
    /// Only roots, that is whole trees.
    pub root: Option<bool>,
    /// The name of the person or service whose work it is.
    pub owner: Option<String>,
    pub initiated_by: Option<String>,
    /// Jobs of this tree.
    pub root_id: Option<Uuid>,
    /// Children of this job.
    pub parent: Option<Uuid>,
    pub dedupe_key: Option<String>,
    /// The Idempotency-Key of the request that made the tree.
    pub idempotency_key: Option<String>,
    /// Replays of this tree.
    pub replay_of: Option<Uuid>,
    /// Fields of the metadata, as text.
    pub metadata: Vec<(String, String)>,
    /// Open, and without progress for an hour.
    pub stalled: Option<bool>,
    pub created_after: Option<Time>,
    pub created_before: Option<Time>,
    /// 1 to 1,000; absent: 50.
    pub limit: Option<u32>,
    /// `next_cursor` of the previous page.
    pub cursor: Option<String>,
}

impl Client {
    pub(crate) fn post(&self, path: &[&str]) -> Call {
        self.call(Method::POST, path)
    }

    pub(crate) fn get(&self, path: &[&str]) -> Call {
        self.call(Method::GET, path)
    }

    /// Owner of the token.
    pub async fn me(&self) -> Result<Me> {
        self.fetch(self.get(&["me"])).await
    }

    /// All job types the caller may see.
    pub async fn job_types(&self) -> Result<Page<JobType>> {
        self.whole_list(&["job-types"]).await
    }

    /// One job type.
    pub async fn job_type(&self, name: &str) -> Result<JobType> {
        self.fetch(self.get(&["job-types", name])).await
    }

    /// Creates the job type, or makes it what `spec` says.
    pub async fn put_job_type(&self, spec: &JobTypeSpec) -> Result<JobType> {
        let call = self.call(Method::PUT, &["job-types", &spec.name]);
        self.fetch(call.json(spec).retry(RetryPolicy::Always)).await
    }

    /// Creates a tree. Safe against lost responses: a root without an id gets one from the client, which is also the
    /// `Idempotency-Key`.
    pub async fn create_job(&self, new: &NewJob) -> Result<Job> {
        let is_ours = new.id.is_none();
        let id = new.id.unwrap_or_else(Uuid::now_v7);
        let new = NewJob { id: Some(id), ..new.clone() };
        let call = self.post(&["jobs"]).json(&new).header("idempotency-key", idempotency_header(&id.to_string())?);
        match self.fetch(call.retry(RetryPolicy::Always)).await {
            // Nobody else knows the id: an earlier attempt succeeded, and its response was lost.
            Err(error) if is_ours && error.code() == Some(Code::IdInUse) => self.job(id).await,
            other => other,
        }
    }

    /// A job with its subtree.
    pub async fn job(&self, id: Uuid) -> Result<Job> {
        self.fetch(self.get(&["jobs", &id.to_string()])).await
    }

    /// Waits up to `wait_seconds` (at most 30) for a version of the job newer than `version`, and returns it with its
    /// subtree; `None` if there is none.
    pub async fn newer_job(&self, id: Uuid, version: i64, wait_seconds: u32) -> Result<Option<Job>> {
        let call = self.get(&["jobs", &id.to_string()]).query("wait_seconds", &wait_seconds.to_string());
        let seen = HeaderValue::from_str(&format!("\"{version}\"")).unwrap_or(HeaderValue::from_static("*"));
        match self.fetch(call.header("if-none-match", seen).long_poll(wait_seconds)).await {
            Ok(job) => Ok(Some(job)),
            Err(error) if error.status() == Some(304) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A page of jobs, newest first.
    pub async fn jobs(&self, filter: &JobFilter) -> Result<Page<Job>> {
        let text = |id: Option<Uuid>| id.map(|id| id.to_string());
        let time = |at: Option<Time>| at.map(|at| at.to_string());
        let root = filter.root.map(|root| root.to_string());
        let stalled = filter.stalled.map(|stalled| stalled.to_string());
        let limit = filter.limit.map(|limit| limit.to_string());
        let named = |call: Call, (name, value): &(String, String)| call.query(&format!("metadata.{name}"), value);
        let call = filter.metadata.iter().fold(self.get(&["jobs"]), named);
        let call = call
            .query_some("owner", filter.owner.as_deref())
            .query_some("initiated_by", filter.initiated_by.as_deref())
            .query_some("root_id", text(filter.root_id).as_deref())
            .query_some("parent", text(filter.parent).as_deref())
            .query_some("dedupe_key", filter.dedupe_key.as_deref())
            .query_some("idempotency_key", filter.idempotency_key.as_deref())
            .query_some("replay_of", text(filter.replay_of).as_deref())
            .query_some("stalled", stalled.as_deref())
            .query_some("created_after", time(filter.created_after).as_deref())
            .query_some("created_before", time(filter.created_before).as_deref())
            .query_some("status", filter.status.as_deref())
            .query_some("outcome", filter.outcome.as_deref())
            .query_some("type", filter.job_type.as_deref())
            .query_some("q", filter.q.as_deref())
            .query_some("root", root.as_deref())
            .query_some("limit", limit.as_deref())
            .query_some("cursor", filter.cursor.as_deref());
        self.fetch(call).await
    }

    /// One item.
    pub async fn item(&self, id: Uuid) -> Result<Item> {
        self.fetch(self.get(&["items", &id.to_string()])).await
    }

    /// Adds items, all or none; at most 10,000. With `seal`, they are the last.
    ///
    /// Safe against lost responses. Give items a `dedupe_key` if your own repetition of the call must not add them twice.
    pub async fn add_items(&self, job: Uuid, items: &[NewItem], seal: bool) -> Result<Added> {
        let call = self.post(&["jobs", &job.to_string(), "items"]).json(&items);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        let call = call.retry(RetryPolicy::Always);
        self.fetch(if seal { call.query("seal", "true") } else { call }).await
    }

    /// The promise that the job gets no more items (`sealing`).
    pub async fn seal(&self, job: Uuid) -> Result<Job> {
        self.fetch(self.post(&["jobs", &job.to_string(), "seal"]).retry(RetryPolicy::Always)).await
    }

    /// Claims items, waiting up to `wait_seconds` for some. A claim without a `claim_id` gets one, so that a retry
    /// after a lost response returns the same assignments (`claiming`).
    pub async fn claim(&self, claim: &Claim) -> Result<Claimed> {
        let claim = Claim { claim_id: Some(claim.claim_id.unwrap_or_else(Uuid::now_v7)), ..claim.clone() };
        let wait = claim.wait_seconds.unwrap_or(0);
        self.fetch(self.post(&["assignments"]).json(&claim).retry(RetryPolicy::Always).long_poll(wait)).await
    }

    fn assignment(&self, id: impl Into<AssignmentId>, verb: &str) -> Call {
        self.post(&["assignments", &id.into().to_string(), verb]).retry(RetryPolicy::Always)
    }

    /// Keeps one assignment alive (`lease-expiry`).
    pub async fn heartbeat(&self, assignment: impl Into<AssignmentId>, body: &HeartbeatBody) -> Result<Heartbeat> {
        self.fetch(self.assignment(assignment, "heartbeat").json(body)).await
    }

    /// Keeps many assignments alive; the answers are in the same order. Not retried after `timeout`: a late heartbeat
    /// is useless, and the next one follows.
    pub async fn heartbeats(&self, body: &HeartbeatsBody, timeout: Duration) -> Result<Heartbeats> {
        let call = self.post(&["assignments", "heartbeat"]).json(body).retry(RetryPolicy::Always);
        self.with_retry_timeout(Duration::ZERO).fetch(call.timeout(timeout)).await
    }

    /// Records a recovery point (`steps`).
    pub async fn step(&self, assignment: impl Into<AssignmentId>, body: &StepBody) -> Result<Step> {
        self.fetch(self.assignment(assignment, "step").json(body)).await
    }

    /// Adds lines to the log of an attempt (`attempt-logs`): 1 to 1,000, all or none. Retried only if the first
    /// request certainly added nothing.
    pub async fn log(&self, assignment: impl Into<AssignmentId>, body: &LogsBody) -> Result<LogsAdded> {
        self.fetch(self.assignment(assignment, "logs").json(body).retry(RetryPolicy::IfNotProcessed)).await
    }

    /// Ends an assignment with its result. Idempotent (`fencing`).
    pub async fn result(&self, assignment: impl Into<AssignmentId>, body: &ResultBody) -> Result<Ended> {
        self.fetch(self.assignment(assignment, "result").json(body)).await
    }

    /// Ends an assignment with a failure (`retry-budget`).
    pub async fn failure(&self, assignment: impl Into<AssignmentId>, body: &FailureBody) -> Result<Ended> {
        self.fetch(self.assignment(assignment, "failure").json(body)).await
    }

    /// Releases an item without a failure (`retry-budget`).
    pub async fn release(&self, assignment: impl Into<AssignmentId>, body: &ReleaseBody) -> Result<Ended> {
        self.fetch(self.assignment(assignment, "release").json(body)).await
    }

    /// Ends an assignment to wait for an event (`waiting-for-events`). Idempotent (`fencing`).
    pub async fn wait(&self, assignment: impl Into<AssignmentId>, body: &WaitBody) -> Result<Ended> {
        self.fetch(self.assignment(assignment, "wait").json(body)).await
    }

    /// Reports endings, and makes the next claim in the same request. Idempotent if the claim has a `claim_id`.
    pub async fn finish(&self, body: &FinishBody) -> Result<Finished> {
        self.fetch(self.post(&["assignments", "finish"]).json(body).retry(RetryPolicy::Always)).await
    }
}

/// An `Idempotency-Key`: any text of 1 to 255 characters that a header can carry.
pub(crate) fn idempotency_header(text: &str) -> Result<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes())
        .map_err(|_| Error::Configuration(format!("{text:?} cannot be an Idempotency-Key.")))
}
