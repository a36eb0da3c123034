//! Adding items to jobs within the caller's transaction: dedupe keys, serialize queues, sequence numbers, fair turns.
//! Requests, files, feeds, replays and released items all use it.
//!
//! Call order is lock order: [`Intake::take_keys`], [`Intake::lock_serialize_queues`], then the job state rows, then
//! [`Intake::place`], which never waits.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use domain::Time;
use uuid::Uuid;

use crate::{
    Core,
    activity_counters::AddedCounts,
    error::{Error, Result},
    store::{
        Tx,
        dispatch::{endings::FinalRow, leases::ClaimCursor},
        enqueue::{
            dedupe::{self, ItemDedupeKey},
            items,
        },
        tree::{
            definitions::JobInfo,
            job_states::{Delta, LockedJobState},
        },
    },
};

use super::{
    add::rows::{PendingItem, Rows, Target},
    debounce::Debounces,
    item_validation::PreparedItem,
    serialize_queues::SerializeQueues,
};

/// Items for one job.
pub(crate) struct JobItems<'a> {
    pub(crate) job: &'a Arc<JobInfo>,
    pub(crate) items: &'a [PreparedItem],
}

/// State of one intake.
#[derive(Default)]
pub(crate) struct Intake {
    serialize_queues: SerializeQueues,
    debounces: Debounces,
    /// Items whose dedupe key is held by another item.
    duplicates: HashSet<Uuid>,
    rows: Rows,
    fair_turns: HashMap<i64, i64>,
    seqs: HashMap<i64, i64>,
    current: HashMap<(i32, i16), i64>,
    now: Option<Time>,
    added_counts: BTreeMap<i64, AddedCounts>,
}

