//! Cache of canceled jobs whose waiting rows have not been swept yet; claims skip them.
//!
//! The cache is only a hint. If a claim takes items of a canceled job that is not cached, the job state row refuses
//! them and the job is cached from then on. Entries expire after a minute, because the rows are gone by then.

use std::{
    collections::HashMap,
    sync::{Arc, RwLock},
    time::{Duration, Instant},
};

const KEPT: Duration = Duration::from_mins(1);

#[derive(Default)]
pub(super) struct Ghosts(RwLock<Known>);

#[derive(Default)]
struct Known {
    since: HashMap<i64, Instant>,
    gates: Arc<Vec<i64>>,
}

impl Ghosts {
    /// Cached job state row ids, ascending.
    pub(super) fn known(&self) -> Arc<Vec<i64>> {
        Arc::clone(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).gates)
    }

    /// Caches these canceled jobs.
    pub(super) fn met(&self, gates: &[i64]) {
        let mut known = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        known.since.retain(|_, since| now.duration_since(*since) < KEPT);
        known.since.extend(gates.iter().map(|&gate| (gate, now)));
        let mut gates: Vec<i64> = known.since.keys().copied().collect();
        gates.sort_unstable();
        known.gates = Arc::new(gates);
    }

    /// Removes expired entries.
    pub(super) fn tidy(&self) {
        if !self.known().is_empty() {
            self.met(&[]);
        }
    }
}
