//! Byte budget shared by all request bodies in memory.
//!
//! Every request counts the bytes of its body until its response starts. The budget has three parts, so that large
//! bodies never block heartbeats and unauthenticated requests never block others: one for unauthenticated requests, one
//! for other bodies of at most 16 KiB, and the rest. Files that are received, which may take minutes, leave a quarter of the
//! rest to other bodies. Requests do not wait for memory: one that does not fit is refused with 503 `busy`.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use domain::{Code, Problem};

use engine::error::Result;

/// Largest body of an unauthenticated request, and the largest other body that counts as small, in bytes.
pub const SMALL_BODY: usize = 16 << 10;

/// One part of the budget.
#[derive(Debug)]
struct Part {
    limit: usize,
    used: AtomicUsize,
}

impl Part {
    fn new(limit: usize) -> Self {
        Self { limit, used: AtomicUsize::new(0) }
    }

    fn take(&self, bytes: usize) -> bool {
        let room = |used: usize| used.checked_add(bytes).filter(|&sum| sum <= self.limit);
        bytes == 0 || self.used.try_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok()
    }

    fn release(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// Budget of a server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct BodyMemory(Arc<Parts>);

#[derive(Debug)]
struct Parts {
    unknown: Part,
    small: Part,
    large: Part,
    /// Bytes of `large` that are of files.
    files: Part,
}

impl BodyMemory {
    /// Creates a budget of `bytes`: one eighth for unauthenticated requests, one eighth for small bodies.
    pub fn new(bytes: usize) -> Self {
        let eighth = Self::eighth(bytes);
        let large = Self::largest(bytes);
        Self(Arc::new(Parts {
            unknown: Part::new(eighth),
            small: Part::new(eighth),
            large: Part::new(large),
            files: Part::new(large - large / 4),
        }))
    }

    /// Bytes of the largest body that fits into a budget of `bytes`.
    pub fn largest(bytes: usize) -> usize {
        bytes.saturating_sub(2 * Self::eighth(bytes))
    }

    fn eighth(bytes: usize) -> usize {
        (bytes / 8).max(SMALL_BODY)
    }

    /// Creates the empty share of one request.
    pub fn share(&self) -> BodyShare {
        BodyShare(Arc::new(Share { budget: self.clone(), counted: Mutex::default() }))
    }

    /// Number of bytes currently counted.
    pub fn used(&self) -> usize {
        let Parts { unknown, small, large, files: _ } = &*self.0;
        [unknown, small, large].iter().map(|part| part.used.load(Ordering::Relaxed)).sum()
    }
}

/// Share of one request in the budget; returned when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct BodyShare(Arc<Share>);

#[derive(Debug)]
struct Share {
    budget: BodyMemory,
    counted: Mutex<BytesByPart>,
}

/// Bytes of one request, by part of the budget.
#[derive(Clone, Copy, Debug, Default)]
struct BytesByPart {
    unknown: usize,
    small: usize,
    large: usize,
    files: usize,
}

impl BytesByPart {
    fn of(bytes: usize, is_known: bool) -> Self {
        match is_known {
            false => Self { unknown: bytes, ..Self::default() },
            true if bytes <= SMALL_BODY => Self { small: bytes, ..Self::default() },
            true => Self { large: bytes, ..Self::default() },
        }
    }
}

impl BodyShare {
    /// Sets the total bytes of this request, replacing the previous value. 503 `busy` and no change if they do not fit.
    pub fn hold(&self, bytes: usize, is_known: bool) -> Result<()> {
        self.set(BytesByPart::of(bytes, is_known))
    }

    /// [`Self::hold`] for a file of a known caller, or the part of it that is in memory. One that is alone always fits.
    pub fn hold_file(&self, bytes: usize) -> Result<()> {
        let wanted = BytesByPart::of(bytes, true);
        self.set(BytesByPart { files: wanted.large.min(self.0.budget.0.files.limit), ..wanted })
    }

    fn set(&self, wanted: BytesByPart) -> Result<()> {
        let Parts { unknown, small, large, files } = &*self.0.budget.0;
        let mut counted = self.0.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = [
            (unknown, counted.unknown, wanted.unknown),
            (small, counted.small, wanted.small),
            (large, counted.large, wanted.large),
            (files, counted.files, wanted.files),
        ];
        for (at, (part, before, after)) in parts.iter().enumerate() {
            if !part.take(after.saturating_sub(*before)) {
                for (part, before, after) in &parts[..at] {
                    part.release(after.saturating_sub(*before));
                }
                metrics::counter!("treeline_bodies_refused_total").increment(1);
                return Err(busy("Too much is being sent at this moment.").into());
            }
        }
        for (part, before, after) in &parts {
            part.release(before.saturating_sub(*after));
        }
        *counted = wanted;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let Parts { unknown, small, large, files } = &*self.budget.0;
        let counted = self.counted.get_mut().unwrap_or_else(PoisonError::into_inner);
        unknown.release(counted.unknown);
        small.release(counted.small);
        large.release(counted.large);
        files.release(counted.files);
    }
}

/// 503 `busy` with a retry after one second.
pub fn busy(why: &str) -> Problem {
    Problem {
        retry_after_seconds: Some(1),
        ..Problem::new(Code::Busy, format!("{why} Nothing was changed; try again."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_counted_until_it_is_dropped() {
        let budget = BodyMemory::new(1 << 20);
        let share = budget.share();
        share.hold(100_000, true).expect("it fits");
        share.hold(300_000, true).expect("more of it");
        assert_eq!(budget.used(), 300_000);
        share.hold(10, true).expect("less of it");
        assert_eq!(budget.used(), 10);
        share.hold(2 << 20, true).expect_err("more than there is");
        assert_eq!(budget.used(), 10, "a refusal changes nothing");
        drop(share);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn large_bodies_leave_room_for_small_ones() {
        let budget = BodyMemory::new(1 << 20);
        let large: Vec<_> = (0..100).map(|_| budget.share()).take_while(|s| s.hold(100_000, true).is_ok()).collect();
        assert!((5..=7).contains(&large.len()), "{}", large.len());
        budget.share().hold(1_000, true).expect("a heartbeat");
        budget.share().hold(SMALL_BODY, false).expect("a sign-in");
        let unknown: Vec<_> =
            (0..100).map(|_| budget.share()).take_while(|s| s.hold(SMALL_BODY, false).is_ok()).collect();
        assert_eq!(unknown.len(), (1 << 20) / 8 / SMALL_BODY);
        budget.share().hold(1_000, true).expect("a heartbeat beside them");
    }

    #[test]
    fn files_leave_room_for_other_large_bodies() {
        let budget = BodyMemory::new(1 << 20);
        let files: Vec<_> = (0..100).map(|_| budget.share()).take_while(|s| s.hold_file(64 << 10).is_ok()).collect();
        assert_eq!(files.len(), 9);
        let largest = BodyMemory::largest(1 << 20);
        let other = budget.share();
        other.hold(largest / 4, true).expect("results beside them");
        budget.share().hold(64 << 10, true).expect_err("all is in use");
        drop((files, other));
        assert_eq!(budget.used(), 0);
        budget.share().hold(largest, true).expect("without files, one body gets all");
        budget.share().hold_file(largest).expect("or one file");
    }
}
