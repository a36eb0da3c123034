//! Request rates per minute, and their response headers (draft-ietf-httpapi-ratelimit-headers).
//!
//! Windows of one minute each, starting with their first request. `server/src/http/admission.rs` applies them.

use std::time::{Duration, Instant};

use domain::{Code, Problem};

const WINDOW: Duration = Duration::from_mins(1);

/// Number of requests allowed per minute.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    pub name: &'static str,
    pub requests: u32,
}

/// State of a caller's rate limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateStatus {
    pub name: &'static str,
    pub limit: u32,
    pub remaining: u32,
    pub reset_seconds: u64,
}

impl RateStatus {
    /// Value of `RateLimit-Policy`.
    pub fn policy(&self) -> String {
        format!("\"{}\";q={};w={}", self.name, self.limit, WINDOW.as_secs())
    }

    /// 429 of a request that exceeds the limit.
    pub fn refusal(&self) -> Problem {
        let Self { name, limit, reset_seconds: seconds, .. } = self;
        let detail = format!("More than {limit} requests in a minute ({name}). Try again in {seconds} s.");
        let retry_after_seconds = u32::try_from(*seconds).ok();
        Problem { retry_after_seconds, ..Problem::new(Code::TooManyRequests, detail) }
    }

    /// Value of `RateLimit`.
    pub fn status(&self) -> String {
        format!("\"{}\";r={};t={}", self.name, self.remaining, self.reset_seconds)
    }
}

/// Number of requests since the start of the window.
#[derive(Debug, Default)]
pub(super) struct Window {
    began: Option<Instant>,
    requests: u32,
}

impl Window {
    pub(super) fn is_open(&self) -> bool {
        self.began.is_some_and(|began| began.elapsed() < WINDOW)
    }

    /// Counts one request, unless it exceeds the limit.
    pub(super) fn count(&mut self, policy: Policy) -> Result<RateStatus, RateStatus> {
        if !self.is_open() {
            *self = Self { began: Some(Instant::now()), requests: 0 };
        }
        self.check(policy)?;
        self.requests += 1;
        Ok(self.status(policy, policy.requests - self.requests))
    }

    /// Checks that one more request would be allowed.
    pub(super) fn check(&self, policy: Policy) -> Result<(), RateStatus> {
        if !self.is_open() || self.requests < policy.requests { Ok(()) } else { Err(self.status(policy, 0)) }
    }

    fn status(&self, policy: Policy, remaining: u32) -> RateStatus {
        RateStatus { name: policy.name, limit: policy.requests, remaining, reset_seconds: self.reset_seconds() }
    }

    /// Seconds until the window ends, at least one.
    fn reset_seconds(&self) -> u64 {
        let left = self.began.map_or(Duration::ZERO, |began| WINDOW.saturating_sub(began.elapsed()));
        left.as_secs() + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refused_request_gets_its_retry_delay() {
        let policy = Policy { name: "api", requests: 2 };
        let mut window = Window::default();
        assert_eq!(window.count(policy).expect("the first").remaining, 1);
        let status = window.count(policy).expect("the second");
        assert_eq!(status.policy(), "\"api\";q=2;w=60");
        assert!(status.status().starts_with("\"api\";r=0;t="), "{}", status.status());
        let refused = window.count(policy).expect_err("the third");
        assert_eq!(refused.remaining, 0);
        let refused = refused.refusal();
        assert_eq!(refused.code, Code::TooManyRequests);
        assert!((1..=60).contains(&refused.retry_after_seconds.expect("a time")));
    }
}
