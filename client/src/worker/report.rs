//! Reports of endings to the server, in batches with the next claim, and what the answers mean.
//!
//! Endings (`fencing`) and claims (`claiming`) are idempotent, so a report may be repeated unchanged if its response was
//! lost. One refused ending never affects the others. The loop, not this module, decides about repetitions, slots, and leases.

use std::{collections::HashMap, time::Duration};

use domain::{
    Code, Document,
    api::{Assignment, Claim, Ending, EndingAnswer, FailureBody, FinishBody, Finished, ReleaseBody, WorkError},
    event_wait::WaitBody,
    id::Uuid,
    limits::{LONGEST_ERROR_KIND, LONGEST_ERROR_MESSAGE, LONGEST_RETRY_AFTER_SECONDS},
};
use tokio::time::Instant;

use super::Unfinished;
use crate::{client::Client, error::Error};

/// Maximum number of endings, and of bytes of results and errors, in one report.
const MAX_ENDINGS: usize = 500;
const MAX_RESULT_BYTES: usize = 4 * 1024 * 1024;

/// Result of reporting one ending.
#[derive(Debug)]
pub(super) enum ReportOutcome {
    Accepted,
    /// The assignment was no longer open, and nothing changed.
    Closed(Option<Code>),
    /// The server refuses this ending for good.
    Refused(String),
    /// Report the same ending again later.
    Unanswered(Unanswered),
}

/// A report that Treeline has not answered: there was no response, one that may pass, one of something else, or one that
/// is about the caller, such as a token that this server does not know yet.
#[derive(Debug)]
pub(super) struct Unanswered {
    pub(super) reason: String,
    /// True if something else than Treeline, such as a proxy, refuses it.
    pub(super) is_foreign: bool,
    /// True if Treeline refuses the caller.
    pub(super) is_caller_refused: bool,
    /// HTTP status of an error response.
    pub(super) status: Option<u16>,
    /// Pause that the server asks for.
    pub(super) retry_after: Duration,
}

impl Unanswered {
    /// `None` if the error is an answer of Treeline to what was reported.
    fn of(error: &Error) -> Option<Self> {
        let (is_foreign, is_caller_refused) = (error.is_foreign(), error.is_caller_refused());
        (is_foreign || is_caller_refused || error.is_transient()).then(|| Self {
            reason: error.to_string(),
            is_foreign,
            is_caller_refused,
            status: error.status(),
            retry_after: error.retry_after().unwrap_or_default(),
        })
    }

    /// An ending that Treeline could not process, such as one without its database.
    fn unprocessed(reason: String) -> Self {
        Self { reason, is_foreign: false, is_caller_refused: false, status: None, retry_after: Duration::ZERO }
    }
}

/// Response to a report.
#[derive(Debug)]
pub(super) struct Reported {
    pub(super) endings: Vec<(Ending, ReportOutcome)>,
    pub(super) assignments: Vec<Assignment>,
    /// The claim, if Treeline has not answered it: it may have taken items.
    pub(super) unanswered: Option<Claim>,
    /// Time at which the claim was first sent.
    pub(super) sent: Instant,
}

/// Ending with a result.
pub(super) fn result(id: Uuid, result: Document) -> Ending {
    Ending {
        assignment_id: id.into(),
        result: Some(result),
        error: None,
        retryable: true,
        retry_after_seconds: None,
        cancel_tree: false,
    }
}

/// Ending with a retryable failure.
fn failure(id: Uuid, error: WorkError) -> Ending {
    Ending { result: None, error: Some(error), ..result(id, Document::null()) }
}

/// Ending with a failure that no retry heals.
pub(super) fn lasting_failure(id: Uuid, error: WorkError) -> Ending {
    Ending { retryable: false, ..failure(id, error) }
}

pub(super) fn error(kind: &str, message: String) -> WorkError {
    WorkError { message, kind: Some(kind.to_owned()), detail: None }
}

/// Ending of work that was stopped and must not be released.
pub(super) fn stopped(id: Uuid) -> Ending {
    failure(id, error(Unfinished::STOPPED.1, Unfinished::STOPPED.0.to_owned()))
}

/// Ending with a failure of a handler, cut to what the server takes: one that it refuses would be lost.
pub(super) fn failed(id: Uuid, failed: FailureBody) -> Ending {
    let FailureBody { error, retryable, retry_after_seconds, cancel_tree } = failed;
    let mut message = storable(&error.message, LONGEST_ERROR_MESSAGE);
    if message.is_empty() {
        "The handler failed without a message.".clone_into(&mut message);
    }
    let kind = error.kind.map(|kind| storable(&kind, LONGEST_ERROR_KIND)).filter(|kind| !kind.is_empty());
    Ending {
        retryable,
        retry_after_seconds: pause_of(retry_after_seconds),
        cancel_tree,
        ..failure(id, WorkError { message, kind, detail: error.detail })
    }
}

