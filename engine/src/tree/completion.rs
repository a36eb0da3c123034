//! Completion of trees of several jobs and its consequences: fed children are sealed, waiting jobs are released or
//! ended, the tree's open jobs are counted down (`completion`, `feeding`, `after`). Runs in a separate transaction
//! after the one that ended the last item; the answer to that ending waits for it, and a sweep repairs what a crash
//! left undone. Reopening reverses these steps (`manual-retry`).

use std::collections::{BTreeMap, BTreeSet};

use uuid::Uuid;

use crate::{
    Core,
    error::{Error, Result},
    store::{
        Tx,
        retention::maintenance_checks,
        tree::{
            completion::{self, TreeJobState},
            job_states,
            propagation::{self, PropagationKind},
        },
    },
};

use super::{dependency_graph::DependencyGraph, propagation as row_propagation};

impl Core {
    /// Completes jobs that look complete. Failures are logged and left to the sweep, because the endings that led here
    /// are already committed.
    pub(crate) async fn complete_jobs(&self, jobs: &[(i64, Uuid)]) {
        for &(job_key, root_id) in jobs {
            if let Err(error) = complete_job_and_dependents(self, job_key, root_id).await {
                tracing::warn!(%error, job_key, "job completion failed");
            }
        }
    }
}

/// Completes a job and the jobs that become complete with it.
async fn complete_job_and_dependents(core: &Core, job_key: i64, root_id: Uuid) -> Result<()> {
    let graph = core.graphs.of(&core.pools.read, root_id).await?;
    let mut open = vec![job_key];
    while let Some(job_key) = open.pop() {
        let Some(at) = graph.position(job_key) else { continue };
        let mut tx = crate::store::begin(&core.pools.hot).await?;
        let done = complete_job(&mut tx, &graph, at).await?;
        if done.completes_tree {
            core.announce_complete(&mut tx, &[graph.root_job_key()]).await?;
        }
        // One of these may look complete now, and the server may die before it completes it.
        job_states::request_completion_checks(&mut tx, &done.next).await?;
        crate::store::commit(tx).await?;
        open.extend(done.next);
        // Boxed: released items may in turn complete jobs.
        Box::pin(row_propagation::first_steps(core, &done.propagations)).await;
    }
    core.live.touch(&[root_id]);
    Ok(())
}

#[derive(Default)]
struct Completion {
    /// Jobs that may be complete now.
    next: Vec<i64>,
    /// Jobs with a decision to propagate to their rows.
    propagations: Vec<i64>,
    /// True if this completes the tree.
    completes_tree: bool,
}

async fn complete_job(tx: &mut Tx, graph: &DependencyGraph, at: usize) -> Result<Completion> {
    let mut touched: BTreeSet<usize> = [0, at].into();
    touched.extend(graph.fed_by(at));
    for waiting in graph.waiting_for(at) {
        touched.insert(waiting);
        touched.extend(&graph.jobs[waiting].after);
    }
    let mut ids: Vec<i64> = touched.iter().map(|&n| graph.jobs[n].job_key).collect();
    ids.sort_unstable();
    let mut locked = LockedJobs::read(tx, &ids).await?;
    let job_key = graph.jobs[at].job_key;
    propagation::remove_completion_check(tx, job_key).await?;
    let mut completion = Completion::default();
    let job_state = locked.get(job_key)?;
    let completes = job_state.looks_complete;
    // A job that was complete and then canceled only has to inform the jobs still waiting for it.
    if !(completes || job_state.completed_at.is_some() && job_state.cancelled) {
        return Ok(completion);
    }
    let job_key_of = |n: usize| graph.jobs[n].job_key;
    if completes {
        completion::complete(tx, &[job_key]).await?;
        locked.complete(job_key);
        let fed: Vec<i64> = graph.fed_by(at).map(job_key_of).collect();
        let fed: Vec<i64> = fed.into_iter().filter(|&job_key| locked.is_open(job_key)).collect();
        completion::seal_fed(tx, &fed).await?;
        completion.next.extend(fed);
    }
    for waiting in graph.waiting_for(at) {
        let job_key = job_key_of(waiting);
        let job_state = locked.get(job_key)?;
        // A canceled job waits for nothing, and a released one is not held again.
        if job_state.cancelled || job_state.is_released() {
            continue;
        }
        let predecessors = locked.predecessors(graph, waiting);
        completion::set_after(tx, job_key, predecessors.open).await?;
        if predecessors.failed && !job_state.after_failed {
            completion::fail_after(tx, job_key).await?;
            propagation::begin(tx, &[job_key], PropagationKind::Fail).await?;
            completion.propagations.push(job_key);
        } else if !predecessors.failed && predecessors.open == 0 {
            propagation::begin(tx, &[job_key], PropagationKind::Release).await?;
            completion.propagations.push(job_key);
        }
        completion.next.push(job_key);
    }
    if !completes {
        return Ok(completion);
    }
    let root = graph.root_job_key();
    let (open, holds) = completion::count_jobs(tx, root, -1).await?;
    #[cfg(feature = "failpoints")]
    if crate::failpoints::broken("forget_tree", file!()) {
        return Ok(completion);
    }
    if open == 0 && (holds == 0 || locked.get(root)?.cancelled) {
        completion::complete_tree(tx, root, graph.root_id).await?;
        completion.completes_tree = true;
    }
    Ok(completion)
}

