//! Propagation of a decision about a whole job to its rows: waiting rows of a canceled job end; rows held by `after`
//! are released, end, or wait again (`after`, `cancellation`, `manual-retry`, `database-clock`).
//!
//! Each step is one bounded transaction that also moves the cursor, guarded by its previous position: nothing is
//! repeated after a crash, and if two servers propagate the same decision, one of them rolls back.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use uuid::Uuid;

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        carry::{self, Kind, Met, Walk},
        contracts::JobInfo,
        endings, gates,
        items::{self, BlockedRow},
        lanes as stands, waiting,
    },
    task::in_task,
};

use super::{
    Core, Engine,
    add::rows::{Going, after_failed},
    ending::EndingRows,
    intake::Intake,
    lanes, work,
};

/// Number of items in one step.
const STEP: i64 = 2_000;

/// Number of steps taken at once for the request that decided; the background task does the rest.
const AT_ONCE: usize = 2;

/// Takes the first steps of new propagations. The background task continues after a failure.
pub(super) async fn follow(core: &Core, gate_ids: &[i64]) {
    for &gate_id in gate_ids {
        for _ in 0..AT_ONCE {
            match step(core, gate_id).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(%error, gate_id, "propagation step failed");
                    break;
                }
            }
        }
    }
    if !gate_ids.is_empty() {
        core.walk_asked.notify_one();
    }
}

impl Engine {
    /// Takes one step of every open propagation, up to a hundred. Returns their number.
    pub async fn sweep_walks(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        core.ghosts.tidy();
        let run = async move {
            let open = carry::open(&core.pools.read, 100).await?;
            for walk in &open {
                match step(&core, walk.gate_id).await {
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
    pub async fn walk_asked(&self) {
        self.0.core.walk_asked.notified().await;
    }
}

/// Takes one step for a job; returns true if there may be more.
async fn step(core: &Core, gate_id: i64) -> Result<bool> {
    let mut tx = core.pools.hot.begin().await?;
    let Some(walk) = carry::of(&mut tx, gate_id).await? else { return Ok(false) };
    let jobs = core.jobs.by_gates(&mut *tx, [gate_id]).await?;
    let Some(job) = jobs.get(&gate_id) else { return Ok(false) };
    if walk.kind == Kind::Cancel && walk.seq == 0 {
        carry::flag_leases(&mut tx, gate_id).await?;
    }
    let met = carry::next(&mut tx, walk, STEP).await?;
    let mut ids: Vec<Uuid> = met.iter().map(|met| met.id).collect();
    ids.sort_unstable();
    let more = met.len() as i64 == STEP;
    let to = met.last().filter(|_| more).map(|last| last.seq);

    let mut rows = EndingRows::default();
    rows.delta(gate_id).knows_cancelled = true;
    match walk.kind {
        Kind::Cancel | Kind::Fail => end(core, &mut tx, walk, &ids, &mut rows).await?,
        Kind::Return => give_back(&mut tx, job, &ids).await?,
        Kind::Release => {
            let done = let_go(core, &mut tx, job, &met, &ids, &mut rows).await?;
            if !done {
                return Ok(false);
            }
        }
    }
    let done = work::close(core, &mut tx, &mut rows).await?;
    // Under the lock of the job state row: a newer decision has replaced this one.
    if !carry::moved(&mut tx, walk, to).await? {
        return Ok(true);
    }
    crate::store::commit(tx).await?;
    done.after_commit(core, &rows).await;
    Ok(more)
}

/// Ends waiting rows; the counters already include them.
async fn end(core: &Core, tx: &mut Tx, walk: Walk, ids: &[Uuid], rows: &mut EndingRows) -> Result<()> {
    let seen = waiting::look(tx, ids).await?;
    if seen.is_empty() {
        return Ok(());
    }
    let lane_ids = lanes::lanes_of(&seen);
    if !lane_ids.is_empty() {
        stands::lock(tx, &lane_ids).await?;
    }
    let taken = waiting::take(tx, ids, false).await?;
    let error = (walk.kind == Kind::Fail).then(after_failed);
    let finals: Vec<_> =
        taken.iter().map(|taken| endings::FinalRow { error: error.clone(), ..lanes::ghost(taken) }).collect();
    endings::finish(tx, &finals).await?;
    rows.freed.extend(taken.iter().filter_map(|taken| taken.lane_id.map(|lane| (lane, taken.item_id))));
    lanes::pass_on(core, tx, rows).await
}

/// Makes the rows that `after` had ended wait again; the counters already include them.
async fn give_back(tx: &mut Tx, job: &JobInfo, ids: &[Uuid]) -> Result<()> {
    let blocked: Vec<BlockedRow> = carry::take_failed(tx, ids)
        .await?
        .into_iter()
        .map(|row| BlockedRow {
            item_id: row.item_id,
            gate_id: job.gate_id,
            type_id: job.type_id,
            rank: row.rank,
            due_at: row.run_after,
            expires_at: row.expires_at,
            attempts: row.attempts,
            failures: row.failures,
            by_after: true,
            lane_id: None,
        })
        .collect();
    Ok(items::block(tx, &blocked).await?)
}

/// Releases the rows held by `after`, in order of acceptance, including those that a [`Kind::Return`] did not reach.
/// Returns `false` if the job is held again or gone, so that nothing is to be done.
async fn let_go(
    core: &Core,
    tx: &mut Tx,
    job: &Arc<JobInfo>,
    met: &[Met],
    ids: &[Uuid],
    rows: &mut EndingRows,
) -> Result<bool> {
    let keys: BTreeSet<(Uuid, &str)> =
        met.iter().filter_map(|met| Some((job.owner_id, met.serialize_key.as_deref()?))).collect();
    let mut intake = Intake::of_keys(core, keys).await?;
    intake.lock_lanes(tx, []).await?;
    intake.look(tx).await?;
    let mut going: HashMap<Uuid, Going<'_>> = HashMap::new();
    for taken in waiting::take_held(tx, ids).await? {
        let item = taken.taken;
        going.insert(
            item.item_id,
            Going {
                id: item.item_id,
                rank: item.rank,
                serialize_key: None,
                run_after: taken.due_at,
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
            },
        );
    }
    for row in carry::take_failed(tx, ids).await? {
        going.insert(
            row.item_id,
            Going {
                id: row.item_id,
                rank: row.rank,
                serialize_key: None,
                run_after: row.run_after,
                expires_at: row.expires_at,
                attempts: row.attempts,
                failures: row.failures,
            },
        );
    }
    let mut gate_ids = vec![job.gate_id, job.turn_gate_id];
    gate_ids.sort_unstable();
    gate_ids.dedup();
    let locked: HashMap<i64, gates::Locked> =
        gates::lock(tx, &gate_ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
    let Some(gate) = locked.get(&job.gate_id) else { return Ok(false) };
    if gate.cancelled || gate.held() || gate.after_failed {
        return Ok(false);
    }
    intake.open(tx, &locked).await?;
    for met in met {
        let Some(item) = going.get(&met.id) else { continue };
        let item = Going { serialize_key: met.serialize_key.as_deref(), ..*item };
        rows.delta(job.gate_id).counts.blocked -= 1;
        intake.put(core, tx, job, item, gate, &mut rows.deltas).await?;
    }
    intake.write(core, tx, &mut rows.deltas).await?;
    rows.ready
        .extend(intake.ready().into_iter().flat_map(|(type_id, (n, mark))| std::iter::repeat_n((type_id, mark), n)));
    Ok(true)
}
