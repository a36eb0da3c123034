//! Waiting items that follow an edit of their job, in batches: at once for the request, and by polling after a crash.
//!
//! A batch locks the record of the edit first, so that edits of a job follow each other, and moves it with its items.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;
use uuid::Uuid;

use super::{BATCH, inherited};
use crate::{
    Core, Engine,
    error::{Error, Result},
    store::{
        enqueue::idempotency::KeyName,
        operator::{
            job_edits,
            patch::{self, EditableItem, Settings},
        },
    },
    task::in_task,
};

/// Number of jobs that are continued in turn.
const JOBS: usize = 20;
/// Number of edits among which they are chosen. A job may have several.
const EDITS: i64 = 1_000;
/// Number of batches at once on this server.
pub(crate) const CONCURRENT_BATCHES: usize = 2;
/// Maximum number of attempts for a batch that collides with others.
const TRIES: usize = 20;
const COLLISION_PAUSE: Duration = Duration::from_millis(10);
/// First and longest pause after a batch that failed.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(20);

/// Jobs whose edits failed, with the number of failures and the time of the next attempt: edits that fail every time must
/// not take the turns of the others. Forgotten at a restart.
#[derive(Debug, Default)]
pub(crate) struct FailedEdits(Mutex<HashMap<i64, (u32, Instant)>>);

impl FailedEdits {
    fn jobs(&self) -> MutexGuard<'_, HashMap<i64, (u32, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Logs a failure at the 1st, 2nd, 4th, 8th … time in a row.
    fn record(&self, job_key: i64, error: Option<&Error>) {
        let mut jobs = self.jobs();
        let Some(error) = error else {
            if let Some((failures, _)) = jobs.remove(&job_key) {
                tracing::info!(job_key, failures, "edit of a job goes on");
            }
            return;
        };
        let failures = jobs.get(&job_key).map_or(0, |job| job.0) + 1;
        if failures.is_power_of_two() {
            tracing::warn!(%error, job_key, failures, "edit of a job failed, will retry");
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << (failures - 1).min(16)).min(LONGEST_PAUSE);
        jobs.insert(job_key, (failures, Instant::now() + pause));
    }

    /// Up to `JOBS` of these jobs that do not pause; those that never failed first.
    fn due(&self, mut open: Vec<i64>) -> Vec<i64> {
        let (now, mut jobs, mut different) = (Instant::now(), self.jobs(), HashSet::new());
        open.retain(|job_key| different.insert(*job_key));
        // Those that are open no more were canceled, or another server continued them.
        jobs.retain(|job_key, _| different.contains(job_key));
        open.retain(|job_key| jobs.get(job_key).is_none_or(|job| job.1 <= now));
        open.sort_by_key(|job_key| jobs.get(job_key).map(|job| job.1));
        drop(jobs);
        open.truncate(JOBS);
        open
    }
}

impl Engine {
    /// Takes one batch of every edit that was interrupted. Returns the number of jobs that made progress. A job that fails
    /// does not stop the others and pauses.
    pub async fn sweep_job_edits(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        let run = async move {
            let mut edited = 0;
            let open = job_edits::open(&core.pools.read, EDITS).await?;
            for job_key in core.failed_edits.due(open) {
                let done = core.edit_batch(job_key).await;
                core.failed_edits.record(job_key, done.as_ref().err());
                edited += usize::from(done.is_ok());
            }
            Ok(edited)
        };
        in_task("editing items", run).await
    }
}

impl Core {
    /// Updates the waiting items of edited jobs. After a failure, the background task continues.
    pub(super) async fn edit_items(&self, job_keys: &[i64]) {
        for &job_key in job_keys {
            loop {
                match self.edit_batch(job_key).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::debug!(%error, job_key, "an edit is continued later");
                        break;
                    }
                }
            }
        }
    }

    /// Updates one batch of a job's waiting items; returns true if there may be more.
    ///
    /// Edits of one job wait for each other before they take a connection, and those of all jobs take few: otherwise many
    /// edits of large jobs would keep the others from the hot pool.
    async fn edit_batch(&self, job_key: i64) -> Result<bool> {
        let name = KeyName { owner_id: Uuid::nil(), scope: "job edit".to_owned(), key: job_key.to_string() };
        let _turn = self.key_locks.take(&name).await;
        // It is never closed.
        let _slot = self.edit_slots.acquire().await.ok();
        let mut tries = 0;
        loop {
            tries += 1;
            match self.try_edit_batch(job_key).await {
                // What it collides with needs a moment to end.
                Err(error) if error.is_conflict() && tries < TRIES => tokio::time::sleep(COLLISION_PAUSE).await,
                done => return done,
            }
        }
    }

    async fn try_edit_batch(&self, job_key: i64) -> Result<bool> {
        let mut tx = crate::store::begin(&self.pools.hot).await?;
        let Some(edit) = job_edits::lock_first(&mut tx, job_key).await? else { return Ok(false) };
        let from: Settings = (edit.from_priority, edit.from_run_after, edit.from_expires_at);
        let to: Settings = (edit.to_priority, edit.to_run_after, edit.to_expires_at);
        let found = patch::editable_items(&mut tx, job_key, edit.seq, BATCH).await?;
        let rows: Vec<EditableItem> = found
            .items
            .into_iter()
            .map(|item| {
                let (priority, run_after, expires_at) =
                    inherited((item.priority, item.run_after, item.expires_at), from, to);
                EditableItem { priority, run_after, expires_at, ..item }
            })
            .collect();
        let requeued = if rows.is_empty() {
            None
        } else {
            let requeued = match self.requeue(&mut tx, job_key, &rows).await {
                Err(error) => return Err(crate::store::roll_back(tx, error).await),
                Ok(requeued) => requeued,
            };
            let Some(requeued) = requeued else {
                // The job was canceled in the meantime: nothing waits anymore.
                tx.rollback().await?;
                let mut tx = crate::store::begin(&self.pools.hot).await?;
                job_edits::remove(&mut tx, &[job_key]).await?;
                crate::store::commit(tx).await?;
                return Ok(false);
            };
            Some(requeued)
        };
        job_edits::advance(&mut tx, edit.id, found.last).await?;
        crate::store::commit(tx).await?;
        if let Some(requeued) = requeued {
            requeued.after_commit(self);
        }
        self.touch_jobs([job_key]).await;
        Ok(true)
    }
}