/// A pause that the server takes.
fn pause_of(seconds: Option<f64>) -> Option<f64> {
    seconds.filter(|seconds| !seconds.is_nan()).map(|seconds| seconds.clamp(0.0, LONGEST_RETRY_AFTER_SECONDS))
}

/// The ending to report after the server has refused this one: a failure for a result, a failure without detail for one
/// that has it. `None` if there is nothing else to report.
pub(super) fn after_refusal(ending: Ending, reason: &str) -> Option<Ending> {
    match ending.error {
        None => {
            let error = error("bad_output", format!("Treeline refused the result: {reason}"));
            Some(lasting_failure(ending.assignment_id.id, error))
        }
        Some(WorkError { message, kind, detail: Some(_) }) => {
            let message = format!("{} (the detail was refused: {reason})", storable(&message, 1_000));
            Some(Ending { error: Some(WorkError { message, kind, detail: None }), ..ending })
        }
        Some(_) => None,
    }
}

/// The failure to report in place of an ending that something on the way to Treeline refuses for its content. The work of a
/// result is done, so it is not retryable; a failure stays what its handler said.
pub(super) fn without_content(ending: &Ending, unanswered: &Unanswered) -> Ending {
    let Unanswered { reason, status, .. } = unanswered;
    tracing::error!(assignment = %ending.assignment_id.id, reason, "ending refused on the way; reporting a failure without it");
    let with =
        status.map_or_else(|| "an answer that is not Treeline's".to_owned(), |status| format!("status {status}"));
    let error = error("answer_refused", format!("The answer was refused on the way to Treeline with {with}."));
    let retryable = ending.error.is_some() && ending.retryable;
    Ending { result: None, error: Some(error), retryable, ..*ending }
}

/// At most `chars` characters, without NUL, which the server cannot store.
fn storable(text: &str, chars: usize) -> String {
    text.chars().map(|c| if c == '\0' { '\u{fffd}' } else { c }).take(chars).collect()
}

/// Number of endings from the front of the queue that fit into one report; at least one.
pub(super) fn batch_len<'a>(endings: impl IntoIterator<Item = &'a Ending>) -> usize {
    let mut bytes = 0;
    let fits = endings.into_iter().take(MAX_ENDINGS).take_while(|ending| {
        let first = bytes == 0;
        let error = ending.error.as_ref();
        let detail = error.and_then(|error| error.detail.as_ref());
        bytes += 200 + error.map_or(0, |error| error.message.len());
        bytes += ending.result.as_ref().or(detail).map_or(0, |document| document.text().len());
        first || bytes <= MAX_RESULT_BYTES
    });
    fits.count()
}

/// Reports endings, with a claim.
pub(super) async fn report(client: Client, endings: Vec<Ending>, claim: Option<Claim>) -> Reported {
    let sent = Instant::now();
    let client = client.with_retry_timeout(Duration::ZERO);
    let body = FinishBody { endings, claim };
    match client.finish(&body).await {
        Ok(finished) => {
            let (outcomes, assignments) = read(&body.endings, finished);
            let endings = body.endings.into_iter().zip(outcomes).collect();
            Reported { endings, assignments, unanswered: None, sent }
        }
        Err(error) => {
            let FinishBody { endings, claim } = body;
            let had_claim = claim.is_some();
            let unanswered = claim.filter(|_| error.is_transient() || error.is_foreign());
            // A claim may be the reason why a caller is refused: it may not work on the type.
            let endings = if error.is_transient() || (error.is_caller_refused() && !had_claim) {
                endings.into_iter().map(|ending| (ending, outcome_of(&error))).collect()
            } else {
                one_by_one(&client, endings, had_claim, &error).await
            };
            Reported { endings, assignments: Vec::new(), unanswered, sent }
        }
    }
}

fn outcome_of(error: &Error) -> ReportOutcome {
    Unanswered::of(error).map_or_else(|| ReportOutcome::Refused(error.to_string()), ReportOutcome::Unanswered)
}

