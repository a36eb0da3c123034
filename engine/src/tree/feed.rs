//! Feeds: succeeded items of a parent become items of its fed children, in the same transaction (`feeding`). Items
//! beyond a thousand per source or 8 MiB per batch follow later, from a record written in that transaction.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::Arc,
};

use domain::{
    Document, Problem,
    fingerprint::fingerprint,
    tree::feed::{Feed, FeedFault, Source, bytes_of},
};
use uuid::Uuid;

use crate::{
    Core, Engine,
    ending_batch::{EndCommand, EndingKind, Success},
    enqueue::{
        add::AddedRows,
        item_intake::{Intake, JobItems},
        item_validation::PreparedItem,
    },
    error::Result,
    notify::error_groups,
    store::{
        Tx,
        dispatch::{endings::ErrorText, leases},
        tree::{
            definitions::JobInfo,
            feeds::{self, FeedRemainder},
            job_states,
        },
    },
    task::in_task,
};

/// Maximum number of items that one source makes within its own transaction.
const AT_ONCE: usize = 1_000;

/// Approximate number of bytes of the items that one transaction makes: a small result may make a thousand large ones.
const BYTES_AT_ONCE: usize = 8 << 20;

/// Number of remainders that are continued in turn.
const REMAINDERS: usize = 20;

/// Items for one fed job.
pub(crate) struct Fed {
    pub(crate) job: Arc<JobInfo>,
    pub(crate) items: Vec<PreparedItem>,
    /// Sources with more items to follow, and the index of their next item.
    pub(crate) rest: Vec<(Uuid, i32)>,
}

/// Items fed by the successes of a batch, by job.
pub(crate) async fn fed_by(
    core: &Core,
    tx: &mut Tx,
    successes: &[Success],
    commands: &[&EndCommand],
) -> Result<Vec<Fed>> {
    let jobs = core.jobs.by_job_keys(&mut **tx, successes.iter().map(|s| s.job_key)).await?;
    let mut feeding: Vec<(&Success, Arc<JobInfo>)> = Vec::new();
    let mut targets: HashMap<i64, Vec<(i64, Arc<Feed>)>> = HashMap::new();
    for success in successes {
        let Some(job) = jobs.get(&success.job_key).filter(|job| !job.solo) else { continue };
        if let Entry::Vacant(entry) = targets.entry(job.job_key) {
            let graph = core.graphs.of(&mut **tx, job.root_id).await?;
            let limit = core.payload_limit;
            let children = graph.position(job.job_key).map_or_else(Vec::new, |at| {
                let feed = |n: usize| {
                    graph.jobs[n]
                        .feed
                        .as_ref()
                        .map(|feed| (graph.jobs[n].job_key, Arc::new(Feed::clone(feed).with_limit(limit))))
                };
                graph.fed_by(at).filter_map(feed).collect()
            });
            entry.insert(children);
        }
        if !targets[&job.job_key].is_empty() {
            feeding.push((success, Arc::clone(job)));
        }
    }
    if feeding.is_empty() {
        return Ok(Vec::new());
    }
    let ids: Vec<Uuid> = feeding.iter().map(|(success, _)| success.item_id).collect();
    let payloads: HashMap<Uuid, Document> =
        leases::payloads(tx, &ids).await?.into_iter().map(|(id, text)| (id, Document::trusted(text))).collect();
    let children =
        core.jobs.by_job_keys(&mut **tx, targets.values().flatten().map(|(job_state, _)| *job_state)).await?;
    let mut fed: HashMap<i64, Fed> = HashMap::new();
    let mut bytes = BYTES_AT_ONCE;
    for (success, job) in feeding {
        let EndingKind::Result(result) = &commands[success.command].kind else { continue };
        let Some(payload) = payloads.get(&success.item_id) else { continue };
        let source = Source { payload, result, item_id: success.item_id, job_id: job.job_id };
        for (job_key, feed) in &targets[&job.job_key] {
            let Some(child) = children.get(job_key) else { continue };
            let fed = fed.entry(*job_key).or_insert_with(|| Fed {
                job: Arc::clone(child),
                items: Vec::new(),
                rest: Vec::new(),
            });
            let (items, next) = core.make_items(child, feed, &source, 0, bytes);
            bytes = bytes.saturating_sub(items.iter().map(|item| bytes_of(&item.payload)).sum());
            fed.items.extend(items);
            fed.rest.extend(next.map(|next| (success.item_id, next)));
        }
    }
    let mut fed: Vec<Fed> = fed.into_values().collect();
    fed.sort_by_key(|fed| fed.job.job_key);
    Ok(fed)
}

