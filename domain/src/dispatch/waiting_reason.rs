//! Reasons why waiting items of one job type are not processed, in words for people.
//!
//! Found by the server from what claims themselves go by (`waiting_for`); drawn by pages. It
//! must not promise: items whose type is asked for are taken "when their turn comes", never "soon".

use crate::{
    Time,
    dispatch::{progress::grouped, type_limits::RateLimit},
    item::WaitingFor,
};

/// Reason why available items of a type are not claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingReason {
    Paused,
    /// As many are running as may.
    AtConcurrencyLimit {
        open: i64,
        cap: i64,
    },
    /// As many with the same value at this place of their payload are running as may.
    AtKeyLimit {
        pointer: String,
        limit: i64,
    },
    /// As many have started as may for now: not before then.
    RateLimited {
        until: Option<Time>,
        rate: RateLimit,
    },
    /// Treeline does the work itself.
    BuiltinExecutor,
    /// Treeline posts them, and whoever it posts to does not answer: not before then.
    TargetUnavailable {
        target: String,
        until: Time,
    },
    /// Workers ask for the type; others go first.
    Queued,
    /// No one asks for it, since when; `None`: never yet.
    NoWorker(Option<Time>),
}

impl WaitingReason {
    /// As the API says it of an item of the type `name`.
    pub fn waiting_for(&self, name: &str) -> WaitingFor {
        let until = match self {
            Self::TargetUnavailable { until, .. } => Some(*until),
            Self::RateLimited { until, .. } => *until,
            _ => None,
        };
        let (reason, detail) = match self {
            Self::Paused => ("paused", format!("The job type {name} is paused.")),
            Self::AtConcurrencyLimit { open, cap } => {
                ("concurrency", format!("{open} of at most {}.", running(*cap, name)))
            }
            Self::AtKeyLimit { pointer, limit } => (
                "concurrency_key",
                format!("{limit} of at most {}.", running(*limit, &format!("{name} with its value of {pointer}"))),
            ),
            Self::RateLimited { rate, .. } => ("rate_limit", rate_sentence(name, rate)),
            Self::BuiltinExecutor => ("not_claimed", "Treeline itself takes it when its turn comes.".to_owned()),
            Self::TargetUnavailable { target, .. } => {
                ("not_claimed", format!("{target} does not answer, and is left alone for a while."))
            }
            Self::Queued => ("not_claimed", format!("Workers ask for {name}; others go first.")),
            Self::NoWorker(Some(at)) => ("not_claimed", format!("No worker has asked for {name} since {at}.")),
            Self::NoWorker(None) => ("not_claimed", format!("No worker has asked for {name} yet.")),
        };
        WaitingFor { reason: reason.to_owned(), detail: Some(detail), until }
    }

    /// True if nothing happens until someone acts or an absent worker returns.
    pub const fn is_stuck(&self) -> bool {
        matches!(self, Self::Paused | Self::TargetUnavailable { .. } | Self::NoWorker(_))
    }
}

/// `5 items of mail are running`
fn running(limit: i64, what: &str) -> String {
    let (items, are) = if limit == 1 { ("item", "is") } else { ("items", "are") };
    format!("{limit} {items} of {what} {are} running")
}

/// `At most 5 items of mail start in 60 seconds.`
fn rate_sentence(name: &str, rate: &RateLimit) -> String {
    let key = rate.key.as_ref().map(|key| format!(" with one value of {key}")).unwrap_or_default();
    let (items, start) = if rate.count == 1 { ("item", "starts") } else { ("items", "start") };
    let seconds = if rate.per_seconds == 1 { "second" } else { "seconds" };
    format!("At most {} {items} of {name}{key} {start} in {} {seconds}.", rate.count, rate.per_seconds)
}

/// Available items of one type in a tree, and what holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingItems {
    pub job_type: String,
    pub count: i64,
    pub waiting_reason: WaitingReason,
}

impl WaitingItems {
    /// `1,204 items are waiting` or `1 item is waiting`.
    pub fn sentence(&self) -> String {
        match self.count {
            1 => "1 item is waiting".to_owned(),
            n => format!("{} items are waiting", grouped(n)),
        }
    }
}
