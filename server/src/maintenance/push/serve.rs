//! Loop of one target: claims items as slots become free, posts them, and finishes them by their responses.
//!
//! Endings and the next claim share one call; responses that arrive during the call wait for the next. So a slow target
//! is served item by item and a fast one in batches, without a timer. Only items that are posted at once are claimed,
//! because the lease starts with the claim.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, SystemTime},
};

use domain::{
    api::{Assignment, Claim, Ending, FinishBody},
    job_type::ExecutorKind,
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::Instant,
};
use uuid::Uuid;

use super::{
    super::driver::backoff,
    POLL_INTERVAL,
    post::{self, FinishedPush, Prepared},
    target::{Allowance, Target},
};
use crate::App;
use engine::{Engine, access::caller::Caller, error::Result, task::unless_silent};

/// Maximum items per claim and endings per call.
const BATCH: u32 = 200;

/// Poll interval of a target without work.
const IDLE: Duration = Duration::from_secs(1);

/// Attempts of a stopping server to record responses. After that, they are left to their leases.
const SHUTDOWN_ATTEMPTS: u32 = 5;

/// Serves a target until no type leads to it or the server stops, and all requests in progress have ended.
pub(super) async fn run(app: App, target: Arc<Target>) {
    let (done_sender, done_receiver) = mpsc::unbounded_channel();
    let caller = Engine::push_caller();
    let mut target_loop = TargetLoop {
        app,
        target,
        caller,
        done_sender,
        done_receiver,
        endings: Vec::new(),
        in_flight: 0,
        work_signal: None,
        may_claim: true,
        claim_id: None,
    };
    let mut failures = 0_u32;
    loop {
        match target_loop.step().await {
            Ok(true) => failures = 0,
            Ok(false) => return,
            Err(error) => {
                let pause = backoff("push", Duration::from_millis(50), &mut failures, &error);
                if target_loop.app.shutdown.is_cancelled() && failures > SHUTDOWN_ATTEMPTS {
                    return;
                }
                // The claim may have caused the failure; responses must not wait for it.
                target_loop.may_claim = false;
                tokio::time::sleep(pause).await;
            }
        }
    }
}

struct TargetLoop {
    app: App,
    target: Arc<Target>,
    caller: Caller,
    done_sender: mpsc::UnboundedSender<FinishedPush>,
    done_receiver: mpsc::UnboundedReceiver<FinishedPush>,
    /// Endings that are not yet recorded. They are kept however long the database is away: leases are extended by that
    /// time, and an ending that comes too late is refused.
    endings: Vec<Ending>,
    /// Requests without a response.
    in_flight: usize,
    /// Set after an empty claim: resolves when there may be work.
    work_signal: Option<oneshot::Receiver<()>>,
    /// True if the next call may claim.
    may_claim: bool,
    /// Id of a claim that may have been committed without an answer: the next claim gets the same items.
    claim_id: Option<Uuid>,
}

impl TargetLoop {
    /// Makes one call to the engine, or waits for a reason to make one. False if nothing is left to do.
    async fn step(&mut self) -> Result<bool> {
        while let Ok(done) = self.done_receiver.try_recv() {
            self.receive(done);
        }
        let types = self.target.types();
        let is_stopping = self.app.shutdown.is_cancelled() || types.is_empty();
        if is_stopping && self.in_flight == 0 && self.endings.is_empty() {
            return Ok(false);
        }
        let now = Instant::now();
        let (most, poll_at) = match self.target.allowance(now) {
            _ if is_stopping || self.work_signal.is_some() || !self.may_claim => (0, now + IDLE),
            Allowance::Open => (BATCH, now + IDLE),
            // A recovering target gets one request at a time.
            Allowance::Probe => (u32::from(self.in_flight == 0), now + IDLE),
            Allowance::Wait(until) => (0, until.min(now + POLL_INTERVAL)),
        };
        self.may_claim = true;
        let slots = if most > 0 { self.target.slots(most) } else { None };
        if self.endings.is_empty() && slots.is_none() {
            self.wait(poll_at, is_stopping).await;
            return Ok(true);
        }
        self.finish_and_claim(&types, slots).await?;
        Ok(true)
    }

