//! Bulk operations: one action on everything that a list shows (`manual-retry`).
//!
//! First the list is read and its members are frozen (`count`); then the use cases process them in batches at a limited
//! rate (`run`), and each is counted once (`mark`). All work after the request is done by the background task on any
//! server, because the state is only in the tables. A retry holds the completion of the trees it touches from the
//! freeze until it has processed all their members.

mod count; // frozen members
mod requester; // requester, and a check that the requester still has the rights
mod run;

use std::{sync::Arc, time::Duration};

use domain::{
    Code, Document, Problem, Time,
    api::{BulkAction, BulkOperation, BulkSkipped, BulkState, BulkTarget, NewBulk},
    job::{Owner, OwnerKind},
    limits,
    query::topic::Topic,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    Core, Engine, ItemFilter, JobFilter, KeyedCall,
    access::caller::{Caller, Role, Scope},
    error::{Error, Result},
    notify::audit,
    store::{
        enqueue::idempotency,
        notify::audit as audit_log,
        operator::bulk::{self, BulkRow, NewRow, members},
        page_range::PageRange,
        query::item_list_jobs::ItemOrder,
        tree::completion as tree_states,
    },
    task::in_task,
    tree::completion,
};

/// Number of members checked if a caller who sees all owners' work gives no reason.
const CHECKED_MEMBERS: i64 = 200;
/// Number of trees released in one step.
const RELEASED_TREES: i64 = 50;
/// Time for which a finished operation is stored.
const STORED_SECONDS: f64 = 30.0 * 86_400.0;
/// Number of open operations that a sweep looks at, the oldest first.
const MOST_OPEN: i64 = 1_000;
/// Pause between two polls.
const IDLE: Duration = Duration::from_millis(500);

/// List that an operation is applied to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BulkSelection {
    Items(ItemFilter),
    Jobs(JobFilter),
}

impl Engine {
    /// Begins an operation, or finds the one that the same call has begun. A small dry run has finished when this
    /// returns.
    pub async fn create_bulk(
        &self,
        caller: &Caller,
        new: NewBulk,
        wanted: BulkSelection,
        key: Option<KeyedCall>,
    ) -> Result<BulkOperation> {
        caller.require(Scope::JobsWrite)?;
        // Members are found through the list functions, which require this scope.
        caller.require(Scope::JobsRead)?;
        let core = &self.0.core;
        if let Some(existing) = core.operation_of(key.as_ref()).await? {
            return self.bulk(caller, existing).await;
        }
        self.check_bulk(&new)?;
        // No reason is required for one's own work; `glance` checks whether all of it is the caller's own.
        let reason = audit::reason_for(caller, caller.owner_id, new.reason.as_deref())?;
        self.check_first_members(caller, &wanted, !new.dry_run && reason.is_none()).await?;
        let row = NewRow {
            id: Uuid::now_v7(),
            actor_id: caller.owner_id,
            actor_kind: if caller.kind == OwnerKind::User { "user" } else { "service" },
            actor_name: caller.name.clone(),
            role: caller.role.map(Role::as_str),
            admin: caller.scopes.contains(&Scope::Admin),
            action: new.action.as_str(),
            target: new.target.as_str(),
            filter: new.filter.text().to_owned(),
            wanted: json(&wanted)?,
            payload_edit: json(&new.payload_edit)?,
            reason: reason.clone(),
            rate: new.rate_per_second,
            dry_run: new.dry_run,
            requested_by: caller.credential_id,
        };
        let action = match new.action {
            BulkAction::Retry => "bulk.retry",
            BulkAction::Cancel => "bulk.cancel",
            BulkAction::Delete => "bulk.delete",
        };
        let audit_row = audit::row(caller, action, caller.owner_id, reason.as_deref())
            .filter(|_| !new.dry_run)
            .map(|entry| audit_log::AuditRow { operation_id: Some(row.id), ..entry.with_detail(row.filter.clone()) });
        let id = row.id;
        let engine = self.clone();
        let begun = core
            .in_task_with_retries("starting a bulk operation", move |core| {
                let (row, key, audit_row, engine) = (row.clone(), key.clone(), audit_row.clone(), engine.clone());
                async move {
                    let mut tx = crate::store::begin(&core.pools.read).await?;
                    if let Some(key) = &key {
                        if !core.take_call(&mut tx, key).await? {
                            return core.operation_of(Some(key)).await;
                        }
                        idempotency::answer(&mut *tx, &key.name, Some(202), &row.id.to_string()).await?;
                    }
                    bulk::insert(&mut tx, &row).await?;
                    if let Some(audit_row) = &audit_row {
                        audit_log::record(&mut tx, audit_row).await?;
                    }
                    crate::store::commit(tx).await?;
                    engine.count_first_pages(row.id).await;
                    Ok(Some(row.id))
                }
            })
            .await?;
        self.bulk(caller, begun.unwrap_or(id)).await
    }

