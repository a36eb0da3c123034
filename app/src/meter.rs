//! Arithmetic of a bar: the width of each state's segment, and the number beside it.
//!
//! It is separate from the rendering so that it can be tested without a page, and so that a list row and the
//! uploader's page cannot differ. It must not round a failure away: one dead item in a million stays visible.

use crate::t;
use domain::{Counts, ItemState, Job, dispatch::progress};
use serde::{Deserialize, Serialize};

/// Minimum width of a state that has items, in percent of the bar.
const NARROWEST: f64 = 0.75;

/// Numbers that a bar shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    pub counts: Counts,
    /// Total number of items: existing or expected, whichever is larger.
    pub whole: i64,
    /// `None` while the total is unknown.
    pub percent: Option<u8>,
}

/// One state's part of a bar, in percent of its width.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    pub state: ItemState,
    pub from: f64,
    pub width: f64,
}

impl Meter {
    /// Bar of a job including its descendants.
    pub fn of_tree(job: &Job) -> Self {
        let whole = job.tree.counts.total().max(job.expected_count.unwrap_or(0));
        Self { counts: job.tree.counts, whole, percent: job.percent }
    }

    /// The bar of a job's own items.
    pub fn of_job(job: &Job) -> Self {
        let completed = job.status == domain::JobStatus::Completed;
        let percent = progress::percent(&job.counts, job.sealed, job.expected_count, completed);
        Self { counts: job.counts, whole: job.counts.total().max(job.expected_count.unwrap_or(0)), percent }
    }

    /// Segments in the order of every bar. There is always one per state, so that a live bar changes only two numbers
    /// of each.
    pub fn segments(&self) -> [Segment; 10] {
        let whole = self.rendered_whole();
        let mut widths = ItemState::ALL.map(|state| {
            let count = self.counts.get(state);
            if count > 0 { (count as f64 / whole * 100.0).max(NARROWEST) } else { 0.0 }
        });
        let sum: f64 = widths.iter().sum();
        if sum > 100.0 {
            // The widest segment gives up what the narrow ones gained.
            let widest = (0..10).max_by(|&a, &b| widths[a].total_cmp(&widths[b])).unwrap_or(0);
            widths[widest] -= sum - 100.0;
        }
        let mut from = 0.0;
        let mut place = 0;
        widths.map(|width| {
            let segment = Segment { state: ItemState::ALL[place], from, width };
            from += width;
            place += 1;
            segment
        })
    }

    /// Total that the bar is drawn for. If more items are expected than exist, as in a tree with feeds, the percentage
    /// includes them and the counts do not: the rest of the bar stays empty.
    fn rendered_whole(&self) -> f64 {
        let whole = self.whole.max(self.counts.total()).max(1);
        let finished = self.counts.finished();
        match self.percent.map(i64::from) {
            Some(percent) if finished * 100 >= (percent + 1) * whole => finished as f64 * 100.0 / percent.max(1) as f64,
            _ => whole as f64,
        }
    }

    /// Number beside the bar: `41%`, or `3,114 done` while the total is unknown.
    pub fn number(&self) -> String {
        let done = || t!("live-bar-done", done = self.counts.finished());
        self.percent.map_or_else(done, |percent| t!("live-percent", n = percent))
    }

    /// The bar in words, for screen readers.
    pub fn in_words(&self) -> String {
        let done = self.counts.finished();
        let mut words = match self.percent {
            // A total that is derived from the percentage is not a count, so it is not named.
            Some(percent) if self.rendered_whole() > self.whole.max(self.counts.total()).max(1) as f64 => {
                t!("live-bar-percent-done", percent = percent, done = done)
            }
            Some(percent) => t!("live-bar-percent-of", percent = percent, done = done, whole = self.whole),
            None => t!("live-bar-done", done = done),
        };
        if self.counts.dead > 0 {
            words = t!("live-bar-failed", words = &words, n = self.counts.dead);
        }
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meter(succeeded: i64, dead: i64, available: i64) -> Meter {
        let counts = Counts { succeeded, dead, available, ..Counts::default() };
        Meter { counts, whole: counts.total(), percent: Some(50) }
    }

    #[test]
    fn one_failure_in_a_million_is_visible() {
        let segments = Meter { percent: Some(100), ..meter(999_999, 1, 0) }.segments();
        assert!(segments[1].width >= NARROWEST, "{segments:?}");
        let end = segments[8].from + segments[8].width;
        assert!((end - 100.0).abs() < 1e-9, "{end}");
    }

    #[test]
    fn expected_items_leave_space_in_the_bar() {
        let counts = Counts { succeeded: 50, ..Counts::default() };
        let segments = Meter { counts, whole: 200, percent: Some(25) }.segments();
        assert!((segments[0].width - 25.0).abs() < 1e-9);
    }

    #[test]
    fn the_bar_shows_what_the_number_says() {
        let counts = Counts { succeeded: 300, available: 200, ..Counts::default() };
        let done = |percent| Meter { counts, whole: 500, percent: Some(percent) }.segments()[0].width;
        for (percent, width) in [(21, 21.0), (0, 1.0), (60, 60.0), (59, 59.0)] {
            assert!((done(percent) - width).abs() < 1e-9, "{percent} %: {}", done(percent));
        }
    }

    #[test]
    fn an_empty_bar_is_empty() {
        assert!(meter(0, 0, 0).segments().iter().all(|s| s.width.abs() < 1e-9));
    }

    #[test]
    fn unknown_total_is_not_named() {
        assert_eq!(Meter { percent: Some(21), ..meter(300, 0, 200) }.in_words(), "21%, 300 done");
    }

    #[test]
    fn words_name_failures() {
        assert_eq!(meter(4_980, 20, 5_000).in_words(), "50%, 5,000 of 10,000 done, 20 failed");
    }
}