    /// Waits for a response, for work, or until `poll_at`.
    async fn wait(&mut self, poll_at: Instant, is_stopping: bool) {
        let work = async {
            match &mut self.work_signal {
                // An error means that the sender is gone: poll as well.
                Some(work_signal) => drop(work_signal.await),
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            done = self.done_receiver.recv() => done,
            () = work => {
                self.work_signal = None;
                None
            }
            () = tokio::time::sleep_until(poll_at) => {
                // Poll as well: a hint may be lost.
                self.work_signal = None;
                None
            }
            () = self.app.shutdown.cancelled(), if !is_stopping => None,
        };
        if let Some(done) = done {
            self.receive(done);
            // Let responses that arrived at the same time join the call.
            tokio::task::yield_now().await;
        }
    }

    fn receive(&mut self, done: FinishedPush) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.endings.extend(done.ending);
    }

    /// Records endings and claims items for the free slots.
    async fn finish_and_claim(&mut self, types: &[Arc<Prepared>], slots: Option<OwnedSemaphorePermit>) -> Result<()> {
        let n_slots = slots.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let claim = slots.as_ref().map(|slots| Claim {
            worker_id: format!("push:{:.190}", self.target.name),
            types: types.iter().map(|ready| ready.info.name.clone()).collect(),
            item_ids: None,
            max: Some(slots.num_permits() as u32),
            wait_seconds: None,
            claim_id: Some(*self.claim_id.get_or_insert_with(Uuid::now_v7)),
        });
        // Register as a waiter before the query, so that no wake-up is lost.
        let ids: Vec<i32> = types.iter().map(|ready| ready.info.id).collect();
        let work_signal = slots.is_some().then(|| self.app.engine.register_waiter(&ids));
        let n_endings = self.endings.len().min(BATCH as usize);
        let endings = self.endings[..n_endings].to_vec();
        let began = SystemTime::now();
        let finished = self.app.engine.finish(&self.caller, FinishBody { endings, claim });
        let mut finished = unless_silent(finished).await.flatten()?;
        finished.assignments.iter_mut().for_each(|assignment| self.app.traces.handed_out(assignment, began, None));
        // Items finished meanwhile, by lease expiry or by the worker, are refused and stay unchanged.
        self.endings.drain(..n_endings);
        if slots.is_some() {
            self.claim_id = None;
        }
        if finished.assignments.len() < n_slots {
            self.work_signal = work_signal;
        }
        if let Some(slots) = slots {
            self.start_requests(types, finished.assignments, slots).await;
        }
        Ok(())
    }

    async fn start_requests(
        &mut self,
        types: &[Arc<Prepared>],
        assignments: Vec<Assignment>,
        mut slots: OwnedSemaphorePermit,
    ) {
        let is_paused = matches!(self.target.allowance(Instant::now()), Allowance::Wait(_));
        let is_stopping = is_paused || self.app.shutdown.is_cancelled();
        let mut current: HashMap<String, Option<Arc<Prepared>>> = HashMap::new();
        for assignment in assignments {
            let name = &assignment.item.job_type;
            if !current.contains_key(name) {
                current.insert(name.clone(), current_type(&self.app, types, name));
            }
            let ready = current.get(name).cloned().flatten();
            match ready.zip(slots.split(1)) {
                Some((ready, permit)) if !is_stopping => {
                    self.in_flight += 1;
                    let (app, target) = (self.app.clone(), Arc::clone(&self.target));
                    let done_sender = self.done_sender.clone();
                    self.app.tasks.spawn(async move {
                        // The receiver outlives this task.
                        let _ = done_sender.send(post::work(&app, &target, &ready, &assignment, permit).await);
                    });
                }
                _ => post::release_unsent(&self.app, assignment.id).await,
            }
        }
    }
}

/// Current version of a type, which may have changed while waiting for items. `None` if it is no longer pushed.
fn current_type(app: &App, types: &[Arc<Prepared>], name: &str) -> Option<Arc<Prepared>> {
    let info = app.engine.types().get(name).filter(|info| info.executor.kind == ExecutorKind::Push)?;
    let prepared = types.iter().find(|ready| ready.is_of(&info)).cloned();
    prepared.or_else(|| Prepared::of(info, &app.outgoing.key).map(Arc::new))
}
