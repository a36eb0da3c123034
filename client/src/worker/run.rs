//! The worker's loop: one task that owns all state, so that nothing needs a lock.
//!
//! Handlers and calls run in their own tasks and return as events; between events [`Loop::advance`] starts everything
//! that is due. The loop must never block, or heartbeats would be late. Its parts: `claims`, `endings`, `heartbeats`.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use domain::{
    Document,
    api::{Assignment, Ending, HeartbeatOf, Heartbeats},
    id::Uuid,
};
use futures::future::BoxFuture;
use tokio::{
    select,
    sync::Notify,
    task::{Id, JoinError, JoinSet},
    time::{Instant, sleep_until},
};

use super::{
    Drain, Summary, Task, Unfinished, Worker,
    active::{ActiveAssignment, Phase, StopReason},
    claims::Claiming,
    rabbitmq::WakeUpReceiver,
    report::{EndingCall, ReleaseOutcome, Reported},
};
use crate::error::{Error, Result};

/// Time for which a stopping worker tries to report the results of its handlers.
const FINAL_REPORT_TIMEOUT: Duration = Duration::from_secs(10);
/// Wait that other events are expected to interrupt.
const FAR_AHEAD: Duration = Duration::from_hours(1);

/// Response of a call.
pub(super) enum Reply {
    Claimed { sent: Instant, answer: Result<Vec<Assignment>> },
    Reported(Reported),
    HeartbeatsAnswered { sent: Instant, heartbeats: Vec<HeartbeatOf>, answer: Result<Heartbeats> },
    Released { assignment: Uuid, call: EndingCall, outcome: ReleaseOutcome },
}

pub(super) type Handler = Arc<dyn Fn(Task) -> BoxFuture<'static, Result<Document, Unfinished>> + Send + Sync>;

pub(super) struct Loop {
    pub(super) worker: Worker,
    pub(super) handler: Handler,
    /// From the claim until the ending is acknowledged. Its length is the number of slots in use.
    pub(super) active: HashMap<Uuid, ActiveAssignment>,
    pub(super) handlers: JoinSet<Result<Document, Unfinished>>,
    pub(super) by_task: HashMap<Id, Uuid>,
    pub(super) calls: JoinSet<Reply>,
    pub(super) endings: VecDeque<Ending>,
    /// Endings that Treeline has not answered, and the times at which they are reported again.
    pub(super) unanswered_endings: Vec<(Instant, Ending)>,
    pub(super) log_unanswered_at: Instant,
    pub(super) summary: Summary,
    pub(super) claiming: Option<Claiming>,
    /// Receives wake-ups, if RabbitMQ is configured.
    pub(super) wake_ups: Option<WakeUpReceiver>,
    /// Items named by wake-ups and not claimed yet; never more than there are free slots.
    pub(super) named_items: VecDeque<Uuid>,
    /// Time of the next claim without a wake-up, while wake-ups arrive.
    pub(super) next_claim_at: Instant,
    pub(super) reporting: bool,
    pub(super) heartbeat_in_flight: bool,
    pub(super) heartbeat_failures: u32,
    /// Wakes the loop when a handler reports progress.
    pub(super) progress_changed: Arc<Notify>,
    pub(super) progress_pending: bool,
    pub(super) progress_after: Instant,
    pub(super) leaving: Option<Leaving>,
    /// Permanent error that stops the worker.
    pub(super) fatal: Option<Error>,
}

/// Deadlines of a worker that drains.
#[derive(Clone, Copy)]
pub(super) struct Leaving {
    /// Time at which running handlers are told to stop.
    pub(super) stop_at: Instant,
    /// Time at which reporting ends; set when the last handler has ended.
    pub(super) give_up_at: Option<Instant>,
}

impl Loop {
    pub(super) fn new(mut worker: Worker, handler: Handler) -> Self {
        let now = Instant::now();
        let wake_ups =
            worker.broker.take().map(|at| WakeUpReceiver::open(at, worker.types.clone(), worker.concurrency));
        Self {
            worker,
            handler,
            active: HashMap::new(),
            handlers: JoinSet::new(),
            by_task: HashMap::new(),
            calls: JoinSet::new(),
            endings: VecDeque::new(),
            unanswered_endings: Vec::new(),
            log_unanswered_at: now,
            summary: Summary::default(),
            claiming: None,
            wake_ups,
            named_items: VecDeque::new(),
            next_claim_at: now,
            reporting: false,
            heartbeat_in_flight: false,
            heartbeat_failures: 0,
            progress_changed: Arc::default(),
            progress_pending: false,
            progress_after: now,
            leaving: None,
            fatal: None,
        }
    }

