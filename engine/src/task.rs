//! Tasks that outlive client disconnects, so that a transaction is never canceled halfway.

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::error::{Error, Result};

/// Runs a future in a separate task; `what` names it if it fails.
pub async fn in_task<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(work).await.map_err(|error| Error::Broken(format!("{what}: {error}")))?
}

/// Runs a long computation in place: other tasks of this thread move to other threads meanwhile.
pub fn heavy<T>(compute: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(compute),
        // A single-threaded runtime, or none.
        _ => compute(),
    }
}
