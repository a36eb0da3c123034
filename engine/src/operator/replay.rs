//! Replays of trees (`replay`): the same definition and the items that came from outside, with new ids.
//!
//! The jobs are created in one commit; their items follow in bounded steps, with `replay_copy` as cursor. Until the copy is
//! finished, both trees are held: the new one so that it completes only once, the old one so that it is not deleted
//! in the meantime. A replayed item becomes a tree of its own, in one commit.

mod fill; // copying of the items
mod item_replay; // replay of one item

use std::{collections::HashMap, sync::Arc};

use domain::{Code, Problem};
use uuid::Uuid;

use crate::{
    Core, Engine, KeyedCall,
    access::caller::{Caller, Scope},
    error::{Error, Result},
    notify::audit,
    store::{
        Tx,
        access::quotas::Usage,
        enqueue::idempotency,
        notify::audit as audit_log,
        operator::replays::{self, JobCopy, JobStateCopy},
        retention::deletion,
        tree::{
            completion as tree_states, job_states,
            jobs::{self, JobDedupeKey},
        },
    },
    task::in_task,
    tree::dependency_graph::DependencyGraph,
};

/// Number of attempts if another request takes the key at the same moment.
const TRIES: usize = 5;

/// Tree to be replayed.
#[derive(Clone)]
struct Replay {
    root_id: Uuid,
    key: Option<KeyedCall>,
    audit_row: Option<audit_log::AuditRow>,
    /// Requesting credential, and true if it may see all owners' work.
    requester: (Uuid, bool),
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
            let location = self.visible_root(caller, id, "replayed").await?;
            let reason = audit::reason_for(caller, location.owner_id, reason)?;
            let audit_row = audit::row(caller, "job.replay", location.owner_id, reason.as_deref())
                .map(|row| row.about(location.root_id, id, None));
            let requester = (caller.credential_id, caller.sees_all());
            let _taken = core.quotas.take(location.owner_id, Usage { trees: 1, items: 1, bytes: 0 }).await?;
            let replay = Replay { root_id: id, key: key.clone(), audit_row, requester };
            let made = core
                .in_task_with_retries("replaying a tree", move |core| {
                    let replay = replay.clone();
                    async move { create_replay(&core, replay).await }
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
            let open = replays::open(&core.pools.read, 50).await?;
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
    pub async fn replay_requested(&self) {
        self.0.core.replay_requested.notified().await;
    }
}

impl Core {
    /// Tree that an earlier identical call has created. Returns 410 if it was deleted.
    async fn tree_of(&self, key: Option<&KeyedCall>) -> Result<Option<Uuid>> {
        let Some(key) = key else { return Ok(None) };
        let Some(stored) = self.stored_call(key).await? else { return Ok(None) };
        match stored.job_id {
            Some(id) if stored.deleted => Err(Problem {
                id: Some(id),
                ..Problem::new(Code::JobRemoved, "The tree that this Idempotency-Key has made was removed.")
            }
            .into()),
            made => Ok(made),
        }
    }
}

/// Creates the tree and copies its first items. `None` if another request has just taken the key.
async fn create_replay(core: &Arc<Core>, replay: Replay) -> Result<Option<Uuid>> {
    let graph = core.graphs.of(&core.pools.read, replay.root_id).await?;
    let infos = core.jobs.by_job_keys(&core.pools.read, graph.job_keys()).await?;
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    if let Some(key) = &replay.key
        && !core.take_call(&mut tx, key).await?
    {
        return Ok(None);
    }
    let ids: Vec<Uuid> = graph.jobs.iter().map(|_| Uuid::now_v7()).collect();
    move_keys(&mut tx, &graph, &ids).await?;

    // The source's job state rows are older and thus have lower ids than the new ones.
    let root = tree_states::lock(&mut tx, &[graph.root_job_key()]).await?.pop();
    let root = root.filter(|root| !root.deleted).ok_or_else(|| {
        Error::refuse(Code::JobRemoved, "The tree was removed: by somebody, or because its retention was over.")
    })?;
    if root.tree_completed_at.is_none() {
        return Err(Error::refuse(Code::JobNotComplete, "Only completed jobs can be run again."));
    }
    tree_states::hold(&mut tx, &[graph.root_job_key()], 1).await?;

    let filled = replays::with_items(&mut tx, &graph.job_keys()).await?;
    let partly_imported = replays::partly_imported(&mut tx, &graph.job_keys()).await?;
    let job_keys = job_states::reserve(&mut tx, graph.jobs.len() as i64).await?;
    let new_job_states: HashMap<i64, i64> =
        graph.jobs.iter().zip(&job_keys).map(|(job, &job_key)| (job.job_key, job_key)).collect();
    let solo = graph.jobs.len() == 1;
    let mut copies = Vec::with_capacity(graph.jobs.len());
    let mut new = Vec::with_capacity(graph.jobs.len());
    let mut copying = Vec::new();
    let mut empty = Vec::new();
    for (at, (job, &job_key)) in graph.jobs.iter().zip(&job_keys).enumerate() {
        let info = infos.get(&job.job_key).ok_or(Error::Conflict("a job was removed"))?;
        let fair_turn_job_key = new_job_states.get(&info.fair_turn_job_key).copied().unwrap_or(job_key);
        let parent_id = job.parent.map(|parent| ids[parent]);
        copies.push(JobCopy {
            from_job_key: job.job_key,
            id: ids[at],
            job_key,
            ord: at as i32,
            parent_id,
            fair_turn_job_key,
        });
        let has_items = filled.contains(&job.job_key);
        let is_open = info.fed || partly_imported.contains(&job.job_key);
        if has_items {
            copying.push((job_key, job.job_key));
        } else if !solo && !is_open {
            empty.push((job_key, ids[0]));
        }
        new.push(JobStateCopy {
            job_key,
            solo,
            // Fed jobs, and those whose file is read on, are sealed by the engine; the others get their old items and no more.
            sealed: !is_open,
            open_feeds: i32::from(has_items),
            open_jobs: if at == 0 { graph.jobs.len() as i32 } else { 0 },
            after_open: job.after.len() as i32,
            holds: i32::from(at == 0),
        });
    }
    let copied = replays::copy_jobs(&mut tx, ids[0], graph.root_id, &copies, false, replay.requester).await?;
    if copied != copies.len() as u64 {
        return Err(Error::Conflict("a job was removed"));
    }
    replays::insert_job_states(&mut tx, ids[0], &new).await?;
    replays::copy_import_cursors(&mut tx, &copies).await?;
    replays::copy_deadlines(&mut tx, ids[0]).await?;
    replays::begin(&mut tx, ids[0], graph.root_id, &copying).await?;
    job_states::request_completion_checks(&mut tx, &empty.iter().map(|job| job.0).collect::<Vec<_>>()).await?;
    write_down(&mut tx, replay.key.as_ref(), replay.audit_row, ids[0]).await?;
    crate::store::commit(tx).await?;

    core.complete_jobs(&empty).await;
    fill::first_steps(core, ids[0], graph.root_id).await;
    core.live.touch(&[graph.root_id, ids[0]]);
    Ok(Some(ids[0]))
}

/// Writes the key's answer and the audit log entry in the transaction of the tree.
async fn write_down(
    tx: &mut Tx,
    key: Option<&KeyedCall>,
    audit_row: Option<audit_log::AuditRow>,
    root_id: Uuid,
) -> Result<()> {
    if let Some(key) = key {
        replays::set_key_tree(tx, &key.name, root_id).await?;
    }
    if let Some(audit_row) = audit_row {
        audit_log::record(tx, &audit_log::AuditRow { detail: Some(format!("as the tree {root_id}")), ..audit_row })
            .await?;
    }
    Ok(())
}

/// Moves the dedupe keys of the tree's jobs to their copies. Returns 409 if another tree has one of them.
async fn move_keys(tx: &mut Tx, graph: &DependencyGraph, ids: &[Uuid]) -> Result<()> {
    let old_keys = replays::dedupe_keys(tx, graph.root_id).await?;
    if old_keys.is_empty() {
        return Ok(());
    }
    deletion::lock_keys(tx, &[graph.root_id]).await?;
    idempotency::free_job_keys(tx, graph.root_id).await?;
    let wanted: Vec<(JobDedupeKey, Uuid)> =
        old_keys.into_iter().filter_map(|(job_key, key)| Some((key, ids[graph.position(job_key)?]))).collect();
    let taken = jobs::take_keys(tx, &wanted).await?;
    let Some((key, _)) = wanted.iter().find(|(_, id)| !taken.contains(id)) else { return Ok(()) };
    let holder = replays::key_holder(tx, key).await?;
    let detail = format!("Another job has taken over the dedupe key {:?}: run that one again.", key.key);
    Err(Problem { id: holder, ..Problem::new(Code::Duplicate, detail) }.into())
}