impl Core {
    /// The next items that a source makes for a fed job, within the limits, and the index of the first one that it still
    /// owes. An item that cannot be made becomes a dead item with the reason, so nothing is lost silently.
    fn make_items(
        &self,
        child: &JobInfo,
        feed: &Feed,
        source: &Source<'_>,
        from: usize,
        bytes: usize,
    ) -> (Vec<PreparedItem>, Option<i32>) {
        let (made, next) = feed.items(source, from..from + AT_ONCE, bytes);
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
                            let is_stored = payload.text().len() <= self.payload_limit;
                            dead(child, &if is_stored { payload } else { Document::null() }, &sentence(&problem))
                        }
                    }
                })
                .collect()
        });
        for item in &mut items {
            item.fed_by = Some(source.item_id);
        }
        // A result has fewer elements than bytes.
        (items, next.and_then(|next| i32::try_from(next).ok()))
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

fn dead(child: &JobInfo, payload: &Document, fault: &FeedFault) -> PreparedItem {
    const KIND: &str = "feed_invalid";
    PreparedItem {
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
        debounce: None,
        traceparent: None,
        error: Some(ErrorText {
            fingerprint: fingerprint(Some(KIND), &fault.message),
            message: fault.message.clone(),
            kind: Some(KIND.to_owned()),
            detail: None,
        }),
    }
}

impl Engine {
    /// Makes more of the items that feeds still owe. Returns their number, or a large one if more may be owed.
    pub async fn sweep_feeds(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        let run = async move {
            let open = feeds::open(&core.pools.read, REMAINDERS as i64).await?;
            let (mut n, mut has_more) = (0, open.len() == REMAINDERS);
            for rest in open {
                let (made, next) = continue_feed(&core, rest).await?;
                n += made;
                has_more |= next.is_some();
            }
            Ok(if has_more && n > 0 { n.max(AT_ONCE) } else { n })
        };
        in_task("feeding", run).await
    }
}

/// Makes the next items that one source owes one job, in one transaction. Returns their number, and the index of the next
/// one.
async fn continue_feed(core: &Arc<Core>, rest: FeedRemainder) -> Result<(usize, Option<i32>)> {
    let nothing = (0, None);
    let jobs = core.jobs.by_job_keys(&core.pools.read, [rest.job_key]).await?;
    let Some(child) = jobs.get(&rest.job_key) else { return Ok(nothing) };
    let graph = core.graphs.of(&core.pools.read, child.root_id).await?;
    let Some(job) = graph.position(rest.job_key).map(|at| &graph.jobs[at]) else { return Ok(nothing) };
    let (Some(feed), Some(parent)) = (&job.feed, job.parent) else { return Ok(nothing) };
    let Some((payload, result)) = feeds::source(&core.pools.read, rest.item_id).await? else { return Ok(nothing) };
    let (payload, result) = (Document::trusted(payload), Document::trusted(result));
    let source =
        Source { payload: &payload, result: &result, item_id: rest.item_id, job_id: graph.jobs[parent].job_id };
    let from = usize::try_from(rest.next).unwrap_or(0);
    let (items, next) = core.make_items(child, feed, &source, from, BYTES_AT_ONCE);

    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let job_items = [JobItems { job: child, items: &items }];
    let mut intake = Intake::begin(core, &job_items).await?;
    intake.take_keys(&mut tx, &job_items).await?;
    intake.lock_serialize_queues(&mut tx, []).await?;
    intake.read_heads(&mut tx).await?;
    let mut ids = vec![child.job_key, child.fair_turn_job_key];
    ids.sort_unstable();
    ids.dedup();
    let locked: HashMap<i64, job_states::LockedJobState> =
        job_states::lock(&mut tx, &ids).await?.into_iter().map(|job_state| (job_state.job_key, job_state)).collect();
    let Some(job_state) = locked.get(&child.job_key).filter(|job_state| !job_state.cancelled && !job_state.deleted)
    else {
        return Ok(nothing);
    };
    intake.open(&mut tx, &locked).await?;
    let mut deltas = std::collections::BTreeMap::new();
    intake.place(core, &mut tx, &job_items[0], job_state, &mut deltas).await?;
    if next.is_none() {
        deltas.entry(child.job_key).or_default().feeds -= 1;
    }
    intake.write(core, &mut tx, &mut deltas).await?;
    let after = job_states::apply(&mut tx, &deltas.into_iter().collect::<Vec<_>>()).await?;
    let dead = error_groups::count(core, &mut tx, &intake.dead()).await?;
    // Under the lock of the job state row: an earlier cancellation has deleted the record.
    if !feeds::advance(&mut tx, rest, next).await? {
        return Ok(nothing);
    }
    let to_complete: Vec<(i64, Uuid)> =
        after.iter().filter(|a| a.needs_completion_check).map(|a| (a.job_key, a.root_id)).collect();
    job_states::request_completion_checks(&mut tx, &to_complete.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    crate::store::commit(tx).await?;
    AddedRows::of(&intake, vec![child.root_id], to_complete).with_dead(dead).after_commit(core).await;
    Ok((items.len(), next))
}
