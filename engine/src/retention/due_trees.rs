//! Trees whose next check is due: deletes those whose retention is over and reports those that have stalled
//! (`retention`, `alerts`).
//!
//! A tree is checked when its next check is due, then deferred to the next time at which anything could change; in
//! between it costs nothing. Deletion does not trust what was read here: it locks the root's job state row and checks
//! again (`retention_over` in `store/retention/deletion.rs`).

use std::{sync::Arc, time::Duration};

use domain::notify::alert::AlertKind;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    Core, Engine,
    error::Result,
    notify::alerts::count_new,
    store::{
        notify::{
            alerts::{self, RaiseRow},
            deliveries,
        },
        retention::{
            deletion,
            maintenance_checks::{self, DueTree, OpenTreeProgress},
        },
    },
    task::in_task,
};

/// Number of trees checked at once, and number of single-job trees deleted in one commit.
const TREES_AT_ONCE: i64 = 500;
const SMALL_TREES: usize = 100;

impl Engine {
    /// Checks the trees that are due and returns their number. An open tree without progress for `stalled_after` is
    /// stalled.
    pub async fn check_due_trees(&self, stalled_after: Duration) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        // In its own task, so that a shutdown cannot interrupt its transactions.
        in_task("checking due trees", async move { core.check_due_trees(stalled_after).await }).await
    }

    /// Deletes tombstones and cleared alerts after ninety days, and callbacks of deleted trees after thirty. Returns
    /// the number of rows.
    pub async fn delete_expired_records(&self) -> Result<usize> {
        let pool = &self.0.core.pools.read;
        let deleted = deletion::delete_old_tombstones(pool).await? + alerts::forget(pool).await?;
        Ok((deleted + deliveries::forget(pool).await?) as usize)
    }
}

impl Core {
    async fn check_due_trees(&self, stalled_after: Duration) -> Result<usize> {
        let mut found = 0;
        for scan in [1, 2] {
            let mut tx = crate::store::begin(&self.pools.read).await?;
            if let Some(n) = maintenance_checks::enter_roots(&mut tx, scan, stalled_after.as_secs_f64()).await? {
                crate::store::commit(tx).await?;
                found = found.max(n as usize);
            }
        }
        let mut tx = crate::store::begin(&self.pools.read).await?;
        let due = maintenance_checks::take_due(&mut tx, TREES_AT_ONCE).await?;
        if due.is_empty() {
            return Ok(found);
        }
        found = found.max(due.len());
        let open: Vec<Uuid> = due.iter().filter(|row| is_open(row)).filter_map(|row| row.root_id).collect();
        let open = if open.is_empty() { Vec::new() } else { maintenance_checks::open_trees(&mut tx, &open).await? };
        let mut small: Vec<Uuid> = Vec::new();
        let mut large: Vec<Uuid> = Vec::new();
        let mut stalled: Vec<RaiseRow> = Vec::new();
        let mut next_checks: Vec<(i64, Option<OffsetDateTime>)> = Vec::new();
        for row in &due {
            let tree = open.iter().find(|tree| Some(tree.root_id) == row.root_id);
            match due_action(row, tree, stalled_after) {
                DueAction::Delete => {
                    let trees = if row.solo { &mut small } else { &mut large };
                    trees.extend(row.root_id);
                }
                DueAction::At(at) => next_checks.push((row.job_key, at)),
                DueAction::Stalled(at) => {
                    next_checks.push((row.job_key, Some(at)));
                    stalled.extend(stalled_alert(row));
                }
            }
        }
        let (job_keys, times): (Vec<i64>, Vec<Option<OffsetDateTime>>) = next_checks.into_iter().unzip();
        maintenance_checks::reschedule(&mut tx, &job_keys, &times).await?;
        let mut new_alerts = Vec::with_capacity(stalled.len());
        for row in &stalled {
            // In this transaction: without the alert, the tree stays due.
            new_alerts.push(alerts::raise(&mut *tx, row, false).await?);
        }
        crate::store::commit(tx).await?;

        for (row, is_new) in stalled.iter().zip(new_alerts) {
            count_new(is_new, row.kind);
        }
        let mut deleted = 0;
        for trees in small.chunks(SMALL_TREES).chain(large.chunks(1)) {
            match self.delete_due(trees).await {
                Ok(n) => deleted += n,
                // Their next check is in a minute; the others do not wait for it.
                Err(error) => {
                    tracing::warn!(%error, trees = trees.len(), "retention could not delete trees, will retry");
                }
            }
        }
        if deleted > 0 {
            tracing::info!(trees = deleted, "retention deleted trees");
        }
        Ok(found)
    }
}

fn is_open(row: &DueTree) -> bool {
    row.root_id.is_some() && !row.deleted && row.completed_at.is_none()
}

/// Next action for a tree that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DueAction {
    /// Delete the tree; its retention is over.
    Delete,
    /// Check the tree again at this time; `None` for never.
    At(Option<OffsetDateTime>),
    /// Report the tree as stalled; check it again at this time.
    Stalled(OffsetDateTime),
}

