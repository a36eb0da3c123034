//! Ending half of a work batch: results, failures, releases, lost leases.
//!
//! This is the only path out of `running`. Results take one statement. All other endings first remove the lease, then
//! apply `retry-budget` to the item. Assignments that were no longer open are looked up, so that a repeated ending gets
//! the same answer as the first time (`fencing`).

use std::collections::{BTreeMap, HashMap, HashSet};

use domain::{Code, Document, ItemState, Problem, Time, api::Ended, item::EndedAs, job_type::Delivery};
use uuid::Uuid;

use crate::{
    Core,
    activity_counters::Run,
    ended_attempts::EndedAttempt,
    ending_batch::{EndCommand, EndingKind, EndingRows, Success},
    enqueue::low_water_marks,
    error::Result,
    store::{
        Tx,
        dispatch::{
            endings::{self, AttemptRow, FinalRow},
            event_waits::{self, NewWaitRow},
            leases::{self, TakenLease},
        },
        enqueue::{
            items::{self, DeferredRow, ReadyRow},
            parked_items,
        },
    },
};

use super::{
    already_closed,
    failure_outcome::{EndCause, FailureOutcome, NextState, decide_outcome},
};

/// Ends assignments; the answers are in the order of the commands.
pub(crate) async fn end_all(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    rows: &mut EndingRows,
) -> Result<Vec<Result<Ended, Problem>>> {
    #[cfg(feature = "failpoints")]
    let without_lease_check = super::without_lease_check::without_lease_check(tx, commands).await?;
    #[cfg(feature = "failpoints")]
    let commands: &[&EndCommand] = &without_lease_check.iter().collect::<Vec<_>>();
    let mut answers: Vec<Option<Result<Ended, Problem>>> = vec![None; commands.len()];
    // A token's first command for an assignment counts; a second one in the same batch is looked up below. Different
    // tokens that name one assignment get separate rounds: a stranger's command must not displace the holder's.
    let mut tried: HashSet<(Uuid, Uuid)> = HashSet::with_capacity(commands.len());
    loop {
        let mut first: BTreeMap<Uuid, usize> = BTreeMap::new();
        for (at, command) in commands.iter().enumerate() {
            let is_next = answers[at].is_none() && !first.contains_key(&command.assignment_id);
            if is_next && tried.insert((command.assignment_id, command.holder.credential_id)) {
                first.insert(command.assignment_id, at);
            }
        }
        if first.is_empty() {
            break;
        }
        end_open_assignments(core, tx, commands, &first, &mut answers, rows).await?;
    }
    let push_endings = core.open_push_endings(&mut **tx, commands, &answers).await?;
    if !push_endings.is_empty() {
        // A pushed item is held by Treeline itself; a caller with the right to end it does so on its behalf.
        let push_commands =
            |command: &&EndCommand| EndCommand { holder: command.holder.as_push_executor(), ..(*command).clone() };
        let push_commands: Vec<EndCommand> = commands.iter().map(push_commands).collect();
        end_open_assignments(core, tx, &push_commands.iter().collect::<Vec<_>>(), &push_endings, &mut answers, rows)
            .await?;
    }
    already_closed::answer(core, tx, commands, &mut answers).await?;
    let missing = || Err(Problem::not_found("assignment"));
    Ok(answers.into_iter().map(|answer| answer.unwrap_or_else(missing)).collect())
}

