//! Outcome of an item whose attempt ended without a result: `domain` decides by `retry-budget` and `start-and-expiry`;
//! this module translates the verdict for the store.

use domain::{
    Document, ItemState,
    api::{FailureBody, ReleaseBody},
    dispatch::retry::{FailedAttempt, Verdict, verdict},
    event_wait::WaitBody,
    fingerprint::fingerprint,
    item::EndedAs,
    job_type::Delivery,
};
use time::{Duration, OffsetDateTime};

use crate::store::dispatch::{endings::ErrorText, leases::TakenLease};

/// Reason why an assignment ended without a result.
pub(crate) enum EndCause<'a> {
    Failed(&'a FailureBody),
    Released(&'a ReleaseBody),
    /// The worker waits for an event.
    Waits(&'a WaitBody),
    /// Expiry of the lease or of the run time.
    Lost,
    /// Same as `Lost`, for a pushed assignment, where no heartbeats were expected.
    Unanswered,
    /// Result of an item that was canceled in the meantime.
    TooLate(&'a Document),
}

/// Outcome of an item, and the record of its attempt.
pub(crate) struct FailureOutcome<'a> {
    pub(crate) ended_as: EndedAs,
    pub(crate) failures: i32,
    pub(crate) error: Option<ErrorText>,
    pub(crate) next_state: NextState<'a>,
    /// True if the worker asks to cancel the whole tree.
    pub(crate) cancels_tree: bool,
}

pub(crate) enum NextState<'a> {
    Final(ItemState),
    /// Canceled, whatever the worker reported (`cancellation`); a result is stored in the attempt.
    Cancelled(Option<String>),
    /// Claimable again at this time; `None` means at once.
    Retry(Option<OffsetDateTime>),
    /// Waits for the event, with a timeout until then (`waiting-for-events`).
    Wait(&'a WaitBody, Option<OffsetDateTime>),
}

impl<'a> FailureOutcome<'a> {
    /// Outcome under `cancellation`: every ending makes the item canceled.
    pub(crate) fn cancelled(row: &TakenLease, cause: &EndCause<'a>) -> Self {
        let ended_as = match cause {
            EndCause::Lost | EndCause::Unanswered if row.timed_out => EndedAs::TimedOut,
            EndCause::Lost | EndCause::Unanswered => EndedAs::LeaseLost,
            _ => EndedAs::Cancelled,
        };
        let error = match cause {
            EndCause::Failed(body) => Some(ErrorText {
                message: body.error.message.clone(),
                kind: body.error.kind.clone(),
                detail: body.error.detail.as_ref().map(|d| d.text().to_owned()),
                fingerprint: fingerprint(body.error.kind.as_deref(), &body.error.message),
            }),
            _ => None,
        };
        let result = if let EndCause::TooLate(document) = cause { Some(document.text().to_owned()) } else { None };
        Self { ended_as, failures: row.failures, error, next_state: NextState::Cancelled(result), cancels_tree: false }
    }
}

/// Applies `retry-budget` and `start-and-expiry` to one assignment that ended without a result.
pub(crate) fn decide_outcome<'a>(
    row: &TakenLease,
    cause: &EndCause<'a>,
    delivery: Delivery,
    max_failures: domain::item::MaxFailures,
    backoff: &domain::dispatch::retry::Backoff,
    now: OffsetDateTime,
) -> FailureOutcome<'a> {
    let later = |seconds: f64| {
        let wait = Duration::try_from(std::time::Duration::try_from_secs_f64(seconds).unwrap_or_default());
        (seconds > 0.0).then(|| wait.ok().and_then(|wait| now.checked_add(wait)).unwrap_or(now))
    };
    #[cfg(feature = "failpoints")]
    let (delivery, max_failures) = if crate::failpoints::broken("offer_again", file!()) {
        (Delivery::AtLeastOnce, domain::item::MaxFailures::Unlimited)
    } else {
        (delivery, max_failures)
    };
    let expired = row.expires_at.is_some_and(|at| at <= now);
    let without_failure = match cause {
        EndCause::Released(body) => {
            Some((EndedAs::Released, NextState::Retry(later(body.retry_after_seconds.unwrap_or(0.0)))))
        }
        EndCause::Waits(body) => Some((EndedAs::Waiting, NextState::Wait(body, body.timeout_seconds.and_then(later)))),
        _ => None,
    };
    if let Some((ended_as, next_state)) = without_failure {
        let next_state = if expired { NextState::Final(ItemState::Expired) } else { next_state };
        return FailureOutcome { ended_as, failures: row.failures, error: None, next_state, cancels_tree: false };
    }
    let (ended_as, message, kind, detail, retryable, retry_after) = match cause {
        EndCause::Failed(body) => (
            EndedAs::Failed,
            body.error.message.clone(),
            body.error.kind.clone(),
            body.error.detail.as_ref().map(|d| d.text().to_owned()),
            body.retryable,
            body.retry_after_seconds,
        ),
        _ if row.timed_out => {
            let message = "The attempt ran longer than its type allows.".to_owned();
            (EndedAs::TimedOut, message, Some("timed_out".to_owned()), None, true, None)
        }
        EndCause::Unanswered => {
            let message = format!("No answer from {} in time.", row.worker_id);
            (EndedAs::LeaseLost, message, Some("lease_lost".to_owned()), None, true, None)
        }
        _ => {
            let message = format!("No heartbeat from worker {} for three intervals.", row.worker_id);
            (EndedAs::LeaseLost, message, Some("lease_lost".to_owned()), None, true, None)
        }
    };
    let failures = row.failures.saturating_add(1);
    let cancels_tree = matches!(cause, EndCause::Failed(body) if body.cancel_tree);
    let retryable = retryable && !cancels_tree;
    let failed =
        FailedAttempt { ended_as, delivery, max_failures, failures, retryable, retry_after_seconds: retry_after };
    let (kind, next_state) = match verdict(failed, backoff, rand::random::<f64>()) {
        Verdict::Dead { outcome_unknown } => {
            let kind = if outcome_unknown { Some("outcome_unknown".to_owned()) } else { kind };
            (kind, NextState::Final(ItemState::Dead))
        }
        Verdict::RetryIn(_) if expired => (kind, NextState::Final(ItemState::Expired)),
        Verdict::RetryIn(seconds) => (kind, NextState::Retry(later(seconds))),
    };
    let fingerprint = fingerprint(kind.as_deref(), &message);
    FailureOutcome {
        ended_as,
        failures,
        error: Some(ErrorText { message, kind, detail, fingerprint }),
        next_state,
        cancels_tree,
    }
}
