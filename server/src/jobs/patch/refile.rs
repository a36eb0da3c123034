//! Waiting rows, put where they now belong, with the counters of their job in the same transaction.
//!
//! The gate comes last and refuses a job that was cancelled: so a row that was taken and put back cannot
//! slip past those that end the rows of a cancelled job.

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

/// What became of rows that were edited.
#[derive(Default)]
pub(super) struct Refiled {
    /// How many were waiting.
    pub(super) moved: usize,
    /// Types and places where claims may find something new.
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
    /// Puts the waiting ones of these items where their new priority and times want them; `rows` of one
    /// job, sorted by id. `None` when the job is cancelled or removed: then nothing may be committed.
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
                // Its backoff holds as well.
                put.due_at = new.run_after.map_or(row.due_at, |at| at.max(row.due_at));
                deferred.push(put);
            } else if let Some(due_at) = new.run_after.filter(|at| *at > now) {
                put.due_at = due_at;
                deferred.push(put);
            } else if held || row.lane_id.is_some() {
                // The sweep knows what else holds it.
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

    /// The turn that is being served at a rank: who comes there later does not go first.
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
