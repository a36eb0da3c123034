//! Schedules (`schedules`), and search.

use domain::{
    api::{NewSchedule, Page, Schedule, SchedulePatch, ScheduleRun, SearchResults},
    id::Uuid,
};
use reqwest::Method;

use crate::{api::idempotency_header, client::Client, error::Result, paging::PageQuery, retry::RetryPolicy};

impl Client {
    /// Creates a schedule, which creates a tree at every tick.
    pub async fn create_schedule(&self, new: &NewSchedule) -> Result<Schedule> {
        let call = self.post(&["schedules"]).json(new);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Schedules, newest first.
    pub async fn schedules(&self, page: &PageQuery) -> Result<Page<Schedule>> {
        self.list(self.get(&["schedules"]), page).await
    }

    /// One schedule.
    pub async fn schedule(&self, id: Uuid) -> Result<Schedule> {
        self.fetch(self.get(&["schedules", &id.to_string()])).await
    }

    /// Ticks of a schedule, newest first.
    pub async fn schedule_runs(&self, id: Uuid, page: &PageQuery) -> Result<Page<ScheduleRun>> {
        self.list(self.get(&["schedules", &id.to_string(), "runs"]), page).await
    }

    /// Changes the given fields of a schedule. After a change by its owner, it has the rights of this token.
    pub async fn patch_schedule(&self, id: Uuid, patch: &SchedulePatch) -> Result<Schedule> {
        self.fetch(self.call(Method::PATCH, &["schedules", &id.to_string()]).json(patch)).await
    }

    /// Deletes a schedule; its trees stay.
    pub async fn delete_schedule(&self, id: Uuid, reason: Option<&str>) -> Result<()> {
        let call = self.call(Method::DELETE, &["schedules", &id.to_string()]).query_some("reason", reason);
        self.send(call).await.map(drop)
    }

    /// Creates a tree of a schedule now; its id is `last_run.job_id`.
    pub async fn run_schedule(&self, id: Uuid, reason: Option<&str>) -> Result<Schedule> {
        let call = self.post(&["schedules", &id.to_string(), "run"]).query_some("reason", reason);
        let call = call.header("idempotency-key", idempotency_header(&Uuid::now_v7().to_string())?);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Pauses a schedule: its ticks pass and are not made up for. Idempotent.
    pub async fn pause_schedule(&self, id: Uuid, reason: Option<&str>) -> Result<Schedule> {
        let call = self.post(&["schedules", &id.to_string(), "pause"]).query_some("reason", reason);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Resumes a paused schedule. Idempotent.
    pub async fn resume_schedule(&self, id: Uuid, reason: Option<&str>) -> Result<Schedule> {
        let call = self.post(&["schedules", &id.to_string(), "resume"]).query_some("reason", reason);
        self.fetch(call.retry(RetryPolicy::Always)).await
    }

    /// Jobs, items, errors, files, workers, and job types that match a text of 1 to 255 characters; at most ten of each.
    pub async fn search(&self, text: &str) -> Result<SearchResults> {
        self.fetch(self.get(&["search"]).query("q", text)).await
    }
}
