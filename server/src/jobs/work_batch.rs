//! Endings and claims in one transaction: one commit serves the typical requests of many busy workers.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::{
    Counts, Problem,
    api::{Claimed, Ended, EndingAnswer, FinishBody, Finished},
    assignment::AssignmentId,
    limits,
};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    flush::Batch,
    store::{
        Tx,
        feeds::{self, FeedRemainder},
        job_states::{self, Delta},
        leases::ClaimCursor,
    },
};

use super::{
    Core, Engine, alerts,
    assignment_endings::{self, EndCommand, EndingKind, EndingRows},
    builtin_executors::Holder,
    cancel,
    claim::{self, ClaimCommand, ClaimContext, ClaimRows},
    dependency_graph::DependencyGraph,
    ending_validation, error_groups,
    feed::{self, Fed},
    item_intake::{AddedCounts, Intake, JobItems},
    serialize_queues, tree_completion,
};

/// Endings of one request, and optionally a claim.
#[derive(Clone, Debug)]
pub(super) struct WorkCommand {
    pub(super) endings: Vec<EndCommand>,
    pub(super) claim: Option<ClaimCommand>,
}

/// Answers to the endings and the claim.
#[derive(Debug)]
pub(super) struct WorkAnswer {
    pub(super) endings: Vec<Result<Ended, Problem>>,
    pub(super) claimed: Claimed,
}

pub(super) struct WorkBatch(pub(super) Arc<Core>);

impl Batch for WorkBatch {
    type Command = WorkCommand;
    type Answer = WorkAnswer;
    type Done = Done;

    fn weight(work: &WorkCommand) -> usize {
        (work.endings.len() + work.claim.as_ref().map_or(0, |claim| claim.max)).max(1)
    }

    async fn run(&self, works: &[&WorkCommand]) -> Result<Done> {
        let core = &self.0;
        let mut cancelled: Vec<i64> = Vec::new();
        loop {
            match attempt(core, works, &cancelled).await {
                // The batch was rolled back. Run it again; running items of these jobs can then only end as canceled.
                Err(Error::JobsCancelled(job_keys)) if job_keys.iter().any(|job_key| !cancelled.contains(job_key)) => {
                    core.cancelled_jobs.insert(&job_keys);
                    cancelled.extend(job_keys);
                    cancelled.sort_unstable();
                    cancelled.dedup();
                }
                other => return other,
            }
        }
    }

    async fn answer(&self, works: &[WorkCommand], done: Done) -> Vec<Result<WorkAnswer>> {
        let core = &self.0;
        done.effects.after_commit(core, &done.rows).await;
        done.context.count_waits(core, &done.claimed.waits);
        let ended = done.ended.len();
        if ended > 0 {
            wake_capped(core, ended);
        }
        let mut ended = done.ended.into_iter();
        let assignments = claim::assignments(core, done.context, done.claimed.rows);
        let mut handed_out = assignments.into_iter().zip(done.claimed.refused);
        works
            .iter()
            .map(|work| {
                let endings = ended.by_ref().take(work.endings.len()).collect();
                let claimed = work
                    .claim
                    .as_ref()
                    .and_then(|_| handed_out.next())
                    .map_or_else(Claimed::default, |(a, r)| Claimed { assignments: a, refused: r });
                Ok(WorkAnswer { endings, claimed })
            })
            .collect()
    }
}

/// Result of a committed batch.
pub(super) struct Done {
    ended: Vec<Result<Ended, Problem>>,
    claimed: ClaimRows,
    context: ClaimContext,
    rows: EndingRows,
    effects: CommitEffects,
}

