//! Heartbeats, which have their own queue and connections, and steps.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use domain::{
    Code, Document, Problem, Time,
    api::{HeartbeatAnswer, HeartbeatOf, StepBody},
    dispatch::assignment::AssignmentId,
    document::canonical::is_same_value,
    item::{ItemProgress, Step},
    limits,
};
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::{
        assignment_holder::{Holder, PUSH},
        caller::{Caller, Scope},
    },
    error::{Error, Result},
    flush::Batch,
    primary::RELEASE_TIMEOUT,
    query::item_state,
    store::{
        dispatch::{
            endings::{self, ClosedAssignmentRow},
            leases::{self, Heartbeat, RenewedLease},
        },
        query::item_views,
    },
    task::in_task,
};

use super::already_closed;

/// Heartbeats of one request.
pub(crate) struct HeartbeatCommand {
    credential_id: Uuid,
    heartbeats: Vec<HeartbeatOf>,
}

pub(crate) struct HeartbeatBatch(pub(crate) Arc<Core>);

impl Batch for HeartbeatBatch {
    type Command = HeartbeatCommand;
    type Answer = HashMap<Uuid, RenewedLease>;
    /// Renewed leases by assignment and the credential that renewed it.
    type Done = HashMap<(Uuid, Uuid), RenewedLease>;

    // A late heartbeat is better than none.
    const REFUSES_WHEN_STALLED: bool = false;
    const TIME_LIMIT: Option<Duration> = Some(RELEASE_TIMEOUT);

    fn weight(command: &HeartbeatCommand) -> usize {
        command.heartbeats.len().max(1)
    }

    async fn run(&self, commands: &[&HeartbeatCommand]) -> Result<Self::Done> {
        let core = &self.0;
        // One row per assignment, sorted; the last progress wins. Different credentials that name the same assignment
        // get separate rounds: a stranger's heartbeat must not displace the holder's.
        let mut rounds: Vec<BTreeMap<Uuid, Heartbeat>> = vec![BTreeMap::new()];
        for command in commands {
            for heartbeat in &command.heartbeats {
                let progress = heartbeat.progress.clone();
                let has_progress = progress.is_some();
                let progress = progress.unwrap_or_default();
                let assignment_id = heartbeat.assignment_id.id;
                let is_free = |heartbeats: &BTreeMap<Uuid, Heartbeat>| {
                    heartbeats.get(&assignment_id).is_none_or(|earlier| earlier.credential_id == command.credential_id)
                };
                let round = rounds.iter().position(is_free).unwrap_or(rounds.len());
                if round == rounds.len() {
                    rounds.push(BTreeMap::new());
                }
                let heartbeats = &mut rounds[round];
                let earlier = heartbeats.get(&assignment_id);
                if earlier.is_some_and(|e| e.has_progress && !has_progress) {
                    continue;
                }
                heartbeats.insert(
                    assignment_id,
                    Heartbeat {
                        assignment_id,
                        credential_id: command.credential_id,
                        done: progress.done,
                        total: progress.total,
                        message: progress.message,
                        has_progress,
                    },
                );
            }
        }
        let mut done = HashMap::new();
        let mut moved: Vec<i64> = Vec::new();
        for heartbeats in rounds {
            let heartbeats: Vec<Heartbeat> = heartbeats.into_values().collect();
            let renewed = leases::renew(&core.pools.heartbeats, &heartbeats);
            for renewed in core.pools.reachability.unless_refused(renewed).await? {
                // Sorted by assignment id.
                let Ok(at) = heartbeats.binary_search_by_key(&renewed.id, |heartbeat| heartbeat.assignment_id) else {
                    continue;
                };
                if heartbeats[at].has_progress {
                    moved.push(renewed.job_key);
                }
                done.insert((renewed.id, heartbeats[at].credential_id), renewed);
            }
        }
        if !moved.is_empty() {
            // Heartbeats do not wait for a connection that serves pages.
            let core = Arc::clone(core);
            tokio::spawn(async move { core.touch_jobs(moved).await });
        }
        Ok(done)
    }

    async fn answer(
        &self,
        commands: &[HeartbeatCommand],
        renewed: Self::Done,
    ) -> Vec<Result<HashMap<Uuid, RenewedLease>>> {
        commands
            .iter()
            .map(|command| {
                let key = |b: &HeartbeatOf| (b.assignment_id.id, command.credential_id);
                let renewal = |b: &HeartbeatOf| renewed.get(&key(b)).map(|r| (r.id, *r));
                Ok(command.heartbeats.iter().filter_map(renewal).collect())
            })
            .collect()
    }
}

