//! Links that show one tree to anyone who has them: creation, use, list, revocation.
//!
//! Anyone who may read and write a tree can create a link to the whole tree; for another owner's tree that takes a reason,
//! like every other action. A link gives the owner's read access to its tree; `http/callers/viewer.rs` of the server decides on which routes.
//! Deleting a tree needs no cleanup here, because every use of a link looks the tree up.

use std::sync::Arc;

use domain::{
    Code, Problem, Time,
    job::{Owner, OwnerKind},
    tree::share_link::{
        CREATOR_DISABLED, EXPIRED, REVOKED, SHARED_DAYS, SHARED_DAYS_AT_MOST, Share, ShareBody, ShareMade,
    },
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::{Error, Result},
    notify::audit,
    secrets::{hash_of, new_secret},
    store::{
        access::people,
        notify::audit as audit_log,
        page_range::PageRange,
        tree::share_links::{self, NewShare, ShareRow},
    },
    stored_response::ResponseSlot,
    task::{in_task, unless_silent},
};

/// Tree that is visible through a share link.
#[derive(Clone, Copy, Debug)]
pub struct SharedTree {
    /// Id of the link.
    pub id: Uuid,
    pub root_id: Uuid,
    pub owner_id: Uuid,
}

impl SharedTree {
    /// Caller with the owner's view. Its user must restrict the request to `root_id`.
    pub fn caller(&self) -> Caller {
        Caller {
            owner_id: self.owner_id,
            kind: OwnerKind::User,
            name: "a share".to_owned(),
            role: None,
            scopes: vec![Scope::JobsRead],
            credential_id: self.id,
            work_types: None,
            must_change_password: false,
            enrolls: false,
            proxy_user: None,
            address: None,
        }
    }
}

impl Engine {
    /// Finds the tree of a link's secret. Returns 404 if there is no such link, 410 `link_used` if it was revoked, has
    /// expired, or its owner or creator is disabled. The existence of the tree itself is not checked.
    pub async fn shared_tree(&self, secret: &str) -> Result<SharedTree> {
        let found = share_links::find_by_hash(&self.0.core.pools.read, &hash_of(secret)).await?;
        let share = found.ok_or_else(|| Problem::not_found("link"))?;
        if share.revoked {
            return Err(Error::refuse(Code::LinkUsed, REVOKED));
        }
        // By the database clock: `share_links::find_by_hash` of the store.
        if share.expired {
            return Err(Error::refuse(Code::LinkUsed, EXPIRED));
        }
        if share.disabled {
            return Err(Error::refuse(Code::LinkUsed, CREATOR_DISABLED));
        }
        if !share.seen_lately {
            let core = Arc::clone(&self.0.core);
            tokio::spawn(async move {
                let touched = unless_silent(share_links::touch(&core.pools.read, share.id)).await;
                if let Err(error) = touched.and_then(|touched| Ok(touched?)) {
                    tracing::debug!(%error, "recording a share link's last use failed");
                }
            });
        }
        Ok(SharedTree { id: share.id, root_id: share.root_id, owner_id: share.owner_id })
    }

    /// Checks that the caller may share a tree. Returns 404, 410 and 409 `not_root` as for every action on a root.
    pub async fn may_share(&self, caller: &Caller, id: Uuid) -> Result<()> {
        may_write_and_read(caller)?;
        self.visible_root(caller, id, "shared").await.map(drop)
    }

