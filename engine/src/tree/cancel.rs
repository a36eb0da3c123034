//! Cancellation of a job with its descendants, or of single items (`cancellation`).
//!
//! The decision is one commit on the job state rows. Once it is answered, nothing below is claimed, fed, retried or
//! completed; waiting items count as canceled at once, and their rows are updated later.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use domain::{Code, ItemState, Problem};
use uuid::Uuid;

use super::{dependency_graph::DependencyGraph, finish_batch::finish_batch};
use crate::{
    Core, Engine,
    access::caller::{Caller, Scope},
    ending_batch::{EndCommand, EndingKind, EndingRows},
    enqueue::{add::rows::final_row, serialize_queues},
    error::{Error, Result},
    notify::audit,
    store::{
        Tx,
        dispatch::{endings, leases},
        enqueue::pending_rows::{self, PendingIn},
        notify::audit as audit_log,
        operator::item_changes,
        tree::{
            completion as tree_states, job_states,
            propagation::{self, PropagationKind},
        },
    },
    tree::{bulk_tally::Tally, completion::LockedJobs},
};

/// Result of a decision to cancel.
#[derive(Default)]
pub(crate) struct Cancellation {
    /// Jobs without running items, which are complete, and complete jobs that others wait for.
    pub(crate) to_complete: Vec<(i64, Uuid)>,
    /// Jobs that are canceled now.
    pub(crate) job_keys: Vec<i64>,
}

/// Locks what precedes leases and job state rows in the lock order and is written by [`cancel_subtree`].
pub(crate) async fn lock_first(tx: &mut Tx, graph: &DependencyGraph, at: usize) -> Result<()> {
    let job_keys: Vec<i64> = graph.subtree(at).into_iter().map(|n| graph.jobs[n].job_key).collect();
    Ok(tree_states::lock_cursors_and_deadlines(tx, &job_keys).await?)
}

/// Locks the same for the trees that these endings may cancel. Their assignments are read without locks: a job never
/// changes its tree, and an assignment that ends meanwhile cancels nothing.
pub(crate) async fn lock_trees_first(core: &Core, tx: &mut Tx, endings: &[&EndCommand]) -> Result<()> {
    let cancels_tree = |kind: &EndingKind| matches!(kind, EndingKind::Failure(body) if body.cancel_tree);
    let assignment_ids: Vec<Uuid> =
        endings.iter().filter(|ending| cancels_tree(&ending.kind)).map(|ending| ending.assignment_id).collect();
    if assignment_ids.is_empty() {
        return Ok(());
    }
    let job_keys = leases::jobs_of(tx, &assignment_ids).await?;
    if job_keys.is_empty() {
        return Ok(());
    }
    let jobs = core.jobs.by_job_keys(&mut **tx, job_keys).await?;
    let roots: BTreeSet<Uuid> = jobs.values().map(|job| job.root_id).collect();
    let graphs = core.graphs.of_all(&mut **tx, roots).await?;
    let tree_job_keys: Vec<i64> = graphs.values().flat_map(|graph| &graph.jobs).map(|job| job.job_key).collect();
    Ok(tree_states::lock_cursors_and_deadlines(tx, &tree_job_keys).await?)
}

/// Cancels a job and its descendants after [`lock_first`]. Locks their job state rows and the root's. Idempotent; a
/// complete job is refused.
pub(crate) async fn cancel_subtree(
    tx: &mut Tx,
    graph: &DependencyGraph,
    at: usize,
    reason: Option<&str>,
) -> Result<Cancellation> {
    let below = graph.subtree(at);
    let mut ids: Vec<i64> = below.iter().map(|&n| graph.jobs[n].job_key).collect();
    ids.push(graph.root_job_key());
    ids.sort_unstable();
    ids.dedup();
    let locked = LockedJobs::read(tx, &ids).await?;
    if locked.get(graph.root_job_key())?.deleted {
        return Err(Error::refuse(Code::JobRemoved, "The job was removed."));
    }
    if locked.get(graph.jobs[at].job_key)?.cancelled {
        return Ok(Cancellation::default());
    }
    let mut cancellation = Cancellation::default();
    let mut propagations = Vec::new();
    let mut open = false;
    for n in below {
        let job_key = graph.jobs[n].job_key;
        let job_state = locked.get(job_key)?;
        if job_state.cancelled {
            continue;
        }
        cancellation.job_keys.push(job_key);
        if job_state.completed_at.is_some() {
            // Jobs that wait for it learn now that it did not end with the required outcome (`after`).
            if graph.waiting_for(n).next().is_some() {
                cancellation.to_complete.push((job_key, graph.root_id));
            }
            continue;
        }
        open = true;
        if job_state.running == 0 && !job_state.solo {
            cancellation.to_complete.push((job_key, graph.root_id));
        }
        if job_state.pending > 0 {
            propagations.push(job_key);
        }
    }
    if !open {
        return Err(Error::refuse(Code::JobCompleted, "The job is complete: there is nothing left to cancel."));
    }
    cancellation.job_keys.sort_unstable();
    tree_states::cancel(tx, &cancellation.job_keys, reason).await?;
    propagation::switch_to_cancel(tx, &cancellation.job_keys).await?;
    propagation::begin(tx, &propagations, PropagationKind::Cancel).await?;
    Ok(cancellation)
}

