//! Reasons why an item is not running, from the data that claims use: the table of the row, the jobs it waits for, the
//! head of its serialize queue, the type's pause and cap, and recent claims for the type.
//!
//! One lookup serves a whole page. Only the open assignments of capped types are counted.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use domain::{
    ItemState, Job, Time,
    hold::{Held, Hold},
    item::WaitingFor,
    job_type::ExecutorKind,
};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{contracts::JobInfo, reading, reading::ItemView, workers},
};

use super::{super::Core, view};

/// Maximum age of a claim for its type to count as polled, in seconds.
const LATELY: f64 = 60.0;

/// Reasons that the waiting items of a page have beyond their own rows.
#[derive(Default)]
pub(super) struct Waits {
    /// By job state row id: keys of incomplete jobs.
    after: HashMap<i64, Vec<String>>,
    /// By serialize queue: head, state of the head, key.
    heads: HashMap<i64, (Uuid, ItemState, String)>,
    /// Number of open assignments, by capped type.
    open: HashMap<i32, i64>,
    /// By type name: time of the last claim, and its age in seconds.
    asked: HashMap<String, (Time, f64)>,
}

impl Core {
    pub(super) async fn waits(&self, views: &[ItemView], jobs: &HashMap<i64, Arc<JobInfo>>) -> Result<Waits> {
        let pool = &self.pools.read;
        let mut waits = Waits::default();
        let (mut gates, mut lanes) = (HashSet::new(), HashSet::new());
        let (mut capped, mut names) = (HashSet::new(), HashSet::new());
        for item in views {
            match view::state(item) {
                ItemState::Blocked if item.by_after => drop(gates.insert(item.gate_id)),
                ItemState::Blocked => lanes.extend(item.lane_id),
                ItemState::Available => {
                    let Some(job) = jobs.get(&item.gate_id) else { continue };
                    names.insert(job.type_name.clone());
                    if self.types.by_id(job.type_id).is_some_and(|info| info.concurrency.is_some()) {
                        capped.insert(job.type_id);
                    }
                }
                _ => {}
            }
        }
        if !gates.is_empty() {
            let gates: Vec<i64> = gates.into_iter().collect();
            waits.after = reading::waited_for(pool, &gates).await?.into_iter().collect();
        }
        if !lanes.is_empty() {
            let lanes: Vec<i64> = lanes.into_iter().collect();
            let heads = reading::heads(pool, &lanes).await?;
            let ids: Vec<Uuid> = heads.iter().map(|head| head.1).collect();
            let states: HashMap<Uuid, ItemState> =
                reading::items(pool, &ids, false).await?.iter().map(|it| (it.id, view::state(it))).collect();
            for (lane, id, key) in heads {
                if let Some(&state) = states.get(&id) {
                    waits.heads.insert(lane, (id, state, key));
                }
            }
        }
        self.learn(&mut waits, capped, names).await?;
        Ok(waits)
    }

    /// Reason why this item is not running; `None` if it runs or has ended.
    pub(super) fn waiting_for(&self, item: &ItemView, job: &JobInfo, waits: &Waits) -> Option<WaitingFor> {
        let reason =
            |reason: &str, detail: Option<String>| Some(WaitingFor { reason: reason.to_owned(), detail, until: None });
        let due = item.due_at.map(Time);
        match view::state(item) {
            ItemState::Retryable => Some(WaitingFor { reason: "retry".to_owned(), detail: None, until: due }),
            ItemState::Scheduled => Some(WaitingFor { reason: "run_after".to_owned(), detail: None, until: due }),
            ItemState::Blocked if item.by_after => {
                let keys = waits.after.get(&item.gate_id);
                reason("after", keys.map(|keys| format!("Waits for {}.", keys.join(", "))))
            }
            ItemState::Blocked => {
                let head = item.lane_id.and_then(|lane| waits.heads.get(&lane));
                let detail = head.map(|(id, state, key)| {
                    format!("Item {id} is at the head of the key {key:?}; it is {}.", state.as_str())
                });
                reason("serialize_key", detail)
            }
            ItemState::Available => {
                self.hold(&job.type_name, job.type_id, waits).map(|hold| hold.waiting_for(&job.type_name))
            }
            _ => None,
        }
    }

    /// Reasons why the available items of a tree wait, by type, largest count first.
    pub(super) async fn held(&self, tree: &Job) -> Result<Vec<Held>> {
        let mut counts: HashMap<&str, i64> = HashMap::new();
        for job in tree.walk().into_iter().filter(|job| job.counts.available > 0) {
            *counts.entry(&job.job_type).or_default() += job.counts.available;
        }
        let mut waits = Waits::default();
        let mut types = Vec::new();
        for (name, count) in counts {
            if let Some(info) = self.types.find(name).await? {
                types.push((name.to_owned(), count, info));
            }
        }
        let capped = types.iter().filter(|(_, _, info)| info.concurrency.is_some()).map(|(_, _, info)| info.id);
        self.learn(&mut waits, capped.collect(), types.iter().map(|(name, ..)| name.clone()).collect()).await?;
        let mut held: Vec<Held> = types
            .into_iter()
            .filter_map(|(job_type, count, info)| {
                Some(Held { hold: self.hold(&job_type, info.id, &waits)?, job_type, count })
            })
            .collect();
        held.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.job_type.cmp(&b.job_type)));
        Ok(held)
    }

    /// Looks up the open assignments of capped types and the last claims for these types.
    async fn learn(&self, waits: &mut Waits, capped: HashSet<i32>, names: HashSet<String>) -> Result<()> {
        let pool = &self.pools.read;
        if !capped.is_empty() {
            let capped: Vec<i32> = capped.into_iter().collect();
            waits.open = reading::open_of_types(pool, &capped).await?.into_iter().collect();
        }
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            let asked = workers::asked(pool, &names).await?;
            waits.asked = asked.into_iter().map(|row| (row.type_name, (Time(row.asked_at), row.age))).collect();
        }
        Ok(())
    }

    fn hold(&self, name: &str, type_id: i32, waits: &Waits) -> Option<Hold> {
        let info = self.types.by_id(type_id)?;
        if info.paused {
            return Some(Hold::Paused);
        }
        if let Some(cap) = info.concurrency.map(i64::from) {
            let open = waits.open.get(&type_id).copied().unwrap_or(0);
            if open >= cap {
                return Some(Hold::Capped { open, cap });
            }
        }
        if info.executor.kind != ExecutorKind::Pull {
            return Some(self.away.hold(type_id).unwrap_or(Hold::Ours));
        }
        let here = self.workers.asked_ago(name);
        let stored = waits.asked.get(name);
        let ago = [here, stored.map(|asked| asked.1)].into_iter().flatten().reduce(f64::min);
        Some(match ago {
            Some(ago) if ago <= LATELY => Hold::Shared,
            _ => Hold::Unasked(stored.map(|asked| asked.0)),
        })
    }
}
