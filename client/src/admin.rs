//! Calls for administration: job types, statistics, workers, alerts, callbacks, and the audit log.

use domain::{
    JobType,
    api::{Page, ReasonBody, Series, SeriesMetric, SeriesStep, Stats, Worker},
    dispatch::assignment::AssignmentId,
    id::Uuid,
    identity::audit::AuditEntry,
    job_type::JobTypeSpec,
    notify::{
        alert::{Alert, AlertBody},
        delivery::CallbackDelivery,
    },
};
use reqwest::Method;
use serde::Serialize;

use crate::{api::idempotency_header, client::Client, error::Result, paging::PageQuery, retry::RetryPolicy};

/// Filter of audit entries; all given fields must match.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Person or service that performed the action.
    pub actor: Option<String>,
    /// `job.cancel`, `item.retry` …
    pub action: Option<String>,
    /// Actions on this job.
    pub job: Option<Uuid>,
    /// Actions within this tree.
    pub root: Option<Uuid>,
    /// Actions on this item.
    pub item: Option<Uuid>,
    pub page: PageQuery,
}

impl Client {
    /// Creates a job type.
    ///
    /// # Errors
    /// 409 `duplicate` if the name is taken.
    pub async fn create_job_type(&self, spec: &JobTypeSpec) -> Result<JobType> {
        let call = self.post(&["job-types"]).json(spec);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Changes the given fields of a job type; with `version`, only if the type still has that version.
    ///
    /// # Errors
    /// 412 `precondition_failed`.
    pub async fn patch_job_type(&self, name: &str, fields: &impl Serialize, version: Option<i64>) -> Result<JobType> {
        let call = self.call(Method::PATCH, &["job-types", name]).json(fields).if_version(version);
        self.fetch(call).await
    }

    /// Deletes a job type that no job uses.
    ///
    /// # Errors
    /// 409 `job_type_in_use`.
    pub async fn delete_job_type(&self, name: &str) -> Result<()> {
        self.send(self.call(Method::DELETE, &["job-types", name])).await.map(drop)
    }

    /// Pauses a job type: its items are not assigned anymore. Idempotent.
    pub async fn pause_job_type(&self, name: &str) -> Result<JobType> {
        self.fetch(self.post(&["job-types", name, "pause"]).retry(RetryPolicy::Always)).await
    }

    /// Resumes a paused job type. Idempotent.
    pub async fn resume_job_type(&self, name: &str) -> Result<JobType> {
        self.fetch(self.post(&["job-types", name, "resume"]).retry(RetryPolicy::Always)).await
    }

    /// Items by state, rates and days of every type.
    pub async fn stats(&self) -> Result<Stats> {
        self.fetch(self.get(&["stats"])).await
    }

    /// Activity of a job type, or of all types together, over the last 60 steps.
    pub async fn series(&self, metric: SeriesMetric, job_type: Option<&str>, step: SeriesStep) -> Result<Series> {
        let call = self.get(&["stats", "series"]).query("metric", metric.as_str()).query("step", step.as_str());
        self.fetch(call.query_some("type", job_type)).await
    }

    /// Workers that have claimed items recently.
    pub async fn workers(&self, page: &PageQuery) -> Result<Page<Worker>> {
        self.list(self.get(&["workers"]), page).await
    }

    /// Alerts, newest first.
    pub async fn alerts(&self, page: &PageQuery) -> Result<Page<Alert>> {
        self.list(self.get(&["alerts"]), page).await
    }

    /// Raises an alert of a worker about an item that it holds.
    pub async fn alert(&self, assignment: impl Into<AssignmentId>, message: &str) -> Result<()> {
        let body = AlertBody { message: message.to_owned() };
        self.send(self.post(&["assignments", &assignment.into().to_string(), "alert"]).json(&body)).await.map(drop)
    }

    /// Callbacks of complete trees, newest first, with every attempt.
    pub async fn deliveries(&self, page: &PageQuery) -> Result<Page<CallbackDelivery>> {
        self.list(self.get(&["deliveries"]), page).await
    }

    /// Callbacks of one tree, newest first, with every attempt.
    pub async fn deliveries_of(&self, job: Uuid, page: &PageQuery) -> Result<Page<CallbackDelivery>> {
        self.list(self.get(&["jobs", &job.to_string(), "deliveries"]), page).await
    }

    /// Sends a callback again, under the same `webhook-id`.
    pub async fn resend_delivery(&self, id: Uuid, reason: Option<&str>) -> Result<CallbackDelivery> {
        let body = ReasonBody { reason: reason.map(str::to_owned) };
        self.fetch(self.post(&["deliveries", &id.to_string(), "resend"]).json(&body)).await
    }

    /// Entries of the audit log, newest first.
    pub async fn audit(&self, filter: &AuditFilter) -> Result<Page<AuditEntry>> {
        let text = |id: Option<Uuid>| id.map(|id| id.to_string());
        let call = self
            .get(&["audit"])
            .query_some("actor", filter.actor.as_deref())
            .query_some("action", filter.action.as_deref())
            .query_some("job", text(filter.job).as_deref())
            .query_some("root", text(filter.root).as_deref())
            .query_some("item", text(filter.item).as_deref());
        self.list(call, &filter.page).await
    }
}