impl Engine {
    /// Renews leases and records progress if given; answers are in request order (`lease-expiry`). Progress that is not
    /// valid refuses only its own heartbeat; the pointers of its errors begin at the heartbeat.
    pub async fn heartbeats(&self, caller: &Caller, heartbeats: Vec<HeartbeatOf>) -> Result<Vec<HeartbeatAnswer>> {
        caller.require(Scope::Work)?;
        let refused: Vec<Option<HeartbeatAnswer>> = heartbeats.iter().map(refuse_progress).collect();
        let is_valid = |(heartbeat, refused): (HeartbeatOf, &Option<_>)| refused.is_none().then_some(heartbeat);
        let heartbeats = heartbeats.into_iter().zip(&refused).filter_map(is_valid).collect();
        let mut answers = self.valid_heartbeats(caller, heartbeats).await?.into_iter();
        Ok(refused.into_iter().filter_map(|refused| refused.or_else(|| answers.next())).collect())
    }

    async fn valid_heartbeats(&self, caller: &Caller, heartbeats: Vec<HeartbeatOf>) -> Result<Vec<HeartbeatAnswer>> {
        let ids: Vec<AssignmentId> = heartbeats.iter().map(|heartbeat| heartbeat.assignment_id).collect();
        let holder = Holder::of(caller);
        let credential_id = caller.credential_id;
        let mut renewed =
            self.0.heartbeats.run(HeartbeatCommand { credential_id, heartbeats: heartbeats.clone() }).await?;
        let left = ids.iter().filter(|id| !renewed.contains_key(&id.id)).map(|&id| (id.id, id, &holder));
        let pools = &self.0.core.pools;
        let open_push_assignments = self.0.core.open_push_assignments(&pools.heartbeats, left);
        let open_push_assignments = pools.reachability.unless_refused(open_push_assignments).await?;
        if !open_push_assignments.is_empty() {
            let open_push_assignments: HashSet<Uuid> = open_push_assignments.into_iter().collect();
            let heartbeats = heartbeats
                .into_iter()
                .filter(|heartbeat| open_push_assignments.contains(&heartbeat.assignment_id.id))
                .collect();
            renewed.extend(self.0.heartbeats.run(HeartbeatCommand { credential_id: PUSH, heartbeats }).await?);
        }
        let not_open: Vec<AssignmentId> = ids.iter().copied().filter(|id| !renewed.contains_key(&id.id)).collect();
        let already_closed =
            if not_open.is_empty() { HashMap::new() } else { self.already_closed(caller, not_open).await? };
        Ok(ids
            .into_iter()
            .map(|assignment_id| {
                let renewed = renewed.get(&assignment_id.id);
                let code = match renewed {
                    Some(_) => None,
                    None if already_closed.contains_key(&assignment_id.id) => Some(Code::AssignmentClosed),
                    None => Some(Code::NotFound),
                };
                HeartbeatAnswer {
                    assignment_id: assignment_id.into(),
                    status: code.map_or(200, Code::status),
                    code,
                    errors: Vec::new(),
                    lease_expires_at: renewed.map(|renewed| Time(renewed.lease_expires_at)),
                    cancel: renewed.map(|renewed| renewed.cancel),
                }
            })
            .collect())
    }

    /// Reason why an assignment is not open: `assignment_closed` with the state that the item has now, or `not_found`.
    pub async fn why_closed(&self, caller: &Caller, id: AssignmentId) -> Result<Problem> {
        let already_closed = self.already_closed(caller, vec![id]).await?;
        let Some(closed_row) = already_closed.get(&id.id) else { return Ok(Problem::not_found("assignment")) };
        let view = item_views::items(&self.0.core.pools.read, &[closed_row.item_id], false).await?.pop();
        let state = view.map_or_else(|| already_closed::first_state(closed_row), |view| item_state(&view));
        Ok(already_closed::assignment_closed(state, already_closed::ended_as(closed_row)))
    }

