//! Work that goes on when whoever asked for it has gone: a transaction is never cancelled half-way by a
//! client that hung up.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::{Error, Result};

/// Runs in a task of its own; `what` names it where it breaks.
pub async fn in_task<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work).await.map_err(|error| Error::Broken(format!("{what}: {error}")))?
}

/// Computes for long, in place: the other tasks of this thread go on elsewhere meanwhile.
pub fn heavy<T>(compute: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(compute),
        // There are no other threads, or no tasks.
        _ => compute(),
    }
}
