//! Retry: how long an item waits after a failure, and when its budget is spent (`retry-budget`).

use serde::{Deserialize, Serialize};

use crate::item::{EndedAs, MaxFailures};

/// Delivery guarantee of items.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Delivery {
    #[default]
    AtLeastOnce,
    AtMostOnce,
}

impl Delivery {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::AtLeastOnce => "at_least_once",
            Self::AtMostOnce => "at_most_once",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::AtLeastOnce, Self::AtMostOnce].into_iter().find(|d| d.as_str() == word)
    }
}

/// Backoff b = min(max, min × factor^(failures−1)); with jitter the wait is uniform in [b, 1.5 b].
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Backoff {
    pub min_seconds: f64,
    /// `null`: no cap.
    pub max_seconds: Option<f64>,
    pub factor: f64,
    pub jitter: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { min_seconds: 3.0, max_seconds: Some(3600.0), factor: 2.0, jitter: true }
    }
}

/// Longest delay, a hundred years; also applies when `max_seconds` is null.
pub const LONGEST_SECONDS: f64 = 100.0 * 365.25 * 86_400.0;

impl Backoff {
    /// Seconds to wait after the `failures`-th failure (from 1). `random` is uniform in [0, 1).
    pub fn delay_seconds(&self, failures: i32, random: f64) -> f64 {
        let cap = self.max_seconds.unwrap_or(LONGEST_SECONDS).min(LONGEST_SECONDS);
        // The exponent at which min × factor^n passes the cap, found by logarithm, so that the power
        // itself is never taken beyond it.
        let exponent = f64::from(failures.max(1) - 1);
        let base = if self.min_seconds <= 0.0 {
            0.0
        } else if self.factor > 1.0 && exponent * self.factor.ln() >= (cap / self.min_seconds).max(1.0).ln() {
            cap
        } else {
            (self.min_seconds * self.factor.powf(exponent)).min(cap)
        };
        if self.jitter { base * (1.0 + random.clamp(0.0, 1.0) / 2.0) } else { base }
    }

    /// Error in it, if any: pointer within the object, and what was expected.
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        let in_range = |v: f64| v.is_finite() && (0.0..=LONGEST_SECONDS).contains(&v);
        if !in_range(self.min_seconds) {
            Some(("/min_seconds", "expected a number of seconds from 0"))
        } else if self.max_seconds.is_some_and(|max| !in_range(max) || max < self.min_seconds) {
            Some(("/max_seconds", "expected null or a number of seconds not below min_seconds"))
        } else if !(1.0..=1_000.0).contains(&self.factor) {
            Some(("/factor", "expected a number from 1 to 1000"))
        } else {
            None
        }
    }
}

/// Verdict on an item whose attempt did not succeed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// To be offered again after so many seconds; 0 is at once.
    RetryIn(f64),
    /// A dead letter. `outcome_unknown` where no one can say whether the work was done.
    Dead { outcome_unknown: bool },
}

/// A failed attempt, as `retry-budget` looks at it.
#[derive(Clone, Copy, Debug)]
pub struct FailedAttempt {
    pub ended_as: EndedAs,
    pub delivery: Delivery,
    pub max_failures: MaxFailures,
    /// Failures of the item, this one included.
    pub failures: i32,
    /// Flag that the worker sent.
    pub retryable: bool,
    pub retry_after_seconds: Option<f64>,
}