/// Decides by `retention`, as far as possible without a lock, and by `alerts` for open trees.
fn due_action(row: &DueTree, tree: Option<&OpenTreeProgress>, stalled_after: Duration) -> DueAction {
    const HOUR: Duration = Duration::from_hours(1);
    let later = |from: OffsetDateTime, wait: Duration| {
        time::Duration::try_from(wait).ok().and_then(|wait| from.checked_add(wait))
    };
    let retain = row.retain_seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    if row.root_id.is_none() || row.deleted {
        return DueAction::At(None);
    }
    if let Some(completed_at) = row.completed_at {
        let Some(retain) = retain else { return DueAction::At(None) };
        if row.has_holds || row.calling {
            return DueAction::At(later(row.now, Duration::from_mins(1)));
        }
        if row.pinned {
            return DueAction::At(later(row.now, HOUR.max(retain)));
        }
        return match later(completed_at, retain) {
            // A time beyond the calendar never comes.
            None => DueAction::At(None),
            Some(due) if due > row.now => DueAction::At(Some(due)),
            Some(_) => row.window_ends.map_or(DueAction::Delete, |ends| DueAction::At(Some(ends))),
        };
    }
    // An open tree is due `retain_seconds` from now at the earliest. If that is very soon, the interval grows with its
    // age.
    let age = row.created_at.and_then(|at| Duration::try_from(row.now - at).ok()).unwrap_or_default();
    let min_interval = (age / 10).clamp(Duration::from_secs(1), Duration::from_mins(1));
    let retention = retain.and_then(|retain| later(row.now, retain.max(min_interval)));
    let progress_at = tree.map_or(row.now, |tree| tree.progress_at);
    let stalls_at = later(progress_at, stalled_after);
    let at_earliest = |a: Option<OffsetDateTime>, b: Option<OffsetDateTime>| a.into_iter().chain(b).min();
    // A tree with a running item, or with only deferred ones, is not stalled.
    let has_work_in_progress = tree.is_none_or(|t| t.running > 0 || (t.deferred > 0 && t.available == 0));
    let soon = later(row.now, stalled_after.max(Duration::from_secs(1))).unwrap_or(row.now);
    if stalls_at.is_some_and(|at| at <= row.now) {
        let at = at_earliest(Some(soon), retention).unwrap_or(soon);
        return if has_work_in_progress { DueAction::At(Some(at)) } else { DueAction::Stalled(at) };
    }
    DueAction::At(at_earliest(stalls_at, retention))
}

fn stalled_alert(row: &DueTree) -> Option<RaiseRow> {
    let root_id = row.root_id?;
    let job = match (&row.name, &row.job_type) {
        (Some(name), _) => format!("The job {name:?}"),
        (None, Some(job_type)) => format!("A job of the type {job_type}"),
        (None, None) => "A job".to_owned(),
    };
    Some(RaiseRow {
        kind: AlertKind::Stalled,
        subject: root_id.to_string(),
        message: format!("{job} is open and nothing has happened in it for a while."),
        owner_id: row.owner_id,
        job_type: row.job_type.clone(),
        root_id: Some(root_id),
        job_id: Some(root_id),
        item_id: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALLED: Duration = Duration::from_hours(1);

    fn at(seconds: i64) -> OffsetDateTime {
        OffsetDateTime::from_unix_timestamp(1_800_000_000 + seconds).expect("a time")
    }

    /// Tree created at 0, checked an hour later, retained for ten seconds.
    fn row() -> DueTree {
        DueTree {
            job_key: 1,
            root_id: Some(Uuid::from_u128(1)),
            owner_id: None,
            job_type: None,
            name: None,
            solo: true,
            deleted: false,
            pinned: false,
            has_holds: false,
            calling: false,
            completed_at: Some(at(3_590)),
            created_at: Some(at(0)),
            retain_seconds: Some(10),
            window_ends: None,
            now: at(3_600),
        }
    }

    fn open(progress: i64, running: i64, deferred: i64) -> OpenTreeProgress {
        OpenTreeProgress { root_id: Uuid::from_u128(1), progress_at: at(progress), available: 0, running, deferred }
    }

    #[test]
    fn a_complete_tree_is_deleted_when_its_retention_is_over() {
        let next = |row: DueTree| due_action(&row, None, STALLED);
        assert_eq!(next(row()), DueAction::Delete);
        assert_eq!(next(DueTree { retain_seconds: Some(11), ..row() }), DueAction::At(Some(at(3_601))));
        assert_eq!(next(DueTree { retain_seconds: None, ..row() }), DueAction::At(None));
        assert_eq!(next(DueTree { retain_seconds: Some(i64::MAX), ..row() }), DueAction::At(None));
        assert_eq!(next(DueTree { window_ends: Some(at(9_000)), ..row() }), DueAction::At(Some(at(9_000))));
        assert_eq!(next(DueTree { pinned: true, ..row() }), DueAction::At(Some(at(7_200))));
        assert_eq!(next(DueTree { has_holds: true, ..row() }), DueAction::At(Some(at(3_660))));
        assert_eq!(next(DueTree { calling: true, ..row() }), DueAction::At(Some(at(3_660))));
        assert_eq!(next(DueTree { root_id: None, ..row() }), DueAction::At(None));
    }

    #[test]
    fn an_open_tree_is_checked_when_anything_could_change() {
        let next = |retain_seconds, tree: OpenTreeProgress| {
            due_action(&DueTree { completed_at: None, retain_seconds, ..row() }, Some(&tree), STALLED)
        };
        assert_eq!(next(Some(604_800), open(1_000, 0, 0)), DueAction::At(Some(at(4_600))));
        assert_eq!(next(Some(10), open(1_000, 0, 0)), DueAction::At(Some(at(3_660))));
        assert_eq!(next(None, open(0, 0, 0)), DueAction::Stalled(at(7_200)));
        assert_eq!(next(None, open(0, 1, 0)), DueAction::At(Some(at(7_200))));
        assert_eq!(next(None, open(0, 0, 3)), DueAction::At(Some(at(7_200))));
    }
}
