//! Errors of use cases, and the only place that logs a 5xx.
//!
//! A [`Problem`] is a refusal with an explanation for the caller. All other errors are internal: they are logged here
//! with their cause and answered without details.

use domain::{Code, Problem};

use crate::{
    primary::{self, READ_ONLY},
    read_source,
};

/// Failure of a use case.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Refusal, with the response to send.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// PostgreSQL refused a statement or is unavailable.
    #[error("database: {0}")]
    Database(#[source] sqlx::Error),
    /// The object store failed.
    #[error("file store: {0}")]
    Files(#[from] object_store::Error),
    /// A concurrent transaction won; nothing was changed, and a retry may succeed.
    #[error("in conflict with another transaction: {0}")]
    Conflict(&'static str),
    /// Jobs found to be canceled (ids of their state rows). Nothing was changed; run again without them.
    #[error("jobs are cancelled")]
    JobsCancelled(Vec<i64>),
    /// An Idempotency-Key is stored elsewhere than expected: look it up again. Never a response.
    #[error("an Idempotency-Key has moved")]
    KeyMoved,
    /// Violated invariant.
    #[error("{0}")]
    Broken(String),
}

/// Result of a use case.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if !read_source::note(&error) {
            primary::note(&error);
        }
        Self::Database(error)
    }
}

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl From<Box<Problem>> for Error {
    fn from(problem: Box<Problem>) -> Self {
        Self::Problem(problem)
    }
}

impl Error {
    /// Builds a refusal with a code and a sentence.
    pub fn refuse(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    /// Returns true if the database was unreachable, too slow, or read-only, as opposed to refusing a statement.
    pub fn is_database_away(&self) -> bool {
        match self {
            Self::Database(
                // A connection that ends in the middle of a response breaks the protocol.
                sqlx::Error::Io(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_),
            ) => true,
            // 57P0x: the server is shutting down or starting; 08xxx: the connection broke; 53300: too many connections.
            // 55P03, 57014: lock timeout or statement timeout. 25006: read-only, for example a former primary.
            Self::Database(sqlx::Error::Database(e)) => e.code().is_some_and(|code| {
                code.starts_with("57P")
                    || code.starts_with("08")
                    || ["53300", "55P03", "57014", READ_ONLY].contains(&&*code)
            }),
            _ => false,
        }
    }

    /// Returns true if nothing was changed and a retry may succeed: a deadlock victim, a serialization failure, a row
    /// changed by another transaction, a claim that collided with its own retry.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Conflict(_) => true,
            Self::Database(sqlx::Error::Database(e)) => {
                matches!(e.code().as_deref(), Some("40P01" | "40001"))
                    // job_state_counts: the job was canceled between a read without locks and the update of its state row.
                    || matches!(e.constraint(), Some("claim_request_pkey" | "job_state_counts"))
            }
            _ => false,
        }
    }

    /// Returns true if the file that a job was to be created from has been deleted meanwhile.
    fn is_missing_file(&self) -> bool {
        let Self::Database(sqlx::Error::Database(e)) = self else { return false };
        matches!(e.constraint(), Some("job_upload_id_fkey" | "import_cursor_upload_id_fkey"))
    }

    /// Converts the error to a response. Logs internal errors.
    pub fn into_problem(self) -> Problem {
        if let Self::Problem(problem) = self {
            return shortened(*problem);
        }
        if self.is_missing_file() {
            return Problem::not_found("upload");
        }
        let is_to_repeat = read_source::is_to_repeat();
        if self.is_database_away() {
            if !is_to_repeat {
                tracing::warn!(error = %self, "database unavailable");
            }
            return Problem {
                retry_after_seconds: Some(2),
                ..Problem::new(
                    Code::DatabaseUnavailable,
                    "The database cannot be reached. Try again; if this request changes something, it may have done so \
                     already, so send it with the same Idempotency-Key or look first.",
                )
            };
        }
        if self.is_conflict() || matches!(self, Self::JobsCancelled(_)) {
            tracing::warn!(error = %self, "request collided with others each time");
            return Problem {
                retry_after_seconds: Some(1),
                ..Problem::new(
                    Code::Busy,
                    "Other requests change the same work at this moment. Nothing has changed. Try again.",
                )
            };
        }
        if is_to_repeat {
            tracing::warn!(error = %self, "read from the standby failed");
        } else {
            tracing::error!(error = %self, "request failed");
        }
        Problem::new(
            Code::Internal,
            "Something went wrong on the server. It is in the log with the ID of this request.",
        )
    }
}

/// Maximum bytes of a text in a refusal. It may repeat the request, which may be a whole body.
const LONGEST_TEXT: usize = 2_000;

fn shortened(mut problem: Problem) -> Problem {
    let faults = problem.errors.iter_mut().flat_map(|fault| [&mut fault.pointer, &mut fault.detail]);
    for text in faults.chain([&mut problem.detail]).filter(|text| text.len() > LONGEST_TEXT) {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('\u{2026}');
    }
    problem
}
