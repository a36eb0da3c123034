//! Item lists: reads job state rows in the order of the list, and the items of each group of jobs through the index that
//! suits the filter.
//!
//! A page reads no more than [`MAX_SCANNED`] keys and job state rows, so it may be short, even empty, and still have a next
//! page. Keys are tested before items are read.

mod list_index; // index chosen by a filter

use std::collections::{HashMap, HashSet};

use domain::{Item, ItemState, Time};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    access::caller::{Caller, Scope},
    error::Result,
    store::{
        operator::item_changes,
        query::{
            item_list_jobs::{self, ItemOrder, ListedJobState, Position},
            item_list_keys::{self, ItemKey, KeyFilter, KeyScan},
            job_list::MAX_SCANNED,
        },
    },
};

use self::list_index::{Group, ListIndex, grouped};
use super::super::{Core, Engine};

/// Number of payload characters shown in a list row.
const PAYLOAD_PREFIX: i32 = 400;

/// Filter of an item list. Bulk operations store it: a server that does not know a condition must refuse it instead of
/// applying the operation to more items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ItemFilter {
    /// Any of these ids; empty means all.
    #[serde(default)]
    pub ids: Vec<Uuid>,
    pub job: Option<Uuid>,
    pub root: Option<Uuid>,
    pub job_type: Option<String>,
    /// Any of these states; empty means all.
    pub states: Vec<ItemState>,
    /// Fingerprint of the error.
    pub error: Option<String>,
    pub row: Option<i64>,
    /// Text in the payload or the error.
    pub q: Option<String>,
    /// Name of the worker that holds it or ended it.
    pub worker: Option<String>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    /// Last step that it has reached.
    #[serde(default)]
    pub step: Option<String>,
    pub created_after: Option<Time>,
    pub created_before: Option<Time>,
}

impl ItemFilter {
    fn test(&self) -> KeyFilter {
        KeyFilter {
            states: (!self.states.is_empty()).then(|| self.states.iter().map(|s| s.code()).collect()),
            fingerprint: self.error.clone(),
            worker: self.worker.clone(),
            dedupe_key: self.dedupe_key.clone(),
            serialize_key: self.serialize_key.clone(),
            row: self.row,
            step: self.step.clone(),
            created_after: self.created_after.map(|at| at.0),
            created_before: self.created_before.map(|at| at.0),
            text: self.q.as_ref().map(|text| super::jobs::like_pattern(text)),
        }
    }
}

/// Minimum and maximum number of keys read in one step.
const LEAST: i64 = 50;
const STEP: i64 = 1_000;
/// Number of job state rows read at once.
const JOB_STATES: i64 = 200;
/// Source of the job state rows of a list.
enum Source {
    /// All rows of a job, of a tree, or of the named items.
    Rows(Vec<ListedJobState>),
    Owner(Uuid),
    Type(i32),
    AllOwners,
}

impl Engine {
    /// Returns matching items in the given order, after a position. A page may be short, even empty, and still have a
    /// next position, because filtering reads only a limited number of rows.
    pub async fn list_items(
        &self,
        caller: &Caller,
        filter: &ItemFilter,
        order: ItemOrder,
        after: Option<Position>,
        limit: i64,
    ) -> Result<(Vec<Item>, Option<Position>)> {
        let (found, next) = self.find_items(caller, filter, order, after, limit).await?;
        Ok((self.0.core.still_matching(filter, &found).await?, next))
    }

    /// Items as [`Self::list_items`] finds them, with the first characters of their payloads.
    pub async fn list_items_with_payloads(
        &self,
        caller: &Caller,
        filter: &ItemFilter,
        order: ItemOrder,
        after: Option<Position>,
        limit: i64,
    ) -> Result<(Vec<Item>, HashMap<Uuid, String>, Option<Position>)> {
        let (found, next) = self.find_items(caller, filter, order, after, limit).await?;
        let core = &self.0.core;
        let payloads =
            async { Ok(item_changes::payload_beginnings(core.pools.reads().await, &found, PAYLOAD_PREFIX).await?) };
        let (items, payloads) = futures::try_join!(core.still_matching(filter, &found), payloads)?;
        Ok((items, payloads, next))
    }

