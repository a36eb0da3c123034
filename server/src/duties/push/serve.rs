//! Loop of one target: claims items as slots become free, posts them, and finishes them by their responses.
//!
//! Endings and the next claim share one call; responses that arrive during the call wait for the next. So a slow target
//! is served item by item and a fast one in batches, without a timer. Only items that are posted at once are claimed,
//! because the lease starts with the claim.

use std::{collections::HashMap, sync::Arc, time::Duration};

use domain::{
    api::{Assignment, Claim, Ending, FinishBody},
    job_type::ExecutorKind,
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::Instant,
};

use super::super::driver::backoff;
use crate::{App, auth::Caller, error::Result, jobs::Engine};

use super::{
    LOOK,
    post::{self, Done, Prepared},
    target::{Allowance, Target},
};

/// Maximum items per claim and endings per call.
const BATCH: u32 = 200;

/// Poll interval of a target without work.
const IDLE: Duration = Duration::from_secs(1);

/// Attempts of a stopping server to record responses. After that, they are left to their leases.
const LAST_TRIES: u32 = 5;

/// Serves a target until no type leads to it or the server stops, and all requests in progress have ended.
pub(super) async fn run(app: App, target: Arc<Target>) {
    let (tell, told) = mpsc::unbounded_channel();
    let caller = Engine::push_caller();
    let (line, endings) = (None, Vec::new());
    let mut serving = Serving { app, target, caller, tell, told, endings, under_way: 0, line, claims: true };
    let mut failures = 0_u32;
    loop {
        match serving.turn().await {
            Ok(true) => failures = 0,
            Ok(false) => return,
            Err(error) => {
                let pause = backoff("push", Duration::from_millis(50), &mut failures, &error);
                if serving.app.shutdown.is_cancelled() && failures > LAST_TRIES {
                    return;
                }
                // The claim may have caused the failure; responses must not wait for it.
                serving.claims = false;
                serving.forget();
                tokio::time::sleep(pause).await;
            }
        }
    }
}

struct Serving {
    app: App,
    target: Arc<Target>,
    caller: Caller,
    tell: mpsc::UnboundedSender<Done>,
    told: mpsc::UnboundedReceiver<Done>,
    /// Endings that are not yet recorded.
    endings: Vec<(Ending, Instant)>,
    /// Requests without a response.
    under_way: usize,
    /// Set after an empty claim: resolves when there may be work.
    line: Option<oneshot::Receiver<()>>,
    /// True if the next call may claim.
    claims: bool,
}

impl Serving {
    /// Makes one call to the engine, or waits for a reason to make one. False if nothing is left to do.
    async fn turn(&mut self) -> Result<bool> {
        while let Ok(done) = self.told.try_recv() {
            self.hear(done);
        }
        let types = self.target.types();
        let stops = self.app.shutdown.is_cancelled() || types.is_empty();
        if stops && self.under_way == 0 && self.endings.is_empty() {
            return Ok(false);
        }
        let now = Instant::now();
        let (most, look_at) = match self.target.allowance(now) {
            _ if stops || self.line.is_some() || !self.claims => (0, now + IDLE),
            Allowance::Open => (BATCH, now + IDLE),
            // A recovering target gets one request at a time.
            Allowance::Probe => (u32::from(self.under_way == 0), now + IDLE),
            Allowance::Wait(until) => (0, until.min(now + LOOK)),
        };
        self.claims = true;
        let room = if most > 0 { self.target.room(most) } else { None };
        if self.endings.is_empty() && room.is_none() {
            self.wait(look_at, stops).await;
            return Ok(true);
        }
        self.call(&types, room).await?;
        Ok(true)
    }

