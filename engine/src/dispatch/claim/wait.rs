//! Claims that wait for items, as long as their credential is valid.

use std::time::Duration;

use domain::api::{Claim, Claimed};
use tokio::time::Instant;

use super::{
    super::{builtin_executors, work_batch::WorkCommand},
    ClaimCommand,
};
use crate::{
    Engine,
    access::{assignment_holder::BUILTIN, caller::Caller, rights::Ongoing},
    error::{Error, Result},
};

/// Claims without a watched credential; there is no value.
enum Unwatched {}

impl Ongoing for Unwatched {
    async fn check(&self) -> Result<()> {
        match *self {}
    }

    async fn ended(&mut self) -> Error {
        match *self {}
    }
}

impl Engine {
    /// Hands out items; waits up to `wait_seconds` for the first one (`claiming`).
    pub async fn claim(&self, caller: &Caller, claim: Claim) -> Result<Claimed> {
        self.claim_while(caller, claim, None::<Unwatched>).await
    }

    /// Same as `claim`, but a waiting claim is refused as soon as its credential becomes invalid. A claim of Treeline itself
    /// ends when types get other executors, because its list of types is then outdated.
    pub async fn claim_while<O: Ongoing>(
        &self,
        caller: &Caller,
        claim: Claim,
        mut ongoing: Option<O>,
    ) -> Result<Claimed> {
        let wait = Duration::from_secs(u64::from(claim.wait_seconds.unwrap_or(0)));
        let mut command = self.check_claim(caller, claim).await?;
        let deadline = Instant::now() + wait;
        let mut executors_changed = std::pin::pin!(self.types().executors_changed());
        loop {
            self.keep_claimable(caller, &mut command);
            if command.item_ids.is_none() && command.types.is_empty() {
                return Ok(Claimed::default());
            }
            // A claim that may wait registers before it queries, so no wake-up is lost.
            let waits = command.item_ids.is_none() && Instant::now() < deadline;
            let mut woken = waits.then(|| self.0.core.waiters.wait(&command.types));
            let done = self.work(WorkCommand { endings: Vec::new(), claim: Some(command.clone()) }).await?;
            let got = done.claimed.assignments.len();
            let was_woken = woken.as_mut().is_some_and(|woken| woken.try_recv().is_ok());
            if got > 0 && (got == command.max || was_woken) {
                // There may be more, or the wake-up was for another request's item: wake the next waiter.
                self.wake_next(&command);
            }
            let Some(woken) = woken.filter(|_| got == 0 && !self.0.core.shutdown.is_cancelled()) else {
                return Ok(done.claimed);
            };
            if !was_woken {
                // At the deadline or when the server stops, it queries one last time.
                let woken = tokio::time::timeout_at(deadline, self.0.core.shutdown.run_until_cancelled(woken));
                let ended = async {
                    match &mut ongoing {
                        Some(ongoing) => ongoing.ended().await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    _ = woken => {}
                    ended = ended => return Err(self.pass_wake_up_on(&command, ended)),
                    () = &mut executors_changed, if caller.credential_id == BUILTIN => {
                        self.wake_next(&command);
                        return Ok(done.claimed);
                    }
                }
            }
            if let Some(ongoing) = &ongoing
                && let Err(ended) = ongoing.check().await
            {
                return Err(self.pass_wake_up_on(&command, ended));
            }
        }
    }

    /// Removes the types that got an executor for which the caller does not claim, while the claim waited.
    fn keep_claimable(&self, caller: &Caller, command: &mut ClaimCommand) {
        command.types.retain(|&type_id| {
            let info = self.types().by_id(type_id);
            info.is_some_and(|info| builtin_executors::may_claim(info.executor.kind, caller.credential_id))
        });
    }

    /// Passes the wake-up of an aborted claim to the next waiter.
    fn pass_wake_up_on(&self, command: &ClaimCommand, why: Error) -> Error {
        self.wake_next(command);
        why
    }

    fn wake_next(&self, command: &ClaimCommand) {
        for &type_id in &command.types {
            self.0.core.waiters.wake(type_id, 1);
        }
    }
}
