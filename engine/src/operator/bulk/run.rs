//! Processing of the members of a bulk operation through the use cases: items in batches, jobs one by one.
//!
//! A server reserves a slice for a limited time and processes it in order; another takes the rest when the time is
//! over. The size of a slice is decided under the operation's lock, so the rate limit holds across all servers.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use domain::{
    Code, Document,
    api::{BulkAction, PayloadEdit},
    document::edit::{self, Edit},
};
use uuid::Uuid;

use crate::{
    Core,
    access::caller::Caller,
    error::{Error, Result},
    notify::audit,
    store::{
        notify::audit as audit_log,
        operator::{
            bulk::{
                self, BulkRow,
                members::{self, Member, Pace},
            },
            item_changes,
        },
        page_range::PageRange,
        tree::definitions::JobInfo,
    },
    tree::{
        bulk_tally::{MemberOutcome, Tally},
        cancel::{self, CancelItem},
    },
};

use super::{
    super::retry::{self, Retry},
    Engine, IDLE,
    requester::requester,
};

/// Number of items that a server takes at once.
const SLICE: i64 = 500;
/// Number of jobs that a server takes at once.
const SLICE_OF_JOBS: i64 = 50;
/// Maximum number of payload bytes edited in one transaction.
const BATCH_BYTES: usize = 8 << 20;
/// Maximum number of jobs, over all trees, that one transaction locks; a single tree may have more.
const BATCH_JOBS: usize = 2_000;
/// Time for which a server holds a slice, in seconds.
const SLICE_SECONDS: f64 = 60.0;
/// Maximum number of attempts for a member that fails because of a server error.
const MOST_TRIES: i16 = 5;

/// Action applied to every member.
struct Operation {
    caller: Caller,
    action: BulkAction,
    on_items: bool,
    reason: Option<String>,
    edits: Vec<Edit>,
}

impl Operation {
    fn of(row: &BulkRow, caller: Caller) -> Result<Self> {
        let broken = || Error::Broken(format!("the bulk operation {} cannot be read", row.id));
        let edits: Vec<PayloadEdit> = serde_json::from_str(&row.payload_edit).map_err(|_| broken())?;
        Ok(Self {
            caller,
            action: BulkAction::parse(&row.action).ok_or_else(broken)?,
            on_items: row.target == "items",
            reason: row.reason.clone(),
            edits: edits.iter().map(PayloadEdit::read).collect::<Result<_, _>>().map_err(|_| broken())?,
        })
    }
}

/// Longest pause of a slow operation between two looks at it.
const LONGEST_PAUSE: Duration = Duration::from_mins(1);

/// Processes the next members of an operation. Returns the time until there is more to do.
pub(super) async fn slice(engine: &Engine, id: Uuid) -> Result<Duration> {
    let core = &engine.0.core;
    let Some(row) = bulk::list(&core.pools.read, Some(id), None, PageRange::newest(None, 1)).await?.pop() else {
        return Ok(IDLE);
    };
    let Some(caller) = requester(core, &row).await? else { return Ok(Duration::ZERO) };
    let operation = Operation::of(&row, caller)?;
    let mut tx = crate::store::begin(&core.pools.read).await?;
    let Some(pace) = members::lock_pace(&mut tx, id).await? else { return Ok(IDLE) };
    let (n, next) = allowed(pace, if operation.on_items { SLICE } else { SLICE_OF_JOBS });
    if n == 0 {
        return Ok(Duration::try_from_secs_f64(next.max(0.001)).unwrap_or(LONGEST_PAUSE).min(LONGEST_PAUSE));
    }
    let taken = members::take_members(&mut tx, id, n, SLICE_SECONDS).await?;
    if pace.rate.is_some() && !taken.is_empty() {
        members::set_pace(&mut tx, id, next).await?;
    }
    crate::store::commit(tx).await?;
    if taken.is_empty() {
        return Ok(IDLE);
    }
    let mut left = &taken[..];
    for n in batch_sizes(engine, &operation, &taken).await? {
        let done =
            if core.shutdown.is_cancelled() { Ok(false) } else { process(engine, &operation, id, &left[..n]).await };
        if !matches!(done, Ok(true)) {
            let left: Vec<Uuid> = left.iter().map(|member| member.member_id).collect();
            members::give_back(&core.pools.read, id, &left, 0.0).await?;
            done?;
            return Ok(IDLE);
        }
        left = &left[n..];
    }
    Ok(Duration::ZERO)
}

