//! Claims, and the start of handlers.
//!
//! At most one claim is in flight: a long poll, or one that is part of a report. It carries a `claim_id`, so that a
//! retry after a lost response claims nothing more (`claiming`).

use std::{sync::Arc, time::Duration};

use domain::{
    api::{Assignment, Claim, Claimed, ReleaseBody},
    id::Uuid,
};
use tokio::{
    task::AbortHandle,
    time::{Instant, timeout},
};

use super::{
    MOST, ProgressCell, Task,
    held::{Held, Phase},
    rabbit::Ear,
    run::{Leaving, Loop, Reply},
};
use crate::{again::persist, error::Result};

/// Seconds that a claim waits at the server for work.
const WAIT: u32 = 20;
/// Seconds that a claim waits while RabbitMQ is configured but unreachable. Wake-ups that arrive in the meantime wait
/// as long.
const SHORT_WAIT: u32 = 5;
/// Interval of claims without a wake-up, in case one was lost.
const LOOK: Duration = Duration::from_secs(10);
/// Time for which a stopping worker tries to learn the result of an interrupted claim.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The claim in flight.
pub(super) enum Claiming {
    /// Part of a report of endings.
    Rides,
    Polls {
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
            let hears = self.ear.as_ref().is_some_and(Ear::is_attached);
            if hears && self.heard.is_empty() && now < self.ask_after {
                return;
            }
            self.ask_after = now + LOOK.mul_f64(rand::random_range(0.8..1.2));
            let wait = if self.ear.is_some() { SHORT_WAIT } else { WAIT };
            let claim = self.claim_for(slots, (!hears).then_some(wait));
            let client = self.worker.client.with_patience(Duration::ZERO);
            let asked = claim.clone();
            let call = self.poll(async move { persist("a claim", || client.claim(&asked)).await });
            self.claiming = Some(Claiming::Polls { claim, call });
        }
    }

    /// True if a claim for any item waits at the server.
    pub(super) fn waits_at_the_server(&self) -> bool {
        matches!(&self.claiming, Some(Claiming::Polls { claim, .. }) if claim.wait_seconds.is_some())
    }

    /// Handles a wake-up. While a long poll is open, the item is not stored: it would wait for that poll, and the
    /// queue of named items would look as if the worker were at capacity.
    pub(super) fn heard_of(&mut self, item_id: Uuid) {
        if self.waits_at_the_server() {
            self.ask_after = Instant::now();
        } else {
            self.heard.push_back(item_id);
        }
    }

    /// A claim for the named items, or for any items if none are named.
    pub(super) fn claim_for(&mut self, slots: usize, wait_seconds: Option<u32>) -> Claim {
        let named = self.heard.len().min(slots).min(MOST);
        let named: Option<Vec<Uuid>> = (named > 0).then(|| self.heard.drain(..named).collect());
        Claim {
            worker_id: self.worker.name.clone(),
            types: if named.is_some() { Vec::new() } else { self.worker.types.clone() },
            wait_seconds: wait_seconds.filter(|_| named.is_none()),
            item_ids: named,
            max: Some(slots.min(MOST) as u32),
            claim_id: Some(Uuid::now_v7()),
        }
    }

    fn poll(&mut self, answer: impl Future<Output = Result<Claimed>> + Send + 'static) -> AbortHandle {
        self.calls.spawn(async move {
            let sent = Instant::now();
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
            self.ask_after = now;
        }
        for assignment in assignments {
            // A retried claim returns the same assignments again.
            if self.held.contains_key(&assignment.id) {
                continue;
            }
            let id = assignment.id;
            let progress = Arc::new(ProgressCell::new(Arc::clone(&self.news)));
            let held = Held::new(assignment, progress, sent, now);
            let is_confirmed = held.is_confirmed();
            self.held.insert(id, held);
            if self.leaving.is_some() {
                self.give_back(id, ReleaseBody::default());
            } else if is_confirmed {
                self.start(id);
            }
        }
    }

    pub(super) fn start(&mut self, id: Uuid) {
        let Some(held) = self.held.get_mut(&id) else { return };
        let Some(assignment) = held.take_assignment() else { return };
        let task = Task {
            assignment: Arc::from(assignment),
            client: self.worker.client.clone(),
            progress: Arc::clone(&held.progress),
            stop: held.stop.clone(),
        };
        tracing::debug!(item = %held.label, "begun");
        let handler = Arc::clone(&self.handler);
        // The handler is called inside the task, so that a panic in it becomes an ending, too.
        let abort = self.handlers.spawn(async move { handler(task).await });
        self.by_task.insert(abort.id(), id);
        held.phase = Phase::Working(abort);
    }

    /// Begins draining: no more claims. It aborts a long poll. If the server is just answering it, a claim with the
    /// same `claim_id` returns its assignments, which are then released. That claim names no items: it takes nothing
    /// and closes the id, so that a poll still on its way takes nothing, either (`claiming`).
    pub(super) fn leave(&mut self) {
        let stop_at = Instant::now() + self.worker.drain_limit;
        self.leaving = Some(Leaving { stop_at, give_up_at: None });
        if let Some(Claiming::Polls { claim, call }) = self.claiming.take_if(|c| matches!(c, Claiming::Polls { .. })) {
            call.abort();
            let claim = Claim { types: Vec::new(), item_ids: Some(Vec::new()), wait_seconds: None, ..claim };
            let client = self.worker.client.with_patience(Duration::ZERO);
            let last = claim.clone();
            let call = self.poll(async move {
                let told = timeout(LAST_WORD, persist("a last claim", || client.claim(&last)));
                told.await.unwrap_or_else(|_| Ok(Claimed::default()))
            });
            self.claiming = Some(Claiming::Polls { claim, call });
        }
    }
}
