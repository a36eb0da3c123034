//! Pinned trees: exempt from retention until they are unpinned (`retention`).

use domain::Job;
use uuid::Uuid;

use crate::{
    Engine,
    access::caller::{Caller, Scope},
    error::Result,
    notify::audit,
    store::{
        notify::audit as audit_log,
        retention::{deletion, maintenance_checks},
    },
    task::in_task,
};

impl Engine {
    /// Pins a tree, or unpins it. Idempotent. Staff may do so for others and may give a reason.
    pub async fn pin(&self, caller: &Caller, id: Uuid, pinned: bool, reason: Option<&str>) -> Result<Job> {
        caller.require(Scope::JobsWrite)?;
        let location = self.visible_root(caller, id, "pinned").await?;
        // Nothing is lost by pinning, so no reason is required; a given one is recorded.
        let reason = audit::reason_for(caller, caller.owner_id, reason)?;
        let action = if pinned { "job.pin" } else { "job.unpin" };
        let row = audit::row(caller, action, location.owner_id, reason.as_deref());
        let core = std::sync::Arc::clone(&self.0.core);
        let changed = in_task("pinning a tree", async move {
            let mut tx = crate::store::begin(&core.pools.read).await?;
            let changed = deletion::set_pinned(&mut tx, location.job_key, pinned).await?;
            if let (true, Some(row)) = (changed, row) {
                audit_log::record(&mut tx, &row.about(location.root_id, id, None)).await?;
            }
            crate::store::commit(tx).await?;
            if changed {
                core.live.touch(&[location.root_id]);
            }
            if changed && !pinned {
                // After the commit: retention holds this row while it waits for job state rows.
                maintenance_checks::check_now(&core.pools.read, location.job_key).await?;
            }
            Ok(changed)
        })
        .await?;
        if !changed {
            // Unchanged because it was so already, or because the tree is gone; the latter is refused here.
            self.visible_root(caller, id, "pinned").await?;
        }
        self.changed_job(caller, id, true).await
    }
}
