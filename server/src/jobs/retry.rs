//! Retries requested by people: the same items keep their history and get a fresh failure budget (`manual-retry`). One
//! transaction handles one item or many items of many trees; each item is retried or refused on its own.

mod refusal; // refusals of items in a final state

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use domain::{Code, ItemState, Problem, api::RetryBody};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::{
        Tx, audit as deeds,
        contracts::JobInfo,
        gates::{self, Delta},
        items,
        retrying::{self, Final, ItemRow, Past},
        settle as trees,
    },
};

use super::{
    Core, Engine,
    add::{AddedRows, rows::Going},
    audit,
    bulk::Tally,
    carry as walks, groups,
    intake::Intake,
    plan::Plan,
    settle::{self, Locked},
};

/// Validated retry.
#[derive(Clone)]
pub(super) struct Retry {
    pub(super) item_id: Uuid,
    pub(super) job: Arc<JobInfo>,
    pub(super) payload: Option<String>,
    pub(super) expires_at: Option<time::OffsetDateTime>,
    pub(super) restart: bool,
    pub(super) deed: Option<deeds::AuditRow>,
}

/// Refused items, each with the reason.
pub type Refused = HashMap<Uuid, Problem>;

impl Engine {
    /// Job of an item, if it is visible to the caller.
    pub(super) async fn job_of_item(&self, caller: &Caller, item_id: Uuid) -> Result<Arc<JobInfo>> {
        let found = self.0.core.jobs_of_items(caller, &[item_id]).await?.remove(&item_id);
        found.ok_or_else(|| Problem::not_found("item").into())
    }

    /// Retries a dead, expired or individually canceled item; a deferred item becomes due now. Others get 409.
    pub async fn retry_item(&self, caller: &Caller, item_id: Uuid, body: RetryBody) -> Result<()> {
        let mut refused = self.retry_items(caller, vec![(item_id, body)]).await?;
        refused.remove(&item_id).map_or(Ok(()), |problem| Err(problem.into()))
    }

    /// Same for several items. If one is not visible, invalid or lacks its reason, nothing is changed.
    pub async fn retry_items(&self, caller: &Caller, bodies: Vec<(Uuid, RetryBody)>) -> Result<Refused> {
        caller.require(Scope::JobsWrite)?;
        let core = &self.0.core;
        let jobs = core.jobs_of_items(caller, &bodies.iter().map(|(id, _)| *id).collect::<Vec<_>>()).await?;
        let mut retries = Vec::with_capacity(bodies.len());
        for (item_id, body) in bodies {
            let job = Arc::clone(jobs.get(&item_id).ok_or_else(|| Problem::not_found("item"))?);
            let reason = audit::reason_for(caller, job.owner_id, body.reason.as_deref())?;
            let deed = audit::row(caller, "item.retry", job.owner_id, reason.as_deref());
            let deed = deed.map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
            let payload = body.payload.map(|payload| core.checked_payload(&job, payload)).transpose()?;
            let expires_at = body.expires_at.map(|at| at.0);
            retries.push(Retry { item_id, job, payload, expires_at, restart: body.restart, deed });
        }
        core.ask_in(caller, retries.iter().map(|retry| &*retry.job)).await?;
        let retries = Arc::new(retries);
        core.retrying(move |core: Arc<Core>| {
            let retries = Arc::clone(&retries);
            async move { retry_many(&core, retries.iter().collect(), None).await }
        })
        .await
    }
}

impl Core {
    /// Jobs of those of these items that are visible to the caller.
    pub(super) async fn jobs_of_items(
        &self,
        caller: &Caller,
        item_ids: &[Uuid],
    ) -> Result<HashMap<Uuid, Arc<JobInfo>>> {
        let items = retrying::items(&self.pools.read, item_ids).await?;
        let gates: BTreeSet<i64> = items.iter().map(|item| item.gate_id).collect();
        let jobs = self.jobs.by_gates(&self.pools.read, gates).await?;
        let visible = |job: &&Arc<JobInfo>| caller.visible_owner().is_none_or(|owner| owner == job.owner_id);
        let job_of = |item: &ItemRow| jobs.get(&item.gate_id).filter(visible).map(Arc::clone);
        Ok(items.iter().filter_map(|item| Some((item.id, job_of(item)?))).collect())
    }
}

