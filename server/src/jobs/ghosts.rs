//! Cancelled jobs whose waiting rows have not been swept yet: claims leave them out.
//!
//! A hint only. What a claim takes from a cancelled job that is not known here is refused at the gate,
//! and the job is known from then on. Forgotten after a minute, as by then the rows are gone.

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
    /// The gates known, ascending.
    pub(super) fn known(&self) -> Arc<Vec<i64>> {
        Arc::clone(&self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).gates)
    }

    /// These jobs are cancelled.
    pub(super) fn met(&self, gates: &[i64]) {
        let mut known = self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner);
        let now = Instant::now();
        known.since.retain(|_, since| now.duration_since(*since) < KEPT);
        known.since.extend(gates.iter().map(|&gate| (gate, now)));
        let mut gates: Vec<i64> = known.since.keys().copied().collect();
        gates.sort_unstable();
        known.gates = Arc::new(gates);
    }

    /// Forgets those that were met long ago.
    pub(super) fn tidy(&self) {
        if !self.known().is_empty() {
            self.met(&[]);
        }
    }
}
