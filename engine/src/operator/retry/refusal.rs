//! Refusals of items that cannot be retried because of how they ended.

use domain::{Code, Problem};

use crate::store::operator::item_changes::FinalState;

/// Problem for an item that was not taken, by its final state; `None`: it has none.
pub(super) fn not_retryable(end: Option<FinalState>) -> Problem {
    if let Some(by) = end.and_then(|end| end.superseded_by) {
        return Problem::new(
            Code::Superseded,
            format!("A corrected row has taken its place: the item {by}. Retry that one if it failed."),
        );
    }
    Problem {
        item_state: end.map(|end| end.state),
        ..Problem::new(
            Code::NotRetryable,
            "Only items that are dead, expired, cancelled by themselves or waiting for their time can be retried. \
             One that waits for an event continues with the event.",
        )
    }
}
