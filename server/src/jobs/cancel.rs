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

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::{
        Tx, audit as deeds,
        carry::{self, Kind},
        endings, gates, retrying, settle as trees,
        waiting::{self, Was},
    },
    task::in_task,
};

use super::{
    Core, Engine,
    add::rows::final_row,
    audit::{self, Recorded},
    bulk::Tally,
    ending::EndingRows,
    lanes,
    plan::Plan,
    settle::{self, Locked},
    work,
};

/// Result of a decision to cancel.
#[derive(Default)]
pub(super) struct Decided {
    /// Jobs without running items, which are complete, and complete jobs that others wait for.
    pub(super) settle: Vec<(i64, Uuid)>,
    /// Jobs that are canceled now.
    pub(super) gates: Vec<i64>,
}

/// Cancels a job and its descendants. Locks their job state rows and the root's. Idempotent; a complete job is refused.
pub(super) async fn decide(tx: &mut Tx, plan: &Plan, at: usize, reason: Option<&str>) -> Result<Decided> {
    let below = plan.subtree(at);
    let mut ids: Vec<i64> = below.iter().map(|&n| plan.jobs[n].gate_id).collect();
    ids.push(plan.root_gate());
    ids.sort_unstable();
    ids.dedup();
    let locked = Locked::read(tx, &ids).await?;
    if locked.get(plan.root_gate())?.removed {
        return Err(Error::refuse(Code::JobRemoved, "The job was removed."));
    }
    if locked.get(plan.jobs[at].gate_id)?.cancelled {
        return Ok(Decided::default());
    }
    let mut decided = Decided::default();
    let mut walks = Vec::new();
    let mut open = false;
    for n in below {
        let gate_id = plan.jobs[n].gate_id;
        let gate = locked.get(gate_id)?;
        if gate.cancelled {
            continue;
        }
        decided.gates.push(gate_id);
        if gate.completed_at.is_some() {
            // Jobs that wait for it learn now that it did not end with the required outcome (`after`).
            if plan.waiting_for(n).next().is_some() {
                decided.settle.push((gate_id, plan.root_id));
            }
            continue;
        }
        open = true;
        if gate.running == 0 && !gate.solo {
            decided.settle.push((gate_id, plan.root_id));
        }
        if gate.pending > 0 {
            walks.push(gate_id);
        }
    }
    if !open {
        return Err(Error::refuse(Code::JobCompleted, "The job is complete: there is nothing left to cancel."));
    }
    decided.gates.sort_unstable();
    trees::cancel(tx, &decided.gates, reason).await?;
    carry::cancel(tx, &decided.gates).await?;
    carry::begin(tx, &walks, Kind::Cancel).await?;
    Ok(decided)
}

impl Engine {
    /// Cancels a job and its descendants. Idempotent; a complete one is 409 `job_completed`.
    pub async fn cancel_job(&self, caller: &Caller, job_id: Uuid, reason: Option<&str>) -> Result<()> {
        self.cancel_job_for(caller, job_id, reason, Recorded::Here).await
    }

