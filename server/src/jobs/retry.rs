//! Retry by a person: the same item, its history kept, with a fresh budget (rule 16).

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use domain::{Code, ItemState, Problem, api::RetryBody};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::{
        audit as deeds,
        contracts::JobInfo,
        gates::{self, Delta},
        items, retrying, settle as trees, waiting,
    },
};

use super::{
    Core, Engine,
    add::{AddedRows, rows::Going},
    audit,
    bulk::Mark,
    carry as walks, groups,
    intake::Intake,
    settle::{self, Locked},
};

/// A retry, checked.
#[derive(Clone)]
pub(super) struct Retry {
    pub(super) item_id: Uuid,
    pub(super) job: Arc<JobInfo>,
    pub(super) payload: Option<String>,
    pub(super) expires_at: Option<time::OffsetDateTime>,
    pub(super) restart: bool,
    pub(super) deed: Option<deeds::AuditRow>,
    /// The bulk operation that it is a member of.
    pub(super) member: Option<Mark>,
}

impl Engine {
    /// The job of an item, if the caller may see it.
    pub(super) async fn job_of_item(&self, caller: &Caller, item_id: Uuid) -> Result<Arc<JobInfo>> {
        let core = &self.0.core;
        let missing = || Problem::not_found("item");
        let item = retrying::item(&core.pools.read, item_id).await?.ok_or_else(missing)?;
        let jobs = core.jobs.by_gates(&core.pools.read, [item.gate_id]).await?;
        let job = jobs.get(&item.gate_id).ok_or_else(missing)?;
        if caller.visible_owner().is_none_or(|owner| owner == job.owner_id) {
            Ok(Arc::clone(job))
        } else {
            Err(missing().into())
        }
    }

    /// Gives a dead, expired or singly cancelled item back to the workers; what waits for its time is due
    /// now. Any other state is 409 `not_retryable`.
    pub async fn retry_item(&self, caller: &Caller, item_id: Uuid, body: RetryBody) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let job = self.job_of_item(caller, item_id).await?;
        let reason = audit::reason_for(caller, job.owner_id, body.reason.as_deref())?;
        let deed = audit::row(caller, "item.retry", job.owner_id, reason.as_deref())
            .map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
        let core = &self.0.core;
        let payload = match body.payload {
            Some(payload) => Some(core.checked_payload(&job, payload)?),
            None => None,
        };
        let retry = Retry {
            item_id,
            job,
            payload,
            expires_at: body.expires_at.map(|at| at.0),
            restart: body.restart,
            deed,
            member: None,
        };
        core.retrying(move |core| {
            let retry = retry.clone();
            async move { retry_one(&core, retry).await }
        })
        .await
    }
}

