//! Items, and why they are not being worked on.

use std::{collections::HashMap, sync::Arc};

use domain::{
    Document, Item, ItemState, Problem, Time,
    item::{Attempt, EndedAs, Holder, ItemError, ItemProgress, Step, WaitingFor},
};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::Result,
    store::{
        contracts::JobInfo,
        reading::{self, ItemView, Position},
        trees::LOOK_AT,
    },
};

use super::super::{Core, Engine};

/// What a list of items is filtered by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ItemFilter {
    pub job: Option<Uuid>,
    pub root: Option<Uuid>,
    pub job_type: Option<String>,
    /// Any of these; empty: all.
    pub states: Vec<ItemState>,
    /// The error's fingerprint.
    pub error: Option<String>,
    pub row: Option<i64>,
    /// Text in the payload or the error.
    pub q: Option<String>,
}

/// Items in flight that are shown at once.
const IN_FLIGHT: i64 = 50;
/// Rows looked at in one step of a filter without an index.
const STEP: i64 = 1_000;

impl Engine {
    /// One item, with its payload.
    pub async fn item(&self, caller: &Caller, id: Uuid) -> Result<Item> {
        caller.require(Scope::JobsRead)?;
        let core = &self.0.core;
        let mut items = core.views(&[id], true).await?;
        let item = items.pop().ok_or_else(|| Problem::not_found("item"))?;
        match core.visible_job(caller, item.job_id).await {
            Ok(_) => Ok(item),
            Err(_) => Err(Problem::not_found("item").into()),
        }
    }

    /// The attempts of an item, oldest first.
    pub async fn attempts(&self, caller: &Caller, id: Uuid) -> Result<Vec<Attempt>> {
        self.item(caller, id).await?;
        let rows = reading::attempts(&self.0.core.pools.read, id).await?;
        Ok(rows
            .into_iter()
            .map(|row| Attempt {
                attempt: row.attempt,
                worker_id: row.worker_id,
                started_at: row.started_at.map(Time),
                ended_at: row.ended_at.map(Time),
                ended_as: row.ended_as.and_then(EndedAs::from_code),
                error: error(row.error_message, row.error_kind, row.error_detail, row.ended_at),
                step: None,
                result: row.result.map(Document::trusted),
            })
            .collect())
    }

    /// The items of a job and below it that workers hold now, the longest first, without payloads.
    pub async fn items_in_flight(&self, caller: &Caller, job_id: Uuid) -> Result<Vec<Item>> {
        let job = self.job(caller, job_id, true).await?;
        self.flights(&job).await
    }

    /// The items in flight of a tree, whoever asks.
    pub(crate) async fn flights(&self, job: &domain::Job) -> Result<Vec<Item>> {
        if job.tree.counts.running == 0 {
            return Ok(Vec::new());
        }
        let core = &self.0.core;
        let mut gates = Vec::new();
        for job in job.walk() {
            if job.counts.running > 0
                && let Some(info) = core.jobs.by_id(&core.pools.read, job.id).await?
            {
                gates.push(info.gate_id);
            }
        }
        let ids = reading::in_flight(&core.pools.read, &gates, IN_FLIGHT).await?;
        let mut items = core.views(&ids, false).await?;
        // One that has ended since is no longer in flight.
        items.retain(|item| item.assignment.is_some());
        items.sort_by_key(|item| (item.assignment.as_ref().map(|a| a.since), item.id));
        Ok(items)
    }

    /// Items that match, in order, behind a position. A page may be short, even empty, with a next
    /// position, when a filter had to look.
    pub async fn list_items(
        &self,
        caller: &Caller,
        filter: &ItemFilter,
        after: Option<Position>,
        limit: i64,
    ) -> Result<(Vec<Item>, Option<Position>)> {
        caller.require(Scope::JobsRead)?;
        let core = &self.0.core;
        let pool = &core.pools.read;
        for id in [filter.job, filter.root].into_iter().flatten() {
            core.visible_job(caller, id).await?;
        }
        let gates =
            reading::gates(pool, filter.job, filter.root, filter.job_type.as_deref(), caller.visible_owner()).await?;
        let unsuccessful: Vec<i16> = filter.states.iter().filter(|s| is_unsuccessful(**s)).map(|s| s.code()).collect();
        let indexed = !filter.states.is_empty() && unsuccessful.len() == filter.states.len() && filter.row.is_none();
        let mut position = after.unwrap_or((0, 0));
        let mut found: Vec<Item> = Vec::new();
        let mut looked = 0;
        loop {
            let step = if filter.q.is_some() || !indexed { STEP.max(limit) } else { limit - found.len() as i64 };
            let step = if filter.states.is_empty() && filter.q.is_none() { limit } else { step };
            let rows = if indexed {
                let error = filter.error.as_deref();
                reading::page_unsuccessful(pool, &gates, &unsuccessful, error, position, step).await?
            } else {
                reading::page(pool, &gates, position, filter.row, step).await?
            };
            let ids: Vec<Uuid> = rows.iter().map(|row| row.0).collect();
            let mut views: HashMap<Uuid, Item> =
                core.views(&ids, true).await?.into_iter().map(|item| (item.id, item)).collect();
            for &(id, gate_id, seq) in &rows {
                position = (gate_id, seq);
                if let Some(item) = views.remove(&id)
                    && matches(filter, &item)
                {
                    found.push(item);
                    if found.len() as i64 == limit {
                        return Ok((found, Some(position)));
                    }
                }
            }
            looked += rows.len() as i64;
            if (rows.len() as i64) < step {
                return Ok((found, None));
            }
            if looked >= LOOK_AT {
                return Ok((found, Some(position)));
            }
        }
    }
}

