//! Item lists: job state rows in order, a group at a time, with the index that suits the filter.
//!
//! A page reads no more than [`LOOK_AT`] keys and job state rows, so it may be short, even empty, and still have a next
//! page. Keys are tested before items are read.

mod way; // index chosen by a filter

use std::collections::{HashMap, HashSet};

use domain::{Item, ItemState, Time};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::Result,
    store::{
        finding::{self, ItemOrder, ListedGate, Position},
        job_list::LOOK_AT,
        keys::{self, Key, Test, Walk},
        retrying,
    },
};

use self::way::{Group, Way, grouped};
use super::super::{Core, Engine};

/// Number of payload characters shown in a list row.
const BEGINNING: i32 = 400;

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
    fn test(&self) -> Test {
        Test {
            states: (!self.states.is_empty()).then(|| self.states.iter().map(|s| s.code()).collect()),
            fingerprint: self.error.clone(),
            worker: self.worker.clone(),
            dedupe_key: self.dedupe_key.clone(),
            serialize_key: self.serialize_key.clone(),
            row: self.row,
            step: self.step.clone(),
            created_after: self.created_after.map(|at| at.0),
            created_before: self.created_before.map(|at| at.0),
            text: self.q.as_ref().map(|text| super::jobs::part_of(text)),
        }
    }
}

/// Minimum and maximum number of keys read in one step.
const LEAST: i64 = 50;
const STEP: i64 = 1_000;
/// Number of job state rows read at once.
const GATES: i64 = 200;
/// Source of the job state rows of a list.
enum Source {
    /// All rows of a job, of a tree, or of the named items.
    These(Vec<ListedGate>),
    Owner(Uuid),
    Type(i32),
    Everybody,
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
        let payloads = async { Ok(retrying::payload_beginnings(&core.pools.read, &found, BEGINNING).await?) };
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
            Source::These(core.listed_gates(filter, id).await?)
        } else if !filter.ids.is_empty() {
            Source::These(finding::gates_of_items(&core.pools.read, &filter.ids).await?)
        } else if let Some(owner_id) = owner_id {
            Source::Owner(owner_id)
        } else if let Some(type_id) = type_id {
            Source::Type(type_id)
        } else {
            Source::Everybody
        };
        let mine = |gate: &ListedGate| {
            !gate.removed
                && type_id.is_none_or(|id| id == gate.type_id)
                && owner_id.is_none_or(|id| id == gate.owner_id)
        };
        let mut page = Page { order, test: filter.test(), limit, found: Vec::new(), looked: 0 };
        let way = Way::of(filter);
        let mut position = after.unwrap_or(order.start());
        loop {
            let (gates, last) = core.gates_from(&source, &way, filter.worker.as_deref(), order, position.0).await?;
            page.looked += gates.len() as i64;
            let gates: Vec<ListedGate> = gates.into_iter().filter(mine).collect();
            if let Some(stopped) = page.look(core, &grouped(&gates, &way), position).await? {
                return Ok((page.found, Some(stopped)));
            }
            let Some(last) = last else { return Ok((page.found, None)) };
            position = order.behind(last);
            if page.looked >= LOOK_AT {
                return Ok((page.found, Some(position)));
            }
        }
    }
}

/// Page that is being filled.
struct Page {
    order: ItemOrder,
    test: Test,
    limit: i64,
    found: Vec<Uuid>,
    looked: i64,
}

