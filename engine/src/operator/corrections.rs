//! Corrected rows take the place of the failed rows that they correct (`corrections`).
//!
//! An import whose file is a list of failures that came back names the job that it corrects. Each of its rows supersedes
//! the failed item with the same line: that item is canceled, leaves the dead letters and cannot be retried, and names
//! the item that took its place. A place in the import moves with each step, in the same transaction, so a crash repeats
//! and loses nothing.

use std::sync::Arc;

use domain::ItemState;
use uuid::Uuid;

use crate::{
    Core, Engine,
    error::Result,
    notify::error_groups,
    store::{
        operator::corrections as store,
        tree::job_states::{self, Delta},
    },
    task::in_task,
};

/// Items that one step matches.
const STEP: i64 = 1_000;

impl Engine {
    /// Matches the rows of corrected files with the failed rows that they correct, a step for each file, at most a hundred
    /// files. Returns the number of rows that were looked at.
    pub async fn sweep_corrections(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        let run = async move {
            let mut rows = 0;
            for job_key in store::open(&core.pools.read, 100).await? {
                rows += step(&core, job_key).await?;
            }
            Ok(rows)
        };
        in_task("matching corrected rows", run).await
    }
}

impl Engine {
    /// Matches the next rows of a file that corrects others, a step of them; does nothing for other files.
    pub async fn match_corrections_of(&self, job_id: Uuid) -> Result<()> {
        let core = Arc::clone(&self.0.core);
        in_task("matching corrected rows", async move {
            if let Some(job) = core.jobs.by_id(&core.pools.read, job_id).await?
                && store::is_open(&core.pools.read, job.job_key).await?
            {
                step(&core, job.job_key).await?;
            }
            Ok(())
        })
        .await
    }
}

/// One step of one import; returns the number of its rows that were looked at.
async fn step(core: &Core, job_key: i64) -> Result<usize> {
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let Some(correction) = store::lock(&mut tx, job_key).await? else { return Ok(0) };
    // Before the items: once the file has been read, every item is there.
    let is_read = store::is_read(&mut tx, job_key).await?;
    let items = store::next(&mut tx, job_key, correction.seq, STEP).await?;
    let ends = is_read && (items.len() as i64) < STEP;
    let Some(last) = items.last().map(|item| item.seq) else {
        if ends {
            store::move_to(&mut tx, job_key, None).await?;
            crate::store::commit(tx).await?;
        }
        return Ok(0);
    };
    let (rows, ids): (Vec<i64>, Vec<Uuid>) = items.iter().filter_map(|item| Some((item.row?, item.item_id))).unzip();
    let original = correction.corrects_job_key;
    let superseded = store::supersede(&mut tx, original, &rows, &ids).await?;
    // Of a deleted tree, the dead letters no longer count.
    let are_counted = !superseded.is_empty()
        && job_states::lock(&mut tx, &[original]).await?.first().is_some_and(|job_state| !job_state.deleted);
    let jobs = core.jobs.by_job_keys(&mut *tx, [original]).await?;
    if let Some(job) = jobs.get(&original).filter(|_| are_counted) {
        let mut delta = Delta { knows_cancelled: true, ..Delta::default() };
        let mut dead = Vec::new();
        for item in &superseded {
            match ItemState::from_code(item.was) {
                Some(ItemState::Dead) => {
                    delta.counts.dead -= 1;
                    delta.counts.cancelled += 1;
                    dead.extend(item.fingerprint.as_deref().map(|fingerprint| (job.as_ref(), fingerprint)));
                }
                Some(ItemState::Expired) => {
                    delta.counts.expired -= 1;
                    delta.counts.cancelled += 1;
                }
                _ => {}
            }
        }
        store::count(&mut tx, original, superseded.len() as i64).await?;
        job_states::apply(&mut tx, &[(original, delta)]).await?;
        error_groups::uncount(&mut tx, &dead).await?;
    }
    store::move_to(&mut tx, job_key, (!ends).then_some(last)).await?;
    crate::store::commit(tx).await?;
    if let Some(job) = jobs.get(&original) {
        core.live.touch(&[job.root_id]);
    }
    Ok(items.len())
}
