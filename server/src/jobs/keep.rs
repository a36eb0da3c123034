//! A root that is kept: exempt from retention until somebody says otherwise (rule 20).

use domain::Job;
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::Result,
    store::{audit as log, retention, tended},
    task::in_task,
};

use super::{Engine, audit};

impl Engine {
    /// Keeps a tree, or no longer. Again is no change. Staff may do so for others and may say why.
    pub async fn keep(&self, caller: &Caller, id: Uuid, keep: bool, reason: Option<&str>) -> Result<Job> {
        caller.require(Scope::JobsWrite)?;
        let place = self.own_root(caller, id, "kept").await?;
        // Nothing is lost by keeping, so nobody has to say why; what is said is recorded.
        let said = audit::reason_for(caller, caller.owner_id, reason)?;
        let action = if keep { "job.keep" } else { "job.keep_no_longer" };
        let row = audit::row(caller, action, place.owner_id, said.as_deref());
        let core = std::sync::Arc::clone(&self.0.core);
        let changed = in_task("keeping a tree", async move {
            let mut tx = core.pools.read.begin().await?;
            let changed = retention::set_keep(&mut tx, place.gate_id, keep).await?;
            if let (true, Some(row)) = (changed, row) {
                log::record(&mut tx, &row.about(place.root_id, id, None)).await?;
            }
            crate::store::commit(tx).await?;
            if changed {
                core.hub.touch(&[place.root_id]);
            }
            if changed && !keep {
                // After the commit: whoever tends trees holds this row while it waits for gates.
                tended::look_now(&core.pools.read, place.gate_id).await?;
            }
            Ok(changed)
        })
        .await?;
        if !changed {
            // It was so already, or it went meanwhile: then this refuses.
            self.own_root(caller, id, "kept").await?;
        }
        self.changed_job(caller, id, true).await
    }
}
