//! Retries of work that collided with another transaction, outside the batches of [`flush`](crate::flush).

use std::{sync::Arc, time::Duration};

use super::in_task;
use crate::{
    Core,
    error::{Error, Result},
};

/// Number of retries, without pauses, of a batch or a sweep that the database aborted because of a conflict.
pub(crate) const CONFLICT_RETRIES: u32 = 3;

/// Pauses before the retries of a use case.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(10),
    Duration::from_millis(40),
    Duration::from_millis(150),
    Duration::from_millis(500),
];

impl Core {
    /// Runs a use case in its own task, so that a client that disconnects cannot leave a transaction open, and retries
    /// it after a conflict with another transaction. `what` names the task if it fails.
    pub(crate) async fn in_task_with_retries<F, R>(
        self: &Arc<Self>,
        what: &'static str,
        run: impl Fn(Arc<Core>) -> F + Send + 'static,
    ) -> Result<R>
    where
        F: Future<Output = Result<R>> + Send + 'static,
        R: Send + 'static,
    {
        let core = Arc::clone(self);
        let work = async move {
            let mut pauses = PAUSES.into_iter();
            loop {
                let error = match run(Arc::clone(&core)).await {
                    Err(error) if error.is_conflict() || matches!(error, Error::JobsCancelled(_)) => error,
                    other => return other,
                };
                let Some(pause) = pauses.next() else { return Err(error) };
                if let Error::JobsCancelled(job_keys) = error {
                    core.cancelled_jobs.insert(&job_keys);
                }
                // The work that it collides with needs a moment to end.
                tokio::time::sleep(pause).await;
            }
        };
        in_task(what, work).await
    }
}
