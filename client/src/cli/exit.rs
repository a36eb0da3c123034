//! Results of commands and their exit codes.

use std::process::ExitCode;

use domain::Outcome;

/// Result of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Error,
    Partial,
    Failed,
    Interrupted,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Error => 1,
            Exit::Partial => 3,
            Exit::Failed => 4,
            Exit::Interrupted => 130,
        })
    }
}

impl Exit {
    /// Exit code for the outcome of a watched tree.
    pub(super) fn of(outcome: Option<Outcome>) -> Self {
        match outcome {
            None | Some(Outcome::Succeeded) => Self::Done,
            Some(Outcome::Partial) => Self::Partial,
            Some(Outcome::Failed | Outcome::Cancelled) => Self::Failed,
        }
    }
}
