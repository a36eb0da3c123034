//! Messages for the broker, if there is one: claimable items, dead items, complete trees.
//!
//! Messages are written in the commit that makes them true and published later by a background task. Without a broker
//! nothing is written. Messages are only hints: consumers query the engine for the state.

use std::{collections::BTreeMap, sync::Arc};

use domain::{
    Outcome,
    notify::broker_messages::{TreeCompleted, WakeUp},
};
use uuid::Uuid;

use crate::{
    Core, Engine,
    error::Result,
    store::{
        Tx,
        dispatch::endings::FinalRow,
        enqueue::items::{self, ReadyRow},
        notify::outbox::{self, OutboxRow},
        tree::{definitions::TypeInfo, job_states::Delta},
    },
    task::in_task,
};

/// Number of outbox rows taken at once, and the time for which they are reserved, in seconds.
const TAKEN: i64 = 32;
const TAKEN_SECONDS: f64 = 30.0;
/// Number of `ready` rows that one scan step reads, and maximum number of consecutive steps.
const STEP: i64 = 2_000;
const STEPS: usize = 5;

/// Message for the broker.
#[derive(Clone, Debug)]
pub enum OutboxMessage {
    /// Item that can be claimed.
    Item(WakeUp),
    Dead(WakeUp),
    Completed(TreeCompleted),
}

/// Messages that are published, or not, together.
#[derive(Clone, Debug)]
pub struct OutboxBatch {
    /// Position in the outbox.
    pub id: i64,
    pub messages: Vec<OutboxMessage>,
}

impl Core {
    /// Makes items claimable; the only path into `ready`. Items with a limited key are parked until a claim admits them.
    pub(crate) async fn make_ready(&self, tx: &mut Tx, rows: &[ReadyRow]) -> Result<()> {
        if self.has_keyed_limits(rows) {
            self.park_by_key(tx, rows).await?;
        } else {
            items::make_ready(tx, rows).await?;
        }
        if !self.has_broker || rows.is_empty() {
            return Ok(());
        }
        let mut by_type: BTreeMap<i32, (Vec<Uuid>, Vec<i64>)> = BTreeMap::new();
        for row in rows.iter().filter(|row| self.types.by_id(row.type_id).is_some_and(|info| info.is_pulled())) {
            let (item_ids, job_keys) = by_type.entry(row.type_id).or_default();
            item_ids.push(row.item_id);
            job_keys.push(row.job_key);
        }
        for (type_id, (item_ids, job_keys)) in by_type {
            outbox::insert_wake_up(tx, type_id, &item_ids, &job_keys).await?;
        }
        Ok(())
    }

    /// Records messages for items that died in this transaction.
    pub(crate) async fn announce_dead(&self, tx: &mut Tx, rows: &[FinalRow]) -> Result<()> {
        if !self.has_broker || rows.is_empty() {
            return Ok(());
        }
        let (item_ids, job_keys): (Vec<Uuid>, Vec<i64>) = rows.iter().map(|row| (row.item_id, row.job_key)).unzip();
        Ok(outbox::dead(tx, &item_ids, &job_keys).await?)
    }

    /// Records messages for those of these jobs whose trees are complete. Call this after updating the job state rows.
    pub(crate) async fn announce_complete(&self, tx: &mut Tx, job_keys: &[i64]) -> Result<()> {
        if !self.has_broker || job_keys.is_empty() {
            return Ok(());
        }
        Ok(outbox::completed(tx, job_keys).await?)
    }

    /// Same for the deltas of a batch, limited to jobs that were sealed or have fewer pending items now.
    pub(crate) async fn announce_complete_of(&self, tx: &mut Tx, deltas: &[(i64, Delta)]) -> Result<()> {
        if !self.has_broker {
            return Ok(());
        }
        let may = deltas.iter().filter(|(_, delta)| delta.seal || delta.counts.pending() < 0);
        self.announce_complete(tx, &may.map(|delta| delta.0).collect::<Vec<_>>()).await
    }