/// Number of members that may be taken now, at most `most`, and the seconds until the next is due; with zero, the
/// seconds until some are. Fast operations proceed in steps of a tenth of a second. Unused allowance expires after one
/// second, or after the interval of one member if that is longer.
fn allowed(pace: Pace, most: i64) -> (i64, f64) {
    let Some(rate) = pace.rate else { return (most, 0.0) };
    let window = (1.0 / rate).max(1.0);
    let idle = pace.idle_seconds.unwrap_or(window).min(window);
    let least = (rate / 10.0).clamp(1.0, most as f64);
    // A small tolerance, so that a member due exactly now is not lost to rounding.
    let n = (idle * rate + 1e-6).floor().min(most as f64).max(0.0);
    if n < least.floor() { (0, least / rate - idle) } else { (n as i64, n / rate - idle) }
}

/// Sizes of the batches, one transaction each, that bound the locks and the memory of a transaction. Jobs are processed
/// one by one.
async fn batch_sizes(engine: &Engine, operation: &Operation, taken: &[Member]) -> Result<Vec<usize>> {
    if !operation.on_items {
        return Ok(vec![1; taken.len()]);
    }
    let core = &engine.0.core;
    let graphs = core.graphs.of_all(&core.pools.read, taken.iter().map(|member| member.root_id)).await?;
    let mut bytes = HashMap::new();
    if !operation.edits.is_empty() {
        let ids: Vec<Uuid> = taken.iter().map(|member| member.member_id).collect();
        bytes = item_changes::payload_bytes(&core.pools.read, &ids).await?;
    }
    let mut batch_sizes = Vec::new();
    let (mut n, mut batch_bytes, mut batch_jobs) = (0, 0, 0);
    let mut roots = HashSet::new();
    for member in taken {
        let size = bytes.get(&member.member_id).copied().unwrap_or(0);
        let jobs = graphs.get(&member.root_id).map_or(0, |graph| graph.jobs.len());
        let more = if roots.contains(&member.root_id) { 0 } else { jobs };
        if n > 0 && (batch_bytes + size > BATCH_BYTES || batch_jobs + more > BATCH_JOBS) {
            batch_sizes.push(n);
            (n, batch_bytes, batch_jobs) = (0, 0, 0);
            roots.clear();
        }
        if roots.insert(member.root_id) {
            batch_jobs += jobs;
        }
        (n, batch_bytes) = (n + 1, batch_bytes + size);
    }
    batch_sizes.extend((n > 0).then_some(n));
    Ok(batch_sizes)
}

/// Processes members together, or in halves after a failure. Returns false if the operation no longer runs.
async fn process(engine: &Engine, operation: &Operation, bulk_id: Uuid, members: &[Member]) -> Result<bool> {
    let mut open = vec![members];
    while let Some(batch) = open.pop() {
        match process_together(engine, operation, bulk_id, batch).await {
            Ok(()) => {}
            Err(Error::Problem(problem)) if problem.code == Code::OperationOver => {
                return still_runs(engine, bulk_id).await;
            }
            Err(error) if error.is_database_away() => return Err(error),
            Err(error) if batch.len() > 1 => {
                tracing::debug!(%error, %bulk_id, n = batch.len(), "bulk batch failed");
                let (first, second) = batch.split_at(batch.len() / 2);
                open.extend([second, first]);
            }
            Err(error) => failed(engine, bulk_id, batch, &error).await?,
        }
    }
    Ok(true)
}

/// Retries a member later after a server error, or gives it up.
async fn failed(engine: &Engine, bulk_id: Uuid, batch: &[Member], error: &Error) -> Result<()> {
    let pool = &engine.0.core.pools.read;
    for member in batch {
        let id = member.member_id;
        if member.tries < MOST_TRIES {
            tracing::warn!(%error, %bulk_id, member = %id, "bulk member failed, retry scheduled");
            let pause = f64::from(1_u32 << member.tries.clamp(0, 6));
            members::give_back(pool, bulk_id, &[id], pause).await?;
            continue;
        }
        tracing::error!(%error, %bulk_id, member = %id, "bulk member failed");
        count(engine, bulk_id, *member, MemberOutcome::Errored).await?;
    }
    Ok(())
}

