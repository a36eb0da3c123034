//! Activity of single jobs since the last write.
//!
//! A job gets a history with its twentieth item. Until then its counts stay here, so that many small jobs write nothing,
//! and the history of a job that grows is complete. The room is limited: when it is full, the counts of the oldest small
//! jobs are dropped first, and jobs that nothing was counted for yet are not counted.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, PoisonError},
};

use crate::store::query::job_history::JobActivity;

/// Number of items from which a job has a history.
pub const CHARTED_ITEMS: i64 = 20;

/// Maximum number of jobs counted between two writes, and of small jobs whose counts are kept.
const ROOM: usize = 10_000;

fn merge(activity: &mut JobActivity, other: &JobActivity) {
    activity.added += other.added;
    activity.failed += other.failed;
    activity.ended += other.ended;
}

#[derive(Default)]
pub(crate) struct JobCounters(Mutex<CountedJobs>);

#[derive(Default)]
struct CountedJobs {
    /// Counted since the last write.
    counted: BTreeMap<i64, JobActivity>,
    /// Of open jobs that were small at the last write.
    small: BTreeMap<i64, JobActivity>,
}

impl JobCounters {
    fn change(&self, change: impl FnOnce(&mut CountedJobs)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Adds activity of a job. Call this after the commit.
    pub(crate) fn count(&self, job_key: i64, activity: &JobActivity) {
        self.change(|jobs| {
            if jobs.counted.len() < ROOM || jobs.counted.contains_key(&job_key) {
                merge(jobs.counted.entry(job_key).or_default(), activity);
            }
        });
    }

    /// Activity to be written, with what was kept of the same jobs.
    pub(crate) fn take(&self) -> BTreeMap<i64, JobActivity> {
        let mut taken = BTreeMap::new();
        self.change(|jobs| {
            taken = std::mem::take(&mut jobs.counted);
            for (job_key, activity) in &mut taken {
                if let Some(small) = jobs.small.remove(job_key) {
                    merge(activity, &small);
                }
            }
        });
        taken
    }

    /// Adds what was taken and could not be written.
    pub(crate) fn put_back(&self, taken: &BTreeMap<i64, JobActivity>) {
        for (job_key, activity) in taken {
            self.count(*job_key, activity);
        }
    }

    /// Keeps the activity of the jobs that were too small to be written.
    pub(crate) fn keep(&self, mut taken: BTreeMap<i64, JobActivity>, small: &BTreeSet<i64>) {
        taken.retain(|job_key, _| small.contains(job_key));
        self.change(|jobs| {
            for (job_key, activity) in taken {
                merge(jobs.small.entry(job_key).or_default(), &activity);
            }
            while jobs.small.len() > ROOM {
                jobs.small.pop_first();
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn added(n: i64) -> JobActivity {
        JobActivity { added: n, ..JobActivity::default() }
    }

    #[test]
    fn small_jobs_keep_their_counts_until_they_grow() {
        let counters = JobCounters::default();
        counters.count(1, &added(5));
        counters.count(2, &added(50));
        let taken = counters.take();
        assert_eq!((taken[&1].added, taken[&2].added), (5, 50));
        counters.keep(taken, &BTreeSet::from([1]));
        assert!(counters.take().is_empty(), "a small job is not looked at again before it changes");
        counters.count(1, &added(20));
        counters.count(2, &added(1));
        let taken = counters.take();
        assert_eq!((taken[&1].added, taken[&2].added), (25, 1), "nothing is lost and nothing counts twice");
    }

    #[test]
    fn room_is_limited() {
        let counters = JobCounters::default();
        for job_key in 0..=ROOM as i64 {
            counters.count(job_key, &added(1));
        }
        counters.count(0, &added(1));
        let taken = counters.take();
        assert_eq!((taken.len(), taken[&0].added), (ROOM, 2));
        let small = taken.keys().copied().collect();
        counters.keep(taken, &small);
        counters.keep(BTreeMap::from([(-1, added(1)), (ROOM as i64, added(1))]), &BTreeSet::from([-1, ROOM as i64]));
        assert_eq!(counters.0.lock().expect("a lock").small.len(), ROOM);
        counters.count(ROOM as i64, &added(1));
        assert_eq!(counters.take()[&(ROOM as i64)].added, 2, "the newest are kept");
    }
}
