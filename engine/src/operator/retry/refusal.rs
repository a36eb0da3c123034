//! Refusals of items that cannot be retried because of how they ended.

use domain::{Code, ItemState, Problem};

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
            "Only items that are dead, expired, canceled by themselves, or waiting for their time can be retried. \
             One that waits for an event continues with the event.",
        )
    }
}

/// Refuses an item without a corrected payload whose row could not be read or does not fit its schema: no worker may get
/// what is left of it.
pub(super) fn unusable() -> Problem {
    Problem {
        item_state: Some(ItemState::Dead),
        ..Problem::new(
            Code::NotRetryable,
            "Its row or its payload could not be used, so it was never handed out. Retry it with a corrected payload.",
        )
    }
}
