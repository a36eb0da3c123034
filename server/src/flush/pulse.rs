//! Stall detector for the batches of one family.
//!
//! A slow batch alone is no reason to refuse callers: the duration of the last batch and the number of rows in flight
//! determine how long the next one may take.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::Instant;

/// Lower bound of the allowed time, and upper bound of the part that depends on the last batch.
const LEAST: Duration = Duration::from_millis(1_500);
const MOST: Duration = Duration::from_secs(15);
/// Multiple of the duration of the last batch that the next one may take.
const USUAL: u32 = 4;
/// Time allowed for each row in flight.
const ROW: Duration = Duration::from_micros(500);

pub(super) struct Pulse {
    began: Instant,
    /// Time at which the last batch finished, and its duration, in milliseconds.
    ended: AtomicU64,
    took: AtomicU64,
    rows: AtomicUsize,
}

/// Batch in flight.
pub(super) struct Beat {
    since: Instant,
    rows: usize,
}

impl Default for Pulse {
    fn default() -> Self {
        Self { began: Instant::now(), ended: AtomicU64::new(0), took: AtomicU64::new(0), rows: AtomicUsize::new(0) }
    }
}

impl Pulse {
    pub(super) fn begin(&self, rows: usize) -> Beat {
        self.rows.fetch_add(rows, Relaxed);
        Beat { since: Instant::now(), rows }
    }

    /// Records the end of a batch. It counts as finished only if `reached`: the database was available.
    pub(super) fn end(&self, beat: &Beat, reached: bool) {
        self.rows.fetch_sub(beat.rows, Relaxed);
        if reached {
            self.took.store(beat.since.elapsed().as_millis() as u64, Relaxed);
            self.ended.store(self.began.elapsed().as_millis() as u64, Relaxed);
        }
    }

    /// Deadline of a caller that has waited since `asked`. It moves back with every finished batch and with more rows
    /// in flight, so a caller that reaches it checks again.
    pub(super) fn missed_at(&self, asked: Instant) -> Instant {
        let usual = Duration::from_millis(self.took.load(Relaxed)).saturating_mul(USUAL).clamp(LEAST, MOST);
        let allowed = usual + ROW.saturating_mul(self.rows.load(Relaxed).try_into().unwrap_or(u32::MAX));
        let ended = self.began + Duration::from_millis(self.ended.load(Relaxed));
        asked.max(ended) + allowed
    }
}