/// Retries items in one transaction; returns the refused ones. Members of a bulk operation are all counted in it,
/// retried or not.
pub(super) async fn retry_many(core: &Arc<Core>, retries: Vec<&Retry>, mut tally: Option<Tally>) -> Result<Refused> {
    let mut refused = Refused::new();
    let mut open = retries;
    loop {
        let batch = Batch::read(core, open, tally.as_ref(), &mut refused).await?;
        let more = batch.run(core, tally.as_mut(), &mut refused).await?;
        let Some(rest) = more else { return Ok(refused) };
        // The transaction was rolled back: run it again without the newly refused items.
        open = rest;
    }
}

/// Retries with the rows and trees that cannot change meanwhile.
struct Batch<'a> {
    /// In request order: items of one serialize key join its queue in this order.
    retries: Vec<&'a Retry>,
    rows: HashMap<Uuid, ItemRow>,
    plans: BTreeMap<Uuid, Arc<Plan>>,
}

/// State of the items, read under their locks.
struct Found {
    past: HashMap<Uuid, Past>,
    hurried: HashSet<Uuid>,
    finals: HashMap<Uuid, Final>,
    superseded: HashSet<Uuid>,
    now: time::OffsetDateTime,
}

impl<'a> Batch<'a> {
    async fn read(
        core: &Core,
        mut retries: Vec<&'a Retry>,
        tally: Option<&Tally>,
        refused: &mut Refused,
    ) -> Result<Self> {
        let ids: Vec<Uuid> = retries.iter().map(|retry| retry.item_id).collect();
        let rows: HashMap<Uuid, ItemRow> =
            retrying::items(&core.pools.read, &ids).await?.into_iter().map(|row| (row.id, row)).collect();
        let mut roots: BTreeSet<Uuid> = retries.iter().map(|retry| retry.job.root_id).collect();
        roots.extend(tally.into_iter().flat_map(Tally::roots));
        let plans = core.plans.of_all(&core.pools.read, roots).await?;
        retries.retain(|retry| {
            let known = rows.contains_key(&retry.item_id)
                && plans.get(&retry.job.root_id).is_some_and(|plan| plan.place(retry.job.gate_id).is_some());
            if !known {
                refused.insert(retry.item_id, Problem::not_found("item"));
            }
            known
        });
        Ok(Self { retries, rows, plans })
    }

    /// Job state row ids of all jobs in trees with retried items, and of the roots of the other trees. Ascending.
    fn gates(&self) -> Vec<i64> {
        let going: BTreeSet<Uuid> = self.retries.iter().map(|retry| retry.job.root_id).collect();
        let mut gates: Vec<i64> = Vec::new();
        for plan in self.plans.values() {
            if going.contains(&plan.root_id) {
                gates.extend(plan.jobs.iter().map(|job| job.gate_id));
            } else {
                gates.push(plan.root_gate());
            }
        }
        gates.sort_unstable();
        gates
    }

    /// Retries the items. If some items were already changed and are then refused, nothing is committed, and the others
    /// are returned.
    async fn run(
        self,
        core: &Arc<Core>,
        mut tally: Option<&mut Tally>,
        refused: &mut Refused,
    ) -> Result<Option<Vec<&'a Retry>>> {
        if self.retries.is_empty() && tally.is_none() {
            return Ok(None);
        }
        let keys: BTreeSet<(Uuid, &str)> = self
            .retries
            .iter()
            .filter_map(|retry| Some((retry.job.owner_id, self.rows[&retry.item_id].serialize_key.as_deref()?)))
            .collect();
        let mut intake = Intake::of_keys(core, keys).await?;

        let mut tx = core.pools.hot.begin().await?;
        intake.lock_lanes(&mut tx, []).await?;
        intake.look(&mut tx).await?;
        let mut found = self.take(&mut tx).await?;
        let mut locked = Locked::read(&mut tx, &self.gates()).await?;
        let roots: Vec<Uuid> = self.plans.keys().copied().collect();
        found.superseded = trees::superseded(&mut tx, &roots).await?.into_iter().collect();
        let (done, spoiled) = self.judge(&found, &locked, refused)?;
        if spoiled {
            return Ok(Some(done));
        }

