//! Rows on their way into the tables: each item goes into exactly one state.

use std::collections::BTreeMap;

use domain::{Time, item::ItemState};
use uuid::Uuid;

use crate::store::{
    contracts::JobInfo,
    endings::FinalRow,
    gates::Delta,
    items::{DeferredRow, NewItemRow, ReadyRow},
    leases::Mark,
};

use super::super::prepare::Prepared;

/// Items of one tree that share a turn (rule 6): one a turn would make every batch touch as many gates
/// as items.
pub(super) const ITEMS_A_TURN: i64 = 10;

/// Rows on their way into the tables.
#[derive(Default)]
pub(super) struct Rows {
    pub(super) items: Vec<NewItemRow>,
    pub(super) ready: Vec<ReadyRow>,
    pub(super) deferred: Vec<DeferredRow>,
    pub(super) dead: Vec<FinalRow>,
}

impl Rows {
    #[expect(clippy::too_many_arguments, reason = "one item, and the counters it moves")]
    pub(super) fn place(
        &mut self,
        job: &JobInfo,
        item: &Prepared,
        seq: i64,
        turn: &mut i64,
        current: i64,
        now: Time,
        delta: &mut Delta,
    ) {
        let id = Uuid::now_v7();
        let (gate_id, type_id, rank) = (job.gate_id, job.type_id, -item.priority);
        if let Some(error) = &item.error {
            delta.counts.dead += 1;
            self.dead.push(FinalRow {
                item_id: id,
                gate_id,
                lease: None,
                attempt: 0,
                failures: 0,
                state: ItemState::Dead.code(),
                ended_as: None,
                worker_id: None,
                error: Some(error.clone()),
            });
        } else if let Some(due_at) = item.run_after.filter(|at| *at > now.0) {
            delta.counts.scheduled += 1;
            self.deferred.push(DeferredRow {
                item_id: id,
                gate_id,
                type_id,
                rank,
                due_at,
                expires_at: item.expires_at,
                attempts: 0,
                failures: 0,
                retryable: false,
            });
        } else {
            delta.counts.available += 1;
            *turn = (*turn).max(current) + 1;
            self.ready.push(ReadyRow {
                item_id: id,
                gate_id,
                type_id,
                rank,
                turn: (*turn - 1) / ITEMS_A_TURN,
                expires_at: item.expires_at,
                attempts: 0,
                failures: 0,
            });
        }
        self.items.push(NewItemRow {
            id,
            gate_id,
            seq,
            row: item.row,
            priority: item.priority,
            payload: item.payload.clone(),
            metadata: item.metadata.clone(),
            run_after: item.run_after,
            expires_at: item.expires_at,
        });
    }

    /// How many rows each type got, and the lowest place among them.
    pub(super) fn lowest(&self) -> BTreeMap<i32, (usize, Mark)> {
        let mut lowest: BTreeMap<i32, (usize, Mark)> = BTreeMap::new();
        for row in &self.ready {
            let mark = Mark { rank: row.rank, turn: row.turn };
            let entry = lowest.entry(row.type_id).or_insert((0, mark));
            *entry = (entry.0 + 1, entry.1.min(mark));
        }
        lowest
    }
}
