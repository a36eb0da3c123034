//! Replays of trees (`replay`): the same definition and the items that came from outside, with new ids.
//!
//! The jobs are created in one commit; their items follow in bounded steps, with `replay_copy` as cursor. Until the copy is
//! finished, both trees are held: the new one so that it completes only once, the old one so that it is not deleted
//! in the meantime. A replayed item becomes a tree of its own, in one commit.

mod fill; // copying of the items
mod one; // replay of one item

use std::{collections::HashMap, sync::Arc};

use domain::{Code, Problem};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::{
        Tx, audit as deeds, gates, idempotency,
        jobs::{self, JobKey},
        replaying::{self, Copied, CopiedGate},
        retention, settle as trees,
    },
    task::in_task,
};

use super::{Core, Engine, KeyedCall, audit, plan::Plan, settle};

/// Number of attempts if another request takes the key at the same moment.
const TRIES: usize = 5;

/// Tree to be replayed.
#[derive(Clone)]
struct Replay {
    root_id: Uuid,
    key: Option<KeyedCall>,
    deed: Option<deeds::AuditRow>,
    /// Requesting credential, and true if it may see all owners' work.
    asked: (Uuid, bool),
}

impl Engine {
    /// Replays a complete tree and returns the id of the new root. Returns 409 `not_root`, `job_not_complete`, or
    /// `duplicate` if another tree has taken over the dedupe key of one of its jobs.
    pub async fn replay_tree(
        &self,
        caller: &Caller,
        id: Uuid,
        reason: Option<&str>,
        key: Option<KeyedCall>,
    ) -> Result<Uuid> {
        caller.require(Scope::JobsWrite)?;
        let core = &self.0.core;
        for _ in 0..TRIES {
            if let Some(made) = core.tree_of(key.as_ref()).await? {
                return Ok(made);
            }
            let place = self.own_root(caller, id, "replayed").await?;
            let reason = audit::reason_for(caller, place.owner_id, reason)?;
            let deed = audit::row(caller, "job.replay", place.owner_id, reason.as_deref())
                .map(|row| row.about(place.root_id, id, None));
            let asked = (caller.credential_id, caller.sees_all());
            let replay = Replay { root_id: id, key: key.clone(), deed, asked };
            let made = core
                .retrying(move |core| {
                    let replay = replay.clone();
                    async move { again(&core, replay).await }
                })
                .await?;
            if let Some(made) = made {
                return Ok(made);
            }
        }
        Err(Error::Conflict("an Idempotency-Key changed hands each time"))
    }

    /// Takes one copying step for each tree that is being filled. Returns the number of trees.
    pub async fn sweep_replays(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        let run = async move {
            let open = replaying::open(&core.pools.read, 50).await?;
            for &(root_id, from) in &open {
                match fill::step(&core, root_id, from).await {
                    Ok(_) => {}
                    Err(error) if error.is_conflict() => {}
                    Err(error) => return Err(error),
                }
            }
            Ok(open.len())
        };
        in_task("replaying", run).await
    }

    /// Resolves when a tree is to be filled. A hint: the background task also polls.
    pub async fn replay_asked(&self) {
        self.0.core.replay_asked.notified().await;
    }
}

impl Core {
    /// Tree that an earlier identical call has created. Returns 410 if it was deleted.
    async fn tree_of(&self, key: Option<&KeyedCall>) -> Result<Option<Uuid>> {
        let Some(key) = key else { return Ok(None) };
        let Some(stored) = self.made_by(key).await? else { return Ok(None) };
        match stored.job_id {
            Some(id) if stored.removed => Err(Problem {
                id: Some(id),
                ..Problem::new(Code::JobRemoved, "The tree that this Idempotency-Key has made was removed.")
            }
            .into()),
            made => Ok(made),
        }
    }
}

