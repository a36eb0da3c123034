//! Errors of calls.
//!
//! A refusal by Treeline is an [`Error::Problem`], which says what to do; every other error names its call.
//! [`Error::is_transient`] is the only place that decides if a retry can help.

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use domain::{Code, Problem};

/// Result of calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a call. Its text includes all causes; it has no `source`
/// that would repeat them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Treeline refused, with a problem document.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// Treeline refused, with a problem document that this version cannot read, such as one with a newer code.
    #[error("{code}: {detail}")]
    NewerProblem {
        status: u16,
        code: String,
        detail: String,
        /// Pause that its `Retry-After` requests.
        retry_after: Option<Duration>,
    },
    /// No response, or an incomplete one.
    #[error("{call}: {}{}", with_causes(cause), attempts_suffix(*tries))]
    Transport {
        /// Method and URL.
        call: String,
        /// Number of attempts.
        tries: u32,
        cause: reqwest::Error,
    },
    /// A response that is neither the expected one nor a problem document: from a proxy or another program.
    #[error("{call}: answered {status}: {body}")]
    Unexpected {
        call: String,
        status: u16,
        /// The beginning of the body.
        body: String,
        /// Pause that its `Retry-After` requests.
        retry_after: Option<Duration>,
    },
    /// A response that does not match the API's schema.
    #[error("{call}: the answer cannot be read: {cause}")]
    InvalidResponse { call: String, cause: serde_json::Error },
    /// A live stream sent nothing for longer than the idle timeout.
    #[error("{call}: the stream fell silent")]
    IdleTimeout { call: String },
    /// A stream that violates its format.
    #[error("{call}: {what}")]
    Stream { call: String, what: &'static str },
    /// A local file cannot be read.
    #[error("{}: {cause}", path.display())]
    File { path: PathBuf, cause: std::io::Error },
    /// The base URL or the token cannot be used.
    #[error("{0}")]
    Configuration(String),
}

impl Error {
    /// The code of a problem document.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Problem(problem) => Some(problem.code),
            _ => None,
        }
    }

    /// The HTTP status, if there was a response.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Unexpected { status, .. } | Self::NewerProblem { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Pause that the server, or a proxy before it, requested.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem(problem) => problem.retry_after_seconds.map(|s| Duration::from_secs(s.into())),
            Self::NewerProblem { retry_after, .. } | Self::Unexpected { retry_after, .. } => *retry_after,
            _ => None,
        }
    }

    /// True of a refusal that is not from Treeline, such as the 404 of a proxy that is reloading, and of a response that
    /// cannot be read. 413 is none, whoever sent it: it is about the body.
    pub(crate) fn is_foreign(&self) -> bool {
        match self {
            Self::Unexpected { status, .. } => *status != 413 && !self.is_transient(),
            Self::InvalidResponse { .. } => true,
            _ => false,
        }
    }

    /// True of a refusal by Treeline that is about the caller or the address (401, 403, 421), not about the content: a
    /// server that knows the token may accept the same request.
    pub(crate) fn is_caller_refused(&self) -> bool {
        !self.is_foreign() && matches!(self.status(), Some(401 | 403 | 421))
    }

    /// True if the server certainly did not process the call: there was no connection, or it answered 429, or 503 unless
    /// its database was away.
    pub fn is_unprocessed(&self) -> bool {
        match self {
            Self::Transport { cause, .. } => cause.is_connect(),
            _ => self.code() != Some(Code::DatabaseUnavailable) && matches!(self.status(), Some(429 | 503)),
        }
    }

    /// True if the same call may succeed later: there was no response, or it was 429 or 5xx.
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Transport { .. } | Self::IdleTimeout { .. } | Self::Stream { .. } => true,
            _ => self.status().is_some_and(|status| status == 429 || status == 408 || status >= 500),
        }
    }
}

/// An error with everything below it, as one line.
fn with_causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            let _ = write!(text, ": {words}");
        }
        source = cause.source();
    }
    text
}

fn attempts_suffix(tries: u32) -> String {
    if tries > 1 { format!(" (tried {tries} times)") } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_problem_of_treeline_or_a_body_that_is_too_large_is_a_refusal() {
        let of = |status| Error::Unexpected {
            call: "POST /x".to_owned(),
            status,
            body: "404 page not found".to_owned(),
            retry_after: None,
        };
        for status in [302, 400, 401, 403, 404, 409, 422] {
            assert!(of(status).is_foreign() && !of(status).is_caller_refused(), "{status}");
        }
        for status in [408, 413, 429, 502, 503] {
            assert!(!of(status).is_foreign(), "{status}");
        }
        let html = serde_json::from_str::<u8>("<html>").expect_err("no JSON");
        assert!(Error::InvalidResponse { call: "POST /x".to_owned(), cause: html }.is_foreign());
        let problem = |code| Error::Problem(Box::new(Problem::new(code, "why")));
        assert!(!problem(Code::NotFound).is_foreign() && !problem(Code::Busy).is_foreign());
        let newer = Error::NewerProblem {
            status: 403,
            code: "new_code".to_owned(),
            detail: "why".to_owned(),
            retry_after: None,
        };
        assert!(!newer.is_foreign() && !newer.is_transient() && newer.is_caller_refused());
        for code in [Code::Unauthenticated, Code::Forbidden, Code::Misdirected] {
            assert!(problem(code).is_caller_refused(), "{code:?}");
        }
        assert!(!problem(Code::TooLarge).is_caller_refused() && !problem(Code::InvalidBody).is_caller_refused());
        assert_eq!((newer.status(), newer.to_string().as_str()), (Some(403), "new_code: why"));
    }
}
