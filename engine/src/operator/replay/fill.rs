//! Copying the items of a replayed tree, step by step: a bounded part of one job at a time, the jobs in order.
//!
//! A step adds items and moves its cursor in one transaction, guarded by the cursor's previous position: nothing is
//! repeated after a crash, and if two servers fill one tree, one of them rolls back.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::fingerprint::fingerprint;
use uuid::Uuid;

use crate::{
    Core,
    enqueue::{
        add::AddedRows,
        item_intake::{Intake, JobItems},
        item_validation::PreparedItem,
    },
    error::{Error, Result},
    notify::error_groups,
    store::{
        dispatch::endings::ErrorText,
        operator::replays::{self, ReplayCopy, ReplayedItem, SourceItem},
        tree::job_states::{self, Delta},
    },
    tree::completion,
};

/// Number of items that one step reads, and approximate number of payload bytes that it copies.
const STEP: i64 = 2_000;
const STEP_BYTES: i64 = 8 << 20;

/// Number of steps taken during the request; the background task does the rest.
const AT_ONCE: usize = 4;

/// Takes the first steps. The background task continues after a failure.
pub(super) async fn first_steps(core: &Arc<Core>, root_id: Uuid, from: Uuid) {
    for _ in 0..AT_ONCE {
        match step(core, root_id, from).await {
            Ok(true) => {}
            Ok(false) => return,
            Err(error) => {
                tracing::debug!(%error, %root_id, "replay copy step failed");
                break;
            }
        }
    }
    core.replay_requested.notify_one();
}

/// Takes one step for a tree; returns true if there may be more.
pub(super) async fn step(core: &Arc<Core>, root_id: Uuid, from: Uuid) -> Result<bool> {
    let Some(copying) = replays::next(&core.pools.read, root_id).await? else {
        return end(core, root_id, from).await.map(|()| false);
    };
    let jobs = core.jobs.by_job_keys(&core.pools.read, [copying.job_key]).await?;
    let job = jobs.get(&copying.job_key).ok_or(Error::Conflict("a job was removed"))?;

    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let next_items = replays::next_items(&mut tx, copying.from_job_key, copying.seq, STEP).await?;
    let reached_end = (next_items.len() as i64) < STEP;
    let taken = within_bytes(&next_items);
    let to = if reached_end && taken.len() == next_items.len() { None } else { taken.last().map(|last| last.seq) };
    let mut ids: Vec<Uuid> =
        taken.iter().filter(|next_items| !next_items.fed).map(|next_items| next_items.id).collect();
    ids.sort_unstable();
    let items: Vec<PreparedItem> =
        replays::sources(&mut tx, &ids).await?.into_iter().map(|source| prepared(source, job.expires_at)).collect();
    let job_items = [JobItems { job, items: &items }];
    let mut intake = Intake::begin(core, &job_items).await?;
    intake.take_keys(&mut tx, &job_items).await?;
    intake.lock_serialize_queues(&mut tx, []).await?;
    intake.read_heads(&mut tx).await?;
    let mut job_keys = vec![job.job_key, job.fair_turn_job_key];
    job_keys.sort_unstable();
    job_keys.dedup();
    let locked: HashMap<i64, job_states::LockedJobState> = job_states::lock(&mut tx, &job_keys)
        .await?
        .into_iter()
        .map(|job_state| (job_state.job_key, job_state))
        .collect();
    let job_state = locked.get(&job.job_key).ok_or(Error::Conflict("a job was removed"))?;
    if job_state.cancelled {
        tx.rollback().await?;
        return stop_copying(core, &copying).await.map(|()| true);
    }
    intake.open(&mut tx, &locked).await?;
    let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
    intake.place(core, &mut tx, &job_items[0], job_state, &mut deltas).await?;
    if to.is_none() {
        deltas.entry(job.job_key).or_default().feeds -= 1;
    }
    intake.write(core, &mut tx, &mut deltas).await?;
    let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
    let after = job_states::apply(&mut tx, &deltas).await?;
    if after.len() != deltas.len() {
        return Err(Error::Conflict("a job was canceled"));
    }
    let dead = error_groups::count(core, &mut tx, &intake.dead()).await?;
    if !replays::advance(&mut tx, &copying, to).await? {
        return Ok(true);
    }
    let to_complete: Vec<(i64, Uuid)> =
        after.iter().filter(|a| a.needs_completion_check).map(|a| (a.job_key, a.root_id)).collect();
    job_states::request_completion_checks(&mut tx, &to_complete.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    crate::store::commit(tx).await?;
    AddedRows::of(&intake, vec![root_id], to_complete).with_dead(dead).after_commit(core).await;
    Ok(true)
}

/// Longest prefix within the byte limit, but at least one item.
fn within_bytes(next_items: &[ReplayedItem]) -> &[ReplayedItem] {
    let mut bytes = 0;
    let fit = next_items
        .iter()
        .take_while(|next_items| {
            bytes += i64::from(next_items.bytes);
            bytes <= STEP_BYTES
        })
        .count();
    &next_items[..fit.max(1).min(next_items.len())]
}

/// Item for the new tree: without run_after and steps, with its expiry.
pub(super) fn prepared(source: SourceItem, expires_at: Option<time::OffsetDateTime>) -> PreparedItem {
    PreparedItem {
        id: Uuid::now_v7(),
        dedupe_key: source.dedupe_key,
        serialize_key: source.serialize_key,
        fed_by: None,
        payload: source.payload,
        metadata: source.metadata,
        priority: source.priority,
        row: source.row,
        run_after: None,
        expires_at: [source.expires_at, expires_at].into_iter().flatten().min(),
        debounce: None,
        traceparent: None,
        // A row that was unreadable before is still unreadable.
        error: source.dead_message.map(|message| ErrorText {
            fingerprint: fingerprint(source.dead_kind.as_deref(), &message),
            message,
            kind: source.dead_kind,
            detail: source.dead_detail,
        }),
    }
}

/// Stops copying into a canceled job.
async fn stop_copying(core: &Core, copying: &ReplayCopy) -> Result<()> {
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    job_states::lock(&mut tx, &[copying.job_key]).await?;
    replays::advance(&mut tx, copying, None).await?;
    crate::store::commit(tx).await?;
    Ok(())
}

/// Releases both trees when all items are copied.
async fn end(core: &Core, root_id: Uuid, from: Uuid) -> Result<()> {
    let new = core.graphs.of(&core.pools.read, root_id).await?;
    let old = core.graphs.of(&core.pools.read, from).await?;
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    if !replays::end(&mut tx, root_id).await? {
        return Ok(());
    }
    completion::release_holds(core, &mut tx, &[&old, &new]).await?;
    crate::store::commit(tx).await?;
    core.live.touch(&[from, root_id]);
    Ok(())
}
