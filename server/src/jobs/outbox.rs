//! What is said on the broker, where there is one: which items can be claimed, which are dead, which trees
//! are complete.
//!
//! It is written into the commit that makes it true, and published afterwards by a duty that knows nothing
//! but what it is given here. Without a broker nothing is written. Nothing depends on any of it: whoever
//! hears it asks the engine.

use std::{collections::BTreeMap, sync::Arc};

use domain::{
    Outcome,
    wake::{TreeCompleted, WakeUp},
};
use uuid::Uuid;

use crate::{
    error::Result,
    store::{
        Tx,
        contracts::TypeInfo,
        endings::FinalRow,
        gates::Delta,
        items::{self, ReadyRow},
        outbox::{self, OutboxRow},
    },
    task::in_task,
};

use super::{Core, Engine};

/// Rows of the outbox that are taken in one go, and for how long.
const TAKEN: i64 = 32;
const TAKEN_SECONDS: f64 = 30.0;
/// Rows of `ready` that one step of a walk looks at, and how many steps follow each other.
const STEP: i64 = 2_000;
const STEPS: usize = 5;

/// Something to be said.
#[derive(Clone, Debug)]
pub enum News {
    /// An item can be claimed.
    Item(WakeUp),
    Dead(WakeUp),
    Completed(TreeCompleted),
}

/// News that go, or stay, together.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// Its place in the outbox.
    pub id: i64,
    pub news: Vec<News>,
}

/// As on the gate.
const fn outcome(stored: i16) -> Option<Outcome> {
    match stored {
        1 => Some(Outcome::Succeeded),
        2 => Some(Outcome::Partial),
        3 => Some(Outcome::Failed),
        4 => Some(Outcome::Cancelled),
        _ => None,
    }
}

impl Core {
    /// Puts items where claims find them; the one road into `ready`.
    pub(super) async fn make_ready(&self, tx: &mut Tx, rows: &[ReadyRow]) -> Result<()> {
        items::make_ready(tx, rows).await?;
        if !self.has_broker || rows.is_empty() {
            return Ok(());
        }
        let mut by_type: BTreeMap<i32, (Vec<Uuid>, Vec<i64>)> = BTreeMap::new();
        for row in rows.iter().filter(|row| self.types.by_id(row.type_id).is_some_and(|info| info.is_pulled())) {
            let (item_ids, gate_ids) = by_type.entry(row.type_id).or_default();
            item_ids.push(row.item_id);
            gate_ids.push(row.gate_id);
        }
        for (type_id, (item_ids, gate_ids)) in by_type {
            outbox::wake(tx, type_id, &item_ids, &gate_ids).await?;
        }
        Ok(())
    }

    /// Items have become dead in this transaction.
    pub(super) async fn announce_dead(&self, tx: &mut Tx, rows: &[FinalRow]) -> Result<()> {
        if !self.has_broker || rows.is_empty() {
            return Ok(());
        }
        let (item_ids, gate_ids): (Vec<Uuid>, Vec<i64>) = rows.iter().map(|row| (row.item_id, row.gate_id)).unzip();
        Ok(outbox::dead(tx, &item_ids, &gate_ids).await?)
    }

    /// Trees may have become complete in this transaction: those of these gates that carry one. After
    /// the gates.
    pub(super) async fn announce_complete(&self, tx: &mut Tx, gate_ids: &[i64]) -> Result<()> {
        if !self.has_broker || gate_ids.is_empty() {
            return Ok(());
        }
        Ok(outbox::completed(tx, gate_ids).await?)
    }

    /// The same for the gates of a batch: only those are looked at that were sealed or have less pending now.
    pub(super) async fn announce_complete_of(&self, tx: &mut Tx, deltas: &[(i64, Delta)]) -> Result<()> {
        if !self.has_broker {
            return Ok(());
        }
        let may = deltas.iter().filter(|(_, delta)| delta.seal || delta.counts.pending() < 0);
        self.announce_complete(tx, &may.map(|delta| delta.0).collect::<Vec<_>>()).await
    }

