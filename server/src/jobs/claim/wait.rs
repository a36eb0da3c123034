//! Claims that wait for something to be had, for as long as their credential is good.

use std::time::Duration;

use domain::api::{Claim, Claimed};
use tokio::time::Instant;

use super::{
    super::{Engine, work::Work},
    ClaimCommand,
};
use crate::{
    auth::{Caller, Ongoing},
    error::{Error, Result},
};

impl Engine {
    /// Hands out items, waiting up to `wait_seconds` for the first (`claiming`).
    pub async fn claim(&self, caller: &Caller, claim: Claim) -> Result<Claimed> {
        self.claim_while(caller, claim, None).await
    }

    /// The same for as long as the credential is good: a claim that waits is refused the moment that it is not.
    pub async fn claim_while(&self, caller: &Caller, claim: Claim, mut ongoing: Option<Ongoing>) -> Result<Claimed> {
        let wait = Duration::from_secs(u64::from(claim.wait_seconds.unwrap_or(0)));
        let mut command = self.check_claim(caller, claim).await?;
        let deadline = Instant::now() + wait;
        loop {
            // Only one who waits stands in line, and does so before looking: nothing is missed in between.
            let waits = command.item_ids.is_none() && Instant::now() < deadline;
            let mut woken = waits.then(|| self.0.core.waiters.wait(&command.types));
            let done = self.0.work.run(Work { endings: Vec::new(), claim: Some(command.clone()) }).await?;
            let got = done.claimed.assignments.len();
            let was_woken = woken.as_mut().is_some_and(|woken| woken.try_recv().is_ok());
            if got > 0 && (got == command.max || was_woken) {
                // There may be more, or the wake-up was for what somebody else added: the next in line looks.
                for &type_id in &command.types {
                    self.0.core.waiters.wake(type_id, 1);
                }
            }
            let Some(woken) = woken.filter(|_| got == 0 && !self.0.core.shutdown.is_cancelled()) else {
                return Ok(done.claimed);
            };
            command.first_type += 1;
            if !was_woken {
                // Either way it looks once more: at the deadline, or when the server stops, for the last time.
                let woken = tokio::time::timeout_at(deadline, self.0.core.shutdown.run_until_cancelled(woken));
                match &mut ongoing {
                    Some(ongoing) => tokio::select! {
                        _ = woken => {}
                        ended = ongoing.ended() => return Err(self.pass_on(&command, ended)),
                    },
                    None => drop(woken.await),
                }
            }
            if let Some(ongoing) = &ongoing
                && let Err(ended) = ongoing.check().await
            {
                return Err(self.pass_on(&command, ended));
            }
        }
    }

    /// A claim is given up: whatever woke it may be for the next in line.
    fn pass_on(&self, command: &ClaimCommand, why: Error) -> Error {
        for &type_id in &command.types {
            self.0.core.waiters.wake(type_id, 1);
        }
        why
    }
}
