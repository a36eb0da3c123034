//! Bulk operations: one deed to everything that a list shows (`manual-retry`).
//!
//! First the list is walked and its members are frozen (`count`), then they are dealt with by the
//! use-cases, many at a time, paced (`run`), and each is counted once (`mark`). Everything but the asking is the duty's, on any
//! server: what is under way is in the tables alone. A retry holds the completion of the trees it touches
//! from the freezing on until it is through with each.

mod asker; // who asked, and whether they still may
mod count; // the membership, frozen
mod mark; // members, counted once
mod run; // members, dealt with

use std::{sync::Arc, time::Duration};

use domain::{
    Code, Document, Problem, Time,
    api::{BulkAction, BulkOperation, BulkSkipped, BulkState, BulkTarget, NewBulk},
    job::{Owner, OwnerKind},
    limits,
    topic::Topic,
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    auth::{Caller, Role, Scope},
    error::{Error, Result},
    store::{
        audit as deeds,
        bulk::{self, BulkRow, NewRow, members},
        finding::ItemOrder,
        idempotency,
        part::Part,
        settle as trees,
    },
    task::in_task,
};

use super::{Core, Engine, ItemFilter, JobFilter, KeyedCall, audit, settle};

pub(super) use mark::Tally;

/// Members that are looked at when somebody who sees everybody's work gives no reason.
const GLANCE: i64 = 200;
/// Trees that are let go in one step.
const LET_GO: i64 = 50;
/// How long an operation that is over is remembered.
const REMEMBERED_SECONDS: f64 = 30.0 * 86_400.0;
/// Between two looks at what there is to do.
const IDLE: Duration = Duration::from_millis(500);

/// What the list is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Wanted {
    Items(ItemFilter),
    Jobs(JobFilter),
}

