//! Heartbeats, which have their own queue and connections, and steps.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use domain::{
    Code, Document, ItemState, Problem, Time,
    api::{HeartbeatAnswer, HeartbeatOf, StepBody},
    assignment::AssignmentId,
    item::{EndedAs, Step},
    limits,
};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    flush::Batch,
    store::{
        endings::{self, PastRow},
        leases::{self, Beat, Renewed},
    },
    task::in_task,
};

use super::{
    Core, Engine,
    own::{Holder, PUSH},
    past,
};

/// Heartbeats of one request.
pub(super) struct BeatCommand {
    credential_id: Uuid,
    beats: Vec<HeartbeatOf>,
}

pub(super) struct BeatBatch(pub(super) Arc<Core>);

impl Batch for BeatBatch {
    type Command = BeatCommand;
    type Answer = HashMap<Uuid, Renewed>;
    /// Renewed leases by assignment and the credential that renewed it.
    type Done = HashMap<(Uuid, Uuid), Renewed>;

    // A late heartbeat is better than none.
    const TURNS_AWAY: bool = false;

    fn weight(command: &BeatCommand) -> usize {
        command.beats.len().max(1)
    }

    async fn run(&self, commands: &[&BeatCommand]) -> Result<Self::Done> {
        let core = &self.0;
        // One row per assignment, sorted; the last progress wins. Different credentials that name the same assignment
        // get separate rounds: a stranger's heartbeat must not displace the holder's.
        let mut rounds: Vec<BTreeMap<Uuid, Beat>> = vec![BTreeMap::new()];
        for command in commands {
            for beat in &command.beats {
                let progress = beat.progress.clone();
                let has_progress = progress.is_some();
                let progress = progress.unwrap_or_default();
                let fence = beat.assignment_id.id;
                let is_free = |beats: &BTreeMap<Uuid, Beat>| {
                    beats.get(&fence).is_none_or(|earlier| earlier.credential_id == command.credential_id)
                };
                let round = rounds.iter().position(is_free).unwrap_or(rounds.len());
                if round == rounds.len() {
                    rounds.push(BTreeMap::new());
                }
                let beats = &mut rounds[round];
                let earlier = beats.get(&fence);
                if earlier.is_some_and(|e| e.has_progress && !has_progress) {
                    continue;
                }
                beats.insert(
                    fence,
                    Beat {
                        fence,
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
        for beats in rounds {
            let beats: Vec<Beat> = beats.into_values().collect();
            for renewed in leases::beat(&core.pools.beats, &beats).await? {
                // Sorted by assignment id.
                let Ok(at) = beats.binary_search_by_key(&renewed.id, |beat| beat.fence) else { continue };
                if beats[at].has_progress {
                    moved.push(renewed.gate_id);
                }
                done.insert((renewed.id, beats[at].credential_id), renewed);
            }
        }
        if !moved.is_empty() {
            let jobs = core.jobs.by_gates(&core.pools.read, moved).await?;
            core.hub.touch(&jobs.values().map(|job| job.root_id).collect::<Vec<_>>());
        }
        Ok(done)
    }

    async fn answer(&self, commands: &[BeatCommand], renewed: Self::Done) -> Vec<Result<HashMap<Uuid, Renewed>>> {
        commands
            .iter()
            .map(|command| {
                let key = |b: &HeartbeatOf| (b.assignment_id.id, command.credential_id);
                let own = |b: &HeartbeatOf| renewed.get(&key(b)).map(|r| (r.id, *r));
                Ok(command.beats.iter().filter_map(own).collect())
            })
            .collect()
    }
}

impl Engine {
    /// Renews leases and records progress if given; answers are in request order (`lease-expiry`).
    pub async fn heartbeats(&self, caller: &Caller, beats: Vec<HeartbeatOf>) -> Result<Vec<HeartbeatAnswer>> {
        caller.require(Scope::Work)?;
        for (at, beat) in beats.iter().enumerate() {
            check_progress(at, beat)?;
        }
        let ids: Vec<AssignmentId> = beats.iter().map(|beat| beat.assignment_id).collect();
        let holder = Holder::of(caller);
        let credential_id = caller.credential_id;
        let mut renewed = self.0.beats.run(BeatCommand { credential_id, beats: beats.clone() }).await?;
        let left = ids.iter().filter(|id| !renewed.contains_key(&id.id)).map(|&id| (id.id, id, &holder));
        let lent = self.0.core.lent(&self.0.core.pools.beats, left).await?;
        if !lent.is_empty() {
            let lent: HashSet<Uuid> = lent.into_iter().collect();
            let beats = beats.into_iter().filter(|beat| lent.contains(&beat.assignment_id.id)).collect();
            renewed.extend(self.0.beats.run(BeatCommand { credential_id: PUSH, beats }).await?);
        }
        let gone: Vec<AssignmentId> = ids.iter().copied().filter(|id| !renewed.contains_key(&id.id)).collect();
        let past = if gone.is_empty() { HashMap::new() } else { self.past(caller, gone).await? };
        Ok(ids
            .into_iter()
            .map(|assignment_id| {
                let mut answer =
                    HeartbeatAnswer { assignment_id, status: 200, code: None, lease_expires_at: None, cancel: None };
                if let Some(renewed) = renewed.get(&assignment_id.id) {
                    answer.lease_expires_at = Some(Time(renewed.lease_expires_at));
                    answer.cancel = Some(renewed.cancel);
                } else {
                    let code =
                        if past.contains_key(&assignment_id.id) { Code::AssignmentClosed } else { Code::NotFound };
                    answer.status = code.status();
                    answer.code = Some(code);
                }
                answer
            })
            .collect())
    }

    /// Reason why an assignment is not open: `assignment_closed` or `not_found`.
    pub async fn why_closed(&self, caller: &Caller, id: AssignmentId) -> Result<Problem> {
        let past = self.past(caller, vec![id]).await?;
        Ok(past
            .get(&id.id)
            .map_or_else(|| Problem::not_found("assignment"), |&(state, ended_as)| past::closed(state, ended_as)))
    }

    /// Endings of these assignments, as far as they are visible to the caller.
    async fn past(&self, caller: &Caller, ids: Vec<AssignmentId>) -> Result<HashMap<Uuid, (ItemState, EndedAs)>> {
        let (core, fences) = (Arc::clone(&self.0.core), ids.iter().map(|id| id.id).collect::<Vec<_>>());
        let look = async move {
            let mut tx = core.pools.hot.begin().await?;
            let rows = endings::past(&mut tx, &fences).await?;
            crate::store::commit(tx).await?;
            Ok::<_, Error>(rows)
        };
        // In its own task: a client may abort a heartbeat and would leave the transaction open.
        let rows = in_task("reading closed assignments", look).await?;
        let rows: HashMap<Uuid, PastRow> = rows.into_iter().map(|row| (row.lease_id, row)).collect();
        let ended = |id: AssignmentId| {
            let row = rows.get(&id.id)?;
            let waiting = if row.retry_at.is_some() { ItemState::Retryable } else { ItemState::Available };
            let state = row.state.and_then(ItemState::from_code).unwrap_or(waiting);
            let known = self.0.core.may_know(row.pushed, id, caller.credential_id);
            known.then(|| (id.id, (state, EndedAs::from_code(row.ended_as).unwrap_or(EndedAs::Cancelled))))
        };
        Ok(ids.into_iter().filter_map(ended).collect())
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
            let kept = record_step(&core, id.id, holder.credential_id, step.clone()).await?;
            if kept.is_none() && !core.lent(&core.pools.read, [((), id, &holder)]).await?.is_empty() {
                return record_step(&core, id.id, PUSH, step).await;
            }
            Ok(kept)
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
    let mut tx = core.pools.hot.begin().await?;
    let Some(held) = leases::hold(&mut tx, id, credential_id).await? else { return Ok(None) };
    let jobs = core.jobs.by_gates(&mut *tx, [held.gate_id]).await?;
    let declared: &[String] = jobs.get(&held.gate_id).map_or(&[], |job| &job.steps);
    let place = |name: &str| declared.iter().position(|declared| declared == name);
    let Some(new) = place(&step.name) else {
        let known = if declared.is_empty() { "none".to_owned() } else { declared.join(", ") };
        return Err(Error::refuse(Code::UnknownStep, format!("The job type declares these steps: {known}.")));
    };
    if let Some((_, name, data)) = leases::steps(&mut tx, &[held.item_id]).await?.pop() {
        if name == step.name && data == step.data.text() {
            return Ok(Some(step));
        }
        if place(&name) >= Some(new) {
            return Err(Error::refuse(Code::StepBehind, format!("The item has already reached step {name}.")));
        }
    }
    leases::set_step(&mut tx, held.item_id, &step.name, step.data.text()).await?;
    crate::store::commit(tx).await?;
    Ok(Some(step))
}

fn check_progress(at: usize, beat: &HeartbeatOf) -> Result<(), Problem> {
    let Some(progress) = &beat.progress else { return Ok(()) };
    let fault = |field: &str, detail: &str| {
        Err(Problem::invalid_body([(format!("/heartbeats/{at}/progress/{field}"), detail.to_owned())]))
    };
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
