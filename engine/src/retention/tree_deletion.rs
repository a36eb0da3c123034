//! Deletion of trees: by `DELETE`, or because their retention is over (`retention`).
//!
//! One commit deletes a tree: tombstone, 410s, keys released, totals counted. Its rows are purged in batches that any
//! server may run; each starts where the previous one committed. `due_trees` finds the trees whose retention may be
//! over; `deletion::retention_over` decides under their locks.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use domain::{Code, Problem};
use uuid::Uuid;

use crate::{
    Core, Engine,
    access::caller::{Caller, Scope},
    error::{Error, Result},
    notify::audit,
    store::{
        Tx,
        import::uploads,
        notify::{
            audit::{self as audit_log, AuditRow},
            deliveries, notices,
        },
        query::daily_totals,
        retention::deletion::{self, JobLocation, LockedTreeJob},
    },
    task::in_task,
    tree::{bulk_tally::Tally, propagation},
};

/// Time for which a deletion helps to propagate a cancellation before it asks the client to try again. The rows are not
/// simply deleted, because others may wait behind them for a serialize key.
const MAX_WAIT: Duration = Duration::from_secs(8);

/// Maximum number of items purged in one transaction, and of jobs that it reads.
const MOST_ITEMS: i64 = 2_000;
const MOST_JOBS: i64 = 200;

impl Engine {
    /// Deletes a complete tree at once. Owners may delete their own, admins any, with a reason if it is not theirs.
    /// Returns 409 `not_root` or `job_not_complete`, or 410 `job_removed` if it is already deleted.
    pub async fn delete_tree(&self, caller: &Caller, id: Uuid, reason: Option<&str>) -> Result<()> {
        self.delete_tree_for(caller, id, reason, None).await
    }

    /// Same for a member of a bulk operation, which `tally` counts. The audit log then has only the operation.
    pub(crate) async fn delete_tree_for(
        &self,
        caller: &Caller,
        id: Uuid,
        reason: Option<&str>,
        tally: Option<Tally>,
    ) -> Result<()> {
        caller.require(Scope::JobsWrite)?;
        let location = self.visible_root(caller, id, "removed").await?;
        if !caller.is_admin() && caller.owner_id != location.owner_id {
            return Err(Error::refuse(Code::Forbidden, "Only its owner and admins may delete a tree."));
        }
        let reason = audit::reason_for(caller, location.owner_id, reason)?;
        let row = audit::row(caller, "job.delete", location.owner_id, reason.as_deref())
            .filter(|_| tally.is_none())
            .map(|row| row.about(location.root_id, id, None));
        let core = Arc::clone(&self.0.core);
        // In its own task: a client that disconnects cannot leave a transaction open.
        in_task("deleting a tree", async move { core.delete_now(location, row, tally).await }).await
    }

    /// Root of a tree to act on. Returns 404 if it is not visible, 410 if it is deleted, 409 if it is not a root.
    pub(crate) async fn visible_root(&self, caller: &Caller, id: Uuid, verb: &str) -> Result<JobLocation> {
        let location = deletion::find(&self.0.core.pools.read, id).await?;
        let visible = |location: &JobLocation| caller.visible_owner().is_none_or(|owner| owner == location.owner_id);
        let Some(location) = location.filter(visible) else { return Err(Problem::not_found("job").into()) };
        if location.is_deleted {
            return Err(tree_deleted());
        }
        if !location.is_root {
            let detail = format!("Only whole trees are {verb}; its root is {}.", location.root_id);
            return Err(Problem { id: Some(location.root_id), ..Problem::new(Code::NotRoot, detail) }.into());
        }
        Ok(location)
    }

    /// Purges one batch of rows of deleted trees. Returns the number of rows of items and jobs.
    pub async fn purge_deleted_trees(&self) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        in_task("purging rows", async move { core.purge_rows().await }).await
    }
}

impl Core {
    async fn delete_now(&self, location: JobLocation, row: Option<AuditRow>, tally: Option<Tally>) -> Result<()> {
        let deadline = Instant::now() + MAX_WAIT;
        loop {
            let mut tx = crate::store::begin(&self.pools.read).await?;
            deletion::lock_keys(&mut tx, &[location.root_id]).await?;
            let job_states = deletion::lock_trees(&mut tx, &[location.root_id]).await?;
            // The state may have changed since the caller was admitted: the root's job state row decides.
            match job_states.first() {
                None => return Err(tree_deleted()),
                Some(root) if root.deleted => return Err(tree_deleted()),
                Some(root) if root.completed_at.is_none() || root.holds > 0 => {
                    return Err(Error::refuse(
                        Code::JobNotComplete,
                        "Only complete trees are removed. Cancel it first, or wait until it is complete.",
                    ));
                }
                Some(_) => {}
            }
            let propagating = deletion::propagating_jobs(&mut tx, &ids(&job_states)).await?;
            if propagating.is_empty() {
                self.delete_trees(&mut tx, &job_states).await?;
                if let Some(row) = row {
                    audit_log::record(&mut tx, &row).await?;
                }
                if let Some(tally) = tally {
                    // Operations on jobs hold no trees.
                    tally.write(self, &mut tx, &BTreeMap::new()).await?;
                }
                crate::store::commit(tx).await?;
                self.live.touch(&[location.root_id]);
                tracing::info!(root_id = %location.root_id, "tree deleted");
                return Ok(());
            }
            tx.rollback().await?;
            if Instant::now() > deadline {
                return Err(Error::refuse(
                    Code::JobNotComplete,
                    "Canceled items of this tree are still being removed from the queue. Try again in a few seconds.",
                ));
            }
            propagation::first_steps(self, &propagating).await;
        }
    }