    /// Waits for a response, for work, or until `look_at`.
    async fn wait(&mut self, look_at: Instant, stops: bool) {
        let work = async {
            match &mut self.line {
                // An error means that the sender is gone: poll as well.
                Some(line) => drop(line.await),
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            done = self.told.recv() => done,
            () = work => {
                self.line = None;
                None
            }
            () = tokio::time::sleep_until(look_at) => {
                // Poll as well: a hint may be lost.
                self.line = None;
                None
            }
            () = self.app.shutdown.cancelled(), if !stops => None,
        };
        if let Some(done) = done {
            self.hear(done);
            // Let responses that arrived at the same time join the call.
            tokio::task::yield_now().await;
        }
    }

    fn hear(&mut self, done: Done) {
        self.under_way = self.under_way.saturating_sub(1);
        self.endings.extend(done.ending.map(|ending| (ending, done.until)));
    }

    /// Records endings and claims items for the free slots.
    async fn call(&mut self, types: &[Arc<Prepared>], room: Option<OwnedSemaphorePermit>) -> Result<()> {
        let asked = room.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        let claim = room.as_ref().map(|room| Claim {
            worker_id: format!("push:{:.190}", self.target.name),
            types: types.iter().map(|ready| ready.info.name.clone()).collect(),
            item_ids: None,
            max: Some(room.num_permits() as u32),
            wait_seconds: None,
            claim_id: None,
        });
        // Register as a waiter before the query, so that no wake-up is lost.
        let ids: Vec<i32> = types.iter().map(|ready| ready.info.id).collect();
        let line = room.is_some().then(|| self.app.engine.line(&ids));
        let told = self.endings.len().min(BATCH as usize);
        let endings = self.endings[..told].iter().map(|(ending, _)| ending.clone()).collect();
        let finished = self.app.engine.finish(&self.caller, FinishBody { endings, claim }).await?;
        // Items finished meanwhile, by lease expiry or by the worker, are refused and stay unchanged.
        self.endings.drain(..told);
        if finished.assignments.len() < asked {
            self.line = line;
        }
        if let Some(room) = room {
            self.send(types, finished.assignments, room).await;
        }
        Ok(())
    }

    async fn send(&mut self, types: &[Arc<Prepared>], assignments: Vec<Assignment>, mut room: OwnedSemaphorePermit) {
        let away = matches!(self.target.allowance(Instant::now()), Allowance::Wait(_));
        let stops = away || self.app.shutdown.is_cancelled();
        let mut current: HashMap<String, Option<Arc<Prepared>>> = HashMap::new();
        for assignment in assignments {
            let name = &assignment.item.job_type;
            if !current.contains_key(name) {
                current.insert(name.clone(), now(&self.app, types, name));
            }
            let ready = current.get(name).cloned().flatten();
            match ready.zip(room.split(1)) {
                Some((ready, permit)) if !stops => {
                    self.under_way += 1;
                    let (app, target) = (self.app.clone(), Arc::clone(&self.target));
                    let tell = self.tell.clone();
                    self.app.tasks.spawn(async move {
                        // The receiver outlives this task.
                        let _ = tell.send(post::work(&app, &target, &ready, &assignment, permit).await);
                    });
                }
                _ => post::give_back(&self.app, assignment.id).await,
            }
        }
    }

    /// Drops endings whose leases have expired.
    fn forget(&mut self) {
        let now = Instant::now();
        let before = self.endings.len();
        self.endings.retain(|(_, until)| *until > now);
        let lost = before - self.endings.len();
        if lost > 0 {
            tracing::warn!(target = self.target.name, lost, "recording worker responses failed, leases decide");
        }
    }
}

/// Current version of a type, which may have changed while waiting for items. `None` if it is no longer pushed.
fn now(app: &App, types: &[Arc<Prepared>], name: &str) -> Option<Arc<Prepared>> {
    let info = app.engine.types().get(name).filter(|info| info.executor.kind == ExecutorKind::Push)?;
    let known = types.iter().find(|ready| ready.is_of(&info)).cloned();
    known.or_else(|| Prepared::of(info, &app.outgoing.key).map(Arc::new))
}
