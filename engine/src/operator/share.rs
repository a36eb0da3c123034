//! Links that show one tree to anyone who has them: creation, list, revocation.
//!
//! Anyone who may write to a tree can create a link to the whole tree; for another owner's tree that takes a reason,
//! like every other action. The HTTP layer decides what a link gives access to. Deleting a tree needs no cleanup here,
//! because every use of a link looks the tree up.

use std::sync::Arc;

use domain::{
    Problem, Time,
    job::Owner,
    tree::share::{SHARED_DAYS, SHARED_DAYS_AT_MOST, Share, ShareBody, ShareMade},
};
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::Result,
    notify::audit,
    secrets::{hash_of, new_secret},
    store::{
        access::people,
        notify::audit as audit_log,
        operator::shares::{self, NewShare, ShareRow},
        pagination::PageRange,
    },
    stored_response::ResponseSlot,
    task::in_task,
};

impl Engine {
    /// Checks that the caller may share a tree. Returns 404, 410 and 409 `not_root` as for every action on a root.
    pub async fn may_share(&self, caller: &Caller, id: Uuid) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
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
        caller.require(Scope::JobsWrite)?;
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
            expires_at: expires_at.0,
        };
        let core = Arc::clone(&self.0.core);
        let created = ShareMade { id: share_id, url: format!("{base}/s/{secret}"), expires_at };
        in_task("making a link", async move {
            let mut tx = core.pools.read.begin().await?;
            shares::insert(&mut tx, &new).await?;
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
        Ok(shares::list(&self.0.core.pools.read, location.root_id, part).await?)
    }

    /// Returns one page of the links to all trees that are visible to the caller.
    pub async fn all_shares(&self, caller: &Caller, part: PageRange) -> Result<Vec<Share>> {
        caller.require(Scope::JobsRead)?;
        Ok(shares::list_all(&self.0.core.pools.read, caller.visible_owner(), part).await?)
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
            let mut tx = core.pools.read.begin().await?;
            if shares::revoke(&mut tx, id).await? {
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
        let share = shares::find(&self.0.core.pools.read, id).await?.ok_or_else(none)?;
        if caller.visible_owner().is_some_and(|owner| owner != share.owner_id) {
            return Err(none().into());
        }
        Ok(share)
    }
}

/// Time when a link expires: as requested, else the default. 422 unless it is in the future and not too far ahead.
fn expiry(requested: Option<Time>) -> Result<Time, Problem> {
    let now = OffsetDateTime::now_utc();
    let Some(requested) = requested else { return Ok(Time(now + Duration::days(SHARED_DAYS))) };
    if requested.0 > now && requested.0 <= now + Duration::days(SHARED_DAYS_AT_MOST) {
        return Ok(requested);
    }
    let expected = format!("expected a time from now on, at most {SHARED_DAYS_AT_MOST} days ahead");
    Err(Problem::invalid_body([("/expires_at".to_owned(), expected)]))
}