/// Handles a report that was refused as a whole, because of its claim or of one of its endings: sends each ending
/// alone, without the claim, so that a refusal is about that ending. A separate claim then shows its own error.
async fn one_by_one(
    client: &Client,
    endings: Vec<Ending>,
    had_claim: bool,
    error: &Error,
) -> Vec<(Ending, ReportOutcome)> {
    if endings.len() == 1 && !had_claim {
        return endings.into_iter().map(|ending| (ending, outcome_of(error))).collect();
    }
    let mut reported = Vec::with_capacity(endings.len());
    for ending in endings {
        let body = FinishBody { endings: vec![ending], claim: None };
        let outcomes = match client.finish(&body).await {
            Ok(finished) => read(&body.endings, finished).0,
            Err(error) => vec![outcome_of(&error)],
        };
        reported.extend(body.endings.into_iter().zip(outcomes));
    }
    reported
}

fn read(endings: &[Ending], finished: Finished) -> (Vec<ReportOutcome>, Vec<Assignment>) {
    let by_id = |answer: EndingAnswer| Some((answer.assignment_id.uuid()?, (answer.status, answer.code)));
    let answers: HashMap<Uuid, (u16, Option<Code>)> = finished.endings.into_iter().filter_map(by_id).collect();
    let outcomes = endings.iter().map(|ending| match answers.get(&ending.assignment_id.id) {
        Some((200..=299, _)) => ReportOutcome::Accepted,
        Some((404 | 409 | 410, code)) => ReportOutcome::Closed(*code),
        None => ReportOutcome::Unanswered(Unanswered::unprocessed("no answer to it".to_owned())),
        Some((status @ (408 | 429 | 500..), _)) => {
            ReportOutcome::Unanswered(Unanswered::unprocessed(format!("status {status}")))
        }
        Some((status, code)) => {
            ReportOutcome::Refused(code.map_or_else(|| status.to_string(), |c| c.title().to_owned()))
        }
    });
    (outcomes.collect(), finished.assignments)
}

/// Call that ends an assignment without a result or a failure.
#[derive(Debug)]
pub(super) enum EndingCall {
    Release(ReleaseBody),
    /// The attempt ends to wait for an event.
    Wait(WaitBody),
}

impl Default for EndingCall {
    /// A release without a pause.
    fn default() -> Self {
        Self::Release(ReleaseBody::default())
    }
}

/// Result of such a call.
#[derive(Debug)]
pub(super) enum ReleaseOutcome {
    Accepted,
    /// The assignment was closed, or the release was refused; then the lease expires.
    Closed,
    /// An at_most_once item that has begun cannot be released, only failed (`retry-budget`).
    MustFail,
    /// The server refuses it for good, such as a wait with a form that is not valid.
    Refused(String),
    /// Send it again later.
    Unanswered(Unanswered),
}

