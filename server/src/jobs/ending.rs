//! Ending half of a work batch: results, failures, releases, lost leases.
//!
//! This is the only path out of `running`. Results take one statement. All other endings first remove the lease, then
//! apply `retry-budget` to the item. Assignments that were no longer open are looked up, so that a repeated ending gets
//! the same answer as the first time (`fencing`).

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::{
    Code, Document, ItemState, Problem, Time,
    api::{Ended, FailureBody, ReleaseBody},
    assignment::Capability,
    item::EndedAs,
    job_type::Delivery,
};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        Tx,
        endings::{self, AttemptRow, FinalRow},
        gates::Delta,
        items::{self, DeferredRow, ReadyRow},
        leases::{self, Mark, TakenRow},
    },
};

use super::{
    Core,
    fate::{Fate, How, Then, decide},
    figures::Run,
    marks,
    own::Holder,
    past,
};

/// Kinds of endings that a worker can send.
#[derive(Clone, Debug)]
pub enum EndingKind {
    Result(Document),
    Failure(FailureBody),
    Release(ReleaseBody),
}

/// One requested ending.
#[derive(Clone, Debug)]
pub(super) struct EndCommand {
    pub(super) fence: Uuid,
    /// Capability that the caller presented, for a pushed assignment.
    pub(super) capability: Option<Capability>,
    pub(super) holder: Holder,
    pub(super) kind: EndingKind,
}

/// Changes made by the ending half of a batch.
#[derive(Default)]
pub(super) struct EndingRows {
    pub(super) deltas: BTreeMap<i64, Delta>,
    pub(super) dead: Vec<FinalRow>,
    /// Items that are claimable again at once: type and position.
    pub(super) ready: Vec<(i32, Mark)>,
    /// Jobs known to be canceled (job state row ids, ascending): their running items can only end as canceled.
    pub(super) cancelled: Vec<i64>,
    /// Items in a serialize queue that became final: queue id and item id.
    pub(super) freed: Vec<(i64, Uuid)>,
    /// Succeeded items, which may be fed to other jobs.
    pub(super) succeeded: Vec<Success>,
    /// Jobs that received a result after they were canceled (job state row ids).
    pub(super) late: Vec<i64>,
    /// Jobs whose worker asked to cancel the tree (job state row ids).
    pub(super) aborted: Vec<i64>,
    /// Attempts that ended with a result or failed, for the statistics.
    pub(super) runs: Vec<Run>,
}

/// Item that succeeded in this batch: its job and the index of its command.
#[derive(Clone, Copy, Debug)]
pub(super) struct Success {
    pub(super) item_id: Uuid,
    pub(super) gate_id: i64,
    pub(super) command: usize,
}

impl EndingRows {
    /// Empty rows of a batch in which these jobs are known to be canceled.
    pub(super) fn knowing(cancelled: &[i64]) -> Self {
        Self { cancelled: cancelled.to_vec(), ..Self::default() }
    }

    pub(super) fn is_cancelled(&self, gate_id: i64) -> bool {
        self.cancelled.binary_search(&gate_id).is_ok()
    }

    pub(super) fn delta(&mut self, gate_id: i64) -> &mut Delta {
        self.deltas.entry(gate_id).or_default()
    }
}

/// Ends assignments; the answers are in the order of the commands.
pub(super) async fn end_all(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    rows: &mut EndingRows,
) -> Result<Vec<Result<Ended, Problem>>> {
    #[cfg(feature = "failpoints")]
    let unfenced = super::unfenced::unfenced(tx, commands).await?;
    #[cfg(feature = "failpoints")]
    let commands: &[&EndCommand] = &unfenced.iter().collect::<Vec<_>>();
    let mut answers: Vec<Option<Result<Ended, Problem>>> = vec![None; commands.len()];
    // A token's first command for an assignment counts; a second one in the same batch is looked up below. Different
    // tokens that name one assignment get separate rounds: a stranger's command must not displace the holder's.
    let mut tried: HashSet<(Uuid, Uuid)> = HashSet::with_capacity(commands.len());
    loop {
        let mut first: BTreeMap<Uuid, usize> = BTreeMap::new();
        for (at, command) in commands.iter().enumerate() {
            let is_next = answers[at].is_none() && !first.contains_key(&command.fence);
            if is_next && tried.insert((command.fence, command.holder.credential_id)) {
                first.insert(command.fence, at);
            }
        }
        if first.is_empty() {
            break;
        }
        end_held(core, tx, commands, &first, &mut answers, rows).await?;
    }
    let lent = core.lent_endings(&mut **tx, commands, &answers).await?;
    if !lent.is_empty() {
        // A pushed item is held by Treeline itself; a caller with the right to end it does so on its behalf.
        let ours = |command: &&EndCommand| EndCommand { holder: command.holder.of_posted(), ..(*command).clone() };
        let ours: Vec<EndCommand> = commands.iter().map(ours).collect();
        end_held(core, tx, &ours.iter().collect::<Vec<_>>(), &lent, &mut answers, rows).await?;
    }
    past::answer(core, tx, commands, &mut answers).await?;
    let missing = || Err(Problem::not_found("assignment"));
    Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
}

