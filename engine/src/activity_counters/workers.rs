//! Ended attempts of workers since the last write, and their last errors.

use std::sync::{Mutex, PoisonError};

use super::Run;
use crate::{
    access::assignment_holder::{BUILTIN, PUSH},
    store::dispatch::worker_history::{ByWorker, ERRORS},
};

/// Maximum number of workers counted between two writes; names are untrusted and could be any number.
const ROOM: usize = 10_000;

#[derive(Default)]
pub(crate) struct WorkerCounters(Mutex<ByWorker>);

impl WorkerCounters {
    /// Counts ended attempts. Those of Treeline itself have no worker. Call this after the commit.
    pub(crate) fn count(&self, runs: &[Run]) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Neighbors share their worker: it is looked up once.
        for runs in runs.chunk_by(|one, next| one.worker == next.worker) {
            let worker = &runs[0].worker;
            if worker.0 == BUILTIN || worker.0 == PUSH || (!workers.contains_key(worker) && workers.len() >= ROOM) {
                continue;
            }
            let activity = if let Some(activity) = workers.get_mut(worker) {
                activity
            } else {
                workers.entry(worker.clone()).or_default()
            };
            for run in runs {
                activity.runs.record(run.seconds);
                let Some(failure) = &run.failure else {
                    activity.succeeded += 1;
                    continue;
                };
                activity.failed += 1;
                if activity.errors.len() == ERRORS {
                    activity.errors.pop_front();
                }
                activity.errors.push_back(failure.clone());
            }
        }
    }

    /// Adds what was taken and could not be written. The errors since are newer.
    pub(crate) fn put_back(&self, taken: ByWorker) {
        let mut workers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (worker, mut lost) in taken {
            let activity = workers.entry(worker).or_default();
            activity.succeeded += lost.succeeded;
            activity.failed += lost.failed;
            activity.runs.merge(&lost.runs);
            lost.errors.append(&mut activity.errors);
            lost.errors.drain(..lost.errors.len().saturating_sub(ERRORS));
            activity.errors = lost.errors;
        }
    }

    pub(crate) fn take(&self) -> ByWorker {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use time::OffsetDateTime;
    use uuid::Uuid;

    use super::*;
    use crate::store::dispatch::worker_history::Failure;

    #[test]
    fn each_worker_has_its_newest_errors() {
        let counters = WorkerCounters::default();
        let run = |n: i64, credential_id| Run {
            job_key: 1,
            seconds: 0.1,
            worker: (credential_id, "w".to_owned()),
            failure: (n > 0).then(|| Failure {
                item_id: Uuid::from_u128(n as u128),
                ended_at: OffsetDateTime::UNIX_EPOCH,
                ended_as: 2,
                message: n.to_string(),
            }),
        };
        let here = Uuid::from_u128(7);
        let runs: Vec<Run> = (0..=25).map(|n| run(n, here)).chain([run(0, PUSH), run(1, BUILTIN)]).collect();
        counters.count(&runs);
        let taken = counters.take();
        assert_eq!(taken.len(), 1, "attempts of Treeline itself are not those of a worker");
        let activity = &taken[&(here, "w".to_owned())];
        assert_eq!((activity.succeeded, activity.failed, activity.runs.count()), (1, 25, 26));
        assert_eq!(activity.errors.iter().map(|it| it.message.as_str()).next(), Some("6"));
        assert_eq!(activity.errors.len(), ERRORS);
        assert!(counters.take().is_empty());

        counters.count(&[run(26, here)]);
        counters.put_back(taken);
        let taken = counters.take();
        let activity = &taken[&(here, "w".to_owned())];
        assert_eq!((activity.succeeded, activity.failed, activity.runs.count()), (1, 26, 27), "nothing is lost");
        let errors: Vec<&str> = activity.errors.iter().map(|it| it.message.as_str()).collect();
        assert_eq!((errors.len(), errors.first(), errors.last()), (ERRORS, Some(&"7"), Some(&"26")));
    }
}
