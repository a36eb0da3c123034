//! Rows prepared for the tables: each item goes into exactly one state.

use std::collections::BTreeMap;

use domain::{Time, item::ItemState};
use uuid::Uuid;

use crate::{
    Core,
    error::Result,
    store::{
        Tx,
        dispatch::{
            endings::{self, ErrorText, FinalRow},
            leases::ClaimCursor,
        },
        enqueue::items::{self, BlockedRow, DeferredRow, NewItemRow, ReadyRow},
        tree::{
            definitions::JobInfo,
            job_states::{Delta, LockedJobState},
        },
    },
};

use super::super::{item_validation::PreparedItem, serialize_queues::SerializeQueues, turn_counters::TurnCounters};

/// Number of items of one tree that share a fair turn (`claiming`): one per turn would make every batch touch as many
/// job state rows as items.
pub(crate) const ITEMS_PER_FAIR_TURN: i64 = 10;

/// Error kind of items canceled because a job they waited for did not succeed (`after`).
pub(crate) const AFTER_FAILED: &str = "after_failed";

/// Rows prepared for the tables.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) items: Vec<NewItemRow>,
    pub(crate) ready: Vec<ReadyRow>,
    /// Items that were available before and keep their turns.
    pub(crate) in_place: Vec<ReadyRow>,
    pub(crate) deferred: Vec<DeferredRow>,
    pub(crate) blocked: Vec<BlockedRow>,
    /// Items final from the start: unreadable, or waiting for a job that has failed.
    pub(crate) finals: Vec<FinalRow>,
}

/// Target of an item: job, locked job state row, serialize queues, and fair turns.
pub(crate) struct Target<'a> {
    pub(crate) job: &'a JobInfo,
    pub(crate) job_state: &'a LockedJobState,
    pub(crate) serialize_queues: &'a mut SerializeQueues,
    /// Last fair turn of the tree at priority 0, counted in items.
    pub(crate) fair_turn: &'a mut i64,
    /// Last fair turns of trees at other priorities.
    pub(crate) turns: &'a TurnCounters,
    /// Lowest waiting fair turn at the item's rank.
    pub(crate) current: i64,
    pub(crate) now: Time,
}

impl Target<'_> {
    /// Takes the next fair turn of the tree at a priority. Priorities have turns of their own: their queues advance
    /// independently of each other.
    fn next_turn(&mut self, negated_priority: i16) -> i64 {
        if negated_priority != 0 {
            return self.turns.take((self.job.type_id, negated_priority), self.job.root_id, self.current);
        }
        let turn = (*self.fair_turn).max(self.current * ITEMS_PER_FAIR_TURN);
        *self.fair_turn = turn + 1;
        turn / ITEMS_PER_FAIR_TURN
    }
}

/// Item to be placed: new, released, or retried by a person.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingItem<'a> {
    pub(crate) id: Uuid,
    pub(crate) negated_priority: i16,
    pub(crate) serialize_key: Option<&'a str>,
    pub(crate) run_after: Option<time::OffsetDateTime>,
    pub(crate) expires_at: Option<time::OffsetDateTime>,
    pub(crate) attempts: i32,
    pub(crate) failures: i32,
}

impl Rows {
    /// Adds a new item.
    pub(crate) fn add(&mut self, item: &PreparedItem, seq: i64, target: &mut Target<'_>, delta: &mut Delta) {
        self.items.push(NewItemRow {
            id: item.id,
            job_key: target.job.job_key,
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
            traceparent: item.traceparent.map(|at| at.to_string()),
        });
        if let Some(error) = &item.error {
            delta.counts.dead += 1;
            self.finals.push(final_row(item.id, target.job.job_key, ItemState::Dead, Some(error.clone())));
            return;
        }
        let pending_item = PendingItem {
            id: item.id,
            negated_priority: -item.priority,
            serialize_key: item.serialize_key.as_deref(),
            run_after: item.run_after,
            expires_at: item.expires_at,
            attempts: 0,
            failures: 0,
        };
        self.put(pending_item, target, delta);
    }

