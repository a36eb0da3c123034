//! Audit entries about reads and refusals: staff who read or download other people's data, authenticated callers who
//! are refused, failed sign-ins.
//!
//! Reads have no transaction, so the response waits until the entry is written. The owner of an object is looked up
//! once per hour and credential. Nothing here refuses a request.

use std::{net::IpAddr, sync::Arc};

use domain::{identity::audit::ActorKind, import::export::ExportOrder};
use scopeguard::{ScopeGuard, guard};
use uuid::Uuid;

use super::{
    record,
    repeats::{Kind, Repeats},
};
use crate::App;
use engine::{
    access::caller::Caller,
    error::Result,
    store::{
        import::{exports, uploads},
        notify::audit::{self as store, AuditRow},
        tree::schedules,
    },
    task::in_task,
};

/// Object of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Object {
    Job(Uuid),
    Item(Uuid),
    Upload(Uuid),
    Schedule(Uuid),
    /// A list that covers all owners.
    List,
}

/// Read that was requested.
#[derive(Clone, Debug)]
pub struct AuditedRead {
    /// Action name, such as `upload.download`.
    pub action: &'static str,
    pub object: Object,
}

/// Owner of an object, and the entry with its job and item.
struct OwnedObject {
    owner_id: Uuid,
    row: AuditRow,
}

/// Records that a caller who sees all work reads another owner's object, once per hour. The entry must be written
/// before the response is sent.
pub async fn record_read(app: &App, caller: &Caller, requested: AuditedRead) -> Result<()> {
    let object = format!("{:?}", requested.object);
    let kind = Kind::Caller { credential_id: caller.credential_id, action: requested.action, object };
    if !app.repeats.is_new(&kind) {
        return Ok(());
    }
    let (shared, caller) = (app.clone(), caller.clone());
    write_first(&app.repeats, kind, async move { write_read(&shared, &caller, &requested).await }).await
}

/// Same, for an object that a change returned: a change without effect has no entry of its own and is a read.
pub async fn record_returned(app: &App, caller: &Caller, requested: AuditedRead) -> Result<()> {
    let Some(row) = foreign_read(app, caller, &requested).await? else { return Ok(()) };
    if store::is_recorded(&app.pool, &row).await? {
        return Ok(());
    }
    record_read(app, caller, requested).await
}

/// Writes the first entry of a kind, in a task of its own: a client that disconnects must not leave a kind that is
/// counted without an entry. A write that fails, or that a silent database ends, is forgotten.
async fn write_first(
    repeats: &Arc<Repeats>,
    kind: Kind,
    write: impl Future<Output = Result<Option<AuditRow>>> + Send + 'static,
) -> Result<()> {
    let unwritten = guard((Arc::clone(repeats), kind), |(repeats, kind)| repeats.forget(&kind));
    in_task("writing an audit entry", async move {
        let row = write.await?;
        let (repeats, kind) = ScopeGuard::into_inner(unwritten);
        if let Some(row) = row {
            repeats.set_row(&kind, row);
        }
        Ok(())
    })
    .await
}

/// Entry about a read; `None` if the object is the caller's own.
async fn foreign_read(app: &App, caller: &Caller, requested: &AuditedRead) -> Result<Option<AuditRow>> {
    let row = AuditRow::by(caller, requested.action);
    Ok(match requested.object {
        Object::List => Some(row.with_detail("everybody's")),
        object => {
            look_up_owner(app, object, row).await?.filter(|found| found.owner_id != caller.owner_id).map(|f| f.row)
        }
    })
}

async fn write_read(app: &App, caller: &Caller, requested: &AuditedRead) -> Result<Option<AuditRow>> {
    let row = foreign_read(app, caller, requested).await?;
    if let Some(row) = &row {
        record(&app.pool, row).await?;
    }
    Ok(row)
}

/// Records that an export starts to read a tree, whoever owns it. The entry must be written before any row is read. The
/// actor is the person or service whose credential requested the export.
pub async fn record_export(app: &App, asker: &Caller, requested: &ExportOrder, export_job: Uuid) -> Result<()> {
    let row = AuditRow { address: None, ..AuditRow::by(asker, "job.export") };
    let row = match exports::credential_owner(&app.pool, asker.credential_id).await? {
        Some(requester) => {
            let kind = ActorKind::parse(&requester.kind).unwrap_or(ActorKind::Nobody);
            AuditRow { actor_id: requester.id, actor_name: requester.name, actor_kind: kind, ..row }
        }
        None => row,
    };
    let detail = format!("{} as {}, by the job {export_job}", requested.what.as_str(), requested.format.as_str());
    match look_up_owner(app, Object::Job(requested.job_id), row).await? {
        Some(found) => record(&app.pool, &found.row.with_detail(detail)).await,
        // Deleted meanwhile: there is nothing to read.
        None => Ok(()),
    }
}