    /// Deletes those of these trees whose retention is over now, in one commit. Returns their number.
    pub(crate) async fn delete_due(&self, root_ids: &[Uuid]) -> Result<usize> {
        let mut tx = crate::store::begin(&self.pools.read).await?;
        deletion::lock_keys(&mut tx, root_ids).await?;
        let mut trees: BTreeMap<Uuid, Vec<LockedTreeJob>> = BTreeMap::new();
        for job_state in deletion::lock_trees(&mut tx, root_ids).await? {
            trees.entry(job_state.root_id).or_default().push(job_state);
        }
        let expired = deletion::retention_over(&mut tx, root_ids).await?;
        let propagating = deletion::propagating_jobs(
            &mut tx,
            &trees.values().flat_map(|job_states| ids(job_states)).collect::<Vec<_>>(),
        )
        .await?;
        trees.retain(|root_id, job_states| {
            let root = job_states.first();
            expired.contains(root_id)
                && job_states.iter().all(|job_state| !propagating.contains(&job_state.job_key))
                && root.is_some_and(|g| g.completed_at.is_some() && !g.deleted && !g.pinned && g.holds == 0)
        });
        if trees.is_empty() {
            return Ok(0);
        }
        let job_states: Vec<LockedTreeJob> = trees.values().flatten().copied().collect();
        self.delete_trees(&mut tx, &job_states).await?;
        crate::store::commit(tx).await?;
        let deleted: Vec<Uuid> = trees.into_keys().collect();
        self.live.touch(&deleted);
        Ok(deleted.len())
    }

    /// Deletes trees whose job state rows are locked.
    async fn delete_trees(&self, tx: &mut Tx, job_states: &[LockedTreeJob]) -> Result<()> {
        let mut job_keys = ids(job_states);
        job_keys.sort_unstable();
        deletion::write_tombstones(tx, &job_keys).await?;
        let root_ids: BTreeSet<Uuid> = job_states.iter().map(|job_state| job_state.root_id).collect();
        notices::forget_trees(tx, &root_ids.into_iter().collect::<Vec<_>>()).await?;
        deliveries::keep_after_tree(tx, &job_keys).await?;
        daily_totals::count(tx, &job_keys).await?;
        Ok(deletion::forget_errors(tx, &job_keys).await?)
    }

    async fn purge_rows(&self) -> Result<usize> {
        let mut tx = crate::store::begin(&self.pools.read).await?;
        let jobs = deletion::take_purges(&mut tx, MOST_JOBS).await?;
        let mut items: Vec<Uuid> = Vec::new();
        // Jobs without further items, and the job whose items did not all fit.
        let mut empty: Vec<i64> = Vec::new();
        let mut rest: Option<(i64, i64)> = None;
        for (job_key, after) in jobs {
            let room = MOST_ITEMS - items.len() as i64;
            let found = deletion::items(&mut tx, job_key, after, room).await?;
            items.extend(found.iter().map(|(id, _)| *id));
            match found.last() {
                Some(&(_, seq)) if found.len() as i64 == room => {
                    rest = Some((job_key, seq));
                    break;
                }
                _ => empty.push(job_key),
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
        if deletion::remove_history(&mut tx, &items).await? {
            deletion::remove_items(&mut tx, &items).await?;
            if let Some((job_key, seq)) = rest {
                deletion::advance_purge(&mut tx, job_key, seq).await?;
            }
            if deletion::remove_keys(&mut tx, &empty).await? {
                let files = uploads::lock_of_jobs(&mut tx, &empty).await?;
                deletion::remove_jobs(&mut tx, &empty).await?;
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

fn ids(job_states: &[LockedTreeJob]) -> Vec<i64> {
    job_states.iter().map(|job_state| job_state.job_key).collect()
}

/// Problem 410 for callers that were allowed to see the tree.
fn tree_deleted() -> Error {
    Error::refuse(Code::JobRemoved, "The tree was deleted by a person, or because its retention period ended.")
}
