//! Reading items: lists, attempts, dead letters grouped by error.
//!
//! Actions on items are in `job_actions`, reports of workers in `api`.

use domain::{
    Item, ItemState,
    api::{ErrorGroup, LogLine, Page},
    id::Uuid,
    item::{Attempt, StepCounts},
};

use crate::{client::Client, error::Result, paging::PageQuery};

/// Filter of items; all given fields must match. See `GET /items`.
#[derive(Clone, Debug, Default)]
pub struct ItemFilter {
    /// Items of this job.
    pub job: Option<Uuid>,
    /// Items of this tree.
    pub root: Option<Uuid>,
    pub job_type: Option<String>,
    /// Any of these; empty: all.
    pub states: Vec<ItemState>,
    /// The fingerprint of a group of errors.
    pub error: Option<String>,
    /// The first line of its record in the upload.
    pub row: Option<i64>,
    /// Text in payload or error; needs `job`, `root`, or states without `succeeded`.
    pub q: Option<String>,
    /// Worker that holds the item, or that ended it.
    pub worker: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    /// The last step that it has reached.
    pub step: Option<String>,
    /// 1 to 1,000; absent: 50.
    pub limit: Option<u32>,
    /// `next_cursor` of the page before.
    pub cursor: Option<String>,
}

impl Client {
    /// A page of items: the newest job first, its items in the order in which they were added.
    pub async fn items(&self, filter: &ItemFilter) -> Result<Page<Item>> {
        let text = |id: Option<Uuid>| id.map(|id| id.to_string());
        let number = |n: Option<i64>| n.map(|n| n.to_string());
        let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
        let states = (!states.is_empty()).then(|| states.join(","));
        let call = self
            .get(&["items"])
            .query_some("job", text(filter.job).as_deref())
            .query_some("root", text(filter.root).as_deref())
            .query_some("type", filter.job_type.as_deref())
            .query_some("state", states.as_deref())
            .query_some("error", filter.error.as_deref())
            .query_some("row", number(filter.row).as_deref())
            .query_some("q", filter.q.as_deref())
            .query_some("worker", filter.worker.as_deref())
            .query_some("dedupe_key", filter.dedupe_key.as_deref())
            .query_some("serialize_key", filter.serialize_key.as_deref())
            .query_some("step", filter.step.as_deref())
            .query_some("limit", number(filter.limit.map(i64::from)).as_deref())
            .query_some("cursor", filter.cursor.as_deref());
        self.fetch(call).await
    }

    /// Numbers of items of a job by the last step that they have reached.
    pub async fn job_steps(&self, job: Uuid) -> Result<StepCounts> {
        self.fetch(self.get(&["jobs", &job.to_string(), "steps"])).await
    }

    /// All attempts at an item, oldest first.
    pub async fn attempts(&self, item: Uuid) -> Result<Page<Attempt>> {
        self.whole_list(&["items", &item.to_string(), "attempts"]).await
    }

    /// The log lines of an attempt, first line first; of the newest attempt that has a log if none is given.
    pub async fn logs(&self, item: Uuid, attempt: Option<i32>, page: &PageQuery) -> Result<Page<LogLine>> {
        let attempt = attempt.map(|attempt| attempt.to_string());
        self.list(self.get(&["items", &item.to_string(), "logs"]).query_some("attempt", attempt.as_deref()), page).await
    }

    /// The dead letters of a tree, grouped by error message; the largest group first, at most 1,000. The list has one page.
    pub async fn error_groups(&self, job: Uuid) -> Result<Page<ErrorGroup>> {
        let call = self.get(&["dead-letters", "groups"]).query("job", &job.to_string());
        self.fetch(call.query("sort", "-count").query("limit", "1000")).await
    }
}
