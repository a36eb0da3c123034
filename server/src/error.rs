//! What a use-case can fail with, and the only place that logs a 5xx.
//!
//! A [`Problem`] is an answer: the caller did something that is refused, and is told what. Everything
//! else is ours: it is logged here with its cause and answered without internals.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use domain::{Code, Problem, problem::MEDIA_TYPE};

/// Why a use-case did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Refused, with the answer to give.
    #[error("{0}")]
    Problem(Box<Problem>),
    /// PostgreSQL refused, or is away.
    #[error("database: {0}")]
    Database(#[from] sqlx::Error),
    /// The object store failed.
    #[error("file store: {0}")]
    Files(#[from] object_store::Error),
    /// Another transaction came first; nothing happened, and the same may well succeed.
    #[error("in conflict with another transaction: {0}")]
    Conflict(&'static str),
    /// Jobs that turned out to be cancelled (their gates). Nothing happened; run again knowing it.
    #[error("jobs are cancelled")]
    JobsCancelled(Vec<i64>),
    /// An Idempotency-Key stands elsewhere than thought: look again. Never an answer.
    #[error("an Idempotency-Key has moved")]
    KeyMoved,
    /// Something that cannot happen did.
    #[error("{0}")]
    Broken(String),
}

/// What use-cases return.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<Problem> for Error {
    fn from(problem: Problem) -> Self {
        Self::Problem(Box::new(problem))
    }
}

impl Error {
    /// A refusal with a code and a sentence.
    pub fn refuse(code: Code, detail: impl Into<String>) -> Self {
        Problem::new(code, detail).into()
    }

    /// Whether the database could not be reached or did not get to it in time, as opposed to refusing a statement.
    pub fn is_database_away(&self) -> bool {
        match self {
            Self::Database(
                // A connection that ends in the middle of an answer breaks the protocol.
                sqlx::Error::Io(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_),
            ) => true,
            // 57P0x: the server is shutting down or starting up; 08xxx: the connection broke; 53300: too many connections.
            // 55P03, 57014: it was busy with others for longer than a statement waits for a lock, or lasts.
            Self::Database(sqlx::Error::Database(e)) => e.code().is_some_and(|code| {
                code.starts_with("57P") || code.starts_with("08") || ["53300", "55P03", "57014"].contains(&&*code)
            }),
            _ => false,
        }
    }

    /// Whether nothing happened and the same may well succeed: a deadlock's victim, a serialization
    /// failure, a row that another transaction has moved, a claim that met itself as it was sent again.
    pub fn is_conflict(&self) -> bool {
        match self {
            Self::Conflict(_) => true,
            Self::Database(sqlx::Error::Database(e)) => {
                matches!(e.code().as_deref(), Some("40P01" | "40001"))
                    // gate_counts: the job was cancelled between a look without locks and the gate.
                    || matches!(e.constraint(), Some("claim_request_pkey" | "gate_counts"))
            }
            _ => false,
        }
    }

    /// Whether a job was to be made of a file that somebody removed meanwhile.
    fn is_missing_file(&self) -> bool {
        let Self::Database(sqlx::Error::Database(e)) = self else { return false };
        matches!(e.constraint(), Some("job_upload_id_fkey" | "split_upload_id_fkey"))
    }

    /// The answer to give. Logs what is ours.
    pub fn into_problem(self) -> Problem {
        if let Self::Problem(problem) = self {
            return shortened(*problem);
        }
        if self.is_missing_file() {
            return Problem::not_found("upload");
        }
        if self.is_database_away() {
            tracing::warn!(error = %self, "the database is away");
            return Problem {
                retry_after_seconds: Some(2),
                ..Problem::new(
                    Code::DatabaseUnavailable,
                    "The database cannot be reached. Nothing was changed; try again.",
                )
            };
        }
        tracing::error!(error = %self, "request failed");
        Problem::new(Code::Internal, "Something broke on our side. It was logged under this request's id.")
    }
}

/// Bytes of a text in a refusal, at most. It may repeat what was sent, which may be a whole body.
const LONGEST_TEXT: usize = 2_000;

fn shortened(mut problem: Problem) -> Problem {
    let faults = problem.errors.iter_mut().flat_map(|fault| [&mut fault.pointer, &mut fault.detail]);
    for text in faults.chain([&mut problem.detail]).filter(|text| text.len() > LONGEST_TEXT) {
        text.truncate(text.floor_char_boundary(LONGEST_TEXT));
        text.push('\u{2026}');
    }
    problem
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        problem_response(&self.into_problem())
    }
}

/// A problem document as a response.
pub fn problem_response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
    if problem.code == Code::Unauthenticated {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(seconds) = problem.retry_after_seconds {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    // The request-id layer completes `request_id` from here, where the body is still a value.
    response.extensions_mut().insert(problem.clone());
    response
}
