//! Text of a progress bar: percent and message, the same words in API, page, and
//! terminal.

use crate::{Counts, JobStatus, Outcome};

/// Percent done: floor(100 × progress / max(count, expected)), at most 99 before completion, `None`
/// while unsealed with nothing expected.
pub fn percent(counts: &Counts, sealed: bool, expected: Option<i64>, completed: bool) -> Option<u8> {
    if completed {
        return Some(100);
    }
    if !sealed && expected.is_none() {
        return None;
    }
    let whole = counts.total().max(expected.unwrap_or(0));
    if whole <= 0 {
        return Some(0);
    }
    let done = i128::from(counts.finished()) * 100 / i128::from(whole);
    Some(done.clamp(0, 99) as u8)
}

/// The one sentence about a tree.
pub fn message(counts: &Counts, status: JobStatus, outcome: Option<Outcome>, percent: Option<u8>) -> String {
    match status {
        JobStatus::Waiting => "Waiting for job to start…".to_owned(),
        JobStatus::Cancelling => format!("Cancelling, {} still running…", grouped(counts.running)),
        JobStatus::Running => match percent {
            Some(percent) => format!("Job running, {percent}% complete…"),
            None => format!("Job running, {} done…", grouped(counts.finished())),
        },
        JobStatus::Completed if outcome == Some(Outcome::Cancelled) => "Job cancelled".to_owned(),
        JobStatus::Completed => {
            let failed = match counts.unresolved() {
                0 => String::new(),
                n => format!(", {} of {} failed", grouped(n), grouped(counts.total())),
            };
            let corrected = match counts.superseded {
                0 => String::new(),
                n => format!(", {} corrected", grouped(n)),
            };
            format!("Job complete{failed}{corrected}")
        }
    }
}

/// A whole number with a comma between groups of three digits: `1,204`.
pub fn grouped(n: i64) -> String {
    let digits = n.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3 + 1);
    if n < 0 {
        text.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(succeeded: i64, dead: i64, available: i64) -> Counts {
        Counts { available, succeeded, dead, ..Counts::default() }
    }

    #[test]
    fn percent_reaches_100_only_on_completion() {
        assert_eq!(percent(&counts(999, 1, 0), true, None, false), Some(99));
        assert_eq!(percent(&counts(999, 1, 0), true, None, true), Some(100));
        assert_eq!(percent(&counts(41, 0, 59), true, None, false), Some(41));
        assert_eq!(percent(&counts(0, 0, 0), true, None, false), Some(0));
        assert_eq!(percent(&counts(50, 0, 0), false, None, false), None);
        assert_eq!(percent(&counts(50, 0, 0), false, Some(200), false), Some(25));
        assert_eq!(percent(&counts(i64::MAX / 2, 0, 0), true, Some(i64::MAX), false), Some(49));
    }

    #[test]
    fn progress_messages() {
        let sentence = |counts: &Counts, status, outcome, percent| message(counts, status, outcome, percent);
        let c = counts(4_980, 20, 0);
        assert_eq!(sentence(&counts(0, 0, 5), JobStatus::Waiting, None, Some(0)), "Waiting for job to start…");
        assert_eq!(sentence(&counts(41, 0, 59), JobStatus::Running, None, Some(41)), "Job running, 41% complete…");
        assert_eq!(sentence(&counts(1_204, 0, 0), JobStatus::Running, None, None), "Job running, 1,204 done…");
        assert_eq!(
            sentence(&c, JobStatus::Completed, Some(Outcome::Partial), Some(100)),
            "Job complete, 20 of 5,000 failed"
        );
        assert_eq!(
            sentence(&counts(5, 0, 0), JobStatus::Completed, Some(Outcome::Succeeded), Some(100)),
            "Job complete"
        );
        assert_eq!(sentence(&c, JobStatus::Completed, Some(Outcome::Cancelled), Some(100)), "Job cancelled");
        let corrected = Counts { cancelled: 18, superseded: 18, ..counts(4_980, 2, 0) };
        assert_eq!(
            sentence(&corrected, JobStatus::Completed, Some(Outcome::Partial), Some(100)),
            "Job complete, 2 of 5,000 failed, 18 corrected"
        );
        let holding = Counts { running: 3, ..Counts::default() };
        assert_eq!(sentence(&holding, JobStatus::Cancelling, None, None), "Cancelling, 3 still running…");
    }
}
