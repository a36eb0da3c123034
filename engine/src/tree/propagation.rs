//! Propagation of a decision about a whole job to its rows: waiting rows of a canceled job end; rows held by `after`
//! are released, end, or wait again (`after`, `cancellation`, `manual-retry`, `database-clock`). `completion` decides what a job's
//! outcome means for those that wait for it.
//!
//! Each step is one bounded transaction that also moves the cursor, guarded by its previous position: nothing is
//! repeated after a crash, and if two servers propagate the same decision, one of them rolls back.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use domain::Counts;
use uuid::Uuid;

use super::finish_batch::finish_batch;
use crate::{
    Core, Engine,
    ending_batch::EndingRows,
    enqueue::{
        add::rows::{PendingItem, after_failed},
        item_intake::Intake,
        serialize_queues,
    },
    error::{Error, Result},
    store::{
        Tx,
        dispatch::endings,
        enqueue::{
            items::{self, BlockedRow},
            pending_rows, serialize_queues as queue_rows,
        },
        tree::{
            definitions::JobInfo,
            job_states,
            propagation::{self, PropagatedItem, Propagation, PropagationKind},
        },
    },
    task::in_task,
};

/// Number of items in one step.
const STEP: i64 = 2_000;

/// Number of steps taken at once for the request that decided; the background task does the rest.
const AT_ONCE: usize = 2;

/// Takes the first steps of new propagations. The background task continues after a failure.
pub(crate) async fn first_steps(core: &Core, job_keys: &[i64]) {
    for &job_key in job_keys {
        for _ in 0..AT_ONCE {
            match step(core, job_key).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(%error, job_key, "propagation step failed");
                    break;
                }
            }
        }
    }
    if !job_keys.is_empty() {
        core.propagation_requested.notify_one();
    }
}