pub(super) async fn retry_one(core: &Arc<Core>, retry: Retry) -> Result<()> {
    let (job, item_id) = (&retry.job, retry.item_id);
    let item = retrying::item(&core.pools.read, item_id).await?.ok_or_else(|| Problem::not_found("item"))?;
    let plan = core.plans.of(&core.pools.read, job.root_id).await?;
    let at = plan.place(job.gate_id).ok_or_else(|| Problem::not_found("job"))?;
    let keys: BTreeSet<(Uuid, &str)> = item.serialize_key.iter().map(|key| (job.owner_id, key.as_str())).collect();
    let mut intake = Intake::of_keys(core, keys).await?;

    let mut tx = core.pools.hot.begin().await?;
    let past = retrying::take_outcome(&mut tx, item_id).await?;
    let hurried = past.is_none() && waiting::hurry(&mut tx, item_id).await?;
    if past.is_none() && !hurried {
        // Cancelled with its job, its row may not have followed yet: the job's word comes first.
        let locked = Locked::read(&mut tx, &plan.gates()).await?;
        refuse(&mut tx, &plan, at, &locked).await?;
        let state = retrying::final_state(&mut tx, item_id).await?;
        return Err(Problem {
            item_state: state,
            ..Problem::new(
                Code::NotRetryable,
                "Only items that are dead, expired, cancelled by themselves or waiting for their time can be retried.",
            )
        }
        .into());
    }
    let expires_at = retry.expires_at.or(item.expires_at);
    let now = items::now(&mut tx).await?;
    if expires_at.is_some_and(|at| at <= now) {
        return Err(Error::refuse(Code::ItemExpired, "Its expires_at has passed: retry it with a later one."));
    }
    intake.lock_lanes(&mut tx, []).await?;
    intake.look(&mut tx).await?;
    let mut locked = Locked::read(&mut tx, &plan.gates()).await?;
    refuse(&mut tx, &plan, at, &locked).await?;
    if let Some(payload) = &retry.payload {
        retrying::edit(&mut tx, item_id, payload).await?;
    }
    if retry.restart {
        retrying::restart(&mut tx, item_id).await?;
    }
    if let Some(at) = retry.expires_at {
        retrying::set_expiry(&mut tx, item_id, at).await?;
    }
    if let Some(deed) = &retry.deed {
        deeds::record(&mut tx, deed).await?;
    }
    let Some(past) = past else {
        if let Some(member) = retry.member {
            member.processed(&mut tx, &plan).await?;
        }
        tx.commit().await?;
        core.hub.touch(&[job.root_id]);
        return Ok(());
    };

    let reopened = settle::reopen(&mut tx, &plan, at, &mut locked).await?;
    if plan.jobs.len() == 1 {
        trees::reopen(&mut tx, &[job.gate_id]).await?;
    }
    let mut ids = vec![job.gate_id, job.turn_gate_id];
    ids.sort_unstable();
    ids.dedup();
    let gates_now: HashMap<i64, gates::Locked> =
        gates::lock(&mut tx, &ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
    let gate = gates_now.get(&job.gate_id).ok_or(Error::Conflict("a job was removed"))?;
    intake.open(&mut tx, &gates_now).await?;
    let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
    let counts = &mut deltas.entry(job.gate_id).or_default().counts;
    match ItemState::from_code(past.state) {
        Some(ItemState::Dead) => counts.dead -= 1,
        Some(ItemState::Expired) => counts.expired -= 1,
        _ => counts.cancelled -= 1,
    }
    let going = Going {
        id: item_id,
        rank: -item.priority,
        serialize_key: item.serialize_key.as_deref(),
        run_after: item.run_after,
        expires_at,
        attempts: past.attempt,
        failures: 0,
    };
    intake.put(core, &mut tx, job, going, gate, &mut deltas).await?;
    intake.write(&mut tx, &mut deltas).await?;
    let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
    let after = gates::apply(&mut tx, &deltas).await?;
    if after.len() != deltas.len() {
        return Err(Error::Conflict("a job was cancelled"));
    }
    if let Some(fingerprint) = past.fingerprint.filter(|_| past.state == ItemState::Dead.code()) {
        groups::uncount(&mut tx, job, &fingerprint).await?;
    }
    if let Some(member) = retry.member {
        member.processed(&mut tx, &plan).await?;
    }
    // Where rule 5 ends it at once, as what its job waits for has still failed, the job is complete again.
    let settle: Vec<(i64, Uuid)> = after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect();
    gates::ask_to_settle(&mut tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    tx.commit().await?;
    AddedRows::of(intake.ready(), vec![job.root_id], settle).after_commit(core).await;
    walks::follow(core, &reopened).await;
    Ok(())
}

/// Rules 12, 15 and 20: what a tree's end takes away.
async fn refuse(tx: &mut crate::store::Tx, plan: &super::plan::Plan, at: usize, locked: &Locked) -> Result<()> {
    if locked.get(plan.root_gate())?.removed {
        return Err(Error::refuse(Code::JobRemoved, "The job was removed."));
    }
    for above in plan.above(at) {
        if locked.get(plan.jobs[above].gate_id)?.cancelled {
            return Err(Error::refuse(Code::JobCancelled, "The job, or one above it, is cancelled."));
        }
    }
    if trees::superseded(tx, plan.root_id).await? {
        return Err(Error::refuse(
            Code::Superseded,
            "A newer tree has taken this one's place under its Idempotency-Key; retry there.",
        ));
    }
    Ok(())
}
