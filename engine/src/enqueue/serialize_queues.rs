//! Serialize queues within one transaction: locks them, assigns positions, and releases the next item when the previous
//! one is final (`serialize-key`).

use std::collections::{BTreeMap, BTreeSet, HashMap};

use domain::ItemState;
use uuid::Uuid;

use crate::{
    Core,
    ending_batch::EndingRows,
    error::{Error, Result},
    store::{
        Tx,
        dispatch::endings::{self, FinalRow},
        enqueue::{
            items::{self, DeferredRow, ReadyRow},
            pending_rows::{self, TakenHead, TakenItem},
            serialize_queues,
        },
    },
};

use super::low_water_marks;

/// Serialize queues of one batch.
#[derive(Default)]
pub(crate) struct SerializeQueues {
    by_key: HashMap<(Uuid, String), i64>,
    next: HashMap<i64, i64>,
    occupied: BTreeSet<i64>,
    joined: Vec<(i64, i64, Uuid)>,
}

impl SerializeQueues {
    /// Finds the serialize queues of these (owner, key) pairs. Missing ones are created in a separate commit, so that
    /// no transaction waits for an uncommitted queue.
    pub(crate) async fn find(core: &Core, keys: BTreeSet<(Uuid, &str)>) -> Result<Self> {
        if keys.is_empty() {
            return Ok(Self::default());
        }
        let owners: Vec<Uuid> = keys.iter().map(|k| k.0).collect();
        let names: Vec<&str> = keys.iter().map(|k| k.1).collect();
        let ids = serialize_queues::ensure(&core.pools.hints, &owners, &names).await?;
        let ids: Vec<i64> = ids.into_iter().collect::<Option<_>>().ok_or_else(swept)?;
        let by_key = keys.iter().map(|&(owner, key)| (owner, key.to_owned())).zip(ids).collect();
        Ok(Self { by_key, ..Self::default() })
    }

    /// Serialize queue of a key.
    pub(crate) fn of(&self, owner_id: Uuid, key: &str) -> Option<i64> {
        self.by_key.get(&(owner_id, key.to_owned())).copied()
    }

    /// Locks these serialize queues and `others`, in order.
    pub(crate) async fn lock(&mut self, tx: &mut Tx, others: impl IntoIterator<Item = i64>) -> Result<()> {
        let wanted: BTreeSet<i64> = self.by_key.values().copied().chain(others).collect();
        if wanted.is_empty() {
            return Ok(());
        }
        let ids: Vec<i64> = wanted.into_iter().collect();
        let rows = serialize_queues::lock(tx, &ids).await?;
        self.next = rows.into_iter().map(|row| (row.id, row.next_position)).collect();
        if self.by_key.values().any(|id| !self.next.contains_key(id)) {
            return Err(swept());
        }
        Ok(())
    }

    /// Reads which serialize queues are occupied. Call this after ended items have left them.
    pub(crate) async fn read_heads(&mut self, tx: &mut Tx) -> Result<()> {
        if !self.by_key.is_empty() {
            let ids: Vec<i64> = self.by_key.values().copied().collect();
            self.occupied =
                serialize_queues::heads(tx, &ids).await?.into_iter().map(|(queue_id, _)| queue_id).collect();
        }
        Ok(())
    }

    /// Appends an item to a serialize queue; returns true if it is the first.
    pub(crate) fn join(&mut self, serialize_queue_id: i64, item_id: Uuid) -> bool {
        let next = self.next.entry(serialize_queue_id).or_insert(1);
        self.joined.push((serialize_queue_id, *next, item_id));
        *next += 1;
        self.occupied.insert(serialize_queue_id)
    }

    /// Writes the appended items.
    pub(crate) async fn write(&self, tx: &mut Tx) -> Result<()> {
        Ok(serialize_queues::append(tx, &self.joined).await?)
    }
}

/// A serialize queue was swept after it was found, because it was empty: running the batch again recreates it.
fn swept() -> Error {
    Error::Conflict("a serialize queue was swept")
}

