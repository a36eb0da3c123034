//! Completion of trees of several jobs: a transaction of its own after the one that ended the last
//! item. The answer to that ending waits for it; a sweep repairs what a crash left undone.

use uuid::Uuid;

use crate::{error::Result, store::gates};

use super::Core;

/// Settles jobs that look complete. Failures are logged and left to the sweep: the endings they follow
/// are committed already.
pub(super) async fn settle_all(core: &Core, jobs: &[(i64, Uuid)]) {
    for &(gate_id, root_id) in jobs {
        if let Err(error) = settle(core, gate_id, root_id).await {
            tracing::warn!(%error, gate_id, "a job could not be settled; the sweep will try again");
        }
    }
}

async fn settle(core: &Core, gate_id: i64, root_id: Uuid) -> Result<()> {
    let mut tx = core.pools.hot.begin().await?;
    gates::settle(&mut tx, gate_id, root_id).await?;
    tx.commit().await?;
    core.hub.touch(&[root_id]);
    Ok(())
}
