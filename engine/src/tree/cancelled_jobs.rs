//! Cache of canceled jobs whose waiting rows have not been swept yet; claims skip them.
//!
//! The cache is only a hint. If a claim takes items of a canceled job that is not cached, the job state row refuses
//! them and the job is cached from then on. Entries expire after a minute, because the rows are gone by then.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};

const LIFETIME: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(crate) struct CancelledJobs(RwLock<Entries>);

#[derive(Default)]
struct Entries {
    since: HashMap<i64, Instant>,
    job_keys: Arc<Vec<i64>>,
}

impl CancelledJobs {
    /// Cached job state row ids, ascending.
    pub(crate) fn job_keys(&self) -> Arc<Vec<i64>> {
        Arc::clone(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).job_keys)
    }

    /// Caches these canceled jobs.
    pub(crate) fn insert(&self, job_keys: &[i64]) {
        let mut entries = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        entries.since.retain(|_, since| now.duration_since(*since) < LIFETIME);
        entries.since.extend(job_keys.iter().map(|&job_state| (job_state, now)));
        let mut job_keys: Vec<i64> = entries.since.keys().copied().collect();
        job_keys.sort_unstable();
        entries.job_keys = Arc::new(job_keys);
    }

    /// Removes expired entries.
    pub(crate) fn remove_expired(&self) {
        if !self.job_keys().is_empty() {
            self.insert(&[]);
        }
    }
}