    /// Operation that an earlier identical call has begun.
    pub async fn existing_bulk(&self, key: Option<&KeyedCall>) -> Result<Option<Uuid>> {
        self.0.core.operation_of(key).await
    }

    /// Number of rows of a list now; `None` if there are too many to count during a request.
    pub async fn count_bulk(&self, caller: &Caller, wanted: &BulkSelection) -> Result<Option<i64>> {
        count::now(self, caller, wanted).await
    }

    /// Validates an operation without the database.
    pub fn check_bulk(&self, new: &NewBulk) -> Result<(), Problem> {
        for (n, edit) in new.payload_edit.iter().enumerate() {
            self.0.core.check_document_size(edit.value.as_ref(), || format!("/payload_edit/{n}/value"))?;
        }
        check(new)
    }

    /// Checks that the list can be read and, if no reason was given, that the first members need none because they are
    /// the caller's own.
    async fn check_first_members(&self, caller: &Caller, wanted: &BulkSelection, without_reason: bool) -> Result<()> {
        let limit = if without_reason && caller.sees_all() { CHECKED_MEMBERS } else { 1 };
        let jobs: Vec<Uuid> = match wanted {
            BulkSelection::Items(filter) => self
                .list_items(caller, filter, ItemOrder::Oldest, None, limit)
                .await?
                .0
                .iter()
                .map(|item| item.job_id)
                .collect(),
            BulkSelection::Jobs(filter) => {
                self.list_jobs(caller, filter, false, None, limit).await?.0.iter().map(|job| job.id).collect()
            }
        };
        if without_reason {
            for job in jobs {
                if let Some(info) = self.0.core.jobs.by_id(&self.0.core.pools.read, job).await? {
                    audit::reason_for(caller, info.owner_id, None)?;
                }
            }
        }
        Ok(())
    }

    /// Returns one operation: any if the caller sees all owners' work, else the caller's own. One that was requested with
    /// staff rights, which the caller has lost since, is found only if all its members are the caller's own work.
    pub async fn bulk(&self, caller: &Caller, id: Uuid) -> Result<BulkOperation> {
        caller.require(Scope::JobsRead)?;
        self.changed_bulk(caller, id).await
    }

    async fn changed_bulk(&self, caller: &Caller, id: Uuid) -> Result<BulkOperation> {
        let pool = &self.0.core.pools.read;
        let rows = bulk::list(pool, Some(id), caller.visible_owner(), PageRange::newest(None, 1)).await?;
        to_api(pool, rows).await?.pop().ok_or_else(|| Problem::not_found("bulk operation").into())
    }

    /// Returns one page of the list of operations.
    pub async fn list_bulk(&self, caller: &Caller, part: PageRange) -> Result<Vec<BulkOperation>> {
        caller.require(Scope::JobsRead)?;
        let pool = &self.0.core.pools.read;
        to_api(pool, bulk::list(pool, None, caller.visible_owner(), part).await?).await
    }

