//! Counts of added and finished items, kept in process after each commit and added to small rows every few seconds. A
//! crash loses the seconds not yet written; nothing depends on these numbers.

mod jobs; // activity of single jobs
mod workers; // ended attempts of workers

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use domain::{Counts, ItemState, api::Activity, item::EndedAs};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        dispatch::{
            endings::ErrorText,
            leases::TakenLease,
            worker_history::{self, Failure},
        },
        query::{
            job_history::{self, JobActivity},
            statistics,
        },
    },
    task::in_task,
};

use super::Engine;
pub use jobs::CHARTED_ITEMS;

/// Maximum number of characters of an error that is kept with its worker.
const MESSAGE: usize = 500;

/// Activity since the last write.
#[derive(Default)]
pub(crate) struct ActivityCounters {
    types: Mutex<BTreeMap<String, Activity>>,
    jobs: jobs::JobCounters,
    workers: workers::WorkerCounters,
}

/// Attempt of a batch that ended with a result or failed.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) job_key: i64,
    pub(crate) seconds: f64,
    /// Credential and name.
    pub(crate) worker: (Uuid, String),
    /// Reason; `None` for a result.
    pub(crate) failure: Option<Failure>,
}

impl Run {
    /// Attempt that failed at this time.
    pub(crate) fn failed(row: &TakenLease, ended_as: EndedAs, error: Option<&ErrorText>, now: OffsetDateTime) -> Self {
        let message = error.map(|error| error.message.chars().take(MESSAGE).collect()).unwrap_or_default();
        Self {
            job_key: row.job_key,
            seconds: (now - row.started_at).as_seconds_f64(),
            worker: (row.credential_id, row.worker_id.clone()),
            failure: Some(Failure { item_id: row.item_id, ended_at: now, ended_as: ended_as.code(), message }),
        }
    }

    /// Label in metrics.
    pub(crate) const fn outcome(&self) -> &'static str {
        if self.failure.is_some() { "failed" } else { "succeeded" }
    }
}

/// Number of items of one job that a transaction added or put back, and of those that were final at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedCounts {
    pub(crate) type_name: String,
    pub(crate) added: i64,
    pub(crate) retried: i64,
    pub(crate) ended: Counts,
}

impl ActivityCounters {
    /// Changes the activity of a type. Call this after the commit.
    pub(crate) fn with(&self, type_name: &str, change: impl FnOnce(&mut Activity)) {
        let mut activities = self.types.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(activity) = activities.get_mut(type_name) {
            change(activity);
        } else {
            change(activities.entry(type_name.to_owned()).or_default());
        }
    }

    /// Counts items of a job that were added or put back, and those of them that were final at once. Call this after the
    /// commit.
    pub(crate) fn count_added(&self, job_key: i64, added_counts: &AddedCounts) {
        self.with(&added_counts.type_name, |activity| activity.retried += added_counts.retried);
        self.count_new(job_key, added_counts);
        self.ended(job_key, &added_counts.type_name, &added_counts.ended);
    }

    /// Counts items that were added to a job. Call this after the commit.
    pub(crate) fn count_new(&self, job_key: i64, added_counts: &AddedCounts) {
        let added = added_counts.added;
        self.with(&added_counts.type_name, |activity| activity.added += added);
        if added > 0 {
            self.jobs.count(job_key, &JobActivity { added, ..JobActivity::default() });
        }
    }

    /// Counts ended attempts of jobs and workers. Call this after the commit.
    pub(crate) fn count_runs(&self, runs: &[Run]) {
        self.workers.count(runs);
        for run in runs.iter().filter(|run| run.failure.is_some()) {
            self.jobs.count(run.job_key, &JobActivity { failed: 1, ..JobActivity::default() });
        }
    }

