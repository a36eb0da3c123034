//! Replay of one item, even a succeeded one: a tree of one job with the same contract, containing that item (`replay`).
//! Separate from replays of trees, because everything happens in one commit.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::{
    Code, Problem,
    api::{NewItem, ReplayBody},
};
use uuid::Uuid;

use crate::{
    Core, Engine, KeyedCall,
    access::caller::{Caller, Scope},
    enqueue::{
        add::AddedRows,
        item_intake::{Intake, JobItems},
    },
    error::{Error, Result},
    notify::{audit, error_groups},
    store::{
        access::quotas::Usage,
        notify::audit as audit_log,
        operator::replays::{self, JobCopy, JobStateCopy},
        tree::{
            definitions::{self, JobInfo},
            job_states::{self, Delta},
        },
    },
};

use super::{TRIES, fill, write_down};

/// Validated replay of an item.
#[derive(Clone)]
struct ItemReplay {
    item_id: Uuid,
    job: Arc<JobInfo>,
    payload: Option<String>,
    expires_at: Option<time::OffsetDateTime>,
    key: Option<KeyedCall>,
    audit_row: Option<audit_log::AuditRow>,
    /// Requesting credential, and true if it may see all owners' work.
    requester: (Uuid, bool),
}

impl Engine {
    /// Replays one final item as a tree of its own and returns the id of its root. `replay_of` names the root of the
    /// item's tree. Returns 409 `item_not_final`.
    pub async fn replay_item(
        &self,
        caller: &Caller,
        item_id: Uuid,
        body: ReplayBody,
        key: Option<KeyedCall>,
    ) -> Result<Uuid> {
        caller.require(Scope::JobsWrite)?;
        let core = &self.0.core;
        for _ in 0..TRIES {
            if let Some(made) = core.tree_of(key.as_ref()).await? {
                return Ok(made);
            }
            let item = self.changed_item(caller, item_id).await?;
            let job = self.job_of_item(caller, item_id).await?;
            let reason = audit::reason_for(caller, job.owner_id, body.reason.as_deref())?;
            if !item.state.is_final() {
                let detail = format!("The item is {}: only ended items can be run again.", item.state.as_str());
                return Err(Problem { item_state: Some(item.state), ..Problem::new(Code::ItemNotFinal, detail) }.into());
            }
            let payload = match &body.payload {
                Some(payload) => Some(core.checked_payload(&job, payload.clone())?),
                None => None,
            };
            let audit_row = audit::row(caller, "item.replay", job.owner_id, reason.as_deref())
                .map(|row| row.about(job.root_id, job.job_id, Some(item_id)));
            let expires_at = body.expires_at.map(|at| at.0);
            let requester = (caller.credential_id, caller.sees_all());
            let _taken = core.quotas.take(job.owner_id, Usage { trees: 1, items: 1, bytes: 0 }).await?;
            let replay = ItemReplay { item_id, job, payload, expires_at, key: key.clone(), audit_row, requester };
            let made = core
                .in_task_with_retries("replaying an item", move |core| {
                    let replay = replay.clone();
                    async move { create_tree(&core, replay).await }
                })
                .await?;
            if let Some(made) = made {
                return Ok(made);
            }
        }
        Err(Error::Conflict("an Idempotency-Key changed hands each time"))
    }
}

impl Core {
    /// Validates a payload that replaces an item's payload, and returns its text. Pointers of faults are relative to
    /// the item.
    pub(crate) fn checked_payload(&self, job: &JobInfo, payload: domain::Document) -> Result<String, Problem> {
        let item = NewItem { payload: Some(payload), ..NewItem::default() };
        let of_item = |pointer: &str| Some(pointer.strip_prefix("/0").unwrap_or(pointer).to_owned());
        let checked = self.prepare(job, vec![item], "").map_err(|problem| problem.moved(of_item))?;
        Ok(checked.into_iter().next().map(|item| item.payload).unwrap_or_default())
    }
}

async fn create_tree(core: &Arc<Core>, replay: ItemReplay) -> Result<Option<Uuid>> {
    let graph = core.graphs.of(&core.pools.read, replay.job.root_id).await?;
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    if let Some(key) = &replay.key
        && !core.take_call(&mut tx, key).await?
    {
        return Ok(None);
    }
    let source = replays::sources(&mut tx, &[replay.item_id]).await?.pop().ok_or_else(|| Problem::not_found("item"))?;
    let mut item = fill::prepared(source, None);
    if let Some(payload) = replay.payload {
        item.payload = payload;
        item.error = None;
    }
    item.expires_at = replay.expires_at.or(item.expires_at);

    // No other transaction can see the new job, so its serialize queue may be locked after it was written.
    let root_id = Uuid::now_v7();
    let job_key =
        job_states::reserve(&mut tx, 1).await?.pop().ok_or_else(|| Error::Broken("no job state".to_owned()))?;
    let copy = JobCopy {
        from_job_key: replay.job.job_key,
        id: root_id,
        job_key,
        ord: 0,
        parent_id: None,
        fair_turn_job_key: job_key,
    };
    if replays::copy_jobs(&mut tx, root_id, replay.job.root_id, &[copy], true, replay.requester).await? != 1 {
        return Err(Error::Conflict("a job was removed"));
    }
    let job_state =
        JobStateCopy { job_key, solo: true, sealed: true, open_feeds: 0, open_jobs: 1, after_open: 0, holds: 0 };
    replays::insert_job_states(&mut tx, root_id, &[job_state]).await?;
    let job = definitions::jobs_by_key(&mut *tx, &[job_key]).await?.pop().map(Arc::new);
    let job = job.ok_or_else(|| Error::Broken("a new job is not there".to_owned()))?;

    let items = [item];
    let job_items = [JobItems { job: &job, items: &items }];
    let mut intake = Intake::begin(core, &job_items).await?;
    intake.take_keys(&mut tx, &job_items).await?;
    intake.lock_serialize_queues(&mut tx, []).await?;
    intake.read_heads(&mut tx).await?;
    if !replays::share_root(&mut tx, graph.root_job_key()).await? {
        return Err(Error::refuse(Code::JobRemoved, "The tree of the item was removed."));
    }
    let locked: HashMap<i64, job_states::LockedJobState> = job_states::lock(&mut tx, &[job_key])
        .await?
        .into_iter()
        .map(|job_state| (job_state.job_key, job_state))
        .collect();
    let job_state = locked.get(&job_key).ok_or_else(|| Error::Broken("a new job state is missing".to_owned()))?;
    intake.open(&mut tx, &locked).await?;
    let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
    intake.place(core, &mut tx, &job_items[0], job_state, &mut deltas).await?;
    intake.write(core, &mut tx, &mut deltas).await?;
    job_states::apply(&mut tx, &deltas.into_iter().collect::<Vec<_>>()).await?;
    core.announce_complete(&mut tx, &[job_key]).await?;
    let dead = error_groups::count(core, &mut tx, &intake.dead()).await?;
    write_down(&mut tx, replay.key.as_ref(), replay.audit_row, root_id).await?;
    crate::store::commit(tx).await?;
    AddedRows::of(&intake, vec![root_id], Vec::new()).with_dead(dead).after_commit(core).await;
    Ok(Some(root_id))
}