impl Engine {
    /// Begins an operation, or finds the one that the same call has begun. A small dry run is through when
    /// this returns.
    pub async fn create_bulk(
        &self,
        caller: &Caller,
        new: NewBulk,
        wanted: Wanted,
        key: Option<KeyedCall>,
    ) -> Result<BulkOperation> {
        caller.require(Scope::JobsWrite)?;
        // Members are found as a list finds them.
        caller.require(Scope::JobsRead)?;
        let core = &self.0.core;
        if let Some(made) = core.operation_of(key.as_ref()).await? {
            return self.bulk(caller, made).await;
        }
        self.check_bulk(&new)?;
        // On one's own work none is required; whether it is all one's own is seen below.
        let reason = audit::reason_for(caller, caller.owner_id, new.reason.as_deref())?;
        self.glance(caller, &wanted, !new.dry_run && reason.is_none()).await?;
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
            asked_by: caller.credential_id,
        };
        let action = match new.action {
            BulkAction::Retry => "bulk.retry",
            BulkAction::Cancel => "bulk.cancel",
            BulkAction::Delete => "bulk.delete",
        };
        let deed = audit::row(caller, action, caller.owner_id, reason.as_deref())
            .filter(|_| !new.dry_run)
            .map(|entry| deeds::AuditRow { operation_id: Some(row.id), ..entry.with_detail(row.filter.clone()) });
        let id = row.id;
        let engine = self.clone();
        let begun = core
            .retrying(move |core| {
                let (row, key, deed, engine) = (row.clone(), key.clone(), deed.clone(), engine.clone());
                async move {
                    let mut tx = core.pools.read.begin().await?;
                    if let Some(key) = &key {
                        if !core.take_call(&mut tx, key).await? {
                            return core.operation_of(Some(key)).await;
                        }
                        idempotency::answer(&mut *tx, &key.name, Some(202), &row.id.to_string()).await?;
                    }
                    bulk::insert(&mut tx, &row).await?;
                    if let Some(deed) = &deed {
                        deeds::record(&mut tx, deed).await?;
                    }
                    crate::store::commit(tx).await?;
                    engine.first_look(row.id).await;
                    Ok(Some(row.id))
                }
            })
            .await?;
        self.bulk(caller, begun.unwrap_or(id)).await
    }

    /// The operation that the same call has begun before.
    pub async fn bulk_begun(&self, key: Option<&KeyedCall>) -> Result<Option<Uuid>> {
        self.0.core.operation_of(key).await
    }

    /// Number of rows of a list now; `None` where they are more than can be counted while somebody waits.
    pub async fn count_bulk(&self, caller: &Caller, wanted: &Wanted) -> Result<Option<i64>> {
        count::now(self, caller, wanted).await
    }

    /// What can be said about an operation without the database.
    pub fn check_bulk(&self, new: &NewBulk) -> Result<(), Problem> {
        for (n, edit) in new.payload_edit.iter().enumerate() {
            self.0.core.fits(edit.value.as_ref(), || format!("/payload_edit/{n}/value"))?;
        }
        check(new)
    }

    /// Whether the list can be asked for at all, and, where a reason would be required on others' work,
    /// whether the first members are one's own.
    async fn glance(&self, caller: &Caller, wanted: &Wanted, without_reason: bool) -> Result<()> {
        let limit = if without_reason && caller.sees_all() { GLANCE } else { 1 };
        let jobs: Vec<Uuid> = match wanted {
            Wanted::Items(filter) => self
                .list_items(caller, filter, ItemOrder::Oldest, None, limit)
                .await?
                .0
                .iter()
                .map(|item| item.job_id)
                .collect(),
            Wanted::Jobs(filter) => {
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

    /// One operation: one's own, or anybody's for who sees everybody's work.
    pub async fn bulk(&self, caller: &Caller, id: Uuid) -> Result<BulkOperation> {
        caller.require(Scope::JobsRead)?;
        self.changed_bulk(caller, id).await
    }

    async fn changed_bulk(&self, caller: &Caller, id: Uuid) -> Result<BulkOperation> {
        let pool = &self.0.core.pools.read;
        let rows = bulk::list(pool, Some(id), caller.visible_owner(), Part::newest(None, 1)).await?;
        shown(pool, rows).await?.pop().ok_or_else(|| Problem::not_found("bulk operation").into())
    }

    /// A part of the list of operations.
    pub async fn list_bulk(&self, caller: &Caller, part: Part) -> Result<Vec<BulkOperation>> {
        caller.require(Scope::JobsRead)?;
        let pool = &self.0.core.pools.read;
        shown(pool, bulk::list(pool, None, caller.visible_owner(), part).await?).await
    }

    /// Stops an operation: from the answer on nothing more is done. What was done stays. Again is fine; one
    /// that is through is 409 `operation_over`.
    pub async fn cancel_bulk(&self, caller: &Caller, id: Uuid, reason: Option<&str>) -> Result<BulkOperation> {
        caller.require(Scope::JobsWrite)?;
        let core = &self.0.core;
        let rows = bulk::list(&core.pools.read, Some(id), caller.visible_owner(), Part::newest(None, 1)).await?;
        let row = rows.into_iter().next().ok_or_else(|| Problem::not_found("bulk operation"))?;
        let reason = audit::reason_for(caller, row.actor_id, reason)?;
        let deed = audit::row(caller, "bulk.stop", row.actor_id, reason.as_deref())
            .map(|entry| deeds::AuditRow { operation_id: Some(id), ..entry });
        let stopped = core
            .retrying(move |core| {
                let deed = deed.clone();
                async move {
                    let mut tx = core.pools.read.begin().await?;
                    if !bulk::cancel(&mut tx, id).await? {
                        return Ok(false);
                    }
                    if let Some(deed) = &deed {
                        deeds::record(&mut tx, deed).await?;
                    }
                    crate::store::commit(tx).await?;
                    let_go(&core, id).await?;
                    Ok(true)
                }
            })
            .await?;
        core.bulk_asked.notify_one();
        core.hub.changed(Topic::Operations);
        let now = self.changed_bulk(caller, id).await?;
        if stopped || matches!(now.state, BulkState::Cancelling | BulkState::Cancelled) {
            Ok(now)
        } else {
            Err(Error::refuse(Code::OperationOver, "The operation is through: there is nothing left to stop."))
        }
    }

    /// A step of every operation that is not over. Returns how long there is nothing to do.
    pub async fn sweep_bulk(&self) -> Result<Duration> {
        let engine = self.clone();
        let run = async move {
            let mut pause = IDLE;
            for (id, state) in bulk::open(&engine.0.core.pools.read, 50).await? {
                let step = match BulkState::parse(&state) {
                    Some(BulkState::Counting) => count::step(&engine, id).await.map(again),
                    Some(BulkState::Running) => run::slice(&engine, id).await,
                    Some(BulkState::Cancelling) => let_go(&engine.0.core, id).await.map(again),
                    _ => Ok(IDLE),
                };
                engine.0.core.hub.changed(Topic::Operations);
                match step {
                    Ok(next) => pause = pause.min(next),
                    Err(error) if error.is_conflict() => {}
                    Err(error) if error.is_database_away() => return Err(error),
                    // One that cannot go on must not hold up the others.
                    Err(error) => tracing::warn!(%error, %id, "a bulk operation could not go on; will try again"),
                }
            }
            Ok(pause)
        };
        in_task("a bulk operation", run).await
    }

    /// Resolves when an operation has something to do. A hint: the duty also looks by itself.
    pub async fn bulk_asked(&self) {
        self.0.core.bulk_asked.notified().await;
    }

    /// Forgets operations that were over long ago, a piece at a time. Returns how many rows went.
    pub async fn forget_bulk(&self) -> Result<usize> {
        const PIECE: i64 = 5_000;
        let gone = bulk::forget(&self.0.core.pools.read, REMEMBERED_SECONDS, PIECE).await?;
        Ok(usize::try_from(gone).unwrap_or(usize::MAX))
    }

    /// Counts a little for whoever asks; the rest is the duty's.
    async fn first_look(&self, id: Uuid) {
        const STEPS: usize = 3;
        for _ in 0..STEPS {
            match count::step(self, id).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::debug!(%error, %id, "counting was interrupted; the duty goes on with it");
                    break;
                }
            }
        }
        self.0.core.bulk_asked.notify_one();
        self.0.core.hub.changed(Topic::Operations);
    }
}