    async fn wake_ups(&self, items: impl Iterator<Item = (Uuid, i64)> + Clone) -> Result<Vec<WakeUp>> {
        let jobs = self.jobs.by_gates(&self.pools.read, items.clone().map(|item| item.1)).await?;
        let wake_up = |(item_id, gate_id): (Uuid, i64)| {
            let job = jobs.get(&gate_id)?;
            Some(WakeUp { item_id, job_id: job.job_id, job_type: job.type_name.clone() })
        };
        Ok(items.filter_map(wake_up).collect())
    }

    async fn parcel(&self, row: OutboxRow) -> Result<Parcel> {
        let items = row.item_ids.iter().copied().zip(row.gate_ids.iter().copied());
        let news = match row.kind {
            1 => self.wake_ups(items).await?.into_iter().map(News::Item).collect(),
            2 => self.wake_ups(items).await?.into_iter().map(News::Dead).collect(),
            _ => outbox::complete(&self.pools.read, &row.gate_ids)
                .await?
                .into_iter()
                .filter_map(|row| {
                    Some(News::Completed(TreeCompleted {
                        job_id: row.root_id,
                        job_type: row.type_name,
                        completion: row.completion,
                        outcome: outcome(row.outcome)?,
                    }))
                })
                .collect(),
        };
        Ok(Parcel { id: row.id, news })
    }
}

impl Engine {
    /// Takes what is to be said, the oldest first; it is the caller's for half a minute.
    pub async fn take_news(&self) -> Result<Vec<Parcel>> {
        let core = &self.0.core;
        let mut parcels = Vec::new();
        for row in outbox::take(&core.pools.read, TAKEN, TAKEN_SECONDS).await? {
            parcels.push(core.parcel(row).await?);
        }
        parcels.sort_unstable_by_key(|parcel| parcel.id);
        Ok(parcels)
    }

    /// What was said, and what was not and may be taken again at once.
    pub async fn news_said(&self, said: &[i64], unsaid: &[i64]) -> Result<()> {
        let pool = &self.0.core.pools.read;
        if !said.is_empty() {
            outbox::sent(pool, said).await?;
        }
        if !unsaid.is_empty() {
            outbox::unsent(pool, unsaid).await?;
        }
        Ok(())
    }

    /// How much is to be said, in parcels; counted up to 10,000.
    pub async fn news_waiting(&self) -> Result<i64> {
        Ok(outbox::waiting(&self.0.core.pools.read).await?)
    }

    /// Moves the horizon behind which waiting items are named again, and forgets what nobody could say for
    /// so long that they are. Returns how many parcels.
    pub async fn age_news(&self, resend_seconds: f64) -> Result<u64> {
        let pool = &self.0.core.pools.read;
        outbox::move_horizon(pool, resend_seconds).await?;
        // The horizon is between once and twice that old; what came before it is found by the walk.
        Ok(outbox::forget(pool, 3.0 * resend_seconds).await?)
    }

    /// The types that workers pull and that may start: what they wait for is named again.
    pub fn pulled_types(&self) -> Vec<Arc<TypeInfo>> {
        self.types().all().into_iter().filter(|info| info.is_pulled()).collect()
    }

    /// Items of a type that have waited for a claim for a while, at most `room` of them, and each at most once
    /// in so many seconds.
    pub async fn long_waiting(&self, type_id: i32, room: i64, resend_seconds: f64) -> Result<Vec<WakeUp>> {
        let core = Arc::clone(&self.0.core);
        // A task of its own, so that a shutdown cannot cut its transactions.
        in_task("looking for what waits", async move {
            let mut found = Vec::new();
            for _ in 0..STEPS {
                let limit = STEP.min(room - found.len() as i64);
                if limit <= 0 {
                    break;
                }
                let mut tx = core.pools.hot.begin().await?;
                let step = outbox::walk(&mut tx, type_id, limit, resend_seconds).await?;
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
