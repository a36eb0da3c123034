//! Reasons why an item is not running, from the data that claims use: the table of the row, the jobs it waits for, the
//! head of its serialize queue, the type's pause and limits, and recent claims for the type.
//!
//! One lookup serves a whole page. Only the open assignments of capped types are counted.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use domain::{
    ItemState, Job, Time,
    dispatch::waiting_reason::{WaitingItems, WaitingReason},
    item::WaitingFor,
    job_type::ExecutorKind,
};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        dispatch::workers,
        query::item_views::{self, ItemView},
        tree::definitions::JobInfo,
    },
};

use super::{super::Core, item_view, limit_use::LimitUse};

/// Maximum age of a claim for its type to count as polled, in seconds.
const RECENT_SECONDS: f64 = 60.0;

/// Reasons that the waiting items of a page have beyond their own rows.
#[derive(Default)]
pub(crate) struct WaitReasons {
    /// By job state row id: keys of incomplete jobs.
    after: HashMap<i64, Vec<String>>,
    /// By serialize queue: head, state of the head, key.
    heads: HashMap<i64, (Uuid, ItemState, String)>,
    /// Number of open assignments, by capped type.
    open: HashMap<i32, i64>,
    /// What counts under the limits of types and keys.
    limits: LimitUse,
    /// By type name: time of the last claim, and its age in seconds.
    last_claims: HashMap<String, (Time, f64)>,
}

impl Core {
    pub(crate) async fn wait_reasons(
        &self,
        views: &[ItemView],
        jobs: &HashMap<i64, Arc<JobInfo>>,
    ) -> Result<WaitReasons> {
        let pool = self.pools.reads().await;
        let mut wait_reasons = WaitReasons::default();
        let (mut job_keys, mut serialize_queues) = (HashSet::new(), HashSet::new());
        let (mut capped, mut names) = (HashSet::new(), HashSet::new());
        let mut limited = Vec::new();
        for item in views {
            match item_view::state(item) {
                ItemState::Blocked if item.by_after => drop(job_keys.insert(item.job_key)),
                ItemState::Blocked => serialize_queues.extend(item.serialize_queue_id),
                ItemState::Available => {
                    let Some(job) = jobs.get(&item.job_key) else { continue };
                    names.insert(job.type_name.clone());
                    if self.types.by_id(job.type_id).is_some_and(|info| info.concurrency.is_some()) {
                        capped.insert(job.type_id);
                    }
                    limited.push((job.type_id, Some(item.id)));
                }
                _ => {}
            }
        }
        if !job_keys.is_empty() {
            let job_keys: Vec<i64> = job_keys.into_iter().collect();
            wait_reasons.after = item_views::waited_for(pool, &job_keys).await?.into_iter().collect();
        }
        if !serialize_queues.is_empty() {
            let serialize_queues: Vec<i64> = serialize_queues.into_iter().collect();
            let heads = item_views::heads(pool, &serialize_queues).await?;
            let ids: Vec<Uuid> = heads.iter().map(|head| head.1).collect();
            let states: HashMap<Uuid, ItemState> =
                item_views::items(pool, &ids, false).await?.iter().map(|it| (it.id, item_view::state(it))).collect();
            for (queue_id, id, key) in heads {
                if let Some(&state) = states.get(&id) {
                    wait_reasons.heads.insert(queue_id, (id, state, key));
                }
            }
        }
        wait_reasons.limits = self.limit_use(&limited).await?;
        self.load_type_activity(&mut wait_reasons, capped, names).await?;
        Ok(wait_reasons)
    }

    /// Reason why this item is not running; `None` if it runs or has ended.
    pub(crate) fn waiting_for(&self, item: &ItemView, job: &JobInfo, wait_reasons: &WaitReasons) -> Option<WaitingFor> {
        let reason =
            |reason: &str, detail: Option<String>| Some(WaitingFor { reason: reason.to_owned(), detail, until: None });
        let due = item.due_at.map(Time);
        match item_view::state(item) {
            ItemState::Retryable => Some(WaitingFor { reason: "retry".to_owned(), detail: None, until: due }),
            ItemState::Scheduled if item.debounce_key.is_some() && item.attempts == 0 => {
                Some(WaitingFor { reason: "debounce".to_owned(), detail: debounce_sentence(item), until: due })
            }
            ItemState::Scheduled => Some(WaitingFor { reason: "run_after".to_owned(), detail: None, until: due }),
            ItemState::WaitingForEvent => {
                let detail = item.wait_name.as_ref().map(|name| format!("Waits for the event {name:?}."));
                Some(WaitingFor { reason: "event".to_owned(), detail, until: due })
            }
            ItemState::Blocked if item.by_after => {
                let keys = wait_reasons.after.get(&item.job_key);
                reason("after", keys.map(|keys| format!("Waits for {}.", keys.join(", "))))
            }
            ItemState::Blocked => {
                let head = item.serialize_queue_id.and_then(|queue_id| wait_reasons.heads.get(&queue_id));
                let detail = head.map(|(id, state, key)| {
                    format!("Item {id} is at the head of the key {key:?}; it is {}.", state.as_str())
                });
                reason("serialize_key", detail)
            }
            ItemState::Available => self
                .waiting_reason(&job.type_name, job.type_id, Some(item.id), wait_reasons)
                .map(|waiting_reason| waiting_reason.waiting_for(&job.type_name)),
            _ => None,
        }
    }

