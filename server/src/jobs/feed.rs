//! Feeds: succeeded items of a parent become items of its fed children, in the same transaction (`feeding`). Items
//! beyond a thousand per source follow later, from a record written in that transaction.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use domain::{
    Document, Problem,
    feed::{Feed, FeedFault, Source},
    fingerprint::fingerprint,
};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        Tx,
        contracts::JobInfo,
        endings::ErrorText,
        feeds::{self, Rest},
        gates, leases,
    },
    task::in_task,
};

use super::{
    Core, Engine,
    add::AddedRows,
    ending::{EndCommand, EndingKind, Success},
    groups,
    intake::{Arrivals, Intake},
    prepare::Prepared,
};

/// Maximum number of items that one source makes within its own transaction.
const AT_ONCE: usize = 1_000;

/// Items for one fed job.
pub(super) struct Fed {
    pub(super) job: Arc<JobInfo>,
    pub(super) items: Vec<Prepared>,
    /// Sources with more items to follow, and the index of their next item.
    pub(super) rest: Vec<(Uuid, i32)>,
}

/// Items fed by the successes of a batch, by job.
pub(super) async fn fed_by(
    core: &Core,
    tx: &mut Tx,
    successes: &[Success],
    commands: &[&EndCommand],
) -> Result<Vec<Fed>> {
    let jobs = core.jobs.by_gates(&mut **tx, successes.iter().map(|s| s.gate_id)).await?;
    let mut feeding: Vec<(&Success, Arc<JobInfo>)> = Vec::new();
    let mut targets: HashMap<i64, Vec<(i64, Arc<Feed>)>> = HashMap::new();
    for success in successes {
        let Some(job) = jobs.get(&success.gate_id).filter(|job| !job.solo) else { continue };
        if let Entry::Vacant(entry) = targets.entry(job.gate_id) {
            let plan = core.plans.of(&mut **tx, job.root_id).await?;
            let limit = core.payload_limit;
            let children = plan.place(job.gate_id).map_or_else(Vec::new, |at| {
                let feed = |n: usize| {
                    plan.jobs[n]
                        .feed
                        .as_ref()
                        .map(|feed| (plan.jobs[n].gate_id, Arc::new(Feed::clone(feed).with_limit(limit))))
                };
                plan.fed_by(at).filter_map(feed).collect()
            });
            entry.insert(children);
        }
        if !targets[&job.gate_id].is_empty() {
            feeding.push((success, Arc::clone(job)));
        }
    }
    if feeding.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = feeding.iter().map(|(success, _)| success.item_id).collect();
    let payloads: HashMap<Uuid, Document> =
        leases::payloads(tx, &ids).await?.into_iter().map(|(id, text)| (id, Document::trusted(text))).collect();
    let children = core.jobs.by_gates(&mut **tx, targets.values().flatten().map(|(gate, _)| *gate)).await?;
    let mut fed: HashMap<i64, Fed> = HashMap::new();
    for (success, job) in feeding {
        let EndingKind::Result(result) = &commands[success.command].kind else { continue };
        let Some(payload) = payloads.get(&success.item_id) else { continue };
        let source = Source { payload, result, item_id: success.item_id, job_id: job.job_id };
        for (gate_id, feed) in &targets[&job.gate_id] {
            let Some(child) = children.get(gate_id) else { continue };
            let fed = fed.entry(*gate_id).or_insert_with(|| Fed {
                job: Arc::clone(child),
                items: Vec::new(),
                rest: Vec::new(),
            });
            fed.items.extend(core.make(child, feed, &source, 0..AT_ONCE));
            if feed.count(&source).is_ok_and(|n| n > AT_ONCE) {
                fed.rest.push((success.item_id, AT_ONCE as i32));
            }
        }
    }
    let mut fed: Vec<Fed> = fed.into_values().collect();
    fed.sort_by_key(|fed| fed.job.gate_id);
    Ok(fed)
}

impl Core {
    /// Items in `range` that a source makes for a fed job. An item that cannot be made becomes a dead item with the
    /// reason, so nothing is lost silently.
    fn make(&self, child: &JobInfo, feed: &Feed, source: &Source<'_>, range: std::ops::Range<usize>) -> Vec<Prepared> {
        let made = feed.items(source, range);
        let all: Option<Vec<_>> = made.iter().map(|item| item.as_ref().ok().cloned()).collect();
        let prepared = all.and_then(|items| self.prepare(child, items, "").ok());
        // One by one only after a fault: otherwise the schema is compiled once for all.
        let mut items = prepared.unwrap_or_else(|| {
            made.into_iter()
                .map(|item| {
                    let item = match item {
                        Ok(item) => item,
                        Err(fault) => return dead(child, &Document::null(), &fault),
                    };
                    let payload = item.payload.clone().unwrap_or_else(Document::null);
                    match self.prepare(child, vec![item], "") {
                        Ok(mut one) if one.len() == 1 => one.remove(0),
                        Ok(_) => dead(child, &payload, &FeedFault { message: "The feed made no item.".to_owned() }),
                        Err(problem) => {
                            // A payload over the limit is not stored: it remains in the parent's result.
                            let kept = payload.text().len() <= self.payload_limit;
                            dead(child, &if kept { payload } else { Document::null() }, &sentence(&problem))
                        }
                    }
                })
                .collect()
        });
        for item in &mut items {
            item.fed_by = Some(source.item_id);
        }
        items
    }
}

