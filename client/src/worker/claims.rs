//! Claims, and the start of handlers.
//!
//! At most one claim is in flight: a long poll, or one that is part of a report. It carries a `claim_id`, so that a
//! retry after a lost response claims nothing more (`claiming`).

use std::{sync::Arc, time::Duration};

use domain::{
    api::{Assignment, Claim, Claimed},
    id::Uuid,
};
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::{
    MAX_BATCH, ProgressCell, Task,
    active::{ActiveAssignment, Phase},
    rabbitmq::WakeUpReceiver,
    report::EndingCall,
    run::{Leaving, Loop, Reply},
};
use crate::{error::Result, retry::retry_until_answered};

/// Seconds that a claim waits at the server for work.
const CLAIM_WAIT_SECONDS: u32 = 20;
/// Seconds that a claim waits while RabbitMQ is configured but unreachable. Wake-ups that arrive in the meantime wait
/// as long.
const CLAIM_WAIT_SECONDS_WITH_BROKER: u32 = 5;
/// Interval of claims without a wake-up, in case one was lost.
const CLAIM_INTERVAL: Duration = Duration::from_secs(10);
/// Time for which a stopping worker tries to learn the result of an interrupted claim.
const LAST_CLAIM_TIMEOUT: Duration = Duration::from_secs(2);

/// The claim in flight.
pub(super) enum Claiming {
    /// Part of a report of endings.
    WithReport,
    LongPoll {
        claim: Claim,
        call: AbortHandle,
    },
}

impl Loop {
    /// Claims items if there are free slots and no endings to report; a report carries its own claim. Items that
    /// RabbitMQ named are claimed by id. While wake-ups arrive, other claims do not wait at the server.
    pub(super) fn claim(&mut self, now: Instant) {
        let slots = self.free_slots();
        if slots > 0 && self.leaving.is_none() && self.claiming.is_none() && self.endings.is_empty() {
            let has_wake_ups = self.wake_ups.as_ref().is_some_and(WakeUpReceiver::is_attached);
            if has_wake_ups && self.named_items.is_empty() && now < self.next_claim_at {
                return;
            }
            self.next_claim_at = now + CLAIM_INTERVAL.mul_f64(rand::random_range(0.8..1.2));
            let wait = if self.wake_ups.is_some() { CLAIM_WAIT_SECONDS_WITH_BROKER } else { CLAIM_WAIT_SECONDS };
            let claim = self.claim_for(slots, (!has_wake_ups).then_some(wait));
            self.send_claim(claim, now);
        }
    }

    /// Sends a claim, which was first sent at `sent`, until it is answered.
    fn send_claim(&mut self, claim: Claim, sent: Instant) {
        let client = self.worker.client.with_retry_timeout(Duration::ZERO);
        let request = claim.clone();
        let answer = async move { retry_until_answered("a claim", || client.claim(&request)).await };
        let call = self.poll(sent, answer);
        self.claiming = Some(Claiming::LongPoll { claim, call });
    }

    /// Closes a claim whose report was not answered by Treeline: it may have taken items. It takes no others, because the
    /// slots of the reported items are not free.
    pub(super) fn take_back_claim(&mut self, claim: Claim, sent: Instant) {
        if self.leaving.is_some() {
            self.close_claim(claim);
        } else {
            self.send_claim(closing(claim), sent);
        }
    }

    /// True if a claim for any item waits at the server.
    pub(super) fn is_long_polling(&self) -> bool {
        matches!(&self.claiming, Some(Claiming::LongPoll { claim, .. }) if claim.wait_seconds.is_some())
    }

    /// Handles a wake-up. While a long poll is open, the item is not stored: it would wait for that poll, and the
    /// queue of named items would look as if the worker were at capacity.
    pub(super) fn wake_up_received(&mut self, item_id: Uuid) {
        if self.is_long_polling() {
            self.next_claim_at = Instant::now();
        } else {
            self.named_items.push_back(item_id);
        }
    }