/// Ends the assignments that the holders of these commands actually hold.
async fn end_held(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    first: &BTreeMap<Uuid, usize>,
    answers: &mut [Option<Result<Ended, Problem>>],
    rows: &mut EndingRows,
) -> Result<()> {
    refuse_started_releases(core, tx, commands, first, answers, rows).await?;
    succeed(tx, commands, first, answers, rows).await?;
    take_back(core, tx, commands, first, answers, rows).await
}

/// Refuses releases of started work that may be handed out only once (`retry-budget`).
async fn refuse_started_releases(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    first: &BTreeMap<Uuid, usize>,
    answers: &mut [Option<Result<Ended, Problem>>],
    rows: &EndingRows,
) -> Result<()> {
    let fences: Vec<Uuid> = first
        .iter()
        .filter(|&(_, &at)| matches!(commands[at].kind, EndingKind::Release(_)))
        .map(|(&fence, _)| fence)
        .collect();
    if fences.is_empty() {
        return Ok(());
    }
    let touched = leases::touched(tx, &fences).await?;
    let jobs = core.jobs.by_gates(&mut **tx, touched.iter().map(|t| t.1)).await?;
    for (fence, gate_id) in touched {
        let once = jobs.get(&gate_id).is_some_and(|job| job.delivery == Delivery::AtMostOnce);
        if once && !rows.is_cancelled(gate_id) {
            answers[first[&fence]] = Some(Err(Problem::new(
                Code::AlreadyStarted,
                "The work has reported a step or progress and is handed out at most once: end it with a result or a failure.",
            )));
        }
    }
    Ok(())
}

async fn succeed(
    tx: &mut Tx,
    commands: &[&EndCommand],
    first: &BTreeMap<Uuid, usize>,
    answers: &mut [Option<Result<Ended, Problem>>],
    rows: &mut EndingRows,
) -> Result<()> {
    let mut fences = Vec::new();
    let mut credentials = Vec::new();
    let mut results = Vec::new();
    for (&fence, &at) in first {
        if let EndingKind::Result(document) = &commands[at].kind {
            fences.push(fence);
            credentials.push(commands[at].holder.credential_id);
            results.push(document.text());
        }
    }
    if fences.is_empty() {
        return Ok(());
    }
    for done in endings::succeed(tx, &fences, &credentials, &results, &rows.cancelled).await? {
        let (item_id, gate_id, command) = (done.item_id, done.gate_id, first[&done.fence]);
        let counts = &mut rows.delta(gate_id).counts;
        counts.running -= 1;
        counts.succeeded += 1;
        rows.freed.extend(done.lane_id.map(|lane| (lane, item_id)));
        rows.succeeded.push(Success { item_id, gate_id, command });
        rows.runs.push(Run { gate_id, seconds: done.seconds, failed: false });
        answers[command] =
            Some(Ok(Ended { item_id, item_state: ItemState::Succeeded, ended_as: EndedAs::Succeeded, retry_at: None }));
    }
    Ok(())
}