    /// Stops an operation: once answered, no further members are processed. Processed members stay as they are.
    /// Idempotent; a finished operation is 409 `operation_over`.
    pub async fn cancel_bulk(&self, caller: &Caller, id: Uuid, reason: Option<&str>) -> Result<BulkOperation> {
        caller.require(Scope::JobsWrite)?;
        let core = &self.0.core;
        let rows = bulk::list(&core.pools.read, Some(id), caller.visible_owner(), PageRange::newest(None, 1)).await?;
        let row = rows.into_iter().next().ok_or_else(|| Problem::not_found("bulk operation"))?;
        let reason = audit::reason_for(caller, row.actor_id, reason)?;
        let audit_row = audit::row(caller, "bulk.stop", row.actor_id, reason.as_deref())
            .map(|entry| audit_log::AuditRow { operation_id: Some(id), ..entry });
        let stopped = core
            .in_task_with_retries("stopping a bulk operation", move |core| {
                let audit_row = audit_row.clone();
                async move {
                    let mut tx = crate::store::begin(&core.pools.read).await?;
                    if !bulk::cancel(&mut tx, id).await? {
                        return Ok(false);
                    }
                    if let Some(audit_row) = &audit_row {
                        audit_log::record(&mut tx, audit_row).await?;
                    }
                    crate::store::commit(tx).await?;
                    release_trees(&core, id).await?;
                    Ok(true)
                }
            })
            .await?;
        core.bulk_requested.notify_one();
        core.live.changed(Topic::Operations);
        let now = self.changed_bulk(caller, id).await?;
        if stopped || matches!(now.state, BulkState::Cancelling | BulkState::Cancelled) {
            Ok(now)
        } else {
            Err(Error::refuse(Code::OperationOver, "The operation has ended."))
        }
    }

    /// Takes one step of every open operation. Returns the time until there is more to do.
    pub async fn sweep_bulk(&self) -> Result<Duration> {
        let engine = self.clone();
        let run = async move {
            let mut pause = IDLE;
            for (id, state) in bulk::open(&engine.0.core.pools.read, MOST_OPEN).await? {
                // A task each: a panic in one operation must not block the others.
                let step = in_task("a step of a bulk operation", step(engine.clone(), id, state)).await;
                engine.0.core.live.changed(Topic::Operations);
                match step {
                    Ok(next) => pause = pause.min(next),
                    Err(error) if error.is_conflict() => {}
                    Err(error) if error.is_database_away() => return Err(error),
                    // An operation that cannot continue must not block the others.
                    Err(error) => tracing::warn!(%error, %id, "bulk operation step failed"),
                }
            }
            Ok(pause)
        };
        in_task("a bulk operation", run).await
    }

    /// Resolves when an operation has work. A hint: the background task also polls.
    pub async fn bulk_requested(&self) {
        self.0.core.bulk_requested.notified().await;
    }

    /// Deletes old finished operations, a batch at a time. Returns the number of rows.
    pub async fn delete_old_bulk_operations(&self) -> Result<usize> {
        const BATCH: i64 = 5_000;
        let gone = bulk::forget(&self.0.core.pools.read, STORED_SECONDS, BATCH).await?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }

    /// Counts the first pages during the request; the background task does the rest.
    async fn count_first_pages(&self, id: Uuid) {
        const STEPS: usize = 3;
        for _ in 0..STEPS {
            match count::step(self, id).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(%error, %id, "bulk count step failed");
                    break;
                }
            }
        }
        self.0.core.bulk_requested.notify_one();
        self.0.core.live.changed(Topic::Operations);
    }
}

fn pause_after(more: bool) -> Duration {
    if more { Duration::ZERO } else { IDLE }
}

impl Core {
    /// Operation that an earlier identical call has begun.
    async fn operation_of(&self, key: Option<&KeyedCall>) -> Result<Option<Uuid>> {
        let Some(key) = key else { return Ok(None) };
        Ok(self.stored_call(key).await?.and_then(|stored| stored.answer?.parse().ok()))
    }
}