impl Engine {
    /// Cancels a job and its descendants. Idempotent; a complete one is 409 `job_completed`.
    pub async fn cancel_job(&self, caller: &Caller, job_id: Uuid, reason: Option<&str>) -> Result<()> {
        self.cancel_job_for(caller, job_id, reason, None).await
    }

    /// Same for a member of a bulk operation, which `tally` counts. The audit log then has only the operation.
    pub(crate) async fn cancel_job_for(
        &self,
        caller: &Caller,
        job_id: Uuid,
        reason: Option<&str>,
        tally: Option<Tally>,
    ) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let job = self.visible_job(caller, job_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, reason)?;
        let audit_row = audit::row(caller, "job.cancel", job.owner_id, reason.as_deref())
            .filter(|_| tally.is_none())
            .map(|row| row.about(job.root_id, job.job_id, None));
        self.0
            .core
            .in_task_with_retries("canceling a job", move |core| {
                let (job, reason, audit_row) = (Arc::clone(&job), reason.clone(), audit_row.clone());
                let tally = tally.clone();
                async move {
                    let tally = match tally {
                        Some(tally) => Some(tally.uncounted(&core.pools.read).await?),
                        None => None,
                    };
                    // Another server has counted this member as skipped, and since then it may have been reopened.
                    if tally.as_ref().is_some_and(Tally::is_empty) {
                        return Ok(());
                    }
                    let graph = core.graphs.of(&core.pools.read, job.root_id).await?;
                    let at = graph.position(job.job_key).ok_or_else(|| Problem::not_found("job"))?;
                    let mut tx = crate::store::begin(&core.pools.hot).await?;
                    lock_first(&mut tx, &graph, at).await?;
                    let cancellation = cancel_subtree(&mut tx, &graph, at, reason.as_deref()).await?;
                    core.announce_complete(&mut tx, &cancellation.job_keys).await?;
                    job_states::request_completion_checks(
                        &mut tx,
                        &cancellation.to_complete.iter().map(|s| s.0).collect::<Vec<_>>(),
                    )
                    .await?;
                    if let Some(audit_row) = audit_row.filter(|_| !cancellation.job_keys.is_empty()) {
                        audit_log::record(&mut tx, &audit_row).await?;
                    }
                    if let Some(tally) = tally {
                        // Operations on jobs hold no trees.
                        tally.write(&core, &mut tx, &BTreeMap::new()).await?;
                    }
                    crate::store::commit(tx).await?;
                    core.cancelled_jobs.insert(&cancellation.job_keys);
                    core.complete_jobs(&cancellation.to_complete).await;
                    core.live.touch(&[job.root_id]);
                    core.propagation_requested.notify_one();
                    Ok(())
                }
            })
            .await
    }

    /// Cancels one item: at once if it waits, else its worker is notified. Idempotent.
    pub async fn cancel_item(&self, caller: &Caller, item_id: Uuid, reason: Option<&str>) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let job = self.job_of_item(caller, item_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, reason)?;
        let audit_row = audit::row(caller, "item.cancel", job.owner_id, reason.as_deref())
            .map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
        let cancels = Arc::new([CancelItem { item_id, root_id: job.root_id, audit_row }]);
        let mut refused = self
            .0
            .core
            .in_task_with_retries("canceling an item", move |core| {
                let cancels = Arc::clone(&cancels);
                async move { cancel_many(&core, &cancels[..], None).await }
            })
            .await?;
        refused.remove(&item_id).map_or(Ok(()), |problem| Err(problem.into()))
    }
}

/// Item to be canceled.
#[derive(Clone, Debug)]
pub(crate) struct CancelItem {
    pub(crate) item_id: Uuid,
    pub(crate) root_id: Uuid,
    pub(crate) audit_row: Option<audit_log::AuditRow>,
}

/// Cancels items in one transaction; returns the refused ones. If they are members of a bulk operation, all of them are
/// counted in it.
pub(crate) async fn cancel_many(
    core: &Arc<Core>,
    cancels: &[CancelItem],
    mut tally: Option<Tally>,
) -> Result<HashMap<Uuid, Problem>> {
    let mut excluded: HashMap<Uuid, Option<Problem>> = HashMap::new();
    while !attempt(core, cancels, tally.as_mut(), &mut excluded).await? {}
    Ok(excluded.into_iter().filter_map(|(item_id, problem)| Some((item_id, problem?))).collect())
}