/// `retry-budget`. `random` is uniform in [0, 1).
pub fn verdict(failed: FailedAttempt, backoff: &Backoff, random: f64) -> Verdict {
    let lost = matches!(failed.ended_as, EndedAs::LeaseLost | EndedAs::TimedOut);
    match failed.delivery {
        Delivery::AtMostOnce => return Verdict::Dead { outcome_unknown: lost },
        Delivery::AtLeastOnce => {}
    }
    let spent = match failed.max_failures {
        MaxFailures::AtMost(max) => i64::from(failed.failures) >= i64::from(max),
        MaxFailures::Unlimited => false,
    };
    if spent || !failed.retryable {
        Verdict::Dead { outcome_unknown: false }
    } else if failed.ended_as == EndedAs::LeaseLost {
        Verdict::RetryIn(0.0)
    } else {
        Verdict::RetryIn(failed.retry_after_seconds.unwrap_or_else(|| backoff.delay_seconds(failed.failures, random)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_doubles_up_to_its_cap_and_never_overflows() {
        let backoff = Backoff { jitter: false, ..Backoff::default() };
        let delays: Vec<f64> = [1, 2, 3, 11, 12, i32::MAX].iter().map(|&n| backoff.delay_seconds(n, 0.5)).collect();
        assert_eq!(delays, [3.0, 6.0, 12.0, 3072.0, 3600.0, 3600.0]);
        let endless = Backoff { max_seconds: None, ..backoff };
        assert!(endless.delay_seconds(i32::MAX, 0.0).is_finite());
        let still = Backoff { factor: 1.0, ..backoff };
        assert!((still.delay_seconds(1_000_000, 0.0) - 3.0).abs() < f64::EPSILON);
    }

    #[test]
    fn jitter_adds_up_to_a_half() {
        let backoff = Backoff::default();
        assert!((backoff.delay_seconds(1, 0.0) - 3.0).abs() < 1e-9);
        assert!((backoff.delay_seconds(1, 1.0) - 4.5).abs() < 1e-9);
    }

    fn failed() -> FailedAttempt {
        FailedAttempt {
            ended_as: EndedAs::Failed,
            delivery: Delivery::AtLeastOnce,
            max_failures: MaxFailures::AtMost(3),
            failures: 1,
            retryable: true,
            retry_after_seconds: None,
        }
    }

    #[test]
    fn a_budget_of_three_allows_two_retries() {
        let backoff = Backoff { jitter: false, ..Backoff::default() };
        assert_eq!(verdict(failed(), &backoff, 0.0), Verdict::RetryIn(3.0));
        assert_eq!(verdict(FailedAttempt { failures: 2, ..failed() }, &backoff, 0.0), Verdict::RetryIn(6.0));
        let dead = Verdict::Dead { outcome_unknown: false };
        assert_eq!(verdict(FailedAttempt { failures: 3, ..failed() }, &backoff, 0.0), dead);
        let endless = FailedAttempt { failures: 3_000, max_failures: MaxFailures::Unlimited, ..failed() };
        assert_eq!(verdict(endless, &backoff, 0.0), Verdict::RetryIn(3600.0));
    }

    #[test]
    fn worker_retry_after_wins_and_lost_lease_does_not_wait() {
        let backoff = Backoff::default();
        assert_eq!(
            verdict(FailedAttempt { retry_after_seconds: Some(42.0), ..failed() }, &backoff, 0.9),
            Verdict::RetryIn(42.0)
        );
        assert_eq!(
            verdict(FailedAttempt { retryable: false, ..failed() }, &backoff, 0.9),
            Verdict::Dead { outcome_unknown: false }
        );
        assert_eq!(
            verdict(FailedAttempt { ended_as: EndedAs::LeaseLost, ..failed() }, &backoff, 0.9),
            Verdict::RetryIn(0.0)
        );
    }

    #[test]
    fn at_most_once_failure_is_final() {
        let once = |ended_as| FailedAttempt { ended_as, delivery: Delivery::AtMostOnce, ..failed() };
        let backoff = Backoff::default();
        assert_eq!(verdict(once(EndedAs::Failed), &backoff, 0.0), Verdict::Dead { outcome_unknown: false });
        assert_eq!(verdict(once(EndedAs::LeaseLost), &backoff, 0.0), Verdict::Dead { outcome_unknown: true });
        assert_eq!(verdict(once(EndedAs::TimedOut), &backoff, 0.0), Verdict::Dead { outcome_unknown: true });
    }
}
