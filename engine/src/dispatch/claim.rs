//! Claiming half of a work batch, and claims that wait.
//!
//! Claims of one type in one batch are a single statement; slots are filled in the order of arrival. A capped type is
//! locked first and then counted in a separate statement, so the cap is exact for any number of servers (`claiming`).
//! Types with a `rate-limit` or `concurrency-by-key` are locked, too.

mod rate_and_key_limits; // claims of types with limits on their starts
mod type_order; // order of the types of a claim
mod wait; // claims that wait

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use domain::{
    Code, Document, Problem, Time,
    api::{AssignedItem, Assignment, Claim, Inputs, Refused},
    event_wait::ReceivedEvent,
    item::Step,
    job_type::ExecutorKind,
    limits,
};
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::caller::{Caller, Scope},
    enqueue::key_locks::KeyGuard,
    error::{Error, Result},
    store::{
        Tx,
        dispatch::{
            claim_requests,
            claim_slots::ClaimSlot,
            event_waits,
            leases::{self, ClaimCursor, ClaimedRow, LockedType},
        },
        import::results,
        tree::{
            definitions::{JobInfo, TypeInfo},
            job_states::Delta,
        },
    },
};

use super::builtin_executors;

/// One validated claim.
#[derive(Clone, Debug)]
pub(crate) struct ClaimCommand {
    pub(crate) credential_id: Uuid,
    pub(crate) worker_id: String,
    pub(crate) types: Vec<i32>,
    pub(crate) item_ids: Option<Vec<Uuid>>,
    pub(crate) max: usize,
    pub(crate) claim_id: Option<Uuid>,
    /// Exclusive right to the `claim_id` while the claim runs.
    pub(crate) claim_id_guard: Option<Arc<KeyGuard>>,
}

/// Locks the limited types of the claims, in order. Runs before everything else in the batch.
pub(crate) async fn lock_limited(
    core: &Core,
    tx: &mut Tx,
    claims: &[&ClaimCommand],
) -> Result<HashMap<i32, LockedType>> {
    let mut limited_ids: Vec<i32> = claims
        .iter()
        .flat_map(|claim| claim.types.iter().copied())
        .filter(|&id| {
            let limited = |t: &TypeInfo| t.concurrency.is_some() || !t.limits.is_empty();
            core.types.by_id(id).is_some_and(|t| limited(&t) && !t.paused)
        })
        .collect();
    limited_ids.sort_unstable();
    limited_ids.dedup();
    let mut locked_types = HashMap::new();
    for type_id in limited_ids {
        locked_types.insert(type_id, leases::lock_type(tx, type_id).await?);
    }
    Ok(locked_types)
}

/// Items handed out by the claiming half of a batch, by claim.
#[derive(Default)]
pub(crate) struct ClaimRows {
    pub(crate) rows: Vec<Vec<ClaimedRow>>,
    /// Items that claims by `item_ids` could not get.
    pub(crate) refused: Vec<Vec<Refused>>,
    /// Job and seconds waited, of items that start for the first time.
    pub(crate) waits: Vec<(i64, f64)>,
    /// Types that a limit on their starts held back, and the seconds after which it may allow more.
    pub(crate) wake_after: Vec<(i32, f64)>,
}

