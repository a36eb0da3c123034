//! Claims, and the beginning of work.
//!
//! At most one claim is under way: a long poll, or one that rides on a report. It carries a `claim_id`,
//! so that asking again after a lost answer takes nothing new (`claiming`).

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

/// Seconds a claim waits at the server for work.
const WAIT: u32 = 20;
/// The same where RabbitMQ is to be heard but is not: what comes of it meanwhile waits as long.
const SHORT_WAIT: u32 = 5;
/// Interval at which a worker with wake-ups claims anyway, in case a wake-up was lost.
const LOOK: Duration = Duration::from_secs(10);
/// Time for which a stopping worker tries to learn the result of an interrupted claim.
const LAST_WORD: Duration = Duration::from_secs(2);

/// The claim under way.
pub(super) enum Claiming {
    /// On a report of endings.
    Rides,
    Polls {
        claim: Claim,
        call: AbortHandle,
    },
}

impl Loop {
    /// Asks for work where there are free slots and nothing waits to be reported; a report brings a
    /// claim of its own. What RabbitMQ has named is asked for by name; while it can be heard, the server is
    /// not kept waiting for anything else.
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

    /// RabbitMQ has named an item. While a claim waits at the server it need not be asked for by name: kept until that is
    /// answered, such items would fill the worker's ears as if its hands were full.
    pub(super) fn heard_of(&mut self, item_id: Uuid) {
        if self.waits_at_the_server() {
            self.ask_after = Instant::now();
        } else {
            self.heard.push_back(item_id);
        }
    }

    /// For items that were heard of, if there are any, else for whatever there is.
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
            Err(error) if self.leaving.is_some() => tracing::debug!(%error, "a last claim failed"),
            Err(error) => {
                tracing::error!(%error, "cannot claim; leaving");
                self.fatal = Some(error);
                self.leave();
            }
        }
    }

    pub(super) fn accept(&mut self, assignments: Vec<Assignment>, sent: Instant) {
        let now = Instant::now();
        if !assignments.is_empty() {
            // Where there was something there may be more.
            self.ask_after = now;
        }
        for assignment in assignments {
            // A repeated claim answers with what it gave before.
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
        // Called inside the task, so that a panic of the handler's first line is an ending too.
        let abort = self.handlers.spawn(async move { handler(task).await });
        self.by_task.insert(abort.id(), id);
        held.phase = Phase::Working(abort);
    }

    /// No more claims. A long poll is broken off; should it be answered just now, the same `claim_id`
    /// tells what it took, which is given back. A claim of no items takes nothing itself and closes the
    /// id, so that a poll still on its way takes nothing either (`claiming`).
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
