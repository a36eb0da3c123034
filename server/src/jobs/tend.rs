//! Maintenance of trees: deletes those whose retention is over and reports those that have stalled (`retention`,
//! `alerts`).
//!
//! A tree is checked when its next check is due, then deferred to the next time at which anything could change; in
//! between it costs nothing. Deletion does not trust what was read here: it locks the root's job state row and checks
//! again.

use std::{sync::Arc, time::Duration};

use domain::alert::AlertKind;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        alerts::{self, RaiseRow},
        deliveries, retention,
        tended::{self, DueRow, OpenTree},
    },
    task::in_task,
};

use super::{Core, Engine, alerts::counted};

/// Number of trees checked at once, and number of single-job trees deleted in one commit.
const LOOK: i64 = 500;
const SMALL_TREES: usize = 100;

impl Engine {
    /// Checks the trees that are due and returns their number. An open tree without progress for `stalled_after` is
    /// stalled.
    pub async fn tend(&self, stalled_after: Duration) -> Result<usize> {
        let core = Arc::clone(&self.0.core);
        // In its own task, so that a shutdown cannot interrupt its transactions.
        in_task("checking due trees", async move { core.tend(stalled_after).await }).await
    }

    /// Deletes tombstones and cleared alerts after ninety days, and callbacks of deleted trees after thirty. Returns
    /// the number of rows.
    pub async fn forget_old(&self) -> Result<usize> {
        let pool = &self.0.core.pools.read;
        let gone = retention::forget_removed(pool).await? + alerts::forget(pool).await?;
        Ok((gone + deliveries::forget(pool).await?) as usize)
    }
}

impl Core {
    async fn tend(&self, stalled_after: Duration) -> Result<usize> {
        let mut found = 0;
        for walk in [1, 2] {
            let mut tx = self.pools.read.begin().await?;
            if let Some(n) = tended::walk(&mut tx, walk, stalled_after.as_secs_f64()).await? {
                crate::store::commit(tx).await?;
                found = found.max(n as usize);
            }
        }
        let mut tx = self.pools.read.begin().await?;
        let due = tended::take_due(&mut tx, LOOK).await?;
        if due.is_empty() {
            return Ok(found);
        }
        found = found.max(due.len());
        let open: Vec<Uuid> = due.iter().filter(|row| is_open(row)).filter_map(|row| row.root_id).collect();
        let open = if open.is_empty() { Vec::new() } else { tended::open_trees(&mut tx, &open).await? };
        let mut small: Vec<Uuid> = Vec::new();
        let mut large: Vec<Uuid> = Vec::new();
        let mut stalled: Vec<RaiseRow> = Vec::new();
        let mut again: Vec<(i64, Option<OffsetDateTime>)> = Vec::new();
        for row in &due {
            let tree = open.iter().find(|tree| Some(tree.root_id) == row.root_id);
            match next_look(row, tree, stalled_after) {
                Next::Goes => {
                    let trees = if row.solo { &mut small } else { &mut large };
                    trees.extend(row.root_id);
                }
                Next::At(at) => again.push((row.gate_id, at)),
                Next::Stalled(at) => {
                    again.push((row.gate_id, Some(at)));
                    stalled.extend(stall(row));
                }
            }
        }
        let (gate_ids, times): (Vec<i64>, Vec<Option<OffsetDateTime>>) = again.into_iter().unzip();
        tended::look_again(&mut tx, &gate_ids, &times).await?;
        crate::store::commit(tx).await?;

        for row in &stalled {
            counted(alerts::raise(&self.pools.read, row, false).await?, row.kind);
        }
        let mut gone = 0;
        for trees in small.chunks(SMALL_TREES).chain(large.chunks(1)) {
            gone += self.remove_due(trees).await?;
        }
        if gone > 0 {
            tracing::info!(trees = gone, "retention deleted trees");
        }
        Ok(found)
    }
}

fn is_open(row: &DueRow) -> bool {
    row.root_id.is_some() && !row.removed && row.completed_at.is_none()
}

/// Next action for a tree that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Delete the tree; its retention is over.
    Goes,
    /// Check the tree again at this time; `None` for never.
    At(Option<OffsetDateTime>),
    /// Report the tree as stalled; check it again at this time.
    Stalled(OffsetDateTime),
}