    /// Ids of the next items that match, and the position after the last one if there may be more.
    async fn find_items(
        &self,
        caller: &Caller,
        filter: &ItemFilter,
        order: ItemOrder,
        after: Option<Position>,
        limit: i64,
    ) -> Result<(Vec<Uuid>, Option<Position>)> {
        caller.require(Scope::JobsRead)?;
        let core = &self.0.core;
        for id in [filter.job, filter.root].into_iter().flatten() {
            core.visible_job(caller, id).await?;
        }
        let type_id = match &filter.job_type {
            Some(name) => match self.types().find(name).await? {
                Some(info) => Some(info.id),
                None => return Ok((Vec::new(), None)),
            },
            None => None,
        };
        let owner_id = caller.visible_owner();
        let source = if let Some(id) = filter.job.or(filter.root) {
            Source::Rows(core.listed_job_states(filter, id).await?)
        } else if !filter.ids.is_empty() {
            Source::Rows(item_list_jobs::job_states_of_items(core.pools.reads().await, &filter.ids).await?)
        } else if let Some(owner_id) = owner_id {
            Source::Owner(owner_id)
        } else if let Some(type_id) = type_id {
            Source::Type(type_id)
        } else {
            Source::AllOwners
        };
        let is_visible = |job_state: &ListedJobState| {
            !job_state.deleted
                && type_id.is_none_or(|id| id == job_state.type_id)
                && owner_id.is_none_or(|id| id == job_state.owner_id)
        };
        let mut page = PageSearch { order, test: filter.test(), limit, found: Vec::new(), last: None, rows_read: 0 };
        let index = ListIndex::of(filter);
        let mut position = after.unwrap_or(order.start());
        loop {
            let was_full = page.last.is_some();
            let (job_states, last) =
                core.job_states_from(&source, &index, filter.worker.as_deref(), order, position.0).await?;
            page.rows_read += job_states.len() as i64;
            let job_states: Vec<ListedJobState> = job_states.into_iter().filter(is_visible).collect();
            if let Some(stopped) = page.search(core, &grouped(&job_states, &index), position).await? {
                return Ok((page.found, Some(stopped)));
            }
            let Some(last) = last else { return Ok((page.found, None)) };
            position = order.behind(last);
            if was_full || page.rows_read >= MAX_SCANNED {
                return Ok((page.found, Some(position)));
            }
        }
    }
}

/// Page that is being filled.
struct PageSearch {
    order: ItemOrder,
    test: KeyFilter,
    limit: i64,
    found: Vec<Uuid>,
    /// Position of the last item, once the page is full.
    last: Option<Position>,
    rows_read: i64,
}

impl PageSearch {
    /// Searches groups after a position until the page is full or the read limit is reached. Behind a full page, one more
    /// step looks for another match. Returns the position after which the next page begins; `None` if all groups were read.
    async fn search(&mut self, core: &Core, groups: &[Group], after: Position) -> Result<Option<Position>> {
        for group in groups {
            let mut place = after;
            // At first as many as are wanted, then more if few of them match.
            let mut step = (self.limit - self.found.len() as i64).clamp(LEAST, STEP);
            loop {
                let was_full = self.last.is_some();
                let keys = keys_of(core, group, self.order, place, step).await?;
                let ids: Vec<Uuid> = keys.iter().map(|key| key.id).collect();
                let matches: HashSet<Uuid> = if ids.is_empty() || self.test == KeyFilter::default() {
                    ids.into_iter().collect()
                } else {
                    item_list_keys::matching(core.pools.reads().await, &ids, &self.test).await?.into_iter().collect()
                };
                for key in &keys {
                    place = (key.job_key, key.seq);
                    if matches.contains(&key.id) {
                        if self.last.is_some() {
                            return Ok(self.last);
                        }
                        self.found.push(key.id);
                        self.last = (self.found.len() as i64 == self.limit).then_some(place);
                    }
                }
                self.rows_read += keys.len() as i64;
                if (was_full || self.rows_read >= MAX_SCANNED) && !keys.is_empty() {
                    return Ok(Some(place));
                }
                if (keys.len() as i64) < step {
                    break;
                }
                step = (step * 2).min(STEP);
            }
        }
        Ok(None)
    }
}

/// Next keys of a group after a position.
async fn keys_of(core: &Core, group: &Group, order: ItemOrder, after: Position, n: i64) -> Result<Vec<ItemKey>> {
    let pool = core.pools.reads().await;
    let job_keys = &group.job_keys;
    let one = match job_keys.as_slice() {
        // After a position in an earlier job: all of this one.
        [job_state] => {
            Some((*job_state, if order.before(after.0, *job_state) { order.first_of_job() } else { after.1 }))
        }
        _ => None,
    };
    let walk = KeyScan { order, after, limit: n };
    Ok(match (&group.index, one) {
        (ListIndex::All, Some(at)) => item_list_keys::all_of_one(pool, at, order, n).await?,
        (ListIndex::All, None) => item_list_keys::all_of(pool, job_keys, walk).await?,
        (ListIndex::Unsuccessful(states), Some(at)) => {
            item_list_keys::unsuccessful_of_one(pool, at, states, order, n).await?
        }
        (ListIndex::Unsuccessful(states), None) => {
            item_list_keys::unsuccessful_of(pool, job_keys, states, walk).await?
        }
        (ListIndex::Error(print), Some(at)) => item_list_keys::error_of_one(pool, at, print, order, n).await?,
        (ListIndex::Error(print), None) => item_list_keys::error_of(pool, job_keys, print, walk).await?,
        (ListIndex::PendingTables(held), _) => item_list_keys::pending_of(pool, job_keys, *held, walk).await?,
        (ListIndex::Ids(ids), _) => item_list_keys::items_by_id(pool, job_keys, ids, walk).await?,
        (ListIndex::Row(row), _) => item_list_keys::items_by_row(pool, job_keys, *row, walk).await?,
        (ListIndex::Dedupe(key), _) => item_list_keys::items_by_dedupe_key(pool, job_keys, key, walk).await?,
    })
}