/// Fills the claims and updates the counters of the affected jobs.
pub(crate) async fn claim_all(
    core: &Core,
    tx: &mut Tx,
    claims: &[&ClaimCommand],
    locked_types: &HashMap<i32, LockedType>,
    deltas: &mut BTreeMap<i64, Delta>,
) -> Result<ClaimRows> {
    let mut filled = ClaimRows {
        rows: vec![Vec::new(); claims.len()],
        refused: vec![Vec::new(); claims.len()],
        ..ClaimRows::default()
    };
    let mut wanted: Vec<usize> = Vec::new();
    for (at, claim) in claims.iter().enumerate() {
        let before = match claim.claim_id {
            Some(id) => claim_requests::assignments_of(tx, claim.credential_id, id).await?,
            None => None,
        };
        if let Some(assignment_ids) = before {
            filled.rows[at] = leases::open(tx, &assignment_ids).await?;
        } else if let Some(ids) = &claim.item_ids {
            filled.rows[at] = claim_by_ids(core, tx, claim, ids, locked_types, &mut filled).await?;
            filled.refused[at] = refusals(ids, &filled.rows[at]);
            count(&filled.rows[at], deltas);
            remember(tx, claim, &filled.rows[at]).await?;
        } else {
            wanted.push(at);
        }
    }
    let type_orders = type_order::type_orders(core, tx, claims, &wanted).await?;
    let rounds = type_orders.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        let mut by_type: BTreeMap<i32, Vec<usize>> = BTreeMap::new();
        for (&at, types) in wanted.iter().zip(&type_orders) {
            if let Some(&type_id) = types.get(round).filter(|_| filled.rows[at].len() < claims[at].max) {
                by_type.entry(type_id).or_default().push(at);
            }
        }
        for (type_id, takers) in by_type {
            let Some(info) = core.types.by_id(type_id).filter(|info| !info.paused) else { continue };
            let mut owner_of: HashMap<Uuid, usize> = HashMap::new();
            let mut slots = Vec::new();
            for at in takers {
                for _ in filled.rows[at].len()..claims[at].max {
                    let slot = slot(claims[at]);
                    owner_of.insert(slot.assignment_id, at);
                    slots.push(slot);
                }
            }
            let room = room(tx, type_id, locked_types).await?;
            slots.truncate(room.unwrap_or(usize::MAX));
            let rows = match locked_types.get(&type_id).filter(|locked| !locked.limits.is_empty()) {
                Some(locked) => {
                    rate_and_key_limits::claim(core, tx, (&info, &locked.limits), &slots, None, &mut filled.wake_after)
                        .await?
                }
                None => claim_type(core, tx, &info, &slots).await?,
            };
            filled.waits.extend(first_waits(&info, &rows));
            for row in rows {
                count(std::slice::from_ref(&row), deltas);
                filled.rows[owner_of[&row.assignment_id]].push(row);
            }
        }
    }
    for at in wanted {
        remember(tx, claims[at], &filled.rows[at]).await?;
    }
    Ok(filled)
}

fn slot(claim: &ClaimCommand) -> ClaimSlot {
    ClaimSlot { assignment_id: Uuid::now_v7(), credential_id: claim.credential_id, worker_id: claim.worker_id.clone() }
}

/// Number of items of a capped type that may still start; `None` without a cap.
async fn room(tx: &mut Tx, type_id: i32, locked_types: &HashMap<i32, LockedType>) -> Result<Option<usize>> {
    let Some(cap) = locked_types.get(&type_id).and_then(|locked| locked.concurrency) else { return Ok(None) };
    let open = leases::count_open(tx, type_id).await?;
    Ok(Some(usize::try_from(i64::from(cap) - open).unwrap_or(0)))
}

/// Claims items of one type from the low-water mark, and again from the bottom if that did not fill all slots.
async fn claim_type(core: &Core, tx: &mut Tx, info: &TypeInfo, slots: &[ClaimSlot]) -> Result<Vec<ClaimedRow>> {
    if slots.is_empty() {
        return Ok(Vec::new());
    }
    let start = core.low_water_marks.start(info.id);
    let times = (builtin_executors::lease_of(info), info.run_timeout_seconds);
    let cancelled_jobs = core.cancelled_jobs.job_keys();
    let mut rows = leases::claim(tx, info.id, start, slots, times, &cancelled_jobs).await?;
    if rows.len() < slots.len() && start != ClaimCursor::BOTTOM {
        let rest = &slots[rows.len()..];
        rows.extend(leases::claim(tx, info.id, ClaimCursor::BOTTOM, rest, times, &cancelled_jobs).await?);
    }
    let first =
        rows.iter().map(|row| ClaimCursor { negated_priority: row.negated_priority, fair_turn: row.fair_turn }).min();
    core.low_water_marks.found(info.id, first.unwrap_or(ClaimCursor::BOTTOM));
    Ok(rows)
}

