//! Deletion of trees: by `DELETE`, or because their retention is over (`retention`).
//!
//! One commit deletes a tree: tombstone, 410s, keys released, totals counted. Its rows are purged in batches that any
//! server may run; each starts where the previous one committed. `tree_maintenance` decides automatic deletion.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use domain::{Code, Problem};
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::{Error, Result},
    store::{
        Tx,
        audit::{self as log, AuditRow},
        deliveries,
        retention::{self, LockedGate, Place},
        tended, totals, uploads,
    },
    task::in_task,
};

use super::{
    Core, Engine,
    audit::{self, Recorded},
    carry,
};

/// Time for which a deletion helps to propagate a cancellation before it asks the client to try again. The rows are not
/// simply deleted, because others may wait behind them for a serialize key.
const PATIENCE: Duration = Duration::from_secs(8);

/// Maximum number of items purged in one transaction, and of jobs that it reads.
const ITEMS: i64 = 2_000;
const JOBS: i64 = 200;

impl Engine {
    /// Deletes a complete tree at once. Owners may delete their own, admins any, with a reason if it is not theirs.
    /// Returns 409 `not_root` or `job_not_complete`, or 410 `job_removed` if it is already deleted.
    pub async fn remove(&self, caller: &Caller, id: Uuid, reason: Option<&str>) -> Result<()> {
        self.remove_for(caller, id, reason, Recorded::Here).await
    }

    pub(super) async fn remove_for(
        &self,
        caller: &Caller,
        id: Uuid,
        reason: Option<&str>,
        recorded: Recorded,
    ) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let place = self.own_root(caller, id, "removed").await?;
        if !caller.is_admin() && caller.owner_id != place.owner_id {
            return Err(Error::refuse(Code::Forbidden, "Only its owner and admins may delete a tree."));
        }
        let reason = audit::reason_for(caller, place.owner_id, reason)?;
        let row = audit::row(caller, "job.delete", place.owner_id, reason.as_deref())
            .filter(|_| recorded == Recorded::Here)
            .map(|row| row.about(place.root_id, id, None));
        let core = Arc::clone(&self.0.core);
        // In its own task: a client that disconnects cannot leave a transaction open.
        in_task("deleting a tree", async move { core.remove_now(place, row).await }).await
    }

    /// Root of a tree to act on. Returns 404 if it is not visible, 410 if it is deleted, 409 if it is not a root.
    pub(super) async fn own_root(&self, caller: &Caller, id: Uuid, verb: &str) -> Result<Place> {
        let place = retention::find(&self.0.core.pools.read, id).await?;
        let visible = |place: &Place| caller.visible_owner().is_none_or(|owner| owner == place.owner_id);
        let Some(place) = place.filter(visible) else { return Err(Problem::not_found("job").into()) };
        if place.is_removed {
            return Err(gone());
        }
        if !place.is_root {
            let detail = format!("Only whole trees are {verb}; its root is {}.", place.root_id);
            return Err(Problem { id: Some(place.root_id), ..Problem::new(Code::NotRoot, detail) }.into());
        }
        Ok(place)
    }

    /// Purges one batch of rows of deleted trees. Returns the number of rows of items and jobs.
    pub async fn sweep_removed(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        in_task("purging rows", async move { core.remove_rows().await }).await
    }
}