/// Records the use of a share link: once per day for each link and address (IPv6: the /64 network), with the number of
/// later uses when the day ends. The entry must be written before the response is sent.
pub async fn record_share_use(
    app: &App,
    share_id: Uuid,
    root_id: Uuid,
    owner_id: Uuid,
    address: Option<IpAddr>,
) -> Result<()> {
    let kind = Kind::of_share(share_id, address);
    if !app.repeats.is_new(&kind) {
        return Ok(());
    }
    let row = AuditRow::by_nobody("share.open", address).about(root_id, root_id, None);
    let row = AuditRow { owner_id: Some(owner_id), credential_id: Some(share_id), ..row };
    let pool = app.pool.clone();
    write_first(&app.repeats, kind, async move { record(&pool, &row).await.map(|()| Some(row)) }).await
}

/// Records, off the request path, that an authenticated caller was refused: always if the response is `forbidden`, else
/// if the object exists and belongs to another owner. `what` is method, path and status.
pub fn record_refusal(app: &App, caller: Caller, object: Option<Object>, what: String, forbidden: bool) {
    const ACTION: &str = "access.refuse";
    if object.is_none() && !forbidden {
        return;
    }
    let object_text = object.map_or_else(|| what.clone(), |object| format!("{object:?}"));
    let kind = Kind::Caller { credential_id: caller.credential_id, action: ACTION, object: object_text };
    if !app.repeats.is_new(&kind) {
        return;
    }
    // Few at once: guessing ids must not double the database load.
    let Some(lookup_permit) = app.repeats.lookup_permit() else { return app.repeats.forget(&kind) };
    let app = app.clone();
    app.clone().tasks.spawn(async move {
        let _lookup_permit = lookup_permit;
        let repeats = Arc::clone(&app.repeats);
        let written = write_first(&repeats, kind, async move {
            let row = AuditRow::by(&caller, ACTION);
            let row = match object {
                Some(object) => match look_up_owner(&app, object, row.clone()).await? {
                    Some(found) if found.owner_id == caller.owner_id && !forbidden => None,
                    Some(found) => Some(found.row),
                    None => forbidden.then_some(row),
                },
                None => Some(row),
            };
            let Some(row) = row.map(|row| row.with_detail(what)) else { return Ok(None) };
            record(&app.pool, &row).await.map(|()| Some(row))
        });
        if let Err(error) = written.await {
            tracing::warn!(%error, "audit of a refusal failed");
        }
    });
}

/// Records a refused sign-in at this account, if there is one, from this address. The input is not stored, because
/// people type passwords into the wrong field.
pub async fn record_refused_sign_in(app: &App, account: Option<Uuid>, address: Option<IpAddr>, how: &str) {
    let kind = Kind::of_stranger("session.refuse", address, account);
    if !app.repeats.is_new(&kind) {
        return;
    }
    let row = AuditRow { owner_id: account, ..AuditRow::by_nobody("session.refuse", address).with_detail(how) };
    let pool = app.pool.clone();
    let written = write_first(&app.repeats, kind, async move { record(&pool, &row).await.map(|()| Some(row)) }).await;
    if let Err(error) = written {
        tracing::warn!(%error, "audit of a refused sign-in failed");
    }
}

/// Looks up the owner of an object; `None` if it does not exist.
async fn look_up_owner(app: &App, object: Object, row: AuditRow) -> Result<Option<OwnedObject>> {
    let job = match object {
        Object::Job(id) => app.engine.any_job(id).await?.map(|job| (job, None)),
        Object::Item(id) => app.engine.any_job_of_item(id).await?.map(|job| (job, Some(id))),
        Object::Upload(id) => return Ok(owned(uploads::owner(&app.pool, id).await?, row, "upload", id)),
        Object::Schedule(id) => return Ok(owned(schedules::owner(&app.pool, id).await?, row, "schedule", id)),
        Object::List => None,
    };
    Ok(job.map(|(job, item_id)| OwnedObject {
        owner_id: job.owner_id,
        row: AuditRow { owner_id: Some(job.owner_id), ..row.about(job.root_id, job.job_id, item_id) },
    }))
}

/// Builds the entry of a new session, in the transaction that creates it.
pub(crate) async fn session_row(
    on: &mut sqlx::PgConnection,
    owner_id: Uuid,
    session_id: Uuid,
    address: Option<IpAddr>,
    how: &str,
) -> sqlx::Result<AuditRow> {
    let name = store::owner_name(on, owner_id).await?.unwrap_or_default();
    let row = AuditRow::by_person("session.begin", owner_id, name, address).with_detail(how);
    Ok(AuditRow { credential_id: Some(session_id), ..row })
}

/// Object that belongs to no job.
fn owned(owner_id: Option<Uuid>, row: AuditRow, what: &str, id: Uuid) -> Option<OwnedObject> {
    let row = AuditRow { owner_id, ..row }.with_detail(format!("{what} {id}"));
    Some(OwnedObject { owner_id: owner_id?, row })
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_first_entry_that_is_dropped_is_tried_again() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let repeats = Arc::new(Repeats::default());
        let kind = Kind::of_share(Uuid::nil(), None);
        assert!(repeats.is_new(&kind));
        let written =
            runtime.block_on(async { write_first(&repeats, kind.clone(), std::future::pending()).now_or_never() });
        assert!(written.is_none(), "it waits");
        assert!(!repeats.is_new(&kind), "one event has one entry");
        drop(runtime);
        assert!(repeats.is_new(&kind));
    }
}
