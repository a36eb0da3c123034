//! Saved views: filters of lists under a name (`saved-views`).
//!
//! A view belongs to its creator; a shared one can be used by everyone, and only staff share. Which view a list opens
//! with is each owner's own choice. Admins may change and delete shared views of others, with a reason.

use domain::{
    Code, Problem, Time,
    identity::owner::{Owner, OwnerKind},
    saved_view::{self, MOST_VIEWS, NewSavedView, SavedView, SavedViewPatch, ViewList},
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::{Error, Result},
    notify::audit,
    store::{
        Tx,
        notify::audit as audit_log,
        page_range::PageRange,
        query::saved_views::{self as store, ViewRow},
    },
    stored_response::ResponseSlot,
    task::in_task,
};

impl Engine {
    /// Saves a view. 409 if the caller has one of this name, 403 if it is to be shared and the caller is not staff.
    pub async fn create_view(
        &self,
        caller: &Caller,
        new: NewSavedView,
        response_slot: ResponseSlot,
    ) -> Result<SavedView> {
        caller.require(Scope::JobsWrite)?;
        let now = OffsetDateTime::now_utc();
        let row = ViewRow {
            id: Uuid::now_v7(),
            owner_id: caller.owner_id,
            owner_kind: if caller.role.is_some() { "user" } else { "service" }.to_owned(),
            owner_name: caller.name.clone(),
            list: new.list.as_str().to_owned(),
            name: new.name,
            q: new.q,
            sort: new.sort,
            shared: new.shared,
            is_default: new.is_default,
            created_at: now,
            updated_at: now,
        };
        valid(&row, new.list)?;
        may_share(caller, row.shared)?;
        let (engine, caller) = (self.clone(), caller.clone());
        in_task("saving a view", async move {
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            if store::count_to_add(&mut tx, caller.owner_id).await? >= MOST_VIEWS {
                let detail =
                    format!("You have {MOST_VIEWS} saved views, the most that there may be. Delete one first.");
                return Err(Error::refuse(Code::QuotaExceeded, detail));
            }
            if !store::insert(&mut tx, &row).await? {
                return Err(taken(&row.name));
            }
            if row.is_default {
                store::set_default(&mut tx, caller.owner_id, &row.list, row.id).await?;
            }
            let created = to_api(&found(&mut tx, &caller, row.id).await?)?;
            response_slot.store(&mut tx, &created).await?;
            crate::store::commit(tx).await?;
            Ok(created)
        })
        .await
    }

    /// Returns one page of the views that the caller may use.
    pub async fn views(&self, caller: &Caller, list: Option<ViewList>, part: PageRange) -> Result<Vec<SavedView>> {
        caller.require(Scope::JobsRead)?;
        let list = list.map(ViewList::as_str);
        let rows = store::page(self.0.core.pools.reads().await, caller.owner_id, list, part).await?;
        rows.iter().map(to_api).collect()
    }

    /// Returns the views that the caller may use, by name, own ones first.
    pub async fn views_by_name(&self, caller: &Caller, list: Option<ViewList>, limit: i64) -> Result<Vec<SavedView>> {
        caller.require(Scope::JobsRead)?;
        let list = list.map(ViewList::as_str);
        let rows = store::by_name(self.0.core.pools.reads().await, caller.owner_id, list, limit).await?;
        rows.iter().map(to_api).collect()
    }

    /// Returns the view that the caller's list opens with.
    pub async fn default_view(&self, caller: &Caller, list: ViewList) -> Result<Option<SavedView>> {
        caller.require(Scope::JobsRead)?;
        let row = store::default_of(self.0.core.pools.reads().await, caller.owner_id, list.as_str()).await?;
        row.as_ref().map(to_api).transpose()
    }

    /// Returns a view that the caller may use.
    pub async fn view(&self, caller: &Caller, id: Uuid) -> Result<SavedView> {
        caller.require(Scope::JobsRead)?;
        let mut connection = self.0.core.pools.read.acquire().await?;
        to_api(&found(&mut connection, caller, id).await?)
    }

    /// Changes a view. Everyone may open their list with a view that they may use; other changes are for its owner, and
    /// for admins with a reason.
    pub async fn patch_view(&self, caller: &Caller, id: Uuid, patch: SavedViewPatch) -> Result<SavedView> {
        caller.require(Scope::JobsWrite)?;
        let (engine, caller) = (self.clone(), caller.clone());
        in_task("changing a view", async move {
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            let mut row = locked(&mut tx, &caller, id).await?;
            if !patch.is_personal() {
                let reason = reason_to_write(&caller, &row, patch.reason.as_deref())?;
                may_share(&caller, patch.shared == Some(true) && !row.shared)?;
                apply(&mut row, &patch);
                let list = list_of(&row)?;
                valid(&row, list)?;
                if !store::update(&mut tx, &row).await? {
                    return Err(taken(&row.name));
                }
                record(&mut tx, &caller, "view.change", &row, reason.as_deref()).await?;
            }
            match patch.is_default {
                Some(true) => store::set_default(&mut tx, caller.owner_id, &row.list, id).await?,
                Some(false) => store::unset_default(&mut tx, caller.owner_id, id).await?,
                None => {}
            }
            let changed = to_api(&after_change(&mut tx, &caller, row).await?)?;
            crate::store::commit(tx).await?;
            Ok(changed)
        })
        .await
    }