    /// Places a pending item in its state. The first that applies: blocked by `after`, scheduled, blocked by its serialize
    /// key, available. If a job that it waits for did not succeed, it is canceled instead.
    pub(crate) fn put(&mut self, item: PendingItem<'_>, target: &mut Target<'_>, delta: &mut Delta) {
        let (job_key, type_id, negated_priority) = (target.job.job_key, target.job.type_id, item.negated_priority);
        if target.job_state.after_failed {
            delta.counts.cancelled += 1;
            delta.after_cancelled += 1;
            let error = after_failed();
            self.finals.push(FinalRow {
                attempt: item.attempts,
                failures: item.failures,
                ..final_row(item.id, job_key, ItemState::Cancelled, Some(error))
            });
            return;
        }
        let blocked_by_after = target.job_state.blocks_items();
        // Items held by `after` join their serialize queue when they are released.
        let serialize_queue_id = item
            .serialize_key
            .filter(|_| !blocked_by_after)
            .and_then(|key| target.serialize_queues.of(target.job.owner_id, key));
        let first = serialize_queue_id.is_none_or(|queue_id| target.serialize_queues.join(queue_id, item.id));
        if let Some(due_at) = item.run_after.filter(|at| !blocked_by_after && *at > target.now.0) {
            delta.counts.scheduled += 1;
            self.deferred.push(DeferredRow {
                item_id: item.id,
                job_key,
                type_id,
                negated_priority,
                due_at,
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
                retryable: false,
                for_event: false,
                serialize_queue_id,
            });
        } else if blocked_by_after || !first {
            delta.counts.blocked += 1;
            self.blocked.push(BlockedRow {
                item_id: item.id,
                job_key,
                type_id,
                negated_priority,
                due_at: item.run_after.filter(|_| blocked_by_after),
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
                by_after: blocked_by_after,
                serialize_queue_id,
            });
        } else {
            delta.counts.available += 1;
            self.ready.push(ReadyRow {
                item_id: item.id,
                job_key,
                type_id,
                negated_priority,
                fair_turn: target.next_turn(negated_priority),
                expires_at: item.expires_at,
                attempts: item.attempts,
                failures: item.failures,
                serialize_queue_id,
            });
        }
    }

    /// Writes all rows except the serialize queue entries, which the caller writes.
    pub(crate) async fn write(&mut self, core: &Core, tx: &mut Tx) -> Result<()> {
        if !self.items.is_empty() {
            items::insert(tx, &self.items).await?;
        }
        core.assign_fair_turns(tx, &mut self.ready).await?;
        self.ready.append(&mut self.in_place);
        core.make_ready(tx, &self.ready).await?;
        items::defer(tx, &self.deferred).await?;
        items::block(tx, &self.blocked).await?;
        endings::finish(tx, &self.finals).await?;
        Ok(())
    }

    /// Number of rows and lowest position, by type.
    pub(crate) fn lowest(&self) -> BTreeMap<i32, (usize, ClaimCursor)> {
        let mut lowest: BTreeMap<i32, (usize, ClaimCursor)> = BTreeMap::new();
        for row in &self.ready {
            let mark = ClaimCursor { negated_priority: row.negated_priority, fair_turn: row.fair_turn };
            let entry = lowest.entry(row.type_id).or_insert((0, mark));
            *entry = (entry.0 + 1, entry.1.min(mark));
        }
        lowest
    }
}

/// Error of an item that waited for a job which did not end with the required outcome.
pub fn after_failed() -> ErrorText {
    let message = "A job that it waited for did not succeed.".to_owned();
    ErrorText {
        fingerprint: domain::fingerprint::fingerprint(Some(AFTER_FAILED), &message),
        message,
        kind: Some(AFTER_FAILED.to_owned()),
        detail: None,
    }
}

/// Row of a final state that was reached without an assignment.
pub(crate) fn final_row(item_id: Uuid, job_key: i64, state: ItemState, error: Option<ErrorText>) -> FinalRow {
    FinalRow {
        item_id,
        job_key,
        lease: None,
        attempt: 0,
        failures: 0,
        state: state.code(),
        ended_as: None,
        worker_id: None,
        error,
    }
}
