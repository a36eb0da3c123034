//! Notices to people about the trees that they watch (`notices`): watching, listing, reading, and the search for trees
//! that need attention. Settings and messages are the server's.

use std::sync::Arc;

use domain::{
    Code, Problem,
    notice::{JobWatch, Notice, NoticeList},
    query::topic::Topic,
};
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::Result,
    store::{
        notify::notices::{self, AttentionScan},
        page_range::PageRange,
    },
    task::in_task,
};

/// Number of notices in the list of every page.
const SHOWN: i64 = 15;

/// Refuses services: 403 `forbidden`.
pub fn require_person(caller: &Caller) -> Result<(), Problem> {
    let refused = || Problem::new(Code::Forbidden, "Only people have notices.");
    if caller.role.is_some() { Ok(()) } else { Err(refused()) }
}

impl Engine {
    /// Watches a tree, or stops watching it. Idempotent.
    pub async fn watch_job(&self, caller: &Caller, id: Uuid, watching: bool) -> Result<JobWatch> {
        require_person(caller)?;
        caller.require(Scope::JobsRead)?;
        let location = self.visible_root(caller, id, "watched").await?;
        let (core, owner_id) = (Arc::clone(&self.0.core), caller.owner_id);
        in_task("watching a tree", async move {
            if !watching {
                return Ok(notices::unwatch(&core.pools.read, location.root_id, owner_id).await?);
            }
            let mut tx = crate::store::begin(&core.pools.read).await?;
            notices::watch(&mut tx, location.job_key, location.root_id, owner_id).await?;
            crate::store::commit(tx).await?;
            Ok(())
        })
        .await?;
        Ok(JobWatch { watching })
    }

    /// Returns whether the caller watches a tree.
    pub async fn job_watch(&self, caller: &Caller, id: Uuid) -> Result<JobWatch> {
        require_person(caller)?;
        caller.require(Scope::JobsRead)?;
        let location = self.visible_root(caller, id, "watched").await?;
        let watching = notices::is_watched(&self.0.core.pools.read, location.root_id, caller.owner_id).await?;
        Ok(JobWatch { watching })
    }

    /// Returns a page of the caller's notices.
    pub async fn notices(&self, caller: &Caller, part: PageRange) -> Result<Vec<Notice>> {
        require_person(caller)?;
        Ok(notices::list(&self.0.core.pools.read, caller.owner_id, caller.sees_all(), part).await?)
    }

    /// Returns the caller's newest notices, and how many are unread.
    pub async fn notice_list(&self, caller: &Caller) -> Result<NoticeList> {
        require_person(caller)?;
        let (pool, owner_id, sees_all) = (&self.0.core.pools.read, caller.owner_id, caller.sees_all());
        let (data, unread, settings) = futures::try_join!(
            notices::list(pool, owner_id, sees_all, PageRange::newest(None, SHOWN)),
            notices::unread(pool, owner_id, sees_all),
            notices::find_settings(pool, owner_id)
        )?;
        Ok(NoticeList { data, unread, browser: settings.browser })
    }

    /// Marks notices of the caller as read: those with these ids, or all. Idempotent.
    pub async fn read_notices(&self, caller: &Caller, ids: Option<&[Uuid]>) -> Result<()> {
        require_person(caller)?;
        self.mark_read(caller, ids, None).await
    }

    /// Marks the caller's notices about a tree as read.
    pub async fn read_notices_of(&self, caller: &Caller, root_id: Uuid) -> Result<()> {
        if caller.role.is_none() {
            return Ok(());
        }
        self.mark_read(caller, None, Some(root_id)).await
    }

    async fn mark_read(&self, caller: &Caller, ids: Option<&[Uuid]>, root_id: Option<Uuid>) -> Result<()> {
        let core = &self.0.core;
        if notices::mark_read(&core.pools.read, caller.owner_id, ids, root_id).await? > 0 {
            core.live.changed(Topic::Notices);
        }
        Ok(())
    }

    /// Searches watched trees after a root for those that need attention, and writes notices.
    pub async fn scan_for_attention(&self, after: Option<Uuid>) -> Result<AttentionScan> {
        let core = Arc::clone(&self.0.core);
        in_task("searching for trees that need attention", async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            let scan = notices::scan_for_attention(&mut tx, after.unwrap_or_default()).await?;
            crate::store::commit(tx).await?;
            if scan.found > 0 {
                core.delivery_requested.notify_one();
            }
            Ok(scan)
        })
        .await
    }

    /// Deletes old notices. Returns their number.
    pub async fn delete_old_notices(&self) -> Result<usize> {
        Ok(notices::delete_old(&self.0.core.pools.read).await? as usize)
    }

    /// Returns the notices of the last few seconds, each with its person.
    pub async fn recent_notices(&self) -> Result<Vec<(Uuid, Uuid)>> {
        Ok(notices::recent(&self.0.core.pools.read).await?)
    }
}