    /// Endings of these assignments, as far as they are visible to the caller.
    async fn already_closed(
        &self,
        caller: &Caller,
        ids: Vec<AssignmentId>,
    ) -> Result<HashMap<Uuid, ClosedAssignmentRow>> {
        let core = &self.0.core;
        let (pools, assignment_ids) = (core.pools.clone(), ids.iter().map(|id| id.id).collect::<Vec<_>>());
        let read_rows = async move {
            let mut tx = crate::store::begin(&pools.hot).await?;
            let rows = endings::closed_assignments(&mut tx, &assignment_ids).await?;
            crate::store::commit(tx).await?;
            Ok::<_, Error>(rows)
        };
        // In its own task: a client may abort a heartbeat and would leave the transaction open.
        let rows = in_task("reading closed assignments", read_rows).await?;
        let mut rows: HashMap<Uuid, ClosedAssignmentRow> = rows.into_iter().map(|row| (row.lease_id, row)).collect();
        let is_visible = |id: &&AssignmentId| {
            rows.get(&id.id).is_some_and(|row| core.may_see_outcome(row.pushed, **id, caller.credential_id))
        };
        let visible: HashSet<Uuid> = ids.iter().filter(is_visible).map(|id| id.id).collect();
        rows.retain(|id, _| visible.contains(id));
        Ok(rows)
    }

    /// Records a step of an item atomically; steps only move forward (`steps`).
    pub async fn step(&self, caller: &Caller, id: AssignmentId, body: StepBody) -> Result<Step> {
        caller.require(Scope::Work)?;
        let step = Step { name: body.name, data: body.data.unwrap_or_else(Document::null) };
        if step.data.text().len() > self.0.core.payload_limit {
            let limit = self.0.core.payload_limit;
            return Err(Error::refuse(Code::TooLarge, format!("A step's data has at most {limit} bytes.")));
        }
        let core = Arc::clone(&self.0.core);
        let holder = Holder::of(caller);
        let run = async move {
            let recorded = record_step(&core, id.id, holder.credential_id, step.clone()).await?;
            if recorded.is_none()
                && !core.open_push_assignments(&core.pools.read, [((), id, &holder)]).await?.is_empty()
            {
                return record_step(&core, id.id, PUSH, step).await;
            }
            Ok(recorded)
        };
        // In its own task: a client that disconnects cannot leave a transaction open.
        let done = in_task("recording a step", run).await;
        match done {
            Ok(Some(step)) => Ok(step),
            Ok(None) => Err(self.why_closed(caller, id).await?.into()),
            Err(e) => Err(e),
        }
    }
}

async fn record_step(core: &Core, id: Uuid, credential_id: Uuid, step: Step) -> Result<Option<Step>> {
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let Some(lease) = leases::lock(&mut tx, id, credential_id).await? else { return Ok(None) };
    let jobs = core.jobs.by_job_keys(&mut *tx, [lease.job_key]).await?;
    let declared: &[String] = jobs.get(&lease.job_key).map_or(&[], |job| &job.steps);
    let position_of = |name: &str| declared.iter().position(|declared| declared == name);
    let Some(new) = position_of(&step.name) else {
        let step_names = if declared.is_empty() { "none".to_owned() } else { declared.join(", ") };
        return Err(Error::refuse(Code::UnknownStep, format!("The job type declares these steps: {step_names}.")));
    };
    if let Some((_, name, data)) = leases::steps(&mut tx, &[lease.item_id]).await?.pop() {
        if name == step.name && is_same_value(&data, step.data.text()) {
            // The lease was renewed, and `at_most_once` work has begun.
            crate::store::commit(tx).await?;
            return Ok(Some(step));
        }
        if position_of(&name) >= Some(new) {
            return Err(Error::refuse(Code::StepBehind, format!("The item has already reached step {name}.")));
        }
    }
    leases::set_step(&mut tx, lease, &step.name, step.data.text()).await?;
    crate::store::commit(tx).await?;
    Ok(Some(step))
}

/// Answer to a heartbeat whose progress is not valid.
fn refuse_progress(heartbeat: &HeartbeatOf) -> Option<HeartbeatAnswer> {
    let problem = check_progress(heartbeat.progress.as_ref()?).err()?;
    Some(HeartbeatAnswer::refused(heartbeat.assignment_id.into(), problem))
}

/// Checks the progress of a heartbeat: counts from 0, and a message of limited length. `invalid_body` otherwise.
pub fn check_progress(progress: &ItemProgress) -> Result<(), Problem> {
    let fault =
        |field: &str, detail: &str| Err(Problem::invalid_body([(format!("/progress/{field}"), detail.to_owned())]));
    if progress.done.is_some_and(|n| !(0..=limits::GREATEST_COUNT).contains(&n)) {
        return fault("done", "expected a whole number from 0");
    }
    if progress.total.is_some_and(|n| !(0..=limits::GREATEST_COUNT).contains(&n)) {
        return fault("total", "expected a whole number from 0");
    }
    if progress.message.as_ref().is_some_and(|m| !limits::is_text(m, 0, limits::LONGEST_PROGRESS_MESSAGE)) {
        return fault("message", "expected at most 1000 characters");
    }
    Ok(())
}
