//! Posts items to the workers of push types (spec §4 "Push").
//!
//! To every target (host and port) a task of its own claims what its types have, as many at once as
//! the target may have under way, posts each in a task, and hands the answers to the engine like any worker.
//! Nothing is claimed that is not posted at once, so the lease begins with the sending. A target that fails
//! again and again is left alone for a while. What a dying server has posted is offered again, or is of
//! unknown outcome, when its lease is over: rule 9 decides, not this.

mod answer; // what an answer comes to
mod post; // one item on its way
mod target; // where to, and whether it answers

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use domain::{Time, api::Claim, hold::Hold, job_type::ExecutorKind};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::{App, error::Result, jobs::Engine};

use post::Prepared;
use target::{Allowance, Target};

/// How often the types are looked at: a change acts within that and what their cache needs.
const LOOK: Duration = Duration::from_millis(200);

/// How long one claim waits for work. In seconds.
const WAIT: u32 = 2;

/// Items of one claim.
const BATCH: u32 = 200;

/// The pause after a failure, at most.
const PATIENCE: Duration = Duration::from_secs(5);

/// Posts until shutdown: types are looked at, and each target has a task that ends with its last type.
pub(super) async fn run(app: App) {
    let mut prepared: HashMap<i32, Arc<Prepared>> = HashMap::new();
    let mut targets: HashMap<String, Arc<Target>> = HashMap::new();
    while !app.shutdown.is_cancelled() {
        let mut there: BTreeMap<String, Vec<Arc<Prepared>>> = BTreeMap::new();
        let mut known = HashMap::new();
        for info in app.engine.types().all() {
            if info.executor.kind != ExecutorKind::Push {
                continue;
            }
            let before = prepared.remove(&info.id).filter(|before| before.is_of(&info));
            let Some(ready) = before.or_else(|| Prepared::of(info, &app.outgoing.key).map(Arc::new)) else { continue };
            there.entry(ready.target.clone()).or_default().push(Arc::clone(&ready));
            known.insert(ready.info.id, ready);
        }
        prepared = known;
        targets.retain(|name, target| {
            // Its task ends by itself when nothing leads there any more.
            target.lead(there.get(name).cloned().unwrap_or_default());
            let stays = there.contains_key(name);
            if !stays {
                gauge(target, false);
            }
            stays
        });
        for (name, types) in there {
            targets.entry(name.clone()).or_insert_with(|| {
                let target = Arc::new(Target::new(name, &app.config.outbound));
                target.lead(types);
                app.tasks.spawn(serve(app.clone(), Arc::clone(&target)));
                target
            });
        }
        say(&app, targets.values());
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = app.shutdown.cancelled() => {}
        }
    }
}

/// Says of the targets that are left alone which they are, for whoever asks why items wait.
fn say<'a>(app: &App, targets: impl Iterator<Item = &'a Arc<Target>>) {
    let (now, clock) = (Instant::now(), OffsetDateTime::now_utc());
    let mut holds = HashMap::new();
    for target in targets {
        let until = target.left_alone_until();
        gauge(target, until.is_some());
        let Some(until) = until else { continue };
        let until = Time(clock + until.saturating_duration_since(now));
        for ready in target.types().iter() {
            holds.insert(ready.info.id, Hold::Away { target: target.name.clone(), until });
        }
    }
    app.engine.targets_away(holds);
}

fn gauge(target: &Target, away: bool) {
    let name = || target.name.clone();
    metrics::gauge!("treeline_push_target_away", "target" => name()).set(f64::from(u8::from(away)));
    metrics::gauge!("treeline_push_under_way", "target" => name()).set(target.under_way() as f64);
}

/// Claims and posts what leads to one target, until nothing does or the server stops.
async fn serve(app: App, target: Arc<Target>) {
    let mut failures = 0_u32;
    while !app.shutdown.is_cancelled() && !target.types().is_empty() {
        match turn(&app, &target).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                if failures.is_power_of_two() {
                    tracing::warn!(duty = "push", target = target.name, %error, failures, "failed; will try again");
                }
                let pause = (Duration::from_millis(100) * (1 << failures.min(6))).min(PATIENCE);
                tokio::select! {
                    () = tokio::time::sleep(pause) => {}
                    () = app.shutdown.cancelled() => {}
                }
            }
        }
    }
}

/// One claim, and its posts on their way.
async fn turn(app: &App, target: &Arc<Target>) -> Result<()> {
    let most = match target.allowance(Instant::now()) {
        Allowance::Wait(until) => {
            tokio::select! {
                // Not longer than a type may take to lead elsewhere.
                () = tokio::time::sleep_until(until.min(Instant::now() + LOOK)) => {}
                () = app.shutdown.cancelled() => {}
            }
            return Ok(());
        }
        Allowance::Probe => 1,
        Allowance::Open => BATCH,
    };
    let permits = tokio::select! {
        permits = target.room(most) => permits,
        () = app.shutdown.cancelled() => return Ok(()),
    };
    let Some(mut permits) = permits else { return Ok(()) };
    let types = target.types();
    // Waiting for room takes as long as an answer: it may be the one that broke it.
    if types.is_empty() || matches!(target.allowance(Instant::now()), Allowance::Wait(_)) {
        return Ok(());
    }
    let claim = Claim {
        worker_id: format!("push:{:.190}", target.name),
        types: types.iter().map(|ready| ready.info.name.clone()).collect(),
        item_ids: None,
        max: Some(permits.num_permits() as u32),
        wait_seconds: Some(WAIT),
        claim_id: None,
    };
    // Never given up half way: what it has taken would wait for the end of its lease.
    let caller = Engine::push_caller();
    let claimed = app.engine.claim(&caller, claim).await?;
    let stops = app.shutdown.is_cancelled() || matches!(target.allowance(Instant::now()), Allowance::Wait(_));
    let mut posts = Vec::new();
    let mut current: HashMap<String, Option<Arc<Prepared>>> = HashMap::new();
    for assignment in claimed.assignments {
        let name = &assignment.item.job_type;
        if !current.contains_key(name) {
            current.insert(name.clone(), now(app, &types, name));
        }
        let ready = current.get(name).cloned().flatten();
        match ready.zip(permits.split(1)) {
            Some((ready, permit)) if !stops => {
                let work = post::work(app.clone(), Arc::clone(target), ready, assignment, permit);
                posts.push(app.tasks.spawn(work));
            }
            _ => post::give_back(app, assignment.id).await,
        }
    }
    drop(permits);
    if most == 1 {
        // A target that is tried again gets one post, and the next when that has been answered.
        futures::future::join_all(posts).await;
    }
    Ok(())
}

/// A type as it is now: it may have changed while its items were waited for. `None`: it is not posted any more.
fn now(app: &App, types: &[Arc<Prepared>], name: &str) -> Option<Arc<Prepared>> {
    let info = app.engine.types().get(name).filter(|info| info.executor.kind == ExecutorKind::Push)?;
    let known = types.iter().find(|ready| ready.is_of(&info)).cloned();
    known.or_else(|| Prepared::of(info, &app.outgoing.key).map(Arc::new))
}