impl TreeJobState {
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
struct PredecessorState {
    open: i32,
    failed: bool,
}

/// Locked job state rows, with the changes of this transaction.
pub(crate) struct LockedJobs {
    job_states: BTreeMap<i64, TreeJobState>,
    completed: BTreeSet<i64>,
    reopened: BTreeSet<i64>,
}

impl LockedJobs {
    /// Locks job state rows in ascending order and reads them.
    pub(crate) async fn read(tx: &mut Tx, job_keys: &[i64]) -> Result<Self> {
        let job_states =
            completion::lock(tx, job_keys).await?.into_iter().map(|job_state| (job_state.job_key, job_state)).collect();
        Ok(Self { job_states, completed: BTreeSet::new(), reopened: BTreeSet::new() })
    }

    pub(crate) fn get(&self, job_key: i64) -> Result<&TreeJobState> {
        self.job_states.get(&job_key).ok_or(Error::Conflict("a job was removed"))
    }

    fn is_open(&self, job_key: i64) -> bool {
        self.job_states.get(&job_key).is_some_and(|job_state| !job_state.cancelled && !job_state.sealed)
    }

    pub(crate) fn is_complete(&self, job_key: i64) -> bool {
        let was = self.job_states.get(&job_key).is_some_and(|job_state| job_state.completed_at.is_some());
        (was || self.completed.contains(&job_key)) && !self.reopened.contains(&job_key)
    }

    fn complete(&mut self, job_key: i64) {
        self.completed.insert(job_key);
    }

    fn predecessors(&self, graph: &DependencyGraph, at: usize) -> PredecessorState {
        let job = &graph.jobs[at];
        let mut predecessors = PredecessorState { open: 0, failed: false };
        for &before in &job.after {
            let job_key = graph.jobs[before].job_key;
            if !self.is_complete(job_key) {
                predecessors.open += 1;
            } else if !job.after_any
                && self.job_states.get(&job_key).is_some_and(|job_state| !job_state.succeeded_fully())
            {
                predecessors.failed = true;
            }
        }
        predecessors
    }
}

/// Reopens a job of a tree for a retried item, with its dependents: fed children are unsealed, and jobs that `after`
/// had ended wait again (`manual-retry`). The whole tree is locked. Returns the jobs with a decision to propagate.
pub(crate) async fn reopen(
    tx: &mut Tx,
    graph: &DependencyGraph,
    at: usize,
    locked: &mut LockedJobs,
) -> Result<Vec<i64>> {
    let mut propagations = Vec::new();
    let mut reopened = 0;
    let mut open = vec![at];
    maintenance_checks::check_reopened(tx, &[graph.root_job_key()]).await?;
    while let Some(at) = open.pop() {
        let job_key = graph.jobs[at].job_key;
        if !locked.is_complete(job_key) {
            continue;
        }
        completion::reopen(tx, &[job_key]).await?;
        locked.reopened.insert(job_key);
        reopened += 1;
        for child in graph.fed_by(at) {
            let child_job_key = graph.jobs[child].job_key;
            let job_state = locked.get(child_job_key)?;
            if job_state.sealed_by_feed && !job_state.cancelled {
                completion::unseal_fed(tx, &[child_job_key]).await?;
                open.push(child);
            }
        }
        for waiting in graph.waiting_for(at) {
            let job_key = graph.jobs[waiting].job_key;
            let job_state = locked.get(job_key)?;
            if job_state.cancelled || job_state.is_released() {
                continue;
            }
            let predecessors = locked.predecessors(graph, waiting);
            completion::set_after(tx, job_key, predecessors.open).await?;
            if job_state.after_failed && !predecessors.failed {
                completion::return_after(tx, job_key).await?;
                propagation::begin(tx, &[job_key], PropagationKind::Return).await?;
                propagations.push(job_key);
            }
            open.push(waiting);
        }
    }
    if reopened > 0 && graph.jobs.len() > 1 {
        completion::count_jobs(tx, graph.root_job_key(), reopened).await?;
        completion::reopen_tree(tx, graph.root_job_key()).await?;
    }
    Ok(propagations)
}

/// Releases one hold on each of these trees and completes the trees that waited for nothing else. Locks the job state
/// rows of their roots.
pub(crate) async fn release_holds(core: &Core, tx: &mut Tx, graphs: &[&DependencyGraph]) -> Result<()> {
    let mut roots: Vec<i64> = graphs.iter().map(|graph| graph.root_job_key()).collect();
    roots.sort_unstable();
    let locked = LockedJobs::read(tx, &roots).await?;
    completion::hold(tx, &roots, -1).await?;
    completion::complete_solos(tx, &roots).await?;
    for graph in graphs {
        let job_state = locked.get(graph.root_job_key())?;
        if !job_state.solo && job_state.holds == 1 && job_state.open_jobs == 0 && job_state.tree_completed_at.is_none()
        {
            completion::complete_tree(tx, job_state.job_key, graph.root_id).await?;
        }
    }
    core.announce_complete(tx, &roots).await
}