    pub(super) async fn cancel_job_for(
        &self,
        caller: &Caller,
        job_id: Uuid,
        reason: Option<&str>,
        recorded: Recorded,
    ) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let job = self.visible_job(caller, job_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, reason)?;
        let deed = audit::row(caller, "job.cancel", job.owner_id, reason.as_deref())
            .filter(|_| recorded == Recorded::Here)
            .map(|row| row.about(job.root_id, job.job_id, None));
        self.0
            .core
            .retrying(move |core| {
                let (job, reason, deed) = (Arc::clone(&job), reason.clone(), deed.clone());
                async move {
                    let plan = core.plans.of(&core.pools.read, job.root_id).await?;
                    let at = plan.place(job.gate_id).ok_or_else(|| Problem::not_found("job"))?;
                    let mut tx = core.pools.hot.begin().await?;
                    let decided = decide(&mut tx, &plan, at, reason.as_deref()).await?;
                    core.announce_complete(&mut tx, &decided.gates).await?;
                    gates::ask_to_settle(&mut tx, &decided.settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
                    if let Some(deed) = deed.filter(|_| !decided.gates.is_empty()) {
                        deeds::record(&mut tx, &deed).await?;
                    }
                    crate::store::commit(tx).await?;
                    core.ghosts.met(&decided.gates);
                    settle::settle_all(&core, &decided.settle).await;
                    core.hub.touch(&[job.root_id]);
                    core.walk_asked.notify_one();
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
        let deed = audit::row(caller, "item.cancel", job.owner_id, reason.as_deref())
            .map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
        let cancels = Arc::new([CancelItem { item_id, root_id: job.root_id, deed }]);
        let mut refused = self
            .0
            .core
            .retrying(move |core| {
                let cancels = Arc::clone(&cancels);
                async move { cancel_many(&core, &cancels[..], None).await }
            })
            .await?;
        refused.remove(&item_id).map_or(Ok(()), |problem| Err(problem.into()))
    }
}

/// Item to be canceled.
#[derive(Clone, Debug)]
pub(super) struct CancelItem {
    pub(super) item_id: Uuid,
    pub(super) root_id: Uuid,
    pub(super) deed: Option<deeds::AuditRow>,
}

/// Cancels items in one transaction; returns the refused ones. If they are members of a bulk operation, all of them are
/// counted in it.
pub(super) async fn cancel_many(
    core: &Arc<Core>,
    cancels: &[CancelItem],
    mut tally: Option<Tally>,
) -> Result<HashMap<Uuid, Problem>> {
    let mut over: HashMap<Uuid, Option<Problem>> = HashMap::new();
    while !attempt(core, cancels, tally.as_mut(), &mut over).await? {}
    Ok(over.into_iter().filter_map(|(item_id, problem)| Some((item_id, problem?))).collect())
}

/// Cancels the items that are not in `over`, which holds refused and already canceled items. False if some were added
/// to `over` after changes had been made: the transaction is rolled back.
async fn attempt(
    core: &Arc<Core>,
    cancels: &[CancelItem],
    tally: Option<&mut Tally>,
    over: &mut HashMap<Uuid, Option<Problem>>,
) -> Result<bool> {
    let mut plans = BTreeMap::new();
    if let Some(tally) = &tally {
        plans = core.plans.of_all(&core.pools.read, tally.roots()).await?;
    }
    let mut ids: Vec<Uuid> = cancels.iter().map(|cancel| cancel.item_id).filter(|id| !over.contains_key(id)).collect();
    ids.sort_unstable();
    let mut tx = core.pools.hot.begin().await?;
    let mut rows = EndingRows::default();
    // Workers of running items are notified first, because leases precede waiting rows in the lock order.
    let running: HashSet<Uuid> = retrying::ask_to_cancel(&mut tx, &ids).await?.into_iter().collect();
    ids.retain(|id| !running.contains(id));
    let seen = waiting::look(&mut tx, &ids).await?;
    lock_lanes_of(&mut tx, &seen).await?;
    let taken = waiting::take(&mut tx, &ids, false).await?;
    let found: HashSet<Uuid> = taken.iter().map(|taken| taken.item_id).collect();
    ids.retain(|id| !found.contains(id));
    let finals = if ids.is_empty() { HashMap::new() } else { retrying::final_states(&mut tx, &ids).await? };
    for id in ids {
        // Neither running, waiting nor final: the item moved in the meantime.
        let state = finals.get(&id).ok_or(Error::Conflict("an item moved"))?.state;
        over.insert(id, (state != ItemState::Cancelled).then(|| item_final(state)));
    }

    rows.freed.extend(taken.iter().filter_map(|taken| Some((taken.lane_id?, taken.item_id))));
    lanes::pass_on(core, &mut tx, &mut rows).await?;
    let gate_ids: BTreeSet<i64> = rows.deltas.keys().copied().chain(taken.iter().map(|taken| taken.gate_id)).collect();
    let gate_ids: Vec<i64> = gate_ids.into_iter().collect();
    let locked: HashMap<i64, gates::Locked> =
        gates::lock(&mut tx, &gate_ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
    let mut finals = Vec::with_capacity(taken.len());
    for taken in &taken {
        let gate = locked.get(&taken.gate_id).ok_or(Error::Conflict("a job was removed"))?;
        if gate.cancelled || gate.after_failed {
            // Already canceled and counted with its job; the propagation will update its row.
            over.insert(taken.item_id, None);
            continue;
        }
        let delta = rows.delta(taken.gate_id);
        count_off(&mut delta.counts, taken.was);
        delta.counts.cancelled += 1;
        let row = final_row(taken.item_id, taken.gate_id, ItemState::Cancelled, None);
        finals.push(endings::FinalRow { attempt: taken.attempts, failures: taken.failures, ..row });
    }
    if finals.len() < taken.len() {
        return Ok(false);
    }
    let done = || cancels.iter().filter(|cancel| !over.contains_key(&cancel.item_id));
    if tally.is_none() && done().next().is_none() {
        return Ok(true);
    }
    endings::finish(&mut tx, &finals).await?;
    let closed = work::close(core, &mut tx, &mut rows).await?;
    let deeds: Vec<deeds::AuditRow> = done().filter_map(|cancel| cancel.deed.clone()).collect();
    deeds::record_all(&mut tx, &deeds).await?;
    if let Some(tally) = tally {
        for (&item_id, problem) in &*over {
            if let Some(problem) = problem {
                tally.skip(item_id, problem.code.as_str());
            }
        }
        tally.write(core, &mut tx, &plans).await?;
    }
    crate::store::commit(tx).await?;
    closed.after_commit(core, &rows).await;
    core.hub.touch(&done().map(|cancel| cancel.root_id).collect::<Vec<_>>());
    Ok(true)
}

fn item_final(state: ItemState) -> Problem {
    Problem {
        item_state: Some(state),
        ..Problem::new(Code::ItemFinal, format!("The item is {} already.", state.as_str()))
    }
}

/// Locks the serialize queues of these items.
async fn lock_lanes_of(tx: &mut Tx, seen: &[waiting::Seen]) -> Result<()> {
    let ids = lanes::lanes_of(seen);
    if !ids.is_empty() {
        crate::store::lanes::lock(tx, &ids).await?;
    }
    Ok(())
}

/// Subtracts one item from the count of its waiting state.
pub(super) fn count_off(counts: &mut domain::Counts, was: Was) {
    match was {
        Was::Ready => counts.available -= 1,
        Was::Scheduled => counts.scheduled -= 1,
        Was::Retryable => counts.retryable -= 1,
        Was::Blocked => counts.blocked -= 1,
    }
}

impl Core {
    /// Runs a use case in its own task, so that a client that disconnects cannot leave a transaction open, and retries
    /// it after a conflict with another transaction.
    pub(super) async fn retrying<F, R>(self: &Arc<Self>, run: impl Fn(Arc<Core>) -> F + Send + 'static) -> Result<R>
    where
        F: Future<Output = Result<R>> + Send + 'static,
        R: Send + 'static,
    {
        let core = Arc::clone(self);
        let work = async move {
            let mut left = 5;
            loop {
                match run(Arc::clone(&core)).await {
                    Err(Error::JobsCancelled(gates)) if left > 0 => core.ghosts.met(&gates),
                    Err(error) if error.is_conflict() && left > 0 => {}
                    other => return other,
                }
                left -= 1;
            }
        };
        in_task("cancelling", work).await
    }
}
