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

use domain::{Time, hold::Hold, job_type::ExecutorKind};
use time::OffsetDateTime;
use tokio::time::Instant;

use crate::App;

use post::Prepared;
use target::Target;

/// Poll interval of the types: a change takes effect within this time plus that of their cache.
const LOOK: Duration = Duration::from_millis(200);

/// Runs until shutdown: polls the types; the task of a target ends with its last type.
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
            // The task ends by itself when no type leads to the target.
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
                app.tasks.spawn(serve::run(app.clone(), Arc::clone(&target)));
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

/// Publishes which targets are paused, for the explanation of waiting items.
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