async fn still_runs(engine: &Engine, id: Uuid) -> Result<bool> {
    let row = bulk::list(&engine.0.core.pools.read, Some(id), None, PageRange::newest(None, 1)).await?.pop();
    Ok(row.is_some_and(|row| row.state == "running"))
}

/// Applies the action to these members and counts them.
async fn process_together(engine: &Engine, operation: &Operation, bulk_id: Uuid, batch: &[Member]) -> Result<()> {
    match (operation.action, operation.on_items) {
        (BulkAction::Retry, _) => retry_items(engine, operation, bulk_id, batch).await,
        (BulkAction::Cancel, true) => cancel_items(engine, operation, bulk_id, batch).await,
        (action, _) => {
            for &member in batch {
                if let Some(reason) = one_job(engine, operation, bulk_id, action, member).await? {
                    count(engine, bulk_id, member, MemberOutcome::Skipped(reason)).await?;
                }
            }
            Ok(())
        }
    }
}

/// Counts a member in a separate transaction, unless it is already counted.
async fn count(engine: &Engine, bulk_id: Uuid, member: Member, outcome: MemberOutcome) -> Result<()> {
    let mut tally = Tally::of(bulk_id, &[member]);
    tally.count(member.member_id, outcome);
    let count = move |core: Arc<Core>| {
        let tally = tally.clone();
        async move {
            let tally = tally.uncounted(&core.pools.read).await?;
            if tally.has(member.member_id) { tally.write_alone(&core).await } else { Ok(()) }
        }
    };
    engine.0.core.in_task_with_retries("counting a member of a bulk operation", count).await
}

/// Cancels or deletes one job and counts it. Returns the reason if it is refused; then it is not counted yet.
async fn one_job(
    engine: &Engine,
    operation: &Operation,
    bulk_id: Uuid,
    action: BulkAction,
    member: Member,
) -> Result<Option<&'static str>> {
    let (caller, reason, id) = (&operation.caller, operation.reason.as_deref(), member.member_id);
    let owner = engine.any_job(id).await?.map(|job| job.owner_id);
    note_owners(&engine.0.core, operation, bulk_id, owner.into_iter()).await?;
    let tally = Tally::of(bulk_id, &[member]);
    let done = if action == BulkAction::Delete {
        engine.delete_tree_for(caller, id, reason, Some(tally)).await
    } else {
        engine.cancel_job_for(caller, id, reason, Some(tally)).await
    };
    match done {
        Ok(()) => Ok(None),
        Err(Error::Problem(problem)) if problem.code != Code::OperationOver => Ok(Some(problem.code.as_str())),
        Err(error) => Err(error),
    }
}

/// Jobs of the items; refused items are reported to `tally`. The audit log has a single entry, the operation's, which
/// every owner of the items sees.
async fn members_of(
    core: &Core,
    operation: &Operation,
    bulk_id: Uuid,
    batch: &[Member],
    tally: &mut Tally,
) -> Result<Vec<(Uuid, Arc<JobInfo>)>> {
    let ids: Vec<Uuid> = batch.iter().map(|member| member.member_id).collect();
    let mut jobs = core.jobs_of_items(&operation.caller, &ids).await?;
    let mut members = Vec::with_capacity(ids.len());
    for id in ids {
        let Some(job) = jobs.remove(&id) else {
            tally.skip(id, Code::NotFound.as_str());
            continue;
        };
        match audit::reason_for(&operation.caller, job.owner_id, operation.reason.as_deref()) {
            Ok(_) => members.push((id, job)),
            Err(problem) => tally.skip(id, problem.code.as_str()),
        }
    }
    note_owners(core, operation, bulk_id, members.iter().map(|(_, job)| job.owner_id)).await?;
    Ok(members)
}

/// Shows the audit log entry of the operation to the owners of its members.
async fn note_owners(
    core: &Core,
    operation: &Operation,
    bulk_id: Uuid,
    owners: impl Iterator<Item = Uuid>,
) -> Result<()> {
    let owners: BTreeSet<Uuid> = owners.filter(|owner| *owner != operation.caller.owner_id).collect();
    if owners.is_empty() {
        return Ok(());
    }
    let mut connection = core.pools.read.acquire().await?;
    let owners: Vec<Uuid> = owners.into_iter().collect();
    Ok(audit_log::note_owners(&mut connection, bulk_id, &owners).await?)
}