/// Cancels the items that are not in `over`, which holds refused and already canceled items. False if some were added
/// to `over` after changes had been made: the transaction is rolled back.
async fn attempt(
    core: &Arc<Core>,
    cancels: &[CancelItem],
    tally: Option<&mut Tally>,
    excluded: &mut HashMap<Uuid, Option<Problem>>,
) -> Result<bool> {
    let mut graphs = BTreeMap::new();
    if let Some(tally) = &tally {
        graphs = core.graphs.of_all(&core.pools.read, tally.roots()).await?;
    }
    let mut ids: Vec<Uuid> =
        cancels.iter().map(|cancel| cancel.item_id).filter(|id| !excluded.contains_key(id)).collect();
    ids.sort_unstable();
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let mut rows = EndingRows::default();
    // Workers of running items are notified first, because leases precede waiting rows in the lock order.
    let running: HashSet<Uuid> = item_changes::ask_to_cancel(&mut tx, &ids).await?.into_iter().collect();
    ids.retain(|id| !running.contains(id));
    let seen = pending_rows::find(&mut tx, &ids).await?;
    let serialize_queue_ids = lock_serialize_queues_of(&mut tx, &seen).await?;
    let taken = pending_rows::take(&mut tx, &ids, false).await?;
    if let Err(error) = serialize_queues::check_locked(&taken, &serialize_queue_ids) {
        return Err(crate::store::roll_back(tx, error).await);
    }
    let found: HashSet<Uuid> = taken.iter().map(|taken| taken.item_id).collect();
    ids.retain(|id| !found.contains(id));
    let finals = if ids.is_empty() { HashMap::new() } else { item_changes::final_states(&mut tx, &ids).await? };
    for id in ids {
        // Neither running, waiting nor final: the item moved in the meantime.
        let found = finals.get(&id).ok_or(Error::Conflict("an item moved"))?;
        if found.is_returning {
            return Err(Error::Conflict("an item is returning"));
        }
        let state = found.state;
        excluded.insert(id, (state != ItemState::Cancelled).then(|| item_final(state)));
    }

    rows.freed.extend(taken.iter().filter_map(|taken| Some((taken.serialize_queue_id?, taken.item_id))));
    serialize_queues::release_next(core, &mut tx, &mut rows).await?;
    let job_keys: BTreeSet<i64> = rows.deltas.keys().copied().chain(taken.iter().map(|taken| taken.job_key)).collect();
    let job_keys: Vec<i64> = job_keys.into_iter().collect();
    let locked: HashMap<i64, job_states::LockedJobState> = job_states::lock(&mut tx, &job_keys)
        .await?
        .into_iter()
        .map(|job_state| (job_state.job_key, job_state))
        .collect();
    let mut finals = Vec::with_capacity(taken.len());
    for taken in &taken {
        let job_state = locked.get(&taken.job_key).ok_or(Error::Conflict("a job was removed"))?;
        if job_state.cancelled || job_state.after_failed {
            // Already canceled and counted with its job; the propagation will update its row.
            excluded.insert(taken.item_id, None);
            continue;
        }
        let delta = rows.delta(taken.job_key);
        subtract_waiting(&mut delta.counts, taken.was);
        delta.counts.cancelled += 1;
        let row = final_row(taken.item_id, taken.job_key, ItemState::Cancelled, None);
        finals.push(endings::FinalRow { attempt: taken.attempts, failures: taken.failures, ..row });
    }
    if finals.len() < taken.len() {
        return Ok(false);
    }
    let done = || cancels.iter().filter(|cancel| !excluded.contains_key(&cancel.item_id));
    if tally.is_none() && done().next().is_none() {
        return Ok(true);
    }
    endings::finish(&mut tx, &finals).await?;
    let effects = finish_batch(core, &mut tx, &mut rows).await?;
    let audit_rows: Vec<audit_log::AuditRow> = done().filter_map(|cancel| cancel.audit_row.clone()).collect();
    audit_log::record_all(&mut tx, &audit_rows).await?;
    if let Some(tally) = tally {
        for (&item_id, problem) in &*excluded {
            if let Some(problem) = problem {
                tally.skip(item_id, problem.code.as_str());
            }
        }
        tally.write(core, &mut tx, &graphs).await?;
    }
    crate::store::commit(tx).await?;
    effects.after_commit(core, &rows).await;
    core.live.touch(&done().map(|cancel| cancel.root_id).collect::<Vec<_>>());
    Ok(true)
}

fn item_final(state: ItemState) -> Problem {
    Problem {
        item_state: Some(state),
        ..Problem::new(Code::ItemFinal, format!("The item is {} already.", state.as_str()))
    }
}

/// Locks the serialize queues of these items, and returns them.
async fn lock_serialize_queues_of(tx: &mut Tx, seen: &[pending_rows::PendingItem]) -> Result<Vec<i64>> {
    let ids = serialize_queues::serialize_queues_of(seen);
    if !ids.is_empty() {
        crate::store::enqueue::serialize_queues::lock(tx, &ids).await?;
    }
    Ok(ids)
}

/// Subtracts one item from the count of its waiting state.
pub(crate) fn subtract_waiting(counts: &mut domain::Counts, was: PendingIn) {
    match was {
        PendingIn::Ready => counts.available -= 1,
        PendingIn::Scheduled => counts.scheduled -= 1,
        PendingIn::Retryable => counts.retryable -= 1,
        PendingIn::Blocked => counts.blocked -= 1,
        PendingIn::WaitingForEvent => counts.waiting_for_event -= 1,
    }
}