        write_down(&mut tx, &done).await?;
        let back: Vec<&Retry> = done.iter().copied().filter(|retry| found.past.contains_key(&retry.item_id)).collect();
        let mut settle: Vec<(i64, Uuid)> = Vec::new();
        let mut reopened: Vec<i64> = Vec::new();
        if !back.is_empty() {
            reopened = self.reopen(&mut tx, &back, &mut locked).await?;
            settle = self.put(core, &mut tx, &back, &found.past, &mut intake).await?;
        }
        if let Some(tally) = &mut tally {
            for (&item_id, problem) in &*refused {
                tally.skip(item_id, problem.code.as_str());
            }
            tally.write(core, &mut tx, &self.plans).await?;
        }
        if !settle.is_empty() {
            gates::ask_to_settle(&mut tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
        }
        crate::store::commit(tx).await?;
        AddedRows::of(&intake, roots, settle).after_commit(core).await;
        walks::follow(core, &reopened).await;
        Ok(None)
    }

    /// Removes the items from their current state. Items that cannot be removed are looked up.
    async fn take(&self, tx: &mut Tx) -> Result<Found> {
        let mut ids: Vec<Uuid> = self.retries.iter().map(|retry| retry.item_id).collect();
        ids.sort_unstable();
        let past = retrying::take_outcomes(tx, &ids).await?;
        let past: HashMap<Uuid, Past> = past.into_iter().map(|past| (past.item_id, past)).collect();
        ids.retain(|id| !past.contains_key(id));
        let mut hurried = HashSet::new();
        let mut finals = HashMap::new();
        if !ids.is_empty() {
            hurried = retrying::hurry(tx, &ids).await?.into_iter().collect();
            ids.retain(|id| !hurried.contains(id));
        }
        if !ids.is_empty() {
            finals = retrying::final_states(tx, &ids).await?;
        }
        Ok(Found { past, hurried, finals, superseded: HashSet::new(), now: items::now(tx).await? })
    }

    /// Separates items to retry from refused ones. Returns true if a refused item was already changed.
    fn judge(&self, found: &Found, locked: &Locked, refused: &mut Refused) -> Result<(Vec<&'a Retry>, bool)> {
        let mut done = Vec::with_capacity(self.retries.len());
        let mut spoiled = false;
        for &retry in &self.retries {
            let id = retry.item_id;
            let taken = found.past.contains_key(&id) || found.hurried.contains(&id);
            let expires_at = retry.expires_at.or(self.rows[&id].expires_at);
            let problem = if taken && expires_at.is_some_and(|at| at <= found.now) {
                Some(Problem::new(Code::ItemExpired, "Its expires_at has passed: retry it with a later one."))
            } else {
                // The row of an item canceled with its job may not be updated yet, so the job's state is checked first.
                let refusal = self.refusal(retry, found, locked)?;
                refusal.or_else(|| (!taken).then(|| refusal::not_retryable(found.finals.get(&id).copied())))
            };
            if let Some(problem) = problem {
                spoiled |= taken;
                refused.insert(id, problem);
            } else {
                done.push(retry);
            }
        }
        Ok((done, spoiled))
    }

    /// Refusals by `idempotency-key`, `cancellation` and `retention`: ended trees that take nothing back.
    fn refusal(&self, retry: &Retry, found: &Found, locked: &Locked) -> Result<Option<Problem>> {
        let (plan, at) = self.place(retry)?;
        if locked.get(plan.root_gate())?.removed {
            return Ok(Some(Problem::new(Code::JobRemoved, "The job was removed.")));
        }
        for above in plan.above(at) {
            if locked.get(plan.jobs[above].gate_id)?.cancelled {
                return Ok(Some(Problem::new(Code::JobCancelled, "The job, or one above it, is cancelled.")));
            }
        }
        Ok(found.superseded.contains(&plan.root_id).then(|| {
            Problem::new(
                Code::Superseded,
                "A newer tree has taken this one's place under its Idempotency-Key; retry there.",
            )
        }))
    }

    fn place(&self, retry: &Retry) -> Result<(&Plan, usize)> {
        let plan = self.plans.get(&retry.job.root_id);
        plan.and_then(|plan| Some((plan.as_ref(), plan.place(retry.job.gate_id)?)))
            .ok_or(Error::Conflict("a job was removed"))
    }

