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
        feeds::{self, Rest},
        gates::{self, Delta},
        leases::Mark,
    },
};

use super::{
    Core, Engine, alerts, cancel,
    claim::{self, Around, ClaimCommand, ClaimRows},
    ending::{self, EndCommand, EndingKind, EndingRows},
    feed::{self, Fed},
    form, groups,
    intake::{Arrivals, Arrived, Intake},
    lanes,
    own::Holder,
    plan::Plan,
    settle,
};

/// Endings of one request, and optionally a claim.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) endings: Vec<EndCommand>,
    pub(super) claim: Option<ClaimCommand>,
}

/// Answers to the endings and the claim.
#[derive(Debug)]
pub(super) struct Worked {
    pub(super) endings: Vec<Result<Ended, Problem>>,
    pub(super) claimed: Claimed,
}

pub(super) struct WorkBatch(pub(super) Arc<Core>);

impl Batch for WorkBatch {
    type Command = Work;
    type Answer = Worked;
    type Done = Done;

    fn weight(work: &Work) -> usize {
        (work.endings.len() + work.claim.as_ref().map_or(0, |claim| claim.max)).max(1)
    }

    async fn run(&self, works: &[&Work]) -> Result<Done> {
        let core = &self.0;
        let mut cancelled: Vec<i64> = Vec::new();
        loop {
            match attempt(core, works, &cancelled).await {
                // The batch was rolled back. Run it again; running items of these jobs can then only end as canceled.
                Err(Error::JobsCancelled(gates)) if gates.iter().any(|gate| !cancelled.contains(gate)) => {
                    core.ghosts.met(&gates);
                    cancelled.extend(gates);
                    cancelled.sort_unstable();
                    cancelled.dedup();
                }
                other => return other,
            }
        }
    }

    async fn answer(&self, works: &[Work], done: Done) -> Vec<Result<Worked>> {
        let core = &self.0;
        done.closed.after_commit(core, &done.rows).await;
        done.around.count_waits(core, &done.claimed.waits);
        let ended = done.ended.len();
        if ended > 0 {
            wake_capped(core, ended);
        }
        let mut ended = done.ended.into_iter();
        let assignments = claim::assignments(core, done.around, done.claimed.rows);
        let mut handed = assignments.into_iter().zip(done.claimed.refused);
        works
            .iter()
            .map(|work| {
                let endings = ended.by_ref().take(work.endings.len()).collect();
                let claimed = work
                    .claim
                    .as_ref()
                    .and_then(|_| handed.next())
                    .map_or_else(Claimed::default, |(a, r)| Claimed { assignments: a, refused: r });
                Ok(Worked { endings, claimed })
            })
            .collect()
    }
}

/// Result of a committed batch.
pub(super) struct Done {
    ended: Vec<Result<Ended, Problem>>,
    claimed: ClaimRows,
    around: Around,
    rows: EndingRows,
    closed: Closed,
}

