//! Completion of trees of several jobs and its consequences: fed children are sealed, waiting jobs are released or
//! ended, the tree's open jobs are counted down (`completion`, `feeding`, `after`). Runs in a separate transaction
//! after the one that ended the last item; the answer to that ending waits for it, and a sweep repairs what a crash
//! left undone. Reopening reverses these steps (`manual-retry`).

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        carry::{self, Kind},
        gates,
        settle::{self, TreeGate},
    },
};

use super::{Core, carry as walks, plan::Plan};

/// Completes jobs that look complete. Failures are logged and left to the sweep, because the endings that led here are
/// already committed.
pub(super) async fn settle_all(core: &Core, jobs: &[(i64, Uuid)]) {
    for &(gate_id, root_id) in jobs {
        if let Err(error) = settle_tree(core, gate_id, root_id).await {
            tracing::warn!(%error, gate_id, "job completion failed");
        }
    }
}

/// Completes a job and the jobs that become complete with it.
async fn settle_tree(core: &Core, gate_id: i64, root_id: Uuid) -> Result<()> {
    let plan = core.plans.of(&core.pools.read, root_id).await?;
    let mut open = vec![gate_id];
    while let Some(gate_id) = open.pop() {
        let Some(at) = plan.place(gate_id) else { continue };
        let mut tx = core.pools.hot.begin().await?;
        let done = settle_one(&mut tx, &plan, at).await?;
        if done.completes_tree {
            core.announce_complete(&mut tx, &[plan.root_gate()]).await?;
        }
        // One of these may look complete now, and the server may die before it completes it.
        gates::ask_to_settle(&mut tx, &done.next).await?;
        crate::store::commit(tx).await?;
        open.extend(done.next);
        // Boxed: released items may in turn complete jobs.
        Box::pin(walks::follow(core, &done.walks)).await;
    }
    core.hub.touch(&[root_id]);
    Ok(())
}

#[derive(Default)]
struct Settled {
    /// Jobs that may be complete now.
    next: Vec<i64>,
    /// Jobs with a decision to propagate to their rows.
    walks: Vec<i64>,
    /// True if this completes the tree.
    completes_tree: bool,
}

async fn settle_one(tx: &mut Tx, plan: &Plan, at: usize) -> Result<Settled> {
    let mut touched: BTreeSet<usize> = [0, at].into();
    touched.extend(plan.fed_by(at));
    for waiting in plan.waiting_for(at) {
        touched.insert(waiting);
        touched.extend(&plan.jobs[waiting].after);
    }
    let mut ids: Vec<i64> = touched.iter().map(|&n| plan.jobs[n].gate_id).collect();
    ids.sort_unstable();
    let mut locked = Locked::read(tx, &ids).await?;
    let gate_id = plan.jobs[at].gate_id;
    carry::settled(tx, gate_id).await?;
    let mut settled = Settled::default();
    let gate = locked.get(gate_id)?;
    let completes = gate.looks_complete();
    // A job that was complete and then canceled only has to inform the jobs still waiting for it.
    if !(completes || gate.completed_at.is_some() && gate.cancelled) {
        return Ok(settled);
    }
    let gate_of = |n: usize| plan.jobs[n].gate_id;
    if completes {
        settle::complete(tx, &[gate_id]).await?;
        locked.complete(gate_id);
        let fed: Vec<i64> = plan.fed_by(at).map(gate_of).collect();
        let fed: Vec<i64> = fed.into_iter().filter(|&gate| locked.is_open(gate)).collect();
        settle::seal_fed(tx, &fed).await?;
        settled.next.extend(fed);
    }
    for waiting in plan.waiting_for(at) {
        let gate_id = gate_of(waiting);
        let gate = locked.get(gate_id)?;
        // A canceled job waits for nothing, and a released one is not held again.
        if gate.cancelled || gate.is_released() {
            continue;
        }
        let stand = locked.stand(plan, waiting);
        settle::set_after(tx, gate_id, stand.open).await?;
        if stand.failed && !gate.after_failed {
            settle::fail_after(tx, gate_id).await?;
            carry::begin(tx, &[gate_id], Kind::Fail).await?;
            settled.walks.push(gate_id);
        } else if !stand.failed && stand.open == 0 {
            carry::begin(tx, &[gate_id], Kind::Release).await?;
            settled.walks.push(gate_id);
        }
        settled.next.push(gate_id);
    }
    if !completes {
        return Ok(settled);
    }
    let root = plan.root_gate();
    let (open, holds) = settle::count_jobs(tx, root, -1).await?;
    if open == 0 && (holds == 0 || locked.get(root)?.cancelled) {
        settle::complete_tree(tx, root, plan.root_id).await?;
        settled.completes_tree = true;
    }
    Ok(settled)
}

impl TreeGate {
    /// True if a job in a tree of several satisfies `completion`.
    fn looks_complete(&self) -> bool {
        !self.solo
            && self.sealed
            && self.completed_at.is_none()
            && self.pending == 0
            && self.open_feeds == 0
            && self.after_open == 0
    }