async fn claim_by_ids(
    core: &Core,
    tx: &mut Tx,
    claim: &ClaimCommand,
    item_ids: &[Uuid],
    locked_types: &HashMap<i32, LockedType>,
    filled: &mut ClaimRows,
) -> Result<Vec<ClaimedRow>> {
    let mut ids = item_ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    let mut rows = Vec::new();
    for &type_id in &claim.types {
        let Some(info) = core.types.by_id(type_id).filter(|info| !info.paused) else { continue };
        let n = ids.len().min(room(tx, type_id, locked_types).await?.unwrap_or(usize::MAX));
        let slots: Vec<ClaimSlot> = (0..n).map(|_| slot(claim)).collect();
        let times = (builtin_executors::lease_of(&info), info.run_timeout_seconds);
        let claimed = match locked_types.get(&type_id).filter(|locked| !locked.limits.is_empty()) {
            Some(locked) => {
                rate_and_key_limits::claim(
                    core,
                    tx,
                    (&info, &locked.limits),
                    &slots,
                    Some(&ids),
                    &mut filled.wake_after,
                )
                .await?
            }
            None => leases::claim_items(tx, &ids, &[type_id], &slots, times, &core.cancelled_jobs.job_keys()).await?,
        };
        filled.waits.extend(first_waits(&info, &claimed));
        rows.extend(claimed);
    }
    Ok(rows)
}

/// Job and seconds from addition to start of items that start for the first time, for the statistics. Both times are the
/// database's.
fn first_waits<'a>(info: &TypeInfo, rows: &'a [ClaimedRow]) -> impl Iterator<Item = (i64, f64)> + use<'a> {
    let lease = builtin_executors::lease_of(info);
    rows.iter()
        .filter(|row| row.attempt == 1)
        .map(move |row| (row.job_key, (row.lease_expires_at - row.created_at).as_seconds_f64() - lease))
}

fn refusals(ids: &[Uuid], rows: &[ClaimedRow]) -> Vec<Refused> {
    let mut seen = HashSet::new();
    ids.iter()
        .filter(|id| seen.insert(**id))
        .filter(|id| rows.iter().all(|row| row.item_id != **id))
        .map(|&item_id| Refused { item_id, reason: "not_available".to_owned() })
        .collect()
}

/// Empty claims are not recorded, so a retry with the same claim id may still wait. A claim with an empty `item_ids`
/// closes its claim id: a worker that aborts a long poll sends one to learn which items the poll took, and any copy of
/// the poll still in flight then takes nothing.
async fn remember(tx: &mut Tx, claim: &ClaimCommand, rows: &[ClaimedRow]) -> Result<()> {
    let closes = claim.item_ids.as_ref().is_some_and(Vec::is_empty);
    if let Some(id) = claim.claim_id
        && (closes || !rows.is_empty())
    {
        let assignment_ids: Vec<Uuid> = rows.iter().map(|row| row.assignment_id).collect();
        claim_requests::insert(tx, claim.credential_id, id, &assignment_ids).await?;
    }
    Ok(())
}

fn count(rows: &[ClaimedRow], deltas: &mut BTreeMap<i64, Delta>) {
    for row in rows {
        let delta = deltas.entry(row.job_key).or_default();
        delta.counts.available -= 1;
        delta.counts.running += 1;
        delta.starts = true;
    }
}

/// Context of items besides their rows.
#[derive(Default)]
pub(crate) struct ClaimContext {
    jobs: HashMap<i64, Arc<JobInfo>>,
    steps: HashMap<Uuid, Step>,
    events: HashMap<Uuid, ReceivedEvent>,
    inputs: HashMap<i64, BTreeMap<String, Inputs>>,
}