    pub(super) async fn run(mut self, drain: Drain) -> Result<Summary> {
        let progress_changed = Arc::clone(&self.progress_changed);
        loop {
            let now = Instant::now();
            self.advance(now);
            if self.is_over(now) {
                break;
            }
            let wake = self.wake_at(now);
            let has_room = self.is_long_polling() || self.named_items.len() < self.free_slots();
            let accepts_wake_ups = has_room && self.leaving.is_none();
            select! {
                Some(ended) = self.handlers.join_next_with_id() => self.handler_ended(ended),
                Some(reply) = self.calls.join_next() => self.call_finished(reply),
                Some(item_id) = next_wake_up(&mut self.wake_ups), if accepts_wake_ups => self.wake_up_received(item_id),
                () = sleep_until(wake) => {}
                () = progress_changed.notified() => self.progress_pending = true,
                () = drain.begun(), if self.leaving.is_none() => self.leave(),
                () = drain.forced() => break,
            }
        }
        self.summary.unreported += self.active.len() as u64;
        self.summary.unreadable = self.wake_ups.as_ref().map_or(0, WakeUpReceiver::unreadable);
        self.handlers.shutdown().await;
        self.fatal.map_or(Ok(self.summary), Err)
    }

    /// Starts everything that is due.
    fn advance(&mut self, now: Instant) {
        self.watch_leases(now);
        self.watch_leaving(now);
        self.send_heartbeats(now);
        self.report(now);
        self.claim(now);
    }

    /// Number of free slots.
    pub(super) fn free_slots(&self) -> usize {
        self.worker.concurrency.saturating_sub(self.active.len())
    }

    fn watch_leases(&mut self, now: Instant) {
        let grace = self.worker.stop_grace;
        self.active.retain(|_, active| {
            let is_lease_at_risk = active.lease_at_risk_at() <= now;
            match &active.phase {
                Phase::Unconfirmed(_) => return !is_lease_at_risk,
                Phase::Working(_) if is_lease_at_risk => {
                    tracing::warn!(item = %active.label, "two heartbeats not answered; stopping the handler");
                    active.stop(StopReason::LeaseAtRisk, now, grace);
                }
                Phase::Stopping { .. } if active.drop_at().is_some_and(|at| at <= now) => active.drop_handler(),
                _ => {}
            }
            true
        });
    }

    fn watch_leaving(&mut self, now: Instant) {
        let Some(leaving) = &mut self.leaving else { return };
        if now >= leaving.stop_at {
            leaving.stop_at = now + FAR_AHEAD;
            for active in self.active.values_mut() {
                active.stop(StopReason::Draining, now, self.worker.stop_grace);
            }
        }
        if leaving.give_up_at.is_none() && self.handlers.is_empty() {
            leaving.give_up_at = Some(now + FINAL_REPORT_TIMEOUT);
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let Some(leaving) = self.leaving else { return false };
        let done = self.active.is_empty() && self.handlers.is_empty() && self.claiming.is_none();
        done || leaving.give_up_at.is_some_and(|at| at <= now)
    }

    /// Time of the next check if no event arrives before.
    fn wake_at(&self, now: Instant) -> Instant {
        let leases = self.active.values().filter_map(|active| active.wake_at(self.heartbeat_in_flight));
        let progress_changed = (self.progress_pending && !self.heartbeat_in_flight).then_some(self.progress_after);
        let report = self.unanswered_endings.iter().filter(|_| !self.reporting).map(|&(at, _)| at);
        let may_claim =
            self.wake_ups.is_some() && self.leaving.is_none() && self.claiming.is_none() && self.free_slots() > 0;
        let next_claim = may_claim.then_some(self.next_claim_at);
        let leaving = self.leaving.map(|leaving| leaving.give_up_at.unwrap_or(leaving.stop_at));
        leases.chain(progress_changed).chain(report).chain(next_claim).chain(leaving).min().unwrap_or(now + FAR_AHEAD)
    }

    fn call_finished(&mut self, reply: Result<Reply, JoinError>) {
        match reply {
            Ok(Reply::Claimed { sent, answer }) => self.claimed(sent, answer),
            Ok(Reply::Reported(reported)) => self.reported(reported),
            Ok(Reply::HeartbeatsAnswered { sent, heartbeats, answer }) => {
                self.heartbeats_answered(sent, heartbeats, answer);
            }
            Ok(Reply::Released { assignment, call, outcome }) => self.release_answered(assignment, call, &outcome),
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!(%error, "call panicked"),
        }
    }
}

/// The next item named by a wake-up; pending forever without RabbitMQ.
async fn next_wake_up(wake_ups: &mut Option<WakeUpReceiver>) -> Option<Uuid> {
    match wake_ups {
        Some(wake_ups) => wake_ups.items.recv().await,
        None => std::future::pending().await,
    }
}