/// Handles failures, releases, and results of items canceled in the meantime (`cancellation`).
async fn take_back(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    first: &BTreeMap<Uuid, usize>,
    answers: &mut [Option<Result<Ended, Problem>>],
    rows: &mut EndingRows,
) -> Result<()> {
    let wanted: Vec<(Uuid, usize)> =
        first.iter().map(|(&fence, &at)| (fence, at)).filter(|&(_, at)| answers[at].is_none()).collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let fences: Vec<Uuid> = wanted.iter().map(|w| w.0).collect();
    let credentials: Vec<Uuid> = wanted.iter().map(|w| commands[w.1].holder.credential_id).collect();
    let taken = leases::take(tx, &fences, &credentials).await?;
    let gates: HashMap<Uuid, i64> = taken.iter().map(|row| (row.id, row.gate_id)).collect();
    let ends: Vec<(TakenRow, How<'_>)> = taken
        .into_iter()
        .map(|row| {
            let how = match &commands[first[&row.id]].kind {
                EndingKind::Failure(body) => How::Failed(body),
                EndingKind::Release(body) => How::Released(body),
                EndingKind::Result(document) => How::TooLate(document),
            };
            (row, how)
        })
        .collect();
    for (fence, ended) in put_aside(core, tx, ends, rows).await? {
        let at = first[&fence];
        let refused = matches!(commands[at].kind, EndingKind::Result(_));
        if refused {
            rows.late.extend(gates.get(&fence));
        }
        answers[at] = Some(if refused { Err(past::too_late()) } else { Ok(ended) });
    }
    Ok(())
}

/// Moves items whose assignment was removed to their next place: the queue, the deferred rows until their backoff ends,
/// or a final state.
pub(super) async fn put_aside(
    core: &Core,
    tx: &mut Tx,
    ends: Vec<(TakenRow, How<'_>)>,
    rows: &mut EndingRows,
) -> Result<Vec<(Uuid, Ended)>> {
    let jobs = core.jobs.by_gates(&mut **tx, ends.iter().map(|(row, _)| row.gate_id)).await?;
    let now = items::now(tx).await?;
    let mut attempts = Vec::new();
    let mut finals = Vec::new();
    let mut ready = Vec::new();
    let mut deferred = Vec::new();
    let mut answers = Vec::with_capacity(ends.len());
    for (row, how) in ends {
        let Some(job) = jobs.get(&row.gate_id) else { continue };
        let backoff = core.types.by_id(row.type_id).map(|t| t.backoff).unwrap_or_default();
        let known = rows.is_cancelled(row.gate_id);
        let fate = if known || row.cancel_requested {
            Fate::cancelled(&row, &how)
        } else {
            decide(&row, &how, job.delivery, job.max_failures, &backoff, now)
        };
        let ended_as = fate.ended_as;
        if matches!(ended_as, EndedAs::Failed | EndedAs::TimedOut | EndedAs::LeaseLost) {
            rows.runs.push(Run::failed(&row, now));
        }
        let delta = rows.delta(row.gate_id);
        delta.counts.running -= 1;
        delta.knows_cancelled |= known;
        let mut answer = Ended { item_id: row.item_id, item_state: ItemState::Available, ended_as, retry_at: None };
        match fate.then {
            Then::Cancelled(result) => {
                rows.delta(row.gate_id).counts.cancelled += 1;
                rows.freed.extend(row.lane_id.map(|lane| (lane, row.item_id)));
                answer.item_state = ItemState::Cancelled;
                attempts.push(AttemptRow {
                    item_id: row.item_id,
                    gate_id: row.gate_id,
                    attempt: row.attempt,
                    lease_id: row.id,
                    started_at: row.started_at,
                    ended_as: ended_as.code(),
                    worker_id: row.worker_id.clone(),
                    retry_at: None,
                    error: fate.error,
                    result,
                    final_state: Some(ItemState::Cancelled.code()),
                });
                finals.push(FinalRow {
                    item_id: row.item_id,
                    gate_id: row.gate_id,
                    lease: None,
                    attempt: row.attempt,
                    failures: row.failures,
                    state: ItemState::Cancelled.code(),
                    ended_as: None,
                    worker_id: None,
                    error: None,
                });
            }
            Then::Final(state) => {
                let counts = &mut rows.delta(row.gate_id).counts;
                if state == ItemState::Dead {
                    counts.dead += 1;
                } else {
                    counts.expired += 1;
                }
                answer.item_state = state;
                rows.freed.extend(row.lane_id.map(|lane| (lane, row.item_id)));
                if fate.aborts {
                    rows.aborted.push(row.gate_id);
                }
                finals.push(FinalRow {
                    item_id: row.item_id,
                    gate_id: row.gate_id,
                    lease: Some((row.id, row.started_at)),
                    attempt: row.attempt,
                    failures: fate.failures,
                    state: state.code(),
                    ended_as: Some(ended_as.code()),
                    worker_id: Some(row.worker_id.clone()),
                    error: fate.error,
                });
            }
            Then::Again(due_at) => {
                attempts.push(AttemptRow {
                    item_id: row.item_id,
                    gate_id: row.gate_id,
                    attempt: row.attempt,
                    lease_id: row.id,
                    started_at: row.started_at,
                    ended_as: ended_as.code(),
                    worker_id: row.worker_id.clone(),
                    retry_at: due_at,
                    error: fate.error,
                    result: None,
                    final_state: None,
                });
                if let Some(due_at) = due_at {
                    let counts = &mut rows.delta(row.gate_id).counts;
                    counts.retryable += 1;
                    answer.item_state = ItemState::Retryable;
                    answer.retry_at = Some(Time(due_at));
                    deferred.push(DeferredRow {
                        item_id: row.item_id,
                        gate_id: row.gate_id,
                        type_id: row.type_id,
                        rank: row.rank,
                        due_at,
                        expires_at: row.expires_at,
                        attempts: row.attempt,
                        failures: fate.failures,
                        retryable: true,
                        lane_id: row.lane_id,
                    });
                } else {
                    rows.delta(row.gate_id).counts.available += 1;
                    ready.push(ReadyRow {
                        item_id: row.item_id,
                        gate_id: row.gate_id,
                        type_id: row.type_id,
                        rank: row.rank,
                        turn: 0,
                        expires_at: row.expires_at,
                        attempts: row.attempt,
                        failures: fate.failures,
                        lane_id: row.lane_id,
                    });
                }
            }
        }
        answers.push((row.id, answer));
    }
    endings::record_attempts(tx, &attempts).await?;
    endings::finish(tx, &finals).await?;
    items::defer(tx, &deferred).await?;
    rows.ready.extend(marks::make_ready_now(core, tx, ready).await?);
    rows.dead.extend(finals.into_iter().filter(|row| row.state == ItemState::Dead.code()));
    Ok(answers)
}