/// Runs endings and claims in one transaction, given the known canceled jobs. The order is the lock order: types,
/// leases, dedupe keys, serialize queues, waiting rows, job state rows.
async fn attempt(core: &Arc<Core>, works: &[&Work], cancelled: &[i64]) -> Result<Done> {
    let endings: Vec<&EndCommand> = works.iter().flat_map(|work| &work.endings).collect();
    let claims: Vec<&ClaimCommand> = works.iter().filter_map(|work| work.claim.as_ref()).collect();

    let mut tx = core.pools.hot.begin().await?;
    let caps = claim::lock_capped(core, &mut tx, &claims).await?;
    let mut rows = EndingRows::knowing(cancelled);
    let ended = ending::end_all(core, &mut tx, &endings, &mut rows).await?;
    let mut arriving = Arriving::of(feed::fed_by(core, &mut tx, &rows.succeeded, &endings).await?);
    arriving.lock(core, &mut tx, &mut rows).await?;
    let claimed = claim::claim_all(core, &mut tx, &claims, &caps, &mut rows.deltas).await?;
    let around = claim::around(core, &mut tx, &claimed.rows).await?;
    let closed = close_with(core, &mut tx, &mut rows, arriving).await?;
    crate::store::commit(tx).await?;
    Ok(Done { ended, claimed, around, rows, closed })
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
pub(super) struct Closed {
    roots: Vec<Uuid>,
    settle: Vec<(i64, Uuid)>,
    fed: BTreeMap<i32, (usize, Mark)>,
    /// Numbers of fed items for the statistics, by type; those that were final at once are in `finished`.
    arrived: BTreeMap<String, Arrived>,
    /// Number of items that each job gained in each final state.
    finished: Vec<(i64, Counts)>,
}

/// Items that feeds add in the same batch that ended their sources.
#[derive(Default)]
pub(super) struct Arriving {
    fed: Vec<Fed>,
    intake: Intake,
}

impl Arriving {
    fn of(fed: Vec<Fed>) -> Self {
        Self { fed, ..Self::default() }
    }

    fn arrivals(&self) -> Vec<Arrivals<'_>> {
        self.fed.iter().map(|fed| Arrivals { job: &fed.job, items: &fed.items }).collect()
    }

    /// Locks the dedupe keys and the serialize queues, including the queues of items that became final in this batch,
    /// and releases the next item of those queues.
    pub(super) async fn lock(&mut self, core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<()> {
        if self.fed.is_empty() && rows.freed.is_empty() {
            return Ok(());
        }
        let mut intake = Intake::begin(core, &self.arrivals()).await?;
        intake.take_keys(tx, &self.arrivals()).await?;
        intake.lock_lanes(tx, rows.freed.iter().map(|freed| freed.0)).await?;
        lanes::pass_on(core, tx, rows).await?;
        intake.look(tx).await?;
        self.intake = intake;
        Ok(())
    }

    /// Inserts the fed items into their jobs and locks the job state rows. Canceled children are not fed.
    async fn place(&mut self, core: &Core, tx: &mut Tx, rows: &mut EndingRows, plans: &[Arc<Plan>]) -> Result<()> {
        let mut ids: Vec<i64> = rows.deltas.keys().copied().collect();
        ids.extend(self.fed.iter().flat_map(|fed| [fed.job.gate_id, fed.job.turn_gate_id]));
        ids.extend(plans.iter().flat_map(|plan| plan.gates()));
        ids.sort_unstable();
        ids.dedup();
        let locked: HashMap<i64, gates::Locked> =
            gates::lock(tx, &ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
        self.intake.open(tx, &locked).await?;
        let mut owed = Vec::new();
        for fed in &self.fed {
            let gate_id = fed.job.gate_id;
            let Some(gate) = locked.get(&gate_id).filter(|gate| !gate.cancelled && !gate.removed) else { continue };
            let arrivals = Arrivals { job: &fed.job, items: &fed.items };
            self.intake.place(core, tx, &arrivals, gate, &mut rows.deltas).await?;
            rows.delta(gate_id).feeds += fed.rest.len() as i64;
            owed.extend(fed.rest.iter().map(|&(item_id, next)| Rest { item_id, gate_id, next }));
        }
        feeds::owe(tx, &owed).await?;
        self.intake.write(core, tx, &mut rows.deltas).await
    }
}

/// Releases the items that waited in serialize queues behind final items, in a batch without feeds.
pub(super) async fn let_next_go(core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<()> {
    Arriving::default().lock(core, tx, rows).await
}

/// Last statements of a batch that moves items and feeds none.
pub(super) async fn close(core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<Closed> {
    close_with(core, tx, rows, Arriving::default()).await
}

/// Last statements of every batch that moves items: job state rows and dependent updates. A job state row that refuses
/// its delta belongs to a job that was canceled in the meantime: the batch must be rolled back.
async fn close_with(core: &Core, tx: &mut Tx, rows: &mut EndingRows, mut arriving: Arriving) -> Result<Closed> {
    let mut plans: Vec<Arc<Plan>> = Vec::new();
    let mut aborted: Vec<i64> = std::mem::take(&mut rows.aborted);
    aborted.sort_unstable();
    aborted.dedup();
    for job in core.jobs.by_gates(&mut **tx, aborted).await?.values() {
        rows.delta(job.gate_id).stays_open = true;
        plans.push(core.plans.of(&mut **tx, job.root_id).await?);
    }
    if !arriving.fed.is_empty() || !plans.is_empty() {
        arriving.place(core, tx, rows, &plans).await?;
    }
    let deltas: Vec<(i64, Delta)> = std::mem::take(&mut rows.deltas).into_iter().collect();
    if deltas.is_empty() {
        return Ok(Closed::default());
    }
    let after = gates::apply(tx, &deltas).await?;
    if after.len() != deltas.len() {
        let came: Vec<i64> = after.iter().map(|a| a.gate_id).collect();
        let refused = deltas.iter().map(|d| d.0).filter(|gate| !came.contains(gate)).collect();
        return Err(Error::JobsCancelled(refused));
    }
    core.announce_complete_of(tx, &deltas).await?;
    let mut settle: Vec<(i64, Uuid)> =
        after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect();
    for plan in &plans {
        let decided = cancel::decide(tx, plan, 0, Some("A worker gave the tree up.")).await?;
        core.announce_complete(tx, &decided.gates).await?;
        settle.extend(decided.settle);
    }
    settle.sort_unstable();
    settle.dedup();
    if !settle.is_empty() {
        gates::ask_to_settle(tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    }
    let mut dead = std::mem::take(&mut rows.dead);
    dead.extend(arriving.intake.dead());
    groups::count(core, tx, &dead).await?;
    rows.dead = dead;
    let mut roots: Vec<Uuid> = after.into_iter().map(|a| a.root_id).collect();
    roots.sort_unstable();
    roots.dedup();
    let finished =
        deltas.iter().filter(|(_, delta)| delta.counts.finished() > 0).map(|(id, d)| (*id, d.counts)).collect();
    Ok(Closed { roots, settle, fed: arriving.intake.ready(), arrived: arriving.intake.arrived(), finished })
}

impl Closed {
    pub(super) async fn after_commit(&self, core: &Core, rows: &EndingRows) {
        for &(type_id, mark) in &rows.ready {
            core.marks.added(type_id, mark);
            core.hub.work_added(type_id);
            core.waiters.wake(type_id, 1);
        }
        core.announce(&self.fed);
        for (type_name, arrived) in &self.arrived {
            core.figures.with(type_name, |activity| activity.added += arrived.added);
        }
        self.count(core, rows).await;
        settle::settle_all(core, &self.settle).await;
        core.hub.touch(&self.roots);
    }
}

impl Closed {
    /// Adds final items to the statistics, and alerts people to refused results of canceled jobs.
    async fn count(&self, core: &Core, rows: &EndingRows) {
        if self.finished.is_empty() && rows.late.is_empty() && rows.runs.is_empty() {
            return;
        }
        let gates = self.finished.iter().map(|f| f.0).chain(rows.late.iter().copied());
        let gates = gates.chain(rows.runs.iter().map(|run| run.gate_id));
        let Ok(jobs) = core.jobs.by_gates(&core.pools.read, gates).await else { return };
        for (gate_id, counts) in &self.finished {
            if let Some(job) = jobs.get(gate_id) {
                core.figures.ended(&job.type_name, counts);
            }
        }
        for run in &rows.runs {
            let Some(job) = jobs.get(&run.gate_id) else { continue };
            core.figures.with(&job.type_name, |activity| {
                activity.failed += i64::from(run.failed);
                activity.run.record(run.seconds);
            });
        }
        for job in rows.late.iter().filter_map(|gate| jobs.get(gate)) {
            alerts::ending_refused(core, job).await;
        }
    }
}

impl Engine {
    /// Ends one assignment (`fencing`, `retry-budget`).
    pub async fn end(&self, caller: &Caller, id: impl Into<AssignmentId>, kind: EndingKind) -> Result<Ended> {
        caller.require(Scope::Work)?;
        let kind = self.check_ending(kind, "")?;
        let AssignmentId { id: fence, capability } = id.into();
        let command = EndCommand { fence, capability, holder: Holder::of(caller), kind };
        let mut done = self.0.work.run(Work { endings: vec![command], claim: None }).await?;
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
            match self.check_ending(form::kind_of(ending), "") {
                Ok(kind) => {
                    let AssignmentId { id: fence, capability } = id;
                    endings.push(EndCommand { fence, capability, holder: holder.clone(), kind });
                    ids.push(id);
                    answers.push(None);
                }
                Err(problem) => answers.push(Some(answer(id, Err(&problem)))),
            }
        }
        let done = self.0.work.run(Work { endings, claim }).await?;
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