/// Releases trees held by a stopped operation; returns true if there may be more.
async fn release_trees(core: &Arc<Core>, id: Uuid) -> Result<bool> {
    let roots = members::holds(&core.pools.read, id, RELEASED_TREES).await?;
    for &root_id in &roots {
        let graph = core.graphs.of(&core.pools.read, root_id).await?;
        let mut tx = crate::store::begin(&core.pools.hot).await?;
        tree_states::lock(&mut tx, &[graph.root_job_key()]).await?;
        if !members::drop_holds(&mut tx, id, &[root_id]).await?.is_empty() {
            completion::release_holds(core, &mut tx, &[&graph]).await?;
        }
        crate::store::commit(tx).await?;
        core.live.touch(&[root_id]);
    }
    if roots.is_empty() {
        bulk::cancelled(&core.pools.read, id).await?;
    }
    Ok(!roots.is_empty())
}

fn check(new: &NewBulk) -> Result<(), Problem> {
    let mut faults: Vec<(String, String)> = Vec::new();
    let mut add_fault = |pointer: String, detail: &str| faults.push((pointer, detail.to_owned()));
    match (new.action, new.target) {
        (BulkAction::Retry, BulkTarget::Jobs) => {
            add_fault("/target".into(), "expected items, as it is items that are retried");
        }
        (BulkAction::Delete, BulkTarget::Items) => {
            add_fault("/target".into(), "expected jobs, as only whole trees are deleted");
        }
        _ => {}
    }
    if new.action != BulkAction::Retry && !new.payload_edit.is_empty() {
        add_fault("/payload_edit".into(), "expected with retry only");
    }
    if new.payload_edit.len() > limits::MOST_EDITS {
        add_fault("/payload_edit".into(), "expected at most 100 edits");
    }
    for (n, edit) in new.payload_edit.iter().enumerate() {
        if let Err((field, detail)) = edit.read() {
            add_fault(format!("/payload_edit/{n}/{field}"), detail);
        }
    }
    if new.rate_per_second.is_some_and(|rate| !(limits::SLOWEST_BULK..=limits::FASTEST_BULK).contains(&rate)) {
        add_fault("/rate_per_second".into(), "expected null, or a number from 0.00001 to 10000");
    }
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid_body(faults)) }
}

/// Takes one step of an open operation. Returns the time until there is more to do.
async fn step(engine: Engine, id: Uuid, state: String) -> Result<Duration> {
    match BulkState::parse(&state) {
        Some(BulkState::Counting) => count::step(&engine, id).await.map(pause_after),
        Some(BulkState::Running) => run::slice(&engine, id).await,
        Some(BulkState::Cancelling) => release_trees(&engine.0.core, id).await.map(pause_after),
        _ => Ok(IDLE),
    }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Broken(e.to_string()))
}

/// Operations as the API shows them.
async fn to_api(pool: &sqlx::PgPool, rows: Vec<BulkRow>) -> Result<Vec<BulkOperation>> {
    let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
    let skips = bulk::skips(pool, &ids).await?;
    rows.into_iter()
        .map(|row| {
            let broken = || Error::Broken(format!("the bulk operation {} cannot be read", row.id));
            let skipped = skips.iter().filter(|skip| skip.0 == row.id);
            Ok(BulkOperation {
                id: row.id,
                action: BulkAction::parse(&row.action).ok_or_else(broken)?,
                target: BulkTarget::parse(&row.target).ok_or_else(broken)?,
                payload_edit: serde_json::from_str(&row.payload_edit).map_err(|_| broken())?,
                state: BulkState::parse(&row.state).ok_or_else(broken)?,
                sample: serde_json::from_str(&row.sample).map_err(|_| broken())?,
                filter: Document::trusted(row.filter),
                reason: row.reason,
                stopped_reason: row.stopped_reason,
                rate_per_second: row.rate,
                dry_run: row.dry_run,
                total: row.total,
                processed: row.processed,
                skipped: skipped.map(|(_, reason, n)| BulkSkipped { reason: reason.clone(), count: *n }).collect(),
                errored: row.errored,
                owner: Owner { kind: kind_of(&row.actor_kind), name: row.actor_name },
                created_at: Time(row.created_at),
                updated_at: Time(row.updated_at),
                finished_at: row.finished_at.map(Time),
            })
        })
        .collect()
}

fn kind_of(word: &str) -> OwnerKind {
    if word == "user" { OwnerKind::User } else { OwnerKind::Service }
}