fn again(more: bool) -> Duration {
    if more { Duration::ZERO } else { IDLE }
}

impl Core {
    /// The operation that the same call has begun before.
    async fn operation_of(&self, key: Option<&KeyedCall>) -> Result<Option<Uuid>> {
        let Some(key) = key else { return Ok(None) };
        Ok(self.made_by(key).await?.and_then(|stored| stored.answer?.parse().ok()))
    }
}

/// Lets go of trees that a stopped operation holds; whether there may be more.
async fn let_go(core: &Arc<Core>, id: Uuid) -> Result<bool> {
    let roots = members::holds(&core.pools.read, id, LET_GO).await?;
    for &root_id in &roots {
        let plan = core.plans.of(&core.pools.read, root_id).await?;
        let mut tx = core.pools.hot.begin().await?;
        trees::lock(&mut tx, &[plan.root_gate()]).await?;
        if !members::drop_holds(&mut tx, id, &[root_id]).await?.is_empty() {
            settle::release_holds(core, &mut tx, &[&plan]).await?;
        }
        crate::store::commit(tx).await?;
        core.hub.touch(&[root_id]);
    }
    if roots.is_empty() {
        bulk::cancelled(&core.pools.read, id).await?;
    }
    Ok(!roots.is_empty())
}

fn check(new: &NewBulk) -> Result<(), Problem> {
    let mut faults: Vec<(String, String)> = Vec::new();
    let mut say = |pointer: String, detail: &str| faults.push((pointer, detail.to_owned()));
    match (new.action, new.target) {
        (BulkAction::Retry, BulkTarget::Jobs) => {
            say("/target".into(), "expected items, as it is items that are retried");
        }
        (BulkAction::Delete, BulkTarget::Items) => {
            say("/target".into(), "expected jobs, as only whole trees are deleted");
        }
        _ => {}
    }
    if new.action != BulkAction::Retry && !new.payload_edit.is_empty() {
        say("/payload_edit".into(), "expected with retry only");
    }
    if new.payload_edit.len() > limits::MOST_EDITS {
        say("/payload_edit".into(), "expected at most 100 edits");
    }
    for (n, edit) in new.payload_edit.iter().enumerate() {
        if let Err((field, detail)) = edit.read() {
            say(format!("/payload_edit/{n}/{field}"), detail);
        }
    }
    if new.rate_per_second.is_some_and(|rate| !(rate > 0.0 && rate <= limits::FASTEST_BULK)) {
        say("/rate_per_second".into(), "expected null, or a number above 0 up to 10000");
    }
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid_body(faults)) }
}

fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|e| Error::Broken(e.to_string()))
}

/// Operations as the API shows them.
async fn shown(pool: &sqlx::PgPool, rows: Vec<BulkRow>) -> Result<Vec<BulkOperation>> {
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
