//! Announcements for screen readers on a live page: milestones only, at most one every five seconds.
//!
//! A progress bar is not a live region: reading every number aloud would overwhelm the listener. Changes within
//! the pause are announced as their latest state; nothing important is dropped.

use domain::JobStatus;

use super::liveness::Liveness;
use crate::{job_view::Head, t};

/// Milliseconds between two announcements.
const PAUSE: f64 = 5_000.0;

/// State of the last announcement.
#[derive(Clone, Debug, Default)]
pub struct Announcer {
    announced_at: Option<f64>,
    quarter: u8,
    failed: bool,
    completed: bool,
    lost: bool,
}

impl Announcer {
    /// An announcer that treats the state on the page as announced.
    pub fn from(head: &Head) -> Self {
        Self {
            announced_at: None,
            quarter: quarter(head),
            failed: head.meter.counts.dead > 0,
            completed: head.completed(),
            lost: false,
        }
    }

    /// Returns the announcement at `now` milliseconds, if there is one.
    pub fn consider(&mut self, now: f64, head: &Head, liveness: Liveness) -> Option<String> {
        if self.announced_at.is_some_and(|at| now - at < PAUSE) {
            return None;
        }
        let text = self.next_text(head, liveness)?;
        self.announced_at = Some(now);
        Some(text)
    }

    fn next_text(&mut self, head: &Head, liveness: Liveness) -> Option<String> {
        let lost = matches!(liveness, Liveness::Stale | Liveness::SignedOut | Liveness::Removed | Liveness::Closed);
        if head.completed() != self.completed {
            self.completed = head.completed();
            self.quarter = quarter(head);
            self.failed = head.meter.counts.dead > 0;
            return Some(if self.completed { head.sentence() } else { t!("live-says-again").to_owned() });
        }
        if lost != self.lost {
            self.lost = lost;
            return Some(if lost { t!("live-says-lost") } else { t!("live-says-connected") }.to_owned());
        }
        let failed = head.meter.counts.dead;
        if failed > 0 && !self.failed {
            self.failed = true;
            return Some(t!("live-says-failed", n = failed));
        }
        if quarter(head) > self.quarter {
            self.quarter = quarter(head);
            return Some(t!("live-says-percent", n = head.meter.percent.unwrap_or(0)));
        }
        None
    }
}

/// Quarter of the progress of a running job.
fn quarter(head: &Head) -> u8 {
    if head.status == JobStatus::Waiting { 0 } else { head.meter.percent.unwrap_or(0) / 25 }
}

#[cfg(test)]
mod tests {
    use domain::{Counts, Outcome};

    use super::*;
    use crate::meter::Meter;

    fn head(percent: u8, dead: i64) -> Head {
        let completed = percent == 100;
        let counts = Counts {
            succeeded: i64::from(percent) - dead,
            dead,
            available: 100 - i64::from(percent),
            ..Counts::default()
        };
        Head {
            status: if completed { JobStatus::Completed } else { JobStatus::Running },
            outcome: completed.then_some(Outcome::Partial),
            sealed: true,
            file: true,
            meter: Meter { counts, whole: 100, percent: Some(percent) },
            started_at: None,
            completed_at: None,
            reopened: false,
            stage: None,
            waits: None,
            version: 1,
        }
    }

    #[test]
    fn fast_run_makes_few_announcements_and_always_the_last() {
        let mut announcer = Announcer::from(&head(0, 0));
        let announcements: Vec<String> = (0..=100u8)
            .chain([100; 60])
            .enumerate()
            .filter_map(|(step, percent)| {
                let dead = i64::from(percent / 40);
                announcer.consider(step as f64 * 100.0, &head(percent, dead), Liveness::Live)
            })
            .collect();
        assert!(announcements.len() <= 4, "{announcements:?}");
        assert_eq!(
            announcements.last().map(String::as_str),
            Some("98 of 100 rows are imported. 2 rows need your attention.")
        );
    }

    #[test]
    fn lost_connection_is_announced_once() {
        let mut announcer = Announcer::from(&head(10, 0));
        let mut at = |now, liveness| announcer.consider(now, &head(10, 0), liveness);
        assert_eq!(at(0.0, Liveness::Reconnecting), None);
        assert_eq!(at(1.0, Liveness::Stale).as_deref(), Some("Connection lost, numbers may be out of date."));
        assert_eq!(at(9_000.0, Liveness::Stale), None);
        assert_eq!(at(9_001.0, Liveness::Live).as_deref(), Some("Reconnected."));
    }
}