impl Intake {
    /// Finds the serialize queues that the arrivals need. Call this before taking any lock.
    pub(crate) async fn begin(core: &Core, job_items: &[JobItems<'_>]) -> Result<Self> {
        let keys: BTreeSet<(Uuid, &str)> = job_items
            .iter()
            .flat_map(|a| a.items.iter().filter_map(|item| Some((a.job.owner_id, item.serialize_key.as_deref()?))))
            .collect();
        Ok(Self { serialize_queues: SerializeQueues::find(core, keys).await?, ..Self::default() })
    }

    /// Finds the serialize queues of these keys.
    pub(crate) async fn of_keys(core: &Core, keys: BTreeSet<(Uuid, &str)>) -> Result<Self> {
        Ok(Self { serialize_queues: SerializeQueues::find(core, keys).await?, ..Self::default() })
    }

    /// Takes the dedupe keys in order, and records the items whose key was taken.
    pub(crate) async fn take_keys(&mut self, tx: &mut Tx, job_items: &[JobItems<'_>]) -> Result<()> {
        let wanted: Vec<ItemDedupeKey<'_>> = job_items
            .iter()
            .flat_map(|a| {
                let key = |item: &'_ PreparedItem| item.dedupe_key.is_some();
                a.items.iter().filter(move |item| key(item)).map(|item| ItemDedupeKey {
                    job_key: a.job.job_key,
                    key: item.dedupe_key.as_deref().unwrap_or_default(),
                    item_id: item.id,
                })
            })
            .collect();
        if !wanted.is_empty() {
            self.duplicates = dedupe::take(tx, &wanted).await?.into_iter().collect();
        }
        Ok(())
    }

    /// Locks the debounce keys of the arrivals, and returns the serialize queues of the items that have them. Feeds and
    /// replays add no debounced items.
    pub(crate) async fn lock_debounces(&mut self, tx: &mut Tx, job_items: &[JobItems<'_>]) -> Result<Vec<i64>> {
        self.debounces = Debounces::lock_keys(tx, job_items).await?;
        self.debounces.serialize_queues(tx).await
    }

    /// Locks the waiting items with the debounce keys, and returns their jobs. Call this after the serialize queues are
    /// locked.
    pub(crate) async fn lock_debounced(&mut self, tx: &mut Tx) -> Result<Vec<i64>> {
        self.debounces.lock_waiting(tx).await?;
        Ok(self.debounces.job_keys().collect())
    }

    /// Merges debounced arrivals into waiting items; only arrivals that are not refused may be passed.
    pub(crate) fn merge_debounced<'a>(
        &mut self,
        accepted: impl Iterator<Item = (&'a JobInfo, &'a PreparedItem)>,
        locked: &HashMap<i64, LockedJobState>,
    ) -> Result<()> {
        let now = self.now()?.0;
        let duplicates = &self.duplicates;
        let accepted = accepted.filter(|(_, item)| !duplicates.contains(&item.id));
        self.debounces.resolve(accepted, locked, now)
    }

    /// Number of items that were merged into waiting items.
    pub(crate) fn merged(&self, items: &[PreparedItem]) -> i64 {
        items.iter().filter(|item| self.debounces.is_merged(item)).count() as i64
    }

    /// True if another item of the job holds this item's dedupe key.
    pub(crate) fn is_duplicate(&self, item: &PreparedItem) -> bool {
        self.duplicates.contains(&item.id)
    }

    /// Locks the serialize queues of the arrivals and `others`, in order.
    pub(crate) async fn lock_serialize_queues(
        &mut self,
        tx: &mut Tx,
        others: impl IntoIterator<Item = i64>,
    ) -> Result<()> {
        self.serialize_queues.lock(tx, others).await
    }

    /// Reads the heads of the serialize queues. Call this after ended items have left them.
    pub(crate) async fn read_heads(&mut self, tx: &mut Tx) -> Result<()> {
        self.serialize_queues.read_heads(tx).await
    }

    /// Reads the locked job state rows.
    pub(crate) async fn open(&mut self, tx: &mut Tx, locked: &HashMap<i64, LockedJobState>) -> Result<()> {
        self.fair_turns = locked.iter().map(|(&id, job_state)| (id, job_state.last_fair_turn)).collect();
        self.seqs = locked.iter().map(|(&id, job_state)| (id, job_state.next_seq)).collect();
        self.now = Some(Time(items::now(tx).await?));
        Ok(())
    }

    async fn current(&mut self, core: &Core, tx: &mut Tx, type_id: i32, negated_priority: i16) -> Result<i64> {
        if let Some(&current) = self.current.get(&(type_id, negated_priority)) {
            return Ok(current);
        }
        let current = core.lowest_waiting_turn(tx, type_id, negated_priority).await?;
        self.current.insert((type_id, negated_priority), current);
        Ok(current)
    }

    /// Places the arrivals that are not duplicates into their job; returns their number.
    pub(crate) async fn place(
        &mut self,
        core: &Core,
        tx: &mut Tx,
        job_items: &JobItems<'_>,
        job_state: &LockedJobState,
        deltas: &mut BTreeMap<i64, Delta>,
    ) -> Result<i64> {
        let job = job_items.job;
        let delta = deltas.entry(job.job_key).or_default();
        delta.fair_turn_only = false;
        let before = delta.counts;
        let now = self.now()?;
        let first_seq = self.seqs.get(&job.job_key).copied().unwrap_or(1);
        let mut seq = first_seq;
        let mut fair_turn = self.fair_turns.get(&job.fair_turn_job_key).copied().unwrap_or(0);
        let mut last: Option<(i16, i64)> = None;
        for item in job_items.items {
            if self.is_duplicate(item) || self.debounces.is_merged(item) {
                continue;
            }
            let item = &*self.debounces.effective(item);
            let current = match last {
                Some((priority, current)) if priority == item.priority => current,
                _ => self.current(core, tx, job.type_id, -item.priority).await?,
            };
            last = Some((item.priority, current));
            let serialize_queues = &mut self.serialize_queues;
            let (fair_turn, turns) = (&mut fair_turn, &core.priority_turns);
            let mut target = Target { job, job_state, serialize_queues, fair_turn, turns, current, now };
            self.rows.add(item, seq, &mut target, delta);
            seq += 1;
        }
        let n = seq - first_seq;
        delta.seqs += n;
        let ended = delta.counts - before;
        self.seqs.insert(job.job_key, seq);
        self.fair_turns.insert(job.fair_turn_job_key, fair_turn);
        let added_counts = self.added_counts_of(job);
        added_counts.added += n;
        added_counts.ended += ended;
        deltas.entry(job.fair_turn_job_key).or_insert_with(Delta::fair_turns);
        Ok(n)
    }

    /// Places an existing item that is in none of the state tables.
    pub(crate) async fn put(
        &mut self,
        core: &Core,
        tx: &mut Tx,
        job: &JobInfo,
        item: PendingItem<'_>,
        job_state: &LockedJobState,
        deltas: &mut BTreeMap<i64, Delta>,
    ) -> Result<()> {
        let current = self.current(core, tx, job.type_id, item.negated_priority).await?;
        let now = self.now()?;
        let fair_turn = self.fair_turns.entry(job.fair_turn_job_key).or_insert(0);
        let delta = deltas.entry(job.job_key).or_default();
        delta.fair_turn_only = false;
        let before = delta.counts;
        let (serialize_queues, turns) = (&mut self.serialize_queues, &core.priority_turns);
        self.rows.put(item, &mut Target { job, job_state, serialize_queues, fair_turn, turns, current, now }, delta);
        let added_counts = self.added_counts_of(job);
        added_counts.retried += 1;
        added_counts.ended += delta.counts - before;
        deltas.entry(job.fair_turn_job_key).or_insert_with(Delta::fair_turns);
        Ok(())
    }

    fn now(&self) -> Result<Time> {
        self.now.ok_or_else(|| Error::Broken("items are placed before their job states are locked".to_owned()))
    }

    /// Writes all rows except the job state rows.
    pub(crate) async fn write(&mut self, core: &Core, tx: &mut Tx, deltas: &mut BTreeMap<i64, Delta>) -> Result<()> {
        if let Some(now) = self.now {
            self.debounces.write(tx, &mut self.rows, deltas, now.0).await?;
        }
        for (job_key, delta) in &mut *deltas {
            delta.fair_turn = self.fair_turns.get(job_key).copied().unwrap_or(0);
        }
        self.rows.write(core, tx).await?;
        self.serialize_queues.write(tx).await
    }

    /// Items that were dead from the start, for the error groups.
    pub(crate) fn dead(&self) -> Vec<FinalRow> {
        let dead = domain::ItemState::Dead.code();
        self.rows.finals.iter().filter(|row| row.state == dead).cloned().collect()
    }

    /// Numbers for the statistics, by job.
    pub(crate) fn added_counts(&self) -> BTreeMap<i64, AddedCounts> {
        self.added_counts.clone()
    }

    fn added_counts_of(&mut self, job: &JobInfo) -> &mut AddedCounts {
        let new = || AddedCounts { type_name: job.type_name.clone(), ..AddedCounts::default() };
        self.added_counts.entry(job.job_key).or_insert_with(new)
    }

    /// Number of claimable items and their lowest position, by type.
    pub(crate) fn ready(&self) -> BTreeMap<i32, (usize, ClaimCursor)> {
        self.rows.lowest()
    }
}