    async fn wake_ups(&self, items: impl Iterator<Item = (Uuid, i64)> + Clone) -> Result<Vec<WakeUp>> {
        let jobs = self.jobs.by_job_keys(&self.pools.read, items.clone().map(|item| item.1)).await?;
        let wake_up = |(item_id, job_key): (Uuid, i64)| {
            let job = jobs.get(&job_key)?;
            Some(WakeUp { item_id, job_id: job.job_id, job_type: job.type_name.clone() })
        };
        Ok(items.filter_map(wake_up).collect())
    }

    async fn batch(&self, row: OutboxRow) -> Result<OutboxBatch> {
        let items = row.item_ids.iter().copied().zip(row.job_keys.iter().copied());
        let messages = match row.kind {
            1 => self.wake_ups(items).await?.into_iter().map(OutboxMessage::Item).collect(),
            2 => self.wake_ups(items).await?.into_iter().map(OutboxMessage::Dead).collect(),
            _ => outbox::complete(&self.pools.read, &row.job_keys)
                .await?
                .into_iter()
                .filter_map(|row| {
                    Some(OutboxMessage::Completed(TreeCompleted {
                        job_id: row.root_id,
                        job_type: row.type_name,
                        completion: row.completion,
                        outcome: Outcome::from_code(row.outcome)?,
                    }))
                })
                .collect(),
        };
        Ok(OutboxBatch { id: row.id, messages })
    }
}

impl Engine {
    /// Takes batches to publish, oldest first; they are reserved for the caller for 30 s.
    pub async fn take_message_batches(&self) -> Result<Vec<OutboxBatch>> {
        let core = &self.0.core;
        let mut batches = Vec::new();
        for row in outbox::take(&core.pools.read, TAKEN, TAKEN_SECONDS).await? {
            batches.push(core.batch(row).await?);
        }
        batches.sort_unstable_by_key(|batch| batch.id);
        Ok(batches)
    }

    /// Deletes published batches and releases unpublished ones for immediate retry.
    pub async fn record_published(&self, published: &[i64], unpublished: &[i64]) -> Result<()> {
        let pool = &self.0.core.pools.read;
        if !published.is_empty() {
            outbox::sent(pool, published).await?;
        }
        if !unpublished.is_empty() {
            outbox::unsent(pool, unpublished).await?;
        }
        Ok(())
    }

    /// Number of batches waiting to be published, counted up to 10,000.
    pub async fn unpublished_batches(&self) -> Result<i64> {
        Ok(outbox::waiting(&self.0.core.pools.read).await?)
    }

    /// Moves the horizon behind which waiting items are published again, and deletes batches that could not be
    /// published until then. Returns the number of deleted batches.
    pub async fn expire_outbox(&self, resend_seconds: f64) -> Result<u64> {
        let pool = &self.0.core.pools.read;
        outbox::move_horizon(pool, resend_seconds).await?;
        // The horizon is once to twice that old; the scan finds all items before it.
        Ok(outbox::forget(pool, 3.0 * resend_seconds).await?)
    }

    /// Types that workers pull, whose waiting items are published again.
    pub fn pulled_types(&self) -> Vec<Arc<TypeInfo>> {
        self.types().all().into_iter().filter(|info| info.is_pulled()).collect()
    }

    /// Up to `room` items of a type that have waited for a claim for a while, each at most once per `resend_seconds`.
    pub async fn long_waiting(&self, type_id: i32, room: i64, resend_seconds: f64) -> Result<Vec<WakeUp>> {
        let core = Arc::clone(&self.0.core);
        // In its own task, so that a shutdown cannot interrupt its transactions.
        in_task("finding unclaimed items", async move {
            let mut found = Vec::new();
            for _ in 0..STEPS {
                let limit = STEP.min(room - found.len() as i64);
                if limit <= 0 {
                    break;
                }
                let mut tx = crate::store::begin(&core.pools.hot).await?;
                let step = outbox::wake_up_step(&mut tx, type_id, limit, resend_seconds).await?;
                crate::store::commit(tx).await?;
                found.extend(step.items);
                if step.over {
                    break;
                }
            }
            core.wake_ups(found.iter().copied()).await
        })
        .await
    }
}
