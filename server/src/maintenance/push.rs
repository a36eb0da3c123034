//! Push delivery: posts items to the workers of push types.
//!
//! Every target (host and port) has its own task (`serve`), which claims items of its types, has them posted, and
//! passes the responses to the engine like any worker. When the lease of an item that a crashed server had posted
//! expires, `retry-budget` decides whether it is offered again or has an unknown outcome.

mod answer; // outcome of a response
mod post; // delivery of one item
mod serve; // one target, from claims to endings
mod target; // address and circuit breaker of a target

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use domain::{Time, dispatch::waiting_reason::WaitingReason, job_type::ExecutorKind};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::App;

use post::Prepared;
use target::Target;

/// Poll interval of the types: a change takes effect within this time plus that of their cache.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Time within which a waiting item probes a target after its pause.
const PROBE_WITHIN: Duration = Duration::from_secs(5);

/// Runs until shutdown: polls the types; the task of a target ends with its last type.
pub(super) async fn run(app: App) {
    let mut prepared: HashMap<i32, Arc<Prepared>> = HashMap::new();
    let mut targets: HashMap<String, Arc<Target>> = HashMap::new();
    while !app.shutdown.is_cancelled() {
        let mut by_target: BTreeMap<String, Vec<Arc<Prepared>>> = BTreeMap::new();
        let mut current = HashMap::new();
        for info in app.engine.types().all() {
            if info.executor.kind != ExecutorKind::Push {
                continue;
            }
            let before = prepared.remove(&info.id).filter(|before| before.is_of(&info));
            let Some(ready) = before.or_else(|| Prepared::of(info, &app.outgoing.key).map(Arc::new)) else { continue };
            by_target.entry(ready.target.clone()).or_default().push(Arc::clone(&ready));
            current.insert(ready.info.id, ready);
        }
        prepared = current;
        targets.retain(|name, target| {
            // The task ends by itself when no type leads to the target.
            target.set_types(by_target.get(name).cloned().unwrap_or_default());
            let is_used = by_target.contains_key(name);
            if !is_used {
                gauge(target, false);
            }
            is_used
        });
        for (name, types) in by_target {
            targets.entry(name.clone()).or_insert_with(|| {
                let target = Arc::new(Target::new(name, &app.config.outbound));
                target.set_types(types);
                app.tasks.spawn(serve::run(app.clone(), Arc::clone(&target)));
                target
            });
        }
        publish_pauses(&app, targets.values());
        tokio::select! {
            () = tokio::time::sleep(POLL_INTERVAL) => {}
            () = app.shutdown.cancelled() => {}
        }
    }
}

/// Publishes which targets are paused, for the explanation of waiting items.
fn publish_pauses<'a>(app: &App, targets: impl Iterator<Item = &'a Arc<Target>>) {
    let (now, clock) = (Instant::now(), OffsetDateTime::now_utc());
    let mut holds = HashMap::new();
    for target in targets {
        let until = target.paused_until();
        // After the pause, the next item probes the target: if nothing does, nothing waits.
        let is_away = until.is_some_and(|until| now < until + PROBE_WITHIN || target.in_flight() > 0);
        gauge(target, is_away);
        let Some(until) = until else { continue };
        let until = Time(clock + until.saturating_duration_since(now));
        for ready in target.types().iter() {
            holds.insert(ready.info.id, WaitingReason::TargetUnavailable { target: target.name.clone(), until });
        }
    }
    app.engine.set_unreachable_targets(holds);
}

fn gauge(target: &Target, is_paused: bool) {
    let name = || target.name.clone();
    metrics::gauge!("treeline_push_target_away", "target" => name()).set(f64::from(u8::from(is_paused)));
    metrics::gauge!("treeline_push_under_way", "target" => name()).set(target.in_flight() as f64);
}
