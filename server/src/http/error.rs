//! Errors of handlers, and the response of a problem document.

use axum::{
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use domain::{Code, Problem, problem::MEDIA_TYPE};

/// Failure of a handler: that of its use case, or a refusal.
#[derive(Debug)]
pub struct Error(pub engine::error::Error);

/// Result of a handler.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<engine::error::Error> for Error {
    fn from(error: engine::error::Error) -> Self {
        Self(error)
    }
}

impl From<Problem> for Error {
    fn from(error: Problem) -> Self {
        Self(error.into())
    }
}

impl From<Box<Problem>> for Error {
    fn from(error: Box<Problem>) -> Self {
        Self(error.into())
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        Self(error.into())
    }
}

impl From<object_store::Error> for Error {
    fn from(error: object_store::Error) -> Self {
        Self(error.into())
    }
}

impl From<Error> for engine::error::Error {
    fn from(error: Error) -> Self {
        error.0
    }
}

impl Error {
    /// Builds a refusal with a code and a sentence.
    pub fn refuse(code: Code, detail: impl Into<String>) -> Self {
        Self(engine::error::Error::refuse(code, detail))
    }

    /// Converts the error to a problem document. Logs internal errors.
    pub fn into_problem(self) -> Problem {
        self.0.into_problem()
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        problem_response(&self.into_problem())
    }
}

/// `Retry-After` of a refusal that knows no better time.
const LATER_SECONDS: u32 = 5;

/// Builds the response of a problem document.
pub fn problem_response(problem: &Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let body = serde_json::to_vec(problem).unwrap_or_default();
    let mut response = (status, [(header::CONTENT_TYPE, MEDIA_TYPE)], body).into_response();
    if status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    // 429 and 503 always say when to come again.
    let later = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    if let Some(seconds) = problem.retry_after_seconds.or(later.then_some(LATER_SECONDS)) {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    // The request-id layer adds `request_id` from here, because the body is already serialized.
    response.extensions_mut().insert(problem.clone());
    response
}
