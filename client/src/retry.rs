//! Retries of calls: conditions and backoff.
//!
//! Idempotent calls are retried with jittered backoff if there was no response. Other calls are retried only if the
//! server certainly did not process them (no connection, 429, 503 unless its database was away). `Retry-After` is honored.

use std::time::Duration;

use domain::Code;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// Longest pause that a `Retry-After` can cause.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);
/// Interval at which a call that is not answered is logged.
const LOG_INTERVAL: Duration = Duration::from_mins(1);

/// Condition for retrying a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// The call is idempotent.
    Always,
    /// Retry only if the server certainly did not process the call ([`Error::is_unprocessed`]).
    IfNotProcessed,
}

/// Attempts of one call.
pub(crate) struct RetryState {
    started_at: Instant,
    retry_timeout: Duration,
    count: u32,
}

impl RetryState {
    pub(crate) fn new(retry_timeout: Duration) -> Self {
        Self { started_at: Instant::now(), retry_timeout, count: 0 }
    }

    pub(crate) fn next(&mut self) -> u32 {
        self.count += 1;
        self.count
    }

    /// Waits before the next attempt, or returns the error if there is none.
    pub(crate) async fn pause(&self, error: Error, retry: RetryPolicy) -> Result<()> {
        let pause = pause_after(&error, self.count);
        if !may_retry(&error, retry) || self.started_at.elapsed() + pause > self.retry_timeout {
            return Err(error);
        }
        tracing::debug!(%error, ?pause, "call failed; retrying");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Calls until Treeline answers: a success, or an error that is neither transient nor foreign. It never gives up by
/// itself; to stop it, drop the future.
pub(crate) async fn retry_until_answered<T, F>(what: &'static str, call: impl Fn() -> F) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut tries = 0;
    let mut log_at = Instant::now();
    loop {
        match call().await {
            Err(error) if error.is_transient() || error.is_foreign() => {
                tries += 1;
                if Instant::now() >= log_at {
                    log_at = Instant::now() + LOG_INTERVAL;
                    tracing::warn!(%error, what, tries, "call failed; retrying until the server answers");
                }
                tokio::time::sleep(pause_after(&error, tries)).await;
            }
            answer => {
                if tries > 0 {
                    tracing::info!(what, tries, "call answered");
                }
                return answer;
            }
        }
    }
}

fn may_retry(error: &Error, retry: RetryPolicy) -> bool {
    let is_idempotent = retry == RetryPolicy::Always;
    match error {
        _ if error.is_unprocessed() => true,
        Error::Transport { .. } => is_idempotent,
        // The server may have done it.
        Error::Problem(problem) if problem.code == Code::DatabaseUnavailable => is_idempotent,
        // Another request with the same Idempotency-Key is being answered.
        Error::Problem(problem) if problem.code == Code::Duplicate && error.retry_after().is_some() => is_idempotent,
        // The gateway lost its connection to the server.
        _ => is_idempotent && matches!(error.status(), Some(502 | 504)),
    }
}

/// Pause after the `tries`-th failure, which was this one: that of its `Retry-After`, at least the backoff.
pub(crate) fn pause_after(error: &Error, tries: u32) -> Duration {
    error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER).max(backoff(tries))
}

/// Backoff after the `tries`-th failure: 0.1 s, doubling up to 5 s, multiplied by a random factor from 0.5 to 1.
pub(crate) fn backoff(tries: u32) -> Duration {
    let whole = Duration::from_millis(100).saturating_mul(1 << tries.saturating_sub(1).min(6));
    whole.min(Duration::from_secs(5)).mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use domain::Problem;

    use super::*;

    #[test]
    fn only_safe_calls_are_retried() {
        let of = |code, retry_after_seconds| {
            Error::Problem(Box::new(Problem { retry_after_seconds, ..Problem::new(code, "why") }))
        };
        let pause = Some(1);
        for retry in [RetryPolicy::Always, RetryPolicy::IfNotProcessed] {
            let is_idempotent = retry == RetryPolicy::Always;
            assert!(may_retry(&of(Code::Busy, pause), retry));
            assert_eq!(may_retry(&of(Code::DatabaseUnavailable, pause), retry), is_idempotent);
            assert_eq!(may_retry(&of(Code::Duplicate, pause), retry), is_idempotent);
            assert!(!may_retry(&of(Code::Duplicate, None), retry));
            assert!(!may_retry(&of(Code::Internal, None), retry));
        }
    }

    // A worker and an upload ignored the `Retry-After` of a proxy.
    #[test]
    fn a_proxy_is_left_alone_as_long_as_it_asks_for() {
        let of = |retry_after| Error::Unexpected {
            call: "POST /x".to_owned(),
            status: 503,
            body: "no server".to_owned(),
            retry_after,
        };
        assert_eq!(pause_after(&of(Some(Duration::from_secs(7))), 1), Duration::from_secs(7));
        assert_eq!(pause_after(&of(Some(Duration::from_hours(1))), 1), MAX_RETRY_AFTER);
        assert!(pause_after(&of(None), 1) <= Duration::from_millis(100));
    }

    #[test]
    fn pauses_grow_and_stay_bounded() {
        for tries in 1..40 {
            assert!(backoff(tries) <= Duration::from_secs(5));
        }
        assert!(backoff(1) <= Duration::from_millis(100));
        assert!(backoff(7) >= Duration::from_millis(2_500));
    }
}