impl ClaimContext {
    /// Counts how long items waited for their first attempt. Call this after the commit.
    pub(crate) fn count_waits(&self, core: &Core, waits: &[(i64, f64)]) {
        for waits in waits.chunk_by(|one, next| one.0 == next.0) {
            let Some(job) = self.jobs.get(&waits[0].0) else { continue };
            core.activity_counters.with(&job.type_name, |activity| {
                for (_, seconds) in waits {
                    activity.wait.record(*seconds);
                }
            });
            let histogram = metrics::histogram!("treeline_wait_seconds", "type" => job.type_name.clone());
            for (_, seconds) in waits {
                histogram.record(*seconds);
            }
        }
    }
}

/// Reads the context that assignments carry besides the item rows.
pub(crate) async fn context(core: &Core, tx: &mut Tx, rows: &[Vec<ClaimedRow>]) -> Result<ClaimContext> {
    let mut context = ClaimContext::default();
    if rows.iter().all(Vec::is_empty) {
        return Ok(context);
    }
    context.jobs = core.jobs.by_job_keys(&mut **tx, rows.iter().flatten().map(|row| row.job_key)).await?;
    if context.jobs.values().any(|job| !job.steps.is_empty()) {
        let ids: Vec<Uuid> = rows.iter().flatten().map(|row| row.item_id).collect();
        for (item_id, name, data) in leases::steps(tx, &ids).await? {
            context.steps.insert(item_id, Step { name, data: Document::trusted(data) });
        }
    }
    // A wait ends an attempt, so a first attempt has no event.
    let repeated: Vec<Uuid> = rows.iter().flatten().filter(|row| row.attempt > 1).map(|row| row.item_id).collect();
    if !repeated.is_empty() {
        context.events.extend(event_waits::received(tx, &repeated).await?);
    }
    for job in context.jobs.values().filter(|job| job.waits) {
        context.inputs.insert(job.job_key, inputs_of(core, tx, job).await?);
    }
    Ok(context)
}

/// Assignments as workers receive them.
pub(crate) fn assignments(core: &Core, context: ClaimContext, rows: Vec<Vec<ClaimedRow>>) -> Vec<Vec<Assignment>> {
    let ClaimContext { jobs, mut steps, mut events, inputs } = context;
    let with_heartbeat = |job: Arc<JobInfo>| {
        let heartbeat_seconds = core.types.by_id(job.type_id).map_or(60.0, |info| info.heartbeat_seconds);
        (job.job_key, (job, heartbeat_seconds))
    };
    let jobs: HashMap<i64, (Arc<JobInfo>, f64)> = jobs.into_values().map(with_heartbeat).collect();
    let mut to_assignment = |row: ClaimedRow| -> Option<Assignment> {
        let (job, heartbeat_seconds) = jobs.get(&row.job_key)?;
        Some(Assignment {
            inputs: inputs.get(&row.job_key).cloned(),
            id: row.assignment_id,
            attempt: row.attempt,
            lease_expires_at: Time(row.lease_expires_at),
            heartbeat_seconds: *heartbeat_seconds,
            item: AssignedItem {
                id: row.item_id,
                job_id: job.job_id,
                root_id: job.root_id,
                job_type: job.type_name.clone(),
                seq: row.seq,
                row: row.row,
                attempts: row.attempt,
                failures: row.failures,
                delivery: job.delivery,
                max_failures: job.max_failures,
                payload: Document::trusted(row.payload),
                metadata: row.metadata.map_or_else(Document::empty_object, Document::trusted),
                step: steps.remove(&row.item_id),
                event: events.remove(&row.item_id),
                dedupe_key: row.dedupe_key,
                serialize_key: row.serialize_key,
                priority: -row.negated_priority,
                expires_at: row.expires_at.map(Time),
                created_at: Time(row.created_at),
                traceparent: row.traceparent.and_then(|text| text.parse().ok()).or(job.traceparent),
            },
        })
    };
    rows.into_iter().map(|rows| rows.into_iter().filter_map(&mut to_assignment).collect()).collect()
}

