//! Counts of added and finished items, kept in process after each commit and added to small rows every few seconds. A
//! crash loses the seconds not yet written; nothing depends on these numbers.

mod jobs; // activity of single jobs
mod workers; // ended attempts of workers

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use domain::{Counts, ItemState, api::Activity, item::EndedAs};
use scopeguard::{ScopeGuard, guard};
use sqlx::PgPool;
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

    /// Writes all counts. Those that cannot be written stay, also if this future is dropped: a silent database ends it. A
    /// count whose commit gets no answer is added twice.
    async fn write(&self, pool: &PgPool) -> Result<usize> {
        let rows = guard(self.take(), |rows| self.put_back(rows));
        let n = rows.len();
        if n > 0 {
            statistics::add(pool, &rows).await?;
        }
        drop(ScopeGuard::into_inner(rows));
        let jobs = guard(self.jobs.take(), |jobs| self.jobs.put_back(&jobs));
        if !jobs.is_empty() {
            let small = job_history::add(pool, &jobs, CHARTED_ITEMS).await?;
            self.jobs.keep(ScopeGuard::into_inner(jobs), &small);
        }
        let workers = guard(self.workers.take(), |workers| self.workers.put_back(workers));
        if !workers.is_empty() {
            worker_history::add(pool, &workers).await?;
        }
        drop(ScopeGuard::into_inner(workers));
        Ok(n)
    }
}

impl Engine {
    /// Writes the counts of types, jobs and workers. What cannot be written is kept for the next time. Returns the number
    /// of types.
    pub async fn write_activity_counters(&self) -> Result<usize> {
        self.0.core.activity_counters.write(&self.0.core.pools.read).await
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
    use futures::FutureExt as _;

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

    #[tokio::test]
    async fn counts_stay_if_their_write_is_dropped() {
        let pool = PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/nothing").expect("a pool");
        let counters = ActivityCounters::default();
        counters.count_new(1, &AddedCounts { type_name: "a".to_owned(), added: 5, ..AddedCounts::default() });
        assert!(counters.write(&pool).now_or_never().is_none(), "it waits for the database");
        // Without types, the write goes on to the jobs.
        assert_eq!(counters.take()["a"].added, 5);
        assert!(counters.write(&pool).now_or_never().is_none());
        assert_eq!(counters.jobs.take()[&1].added, 5);
    }
}