    /// Reasons why the available items of a tree wait, by type, largest count first.
    pub(crate) async fn waiting_by_type(&self, tree: &Job) -> Result<Vec<WaitingItems>> {
        let mut counts: HashMap<&str, i64> = HashMap::new();
        for job in tree.subtree().into_iter().filter(|job| job.counts.available > 0) {
            *counts.entry(&job.job_type).or_default() += job.counts.available;
        }
        let mut wait_reasons = WaitReasons::default();
        let mut types = Vec::new();
        for (name, count) in counts {
            if let Some(info) = self.types.find(name).await? {
                types.push((name.to_owned(), count, info));
            }
        }
        let limited: Vec<(i32, Option<Uuid>)> = types.iter().map(|(_, _, info)| (info.id, None)).collect();
        wait_reasons.limits = self.limit_use(&limited).await?;
        let capped = types.iter().filter(|(_, _, info)| info.concurrency.is_some()).map(|(_, _, info)| info.id);
        self.load_type_activity(
            &mut wait_reasons,
            capped.collect(),
            types.iter().map(|(name, ..)| name.clone()).collect(),
        )
        .await?;
        let mut waiting_by_type: Vec<WaitingItems> = types
            .into_iter()
            .filter_map(|(job_type, count, info)| {
                Some(WaitingItems {
                    waiting_reason: self.waiting_reason(&job_type, info.id, None, &wait_reasons)?,
                    job_type,
                    count,
                })
            })
            .collect();
        waiting_by_type.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.job_type.cmp(&b.job_type)));
        Ok(waiting_by_type)
    }

    /// Looks up the open assignments of capped types and the last claims for these types.
    async fn load_type_activity(
        &self,
        wait_reasons: &mut WaitReasons,
        capped: HashSet<i32>,
        names: HashSet<String>,
    ) -> Result<()> {
        let pool = self.pools.reads().await;
        if !capped.is_empty() {
            let capped: Vec<i32> = capped.into_iter().collect();
            wait_reasons.open = item_views::open_of_types(pool, &capped).await?.into_iter().collect();
        }
        if !names.is_empty() {
            let names: Vec<String> = names.into_iter().collect();
            let last_claims = workers::last_claims(pool, &names).await?;
            wait_reasons.last_claims =
                last_claims.into_iter().map(|row| (row.type_name, (Time(row.claimed_at), row.age))).collect();
        }
        Ok(())
    }

    fn waiting_reason(
        &self,
        name: &str,
        type_id: i32,
        item_id: Option<Uuid>,
        wait_reasons: &WaitReasons,
    ) -> Option<WaitingReason> {
        let info = self.types.by_id(type_id)?;
        if info.paused {
            return Some(WaitingReason::Paused);
        }
        if let Some(cap) = info.concurrency.map(i64::from) {
            let open = wait_reasons.open.get(&type_id).copied().unwrap_or(0);
            if open >= cap {
                return Some(WaitingReason::AtConcurrencyLimit { open, cap });
            }
        }
        if let Some(limited) = wait_reasons.limits.waiting_reason(&info, item_id) {
            return Some(limited);
        }
        if info.executor.kind != ExecutorKind::Pull {
            return Some(self.unreachable_targets.waiting_reason(type_id).unwrap_or(WaitingReason::BuiltinExecutor));
        }
        let on_this_server = self.workers.seconds_since_claim(name);
        let stored = wait_reasons.last_claims.get(name);
        let ago = [on_this_server, stored.map(|last_claims| last_claims.1)].into_iter().flatten().reduce(f64::min);
        Some(match ago {
            Some(ago) if ago <= RECENT_SECONDS => WaitingReason::Queued,
            _ => WaitingReason::NoWorker(stored.map(|last_claims| last_claims.0)),
        })
    }
}

/// `Starts 10 seconds after the last item with the debounce key "a".`
fn debounce_sentence(item: &ItemView) -> Option<String> {
    let (key, seconds) = (item.debounce_key.as_ref()?, item.debounce_seconds?);
    let unit = if seconds == 1 { "second" } else { "seconds" };
    Some(format!("Starts {seconds} {unit} after the last item with the debounce key {key:?}."))
}