impl Engine {
    /// Takes one step of every open propagation, up to a hundred. Returns their number.
    pub async fn sweep_propagations(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        core.cancelled_jobs.remove_expired();
        let run = async move {
            let open = propagation::open(&core.pools.read, 100).await?;
            for propagation in &open {
                match step(&core, propagation.job_key).await {
                    Ok(_) => {}
                    Err(error) if error.is_conflict() || matches!(error, Error::JobsCancelled(_)) => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(open.len())
        };
        in_task("propagating a decision", run).await
    }

    /// Resolves when a propagation was begun. A hint: the background task also polls.
    pub async fn propagation_requested(&self) {
        self.0.core.propagation_requested.notified().await;
    }
}

/// Takes one step for a job; returns true if there may be more.
async fn step(core: &Core, job_key: i64) -> Result<bool> {
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let Some(propagation) = propagation::find(&mut tx, job_key).await? else { return Ok(false) };
    let jobs = core.jobs.by_job_keys(&mut *tx, [job_key]).await?;
    let Some(job) = jobs.get(&job_key) else { return Ok(false) };
    if propagation.kind == PropagationKind::Cancel && propagation.seq == 0 {
        propagation::flag_leases(&mut tx, job_key).await?;
    }
    let reached = propagation::next_items(&mut tx, propagation, STEP).await?;
    let mut ids: Vec<Uuid> = reached.iter().map(|reached| reached.id).collect();
    ids.sort_unstable();
    let more = reached.len() as i64 == STEP;
    let to = reached.last().filter(|_| more).map(|last| last.seq);

    let mut rows = EndingRows::default();
    rows.delta(job_key).knows_cancelled = true;
    let mut ended = Counts::default();
    match propagation.kind {
        PropagationKind::Cancel | PropagationKind::Fail => {
            ended.cancelled = end(core, &mut tx, propagation, &ids, &mut rows).await? as i64;
        }
        PropagationKind::Return => return_to_waiting(&mut tx, job, &ids).await?,
        PropagationKind::Release => {
            let done = release(core, &mut tx, job, &reached, &ids, &mut rows).await?;
            if !done {
                return Ok(false);
            }
        }
    }
    let done = finish_batch(core, &mut tx, &mut rows).await?;
    // Under the lock of the job state row: a newer decision has replaced this one.
    if !propagation::advance(&mut tx, propagation, to).await? {
        return Ok(true);
    }
    crate::store::commit(tx).await?;
    core.activity_counters.ended(job_key, &job.type_name, &ended);
    done.after_commit(core, &rows).await;
    Ok(more)
}

/// Ends waiting rows; the counters already include them. Returns their number.
async fn end(core: &Core, tx: &mut Tx, propagation: Propagation, ids: &[Uuid], rows: &mut EndingRows) -> Result<usize> {
    let seen = pending_rows::find(tx, ids).await?;
    if seen.is_empty() {
        return Ok(0);
    }
    let serialize_queue_ids = serialize_queues::serialize_queues_of(&seen);
    if !serialize_queue_ids.is_empty() {
        queue_rows::lock(tx, &serialize_queue_ids).await?;
    }
    let taken = pending_rows::take(tx, ids, false).await?;
    let error = (propagation.kind == PropagationKind::Fail).then(after_failed);
    let finals: Vec<_> = taken
        .iter()
        .map(|taken| endings::FinalRow { error: error.clone(), ..serialize_queues::cancelled_row(taken) })
        .collect();
    endings::finish(tx, &finals).await?;
    rows.freed
        .extend(taken.iter().filter_map(|taken| taken.serialize_queue_id.map(|queue_id| (queue_id, taken.item_id))));
    serialize_queues::release_next(core, tx, rows).await?;
    Ok(finals.len())
}

/// Makes the rows that `after` had ended wait again; the counters already include them.
async fn return_to_waiting(tx: &mut Tx, job: &JobInfo, ids: &[Uuid]) -> Result<()> {
    propagation::lock_canceled_by_after(tx, ids).await?;
    let blocked: Vec<BlockedRow> = propagation::take_after_failures(tx, ids)
        .await?
        .into_iter()
        .map(|row| BlockedRow {
            item_id: row.item_id,
            job_key: job.job_key,
            type_id: job.type_id,
            negated_priority: row.negated_priority,
            due_at: row.run_after,
            expires_at: row.expires_at,
            attempts: row.attempts,
            failures: row.failures,
            by_after: true,
            serialize_queue_id: None,
        })
        .collect();
    Ok(items::block(tx, &blocked).await?)
}

/// Releases the rows held by `after`, in order of acceptance, including those that a [`PropagationKind::Return`] did not reach.
/// Returns `false` if the job is held again or gone, so that nothing is to be done.
async fn release(
    core: &Core,
    tx: &mut Tx,
    job: &Arc<JobInfo>,
    reached: &[PropagatedItem],
    ids: &[Uuid],
    rows: &mut EndingRows,
) -> Result<bool> {
    let keys: BTreeSet<(Uuid, &str)> =
        reached.iter().filter_map(|reached| Some((job.owner_id, reached.serialize_key.as_deref()?))).collect();
    let mut intake = Intake::of_keys(core, keys).await?;
    intake.lock_serialize_queues(tx, []).await?;
    intake.read_heads(tx).await?;
    let mut pending: HashMap<Uuid, PendingItem<'_>> = HashMap::new();
    propagation::lock_canceled_by_after(tx, ids).await?;
    for taken in pending_rows::take_blocked_by_after(tx, ids).await? {
        let item = taken.taken;
        pending.insert(
            item.item_id,
            PendingItem {
                id: item.item_id,
                negated_priority: item.negated_priority,
                serialize_key: None,
                run_after: taken.due_at,
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
            },
        );
    }
    for row in propagation::take_after_failures(tx, ids).await? {
        pending.insert(
            row.item_id,
            PendingItem {
                id: row.item_id,
                negated_priority: row.negated_priority,
                serialize_key: None,
                run_after: row.run_after,
                expires_at: row.expires_at,
                attempts: row.attempts,
                failures: row.failures,
            },
        );
    }
    let mut job_keys = vec![job.job_key, job.fair_turn_job_key];
    job_keys.sort_unstable();
    job_keys.dedup();
    let locked: HashMap<i64, job_states::LockedJobState> =
        job_states::lock(tx, &job_keys).await?.into_iter().map(|job_state| (job_state.job_key, job_state)).collect();
    let Some(job_state) = locked.get(&job.job_key) else { return Ok(false) };
    if job_state.cancelled || job_state.blocks_items() || job_state.after_failed {
        return Ok(false);
    }
    intake.open(tx, &locked).await?;
    for reached in reached {
        let Some(item) = pending.get(&reached.id) else { continue };
        let item = PendingItem { serialize_key: reached.serialize_key.as_deref(), ..*item };
        rows.delta(job.job_key).counts.blocked -= 1;
        intake.put(core, tx, job, item, job_state, &mut rows.deltas).await?;
    }
    intake.write(core, tx, &mut rows.deltas).await?;
    rows.ready
        .extend(intake.ready().into_iter().flat_map(|(type_id, (n, mark))| std::iter::repeat_n((type_id, mark), n)));
    Ok(true)
}
