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
    error::{Error, Result},
    store::{
        endings::ErrorText,
        gates::{self, Delta},
        replaying::{self, Copying, Met, Source},
    },
};

use super::super::{
    Core,
    add::AddedRows,
    groups,
    intake::{Arrivals, Intake},
    prepare::Prepared,
    settle,
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
    core.replay_asked.notify_one();
}

/// Takes one step for a tree; returns true if there may be more.
pub(super) async fn step(core: &Arc<Core>, root_id: Uuid, from: Uuid) -> Result<bool> {
    let Some(copying) = replaying::next(&core.pools.read, root_id).await? else {
        return end(core, root_id, from).await.map(|()| false);
    };
    let jobs = core.jobs.by_gates(&core.pools.read, [copying.gate_id]).await?;
    let job = jobs.get(&copying.gate_id).ok_or(Error::Conflict("a job was removed"))?;

    let mut tx = core.pools.hot.begin().await?;
    let met = replaying::met(&mut tx, copying.from_gate_id, copying.seq, STEP).await?;
    let met_all = (met.len() as i64) < STEP;
    let taken = within_bytes(&met);
    let to = if met_all && taken.len() == met.len() { None } else { taken.last().map(|last| last.seq) };
    let mut ids: Vec<Uuid> = taken.iter().filter(|met| !met.fed).map(|met| met.id).collect();
    ids.sort_unstable();
    let items: Vec<Prepared> =
        replaying::sources(&mut tx, &ids).await?.into_iter().map(|source| prepared(source, job.expires_at)).collect();
    let arrivals = [Arrivals { job, items: &items }];
    let mut intake = Intake::begin(core, &arrivals).await?;
    intake.take_keys(&mut tx, &arrivals).await?;
    intake.lock_lanes(&mut tx, []).await?;
    intake.look(&mut tx).await?;
    let mut gate_ids = vec![job.gate_id, job.turn_gate_id];
    gate_ids.sort_unstable();
    gate_ids.dedup();
    let locked: HashMap<i64, gates::Locked> =
        gates::lock(&mut tx, &gate_ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
    let gate = locked.get(&job.gate_id).ok_or(Error::Conflict("a job was removed"))?;
    if gate.cancelled {
        tx.rollback().await?;
        return give_up(core, &copying).await.map(|()| true);
    }
    intake.open(&mut tx, &locked).await?;
    let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
    intake.place(core, &mut tx, &arrivals[0], gate, &mut deltas).await?;
    if to.is_none() {
        deltas.entry(job.gate_id).or_default().feeds -= 1;
    }
    intake.write(core, &mut tx, &mut deltas).await?;
    let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
    let after = gates::apply(&mut tx, &deltas).await?;
    if after.len() != deltas.len() {
        return Err(Error::Conflict("a job was cancelled"));
    }
    groups::count(core, &mut tx, &intake.dead()).await?;
    if !replaying::moved(&mut tx, &copying, to).await? {
        return Ok(true);
    }
    let settle: Vec<(i64, Uuid)> = after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect();
    gates::ask_to_settle(&mut tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    crate::store::commit(tx).await?;
    AddedRows::of(&intake, vec![root_id], settle).after_commit(core).await;
    Ok(true)
}

/// Longest prefix within the byte limit, but at least one item.
fn within_bytes(met: &[Met]) -> &[Met] {
    let mut bytes = 0;
    let fit = met
        .iter()
        .take_while(|met| {
            bytes += i64::from(met.bytes);
            bytes <= STEP_BYTES
        })
        .count();
    &met[..fit.max(1).min(met.len())]
}

/// Item for the new tree: without run_after and steps, with its expiry.
pub(super) fn prepared(source: Source, expires_at: Option<time::OffsetDateTime>) -> Prepared {
    Prepared {
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
async fn give_up(core: &Core, copying: &Copying) -> Result<()> {
    let mut tx = core.pools.hot.begin().await?;
    gates::lock(&mut tx, &[copying.gate_id]).await?;
    replaying::moved(&mut tx, copying, None).await?;
    crate::store::commit(tx).await?;
    Ok(())
}

/// Releases both trees when all items are copied.
async fn end(core: &Core, root_id: Uuid, from: Uuid) -> Result<()> {
    let new = core.plans.of(&core.pools.read, root_id).await?;
    let old = core.plans.of(&core.pools.read, from).await?;
    let mut tx = core.pools.hot.begin().await?;
    if !replaying::end(&mut tx, root_id).await? {
        return Ok(());
    }
    settle::release_holds(core, &mut tx, &[&old, &new]).await?;
    crate::store::commit(tx).await?;
    core.hub.touch(&[from, root_id]);
    Ok(())
}