/// Ends the assignments that the holders of these commands actually hold.
async fn end_open_assignments(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    first: &BTreeMap<Uuid, usize>,
    answers: &mut [Option<Result<Ended, Problem>>],
    rows: &mut EndingRows,
) -> Result<()> {
    refuse_started_releases(core, tx, commands, first, answers, rows).await?;
    succeed(tx, commands, first, answers, rows).await?;
    end_without_result(core, tx, commands, first, answers, rows).await
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
    let (assignment_ids, credentials): (Vec<Uuid>, Vec<Uuid>) = first
        .iter()
        .filter(|&(_, &at)| matches!(commands[at].kind, EndingKind::Release(_)))
        .map(|(&assignment_id, &at)| (assignment_id, commands[at].holder.credential_id))
        .unzip();
    if assignment_ids.is_empty() {
        return Ok(());
    }
    let touched = leases::touched(tx, &assignment_ids, &credentials).await?;
    let jobs = core.jobs.by_job_keys(&mut **tx, touched.iter().map(|t| t.1)).await?;
    for (assignment_id, job_key) in touched {
        let once = jobs.get(&job_key).is_some_and(|job| job.delivery == Delivery::AtMostOnce);
        if once && !rows.is_cancelled(job_key) {
            answers[first[&assignment_id]] = Some(Err(Problem::new(
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
    let mut assignment_ids = Vec::new();
    let mut credentials = Vec::new();
    let mut results = Vec::new();
    for (&assignment_id, &at) in first {
        if let EndingKind::Result(document) = &commands[at].kind {
            assignment_ids.push(assignment_id);
            credentials.push(commands[at].holder.credential_id);
            results.push(document.text());
        }
    }
    if assignment_ids.is_empty() {
        return Ok(());
    }
    let mut limit_keys = Vec::new();
    for done in endings::succeed(tx, &assignment_ids, &credentials, &results, &rows.cancelled).await? {
        limit_keys.extend(done.limit_key.map(|key| (done.type_id, key)));
        let (item_id, job_key, command) = (done.item_id, done.job_key, first[&done.assignment_id]);
        let counts = &mut rows.delta(job_key).counts;
        counts.running -= 1;
        counts.succeeded += 1;
        rows.freed.extend(done.serialize_queue_id.map(|queue_id| (queue_id, item_id)));
        rows.succeeded.push(Success { item_id, job_key, command });
        let worker = (commands[command].holder.credential_id, done.worker_id);
        rows.runs.push(Run { job_key, seconds: done.seconds, worker, failure: None });
        rows.ended.push(EndedAttempt {
            assignment_id: done.assignment_id,
            item_id,
            seconds: done.seconds,
            ended_as: EndedAs::Succeeded,
        });
        answers[command] =
            Some(Ok(Ended { item_id, item_state: ItemState::Succeeded, ended_as: EndedAs::Succeeded, retry_at: None }));
    }
    hint(tx, limit_keys, rows).await
}

/// Hints at the parked items of these keys, because one of each no longer runs.
async fn hint(tx: &mut Tx, limit_keys: Vec<(i32, Uuid)>, rows: &mut EndingRows) -> Result<()> {
    rows.freed_types.extend(limit_keys.iter().map(|key| key.0));
    Ok(parked_items::hint(tx, limit_keys).await?)
}

/// Handles failures, releases, and results of items canceled in the meantime (`cancellation`).
async fn end_without_result(
    core: &Core,
    tx: &mut Tx,
    commands: &[&EndCommand],
    first: &BTreeMap<Uuid, usize>,
    answers: &mut [Option<Result<Ended, Problem>>],
    rows: &mut EndingRows,
) -> Result<()> {
    let wanted: Vec<(Uuid, usize)> = first
        .iter()
        .map(|(&assignment_id, &at)| (assignment_id, at))
        .filter(|&(_, at)| answers[at].is_none())
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let assignment_ids: Vec<Uuid> = wanted.iter().map(|w| w.0).collect();
    let credentials: Vec<Uuid> = wanted.iter().map(|w| commands[w.1].holder.credential_id).collect();
    let taken = leases::take(tx, &assignment_ids, &credentials).await?;
    let job_keys: HashMap<Uuid, i64> = taken.iter().map(|row| (row.id, row.job_key)).collect();
    let ends: Vec<(TakenLease, EndCause<'_>)> = taken
        .into_iter()
        .map(|row| {
            let cause = match &commands[first[&row.id]].kind {
                EndingKind::Failure(body) => EndCause::Failed(body),
                EndingKind::Release(body) => EndCause::Released(body),
                EndingKind::Wait(body) => EndCause::Waits(body),
                EndingKind::Result(document) => EndCause::TooLate(document),
            };
            (row, cause)
        })
        .collect();
    for (assignment_id, ended) in move_to_next_state(core, tx, ends, rows).await? {
        let at = first[&assignment_id];
        let refused = matches!(commands[at].kind, EndingKind::Result(_));
        if refused {
            rows.late_results.extend(job_keys.get(&assignment_id));
        }
        answers[at] = Some(if refused { Err(already_closed::too_late()) } else { Ok(ended) });
    }
    Ok(())
}

/// Moves items whose assignment was removed to their next place: the queue, the deferred rows until their backoff ends,
/// or a final state.
pub(crate) async fn move_to_next_state(
    core: &Core,
    tx: &mut Tx,
    ends: Vec<(TakenLease, EndCause<'_>)>,
    rows: &mut EndingRows,
) -> Result<Vec<(Uuid, Ended)>> {
    let jobs = core.jobs.by_job_keys(&mut **tx, ends.iter().map(|(row, _)| row.job_key)).await?;
    let now = items::now(tx).await?;
    let mut attempts = Vec::new();
    let mut finals = Vec::new();
    let mut ready = Vec::new();
    let mut deferred = Vec::new();
    let mut waits = Vec::new();
    let mut answers = Vec::with_capacity(ends.len());
    hint(tx, ends.iter().filter_map(|(row, _)| Some((row.type_id, row.limit_key?))).collect(), rows).await?;
    for (row, cause) in ends {
        let Some(job) = jobs.get(&row.job_key) else { continue };
        let backoff = core.types.by_id(row.type_id).map(|t| t.backoff).unwrap_or_default();
        let job_is_cancelled = rows.is_cancelled(row.job_key);
        let failure_outcome = if job_is_cancelled || row.cancel_requested {
            FailureOutcome::cancelled(&row, &cause)
        } else {
            decide_outcome(&row, &cause, job.delivery, job.max_failures, &backoff, now)
        };
        let ended_as = failure_outcome.ended_as;
        if matches!(ended_as, EndedAs::Failed | EndedAs::TimedOut | EndedAs::LeaseLost) {
            rows.runs.push(Run::failed(&row, ended_as, failure_outcome.error.as_ref(), now));
        }
        rows.ended.push(EndedAttempt::of(&row, ended_as, now));
        let delta = rows.delta(row.job_key);
        delta.counts.running -= 1;
        delta.knows_cancelled |= job_is_cancelled;
        let mut answer = Ended { item_id: row.item_id, item_state: ItemState::Available, ended_as, retry_at: None };
        match failure_outcome.next_state {
            NextState::Cancelled(result) => {
                rows.delta(row.job_key).counts.cancelled += 1;
                rows.freed.extend(row.serialize_queue_id.map(|queue_id| (queue_id, row.item_id)));
                answer.item_state = ItemState::Cancelled;
                attempts.push(AttemptRow {
                    item_id: row.item_id,
                    job_key: row.job_key,
                    attempt: row.attempt,
                    lease_id: row.id,
                    started_at: row.started_at,
                    ended_as: ended_as.code(),
                    worker_id: row.worker_id.clone(),
                    retry_at: None,
                    error: failure_outcome.error,
                    result,
                    final_state: Some(ItemState::Cancelled.code()),
                    waited_for: None,
                });
                finals.push(FinalRow {
                    item_id: row.item_id,
                    job_key: row.job_key,
                    lease: None,
                    attempt: row.attempt,
                    failures: row.failures,
                    state: ItemState::Cancelled.code(),
                    ended_as: None,
                    worker_id: None,
                    error: None,
                });
            }
            NextState::Final(state) => {
                let counts = &mut rows.delta(row.job_key).counts;
                if state == ItemState::Dead {
                    counts.dead += 1;
                } else {
                    counts.expired += 1;
                }
                answer.item_state = state;
                rows.freed.extend(row.serialize_queue_id.map(|queue_id| (queue_id, row.item_id)));
                if failure_outcome.cancels_tree {
                    rows.aborted.push(row.job_key);
                }
                finals.push(FinalRow {
                    item_id: row.item_id,
                    job_key: row.job_key,
                    lease: Some((row.id, row.started_at)),
                    attempt: row.attempt,
                    failures: failure_outcome.failures,
                    state: state.code(),
                    ended_as: Some(ended_as.code()),
                    worker_id: Some(row.worker_id.clone()),
                    error: failure_outcome.error,
                });
            }
            NextState::Wait(body, until) => {
                rows.delta(row.job_key).counts.waiting_for_event += 1;
                answer.item_state = ItemState::WaitingForEvent;
                answer.retry_at = until.map(Time);
                attempts.push(AttemptRow {
                    item_id: row.item_id,
                    job_key: row.job_key,
                    attempt: row.attempt,
                    lease_id: row.id,
                    started_at: row.started_at,
                    ended_as: ended_as.code(),
                    worker_id: row.worker_id.clone(),
                    retry_at: until,
                    error: None,
                    result: None,
                    final_state: None,
                    waited_for: Some(body.name.clone()),
                });
                waits.push(NewWaitRow {
                    item_id: row.item_id,
                    job_key: row.job_key,
                    type_id: row.type_id,
                    negated_priority: row.negated_priority,
                    expires_at: row.expires_at,
                    attempts: row.attempt,
                    failures: row.failures,
                    serialize_queue_id: row.serialize_queue_id,
                    name: body.name.clone(),
                    until,
                    form: body.form.as_ref().map(|form| Document::of(form).text().to_owned()),
                });
            }
            NextState::Retry(due_at) => {
                attempts.push(AttemptRow {
                    item_id: row.item_id,
                    job_key: row.job_key,
                    attempt: row.attempt,
                    lease_id: row.id,
                    started_at: row.started_at,
                    ended_as: ended_as.code(),
                    worker_id: row.worker_id.clone(),
                    retry_at: due_at,
                    error: failure_outcome.error,
                    result: None,
                    final_state: None,
                    waited_for: None,
                });
                if let Some(due_at) = due_at {
                    let counts = &mut rows.delta(row.job_key).counts;
                    counts.retryable += 1;
                    answer.item_state = ItemState::Retryable;
                    answer.retry_at = Some(Time(due_at));
                    deferred.push(DeferredRow {
                        item_id: row.item_id,
                        job_key: row.job_key,
                        type_id: row.type_id,
                        negated_priority: row.negated_priority,
                        due_at,
                        expires_at: row.expires_at,
                        attempts: row.attempt,
                        failures: failure_outcome.failures,
                        retryable: true,
                        for_event: false,
                        serialize_queue_id: row.serialize_queue_id,
                    });
                } else {
                    rows.delta(row.job_key).counts.available += 1;
                    ready.push(ReadyRow {
                        item_id: row.item_id,
                        job_key: row.job_key,
                        type_id: row.type_id,
                        negated_priority: row.negated_priority,
                        fair_turn: 0,
                        expires_at: row.expires_at,
                        attempts: row.attempt,
                        failures: failure_outcome.failures,
                        serialize_queue_id: row.serialize_queue_id,
                    });
                }
            }
        }
        answers.push((row.id, answer));
    }
    endings::record_attempts(tx, &attempts, now).await?;
    endings::finish(tx, &finals).await?;
    items::defer(tx, &deferred).await?;
    event_waits::begin(tx, &waits).await?;
    rows.ready.extend(low_water_marks::make_ready_now(core, tx, ready).await?);
    rows.dead.extend(finals.into_iter().filter(|row| row.state == ItemState::Dead.code()));
    Ok(answers)
}