/// Summary of a body problem in one sentence.
fn sentence(problem: &Problem) -> FeedFault {
    let faults: Vec<String> = problem
        .errors
        .iter()
        .map(|fault| format!("{}: {}", fault.pointer.trim_start_matches("/0"), fault.detail))
        .collect();
    let message = if faults.is_empty() { problem.detail.clone() } else { faults.join("; ") };
    FeedFault { message }
}

fn dead(child: &JobInfo, payload: &Document, fault: &FeedFault) -> Prepared {
    const KIND: &str = "feed_invalid";
    Prepared {
        id: Uuid::now_v7(),
        dedupe_key: None,
        serialize_key: None,
        fed_by: None,
        payload: payload.text().to_owned(),
        metadata: None,
        priority: child.priority,
        row: None,
        run_after: None,
        expires_at: child.expires_at,
        error: Some(ErrorText {
            fingerprint: fingerprint(Some(KIND), &fault.message),
            message: fault.message.clone(),
            kind: Some(KIND.to_owned()),
            detail: None,
        }),
    }
}

impl Engine {
    /// Makes more of the items that feeds still owe. Returns their number.
    pub async fn sweep_feeds(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        let run = async move {
            let mut n = 0;
            for rest in feeds::open(&core.pools.read, 20).await? {
                n += carry_on(&core, rest).await?;
            }
            Ok(n)
        };
        in_task("feeding", run).await
    }
}

/// Makes the next thousand items that one source owes one job, in one transaction.
async fn carry_on(core: &Arc<Core>, rest: Rest) -> Result<usize> {
    let jobs = core.jobs.by_gates(&core.pools.read, [rest.gate_id]).await?;
    let Some(child) = jobs.get(&rest.gate_id) else { return Ok(0) };
    let plan = core.plans.of(&core.pools.read, child.root_id).await?;
    let Some(job) = plan.place(rest.gate_id).map(|at| &plan.jobs[at]) else { return Ok(0) };
    let (Some(feed), Some(parent)) = (&job.feed, job.parent) else { return Ok(0) };
    let Some((payload, result)) = feeds::source(&core.pools.read, rest.item_id).await? else { return Ok(0) };
    let (payload, result) = (Document::trusted(payload), Document::trusted(result));
    let source = Source { payload: &payload, result: &result, item_id: rest.item_id, job_id: plan.jobs[parent].job_id };
    let from = usize::try_from(rest.next).unwrap_or(0);
    let items = core.make(child, feed, &source, from..from + AT_ONCE);
    let n = items.len();
    let last = feed.count(&source).map_or(true, |count| from + n >= count);

    let mut tx = core.pools.hot.begin().await?;
    let arrivals = [Arrivals { job: child, items: &items }];
    let mut intake = Intake::begin(core, &arrivals).await?;
    intake.take_keys(&mut tx, &arrivals).await?;
    intake.lock_lanes(&mut tx, []).await?;
    intake.look(&mut tx).await?;
    let mut ids = vec![child.gate_id, child.turn_gate_id];
    ids.sort_unstable();
    ids.dedup();
    let locked: HashMap<i64, gates::Locked> =
        gates::lock(&mut tx, &ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
    let Some(gate) = locked.get(&child.gate_id).filter(|gate| !gate.cancelled && !gate.removed) else { return Ok(0) };
    intake.open(&mut tx, &locked).await?;
    let mut deltas = std::collections::BTreeMap::new();
    intake.place(core, &mut tx, &arrivals[0], gate, &mut deltas).await?;
    if last {
        deltas.entry(child.gate_id).or_default().feeds -= 1;
    }
    intake.write(core, &mut tx, &mut deltas).await?;
    let after = gates::apply(&mut tx, &deltas.into_iter().collect::<Vec<_>>()).await?;
    groups::count(core, &mut tx, &intake.dead()).await?;
    // Under the lock of the job state row: an earlier cancellation has deleted the record.
    if !feeds::moved(&mut tx, rest, (!last).then_some(rest.next + n as i32)).await? {
        return Ok(0);
    }
    let settle: Vec<(i64, Uuid)> = after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect();
    gates::ask_to_settle(&mut tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    crate::store::commit(tx).await?;
    AddedRows::of(&intake, vec![child.root_id], settle).after_commit(core).await;
    Ok(n)
}