impl Page {
    /// Searches groups after a position. Returns where it stopped, if the page is full or the read limit is reached.
    async fn look(&mut self, core: &Core, groups: &[Group], after: Position) -> Result<Option<Position>> {
        for group in groups {
            let mut place = after;
            // At first as many as are wanted, then more if few of them match.
            let mut step = (self.limit - self.found.len() as i64).clamp(LEAST, STEP);
            loop {
                let keys = keys_of(core, group, self.order, place, step).await?;
                let ids: Vec<Uuid> = keys.iter().map(|key| key.id).collect();
                let good: HashSet<Uuid> = if ids.is_empty() || self.test == Test::default() {
                    ids.into_iter().collect()
                } else {
                    keys::matching(&core.pools.read, &ids, &self.test).await?.into_iter().collect()
                };
                for key in &keys {
                    place = (key.gate_id, key.seq);
                    if good.contains(&key.id) {
                        self.found.push(key.id);
                        if self.found.len() as i64 == self.limit {
                            return Ok(Some(place));
                        }
                    }
                }
                self.looked += keys.len() as i64;
                if self.looked >= LOOK_AT && !keys.is_empty() {
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
async fn keys_of(core: &Core, group: &Group, order: ItemOrder, after: Position, n: i64) -> Result<Vec<Key>> {
    let pool = &core.pools.read;
    let gates = &group.gates;
    let one = match gates.as_slice() {
        // After a position in an earlier job: all of this one.
        [gate] => Some((*gate, if order.before(after.0, *gate) { order.first_of_job() } else { after.1 })),
        _ => None,
    };
    let walk = Walk { order, after, limit: n };
    Ok(match (&group.way, one) {
        (Way::All, Some(at)) => keys::all_of_one(pool, at, order, n).await?,
        (Way::All, None) => keys::all_of(pool, gates, walk).await?,
        (Way::Unsuccessful(states), Some(at)) => keys::unsuccessful_of_one(pool, at, states, order, n).await?,
        (Way::Unsuccessful(states), None) => keys::unsuccessful_of(pool, gates, states, walk).await?,
        (Way::Error(print), Some(at)) => keys::error_of_one(pool, at, print, order, n).await?,
        (Way::Error(print), None) => keys::error_of(pool, gates, print, walk).await?,
        (Way::Held(held), _) => keys::held_of(pool, gates, *held, walk).await?,
        (Way::Ids(ids), _) => keys::named_of(pool, gates, ids, walk).await?,
        (Way::Row(row), _) => keys::row_of(pool, gates, *row, walk).await?,
        (Way::Dedupe(key), _) => keys::deduped_of(pool, gates, key, walk).await?,
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
    async fn listed_gates(&self, filter: &ItemFilter, id: Uuid) -> Result<Vec<ListedGate>> {
        let pool = &self.pools.read;
        let mut gates = match (filter.job, filter.root) {
            (Some(job), None) => {
                let gate_id = self.jobs.by_id(pool, job).await?.map(|job| job.gate_id);
                finding::gates(pool, gate_id.as_slice()).await?
            }
            (_, Some(root)) => finding::gates_of_tree(pool, root).await?,
            (None, None) => Vec::new(),
        };
        if gates.iter().all(|gate| gate.removed) {
            return Err(super::jobs::gone(id));
        }
        if let (Some(job), Some(_)) = (filter.job, filter.root) {
            let of_job = self.jobs.by_id(pool, job).await?.map(|job| job.gate_id);
            gates.retain(|gate| Some(gate.gate_id) == of_job);
        }
        Ok(gates)
    }

    /// Next job state rows of a source, starting at `from`, and the last id if there may be more.
    async fn gates_from(
        &self,
        source: &Source,
        way: &Way,
        worker: Option<&str>,
        order: ItemOrder,
        from: i64,
    ) -> Result<(Vec<ListedGate>, Option<i64>)> {
        let pool = &self.pools.read;
        let back = order.jobs_back();
        let sorted = |mut gates: Vec<ListedGate>| {
            gates.sort_unstable_by_key(|gate| gate.gate_id);
            if back {
                gates.reverse();
            }
            gates
        };
        let mut ids = match (source, way) {
            (Source::These(gates), _) => {
                let ahead = gates.iter().filter(|gate| !order.before(gate.gate_id, from)).copied().collect();
                return Ok((sorted(ahead), None));
            }
            (Source::Owner(owner_id), _) => finding::walk_gates_of(pool, *owner_id, back, from, GATES).await?,
            (Source::Type(type_id), _) => finding::walk_gates_of_type(pool, *type_id, back, from, GATES).await?,
            (Source::Everybody, Way::Error(print)) => finding::gates_with_error(pool, print, back, from, GATES).await?,
            (Source::Everybody, Way::Unsuccessful(states)) => {
                let mut found = finding::gates_moving(pool, back, from, GATES).await?;
                for &state in states {
                    found.extend(finding::gates_with_state(pool, state, back, from, GATES).await?);
                }
                found
            }
            (Source::Everybody, Way::Held(held)) => {
                let mut found = finding::gates_moving(pool, back, from, GATES).await?;
                if held.running {
                    found.extend(finding::gates_with_leases(pool, worker, back, from, GATES).await?);
                }
                if held.deferred {
                    found.extend(finding::gates_with_deferred(pool, back, from, GATES).await?);
                }
                if held.blocked {
                    found.extend(finding::gates_with_blocked(pool, back, from, GATES).await?);
                }
                found
            }
            (Source::Everybody, Way::All | Way::Ids(_) | Way::Row(_) | Way::Dedupe(_)) => {
                finding::walk_gates(pool, back, from, GATES).await?
            }
        };
        // The first rows of each source include the first rows of all.
        ids.sort_unstable();
        if back {
            ids.reverse();
        }
        ids.dedup();
        ids.truncate(GATES as usize);
        let last = if ids.len() as i64 == GATES { ids.last().copied() } else { None };
        Ok((sorted(finding::gates(pool, &ids).await?), last))
    }
}
