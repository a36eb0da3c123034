//! Why an item is not being worked on, from what claims themselves go by: the table that holds the row,
//! the jobs it waits for, the head of its lane, the type's pause and cap, and who asked for the type.
//!
//! Looked up once for a whole page. Nothing here counts more than the open assignments of capped types.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use domain::{ItemState, Time, item::WaitingFor, job_type::ExecutorKind};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{contracts::JobInfo, reading, reading::ItemView, workers},
};

use super::{super::Core, view};

/// How recent a claim must be for its type to count as asked for, in seconds.
const LATELY: f64 = 60.0;

/// What the waiting items of a page wait for, beyond their own rows.
#[derive(Default)]
pub(super) struct Waits {
    /// By gate: keys of jobs that are not complete.
    after: HashMap<i64, Vec<String>>,
    /// By lane: the head, its state, the key.
    heads: HashMap<i64, (Uuid, ItemState, String)>,
    /// By type: open assignments, of capped types.
    open: HashMap<i32, i64>,
    /// By type name: when it was last asked for, and how many seconds ago.
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
        if !capped.is_empty() {
            let capped: Vec<i32> = capped.into_iter().collect();
            waits.open = reading::open_of_types(pool, &capped).await?.into_iter().collect();
        }
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            let asked = workers::asked(pool, &names).await?;
            waits.asked = asked.into_iter().map(|row| (row.type_name, (Time(row.asked_at), row.age))).collect();
        }
        Ok(waits)
    }

    /// Why this item is not being worked on; `None` where it is, or is over.
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
            ItemState::Available => self.not_taken(job, waits),
            _ => None,
        }
    }

    fn not_taken(&self, job: &JobInfo, waits: &Waits) -> Option<WaitingFor> {
        let name = &job.type_name;
        let because = |reason: &str, detail: String| {
            Some(WaitingFor { reason: reason.to_owned(), detail: Some(detail), until: None })
        };
        let info = self.types.by_id(job.type_id)?;
        if info.paused {
            return because("paused", format!("The job type {name} is paused."));
        }
        if let Some(cap) = info.concurrency {
            let open = waits.open.get(&job.type_id).copied().unwrap_or(0);
            if open >= i64::from(cap) {
                return because("concurrency", format!("{open} of at most {cap} items of {name} are running."));
            }
        }
        if info.executor.kind != ExecutorKind::Pull {
            return because("not_claimed", "Treeline itself takes it when its turn comes.".to_owned());
        }
        let here = self.workers.asked_ago(name);
        let stored = waits.asked.get(name);
        let ago = [here, stored.map(|asked| asked.1)].into_iter().flatten().reduce(f64::min);
        because(
            "not_claimed",
            match (ago, stored) {
                (Some(ago), _) if ago <= LATELY => format!("Workers ask for {name}; others go first."),
                (_, Some((at, _))) => format!("No worker has asked for {name} since {at}."),
                _ => format!("No worker has asked for {name} yet."),
            },
        )
    }
}