const fn is_unsuccessful(state: ItemState) -> bool {
    matches!(state, ItemState::Dead | ItemState::Cancelled | ItemState::Expired)
}

fn matches(filter: &ItemFilter, item: &Item) -> bool {
    let has = |text: &str, wanted: &str| text.to_lowercase().contains(wanted);
    (filter.states.is_empty() || filter.states.contains(&item.state))
        && filter.error.as_ref().is_none_or(|wanted| {
            item.last_error
                .as_ref()
                .is_some_and(|e| domain::fingerprint::fingerprint(e.kind.as_deref(), &e.message) == *wanted)
        })
        && filter.q.as_ref().is_none_or(|wanted| {
            let wanted = wanted.to_lowercase();
            item.payload.as_ref().is_some_and(|p| has(p.text(), &wanted))
                || item.last_error.as_ref().is_some_and(|e| has(&e.message, &wanted))
        })
}

impl Core {
    /// Items by id, in the order of the ids.
    async fn views(&self, ids: &[Uuid], payloads: bool) -> Result<Vec<Item>> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let views = reading::items(&self.pools.read, ids, payloads).await?;
        let jobs = self.jobs.by_gates(&self.pools.read, views.iter().map(|v| v.gate_id)).await?;
        let mut by_id: HashMap<Uuid, Item> = views
            .into_iter()
            .filter_map(|view| {
                let job = jobs.get(&view.gate_id)?;
                let paused = self.types.by_id(job.type_id).is_some_and(|t| t.paused);
                Some((view.id, item(view, job, paused)))
            })
            .collect();
        Ok(ids.iter().filter_map(|id| by_id.remove(id)).collect())
    }
}

fn error(
    message: Option<String>,
    kind: Option<String>,
    detail: Option<String>,
    at: Option<time::OffsetDateTime>,
) -> Option<ItemError> {
    Some(ItemError { message: message?, kind, detail: detail.map(Document::trusted), at: Time(at?) })
}

fn item(view: ItemView, job: &Arc<JobInfo>, paused: bool) -> Item {
    let state = ItemState::from_code(view.state).unwrap_or(ItemState::Available);
    let holder = match (view.lease_started_at, view.last_beat, view.lease_expires_at) {
        (Some(since), Some(beat), Some(expires)) => Some(Holder {
            worker_id: view.worker_id.clone().unwrap_or_default(),
            since: Time(since),
            last_heartbeat_at: Time(beat),
            lease_expires_at: Time(expires),
        }),
        _ => None,
    };
    let progress = (view.progress_done.is_some() || view.progress_total.is_some() || view.progress_message.is_some())
        .then(|| ItemProgress {
            done: view.progress_done,
            total: view.progress_total,
            message: view.progress_message.clone(),
        });
    let updated_at = [view.ended_at, view.last_beat, view.error_at, Some(view.created_at)]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(view.created_at);
    let waiting = |reason: &str, detail: Option<&str>, until| {
        Some(WaitingFor { reason: reason.to_owned(), detail: detail.map(str::to_owned), until })
    };
    let due = view.due_at.map(Time);
    let waiting_for = match state {
        ItemState::Retryable => waiting("retry", None, due),
        ItemState::Scheduled => waiting("run_after", None, due),
        ItemState::Available if paused => waiting("paused", Some(&job.type_name), None),
        ItemState::Available => waiting("not_claimed", Some("No worker has asked for it yet."), None),
        _ => None,
    };
    Item {
        id: view.id,
        job_id: job.job_id,
        root_id: job.root_id,
        job_type: job.type_name.clone(),
        seq: view.seq,
        row: view.row,
        state,
        attempts: view.attempts,
        failures: view.failures,
        max_failures: job.max_failures,
        payload: view.payload.map(Document::trusted),
        result: view.result.map(Document::trusted),
        progress,
        step: view.step_name.zip(view.step_data).map(|(name, data)| Step { name, data: Document::trusted(data) }),
        metadata: view.metadata.map_or_else(Document::empty_object, Document::trusted),
        dedupe_key: view.dedupe_key,
        serialize_key: view.serialize_key,
        priority: view.priority,
        run_after: view.run_after.map(Time),
        expires_at: view.expires_at.map(Time),
        retry_at: if state == ItemState::Retryable { due } else { None },
        created_at: Time(view.created_at),
        updated_at: Time(updated_at),
        finished_at: view.ended_at.map(Time),
        last_error: error(view.error_message, view.error_kind, view.error_detail, view.error_at),
        fed_by: view.fed_by,
        cancel_requested_at: view.cancel_requested_at.map(Time),
        assignment: holder,
        waiting_for,
        version: (updated_at.unix_timestamp_nanos() / 1_000) as i64,
    }
}
