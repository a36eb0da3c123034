//! Reasons why waiting items of one job type are not processed, in words for people.
//!
//! Found by the server from what claims themselves go by (`waiting_for`); drawn by pages. It
//! must not promise: items whose type is asked for are taken "when their turn comes", never "soon".

use crate::{Time, item::WaitingFor, progress::grouped};

/// Reason why available items of a type are not claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    Paused,
    /// As many are running as may.
    Capped {
        open: i64,
        cap: i64,
    },
    /// Treeline does the work itself.
    Ours,
    /// Treeline posts them, and whoever it posts to does not answer: not before then.
    Away {
        target: String,
        until: Time,
    },
    /// Workers ask for the type; others go first.
    Shared,
    /// No one asks for it, since when; `None`: never yet.
    Unasked(Option<Time>),
}

impl Hold {
    /// As the API says it of an item of the type `name`.
    pub fn waiting_for(&self, name: &str) -> WaitingFor {
        let until = if let Self::Away { until, .. } = self { Some(*until) } else { None };
        let (reason, detail) = match self {
            Self::Paused => ("paused", format!("The job type {name} is paused.")),
            Self::Capped { open, cap } => {
                ("concurrency", format!("{open} of at most {cap} items of {name} are running."))
            }
            Self::Ours => ("not_claimed", "Treeline itself takes it when its turn comes.".to_owned()),
            Self::Away { target, .. } => {
                ("not_claimed", format!("{target} does not answer, and is left alone for a while."))
            }
            Self::Shared => ("not_claimed", format!("Workers ask for {name}; others go first.")),
            Self::Unasked(Some(at)) => ("not_claimed", format!("No worker has asked for {name} since {at}.")),
            Self::Unasked(None) => ("not_claimed", format!("No worker has asked for {name} yet.")),
        };
        WaitingFor { reason: reason.to_owned(), detail: Some(detail), until }
    }

    /// True if nothing happens until someone acts or an absent worker returns.
    pub const fn is_stuck(&self) -> bool {
        matches!(self, Self::Paused | Self::Away { .. } | Self::Unasked(_))
    }
}

/// Available items of one type in a tree, and what holds them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    pub job_type: String,
    pub count: i64,
    pub hold: Hold,
}

impl Held {
    /// `1,204 items are waiting` or `1 item is waiting`.
    pub fn waiting(&self) -> String {
        match self.count {
            1 => "1 item is waiting".to_owned(),
            n => format!("{} items are waiting", grouped(n)),
        }
    }
}
