//! Counts of added and finished items, kept in process after each commit and added to small rows every few seconds. A
//! crash loses the seconds not yet written; nothing depends on these numbers.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use domain::{Counts, ItemState, api::Activity};

use time::OffsetDateTime;

use crate::{
    error::Result,
    store::{dispatch::leases::TakenLease, query::statistics},
    task::in_task,
};

use super::Engine;

/// Activity since the last write, by type.
#[derive(Default)]
pub(crate) struct ActivityCounters(Mutex<BTreeMap<String, Activity>>);

/// Attempt of a batch that ended with a result or failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) job_key: i64,
    pub(crate) seconds: f64,
    pub(crate) failed: bool,
}

impl Run {
    /// Attempt that failed at this time.
    pub(crate) fn failed(row: &TakenLease, now: OffsetDateTime) -> Self {
        Self { job_key: row.job_key, seconds: (now - row.started_at).as_seconds_f64(), failed: true }
    }

    /// Label in metrics.
    pub(crate) const fn outcome(&self) -> &'static str {
        if self.failed { "failed" } else { "succeeded" }
    }
}

/// Number of items of one type that a transaction added or put back, and of those that were final at once.
#[derive(Clone, Debug, Default)]
pub(crate) struct AddedCounts {
    pub(crate) added: i64,
    pub(crate) retried: i64,
    pub(crate) ended: Counts,
}

impl ActivityCounters {
    /// Changes the activity of a type. Call this after the commit.
    pub(crate) fn with(&self, type_name: &str, change: impl FnOnce(&mut Activity)) {
        let mut activities = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(activity) = activities.get_mut(type_name) {
            change(activity);
        } else {
            change(activities.entry(type_name.to_owned()).or_default());
        }
    }

    /// Counts items of a type that were added or put back, and those of them that were final at once. Call this after the
    /// commit.
    pub(crate) fn count_added(&self, type_name: &str, added_counts: &AddedCounts) {
        self.with(type_name, |activity| {
            activity.added += added_counts.added;
            activity.retried += added_counts.retried;
        });
        self.ended(type_name, &added_counts.ended);
    }

    /// Counts items of a type that reached final states. Call this after the commit.
    pub(crate) fn ended(&self, type_name: &str, ended: &Counts) {
        for state in ItemState::ALL.into_iter().filter(|state| state.is_final()) {
            let n = u64::try_from(ended.get(state)).unwrap_or(0);
            if n > 0 {
                let labels = [("type", type_name.to_owned()), ("outcome", state.as_str().to_owned())];
                metrics::counter!("treeline_endings_total", &labels).increment(n);
            }
        }
        self.with(type_name, |activity| {
            activity.ended.succeeded += ended.succeeded.max(0);
            activity.ended.dead += ended.dead.max(0);
            activity.ended.cancelled += ended.cancelled.max(0);
            activity.ended.expired += ended.expired.max(0);
        });
    }

    fn take(&self) -> BTreeMap<String, Activity> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Engine {
    /// Writes the counts. Returns the number of types.
    pub async fn write_activity_counters(&self) -> Result<usize> {
        let rows = self.0.core.activity_counters.take();
        if !rows.is_empty() {
            statistics::add(&self.0.core.pools.read, &rows).await?;
        }
        Ok(rows.len())
    }

    /// Sums up the items of the next job state rows: one bounded step of an endless scan.
    pub async fn scan_type_statistics(&self) -> Result<bool> {
        let core = std::sync::Arc::clone(&self.0.core);
        in_task("scanning type statistics", async move {
            let mut tx = core.pools.read.begin().await?;
            let walked = statistics::count_step(&mut tx).await?;
            crate::store::commit(tx).await?;
            Ok(walked)
        })
        .await
    }

    /// Deletes counts that are too old for every rate.
    pub async fn delete_old_activity(&self) -> Result<u64> {
        Ok(statistics::forget(&self.0.core.pools.read).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_taken_once() {
        let counters = ActivityCounters::default();
        counters.with("a", |activity| activity.added += 5);
        counters.ended("a", &Counts { succeeded: 3, dead: 1, running: -4, ..Counts::default() });
        counters.ended("b", &Counts { expired: 1, dead: -1, ..Counts::default() });
        let rows = counters.take();
        assert_eq!(rows.len(), 2);
        let (a, b) = (&rows["a"], &rows["b"]);
        assert_eq!((a.added, a.ended.succeeded, a.ended.dead, b.ended.expired, b.ended.dead), (5, 3, 1, 1, 0));
        assert!(counters.take().is_empty());
    }
}