    /// Creates a link to a tree. Returns 404, 410 and 409 `not_root` as for every action on a root. `base` is the
    /// public address of the server.
    pub async fn share(
        &self,
        caller: &Caller,
        id: Uuid,
        body: &ShareBody,
        base: &str,
        response_slot: ResponseSlot,
    ) -> Result<ShareMade> {
        may_write_and_read(caller)?;
        let location = self.visible_root(caller, id, "shared").await?;
        let expires_at = expiry(body.expires_at)?;
        let reason = audit::reason_for(caller, location.owner_id, body.reason.as_deref())?;
        let row = audit::row(caller, "job.share", location.owner_id, reason.as_deref());
        let (secret, share_id) = (new_secret(""), Uuid::now_v7());
        let new = NewShare {
            id: share_id,
            root_id: location.root_id,
            owner_id: location.owner_id,
            hash: hash_of(&secret).to_vec(),
            made_by: Owner { kind: caller.kind, name: caller.name.clone() },
            made_by_id: caller.owner_id,
            credential_id: caller.credential_id,
            expires_at: expires_at.0,
        };
        let core = Arc::clone(&self.0.core);
        let created = ShareMade { id: share_id, url: format!("{base}/s/{secret}"), expires_at };
        in_task("making a link", async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            share_links::insert(&mut tx, &new).await?;
            if let Some(row) = row {
                audit_log::record(&mut tx, &row.about(location.root_id, id, None)).await?;
            }
            response_slot.store(&mut tx, &created).await?;
            crate::store::commit(tx).await?;
            Ok(created)
        })
        .await
    }

    /// Returns one page of the links to a tree, revoked ones included.
    pub async fn shares(&self, caller: &Caller, id: Uuid, part: PageRange) -> Result<Vec<Share>> {
        caller.require(Scope::JobsRead)?;
        let location = self.visible_root(caller, id, "shared").await?;
        Ok(share_links::list(&self.0.core.pools.read, location.root_id, part).await?)
    }

    /// Returns one page of the links to all trees that are visible to the caller.
    pub async fn all_shares(&self, caller: &Caller, part: PageRange) -> Result<Vec<Share>> {
        caller.require(Scope::JobsRead)?;
        Ok(share_links::list_all(&self.0.core.pools.read, caller.visible_owner(), part).await?)
    }

    /// Revokes a link; streams opened through it end within seconds. Idempotent. Returns 404 if its tree is not visible
    /// to the caller.
    pub async fn revoke_share(&self, caller: &Caller, id: Uuid, reason: Option<&str>) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let share = self.visible_share(caller, id).await?;
        if share.revoked {
            return Ok(());
        }
        let reason = audit::reason_for(caller, share.owner_id, reason)?;
        let row = audit::row(caller, "job.unshare", share.owner_id, reason.as_deref());
        let core = Arc::clone(&self.0.core);
        in_task("revoking a link", async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            if share_links::revoke(&mut tx, id).await? {
                if let Some(row) = row {
                    audit_log::record(&mut tx, &row.about(share.root_id, share.root_id, None)).await?;
                }
                people::count_change(&mut tx).await?;
            }
            crate::store::commit(tx).await?;
            Ok(())
        })
        .await
    }

    /// Root of the tree that a link shows.
    pub async fn share_root(&self, caller: &Caller, id: Uuid) -> Result<Uuid> {
        Ok(self.visible_share(caller, id).await?.root_id)
    }

    async fn visible_share(&self, caller: &Caller, id: Uuid) -> Result<ShareRow> {
        let none = || Problem::not_found("share");
        let share = share_links::find(&self.0.core.pools.read, id).await?.ok_or_else(none)?;
        if caller.visible_owner().is_some_and(|owner| owner != share.owner_id) {
            return Err(none().into());
        }
        Ok(share)
    }
}

/// Refuses callers who may not read, because a link shows its tree to them, too.
fn may_write_and_read(caller: &Caller) -> Result<(), Problem> {
    caller.require(Scope::JobsWrite)?;
    caller.require(Scope::JobsRead)
}

/// Time when a link expires, in the microseconds that are stored: as requested, else the default. 422 unless it is in the
/// future and not too far ahead.
fn expiry(requested: Option<Time>) -> Result<Time, Problem> {
    let now = OffsetDateTime::now_utc();
    let end = requested.map_or(now + Duration::days(SHARED_DAYS), |time| time.0);
    if end > now && end <= now + Duration::days(SHARED_DAYS_AT_MOST) {
        return Ok(Time(end.replace_nanosecond(end.microsecond() * 1_000).unwrap_or(end)));
    }
    let expected = format!("expected a time from now on, at most {SHARED_DAYS_AT_MOST} days ahead");
    Err(Problem::invalid_body([("/expires_at".to_owned(), expected)]))
}