/// Decides by `retention`, as far as possible without a lock, and by `alerts` for open trees.
fn next_look(row: &DueRow, tree: Option<&OpenTree>, stalled_after: Duration) -> Next {
    const HOUR: Duration = Duration::from_hours(1);
    let later = |from: OffsetDateTime, wait: Duration| {
        time::Duration::try_from(wait).ok().and_then(|wait| from.checked_add(wait))
    };
    let retain = row.retain_seconds.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()));
    if row.root_id.is_none() || row.removed {
        return Next::At(None);
    }
    if let Some(completed_at) = row.completed_at {
        let Some(retain) = retain else { return Next::At(None) };
        if row.held || row.calling {
            return Next::At(later(row.now, Duration::from_mins(1)));
        }
        if row.keep {
            return Next::At(later(row.now, HOUR.max(retain)));
        }
        return match later(completed_at, retain) {
            // A time beyond the calendar never comes.
            None => Next::At(None),
            Some(due) if due > row.now => Next::At(Some(due)),
            Some(_) => row.window_ends.map_or(Next::Goes, |ends| Next::At(Some(ends))),
        };
    }
    // An open tree is due `retain_seconds` from now at the earliest. If that is very soon, the interval grows with its
    // age.
    let age = row.created_at.and_then(|at| Duration::try_from(row.now - at).ok()).unwrap_or_default();
    let rarely = (age / 10).clamp(Duration::from_secs(1), Duration::from_mins(1));
    let retention = retain.and_then(|retain| later(row.now, retain.max(rarely)));
    let progress_at = tree.map_or(row.now, |tree| tree.progress_at);
    let stalls_at = later(progress_at, stalled_after);
    let at_earliest = |a: Option<OffsetDateTime>, b: Option<OffsetDateTime>| a.into_iter().chain(b).min();
    // A tree with a running item, or with only deferred ones, is not stalled.
    let moves = tree.is_none_or(|t| t.running > 0 || (t.deferred > 0 && t.available == 0));
    let soon = later(row.now, stalled_after.max(Duration::from_secs(1))).unwrap_or(row.now);
    if stalls_at.is_some_and(|at| at <= row.now) {
        let at = at_earliest(Some(soon), retention).unwrap_or(soon);
        return if moves { Next::At(Some(at)) } else { Next::Stalled(at) };
    }
    Next::At(at_earliest(stalls_at, retention))
}

fn stall(row: &DueRow) -> Option<RaiseRow> {
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
    fn row() -> DueRow {
        DueRow {
            gate_id: 1,
            root_id: Some(Uuid::from_u128(1)),
            owner_id: None,
            job_type: None,
            name: None,
            solo: true,
            removed: false,
            keep: false,
            held: false,
            calling: false,
            completed_at: Some(at(3_590)),
            created_at: Some(at(0)),
            retain_seconds: Some(10),
            window_ends: None,
            now: at(3_600),
        }
    }

    fn open(progress: i64, running: i64, deferred: i64) -> OpenTree {
        OpenTree { root_id: Uuid::from_u128(1), progress_at: at(progress), available: 0, running, deferred }
    }

    #[test]
    fn a_complete_tree_goes_when_its_retention_is_over() {
        let next = |row: DueRow| next_look(&row, None, STALLED);
        assert_eq!(next(row()), Next::Goes);
        assert_eq!(next(DueRow { retain_seconds: Some(11), ..row() }), Next::At(Some(at(3_601))));
        assert_eq!(next(DueRow { retain_seconds: None, ..row() }), Next::At(None));
        assert_eq!(next(DueRow { retain_seconds: Some(i64::MAX), ..row() }), Next::At(None));
        assert_eq!(next(DueRow { window_ends: Some(at(9_000)), ..row() }), Next::At(Some(at(9_000))));
        assert_eq!(next(DueRow { keep: true, ..row() }), Next::At(Some(at(7_200))));
        assert_eq!(next(DueRow { held: true, ..row() }), Next::At(Some(at(3_660))));
        assert_eq!(next(DueRow { calling: true, ..row() }), Next::At(Some(at(3_660))));
        assert_eq!(next(DueRow { root_id: None, ..row() }), Next::At(None));
    }

    #[test]
    fn an_open_tree_is_looked_at_when_anything_could_be_so() {
        let next = |retain_seconds, tree: OpenTree| {
            next_look(&DueRow { completed_at: None, retain_seconds, ..row() }, Some(&tree), STALLED)
        };
        assert_eq!(next(Some(604_800), open(1_000, 0, 0)), Next::At(Some(at(4_600))));
        assert_eq!(next(Some(10), open(1_000, 0, 0)), Next::At(Some(at(3_660))));
        assert_eq!(next(None, open(0, 0, 0)), Next::Stalled(at(7_200)));
        assert_eq!(next(None, open(0, 1, 0)), Next::At(Some(at(7_200))));
        assert_eq!(next(None, open(0, 0, 3)), Next::At(Some(at(7_200))));
    }
}
