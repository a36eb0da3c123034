//! Errors of calls.
//!
//! A refusal by Treeline is an [`Error::Problem`] and says what to do; everything else names the call
//! that was tried. Whether trying again can help is answered here, in one place.

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
    /// No answer, or half of one.
    #[error("{call}: {}{}", causes(cause), tries_in_words(*tries))]
    Transport {
        /// Method and URL.
        call: String,
        /// Number of times that it was sent.
        tries: u32,
        cause: reqwest::Error,
    },
    /// An answer that is neither what was asked for nor a problem document: a proxy, or another program.
    #[error("{call}: answered {status}: {body}")]
    Unexpected {
        call: String,
        status: u16,
        /// The beginning of the body.
        body: String,
    },
    /// An answer that does not read as the contract says.
    #[error("{call}: the answer cannot be read: {cause}")]
    Answer { call: String, cause: serde_json::Error },
    /// Nothing came for longer than a live stream may be silent.
    #[error("{call}: the stream fell silent")]
    Silent { call: String },
    /// A stream that breaks the rules of its format.
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

    /// The HTTP status, where there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Problem(problem) => Some(problem.status),
            Self::Unexpected { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// Time for which the server asked to wait.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Problem(problem) => problem.retry_after_seconds.map(|s| Duration::from_secs(s.into())),
            _ => None,
        }
    }

    /// True if the same call may succeed later: there was no response, or it was 429 or 5xx.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Transport { .. } | Self::Silent { .. } | Self::Stream { .. } => true,
            _ => self.status().is_some_and(|status| status == 429 || status == 408 || status >= 500),
        }
    }
}

/// An error with everything below it, as one line.
fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut below = error.source();
    while let Some(cause) = below {
        let words = cause.to_string();
        if !text.ends_with(&words) {
            let _ = write!(text, ": {words}");
        }
        below = cause.source();
    }
    text
}

fn tries_in_words(tries: u32) -> String {
    if tries > 1 { format!(" (tried {tries} times)") } else { String::new() }
}