    /// Deletes a view: its owner, and admins with a reason.
    pub async fn delete_view(&self, caller: &Caller, id: Uuid, reason: Option<String>) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let (engine, caller) = (self.clone(), caller.clone());
        in_task("deleting a view", async move {
            let mut tx = crate::store::begin(&engine.0.core.pools.read).await?;
            let row = locked(&mut tx, &caller, id).await?;
            let reason = reason_to_write(&caller, &row, reason.as_deref())?;
            store::delete(&mut tx, id).await?;
            record(&mut tx, &caller, "view.delete", &row, reason.as_deref()).await?;
            crate::store::commit(tx).await?;
            Ok(())
        })
        .await
    }
}

fn apply(row: &mut ViewRow, patch: &SavedViewPatch) {
    if let Some(name) = &patch.name {
        row.name.clone_from(name);
    }
    if let Some(q) = &patch.q {
        row.q.clone_from(q);
    }
    if let Some(sort) = &patch.sort {
        row.sort.clone_from(sort);
    }
    row.shared = patch.shared.unwrap_or(row.shared);
}

fn valid(row: &ViewRow, list: ViewList) -> Result<(), Problem> {
    let now = Time(OffsetDateTime::now_utc());
    let faults = saved_view::faults(list, &row.name, &row.q, row.sort.as_deref(), now);
    if faults.is_empty() { Ok(()) } else { Err(Problem::invalid_body(faults)) }
}

fn may_share(caller: &Caller, shares: bool) -> Result<(), Problem> {
    if !shares || caller.sees_all() {
        return Ok(());
    }
    Err(Problem::new(Code::Forbidden, "Only support and admins share views with everyone."))
}

/// Reason to record for a change of a view. 403 for callers who may use it only.
fn reason_to_write(caller: &Caller, row: &ViewRow, reason: Option<&str>) -> Result<Option<String>, Problem> {
    if row.owner_id != caller.owner_id && !caller.is_admin() {
        return Err(Problem::new(Code::Forbidden, "This view belongs to somebody else."));
    }
    audit::reason_for(caller, row.owner_id, reason)
}

fn taken(name: &str) -> Error {
    Error::refuse(Code::Duplicate, format!("You have another view of this list with the name {name:?}."))
}

async fn found(on: &mut sqlx::PgConnection, caller: &Caller, id: Uuid) -> Result<ViewRow> {
    let row = store::find(on, caller.owner_id, id).await?;
    Ok(row.ok_or_else(|| Problem::not_found("saved view"))?)
}

/// Locks a view that the caller may use.
async fn locked(tx: &mut Tx, caller: &Caller, id: Uuid) -> Result<ViewRow> {
    store::lock(tx, id).await?;
    found(tx, caller, id).await
}

/// The view as it is now. To an admin who has just ended its sharing, it is as it was.
async fn after_change(tx: &mut Tx, caller: &Caller, row: ViewRow) -> Result<ViewRow> {
    Ok(store::find(tx, caller.owner_id, row.id).await?.unwrap_or(row))
}

/// Records changes of views of others.
async fn record(tx: &mut Tx, caller: &Caller, action: &'static str, row: &ViewRow, reason: Option<&str>) -> Result<()> {
    if row.owner_id == caller.owner_id {
        return Ok(());
    }
    if let Some(entry) = audit::row(caller, action, row.owner_id, reason) {
        audit_log::record(tx, &entry.with_detail(format!("{}: {}", row.list, row.name))).await?;
    }
    Ok(())
}

fn list_of(row: &ViewRow) -> Result<ViewList> {
    ViewList::parse(&row.list).ok_or_else(|| Error::Broken("a saved view has an unknown list".to_owned()))
}

/// A view as the API shows it.
fn to_api(row: &ViewRow) -> Result<SavedView> {
    let kind = if row.owner_kind == "user" { OwnerKind::User } else { OwnerKind::Service };
    Ok(SavedView {
        id: row.id,
        list: list_of(row)?,
        name: row.name.clone(),
        q: row.q.clone(),
        sort: row.sort.clone(),
        shared: row.shared,
        is_default: row.is_default,
        owner: Owner { kind, name: row.owner_name.clone() },
        created_at: Time(row.created_at),
        updated_at: Time(row.updated_at),
    })
}
