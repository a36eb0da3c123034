//! Endings and claims in one transaction: one commit serves the typical requests of many busy workers.

use std::sync::Arc;

use domain::{
    Code, Problem,
    api::{Claimed, Ended, EndingAnswer, FinishBody, Finished},
    dispatch::assignment::AssignmentId,
    limits,
};
use tokio::time::timeout;

use crate::{
    Core, Engine,
    access::{
        assignment_holder::Holder,
        caller::{Caller, Scope},
    },
    ending_batch::{EndCommand, EndingKind, EndingRows},
    error::{Error, Result},
    flush::Batch,
    store::{Tx, WAIT, enqueue::idempotency::KeyName},
    tree::{
        cancel, feed,
        finish_batch::{self, CommitEffects, FedItems},
    },
};

use super::{
    assignment_endings,
    claim::{self, ClaimCommand, ClaimContext, ClaimRows},
    ending_validation,
};

/// Endings of one request, and optionally a claim.
#[derive(Clone, Debug)]
pub(crate) struct WorkCommand {
    pub(crate) endings: Vec<EndCommand>,
    pub(crate) claim: Option<ClaimCommand>,
}

/// Answers to the endings and the claim.
#[derive(Debug)]
pub(crate) struct WorkAnswer {
    pub(crate) endings: Vec<Result<Ended, Problem>>,
    pub(crate) claimed: Claimed,
}

