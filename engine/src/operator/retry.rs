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
    Core, Engine,
    access::caller::{Caller, Scope},
    enqueue::{
        add::{AddedRows, rows::PendingItem},
        item_intake::Intake,
    },
    error::{Error, Result},
    notify::{audit, error_groups},
    store::{
        Tx,
        dispatch::event_waits,
        enqueue::items,
        notify::audit as audit_log,
        operator::item_changes::{self, FinalState, PreviousOutcome, RetriedItem},
        retention::maintenance_checks,
        tree::{
            completion as tree_states,
            definitions::JobInfo,
            job_states::{self, Delta},
        },
    },
    tree::{
        bulk_tally::Tally,
        completion::{self, LockedJobs},
        dependency_graph::DependencyGraph,
        propagation as row_propagation,
    },
};

/// Validated retry.
#[derive(Clone)]
pub(crate) struct Retry {
    pub(crate) item_id: Uuid,
    pub(crate) job: Arc<JobInfo>,
    pub(crate) payload: Option<String>,
    pub(crate) expires_at: Option<time::OffsetDateTime>,
    pub(crate) restart: bool,
    pub(crate) audit_row: Option<audit_log::AuditRow>,
}

/// Refused items, each with the reason.
pub type Refused = HashMap<Uuid, Problem>;

impl Engine {
    /// Job of an item, if it is visible to the caller.
    pub(crate) async fn job_of_item(&self, caller: &Caller, item_id: Uuid) -> Result<Arc<JobInfo>> {
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
            let audit_row = audit::row(caller, "item.retry", job.owner_id, reason.as_deref());
            let audit_row = audit_row.map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
            let payload = body.payload.map(|payload| core.checked_payload(&job, payload)).transpose()?;
            let expires_at = body.expires_at.map(|at| at.0);
            retries.push(Retry { item_id, job, payload, expires_at, restart: body.restart, audit_row });
        }
        core.record_requester(caller, retries.iter().map(|retry| &*retry.job)).await?;
        let retries = Arc::new(retries);
        core.in_task_with_retries("retrying items", move |core: Arc<Core>| {
            let retries = Arc::clone(&retries);
            async move { retry_many(&core, retries.iter().collect(), None).await }
        })
        .await
    }
}

impl Core {
    /// Jobs of those of these items that are visible to the caller.
    pub(crate) async fn jobs_of_items(
        &self,
        caller: &Caller,
        item_ids: &[Uuid],
    ) -> Result<HashMap<Uuid, Arc<JobInfo>>> {
        let items = item_changes::items(&self.pools.read, item_ids).await?;
        let job_keys: BTreeSet<i64> = items.iter().map(|item| item.job_key).collect();
        let jobs = self.jobs.by_job_keys(&self.pools.read, job_keys).await?;
        let visible = |job: &&Arc<JobInfo>| caller.visible_owner().is_none_or(|owner| owner == job.owner_id);
        let job_of = |item: &RetriedItem| jobs.get(&item.job_key).filter(visible).map(Arc::clone);
        Ok(items.iter().filter_map(|item| Some((item.id, job_of(item)?))).collect())
    }
}

/// Retries items in one transaction; returns the refused ones. Members of a bulk operation are all counted in it,
/// retried or not.
pub(crate) async fn retry_many(core: &Arc<Core>, retries: Vec<&Retry>, mut tally: Option<Tally>) -> Result<Refused> {
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
    rows: HashMap<Uuid, RetriedItem>,
    graphs: BTreeMap<Uuid, Arc<DependencyGraph>>,
}

