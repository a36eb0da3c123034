//! Cancelling: a job with everything below it, or one item (rule 15).
//!
//! The decision is one commit on the gates. From the answer on nothing below is claimed, fed, retried or
//! completed; what waits counts as cancelled at once, and its rows follow.

use std::{collections::HashMap, sync::Arc};

use domain::{Code, ItemState, Problem};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::{
        Tx, audit as deeds,
        carry::{self, Kind},
        endings, gates, leases, retrying, settle as trees,
        waiting::{self, Was},
    },
};

use super::{
    Core, Engine,
    add::rows::final_row,
    audit,
    bulk::Mark,
    ending::EndingRows,
    lanes,
    plan::Plan,
    settle::{self, Locked},
    work,
};

/// What a decision to cancel has brought.
#[derive(Default)]
pub(super) struct Decided {
    /// Jobs that nobody works on: complete.
    pub(super) settle: Vec<(i64, Uuid)>,
    /// Jobs that are cancelled now.
    pub(super) gates: Vec<i64>,
}

/// Cancels a job and everything below it. Locks their gates and the root's. Again is
/// fine; a complete job is refused.
pub(super) async fn decide(tx: &mut Tx, plan: &Plan, at: usize, reason: Option<&str>) -> Result<Decided> {
    let below: Vec<i64> = plan.subtree(at).into_iter().map(|n| plan.jobs[n].gate_id).collect();
    let mut ids = below.clone();
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
    for &gate_id in &below {
        let gate = locked.get(gate_id)?;
        if gate.cancelled {
            continue;
        }
        decided.gates.push(gate_id);
        if gate.completed_at.is_some() {
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
    carry::end(tx, &decided.gates).await?;
    carry::begin(tx, &walks, Kind::Cancel).await?;
    Ok(decided)
}

impl Engine {
    /// Cancels a job and everything below it. Again is fine; a complete one is 409 `job_completed`.
    pub async fn cancel_job(&self, caller: &Caller, job_id: Uuid, reason: Option<&str>) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let job = self.visible_job(caller, job_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, reason)?;
        let deed = audit::row(caller, "job.cancel", job.owner_id, reason.as_deref())
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
                    gates::ask_to_settle(&mut tx, &decided.settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
                    if let Some(deed) = deed.filter(|_| !decided.gates.is_empty()) {
                        deeds::record(&mut tx, &deed).await?;
                    }
                    tx.commit().await?;
                    core.ghosts.met(&decided.gates);
                    settle::settle_all(&core, &decided.settle).await;
                    core.hub.touch(&[job.root_id]);
                    core.walk_asked.notify_one();
                    Ok(())
                }
            })
            .await
    }

    /// Cancels one item: at once where it waits, else its holder is told. Again is fine.
    pub async fn cancel_item(&self, caller: &Caller, item_id: Uuid, reason: Option<&str>) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let job = self.job_of_item(caller, item_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, reason)?;
        let deed = audit::row(caller, "item.cancel", job.owner_id, reason.as_deref())
            .map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
        self.0
            .core
            .retrying(move |core| {
                let (deed, root_id) = (deed.clone(), job.root_id);
                async move {
                    cancel_one(&core, item_id, deed, None).await?;
                    core.hub.touch(&[root_id]);
                    Ok(())
                }
            })
            .await
    }
}

/// Cancels an item, and counts it where it is a member of a bulk operation (with its tree). False: it was
/// cancelled already, and nothing was written.
pub(super) async fn cancel_one(
    core: &Arc<Core>,
    item_id: Uuid,
    deed: Option<deeds::AuditRow>,
    member: Option<(Mark, Uuid)>,
) -> Result<bool> {
    let member = match member {
        Some((mark, root_id)) => Some((mark, core.plans.of(&core.pools.read, root_id).await?)),
        None => None,
    };
    let mut tx = core.pools.hot.begin().await?;
    let mut rows = EndingRows::default();
    // Whoever works on it is told; asked first, as leases come before what waits.
    let running = leases::ask_to_cancel(&mut tx, item_id).await?;
    if !running {
        let seen = waiting::look(&mut tx, &[item_id]).await?;
        lock_lanes_of(&mut tx, &seen).await?;
        let Some(taken) = waiting::take(&mut tx, &[item_id], false).await?.pop() else {
            return match retrying::final_state(&mut tx, item_id).await? {
                Some(ItemState::Cancelled) => Ok(false),
                Some(state) => Err(Problem {
                    item_state: Some(state),
                    ..Problem::new(Code::ItemFinal, format!("The item is {} already.", state.as_str()))
                }
                .into()),
                // It moved while we looked.
                None => Err(Error::Conflict("an item moved")),
            };
        };
        rows.freed.extend(taken.lane_id.map(|lane| (lane, item_id)));
        lanes::pass_on(core, &mut tx, &mut rows).await?;
        let mut ids: Vec<i64> = rows.deltas.keys().copied().chain([taken.gate_id]).collect();
        ids.sort_unstable();
        ids.dedup();
        let locked: HashMap<i64, gates::Locked> =
            gates::lock(&mut tx, &ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
        let gate = locked.get(&taken.gate_id).ok_or(Error::Conflict("a job was removed"))?;
        if gate.cancelled || gate.after_failed {
            // It is cancelled with its job already, and counted; its row follows by itself.
            return Ok(false);
        }
        let delta = rows.delta(taken.gate_id);
        count_off(&mut delta.counts, taken.was);
        delta.counts.cancelled += 1;
        let mut row = final_row(item_id, taken.gate_id, ItemState::Cancelled, None);
        (row.attempt, row.failures) = (taken.attempts, taken.failures);
        endings::finish(&mut tx, &[row]).await?;
    }
    let done = work::close(core, &mut tx, &mut rows).await?;
    if let Some(deed) = deed {
        deeds::record(&mut tx, &deed).await?;
    }
    if let Some((mark, plan)) = &member {
        mark.processed(&mut tx, plan).await?;
    }
    tx.commit().await?;
    done.after_commit(core, &rows).await;
    Ok(true)
}

/// Locks the lanes in which these items stand.
async fn lock_lanes_of(tx: &mut Tx, seen: &[waiting::Seen]) -> Result<()> {
    let ids = lanes::lanes_of(seen);
    if !ids.is_empty() {
        crate::store::lanes::lock(tx, &ids).await?;
    }
    Ok(())
}

/// One item less of those that wait in this way.
pub(super) fn count_off(counts: &mut domain::Counts, was: Was) {
    match was {
        Was::Ready => counts.available -= 1,
        Was::Scheduled => counts.scheduled -= 1,
        Was::Retryable => counts.retryable -= 1,
        Was::Blocked => counts.blocked -= 1,
    }
}

impl Core {
    /// Runs a use-case in a task of its own, so that a client that goes away cannot leave a transaction
    /// open, and again where another transaction came first.
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
        tokio::spawn(work).await.map_err(|e| Error::Broken(e.to_string()))?
    }
}
