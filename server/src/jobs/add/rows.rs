//! Rows prepared for the tables: each item goes into exactly one state.

use std::collections::BTreeMap;

use domain::{Time, item::ItemState};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        Tx,
        contracts::JobInfo,
        endings::{self, ErrorText, FinalRow},
        gates::{Delta, Locked},
        items::{self, BlockedRow, DeferredRow, NewItemRow, ReadyRow},
        leases::Mark,
    },
};

use super::super::{Core, lanes::Lanes, prepare::Prepared};

/// Number of items of one tree that share a fair turn (`claiming`): one per turn would make every batch touch as many
/// job state rows as items.
pub(in super::super) const ITEMS_A_TURN: i64 = 10;

/// Error kind of items canceled because a job they waited for did not succeed (`after`).
pub(in super::super) const AFTER_FAILED: &str = "after_failed";

/// Rows prepared for the tables.
#[derive(Default)]
pub(in super::super) struct Rows {
    pub(in super::super) items: Vec<NewItemRow>,
    pub(in super::super) ready: Vec<ReadyRow>,
    pub(in super::super) deferred: Vec<DeferredRow>,
    pub(in super::super) blocked: Vec<BlockedRow>,
    /// Items final from the start: unreadable, or waiting for a job that has failed.
    pub(in super::super) finals: Vec<FinalRow>,
}

/// Target of an item: job, locked job state row, serialize queues, and fair turns.
pub(in super::super) struct Place<'a> {
    pub(in super::super) job: &'a JobInfo,
    pub(in super::super) gate: &'a Locked,
    pub(in super::super) lanes: &'a mut Lanes,
    /// Last fair turn of the tree, counted in items.
    pub(in super::super) turn: &'a mut i64,
    /// Lowest waiting fair turn at the item's rank, counted in items.
    pub(in super::super) current: i64,
    pub(in super::super) now: Time,
}

/// Item to be placed: new, released, or retried by a person.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct Going<'a> {
    pub(in super::super) id: Uuid,
    pub(in super::super) rank: i16,
    pub(in super::super) serialize_key: Option<&'a str>,
    pub(in super::super) run_after: Option<time::OffsetDateTime>,
    pub(in super::super) expires_at: Option<time::OffsetDateTime>,
    pub(in super::super) attempts: i32,
    pub(in super::super) failures: i32,
}

impl Rows {
    /// Adds a new item.
    pub(in super::super) fn add(&mut self, item: &Prepared, seq: i64, place: &mut Place<'_>, delta: &mut Delta) {
        self.items.push(NewItemRow {
            id: item.id,
            gate_id: place.job.gate_id,
            seq,
            row: item.row,
            priority: item.priority,
            payload: item.payload.clone(),
            metadata: item.metadata.clone(),
            dedupe_key: item.dedupe_key.clone(),
            serialize_key: item.serialize_key.clone(),
            run_after: item.run_after,
            expires_at: item.expires_at,
            fed_by: item.fed_by,
        });
        if let Some(error) = &item.error {
            delta.counts.dead += 1;
            self.finals.push(final_row(item.id, place.job.gate_id, ItemState::Dead, Some(error.clone())));
            return;
        }
        let going = Going {
            id: item.id,
            rank: -item.priority,
            serialize_key: item.serialize_key.as_deref(),
            run_after: item.run_after,
            expires_at: item.expires_at,
            attempts: 0,
            failures: 0,
        };
        self.put(going, place, delta);
    }

    /// Places a pending item in its state: the first that applies of scheduled, blocked, available.
    pub(in super::super) fn put(&mut self, item: Going<'_>, place: &mut Place<'_>, delta: &mut Delta) {
        let (gate_id, type_id, rank) = (place.job.gate_id, place.job.type_id, item.rank);
        if place.gate.after_failed {
            delta.counts.cancelled += 1;
            delta.after_cancelled += 1;
            let error = after_failed();
            self.finals.push(FinalRow {
                attempt: item.attempts,
                failures: item.failures,
                ..final_row(item.id, gate_id, ItemState::Cancelled, Some(error))
            });
            return;
        }
        let held = place.gate.held();
        // Items held by `after` join their serialize queue when they are released.
        let lane_id = item.serialize_key.filter(|_| !held).and_then(|key| place.lanes.of(place.job.owner_id, key));
        let first = lane_id.is_none_or(|lane| place.lanes.join(lane, item.id));
        if let Some(due_at) = item.run_after.filter(|at| !held && *at > place.now.0) {
            delta.counts.scheduled += 1;
            self.deferred.push(DeferredRow {
                item_id: item.id,
                gate_id,
                type_id,
                rank,
                due_at,
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
                retryable: false,
                lane_id,
            });
        } else if held || !first {
            delta.counts.blocked += 1;
            self.blocked.push(BlockedRow {
                item_id: item.id,
                gate_id,
                type_id,
                rank,
                due_at: item.run_after.filter(|_| held),
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
                by_after: held,
                lane_id,
            });
        } else {
            delta.counts.available += 1;
            *place.turn = (*place.turn).max(place.current) + 1;
            self.ready.push(ReadyRow {
                item_id: item.id,
                gate_id,
                type_id,
                rank,
                turn: (*place.turn - 1) / ITEMS_A_TURN,
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
                lane_id,
            });
        }
    }

    /// Writes all rows except the serialize queue entries, which the caller writes.
    pub(in super::super) async fn write(&self, core: &Core, tx: &mut Tx) -> Result<()> {
        if !self.items.is_empty() {
            items::insert(tx, &self.items).await?;
        }
        core.make_ready(tx, &self.ready).await?;
        items::defer(tx, &self.deferred).await?;
        items::block(tx, &self.blocked).await?;
        endings::finish(tx, &self.finals).await?;
        Ok(())
    }

    /// Number of rows and lowest position, by type.
    pub(in super::super) fn lowest(&self) -> BTreeMap<i32, (usize, Mark)> {
        let mut lowest: BTreeMap<i32, (usize, Mark)> = BTreeMap::new();
        for row in &self.ready {
            let mark = Mark { rank: row.rank, turn: row.turn };
            let entry = lowest.entry(row.type_id).or_insert((0, mark));
            *entry = (entry.0 + 1, entry.1.min(mark));
        }
        lowest
    }
}

/// Error of an item that waited for a job which did not end with the required outcome.
pub(crate) fn after_failed() -> ErrorText {
    let message = "A job that it waited for did not succeed.".to_owned();
    ErrorText {
        fingerprint: domain::fingerprint::fingerprint(Some(AFTER_FAILED), &message),
        message,
        kind: Some(AFTER_FAILED.to_owned()),
        detail: None,
    }
}

/// Row of a final state that was reached without an assignment.
pub(in super::super) fn final_row(item_id: Uuid, gate_id: i64, state: ItemState, error: Option<ErrorText>) -> FinalRow {
    FinalRow {
        item_id,
        gate_id,
        lease: None,
        attempt: 0,
        failures: 0,
        state: state.code(),
        ended_as: None,
        worker_id: None,
        error,
    }
}