    /// Reopens the jobs of the retried items. Returns the jobs with a decision to propagate.
    async fn reopen(&self, tx: &mut Tx, back: &[&Retry], locked: &mut Locked) -> Result<Vec<i64>> {
        let mut walks = Vec::new();
        let mut alone = Vec::new();
        let mut seen = BTreeSet::new();
        for retry in back {
            if !seen.insert(retry.job.gate_id) {
                continue;
            }
            let (plan, at) = self.place(retry)?;
            if plan.jobs.len() > 1 {
                walks.extend(settle::reopen(tx, plan, at, locked).await?);
            } else if locked.is_complete(retry.job.gate_id) {
                alone.push(retry.job.gate_id);
            }
        }
        if !alone.is_empty() {
            trees::reopen(tx, &alone).await?;
        }
        walks.sort_unstable();
        walks.dedup();
        Ok(walks)
    }

    /// Places the items and updates the counters. Returns the jobs to complete: `after` ends an item at once if a job
    /// it waits for has still failed, which completes its job again.
    async fn put(
        &self,
        core: &Core,
        tx: &mut Tx,
        back: &[&Retry],
        past: &HashMap<Uuid, Past>,
        intake: &mut Intake,
    ) -> Result<Vec<(i64, Uuid)>> {
        let gate_ids: BTreeSet<i64> =
            back.iter().flat_map(|retry| [retry.job.gate_id, retry.job.turn_gate_id]).collect();
        let gate_ids: Vec<i64> = gate_ids.into_iter().collect();
        let gates_now: HashMap<i64, gates::Locked> =
            gates::lock(tx, &gate_ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
        intake.open(tx, &gates_now).await?;
        let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
        let mut dead: Vec<(&JobInfo, &str)> = Vec::new();
        for retry in back {
            let (job, item, past) = (&retry.job, &self.rows[&retry.item_id], &past[&retry.item_id]);
            let gate = gates_now.get(&job.gate_id).ok_or(Error::Conflict("a job was removed"))?;
            let counts = &mut deltas.entry(job.gate_id).or_default().counts;
            match ItemState::from_code(past.state) {
                Some(ItemState::Dead) => {
                    counts.dead -= 1;
                    dead.extend(past.fingerprint.as_deref().map(|print| (job.as_ref(), print)));
                }
                Some(ItemState::Expired) => counts.expired -= 1,
                _ => counts.cancelled -= 1,
            }
            let going = Going {
                id: item.id,
                rank: -item.priority,
                serialize_key: item.serialize_key.as_deref(),
                run_after: item.run_after,
                expires_at: retry.expires_at.or(item.expires_at),
                attempts: past.attempt,
                failures: 0,
            };
            intake.put(core, tx, job, going, gate, &mut deltas).await?;
        }
        intake.write(core, tx, &mut deltas).await?;
        let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
        let after = gates::apply(tx, &deltas).await?;
        if after.len() != deltas.len() {
            return Err(Error::Conflict("a job was cancelled"));
        }
        groups::uncount(tx, &dead).await?;
        Ok(after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect())
    }
}

/// Writes the edits of the items, and the audit log entries.
async fn write_down(tx: &mut Tx, done: &[&Retry]) -> Result<()> {
    let edited = done.iter().filter_map(|retry| Some((retry.item_id, retry.payload.as_deref()?)));
    let (ids, payloads): (Vec<Uuid>, Vec<&str>) = edited.unzip();
    if !ids.is_empty() {
        retrying::edit(tx, &ids, &payloads).await?;
    }
    let anew: Vec<Uuid> = done.iter().filter(|retry| retry.restart).map(|retry| retry.item_id).collect();
    if !anew.is_empty() {
        retrying::restart(tx, &anew).await?;
    }
    for retry in done {
        if let Some(at) = retry.expires_at {
            retrying::set_expiry(tx, retry.item_id, at).await?;
        }
    }
    let deeds: Vec<deeds::AuditRow> = done.iter().filter_map(|retry| retry.deed.clone()).collect();
    Ok(deeds::record_all(tx, &deeds).await?)
}