impl Core {
    async fn remove_now(&self, place: Place, row: Option<AuditRow>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut tx = self.pools.read.begin().await?;
            retention::lock_keys(&mut tx, &[place.root_id]).await?;
            let gates = retention::lock_trees(&mut tx, &[place.root_id]).await?;
            // The state may have changed since the caller was admitted: the root's job state row decides.
            match gates.first() {
                None => return Err(gone()),
                Some(root) if root.removed => return Err(gone()),
                Some(root) if root.completed_at.is_none() || root.holds > 0 => {
                    return Err(Error::refuse(
                        Code::JobNotComplete,
                        "Only complete trees are removed. Cancel it first, or wait until it is complete.",
                    ));
                }
                Some(_) => {}
            }
            let walks = retention::walks(&mut tx, &ids(&gates)).await?;
            if walks.is_empty() {
                self.bury(&mut tx, &gates).await?;
                if let Some(row) = row {
                    log::record(&mut tx, &row).await?;
                }
                crate::store::commit(tx).await?;
                self.hub.touch(&[place.root_id]);
                tracing::info!(root_id = %place.root_id, "tree deleted");
                return Ok(());
            }
            tx.rollback().await?;
            if Instant::now() > deadline {
                return Err(Error::refuse(
                    Code::JobNotComplete,
                    "What was cancelled in the tree is still being put away. Try again in a while.",
                ));
            }
            carry::follow(self, &walks).await;
        }
    }

    /// Deletes those of these trees whose retention is over now, in one commit. Returns their number.
    pub(super) async fn remove_due(&self, root_ids: &[Uuid]) -> Result<usize> {
        let mut tx = self.pools.read.begin().await?;
        retention::lock_keys(&mut tx, root_ids).await?;
        let mut trees: BTreeMap<Uuid, Vec<LockedGate>> = BTreeMap::new();
        for gate in retention::lock_trees(&mut tx, root_ids).await? {
            trees.entry(gate.root_id).or_default().push(gate);
        }
        let over = tended::retention_over(&mut tx, root_ids).await?;
        let walks = retention::walks(&mut tx, &trees.values().flat_map(|gates| ids(gates)).collect::<Vec<_>>()).await?;
        trees.retain(|root_id, gates| {
            let root = gates.first();
            over.contains(root_id)
                && gates.iter().all(|gate| !walks.contains(&gate.gate_id))
                && root.is_some_and(|g| g.completed_at.is_some() && !g.removed && !g.keep && g.holds == 0)
        });
        if trees.is_empty() {
            return Ok(0);
        }
        let gates: Vec<LockedGate> = trees.values().flatten().copied().collect();
        self.bury(&mut tx, &gates).await?;
        crate::store::commit(tx).await?;
        let gone: Vec<Uuid> = trees.into_keys().collect();
        self.hub.touch(&gone);
        Ok(gone.len())
    }

    /// Deletes trees whose job state rows are locked.
    async fn bury(&self, tx: &mut Tx, gates: &[LockedGate]) -> Result<()> {
        let mut gate_ids = ids(gates);
        gate_ids.sort_unstable();
        retention::bury(tx, &gate_ids).await?;
        deliveries::outlive(tx, &gate_ids).await?;
        totals::count(tx, &gate_ids).await?;
        Ok(retention::forget_errors(tx, &gate_ids).await?)
    }

    async fn remove_rows(&self) -> Result<usize> {
        let mut tx = self.pools.read.begin().await?;
        let jobs = retention::take_removals(&mut tx, JOBS).await?;
        let mut items: Vec<Uuid> = Vec::new();
        // Jobs without further items, and the job whose items did not all fit.
        let mut empty: Vec<i64> = Vec::new();
        let mut rest: Option<(i64, i64)> = None;
        for (gate_id, after) in jobs {
            let room = ITEMS - items.len() as i64;
            let found = retention::items(&mut tx, gate_id, after, room).await?;
            items.extend(found.iter().map(|(id, _)| *id));
            match found.last() {
                Some(&(_, seq)) if found.len() as i64 == room => {
                    rest = Some((gate_id, seq));
                    break;
                }
                _ => empty.push(gate_id),
            }
        }
        if items.is_empty() && empty.is_empty() {
            return Ok(0);
        }
        items.sort_unstable();
        let found = items.len() + empty.len();
        let mut objects = Vec::new();
        // An item without a failure limit may have any number of attempts; then the next batch finds the same items
        // again.
        if retention::remove_history(&mut tx, &items).await? {
            retention::remove_items(&mut tx, &items).await?;
            if let Some((gate_id, seq)) = rest {
                retention::move_removal(&mut tx, gate_id, seq).await?;
            }
            if retention::remove_keys(&mut tx, &empty).await? {
                let files = uploads::lock_of_jobs(&mut tx, &empty).await?;
                retention::remove_jobs(&mut tx, &empty).await?;
                objects = uploads::forget_unreferenced(&mut tx, &files).await?;
            }
        }
        crate::store::commit(tx).await?;
        for object in objects {
            // A failure leaves an object without a row, which the cleanup of orphaned objects deletes.
            if let Err(error) = self.files.remove(object).await {
                tracing::warn!(%error, %object, "file deletion failed");
            }
        }
        Ok(found)
    }
}

fn ids(gates: &[LockedGate]) -> Vec<i64> {
    gates.iter().map(|gate| gate.gate_id).collect()
}

/// Problem 410 for callers that were allowed to see the tree.
fn gone() -> Error {
    Error::refuse(Code::JobRemoved, "The tree was removed: by somebody, or because its retention was over.")
}
