//! Transitions of an item: one total function over states and events (`after`, `waiting-for-events`,
//! `lease-expiry`, `retry-budget`, `serialize-key`, `start-and-expiry`, `cancellation`, `manual-retry`).
//! Only the tests below use it: one compares it with the table in `docs/states.md`.
//!
//! The engine does not call it. There, the table that holds an item's row is its state, and each use case decides the next
//! one itself.

use crate::item::ItemState;

/// Something that happens to an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ItemEvent {
    /// A worker got it.
    Claimed,
    /// A result was accepted.
    Succeeded,
    /// A failure within the budget, with a wait before the next attempt.
    FailedWithinBudget,
    /// A lost lease within the budget, or a release: offered again at once.
    Released,
    /// The worker ended its attempt to wait for an event.
    Waits,
    /// The event came, or the time for it has passed.
    EventReceived,
    /// A failure beyond the budget, or one that is not retryable.
    FailedFinally,
    /// An attempt ended after the item's expires_at, or that came while it waited.
    Expired,
    /// Its time has come: run_after or the end of its backoff.
    Due,
    /// Its run_after was moved into the future while it waited, or its debounce collects another item.
    Postponed,
    /// Release by what blocked it: a job that it waited for, or the item before it in its serialize queue.
    Unblocked,
    /// Another item of its serialize key goes first.
    QueuedBehind,
    /// Canceled while it waits, or an ending of canceled work.
    Cancelled,
    /// A person gives it back, and it may be claimed at once.
    Retried,
    /// The job it waited for was repaired by a person (`manual-retry`).
    DependencyRepaired,
}

impl ItemEvent {
    pub const ALL: [ItemEvent; 15] = [
        Self::Claimed,
        Self::Succeeded,
        Self::FailedWithinBudget,
        Self::Released,
        Self::Waits,
        Self::EventReceived,
        Self::FailedFinally,
        Self::Expired,
        Self::Due,
        Self::Postponed,
        Self::Unblocked,
        Self::QueuedBehind,
        Self::Cancelled,
        Self::Retried,
        Self::DependencyRepaired,
    ];

    /// The words in `docs/states.md`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Claimed => "claimed",
            Self::Succeeded => "result",
            Self::FailedWithinBudget => "failure within the budget",
            Self::Released => "release or lost lease",
            Self::Waits => "wait for an event",
            Self::EventReceived => "event or timeout",
            Self::FailedFinally => "failure for good",
            Self::Expired => "expires_at",
            Self::Due => "due",
            Self::Postponed => "postponed",
            Self::Unblocked => "unblocked",
            Self::QueuedBehind => "another goes first",
            Self::Cancelled => "cancel",
            Self::Retried => "retry by a person",
            Self::DependencyRepaired => "what it waited for is repaired",
        }
    }
}

/// State of an item after an event; `None` if the event cannot happen to it.
pub const fn next(state: ItemState, event: ItemEvent) -> Option<ItemState> {
    use ItemEvent as E;
    use ItemState as S;
    match (state, event) {
        (S::Available, E::Claimed) => Some(S::Running),
        (S::Running, E::Succeeded) => Some(S::Succeeded),
        (S::Running, E::FailedWithinBudget) => Some(S::Retryable),
        (S::Running, E::FailedFinally) => Some(S::Dead),
        (S::Running, E::Waits) => Some(S::WaitingForEvent),
        (S::Running, E::Released)
        | (S::WaitingForEvent, E::EventReceived)
        | (S::Retryable | S::Scheduled, E::Due)
        | (S::Blocked, E::Unblocked)
        | (S::Retryable | S::Scheduled | S::Dead | S::Expired | S::Cancelled, E::Retried) => Some(S::Available),
        (S::Available | S::Blocked | S::WaitingForEvent, E::Postponed) => Some(S::Scheduled),
        (S::Scheduled | S::Dead | S::Expired | S::Cancelled, E::QueuedBehind)
        | (S::Cancelled, E::DependencyRepaired) => Some(S::Blocked),
        (S::Running | S::Available | S::Retryable | S::Scheduled | S::Blocked | S::WaitingForEvent, E::Expired) => {
            Some(S::Expired)
        }
        (S::Running | S::Available | S::Retryable | S::Scheduled | S::Blocked | S::WaitingForEvent, E::Cancelled) => {
            Some(S::Cancelled)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn only_manual_events_leave_final_states() {
        for state in ItemState::ALL.into_iter().filter(|state| state.is_final()) {
            for event in ItemEvent::ALL {
                let is_manual =
                    matches!(event, ItemEvent::Retried | ItemEvent::QueuedBehind | ItemEvent::DependencyRepaired);
                assert!(is_manual || next(state, event).is_none(), "{state:?} {event:?}");
            }
        }
        assert!(ItemEvent::ALL.into_iter().all(|event| next(ItemState::Succeeded, event).is_none()));
    }

    #[test]
    fn transition_table_matches_docs() {
        let documented: BTreeSet<(String, String, String)> = include_str!("../../../docs/states.md")
            .lines()
            .filter_map(|line| {
                let cells: Vec<&str> = line.strip_prefix("| `")?.trim_end_matches(" |").split(" | ").collect();
                let [from, event, to] = cells.as_slice() else { return None };
                let word = |cell: &str| cell.trim_matches('`').to_owned();
                Some((word(from), word(event), word(to)))
            })
            .collect();
        let mut computed = BTreeSet::new();
        for state in ItemState::ALL {
            for event in ItemEvent::ALL {
                if let Some(to) = next(state, event) {
                    computed.insert((state.as_str().to_owned(), event.as_str().to_owned(), to.as_str().to_owned()));
                }
            }
        }
        assert_eq!(documented, computed);
    }
}