/// Creates the tree and copies its first items. `None` if another request has just taken the key.
async fn again(core: &Arc<Core>, replay: Replay) -> Result<Option<Uuid>> {
    let plan = core.plans.of(&core.pools.read, replay.root_id).await?;
    let infos = core.jobs.by_gates(&core.pools.read, plan.gates()).await?;
    let mut tx = core.pools.hot.begin().await?;
    if let Some(key) = &replay.key
        && !core.take_call(&mut tx, key).await?
    {
        return Ok(None);
    }
    let ids: Vec<Uuid> = plan.jobs.iter().map(|_| Uuid::now_v7()).collect();
    move_keys(&mut tx, &plan, &ids).await?;

    // The source's job state rows are older and thus have lower ids than the new ones.
    let root = trees::lock(&mut tx, &[plan.root_gate()]).await?.pop();
    let root = root.filter(|root| !root.removed).ok_or_else(|| {
        Error::refuse(Code::JobRemoved, "The tree was removed: by somebody, or because its retention was over.")
    })?;
    if root.tree_completed_at.is_none() {
        return Err(Error::refuse(Code::JobNotComplete, "Only complete trees are made again."));
    }
    trees::hold(&mut tx, &[plan.root_gate()], 1).await?;

    let filled = replaying::with_items(&mut tx, &plan.gates()).await?;
    let gate_ids = gates::reserve(&mut tx, plan.jobs.len() as i64).await?;
    let new_gates: HashMap<i64, i64> =
        plan.jobs.iter().zip(&gate_ids).map(|(job, &gate_id)| (job.gate_id, gate_id)).collect();
    let solo = plan.jobs.len() == 1;
    let mut copies = Vec::with_capacity(plan.jobs.len());
    let mut new = Vec::with_capacity(plan.jobs.len());
    let mut copying = Vec::new();
    let mut empty = Vec::new();
    for (at, (job, &gate_id)) in plan.jobs.iter().zip(&gate_ids).enumerate() {
        let info = infos.get(&job.gate_id).ok_or(Error::Conflict("a job was removed"))?;
        let turn_gate_id = new_gates.get(&info.turn_gate_id).copied().unwrap_or(gate_id);
        let parent_id = job.parent.map(|parent| ids[parent]);
        copies.push(Copied {
            from_gate_id: job.gate_id,
            id: ids[at],
            gate_id,
            ord: at as i32,
            parent_id,
            turn_gate_id,
        });
        let has_items = filled.contains(&job.gate_id);
        if has_items {
            copying.push((gate_id, job.gate_id));
        } else if !solo && !info.fed {
            empty.push((gate_id, ids[0]));
        }
        new.push(CopiedGate {
            gate_id,
            solo,
            // Fed jobs are sealed by the engine; the others get their old items and no more.
            sealed: !info.fed,
            open_feeds: i32::from(has_items),
            open_jobs: if at == 0 { plan.jobs.len() as i32 } else { 0 },
            after_open: job.after.len() as i32,
            holds: i32::from(at == 0),
        });
    }
    let copied = replaying::copy_jobs(&mut tx, ids[0], plan.root_id, &copies, false, replay.asked).await?;
    if copied != copies.len() as u64 {
        return Err(Error::Conflict("a job was removed"));
    }
    replaying::insert_gates(&mut tx, ids[0], &new).await?;
    replaying::copy_deadlines(&mut tx, ids[0]).await?;
    replaying::begin(&mut tx, ids[0], plan.root_id, &copying).await?;
    gates::ask_to_settle(&mut tx, &empty.iter().map(|job| job.0).collect::<Vec<_>>()).await?;
    write_down(&mut tx, replay.key.as_ref(), replay.deed, ids[0]).await?;
    crate::store::commit(tx).await?;

    settle::settle_all(core, &empty).await;
    fill::first_steps(core, ids[0], plan.root_id).await;
    core.hub.touch(&[plan.root_id, ids[0]]);
    Ok(Some(ids[0]))
}

/// Writes the key's answer and the audit log entry in the transaction of the tree.
async fn write_down(tx: &mut Tx, key: Option<&KeyedCall>, deed: Option<deeds::AuditRow>, root_id: Uuid) -> Result<()> {
    if let Some(key) = key {
        replaying::name_tree(tx, &key.name, root_id).await?;
    }
    if let Some(deed) = deed {
        deeds::record(tx, &deeds::AuditRow { detail: Some(format!("as the tree {root_id}")), ..deed }).await?;
    }
    Ok(())
}

/// Moves the dedupe keys of the tree's jobs to their copies. Returns 409 if another tree has one of them.
async fn move_keys(tx: &mut Tx, plan: &Plan, ids: &[Uuid]) -> Result<()> {
    let held = replaying::job_keys(tx, plan.root_id).await?;
    if held.is_empty() {
        return Ok(());
    }
    retention::lock_keys(tx, &[plan.root_id]).await?;
    idempotency::free_job_keys(tx, plan.root_id).await?;
    let wanted: Vec<(JobKey, Uuid)> =
        held.into_iter().filter_map(|(gate_id, key)| Some((key, ids[plan.place(gate_id)?]))).collect();
    let taken = jobs::take_keys(tx, &wanted).await?;
    let Some((key, _)) = wanted.iter().find(|(_, id)| !taken.contains(id)) else { return Ok(()) };
    let holder = replaying::key_holder(tx, key).await?;
    let detail = format!("Another tree has taken over the dedupe key {:?}: that is the one to be made again.", key.key);
    Err(Problem { id: holder, ..Problem::new(Code::Duplicate, detail) }.into())
}
