//! One target: items are claimed as there is room for them, posted, and ended by their answers.
//!
//! Endings and the next claim ride in one call; whatever is answered while it runs rides in the next. So a
//! slow target is served item by item and a quick one in batches, without a timer. Nothing is claimed that is
//! not posted at once: the lease begins with the sending.

use std::{collections::HashMap, sync::Arc, time::Duration};

use domain::{
    api::{Assignment, Claim, Ending, FinishBody},
    job_type::ExecutorKind,
};
use tokio::{
    sync::{OwnedSemaphorePermit, mpsc, oneshot},
    time::Instant,
};

use crate::{App, auth::Caller, error::Result, jobs::Engine};

use super::{
    LOOK,
    post::{self, Done, Prepared},
    target::{Allowance, Target},
};

/// Items of one claim, and endings of one call.
const BATCH: u32 = 200;

/// How long a target without work waits before it looks again by itself.
const IDLE: Duration = Duration::from_secs(1);

/// The pause after a failure, at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// How often a server that stops tries to record answers. Then they are left to their leases.
const LAST_TRIES: u32 = 5;

/// Serves a target until no type leads there any more or the server stops, and what is under way has ended.
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
                failures += 1;
                if failures.is_power_of_two() {
                    let target = &serving.target.name;
                    tracing::warn!(duty = "push", target, %error, failures, "failed; will try again");
                }
                if serving.app.shutdown.is_cancelled() && failures > LAST_TRIES {
                    return;
                }
                // The claim may be what was wrong: what has been answered must not wait for it.
                serving.claims = false;
                serving.forget();
                tokio::time::sleep((Duration::from_millis(50) * (1 << failures.min(7))).min(PATIENCE)).await;
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
    /// Answers that the engine has not been told.
    endings: Vec<(Ending, Instant)>,
    /// Posts without an answer.
    under_way: usize,
    /// There was nothing more to claim: resolves when there may be.
    line: Option<oneshot::Receiver<()>>,
    /// The next call may claim.
    claims: bool,
}

impl Serving {
    /// One call to the engine, or the wait for a reason to make one. False: there is nothing left to do.
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
            // A target that is tried again gets one post, and the next when that has been answered.
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

    /// Waits for an answer, for work, or for the time to look again.
    async fn wait(&mut self, look_at: Instant, stops: bool) {
        let work = async {
            match &mut self.line {
                // An error is a line that is gone: as good a reason to look.
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
                // By itself, too: a hint may be lost.
                self.line = None;
                None
            }
            () = self.app.shutdown.cancelled(), if !stops => None,
        };
        if let Some(done) = done {
            self.hear(done);
            // Those that were answered at the same moment ride along.
            tokio::task::yield_now().await;
        }
    }

    fn hear(&mut self, done: Done) {
        self.under_way = self.under_way.saturating_sub(1);
        self.endings.extend(done.ending.map(|ending| (ending, done.until)));
    }

    /// Tells the engine what was answered and claims for the room that there is.
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
        // In line before looking, so that nothing is missed in between.
        let ids: Vec<i32> = types.iter().map(|ready| ready.info.id).collect();
        let line = room.is_some().then(|| self.app.engine.line(&ids));
        let told = self.endings.len().min(BATCH as usize);
        let endings = self.endings[..told].iter().map(|(ending, _)| ending.clone()).collect();
        let finished = self.app.engine.finish(&self.caller, FinishBody { endings, claim }).await?;
        // What was ended meanwhile, by its lease or by the worker itself, is refused and stays as it is.
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
                        // The other end outlives it.
                        let _ = tell.send(post::work(&app, &target, &ready, &assignment, permit).await);
                    });
                }
                _ => post::give_back(&self.app, assignment.id).await,
            }
        }
    }

    /// Leaves to their leases those answers whose leases are over.
    fn forget(&mut self) {
        let now = Instant::now();
        let before = self.endings.len();
        self.endings.retain(|(_, until)| *until > now);
        let lost = before - self.endings.len();
        if lost > 0 {
            tracing::warn!(target = self.target.name, lost, "answers could not be recorded: left to their leases");
        }
    }
}

/// A type as it is now: it may have changed while its items were waited for. `None`: it is not posted any more.
fn now(app: &App, types: &[Arc<Prepared>], name: &str) -> Option<Arc<Prepared>> {
    let info = app.engine.types().get(name).filter(|info| info.executor.kind == ExecutorKind::Push)?;
    let known = types.iter().find(|ready| ready.is_of(&info)).cloned();
    known.or_else(|| Prepared::of(info, &app.outgoing.key).map(Arc::new))
}
