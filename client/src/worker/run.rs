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
    claims::Claiming,
    held::{Held, Phase, Why},
    rabbit::Ear,
    report::{Reported, Returned},
};
use crate::error::{Error, Result};

/// Time for which a stopping worker tries to report the results of its handlers.
const LAST_REPORTS: Duration = Duration::from_secs(10);
/// Wait that other events are expected to interrupt.
const LONG: Duration = Duration::from_hours(1);

/// Response of a call.
pub(super) enum Reply {
    Claimed { sent: Instant, answer: Result<Vec<Assignment>> },
    Reported(Reported),
    Beaten { sent: Instant, told: Vec<HeartbeatOf>, answer: Result<Heartbeats> },
    Returned { assignment: Uuid, returned: Returned },
}

pub(super) type Handler = Arc<dyn Fn(Task) -> BoxFuture<'static, Result<Document, Unfinished>> + Send + Sync>;

pub(super) struct Loop {
    pub(super) worker: Worker,
    pub(super) handler: Handler,
    /// From the claim until the ending is acknowledged. Its length is the number of slots in use.
    pub(super) held: HashMap<Uuid, Held>,
    pub(super) handlers: JoinSet<Result<Document, Unfinished>>,
    pub(super) by_task: HashMap<Id, Uuid>,
    pub(super) calls: JoinSet<Reply>,
    pub(super) endings: VecDeque<Ending>,
    pub(super) summary: Summary,
    pub(super) claiming: Option<Claiming>,
    /// Receives wake-ups, if RabbitMQ is configured.
    pub(super) ear: Option<Ear>,
    /// Items named by wake-ups and not claimed yet; never more than there are free slots.
    pub(super) heard: VecDeque<Uuid>,
    /// Time of the next claim without a wake-up, while wake-ups arrive.
    pub(super) ask_after: Instant,
    /// Earliest time of the next report, after the server could not process the last one.
    pub(super) report_after: Instant,
    pub(super) reporting: bool,
    pub(super) beating: bool,
    pub(super) beat_failures: u32,
    /// Wakes the loop when a handler reports progress.
    pub(super) news: Arc<Notify>,
    pub(super) news_waits: bool,
    pub(super) news_after: Instant,
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
        let ear = worker.broker.take().map(|at| Ear::open(at, worker.types.clone(), worker.concurrency));
        Self {
            worker,
            handler,
            held: HashMap::new(),
            handlers: JoinSet::new(),
            by_task: HashMap::new(),
            calls: JoinSet::new(),
            endings: VecDeque::new(),
            summary: Summary::default(),
            claiming: None,
            ear,
            heard: VecDeque::new(),
            ask_after: now,
            report_after: now,
            reporting: false,
            beating: false,
            beat_failures: 0,
            news: Arc::default(),
            news_waits: false,
            news_after: now,
            leaving: None,
            fatal: None,
        }
    }

    pub(super) async fn run(mut self, drain: Drain) -> Result<Summary> {
        let news = Arc::clone(&self.news);
        loop {
            let now = Instant::now();
            self.advance(now);
            if self.is_over(now) {
                break;
            }
            let wake = self.wake_at(now);
            let has_room = self.waits_at_the_server() || self.heard.len() < self.free_slots();
            let listens = has_room && self.leaving.is_none();
            select! {
                Some(ended) = self.handlers.join_next_with_id() => self.handler_ended(ended),
                Some(reply) = self.calls.join_next() => self.answered(reply),
                Some(item_id) = hear(&mut self.ear), if listens => self.heard_of(item_id),
                () = sleep_until(wake) => {}
                () = news.notified() => self.news_waits = true,
                () = drain.begun(), if self.leaving.is_none() => self.leave(),
                () = drain.forced() => break,
            }
        }
        self.summary.unreported += self.held.len() as u64;
        self.summary.unreadable = self.ear.as_ref().map_or(0, Ear::unreadable);
        self.handlers.shutdown().await;
        self.fatal.map_or(Ok(self.summary), Err)
    }

    /// Starts everything that is due.
    fn advance(&mut self, now: Instant) {
        self.watch_leases(now);
        self.watch_leaving(now);
        self.beat(now);
        self.report(now);
        self.claim(now);
    }

    /// Number of free slots.
    pub(super) fn free_slots(&self) -> usize {
        self.worker.concurrency.saturating_sub(self.held.len())
    }

    fn watch_leases(&mut self, now: Instant) {
        let grace = self.worker.stop_grace;
        self.held.retain(|_, held| {
            let is_silent = held.silent_at() <= now;
            match &mut held.phase {
                Phase::Unconfirmed(_) => return !is_silent,
                Phase::Working(_) if is_silent => {
                    tracing::warn!(item = %held.label, "two heartbeats not answered; stopping the handler");
                    held.stop(Why::Silent, now, grace);
                }
                Phase::Stopping { abort, drop_at, .. } if *drop_at <= now => {
                    abort.abort();
                    *drop_at = now + LONG;
                }
                _ => {}
            }
            true
        });
    }

    fn watch_leaving(&mut self, now: Instant) {
        let Some(leaving) = &mut self.leaving else { return };
        if now >= leaving.stop_at {
            leaving.stop_at = now + LONG;
            for held in self.held.values_mut() {
                held.stop(Why::Draining, now, self.worker.stop_grace);
            }
        }
        if leaving.give_up_at.is_none() && self.handlers.is_empty() {
            leaving.give_up_at = Some(now + LAST_REPORTS);
        }
    }

    fn is_over(&self, now: Instant) -> bool {
        let Some(leaving) = self.leaving else { return false };
        let done = self.held.is_empty() && self.handlers.is_empty() && self.claiming.is_none();
        done || leaving.give_up_at.is_some_and(|at| at <= now)
    }

    /// Time of the next check if no event arrives before.
    fn wake_at(&self, now: Instant) -> Instant {
        let leases = self.held.values().filter_map(|held| held.wake_at(self.beating));
        let news = (self.news_waits && !self.beating).then_some(self.news_after);
        let report = (!self.endings.is_empty() && !self.reporting).then_some(self.report_after);
        let may_ask = self.ear.is_some() && self.leaving.is_none() && self.claiming.is_none() && self.free_slots() > 0;
        let ask = may_ask.then_some(self.ask_after);
        let leaving = self.leaving.map(|leaving| leaving.give_up_at.unwrap_or(leaving.stop_at));
        leases.chain(news).chain(report).chain(ask).chain(leaving).min().unwrap_or(now + LONG)
    }

    fn answered(&mut self, reply: Result<Reply, JoinError>) {
        match reply {
            Ok(Reply::Claimed { sent, answer }) => self.claimed(sent, answer),
            Ok(Reply::Reported(reported)) => self.reported(reported),
            Ok(Reply::Beaten { sent, told, answer }) => self.beaten(sent, told, answer),
            Ok(Reply::Returned { assignment, returned }) => self.returned(assignment, &returned),
            Err(error) if error.is_cancelled() => {}
            Err(error) => tracing::error!(%error, "call panicked"),
        }
    }
}

/// The next item named by a wake-up; pending forever without RabbitMQ.
async fn hear(ear: &mut Option<Ear>) -> Option<Uuid> {
    match ear {
        Some(ear) => ear.items.recv().await,
        None => std::future::pending().await,
    }
}
