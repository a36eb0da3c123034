//! Errors after which a fault says nothing about the promises, so that it runs once more (`runs`). Every other error of a
//! scenario is a finding.

use std::fmt;

use anyhow::Error;
use tokio::time::error::Elapsed;

/// Mark of such an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inconclusive {
    /// The fixture or the disturbance could not be set up.
    Setup,
    /// A wait ran out.
    Timeout,
    /// The disturbance had no effect.
    Untested,
}

impl fmt::Display for Inconclusive {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Setup => "the setup failed",
            Self::Timeout => "it took too long",
            Self::Untested => "nothing was tested",
        })
    }
}

impl std::error::Error for Inconclusive {}

impl Inconclusive {
    /// An error with this mark.
    pub(crate) fn error(self, what: impl fmt::Display) -> Error {
        Error::new(self).context(what.to_string())
    }
}

/// True if the error has a mark, or is a timeout by its type.
pub(crate) fn is_inconclusive(error: &Error) -> bool {
    error.is::<Inconclusive>()
        || error.chain().any(|cause| {
            cause.is::<Elapsed>()
                || cause.downcast_ref().is_some_and(is_refused_for_now)
                || cause.downcast_ref::<reqwest::Error>().is_some_and(reqwest::Error::is_timeout)
                || matches!(cause.downcast_ref(), Some(sqlx::Error::PoolTimedOut))
        })
}

/// True if the client has repeated a call until its time was over. An internal error of a server is none of these.
fn is_refused_for_now(error: &client::Error) -> bool {
    error.is_transient() && error.status() != Some(500)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use anyhow::{Context as _, Result, anyhow};

    use super::*;

    #[tokio::test]
    async fn only_marked_errors_and_timeouts_are_inconclusive() {
        let elapsed = tokio::time::timeout(Duration::ZERO, std::future::pending::<()>()).await;
        let marked: Result<()> = Err(anyhow!("no port is free"));
        for error in [
            elapsed.context("the load does not end").expect_err("it does not end"),
            marked.context(Inconclusive::Setup).context("F01").expect_err("an error"),
            Inconclusive::Timeout.error("no answer").context("at byte 7"),
            Error::new(sqlx::Error::PoolTimedOut),
        ] {
            assert!(is_inconclusive(&error), "{error:#}");
        }
        for error in [
            anyhow!("two trees for one key").context("it took too long"),
            Error::new(sqlx::Error::RowNotFound).context("an item"),
        ] {
            assert!(!is_inconclusive(&error), "{error:#}");
        }
    }
}