    /// A claim for the named items, or for any items if none are named.
    pub(super) fn claim_for(&mut self, slots: usize, wait_seconds: Option<u32>) -> Claim {
        let named = self.named_items.len().min(slots).min(MAX_BATCH);
        let named: Option<Vec<Uuid>> = (named > 0).then(|| self.named_items.drain(..named).collect());
        Claim {
            worker_id: self.worker.name.clone(),
            types: if named.is_some() { Vec::new() } else { self.worker.types.clone() },
            wait_seconds: wait_seconds.filter(|_| named.is_none()),
            item_ids: named,
            max: Some(slots.min(MAX_BATCH) as u32),
            claim_id: Some(Uuid::now_v7()),
        }
    }

    fn poll(&mut self, sent: Instant, answer: impl Future<Output = Result<Claimed>> + Send + 'static) -> AbortHandle {
        self.calls.spawn(async move {
            let answer = answer.await.map(|claimed| claimed.assignments);
            Reply::Claimed { sent, answer }
        })
    }

    pub(super) fn claimed(&mut self, sent: Instant, answer: Result<Vec<Assignment>>) {
        self.claiming = None;
        match answer {
            Ok(assignments) => self.accept(assignments, sent),
            Err(error) if self.leaving.is_some() => tracing::debug!(%error, "last claim failed"),
            Err(error) => {
                tracing::error!(%error, "claim failed; stopping the worker");
                self.fatal = Some(error);
                self.leave();
            }
        }
    }

    pub(super) fn accept(&mut self, assignments: Vec<Assignment>, sent: Instant) {
        let now = Instant::now();
        if !assignments.is_empty() {
            // There may be more items where these came from.
            self.next_claim_at = now;
        }
        for assignment in assignments {
            // A retried claim returns the same assignments again.
            if self.active.contains_key(&assignment.id) {
                continue;
            }
            let id = assignment.id;
            let progress = Arc::new(ProgressCell::new(Arc::clone(&self.progress_changed)));
            let active = ActiveAssignment::new(assignment, progress, sent, now);
            let is_confirmed = active.is_confirmed();
            self.active.insert(id, active);
            if self.leaving.is_some() {
                self.release(id, EndingCall::default());
            } else if is_confirmed {
                self.start(id);
            }
        }
    }

    pub(super) fn start(&mut self, id: Uuid) {
        let Some(active) = self.active.get_mut(&id) else { return };
        let Some(assignment) = active.take_assignment() else { return };
        let task = Task {
            assignment: Arc::from(assignment),
            client: self.worker.client.clone(),
            progress: Arc::clone(&active.progress),
            stop: active.stop.clone(),
        };
        tracing::debug!(item = %active.label, "begun");
        let handler = Arc::clone(&self.handler);
        // The handler is called inside the task, so that a panic in it becomes an ending, too.
        let abort = self.handlers.spawn(async move { handler(task).await });
        self.by_task.insert(abort.id(), id);
        active.phase = Phase::Working(abort);
    }

    /// Begins draining: no more claims. It aborts a long poll. If the server is just answering it, a claim with the
    /// same `claim_id` returns its assignments, which are then released. That claim names no items: it takes nothing
    /// and closes the id, so that a poll still on its way takes nothing, either (`claiming`).
    pub(super) fn leave(&mut self) {
        let stop_at = Instant::now() + self.worker.drain_limit;
        self.leaving = Some(Leaving { stop_at, give_up_at: None });
        if let Some(Claiming::LongPoll { claim, call }) =
            self.claiming.take_if(|c| matches!(c, Claiming::LongPoll { .. }))
        {
            call.abort();
            self.close_claim(claim);
        }
    }

    fn close_claim(&mut self, claim: Claim) {
        let claim = closing(claim);
        let client = self.worker.client.with_retry_timeout(Duration::ZERO);
        let last = claim.clone();
        let call = self.poll(Instant::now(), async move {
            let answer = retry_until_answered("a last claim", || client.claim(&last));
            timeout(LAST_CLAIM_TIMEOUT, answer).await.unwrap_or_else(|_| Ok(Claimed::default()))
        });
        self.claiming = Some(Claiming::LongPoll { claim, call });
    }
}

/// A claim with the same id that takes nothing: its answer has what the first one took.
fn closing(claim: Claim) -> Claim {
    Claim { types: Vec::new(), item_ids: Some(Vec::new()), wait_seconds: None, ..claim }
}