/// Removes final items from their serialize queues and releases the next item of each queue: it is available, or
/// scheduled if its run_after is ahead. The queues are locked. Items of canceled jobs end instead, and the item behind
/// them is the next candidate.
pub(crate) async fn release_next(core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<()> {
    let mut freed = std::mem::take(&mut rows.freed);
    let (mut ready, mut deferred): (Vec<ReadyRow>, Vec<DeferredRow>) = (Vec::new(), Vec::new());
    while !freed.is_empty() {
        let mut items: Vec<Uuid> = freed.iter().map(|f| f.1).collect();
        items.sort_unstable();
        serialize_queues::leave(tx, &items).await?;
        let serialize_queue_ids: BTreeSet<i64> = freed.drain(..).map(|f| f.0).collect();
        let mut heads: Vec<Uuid> = serialize_queues::heads(tx, &serialize_queue_ids.into_iter().collect::<Vec<_>>())
            .await?
            .into_iter()
            .map(|(_, item)| item)
            .collect();
        heads.sort_unstable();
        let next = pending_rows::take_heads(tx, &heads).await?;
        let (cancelled_items, alive): (Vec<_>, Vec<_>) = next.into_iter().partition(|head| head.is_cancelled);
        let cancelled_items: Vec<TakenItem> = cancelled_items.into_iter().map(|head| head.taken).collect();
        endings::finish(tx, &cancelled_items.iter().map(cancelled_row).collect::<Vec<_>>()).await?;
        freed.extend(
            cancelled_items
                .iter()
                .filter_map(|taken| taken.serialize_queue_id.map(|queue_id| (queue_id, taken.item_id))),
        );
        for TakenHead { taken, due_at, .. } in alive {
            let counts = &mut rows.delta(taken.job_key).counts;
            counts.blocked -= 1;
            let row = ReadyRow {
                item_id: taken.item_id,
                job_key: taken.job_key,
                type_id: taken.type_id,
                negated_priority: taken.negated_priority,
                fair_turn: 0,
                expires_at: taken.expires_at,
                attempts: taken.attempts,
                failures: taken.failures,
                serialize_queue_id: taken.serialize_queue_id,
            };
            // One that is to start later stays the head, like one that was added so.
            if let Some(due_at) = due_at {
                counts.scheduled += 1;
                deferred.push(row.scheduled(due_at));
            } else {
                counts.available += 1;
                ready.push(row);
            }
        }
    }
    items::defer(tx, &deferred).await?;
    rows.ready.extend(low_water_marks::make_ready_now(core, tx, ready).await?);
    Ok(())
}

/// Final row of a waiting item whose job is canceled; the counters already include it.
pub(crate) fn cancelled_row(taken: &TakenItem) -> FinalRow {
    FinalRow {
        item_id: taken.item_id,
        job_key: taken.job_key,
        lease: None,
        attempt: taken.attempts,
        failures: taken.failures,
        state: ItemState::Cancelled.code(),
        ended_as: None,
        worker_id: None,
        error: None,
    }
}

/// Serialize queues of these items, for locking.
pub(crate) fn serialize_queues_of(seen: &[pending_rows::PendingItem]) -> Vec<i64> {
    seen.iter().filter_map(|seen| seen.serialize_queue_id).collect::<BTreeSet<_>>().into_iter().collect()
}

/// Returns a conflict if a taken item is in a serialize queue that is not locked: `after` released the item after the
/// queues to be locked were read. `locked` ascending.
pub(crate) fn check_locked(taken: &[TakenItem], locked: &[i64]) -> Result<()> {
    let is_locked = |taken: &TakenItem| taken.serialize_queue_id.is_none_or(|id| locked.binary_search(&id).is_ok());
    if taken.iter().all(is_locked) { Ok(()) } else { Err(Error::Conflict("an item has joined a serialize queue")) }
}

/// Head of each serialize queue.
pub(crate) async fn heads(tx: &mut Tx, serialize_queue_ids: &[i64]) -> Result<BTreeMap<i64, Uuid>> {
    if serialize_queue_ids.is_empty() {
        return Ok(BTreeMap::new());
    }
    Ok(serialize_queues::heads(tx, serialize_queue_ids).await?.into_iter().collect())
}