    /// Counts items of a job that reached final states. Call this after the commit.
    pub(crate) fn ended(&self, job_key: i64, type_name: &str, ended: &Counts) {
        for state in ItemState::ALL.into_iter().filter(|state| state.is_final()) {
            let n = u64::try_from(ended.get(state)).unwrap_or(0);
            if n > 0 {
                let labels = [("type", type_name.to_owned()), ("outcome", state.as_str().to_owned())];
                metrics::counter!("treeline_endings_total", &labels).increment(n);
            }
        }
        let ended = Counts {
            succeeded: ended.succeeded.max(0),
            dead: ended.dead.max(0),
            cancelled: ended.cancelled.max(0),
            expired: ended.expired.max(0),
            ..Counts::default()
        };
        self.with(type_name, |activity| activity.ended += ended);
        if ended.finished() > 0 {
            self.jobs.count(job_key, &JobActivity { ended, ..JobActivity::default() });
        }
    }

    fn take(&self) -> BTreeMap<String, Activity> {
        std::mem::take(&mut *self.types.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds what was taken and could not be written.
    fn put_back(&self, taken: BTreeMap<String, Activity>) {
        for (type_name, lost) in taken {
            self.with(&type_name, |activity| {
                activity.added += lost.added;
                activity.failed += lost.failed;
                activity.retried += lost.retried;
                activity.ended += lost.ended;
                activity.wait.merge(&lost.wait);
                activity.run.merge(&lost.run);
            });
        }
    }
}

impl Engine {
    /// Writes the counts of types, jobs and workers. What cannot be written is kept for the next time. Returns the number
    /// of types.
    pub async fn write_activity_counters(&self) -> Result<usize> {
        let (pool, counters) = (&self.0.core.pools.read, &self.0.core.activity_counters);
        let rows = counters.take();
        let n = rows.len();
        if n > 0
            && let Err(error) = statistics::add(pool, &rows).await
        {
            counters.put_back(rows);
            return Err(error.into());
        }
        let jobs = counters.jobs.take();
        if !jobs.is_empty() {
            match job_history::add(pool, &jobs, CHARTED_ITEMS).await {
                Ok(small) => counters.jobs.keep(jobs, &small),
                Err(error) => {
                    for (job_key, activity) in &jobs {
                        counters.jobs.count(*job_key, activity);
                    }
                    return Err(error.into());
                }
            }
        }
        let workers = counters.workers.take();
        if !workers.is_empty()
            && let Err(error) = worker_history::add(pool, &workers).await
        {
            counters.workers.put_back(workers);
            return Err(error.into());
        }
        Ok(n)
    }

    /// Sums up the items of the next job state rows: one bounded step of an endless scan.
    pub async fn scan_type_statistics(&self) -> Result<bool> {
        let core = std::sync::Arc::clone(&self.0.core);
        in_task("scanning type statistics", async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            let walked = statistics::count_step(&mut tx).await?;
            crate::store::commit(tx).await?;
            Ok(walked)
        })
        .await
    }

    /// Deletes counts that are too old for every rate.
    pub async fn delete_old_activity(&self) -> Result<u64> {
        let pool = &self.0.core.pools.read;
        // Each is tried, even if another fails.
        let forgotten =
            [statistics::forget(pool).await, job_history::forget(pool).await, worker_history::forget(pool).await];
        Ok(forgotten.into_iter().sum::<Result<u64, _>>()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_once() {
        let counters = ActivityCounters::default();
        counters.with("a", |activity| activity.added += 5);
        counters.ended(1, "a", &Counts { succeeded: 3, dead: 1, running: -4, ..Counts::default() });
        counters.ended(2, "b", &Counts { expired: 1, dead: -1, ..Counts::default() });
        let rows = counters.take();
        assert_eq!(rows.len(), 2);
        let (a, b) = (&rows["a"], &rows["b"]);
        assert_eq!((a.added, a.ended.succeeded, a.ended.dead, b.ended.expired, b.ended.dead), (5, 3, 1, 1, 0));
        assert!(counters.take().is_empty());
    }
}