/// Outputs of the jobs that this one waited for (`after`): the results if the job had a single item, else a link to
/// them.
async fn inputs_of(core: &Core, tx: &mut Tx, job: &JobInfo) -> Result<BTreeMap<String, Inputs>> {
    let graph = core.graphs.of(&mut **tx, job.root_id).await?;
    let Some(at) = graph.position(job.job_key) else { return Ok(BTreeMap::new()) };
    let mut inputs = BTreeMap::new();
    for &before in &graph.jobs[at].after {
        let before = &graph.jobs[before];
        let results = results::only_result(tx, before.job_key).await?;
        let input = match results {
            Some(result) => Inputs::Results(result.into_iter().map(Document::trusted).collect()),
            None => Inputs::Link(format!("/api/v1/jobs/{}/results", before.job_id)),
        };
        inputs.insert(before.key.clone(), input);
    }
    Ok(inputs)
}

impl Engine {
    /// Validates a claim: bounds, existing types, pull executors, and the types that the token may work on.
    pub(crate) async fn check_claim(&self, caller: &Caller, claim: Claim) -> Result<ClaimCommand> {
        caller.require(Scope::Work)?;
        let fault =
            |pointer: &str, detail: &str| Error::from(Problem::invalid_body([(pointer.to_owned(), detail.to_owned())]));
        if !limits::is_text(&claim.worker_id, 1, limits::LONGEST_WORKER_ID) {
            return Err(fault("/worker_id", "expected 1 to 200 characters"));
        }
        let max = claim.max.unwrap_or(1);
        if !(1..=limits::MOST_CLAIMED).contains(&max) {
            return Err(fault("/max", "expected a whole number from 1 to 1000"));
        }
        if claim.wait_seconds.is_some_and(|s| s > limits::LONGEST_WAIT_SECONDS) {
            return Err(fault("/wait_seconds", "expected a whole number from 0 to 30"));
        }
        if claim.types.is_empty() == claim.item_ids.is_none() {
            return Err(fault("/types", "expected either types or item_ids"));
        }
        if claim.types.len() > limits::MOST_IDS {
            return Err(fault("/types", "expected at most 1000 types"));
        }
        if claim.item_ids.as_ref().is_some_and(|ids| ids.len() > limits::MOST_IDS) {
            return Err(fault("/item_ids", "expected at most 1000 ids"));
        }
        let allowed = |name: &str| caller.work_types.as_ref().is_none_or(|types| types.iter().any(|t| t == name));
        let types: Vec<Arc<TypeInfo>> = if claim.item_ids.is_some() {
            let pulled = |info: &Arc<TypeInfo>| info.executor.kind == ExecutorKind::Pull && allowed(&info.name);
            self.types().all().into_iter().filter(pulled).collect()
        } else {
            let mut types = Vec::with_capacity(claim.types.len());
            for (at, name) in claim.types.iter().enumerate() {
                let pointer = format!("/types/{at}");
                let Some(info) = self.types().find(name).await? else {
                    return Err(Problem {
                        errors: vec![domain::problem::FieldProblem {
                            pointer,
                            detail: "expected a job type".to_owned(),
                        }],
                        ..Problem::new(Code::UnknownJobType, format!("There is no job type \"{name:.100}\"."))
                    }
                    .into());
                };
                if !builtin_executors::may_claim(info.executor.kind, caller.credential_id) {
                    return Err(fault(&pointer, "expected a type whose executor is pull"));
                }
                if !allowed(name) {
                    return Err(Error::refuse(Code::Forbidden, format!("This token may not work on {name}.")));
                }
                types.push(info);
            }
            types
        };
        let mut ids: Vec<i32> = types.iter().map(|info| info.id).collect();
        ids.sort_unstable();
        ids.dedup();
        Ok(ClaimCommand {
            credential_id: caller.credential_id,
            worker_id: claim.worker_id,
            types: ids,
            item_ids: claim.item_ids,
            max: max as usize,
            claim_id: claim.claim_id,
            claim_id_guard: None,
        })
    }
}
