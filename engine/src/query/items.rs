//! Single items, their attempts, and running items.

use std::collections::HashMap;

use domain::{
    Code, Document, Item, Problem, Time,
    dispatch::waiting_reason::WaitingItems,
    item::{Attempt, EndedAs, Step, StepCount, StepCounts},
};
use uuid::Uuid;

use crate::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    store::query::item_views,
};

use super::{
    super::{Core, Engine},
    item_view,
};

/// Maximum number of running items shown at once.
const IN_FLIGHT: i64 = 50;
/// Number of items up to which those at one step are counted.
const COUNTED_AT_STEP: i64 = 10_000;
/// Maximum number of attempts shown on a page.
const ATTEMPTS: i64 = 1_000;

impl Engine {
    /// Returns one item with its payload. It is gone when its tree is deleted.
    pub async fn item(&self, caller: &Caller, id: Uuid) -> Result<Item> {
        caller.require(Scope::JobsRead)?;
        self.changed_item(caller, id).await
    }

    /// Same, as the answer to a change: `jobs:write` alone is enough to get the new state of a changed item.
    pub async fn changed_item(&self, caller: &Caller, id: Uuid) -> Result<Item> {
        let core = &self.0.core;
        let mut items = core.views(&[id], true).await?;
        let item = items.pop().ok_or_else(|| Problem::not_found("item"))?;
        core.visible_job(caller, item.job_id).await.map_err(of_an_item)?;
        Ok(item)
    }

    /// Attempts of an item, oldest first, up to the first thousand.
    pub async fn attempts(&self, caller: &Caller, id: Uuid) -> Result<Vec<Attempt>> {
        self.attempts_behind(caller, id, false, None, ATTEMPTS).await
    }

    /// Attempts of an item after a given one, oldest or newest first.
    pub async fn attempts_behind(
        &self,
        caller: &Caller,
        id: Uuid,
        newest_first: bool,
        behind: Option<i32>,
        limit: i64,
    ) -> Result<Vec<Attempt>> {
        self.item(caller, id).await?;
        let rows = item_views::attempts(self.0.core.pools.reads().await, id, newest_first, behind, limit).await?;
        Ok(rows
            .into_iter()
            .map(|row| Attempt {
                attempt: row.attempt,
                worker_id: row.worker_id,
                started_at: row.started_at.map(Time),
                ended_at: row.ended_at.map(Time),
                ended_as: row.ended_as.and_then(EndedAs::from_code),
                error: item_view::error(row.error_message, row.error_kind, row.error_detail, row.ended_at),
                step: row.step_name.zip(row.step_data).map(|(name, data)| Step { name, data: Document::trusted(data) }),
                result: row.result.map(Document::trusted),
                waited_for: row.waited_for,
            })
            .collect())
    }

    /// Items of a job by the last step that they have reached, up to 10,000 of each.
    pub async fn job_steps(&self, caller: &Caller, job_id: Uuid) -> Result<StepCounts> {
        caller.require(Scope::JobsRead)?;
        let job = self.visible_job(caller, job_id).await?;
        if job.steps.is_empty() {
            return Ok(StepCounts::default());
        }
        let pool = self.0.core.pools.reads().await;
        let found = item_views::step_counts(pool, job.job_key, &job.steps, COUNTED_AT_STEP + 1).await?;
        let count = |(name, items): (String, i64)| {
            let more = items > COUNTED_AT_STEP;
            StepCount { name, items: items.min(COUNTED_AT_STEP), more }
        };
        Ok(StepCounts { steps: found.into_iter().map(count).collect() })
    }

    /// Running items of a job and its descendants, longest running first, without payloads.
    pub async fn items_in_flight(&self, caller: &Caller, job_id: Uuid) -> Result<Vec<Item>> {
        let job = self.job(caller, job_id, true).await?;
        self.running_items(&job).await
    }

    /// Reasons why the waiting items of a job and its descendants wait, by type, largest count first.
    pub async fn waiting_by_type(&self, caller: &Caller, job_id: Uuid) -> Result<Vec<WaitingItems>> {
        let job = self.job(caller, job_id, true).await?;
        if job.tree.counts.available == 0 { Ok(Vec::new()) } else { self.0.core.waiting_by_type(&job).await }
    }

    /// Running items of a tree, without a visibility check.
    pub async fn running_items(&self, job: &domain::Job) -> Result<Vec<Item>> {
        if job.tree.counts.running == 0 {
            return Ok(Vec::new());
        }
        let core = &self.0.core;
        let mut job_keys = Vec::new();
        for job in job.subtree() {
            if job.counts.running > 0
                && let Some(info) = core.jobs.by_id(&core.pools.read, job.id).await?
            {
                job_keys.push(info.job_key);
            }
        }
        let ids = item_views::in_flight(core.pools.reads().await, &job_keys, IN_FLIGHT).await?;
        let mut items = core.views(&ids, false).await?;
        // Items that have ended since are no longer running.
        items.retain(|item| item.assignment.is_some());
        items.sort_by_key(|item| (item.assignment.as_ref().map(|a| a.since), item.id));
        Ok(items)
    }
}

impl Core {
    /// Items in the order of their ids. Items of deleted trees are left out.
    pub(crate) async fn views(&self, ids: &[Uuid], payloads: bool) -> Result<Vec<Item>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut views = item_views::items(self.pools.reads().await, ids, payloads).await?;
        views.retain(|item_view| !item_view.deleted);
        let jobs = self.jobs.by_job_keys(&self.pools.read, views.iter().map(|v| v.job_key)).await?;
        let wait_reasons = self.wait_reasons(&views, &jobs).await?;
        let mut by_id: HashMap<Uuid, Item> = views
            .into_iter()
            .filter_map(|row| {
                let job = jobs.get(&row.job_key)?;
                let waiting_for = self.waiting_for(&row, job, &wait_reasons);
                Some((row.id, item_view::item(row, job, waiting_for)))
            })
            .collect();
        Ok(ids.iter().filter_map(|id| by_id.remove(id)).collect())
    }
}

/// Turns `not_found` of a job into `not_found` of its item.
fn of_an_item(error: Error) -> Error {
    match error {
        Error::Problem(problem) if problem.code == Code::NotFound => Problem::not_found("item").into(),
        other => other,
    }
}
