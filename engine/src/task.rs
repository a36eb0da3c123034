//! Tasks that outlive client disconnects, so that a transaction is never canceled halfway, and the end of work that waits for
//! a silent database.

pub(crate) mod conflict_retries; // retries of work that collided with another transaction

use std::time::Duration;

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::{
    error::{Error, Result},
    primary,
};

/// Time after a silence in which work that began before may still end.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// Runs a future in a separate task, which only a silent database ends early; `what` names it if it fails.
pub async fn in_task<T: Send + 'static>(
    what: &'static str,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(unless_silent(work)).await.map_err(|error| Error::Broken(format!("{what}: {error}")))??
}

/// Runs work that waits for the database. If the database falls silent meanwhile, the work is dropped soon after, and
/// whether it was done is unknown, as after every lost connection.
pub async fn unless_silent<T>(work: impl Future<Output = T>) -> Result<T> {
    let mut silences = primary::silences();
    let silence = async {
        // The sender is static: there is no error.
        let _ = silences.changed().await;
        tokio::time::sleep(SILENCE_TIMEOUT).await;
    };
    tokio::select! {
        biased;
        done = work => Ok(done),
        () = silence => Err(Error::Database(sqlx::Error::PoolTimedOut)),
    }
}

/// Runs a long computation in place: other tasks of this thread move to other threads meanwhile.
pub fn heavy<T>(compute: impl FnOnce() -> T) -> T {
    match Handle::try_current().map(|handle| handle.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(compute),
        // A single-threaded runtime, or none.
        _ => compute(),
    }
}
