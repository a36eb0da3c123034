//! Outcome of a worker's response.
//!
//! Pure functions, so that every status can be tested. A response says something about the item, for the engine, and
//! about the target, for its breaker: a handler that fails on one item responds, an unavailable server does not.

use domain::{
    Document,
    api::{FailureBody, WorkError},
    limits::LONGEST_RETRY_AFTER_SECONDS,
};
use reqwest::StatusCode;
use serde::Serialize;

use crate::outbound::{Fault, excerpt, named};
use engine::EndingKind;

/// Characters of a failed response that are stored in the message and in the detail.
const MAX_MESSAGE_CHARS: usize = 200;
const MAX_DETAIL_CHARS: usize = 1_000;

/// Outcome of a push request.
#[derive(Debug)]
pub(super) enum PushOutcome {
    Ends(EndingKind),
    /// 429 or 503: busy, with the number of seconds of `Retry-After`, if any.
    Busy(Option<f64>),
    /// 202: the worker finishes the assignment itself.
    Accepted,
    /// No response in time: the lease, which has expired, decides.
    NoResponse,
}

/// Outcome, and true if the target is available.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) outcome: PushOutcome,
    pub(super) answered: bool,
}

/// Outcome of a failure before a complete response.
pub(super) fn of_fault(fault: &Fault) -> Answer {
    let kind = match fault {
        Fault::TimedOut => return Answer { outcome: PushOutcome::NoResponse, answered: false },
        Fault::Forbidden => "url_not_allowed",
        Fault::Unresolved | Fault::Unreachable(_) | Fault::Broken(_) => "connection_failed",
    };
    Answer { outcome: failure(kind, fault.to_string(), None, true, None), answered: false }
}

/// Outcome of a complete response. `cut`: the body exceeds the limit of results and is truncated. `at_most_once`: the item may
/// be assigned only once, so a refusal is a failure, because the item may have been started.
pub(super) fn of_reply(
    status: StatusCode,
    retry_after: Option<f64>,
    body: &[u8],
    cut: bool,
    at_most_once: bool,
) -> Answer {
    if status == StatusCode::ACCEPTED {
        return Answer { outcome: PushOutcome::Accepted, answered: true };
    }
    if status.is_success() {
        return Answer { outcome: result(status, body, cut), answered: true };
    }
    let is_busy = matches!(status, StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE);
    if is_busy && !at_most_once {
        // The response concerns the target, not the item, whose budget is for its own failures.
        return Answer { outcome: PushOutcome::Busy(retry_after), answered: false };
    }
    let text = excerpt(body, MAX_MESSAGE_CHARS);
    let message = if text.is_empty() { named(status) } else { format!("{}: {text}", named(status)) };
    let kind = format!("http_{}", status.as_u16());
    let outcome = failure(
        &kind,
        message,
        Some(detail(status, body)),
        status != StatusCode::GONE,
        retry_after.filter(|_| is_busy).map(|seconds| seconds.min(LONGEST_RETRY_AFTER_SECONDS)),
    );
    Answer { outcome, answered: !status.is_server_error() }
}

fn result(status: StatusCode, body: &[u8], cut: bool) -> PushOutcome {
    let bad = |why: &str| failure("bad_response", why.to_owned(), Some(detail(status, body)), true, None);
    if cut {
        return bad("The answer is larger than a result may be.");
    }
    let Ok(text) = std::str::from_utf8(body) else { return bad("The answer is not UTF-8.") };
    // A result is never null.
    if matches!(text.trim(), "" | "null") {
        return PushOutcome::Ends(EndingKind::Result(Document::empty_object()));
    }
    match Document::parse(text.trim().to_owned()) {
        Ok(document) => PushOutcome::Ends(EndingKind::Result(document)),
        Err(error) => bad(&format!("The answer is no JSON that can be stored: {error}.")),
    }
}

fn detail(status: StatusCode, body: &[u8]) -> Document {
    #[derive(Serialize)]
    struct Detail {
        status: u16,
        body: String,
    }
    Document::of(&Detail { status: status.as_u16(), body: excerpt(body, MAX_DETAIL_CHARS) })
}