async fn retry_items(engine: &Engine, operation: &Operation, bulk_id: Uuid, batch: &[Member]) -> Result<()> {
    let core = &engine.0.core;
    let mut tally = Tally::of(bulk_id, batch);
    let mut retries = Vec::with_capacity(batch.len());
    let members = members_of(core, operation, bulk_id, batch, &mut tally).await?;
    let mut texts = HashMap::new();
    if !operation.edits.is_empty() {
        let ids: Vec<Uuid> = members.iter().map(|member| member.0).collect();
        texts = item_changes::payloads(&core.pools.read, &ids).await?;
    }
    for (item_id, job) in members {
        let payload = match texts.remove(&item_id) {
            Some(text) => match edited(core, operation, &job, text) {
                Ok(text) => Some(text),
                Err(reason) => {
                    tally.skip(item_id, reason);
                    continue;
                }
            },
            None if operation.edits.is_empty() => None,
            None => {
                tally.skip(item_id, Code::NotFound.as_str());
                continue;
            }
        };
        retries.push(Retry { item_id, job, payload, expires_at: None, restart: false, audit_row: None });
    }
    core.record_requester(&operation.caller, retries.iter().map(|retry| &*retry.job)).await?;
    let shared = Arc::new((tally, retries));
    core.in_task_with_retries("a step of a bulk operation", move |core| {
        let shared = Arc::clone(&shared);
        async move {
            let tally = shared.0.clone().uncounted(&core.pools.read).await?;
            let retries = shared.1.iter().filter(|retry| tally.has(retry.item_id)).collect();
            retry::retry_many(&core, retries, Some(tally)).await.map(|_| ())
        }
    })
    .await
}

/// Payload with the operation's edits, or the reason why they cannot be applied.
fn edited(core: &Core, operation: &Operation, job: &JobInfo, text: String) -> Result<String, &'static str> {
    let edited = edit::edited(&Document::trusted(text), &operation.edits).map_err(|_| "edit_does_not_fit")?;
    core.checked_payload(job, edited).map_err(|problem| match problem.code {
        Code::InvalidBody => "payload_invalid",
        code => code.as_str(),
    })
}

async fn cancel_items(engine: &Engine, operation: &Operation, bulk_id: Uuid, batch: &[Member]) -> Result<()> {
    let core = &engine.0.core;
    let mut tally = Tally::of(bulk_id, batch);
    let cancels: Vec<CancelItem> = members_of(core, operation, bulk_id, batch, &mut tally)
        .await?
        .into_iter()
        .map(|(item_id, job)| CancelItem { item_id, root_id: job.root_id, audit_row: None })
        .collect();
    let shared = Arc::new((tally, cancels));
    core.in_task_with_retries("a step of a bulk operation", move |core| {
        let shared = Arc::clone(&shared);
        async move {
            let tally = shared.0.clone().uncounted(&core.pools.read).await?;
            let cancels: Vec<CancelItem> =
                shared.1.iter().filter(|cancel| tally.has(cancel.item_id)).cloned().collect();
            cancel::cancel_many(&core, &cancels, Some(tally)).await.map(|_| ())
        }
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_limit_holds_and_unused_allowance_expires() {
        let at = |rate: f64, idle: Option<f64>| allowed(Pace { rate: Some(rate), idle_seconds: idle }, SLICE);
        assert_eq!(allowed(Pace { rate: None, idle_seconds: Some(0.0) }, SLICE).0, SLICE);
        // One second's worth at first, then in proportion to the elapsed time.
        assert_eq!(at(10.0, None), (10, 0.0));
        assert_eq!(at(10.0, Some(0.5)).0, 5);
        assert_eq!(at(10.0, Some(3_600.0)).0, 10);
        let (n, wait) = at(10.0, Some(0.04));
        assert!(n == 0 && (wait - 0.06).abs() < 1e-9, "{n} {wait}");
        // Rates below one per second: one member at first, then one each time it is due.
        assert_eq!(at(0.5, None), (1, 0.0));
        assert_eq!(at(0.5, Some(1.0)).0, 0);
        // Fast rates: a tenth of a second's worth at a time.
        let (n, wait) = at(300.0, Some(0.05));
        assert!(n == 0 && (wait - 0.05).abs() < 1e-9, "{n} {wait}");
        assert_eq!(at(300.0, Some(0.1)).0, 30);
        // Never more than a slice; the rest is due at once.
        let (n, next) = at(1_000.0, None);
        assert!(n == SLICE && next < 0.0, "{n} {next}");
    }
}
