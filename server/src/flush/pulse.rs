//! Whether the batches of one family come to their end, for those who wait behind them.
//!
//! A batch that takes its time is no reason to turn anybody away: what is usual here, and how many rows are under way,
//! say how long the next end may take.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Duration,
};

use tokio::time::Instant;

/// The least that is waited for an end, and the most for what was usual.
const LEAST: Duration = Duration::from_millis(1_500);
const MOST: Duration = Duration::from_secs(15);
/// So many times as long as the last batch may the next one take.
const USUAL: u32 = 4;
/// What a row under way may take.
const ROW: Duration = Duration::from_micros(500);

pub(super) struct Pulse {
    began: Instant,
    /// When a batch last came to its end, and how long it took, in milliseconds.
    ended: AtomicU64,
    took: AtomicU64,
    rows: AtomicUsize,
}

/// A batch under way.
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

    /// `reached`: whether the database got to it; an end without that is none.
    pub(super) fn end(&self, beat: &Beat, reached: bool) {
        self.rows.fetch_sub(beat.rows, Relaxed);
        if reached {
            self.took.store(beat.since.elapsed().as_millis() as u64, Relaxed);
            self.ended.store(self.began.elapsed().as_millis() as u64, Relaxed);
        }
    }

    /// The moment at which an end will have been missed for too long, for one who has waited since then; later with every
    /// end and with more rows under way, so who waited for it asks again.
    pub(super) fn missed_at(&self, asked: Instant) -> Instant {
        let usual = Duration::from_millis(self.took.load(Relaxed)).saturating_mul(USUAL).clamp(LEAST, MOST);
        let allowed = usual + ROW.saturating_mul(self.rows.load(Relaxed).try_into().unwrap_or(u32::MAX));
        let ended = self.began + Duration::from_millis(self.ended.load(Relaxed));
        asked.max(ended) + allowed
    }
}
