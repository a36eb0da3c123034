//! Latest progress report of one item, and a flag for unsent reports.
//!
//! Separate from the loop because handlers write to it from their own tasks. It sends nothing.

use std::sync::{Arc, Mutex, PoisonError};

use domain::{item::ItemProgress, limits::GREATEST_COUNT};
use tokio::sync::Notify;

/// Maximum number of characters of a progress message.
const MESSAGE_CHARS: usize = 200;

/// Latest progress of one item.
#[derive(Debug)]
pub(super) struct ProgressCell {
    /// Last report, and true if it has not been sent.
    latest: Mutex<(ItemProgress, bool)>,
    /// Wakes the loop.
    changed: Arc<Notify>,
}

impl ProgressCell {
    pub(super) fn new(changed: Arc<Notify>) -> Self {
        Self { latest: Mutex::default(), changed }
    }

    pub(super) fn set(&self, mut progress: ItemProgress) {
        progress.message = progress.message.map(|text| printable(&text, MESSAGE_CHARS));
        progress.done = progress.done.filter(|&n| is_count(n));
        progress.total = progress.total.filter(|&n| is_count(n));
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        if latest.0 != progress {
            *latest = (progress, true);
            drop(latest);
            self.changed.notify_one();
        }
    }

    /// The progress to send, if it has not been sent.
    pub(super) fn take(&self) -> Option<ItemProgress> {
        let mut latest = self.latest.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut latest.1).then(|| latest.0.clone())
    }

    /// Marks the report as unsent after a failed delivery. The latest one is sent next.
    pub(super) fn put_back(&self) {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
    }

    pub(super) fn is_unsent(&self) -> bool {
        self.latest.lock().unwrap_or_else(PoisonError::into_inner).1
    }
}

/// True of a count that the server takes. A heartbeat with another one would renew nothing.
fn is_count(n: i64) -> bool {
    (0..=GREATEST_COUNT).contains(&n)
}

/// At most `chars` characters on one line, without control characters, as the server requires for a message.
pub(super) fn printable(text: &str, chars: usize) -> String {
    text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_latest_progress_is_sent_and_only_once() {
        let cell = ProgressCell::new(Arc::default());
        let at = |done| ItemProgress { done: Some(done), ..ItemProgress::default() };
        assert_eq!(cell.take(), None);
        cell.set(at(1));
        cell.set(at(2));
        assert_eq!(cell.take(), Some(at(2)));
        cell.set(at(2));
        assert_eq!(cell.take(), None);
        cell.put_back();
        assert_eq!(cell.take(), Some(at(2)));
    }

    #[test]
    fn a_count_that_the_server_refuses_is_left_out() {
        let cell = ProgressCell::new(Arc::default());
        let of = |done, total| ItemProgress { done, total, ..ItemProgress::default() };
        cell.set(of(Some(GREATEST_COUNT), Some(GREATEST_COUNT + 1)));
        assert_eq!(cell.take(), Some(of(Some(GREATEST_COUNT), None)));
        cell.set(of(Some(-1), Some(0)));
        assert_eq!(cell.take(), Some(of(None, Some(0))));
    }

    #[test]
    fn a_message_is_one_printable_line() {
        assert_eq!(printable("  a\0b\nc ", 10), "a b c");
        assert_eq!(printable(&"é".repeat(300), 200).chars().count(), 200);
    }
}
