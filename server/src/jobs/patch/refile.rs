//! Placement of edited waiting rows, with the counters of their job in the same transaction.
//!
//! The job state row is updated last and refuses a canceled job, so a row that is taken and put back cannot escape the
//! propagation that ends the rows of a canceled job.

use std::collections::HashMap;

use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        Tx,
        gates::{self, Delta},
        items::{self, DeferredRow, ReadyRow},
        leases,
        patch::{self, ItemRow},
    },
};

use super::super::Core;

/// Result of moving edited rows.
#[derive(Default)]
pub(super) struct Refiled {
    /// Number of rows that were waiting.
    pub(super) moved: usize,
    /// Types and positions where claims may find new items.
    ready: Vec<(i32, leases::Mark)>,
}

impl Refiled {
    pub(super) fn after_commit(&self, core: &Core) {
        for &(type_id, mark) in &self.ready {
            core.marks.added(type_id, mark);
            core.waiters.wake(type_id, 1);
            core.hub.work_added(type_id);
        }
    }
}

impl Core {
    /// Moves the waiting ones of these items to the place of their new priority and times; `rows` are of one job,
    /// sorted by id. `None` if the job is canceled or removed: nothing may be committed then.
    pub(super) async fn refile(&self, tx: &mut Tx, gate_id: i64, rows: &[ItemRow]) -> Result<Option<Refiled>> {
        let ids: Vec<Uuid> = rows.iter().map(|row| row.id).collect();
        let wanted: HashMap<Uuid, &ItemRow> = rows.iter().map(|row| (row.id, row)).collect();
        let now = items::now(tx).await?;
        let held = patch::held_by_after(tx, gate_id).await?;
        let mut delta = Delta::default();
        let (mut ready, mut deferred) = (Vec::new(), Vec::new());
        let mut turns: HashMap<(i32, i16), i64> = HashMap::new();
        for row in patch::take_ready(tx, &ids).await? {
            let Some(new) = wanted.get(&row.item_id) else { continue };
            let mut put = ReadyRow { rank: -new.priority, expires_at: new.expires_at, ..row };
            if let Some(due_at) = new.run_after.filter(|at| *at > now) {
                delta.counts.available -= 1;
                delta.counts.scheduled += 1;
                deferred.push(put_off(put, due_at));
            } else {
                if put.rank != row.rank {
                    put.turn = put.turn.max(self.lowest_turn(tx, &mut turns, put.type_id, put.rank).await?);
                }
                ready.push(put);
            }
        }
        for row in patch::take_deferred(tx, &ids).await? {
            let Some(new) = wanted.get(&row.item_id) else { continue };
            let mut put = DeferredRow { rank: -new.priority, expires_at: new.expires_at, ..row };
            if row.retryable {
                // The backoff still applies.
                put.due_at = new.run_after.map_or(row.due_at, |at| at.max(row.due_at));
                deferred.push(put);
            } else if let Some(due_at) = new.run_after.filter(|at| *at > now) {
                put.due_at = due_at;
                deferred.push(put);
            } else if held || row.lane_id.is_some() {
                // The sweep of due items checks the other reasons to hold it.
                put.due_at = now;
                deferred.push(put);
            } else {
                delta.counts.scheduled -= 1;
                delta.counts.available += 1;
                let turn = self.lowest_turn(tx, &mut turns, put.type_id, put.rank).await?;
                ready.push(made_due(put, turn));
            }
        }
        let blocked = patch::change_blocked(tx, rows).await?;
        self.make_ready(tx, &ready).await?;
        items::defer(tx, &deferred).await?;
        let moved = ready.len() + deferred.len() + blocked.len();
        if gates::apply(tx, &[(gate_id, delta)]).await?.is_empty() {
            return Ok(None);
        }
        let mut marks: Vec<(i32, leases::Mark)> = Vec::new();
        for row in &ready {
            let mark = leases::Mark { rank: row.rank, turn: row.turn };
            match marks.iter_mut().find(|(type_id, _)| *type_id == row.type_id) {
                Some((_, lowest)) => *lowest = mark.min(*lowest),
                None => marks.push((row.type_id, mark)),
            }
        }
        Ok(Some(Refiled { moved, ready: marks }))
    }

    /// Fair turn that is being served at a rank; later items must not go first.
    async fn lowest_turn(
        &self,
        tx: &mut Tx,
        known: &mut HashMap<(i32, i16), i64>,
        type_id: i32,
        rank: i16,
    ) -> Result<i64> {
        if let Some(&turn) = known.get(&(type_id, rank)) {
            return Ok(turn);
        }
        let from = self.marks.turn(type_id, rank);
        let turn = items::current_turn(tx, type_id, rank, from).await?.unwrap_or(from.max(0));
        known.insert((type_id, rank), turn);
        Ok(turn)
    }
}

fn put_off(row: ReadyRow, due_at: OffsetDateTime) -> DeferredRow {
    let ReadyRow { item_id, gate_id, type_id, rank, turn: _, expires_at, attempts, failures, lane_id } = row;
    let retryable = false;
    DeferredRow { item_id, gate_id, type_id, rank, due_at, expires_at, attempts, failures, retryable, lane_id }
}

fn made_due(row: DeferredRow, turn: i64) -> ReadyRow {
    let DeferredRow { item_id, gate_id, type_id, rank, expires_at, attempts, failures, lane_id, .. } = row;
    ReadyRow { item_id, gate_id, type_id, rank, turn, expires_at, attempts, failures, lane_id }
}