/// Runs endings and claims in one transaction, given the known canceled jobs. The order is the lock order: types,
/// leases, dedupe keys, serialize queues, waiting rows, job state rows.
async fn attempt(core: &Arc<Core>, works: &[&WorkCommand], cancelled: &[i64]) -> Result<Done> {
    let endings: Vec<&EndCommand> = works.iter().flat_map(|work| &work.endings).collect();
    let claims: Vec<&ClaimCommand> = works.iter().filter_map(|work| work.claim.as_ref()).collect();

    let mut tx = core.pools.hot.begin().await?;
    let caps = claim::lock_capped(core, &mut tx, &claims).await?;
    let mut rows = EndingRows::with_cancelled(cancelled);
    let ended = assignment_endings::end_all(core, &mut tx, &endings, &mut rows).await?;
    let mut fed_items = FedItems::of(feed::fed_by(core, &mut tx, &rows.succeeded, &endings).await?);
    fed_items.lock(core, &mut tx, &mut rows).await?;
    let claimed = claim::claim_all(core, &mut tx, &claims, &caps, &mut rows.deltas).await?;
    let context = claim::context(core, &mut tx, &claimed.rows).await?;
    let effects = finish_batch_with(core, &mut tx, &mut rows, fed_items).await?;
    crate::store::commit(tx).await?;
    Ok(Done { ended, claimed, context, rows, effects })
}

/// Wakes claims on capped types: ended items may have made room under the cap.
fn wake_capped(core: &Core, n: usize) {
    for type_id in core.waiters.types() {
        if core.types.by_id(type_id).is_some_and(|info| info.concurrency.is_some()) {
            core.waiters.wake(type_id, n);
        }
    }
}

/// Work that follows the commit of a batch.
#[derive(Default)]
pub(super) struct CommitEffects {
    roots: Vec<Uuid>,
    to_complete: Vec<(i64, Uuid)>,
    fed: BTreeMap<i32, (usize, ClaimCursor)>,
    /// Numbers of fed items for the statistics, by type; those that were final at once are in `finished`.
    added_counts: BTreeMap<String, AddedCounts>,
    /// Number of items that each job gained in each final state.
    finished: Vec<(i64, Counts)>,
}

/// Items that feeds add in the same batch that ended their sources.
#[derive(Default)]
pub(super) struct FedItems {
    fed: Vec<Fed>,
    intake: Intake,
}

impl FedItems {
    fn of(fed: Vec<Fed>) -> Self {
        Self { fed, ..Self::default() }
    }

    fn job_items(&self) -> Vec<JobItems<'_>> {
        self.fed.iter().map(|fed| JobItems { job: &fed.job, items: &fed.items }).collect()
    }

    /// Locks the dedupe keys and the serialize queues, including the queues of items that became final in this batch,
    /// and releases the next item of those queues.
    pub(super) async fn lock(&mut self, core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<()> {
        if self.fed.is_empty() && rows.freed.is_empty() {
            return Ok(());
        }
        let mut intake = Intake::begin(core, &self.job_items()).await?;
        intake.take_keys(tx, &self.job_items()).await?;
        intake.lock_serialize_queues(tx, rows.freed.iter().map(|freed| freed.0)).await?;
        serialize_queues::release_next(core, tx, rows).await?;
        intake.read_heads(tx).await?;
        self.intake = intake;
        Ok(())
    }

    /// Inserts the fed items into their jobs and locks the job state rows. Canceled children are not fed.
    async fn place(
        &mut self,
        core: &Core,
        tx: &mut Tx,
        rows: &mut EndingRows,
        graphs: &[Arc<DependencyGraph>],
    ) -> Result<()> {
        let mut ids: Vec<i64> = rows.deltas.keys().copied().collect();
        ids.extend(self.fed.iter().flat_map(|fed| [fed.job.job_key, fed.job.fair_turn_job_key]));
        ids.extend(graphs.iter().flat_map(|graph| graph.job_keys()));
        ids.sort_unstable();
        ids.dedup();
        let locked: HashMap<i64, job_states::LockedJobState> =
            job_states::lock(tx, &ids).await?.into_iter().map(|job_state| (job_state.job_key, job_state)).collect();
        self.intake.open(tx, &locked).await?;
        let mut owed = Vec::new();
        for fed in &self.fed {
            let job_key = fed.job.job_key;
            let Some(job_state) = locked.get(&job_key).filter(|job_state| !job_state.cancelled && !job_state.deleted)
            else {
                continue;
            };
            let job_items = JobItems { job: &fed.job, items: &fed.items };
            self.intake.place(core, tx, &job_items, job_state, &mut rows.deltas).await?;
            rows.delta(job_key).feeds += fed.rest.len() as i64;
            owed.extend(fed.rest.iter().map(|&(item_id, next)| FeedRemainder { item_id, job_key, next }));
        }
        feeds::insert(tx, &owed).await?;
        self.intake.write(core, tx, &mut rows.deltas).await
    }
}