/// State of the items, read under their locks.
struct Found {
    past: HashMap<Uuid, PreviousOutcome>,
    hurried: HashSet<Uuid>,
    finals: HashMap<Uuid, FinalState>,
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
        let rows: HashMap<Uuid, RetriedItem> =
            item_changes::items(&core.pools.read, &ids).await?.into_iter().map(|row| (row.id, row)).collect();
        let mut roots: BTreeSet<Uuid> = retries.iter().map(|retry| retry.job.root_id).collect();
        roots.extend(tally.into_iter().flat_map(Tally::roots));
        let graphs = core.graphs.of_all(&core.pools.read, roots).await?;
        retries.retain(|retry| {
            let exists = rows.contains_key(&retry.item_id)
                && graphs.get(&retry.job.root_id).is_some_and(|graph| graph.position(retry.job.job_key).is_some());
            if !exists {
                refused.insert(retry.item_id, Problem::not_found("item"));
            }
            exists
        });
        Ok(Self { retries, rows, graphs })
    }

    /// Job state row ids of all jobs in trees with retried items, and of the roots of the other trees. Ascending.
    fn job_keys(&self) -> Vec<i64> {
        let pending: BTreeSet<Uuid> = self.retries.iter().map(|retry| retry.job.root_id).collect();
        let mut job_keys: Vec<i64> = Vec::new();
        for graph in self.graphs.values() {
            if pending.contains(&graph.root_id) {
                job_keys.extend(graph.jobs.iter().map(|job| job.job_key));
            } else {
                job_keys.push(graph.root_job_key());
            }
        }
        job_keys.sort_unstable();
        job_keys
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

        let mut tx = crate::store::begin(&core.pools.hot).await?;
        intake.lock_serialize_queues(&mut tx, []).await?;
        intake.read_heads(&mut tx).await?;
        let mut found = self.take(&mut tx).await?;
        let mut locked = LockedJobs::read(&mut tx, &self.job_keys()).await?;
        let roots: Vec<Uuid> = self.graphs.keys().copied().collect();
        found.superseded = tree_states::superseded(&mut tx, &roots).await?.into_iter().collect();
        let (done, refused_after_change) = self.decide(&found, &locked, refused)?;
        if refused_after_change {
            return Ok(Some(done));
        }

        write_edits(&mut tx, &done).await?;
        let back: Vec<&Retry> = done.iter().copied().filter(|retry| found.past.contains_key(&retry.item_id)).collect();
        let mut to_complete: Vec<(i64, Uuid)> = Vec::new();
        let mut reopened: Vec<i64> = Vec::new();
        if !back.is_empty() {
            reopened = self.reopen(&mut tx, &back, &mut locked).await?;
            to_complete = self.place_items(core, &mut tx, &back, &found.past, &mut intake).await?;
        }
        if let Some(tally) = &mut tally {
            for (&item_id, problem) in &*refused {
                tally.skip(item_id, problem.code.as_str());
            }
            tally.write(core, &mut tx, &self.graphs).await?;
        }
        if !to_complete.is_empty() {
            job_states::request_completion_checks(&mut tx, &to_complete.iter().map(|s| s.0).collect::<Vec<_>>())
                .await?;
        }
        crate::store::commit(tx).await?;
        AddedRows::of(&intake, roots, to_complete).after_commit(core).await;
        row_propagation::first_steps(core, &reopened).await;
        Ok(None)
    }

    /// Removes the items from their current state. Items that cannot be removed are looked up.
    async fn take(&self, tx: &mut Tx) -> Result<Found> {
        let mut waiting: Vec<_> = self.retries.iter().map(|retry| (retry.item_id, retry.expires_at)).collect();
        waiting.sort_unstable();
        let ids: Vec<Uuid> = waiting.iter().map(|item| item.0).collect();
        let past = item_changes::take_outcomes(tx, &ids).await?;
        let past: HashMap<Uuid, PreviousOutcome> = past.into_iter().map(|past| (past.item_id, past)).collect();
        waiting.retain(|(id, _)| !past.contains_key(id));
        let started: Vec<Uuid> = past.values().filter(|past| past.attempt > 0).map(|past| past.item_id).collect();
        let undated: Vec<Uuid> = past.values().filter(|past| past.without_attempt).map(|past| past.item_id).collect();
        if !started.is_empty() || !undated.is_empty() {
            item_changes::forget_starts(tx, &started, &undated).await?;
        }
        let mut hurried = HashSet::new();
        let mut finals = HashMap::new();
        if !waiting.is_empty() {
            hurried = item_changes::make_due(tx, &waiting).await?.into_iter().collect();
            waiting.retain(|(id, _)| !hurried.contains(id));
        }
        if !waiting.is_empty() {
            let ids: Vec<Uuid> = waiting.iter().map(|item| item.0).collect();
            finals = item_changes::final_states(tx, &ids).await?;
        }
        Ok(Found { past, hurried, finals, superseded: HashSet::new(), now: items::now(tx).await? })
    }

    /// Separates items to retry from refused ones. Returns true if a refused item was already changed.
    fn decide(&self, found: &Found, locked: &LockedJobs, refused: &mut Refused) -> Result<(Vec<&'a Retry>, bool)> {
        let mut done = Vec::with_capacity(self.retries.len());
        let mut refused_after_change = false;
        for &retry in &self.retries {
            let id = retry.item_id;
            let taken = found.past.contains_key(&id) || found.hurried.contains(&id);
            let expires_at = retry.expires_at.or(self.rows[&id].expires_at);
            let problem = if taken && expires_at.is_some_and(|at| at <= found.now) {
                Some(Problem::new(Code::ItemExpired, "Its expires_at has passed: retry it with a later one."))
            } else {
                // The row of an item canceled with its job may not be updated yet, so the job's state is checked first.
                let refusal = self.refusal(retry, found, locked)?;
                let unusable = found.past.get(&id).is_some_and(|past| past.unusable) && retry.payload.is_none();
                refusal
                    .or_else(|| unusable.then(refusal::unusable))
                    .or_else(|| (!taken).then(|| refusal::not_retryable(found.finals.get(&id).copied())))
            };
            if let Some(problem) = problem {
                refused_after_change |= taken;
                refused.insert(id, problem);
            } else {
                done.push(retry);
            }
        }
        Ok((done, refused_after_change))
    }

    /// Refusals by `idempotency-key`, `cancellation` and `retention`: ended trees that take nothing back.
    fn refusal(&self, retry: &Retry, found: &Found, locked: &LockedJobs) -> Result<Option<Problem>> {
        let (graph, at) = self.place(retry)?;
        if locked.get(graph.root_job_key())?.deleted {
            return Ok(Some(Problem::new(Code::JobRemoved, "The job was removed.")));
        }
        for above in graph.with_ancestors(at) {
            if locked.get(graph.jobs[above].job_key)?.cancelled {
                return Ok(Some(Problem::new(Code::JobCancelled, "The job, or one above it, is canceled.")));
            }
        }
        Ok(found.superseded.contains(&graph.root_id).then(|| {
            Problem::new(
                Code::Superseded,
                "A newer job has taken this one's place under its Idempotency-Key. Retry that one.",
            )
        }))
    }

    fn place(&self, retry: &Retry) -> Result<(&DependencyGraph, usize)> {
        let graph = self.graphs.get(&retry.job.root_id);
        graph
            .and_then(|graph| Some((graph.as_ref(), graph.position(retry.job.job_key)?)))
            .ok_or(Error::Conflict("a job was removed"))
    }

    /// Reopens the jobs of the retried items. Returns the jobs with a decision to propagate.
    async fn reopen(&self, tx: &mut Tx, back: &[&Retry], locked: &mut LockedJobs) -> Result<Vec<i64>> {
        let mut propagations = Vec::new();
        let mut alone = Vec::new();
        let mut seen = BTreeSet::new();
        for retry in back {
            if !seen.insert(retry.job.job_key) {
                continue;
            }
            let (graph, at) = self.place(retry)?;
            if graph.jobs.len() > 1 {
                propagations.extend(completion::reopen(tx, graph, at, locked).await?);
            } else if locked.is_complete(retry.job.job_key) {
                alone.push(retry.job.job_key);
            }
        }
        if !alone.is_empty() {
            maintenance_checks::check_reopened(tx, &alone).await?;
            tree_states::reopen(tx, &alone).await?;
        }
        propagations.sort_unstable();
        propagations.dedup();
        Ok(propagations)
    }

    /// Places the items and updates the counters. Returns the jobs to complete: `after` ends an item at once if a job
    /// it waits for has still failed, which completes its job again.
    async fn place_items(
        &self,
        core: &Core,
        tx: &mut Tx,
        back: &[&Retry],
        past: &HashMap<Uuid, PreviousOutcome>,
        intake: &mut Intake,
    ) -> Result<Vec<(i64, Uuid)>> {
        let job_keys: BTreeSet<i64> =
            back.iter().flat_map(|retry| [retry.job.job_key, retry.job.fair_turn_job_key]).collect();
        let job_keys: Vec<i64> = job_keys.into_iter().collect();
        let job_states_now: HashMap<i64, job_states::LockedJobState> = job_states::lock(tx, &job_keys)
            .await?
            .into_iter()
            .map(|job_state| (job_state.job_key, job_state))
            .collect();
        intake.open(tx, &job_states_now).await?;
        let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
        let mut dead: Vec<(&JobInfo, &str)> = Vec::new();
        for retry in back {
            let (job, item, past) = (&retry.job, &self.rows[&retry.item_id], &past[&retry.item_id]);
            let job_state = job_states_now.get(&job.job_key).ok_or(Error::Conflict("a job was removed"))?;
            let counts = &mut deltas.entry(job.job_key).or_default().counts;
            match ItemState::from_code(past.state) {
                Some(ItemState::Dead) => {
                    counts.dead -= 1;
                    dead.extend(past.fingerprint.as_deref().map(|print| (job.as_ref(), print)));
                }
                Some(ItemState::Expired) => counts.expired -= 1,
                _ => counts.cancelled -= 1,
            }
            let pending = PendingItem {
                id: item.id,
                negated_priority: -item.priority,
                serialize_key: item.serialize_key.as_deref(),
                run_after: item.run_after.filter(|_| past.attempt == 0),
                expires_at: retry.expires_at.or(item.expires_at),
                attempts: past.attempt,
                failures: 0,
            };
            intake.put(core, tx, job, pending, job_state, &mut deltas).await?;
        }
        intake.write(core, tx, &mut deltas).await?;
        let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
        let after = job_states::apply(tx, &deltas).await?;
        if after.len() != deltas.len() {
            return Err(Error::Conflict("a job was canceled"));
        }
        error_groups::uncount(tx, &dead).await?;
        Ok(after.iter().filter(|a| a.needs_completion_check).map(|a| (a.job_key, a.root_id)).collect())
    }
}

/// Writes the edits of the items, and the audit log entries.
async fn write_edits(tx: &mut Tx, done: &[&Retry]) -> Result<()> {
    let edited = done.iter().filter_map(|retry| Some((retry.item_id, retry.payload.as_deref()?)));
    let (ids, payloads): (Vec<Uuid>, Vec<&str>) = edited.unzip();
    if !ids.is_empty() {
        item_changes::edit(tx, &ids, &payloads).await?;
    }
    let restarted: Vec<Uuid> = done.iter().filter(|retry| retry.restart).map(|retry| retry.item_id).collect();
    if !restarted.is_empty() {
        item_changes::forget_steps(tx, &restarted).await?;
        event_waits::forget(tx, &restarted).await?;
    }
    for retry in done {
        if let Some(at) = retry.expires_at {
            item_changes::set_expiry(tx, retry.item_id, at).await?;
        }
    }
    let audit_rows: Vec<audit_log::AuditRow> = done.iter().filter_map(|retry| retry.audit_row.clone()).collect();
    Ok(audit_log::record_all(tx, &audit_rows).await?)
}