pub(crate) struct WorkBatch(pub(crate) Arc<Core>);

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
        core.wake_later(&done.claimed.wake_after);
        let ended = done.ended.len();
        if ended > 0 {
            wake_limited(core, ended);
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
pub(crate) struct Done {
    ended: Vec<Result<Ended, Problem>>,
    claimed: ClaimRows,
    context: ClaimContext,
    rows: EndingRows,
    effects: CommitEffects,
}

/// Runs endings and claims in one transaction, given the known canceled jobs. The order is the lock order: types, file
/// cursors, leases, dedupe keys, serialize queues, waiting rows, job state rows.
async fn attempt(core: &Arc<Core>, works: &[&WorkCommand], cancelled: &[i64]) -> Result<Done> {
    let endings: Vec<&EndCommand> = works.iter().flat_map(|work| &work.endings).collect();
    let claims: Vec<&ClaimCommand> = works.iter().filter_map(|work| work.claim.as_ref()).collect();

    let mut tx = crate::store::begin(&core.pools.hot).await?;
    match end_and_claim(core, &mut tx, &endings, &claims, EndingRows::with_cancelled(cancelled)).await {
        Ok(done) => {
            crate::store::commit(tx).await?;
            Ok(done)
        }
        Err(error) => Err(crate::store::roll_back(tx, error).await),
    }
}

async fn end_and_claim(
    core: &Arc<Core>,
    tx: &mut Tx,
    endings: &[&EndCommand],
    claims: &[&ClaimCommand],
    mut rows: EndingRows,
) -> Result<Done> {
    let locked_types = claim::lock_limited(core, tx, claims).await?;
    cancel::lock_trees_first(core, tx, endings).await?;
    let ended = assignment_endings::end_all(core, tx, endings, &mut rows).await?;
    let mut fed_items = FedItems::of(feed::fed_by(core, tx, &rows.succeeded, endings).await?);
    fed_items.lock(core, tx, &mut rows).await?;
    let claimed = claim::claim_all(core, tx, claims, &locked_types, &mut rows.deltas).await?;
    let context = claim::context(core, tx, &claimed.rows).await?;
    let effects = finish_batch::finish_batch_with(core, tx, &mut rows, fed_items).await?;
    Ok(Done { ended, claimed, context, rows, effects })
}

/// Wakes claims on limited types: ended items may have made room under the limit.
fn wake_limited(core: &Core, n: usize) {
    for type_id in core.waiters.types() {
        if core.types.by_id(type_id).is_some_and(|info| info.concurrency.is_some() || info.limits.is_keyed()) {
            core.waiters.wake(type_id, n);
        }
    }
}

impl Engine {
    /// Runs endings and a claim. Claims with the same `claim_id` run one after the other, so that the second returns what the
    /// first has taken, even if the first request was given up meanwhile. The wait is as long as that for a connection.
    pub(crate) async fn work(&self, mut command: WorkCommand) -> Result<WorkAnswer> {
        if let Some(claim) = &mut command.claim
            && let Some(claim_id) = claim.claim_id
        {
            let scope = "claim".to_owned();
            let name = KeyName { owner_id: claim.credential_id, scope, key: claim_id.to_string() };
            let guard = timeout(WAIT, self.0.core.key_locks.take(&name)).await;
            claim.claim_id_guard = Some(Arc::new(guard.map_err(|_| Error::Database(sqlx::Error::PoolTimedOut))?));
        }
        self.0.work.run(command).await
    }

    /// Ends one assignment (`fencing`, `retry-budget`).
    pub async fn end(&self, caller: &Caller, id: impl Into<AssignmentId>, kind: EndingKind) -> Result<Ended> {
        caller.require(Scope::Work)?;
        let kind = self.check_ending(kind, "")?;
        let id: AssignmentId = id.into();
        let AssignmentId { id: assignment_id, capability } = id;
        let command = EndCommand { assignment_id, capability, holder: Holder::of(caller), kind };
        let mut done = self.0.work.run(WorkCommand { endings: vec![command], claim: None }).await?;
        match done.endings.pop() {
            Some(Err(problem)) if problem.code == Code::AssignmentClosed => {
                Err(self.why_closed(caller, id).await?.into())
            }
            Some(ended) => Ok(ended?),
            None => Err(Error::Broken("an ending without an answer".to_owned())),
        }
    }

    /// Ends many assignments and claims the next ones. One invalid ending does not affect the others; the pointers of its
    /// errors begin at the ending.
    pub async fn finish(&self, caller: &Caller, body: FinishBody) -> Result<Finished> {
        caller.require(Scope::Work)?;
        if body.endings.len() > limits::MOST_ENDINGS {
            return Err(Problem::at(Code::TooLarge, "/endings".to_owned(), "expected at most 1000".to_owned()).into());
        }
        if body.claim.as_ref().is_some_and(|claim| claim.wait_seconds.is_some()) {
            let fault = ("/claim/wait_seconds".to_owned(), "expected no wait here".to_owned());
            return Err(Problem::invalid_body([fault]).into());
        }
        let claim = match body.claim {
            Some(claim) => Some(self.check_claim(caller, claim).await.map_err(of_claim)?),
            None => None,
        };
        let holder = Holder::of(caller);
        let mut answers: Vec<Option<EndingAnswer>> = Vec::with_capacity(body.endings.len());
        let mut endings = Vec::with_capacity(body.endings.len());
        let mut ids = Vec::with_capacity(body.endings.len());
        for ending in body.endings {
            let id = ending.assignment_id;
            match ending_validation::kind_of(ending).and_then(|kind| self.check_ending(kind, "")) {
                Ok(kind) => {
                    let AssignmentId { id: assignment_id, capability } = id;
                    endings.push(EndCommand { assignment_id, capability, holder: holder.clone(), kind });
                    ids.push(id);
                    answers.push(None);
                }
                Err(problem) => answers.push(Some(EndingAnswer::refused(id.into(), problem))),
            }
        }
        let done = self.work(WorkCommand { endings, claim }).await?;
        let mut ended = ids.into_iter().zip(done.endings).map(|(id, ended)| match ended {
            Ok(_) => EndingAnswer::accepted(id),
            Err(problem) => EndingAnswer::refused(id.into(), problem),
        });
        let endings = answers.into_iter().filter_map(|slot| slot.or_else(|| ended.next())).collect();
        Ok(Finished { endings, assignments: done.claimed.assignments })
    }
}

/// Refusal of the claim of a `finish`, with pointers that begin at its body.
fn of_claim(error: Error) -> Error {
    match error {
        Error::Problem(problem) => problem.moved(|pointer| Some(format!("/claim{pointer}"))).into(),
        other => other,
    }
}
