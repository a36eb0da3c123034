//! Reports of endings to the server, in batches with the next claim, retried until the server answers.
//!
//! Endings (`fencing`) and claims (`claiming`) are idempotent, so a report is retried unchanged if its response was
//! lost. One refused ending never affects the others. The loop, not this module, decides about slots and leases.

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
use crate::{
    client::Client,
    error::{Error, Result},
    retry::retry_until_answered,
};

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
    /// Something else than Treeline, such as a proxy, refuses it: report it again until its lease is over.
    Foreign(String),
    /// A temporary error: report the same ending again later.
    RetryLater,
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
pub(super) fn failure(id: Uuid, error: WorkError) -> Ending {
    Ending { result: None, error: Some(error), ..result(id, Document::null()) }
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
    let pause = retry_after_seconds.filter(|seconds| !seconds.is_nan());
    Ending {
        retryable,
        retry_after_seconds: pause.map(|seconds| seconds.clamp(0.0, LONGEST_RETRY_AFTER_SECONDS)),
        cancel_tree,
        ..failure(id, WorkError { message, kind, detail: error.detail })
    }
}

/// The ending to report after the server has refused this one: a failure for a result, a failure without detail for one
/// that has it. `None` if there is nothing else to report.
pub(super) fn after_refusal(ending: Ending, reason: &str) -> Option<Ending> {
    match ending.error {
        None => {
            let error = error("bad_output", format!("Treeline refused the result: {reason}"));
            Some(failure(ending.assignment_id.id, error))
        }
        Some(WorkError { message, kind, detail: Some(_) }) => {
            let message = format!("{} (the detail was refused: {reason})", storable(&message, 1_000));
            Some(Ending { error: Some(WorkError { message, kind, detail: None }), ..ending })
        }
        Some(_) => None,
    }
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

/// Reports endings, with a claim, until there is an answer. It retries transient errors without limit; the loop
/// drops the future when it has to stop.
pub(super) async fn report(client: Client, endings: Vec<Ending>, claim: Option<Claim>) -> Reported {
    let sent = Instant::now();
    let body = FinishBody { endings, claim };
    match send(&client, &body).await {
        Ok(finished) => {
            let (outcomes, assignments) = read(&body.endings, finished);
            let endings = body.endings.into_iter().zip(outcomes).collect();
            Reported { endings, assignments, unanswered: None, sent }
        }
        Err(error) => {
            let FinishBody { endings, claim } = body;
            let unanswered = claim.clone().filter(|_| error.is_foreign());
            let endings = one_by_one(&client, endings, claim.is_some(), error).await;
            Reported { endings, assignments: Vec::new(), unanswered, sent }
        }
    }
}

fn refused(error: &Error) -> ReportOutcome {
    if error.is_foreign() {
        ReportOutcome::Foreign(error.to_string())
    } else {
        ReportOutcome::Refused(error.to_string())
    }
}

/// Handles a report that was refused as a whole, because of its claim or of one of its endings: sends each ending
/// alone, without the claim, so that a refusal is about that ending. A separate claim then shows its own error.
async fn one_by_one(
    client: &Client,
    endings: Vec<Ending>,
    mut had_claim: bool,
    mut error: Error,
) -> Vec<(Ending, ReportOutcome)> {
    let is_only_one = endings.len() == 1;
    let mut reported = Vec::with_capacity(endings.len());
    for ending in endings {
        let outcome = if is_only_one && !std::mem::take(&mut had_claim) {
            refused(&error)
        } else {
            let body = FinishBody { endings: vec![ending.clone()], claim: None };
            match send(client, &body).await {
                Ok(finished) => read(&body.endings, finished).0.pop().unwrap_or(ReportOutcome::RetryLater),
                Err(refusal) => {
                    error = refusal;
                    refused(&error)
                }
            }
        };
        reported.push((ending, outcome));
    }
    reported
}

async fn send(client: &Client, body: &FinishBody) -> Result<Finished> {
    let once = client.with_retry_timeout(Duration::ZERO);
    retry_until_answered("endings", Duration::ZERO, || once.finish(body)).await
}

fn read(endings: &[Ending], finished: Finished) -> (Vec<ReportOutcome>, Vec<Assignment>) {
    let by_id = |answer: EndingAnswer| Some((answer.assignment_id.uuid()?, (answer.status, answer.code)));
    let answers: HashMap<Uuid, (u16, Option<Code>)> = finished.endings.into_iter().filter_map(by_id).collect();
    let outcomes = endings.iter().map(|ending| match answers.get(&ending.assignment_id.id) {
        Some((200..=299, _)) => ReportOutcome::Accepted,
        Some((404 | 409 | 410, code)) => ReportOutcome::Closed(*code),
        None | Some((408 | 429 | 500.., _)) => ReportOutcome::RetryLater,
        Some((status, code)) => {
            ReportOutcome::Refused(code.map_or_else(|| status.to_string(), |c| c.title().to_owned()))
        }
    });
    (outcomes.collect(), finished.assignments)
}

/// Result of releasing an item.
#[derive(Debug)]
pub(super) enum ReleaseOutcome {
    Accepted,
    /// The assignment was closed, or the server could not be reached; then the lease expires.
    Closed,
    /// An at_most_once item that has begun cannot be released, only failed (`retry-budget`).
    MustFail,
    /// The server refuses it for good, such as a wait with a form that is not valid.
    Refused(String),
}

/// Releases an item; it retries as [`wait`] does.
pub(super) async fn release(client: Client, assignment: Uuid, body: ReleaseBody, lease: Duration) -> ReleaseOutcome {
    let once = client.with_retry_timeout(Duration::ZERO);
    match retry_until_answered("release", lease, || once.release(assignment, &body)).await {
        Ok(_) => ReleaseOutcome::Accepted,
        Err(error) if error.code() == Some(Code::AlreadyStarted) => ReleaseOutcome::MustFail,
        Err(error) => {
            tracing::debug!(%error, %assignment, "release failed");
            ReleaseOutcome::Closed
        }
    }
}

/// Lets an item wait for an event; it retries transient errors without limit, as the report of a result does, and refusals
/// that are not from Treeline until the lease is over.
pub(super) async fn wait(client: Client, assignment: Uuid, body: WaitBody, lease: Duration) -> ReleaseOutcome {
    let once = client.with_retry_timeout(Duration::ZERO);
    match retry_until_answered("wait", lease, || once.wait(assignment, &body)).await {
        Ok(_) => ReleaseOutcome::Accepted,
        Err(error) if error.code() == Some(Code::InvalidBody) => ReleaseOutcome::Refused(error.to_string()),
        Err(error) => {
            tracing::debug!(%error, %assignment, "wait failed");
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
                ReportOutcome::RetryLater,
                ReportOutcome::RetryLater
            ]
        ));
    }
}