    /// True if the job is released: `after` holds it no more, whatever happens later.
    fn is_released(&self) -> bool {
        self.after_open == 0 && !self.after_failed
    }

    /// True if every item succeeded (`completion`).
    fn succeeded_fully(&self) -> bool {
        !self.cancelled && self.unsuccessful == 0
    }
}

/// State of the jobs that a job waits for.
struct Stand {
    open: i32,
    failed: bool,
}

/// Locked job state rows, with the changes of this transaction.
pub(super) struct Locked {
    gates: BTreeMap<i64, TreeGate>,
    completed: BTreeSet<i64>,
    reopened: BTreeSet<i64>,
}

impl Locked {
    /// Locks job state rows in ascending order and reads them.
    pub(super) async fn read(tx: &mut Tx, gate_ids: &[i64]) -> Result<Self> {
        let gates = settle::lock(tx, gate_ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
        Ok(Self { gates, completed: BTreeSet::new(), reopened: BTreeSet::new() })
    }

    pub(super) fn get(&self, gate_id: i64) -> Result<&TreeGate> {
        self.gates.get(&gate_id).ok_or(Error::Conflict("a job was removed"))
    }

    fn is_open(&self, gate_id: i64) -> bool {
        self.gates.get(&gate_id).is_some_and(|gate| !gate.cancelled && !gate.sealed)
    }

    pub(super) fn is_complete(&self, gate_id: i64) -> bool {
        let was = self.gates.get(&gate_id).is_some_and(|gate| gate.completed_at.is_some());
        (was || self.completed.contains(&gate_id)) && !self.reopened.contains(&gate_id)
    }

    fn complete(&mut self, gate_id: i64) {
        self.completed.insert(gate_id);
    }

    fn stand(&self, plan: &Plan, at: usize) -> Stand {
        let job = &plan.jobs[at];
        let mut stand = Stand { open: 0, failed: false };
        for &before in &job.after {
            let gate_id = plan.jobs[before].gate_id;
            if !self.is_complete(gate_id) {
                stand.open += 1;
            } else if !job.after_any && self.gates.get(&gate_id).is_some_and(|gate| !gate.succeeded_fully()) {
                stand.failed = true;
            }
        }
        stand
    }
}

/// Reopens a job of a tree for a retried item, with its dependents: fed children are unsealed, and jobs that `after`
/// had ended wait again (`manual-retry`). The whole tree is locked. Returns the jobs with a decision to propagate.
pub(super) async fn reopen(tx: &mut Tx, plan: &Plan, at: usize, locked: &mut Locked) -> Result<Vec<i64>> {
    let mut walks = Vec::new();
    let mut reopened = 0;
    let mut open = vec![at];
    while let Some(at) = open.pop() {
        let gate_id = plan.jobs[at].gate_id;
        if !locked.is_complete(gate_id) {
            continue;
        }
        settle::reopen(tx, &[gate_id]).await?;
        locked.reopened.insert(gate_id);
        reopened += 1;
        for child in plan.fed_by(at) {
            let child_gate = plan.jobs[child].gate_id;
            let gate = locked.get(child_gate)?;
            if gate.sealed_by_feed && !gate.cancelled {
                settle::unseal_fed(tx, &[child_gate]).await?;
                open.push(child);
            }
        }
        for waiting in plan.waiting_for(at) {
            let gate_id = plan.jobs[waiting].gate_id;
            let gate = locked.get(gate_id)?;
            if gate.cancelled || gate.is_released() {
                continue;
            }
            let stand = locked.stand(plan, waiting);
            settle::set_after(tx, gate_id, stand.open).await?;
            if gate.after_failed && !stand.failed {
                settle::return_after(tx, gate_id).await?;
                carry::begin(tx, &[gate_id], Kind::Return).await?;
                walks.push(gate_id);
            }
            open.push(waiting);
        }
    }
    if reopened > 0 && plan.jobs.len() > 1 {
        settle::count_jobs(tx, plan.root_gate(), reopened).await?;
        settle::reopen_tree(tx, plan.root_gate()).await?;
    }
    Ok(walks)
}

/// Releases one hold on each of these trees and completes the trees that waited for nothing else. Locks the job state
/// rows of their roots.
pub(super) async fn release_holds(core: &Core, tx: &mut Tx, plans: &[&Plan]) -> Result<()> {
    let mut roots: Vec<i64> = plans.iter().map(|plan| plan.root_gate()).collect();
    roots.sort_unstable();
    let locked = Locked::read(tx, &roots).await?;
    settle::hold(tx, &roots, -1).await?;
    settle::complete_solos(tx, &roots).await?;
    for plan in plans {
        let gate = locked.get(plan.root_gate())?;
        if !gate.solo && gate.holds == 1 && gate.open_jobs == 0 && gate.tree_completed_at.is_none() {
            settle::complete_tree(tx, gate.gate_id, plan.root_id).await?;
        }
    }
    core.announce_complete(tx, &roots).await
}
