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
const MIN_ALLOWED: Duration = Duration::from_millis(1_500);
const MAX_USUAL: Duration = Duration::from_secs(15);
/// Multiple of the duration of the last batch that the next one may take.
const USUAL_FACTOR: u32 = 4;
/// Time allowed for each row in flight.
const TIME_PER_ROW: Duration = Duration::from_micros(500);

pub(super) struct StallDetector {
    started_at: Instant,
    /// Time at which the last batch finished, and its duration, in milliseconds.
    last_end: AtomicU64,
    last_duration: AtomicU64,
    rows: AtomicUsize,
}

/// Batch in flight.
pub(super) struct BatchTimer {
    since: Instant,
    rows: usize,
}

impl Default for StallDetector {
    fn default() -> Self {
        Self {
            started_at: Instant::now(),
            last_end: AtomicU64::new(0),
            last_duration: AtomicU64::new(0),
            rows: AtomicUsize::new(0),
        }
    }
}

impl StallDetector {
    pub(super) fn begin(&self, rows: usize) -> BatchTimer {
        self.rows.fetch_add(rows, Relaxed);
        BatchTimer { since: Instant::now(), rows }
    }

    /// Records the end of a batch. It counts as finished only if `reached`: the database was available.
    pub(super) fn end(&self, timer: &BatchTimer, reached: bool) {
        self.rows.fetch_sub(timer.rows, Relaxed);
        if reached {
            self.last_duration.store(timer.since.elapsed().as_millis() as u64, Relaxed);
            self.last_end.store(self.started_at.elapsed().as_millis() as u64, Relaxed);
        }
    }

    /// Returns true if another batch has finished since this one began.
    pub(super) fn has_finished_since(&self, timer: &BatchTimer) -> bool {
        self.started_at + Duration::from_millis(self.last_end.load(Relaxed)) > timer.since
    }

    /// Deadline of a caller that has waited since `asked`. It moves back with every finished batch and with more rows
    /// in flight, so a caller that reaches it checks again.
    pub(super) fn deadline(&self, queued_at: Instant) -> Instant {
        let usual = Duration::from_millis(self.last_duration.load(Relaxed))
            .saturating_mul(USUAL_FACTOR)
            .clamp(MIN_ALLOWED, MAX_USUAL);
        let allowed = usual + TIME_PER_ROW.saturating_mul(self.rows.load(Relaxed).try_into().unwrap_or(u32::MAX));
        let last_end = self.started_at + Duration::from_millis(self.last_end.load(Relaxed));
        queued_at.max(last_end) + allowed
    }
}