fn failure(
    kind: &str,
    message: String,
    detail: Option<Document>,
    retryable: bool,
    retry_after_seconds: Option<f64>,
) -> PushOutcome {
    let error = WorkError { message, kind: Some(kind.to_owned()), detail };
    PushOutcome::Ends(EndingKind::Failure(FailureBody { error, retryable, retry_after_seconds, cancel_tree: false }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: u16, body: &str) -> Answer {
        of_reply(StatusCode::from_u16(status).expect("a status"), Some(7.0), body.as_bytes(), false, true)
    }

    fn failed(answer: Answer) -> (String, String, bool, Option<f64>, bool) {
        let PushOutcome::Ends(EndingKind::Failure(body)) = answer.outcome else { panic!("{answer:?}") };
        let kind = body.error.kind.expect("a kind");
        (kind, body.error.message, body.retryable, body.retry_after_seconds, answer.answered)
    }

    fn resulted(answer: &Answer) -> &str {
        let PushOutcome::Ends(EndingKind::Result(document)) = &answer.outcome else { panic!("{answer:?}") };
        document.text()
    }

    #[test]
    fn a_json_response_is_the_result() {
        assert_eq!(resulted(&of(200, r#" {"n": 1.10} "#)), r#"{"n": 1.10}"#);
        assert_eq!(resulted(&of(201, "17")), "17");
        for nothing in ["", "  \n", "null"] {
            assert_eq!(resulted(&of(204, nothing)), "{}");
        }
        assert!(matches!(of(202, "thanks").outcome, PushOutcome::Accepted));
        for bad in ["<html>", r#"{"a":1,"a":2}"#, "\"\\u0000\"", "{"] {
            let (kind, _, retryable, _, answered) = failed(of(200, bad));
            assert_eq!((kind.as_str(), retryable, answered), ("bad_response", true, true), "{bad}");
        }
        assert_eq!(failed(of_reply(StatusCode::OK, None, b"\xff", false, false)).0, "bad_response");
        assert_eq!(failed(of_reply(StatusCode::OK, None, b"{}", true, false)).0, "bad_response");
    }

    #[test]
    fn other_responses_are_failures_named_by_status() {
        let (kind, message, retryable, after, answered) = failed(of(500, "no\nsuch user"));
        assert_eq!(message, "500 Internal Server Error: no such user");
        assert_eq!((kind.as_str(), retryable, after, answered), ("http_500", true, None, false));
        for (status, retryable, after, answered) in [
            (302, true, None, true),
            (400, true, None, true),
            (410, false, None, true),
            (429, true, Some(7.0), true),
            (503, true, Some(7.0), false),
        ] {
            let (kind, _, may, wait, there) = failed(of(status, ""));
            assert_eq!((kind, may, wait, there), (format!("http_{status}"), retryable, after, answered));
        }
        // Longer than the engine accepts: the failure must not be refused for it.
        let long = of_reply(StatusCode::SERVICE_UNAVAILABLE, Some(4e9), b"", false, true);
        assert_eq!(failed(long).3, Some(LONGEST_RETRY_AFTER_SECONDS));
    }

    #[test]
    fn a_busy_target_does_not_count_as_an_item_failure() {
        for status in [StatusCode::TOO_MANY_REQUESTS, StatusCode::SERVICE_UNAVAILABLE] {
            let answer = of_reply(status, Some(7.0), b"later", false, false);
            assert!(matches!(answer, Answer { outcome: PushOutcome::Busy(Some(7.0)), answered: false }), "{answer:?}");
        }
    }

    #[test]
    fn an_unresponsive_target_is_unavailable() {
        assert!(matches!(of_fault(&Fault::TimedOut), Answer { outcome: PushOutcome::NoResponse, answered: false }));
        let (kind, message, ..) = failed(of_fault(&Fault::Unreachable("refused".to_owned())));
        assert_eq!((kind.as_str(), message.as_str()), ("connection_failed", "No connection: refused."));
        assert_eq!(failed(of_fault(&Fault::Forbidden)).0, "url_not_allowed");
    }
}