/// Releases an item, or lets it wait for an event.
pub(super) async fn release(client: Client, assignment: Uuid, call: &EndingCall) -> ReleaseOutcome {
    let client = client.with_retry_timeout(Duration::ZERO);
    let answer = match call {
        EndingCall::Release(body) => {
            let retry_after_seconds = pause_of(body.retry_after_seconds);
            client.release(assignment, &ReleaseBody { retry_after_seconds }).await
        }
        EndingCall::Wait(body) => client.wait(assignment, body).await,
    };
    let Err(error) = answer else { return ReleaseOutcome::Accepted };
    if let Some(unanswered) = Unanswered::of(&error) {
        return ReleaseOutcome::Unanswered(unanswered);
    }
    match (call, error.code()) {
        (EndingCall::Release(_), Some(Code::AlreadyStarted)) => ReleaseOutcome::MustFail,
        (EndingCall::Wait(_), _) if !matches!(error.status(), Some(404 | 409 | 410)) => {
            ReleaseOutcome::Refused(error.to_string())
        }
        _ => {
            tracing::debug!(%error, %assignment, ?call, "release failed");
            ReleaseOutcome::Closed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ending(text: &str) -> Ending {
        result(Uuid::now_v7(), Document::of(&text))
    }

    #[test]
    fn a_report_is_bounded_in_number_and_bytes_but_never_empty() {
        let small: Vec<Ending> = (0..600).map(|_| ending("x")).collect();
        assert_eq!(batch_len(&small), MAX_ENDINGS);
        let large: Vec<Ending> = (0..10).map(|_| ending(&"x".repeat(1 << 20))).collect();
        assert_eq!(batch_len(&large), 3);
        assert_eq!(batch_len(&[ending(&"x".repeat(MAX_RESULT_BYTES + 1))]), 1);
        assert_eq!(batch_len(&[]), 0);
    }

    // The whole answer was taken for one of a proxy.
    #[test]
    fn a_code_of_a_newer_server_counts_only_for_its_row() {
        let (ending, other) = (ending("x"), ending("y"));
        let rows = serde_json::json!({"assignments": [], "endings": [
            {"assignment_id": ending.assignment_id, "status": 409, "code": "a_newer_code"},
            {"assignment_id": other.assignment_id, "status": 200},
        ]});
        let (outcomes, _) = read(&[ending, other], serde_json::from_value(rows).expect("an answer"));
        assert!(matches!(outcomes[..], [ReportOutcome::Closed(None), ReportOutcome::Accepted]), "{outcomes:?}");
    }

    #[test]
    fn a_failure_is_cut_to_what_the_server_takes() {
        let of = |message: &str, kind: &str, pause| FailureBody {
            error: WorkError { message: message.to_owned(), kind: Some(kind.to_owned()), detail: None },
            retryable: false,
            retry_after_seconds: Some(pause),
            cancel_tree: true,
        };
        let long = failed(Uuid::nil(), of(&"\0é".repeat(40_000), &"k".repeat(300), -1.0));
        let WorkError { message, kind, .. } = long.error.expect("an error");
        assert_eq!((message, kind), ("\u{fffd}é".repeat(32_768), Some("k".repeat(255))));
        assert_eq!((long.retryable, long.retry_after_seconds, long.cancel_tree), (false, Some(0.0), true));
        let empty = failed(Uuid::nil(), of("", "", f64::NAN));
        assert_eq!(
            empty.error,
            Some(WorkError { kind: None, ..error("", "The handler failed without a message.".to_owned()) })
        );
        assert_eq!(empty.retry_after_seconds, None);
    }

    #[test]
    fn what_is_refused_is_reported_once_more_as_a_failure_without_detail() {
        let refused = after_refusal(ending("x"), "too large").expect("a failure");
        assert_eq!(refused.error.as_ref().map(|error| error.kind.as_deref()), Some(Some("bad_output")));
        // It was retryable: the work ran again, and its result was refused again.
        assert!(!refused.retryable);
        let detail = Some(Document::of(&"x"));
        let body = FailureBody {
            error: WorkError { detail, ..error("declined", "card declined".to_owned()) },
            retryable: false,
            retry_after_seconds: Some(5.0),
            cancel_tree: false,
        };
        let again = after_refusal(failed(Uuid::nil(), body), "too large").expect("a failure without detail");
        assert_eq!(
            again.error,
            Some(error("declined", "card declined (the detail was refused: too large)".to_owned()))
        );
        assert_eq!((again.retryable, again.retry_after_seconds), (false, Some(5.0)));
        assert!(after_refusal(again, "closed").is_none());
    }

    #[test]
    fn what_is_refused_on_the_way_becomes_a_failure_without_content() {
        let unanswered = |status| Unanswered { status, is_foreign: true, ..Unanswered::unprocessed(String::new()) };
        let of = |ending: &Ending, status| without_content(ending, &unanswered(status));
        let result = of(&ending("drop table"), Some(403));
        let message = "The answer was refused on the way to Treeline with status 403.";
        let refused = Some(error("answer_refused", message.to_owned()));
        assert_eq!((result.result, &result.error, result.retryable), (None, &refused, false));
        let body = FailureBody {
            error: WorkError { detail: Some(Document::of(&"x")), ..error("declined", "drop table".to_owned()) },
            retryable: true,
            retry_after_seconds: Some(5.0),
            cancel_tree: true,
        };
        let failure = of(&failed(Uuid::nil(), body), Some(403));
        assert_eq!(failure.error, refused);
        assert_eq!((failure.retryable, failure.retry_after_seconds, failure.cancel_tree), (true, Some(5.0), true));
        let message = of(&ending("x"), None).error.expect("an error").message;
        assert_eq!(message, "The answer was refused on the way to Treeline with an answer that is not Treeline's.");
    }

    #[test]
    fn every_ending_gets_its_own_verdict() {
        let endings: Vec<Ending> = (0..5).map(|_| ending("x")).collect();
        let answer = |at: usize, status, code| EndingAnswer {
            assignment_id: endings[at].assignment_id.into(),
            status,
            code,
            errors: Vec::new(),
        };
        let finished = Finished {
            endings: vec![
                answer(0, 200, None),
                answer(1, 409, Some(Code::AssignmentClosed)),
                answer(2, 422, Some(Code::InvalidBody)),
                answer(4, 503, Some(Code::DatabaseUnavailable)),
            ],
            assignments: Vec::new(),
        };
        let (outcomes, _) = read(&endings, finished);
        assert!(matches!(
            outcomes[..],
            [
                ReportOutcome::Accepted,
                ReportOutcome::Closed(Some(Code::AssignmentClosed)),
                ReportOutcome::Refused(_),
                ReportOutcome::Unanswered(Unanswered { is_foreign: false, .. }),
                ReportOutcome::Unanswered(Unanswered { is_foreign: false, .. })
            ]
        ));
    }
}