impl Core {
    /// Views of found items. An item that has changed since it was found may no longer match.
    async fn still_matching(&self, filter: &ItemFilter, found: &[Uuid]) -> Result<Vec<Item>> {
        let mut items = self.views(found, true).await?;
        items.retain(|item| filter.states.is_empty() || filter.states.contains(&item.state));
        Ok(items)
    }

    /// Job state rows of the requested job or tree. Returns 410 if it was deleted.
    async fn listed_job_states(&self, filter: &ItemFilter, id: Uuid) -> Result<Vec<ListedJobState>> {
        let pool = self.pools.reads().await;
        let mut job_states = match (filter.job, filter.root) {
            (Some(job), None) => {
                let job_key = self.jobs.by_id(&self.pools.read, job).await?.map(|job| job.job_key);
                item_list_jobs::job_states(pool, job_key.as_slice()).await?
            }
            (_, Some(root)) => item_list_jobs::job_states_of_tree(pool, root).await?,
            (None, None) => Vec::new(),
        };
        if job_states.iter().all(|job_state| job_state.deleted) {
            return Err(super::jobs::job_deleted(id));
        }
        if let (Some(job), Some(_)) = (filter.job, filter.root) {
            let of_job = self.jobs.by_id(&self.pools.read, job).await?.map(|job| job.job_key);
            job_states.retain(|job_state| Some(job_state.job_key) == of_job);
        }
        Ok(job_states)
    }

    /// Next job state rows of a source, starting at `from`, and the last id if there may be more.
    async fn job_states_from(
        &self,
        source: &Source,
        index: &ListIndex,
        worker: Option<&str>,
        order: ItemOrder,
        from: i64,
    ) -> Result<(Vec<ListedJobState>, Option<i64>)> {
        let pool = self.pools.reads().await;
        let back = order.jobs_back();
        let sorted = |mut job_states: Vec<ListedJobState>| {
            job_states.sort_unstable_by_key(|job_state| job_state.job_key);
            if back {
                job_states.reverse();
            }
            job_states
        };
        let mut ids = match (source, index) {
            (Source::Rows(job_states), _) => {
                let ahead =
                    job_states.iter().filter(|job_state| !order.before(job_state.job_key, from)).copied().collect();
                return Ok((sorted(ahead), None));
            }
            (Source::Owner(owner_id), _) => {
                item_list_jobs::scan_jobs_of_owner(pool, *owner_id, back, from, JOB_STATES).await?
            }
            (Source::Type(type_id), _) => {
                item_list_jobs::scan_jobs_of_type(pool, *type_id, back, from, JOB_STATES).await?
            }
            (Source::AllOwners, ListIndex::Error(print)) => {
                item_list_jobs::jobs_with_error(pool, print, back, from, JOB_STATES).await?
            }
            (Source::AllOwners, ListIndex::Unsuccessful(states)) => {
                let mut found = item_list_jobs::jobs_propagating(pool, back, from, JOB_STATES).await?;
                for &state in states {
                    found.extend(item_list_jobs::jobs_with_state(pool, state, back, from, JOB_STATES).await?);
                }
                found
            }
            (Source::AllOwners, ListIndex::PendingTables(held)) => {
                let mut found = item_list_jobs::jobs_propagating(pool, back, from, JOB_STATES).await?;
                if held.running {
                    found.extend(item_list_jobs::jobs_with_leases(pool, worker, back, from, JOB_STATES).await?);
                }
                if held.deferred {
                    found.extend(item_list_jobs::jobs_with_deferred(pool, back, from, JOB_STATES).await?);
                }
                if held.blocked {
                    found.extend(item_list_jobs::jobs_with_blocked(pool, back, from, JOB_STATES).await?);
                }
                found
            }
            (Source::AllOwners, ListIndex::All | ListIndex::Ids(_) | ListIndex::Row(_) | ListIndex::Dedupe(_)) => {
                item_list_jobs::scan_jobs(pool, back, from, JOB_STATES).await?
            }
        };
        // The first rows of each source include the first rows of all.
        ids.sort_unstable();
        if back {
            ids.reverse();
        }
        ids.dedup();
        ids.truncate(JOB_STATES as usize);
        let last = if ids.len() as i64 == JOB_STATES { ids.last().copied() } else { None };
        Ok((sorted(item_list_jobs::job_states(pool, &ids).await?), last))
    }
}