/// Releases the items that waited in serialize queues behind final items, in a batch without feeds.
pub(super) async fn release_next_items(core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<()> {
    FedItems::default().lock(core, tx, rows).await
}

/// Last statements of a batch that moves items and feeds none.
pub(super) async fn finish_batch(core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<CommitEffects> {
    finish_batch_with(core, tx, rows, FedItems::default()).await
}

/// Last statements of every batch that moves items: job state rows and dependent updates. A job state row that refuses
/// its delta belongs to a job that was canceled in the meantime: the batch must be rolled back.
async fn finish_batch_with(
    core: &Core,
    tx: &mut Tx,
    rows: &mut EndingRows,
    mut fed_items: FedItems,
) -> Result<CommitEffects> {
    let mut graphs: Vec<Arc<DependencyGraph>> = Vec::new();
    let mut aborted: Vec<i64> = std::mem::take(&mut rows.aborted);
    aborted.sort_unstable();
    aborted.dedup();
    for job in core.jobs.by_job_keys(&mut **tx, aborted).await?.values() {
        rows.delta(job.job_key).stays_open = true;
        graphs.push(core.graphs.of(&mut **tx, job.root_id).await?);
    }
    if !fed_items.fed.is_empty() || !graphs.is_empty() {
        fed_items.place(core, tx, rows, &graphs).await?;
    }
    let deltas: Vec<(i64, Delta)> = std::mem::take(&mut rows.deltas).into_iter().collect();
    if deltas.is_empty() {
        return Ok(CommitEffects::default());
    }
    let after = job_states::apply(tx, &deltas).await?;
    if after.len() != deltas.len() {
        let applied: Vec<i64> = after.iter().map(|a| a.job_key).collect();
        let refused = deltas.iter().map(|d| d.0).filter(|job_key| !applied.contains(job_key)).collect();
        return Err(Error::JobsCancelled(refused));
    }
    core.announce_complete_of(tx, &deltas).await?;
    let mut to_complete: Vec<(i64, Uuid)> =
        after.iter().filter(|a| a.needs_completion_check).map(|a| (a.job_key, a.root_id)).collect();
    for graph in &graphs {
        let cancellation = cancel::cancel_subtree(tx, graph, 0, Some("A worker gave the tree up.")).await?;
        core.announce_complete(tx, &cancellation.job_keys).await?;
        to_complete.extend(cancellation.to_complete);
    }
    to_complete.sort_unstable();
    to_complete.dedup();
    if !to_complete.is_empty() {
        job_states::request_completion_checks(tx, &to_complete.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    }
    let mut dead = std::mem::take(&mut rows.dead);
    dead.extend(fed_items.intake.dead());
    error_groups::count(core, tx, &dead).await?;
    rows.dead = dead;
    let mut roots: Vec<Uuid> = after.into_iter().map(|a| a.root_id).collect();
    roots.sort_unstable();
    roots.dedup();
    let finished =
        deltas.iter().filter(|(_, delta)| delta.counts.finished() > 0).map(|(id, d)| (*id, d.counts)).collect();
    Ok(CommitEffects {
        roots,
        to_complete,
        fed: fed_items.intake.ready(),
        added_counts: fed_items.intake.added_counts(),
        finished,
    })
}

impl CommitEffects {
    pub(super) async fn after_commit(&self, core: &Core, rows: &EndingRows) {
        for &(type_id, mark) in &rows.ready {
            core.low_water_marks.added(type_id, mark);
            core.hub.work_added(type_id);
            core.waiters.wake(type_id, 1);
        }
        core.announce(&self.fed);
        for (type_name, added_counts) in &self.added_counts {
            core.activity_counters.with(type_name, |activity| activity.added += added_counts.added);
        }
        self.count(core, rows).await;
        tree_completion::complete_jobs(core, &self.to_complete).await;
        core.hub.touch(&self.roots);
    }
}

impl CommitEffects {
    /// Adds final items to the statistics, and alerts people to refused results of canceled jobs.
    async fn count(&self, core: &Core, rows: &EndingRows) {
        if self.finished.is_empty() && rows.late_results.is_empty() && rows.runs.is_empty() {
            return;
        }
        let job_keys = self.finished.iter().map(|f| f.0).chain(rows.late_results.iter().copied());
        let job_keys = job_keys.chain(rows.runs.iter().map(|run| run.job_key));
        let Ok(jobs) = core.jobs.by_job_keys(&core.pools.read, job_keys).await else { return };
        for (job_key, counts) in &self.finished {
            if let Some(job) = jobs.get(job_key) {
                core.activity_counters.ended(&job.type_name, counts);
            }
        }
        for run in &rows.runs {
            let Some(job) = jobs.get(&run.job_key) else { continue };
            core.activity_counters.with(&job.type_name, |activity| {
                activity.failed += i64::from(run.failed);
                activity.run.record(run.seconds);
            });
        }
        for job in rows.late_results.iter().filter_map(|job_key| jobs.get(job_key)) {
            alerts::ending_refused(core, job).await;
        }
    }
}

impl Engine {
    /// Ends one assignment (`fencing`, `retry-budget`).
    pub async fn end(&self, caller: &Caller, id: impl Into<AssignmentId>, kind: EndingKind) -> Result<Ended> {
        caller.require(Scope::Work)?;
        let kind = self.check_ending(kind, "")?;
        let AssignmentId { id: assignment_id, capability } = id.into();
        let command = EndCommand { assignment_id, capability, holder: Holder::of(caller), kind };
        let mut done = self.0.work.run(WorkCommand { endings: vec![command], claim: None }).await?;
        match done.endings.pop() {
            Some(ended) => Ok(ended?),
            None => Err(Error::Broken("an ending without an answer".to_owned())),
        }
    }

    /// Ends many assignments and claims the next ones. One invalid ending does not affect the others.
    pub async fn finish(&self, caller: &Caller, body: FinishBody) -> Result<Finished> {
        caller.require(Scope::Work)?;
        if body.endings.len() > limits::MOST_ENDINGS {
            return Err(Problem::invalid_body([("/endings".to_owned(), "expected at most 1000".to_owned())]).into());
        }
        if body.claim.as_ref().is_some_and(|claim| claim.wait_seconds.is_some()) {
            let fault = ("/claim/wait_seconds".to_owned(), "expected no wait here".to_owned());
            return Err(Problem::invalid_body([fault]).into());
        }
        let claim = match body.claim {
            Some(claim) => Some(self.check_claim(caller, claim).await?),
            None => None,
        };
        let holder = Holder::of(caller);
        let mut answers: Vec<Option<EndingAnswer>> = Vec::with_capacity(body.endings.len());
        let mut endings = Vec::with_capacity(body.endings.len());
        let mut ids = Vec::with_capacity(body.endings.len());
        for ending in body.endings {
            let id = ending.assignment_id;
            match self.check_ending(ending_validation::kind_of(ending), "") {
                Ok(kind) => {
                    let AssignmentId { id: assignment_id, capability } = id;
                    endings.push(EndCommand { assignment_id, capability, holder: holder.clone(), kind });
                    ids.push(id);
                    answers.push(None);
                }
                Err(problem) => answers.push(Some(answer(id, Err(&problem)))),
            }
        }
        let done = self.0.work.run(WorkCommand { endings, claim }).await?;
        let mut ended = ids.iter().zip(&done.endings).map(|(&id, r)| answer(id, r.as_ref().map(|_| ())));
        let endings = answers.into_iter().filter_map(|slot| slot.or_else(|| ended.next())).collect();
        Ok(Finished { endings, assignments: done.claimed.assignments })
    }
}

fn answer(assignment_id: AssignmentId, result: Result<(), &Problem>) -> EndingAnswer {
    match result {
        Ok(()) => EndingAnswer { assignment_id, status: 200, code: None },
        Err(problem) => EndingAnswer { assignment_id, status: problem.status, code: Some(problem.code) },
    }
}
