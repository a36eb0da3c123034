//! Retries of calls: conditions and backoff.
//!
//! Idempotent calls are retried with jittered backoff if there was no response. Other calls are retried only if the
//! server certainly did not process them (no connection, 429, 503 unless its database was away). `Retry-After` is honored.

use std::time::Duration;

use domain::Code;
use reqwest::StatusCode;
use tokio::time::Instant;

use crate::error::{Error, Result};

/// Longest pause that a `Retry-After` can cause.
const MAX_RETRY_AFTER: Duration = Duration::from_mins(1);

/// Condition for retrying a call.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum RetryPolicy {
    /// The call is idempotent.
    Always,
    /// Retry only if the server certainly did not process the call: no connection, 429, 503 unless its database was
    /// away.
    IfNotProcessed,
}

/// A failed attempt, and the `Retry-After` of its response.
pub(crate) struct FailedAttempt {
    pub(crate) error: Error,
    pub(crate) retry_after: Option<Duration>,
}

impl FailedAttempt {
    pub(crate) const fn without_retry_after(error: Error) -> Self {
        Self { error, retry_after: None }
    }
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
    pub(crate) async fn pause(&self, failed: FailedAttempt, retry: RetryPolicy) -> Result<()> {
        let FailedAttempt { error, retry_after } = failed;
        let pause = retry_after.unwrap_or_default().max(backoff(self.count)).min(MAX_RETRY_AFTER);
        if !may_retry(&error, retry_after, retry) || self.started_at.elapsed() + pause > self.retry_timeout {
            return Err(error);
        }
        tracing::debug!(%error, ?pause, "call failed; retrying");
        tokio::time::sleep(pause).await;
        Ok(())
    }
}

/// Calls until the response is final: a success, or an error that is not transient. It never gives up by itself; to
/// stop it, drop the future. Responses that are not from Treeline are no answer for `foreign_timeout` after the first one.
pub(crate) async fn retry_until_answered<T, F>(
    what: &'static str,
    foreign_timeout: Duration,
    call: impl Fn() -> F,
) -> Result<T>
where
    F: Future<Output = Result<T>>,
{
    let mut tries = 0;
    let mut first_foreign = None;
    let mut may_pass = |error: &Error| {
        error.is_transient()
            || (error.is_foreign() && first_foreign.get_or_insert_with(Instant::now).elapsed() < foreign_timeout)
    };
    loop {
        match call().await {
            Err(error) if may_pass(&error) => {
                tries += 1;
                if tries == 1 {
                    tracing::warn!(%error, what, "call failed; retrying until the server answers");
                }
                let requested_pause = error.retry_after().unwrap_or_default().min(MAX_RETRY_AFTER);
                tokio::time::sleep(backoff(tries).max(requested_pause)).await;
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

fn may_retry(error: &Error, retry_after: Option<Duration>, retry: RetryPolicy) -> bool {
    let is_refused = |status| status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE;
    match error {
        Error::Transport { cause, .. } => cause.is_connect() || retry == RetryPolicy::Always,
        // The server may have done it.
        Error::Problem(problem) if problem.code == Code::DatabaseUnavailable => retry == RetryPolicy::Always,
        // Another request with the same Idempotency-Key is being answered.
        Error::Problem(problem) if problem.code == Code::Duplicate && retry_after.is_some() => {
            retry == RetryPolicy::Always
        }
        _ => match error.status().and_then(|status| StatusCode::from_u16(status).ok()) {
            Some(status) if is_refused(status) => true,
            // The gateway lost its connection to the server.
            Some(StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT) => retry == RetryPolicy::Always,
            _ => false,
        },
    }
}

/// Pause after the `tries`-th failure: 0.1 s, doubling up to 5 s, multiplied by a random factor from 0.5 to 1.
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
        let of = |code| Error::Problem(Box::new(Problem::new(code, "why")));
        let pause = Some(Duration::from_secs(1));
        for retry in [RetryPolicy::Always, RetryPolicy::IfNotProcessed] {
            let is_idempotent = retry == RetryPolicy::Always;
            assert!(may_retry(&of(Code::Busy), pause, retry));
            assert_eq!(may_retry(&of(Code::DatabaseUnavailable), pause, retry), is_idempotent);
            assert_eq!(may_retry(&of(Code::Duplicate), pause, retry), is_idempotent);
            assert!(!may_retry(&of(Code::Duplicate), None, retry));
            assert!(!may_retry(&of(Code::Internal), None, retry));
        }
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
