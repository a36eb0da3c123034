//! Adding items to jobs within the caller's transaction: dedupe keys, serialize queues, sequence numbers, fair turns.
//! Requests, files, feeds, replays and released items all use it.
//!
//! Call order is lock order: [`Intake::take_keys`], [`Intake::lock_lanes`], then the job state rows, then
//! [`Intake::place`], which never waits.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use domain::{Counts, Time};
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        contracts::JobInfo,
        dedupe::{self, KeyRow},
        endings::FinalRow,
        gates::{Delta, Locked},
        items,
        leases::Mark,
    },
};

use super::{
    Core,
    add::rows::{Going, ITEMS_A_TURN, Place, Rows},
    lanes::Lanes,
    prepare::Prepared,
};

/// Items for one job.
pub(super) struct Arrivals<'a> {
    pub(super) job: &'a Arc<JobInfo>,
    pub(super) items: &'a [Prepared],
}

/// Lowest waiting fair turn at a rank of a type; new items start there.
pub(super) async fn lowest_turn(core: &Core, tx: &mut Tx, type_id: i32, rank: i16) -> Result<i64> {
    let from = core.marks.turn(type_id, rank);
    Ok(items::current_turn(tx, type_id, rank, from).await?.unwrap_or(from.max(0)))
}

/// State of one intake.
#[derive(Default)]
pub(super) struct Intake {
    lanes: Lanes,
    /// Items whose dedupe key is held by another item.
    doubles: HashSet<Uuid>,
    rows: Rows,
    turns: HashMap<i64, i64>,
    seqs: HashMap<i64, i64>,
    current: HashMap<(i32, i16), i64>,
    now: Option<Time>,
    arrived: BTreeMap<String, Arrived>,
}

/// Number of items of one type that a transaction added or put back, and of those that were final at once.
#[derive(Clone, Debug, Default)]
pub(super) struct Arrived {
    pub(super) added: i64,
    pub(super) retried: i64,
    pub(super) ended: Counts,
}

impl Intake {
    /// Finds the serialize queues that the arrivals need. Call this before taking any lock.
    pub(super) async fn begin(core: &Core, arrivals: &[Arrivals<'_>]) -> Result<Self> {
        let keys: BTreeSet<(Uuid, &str)> = arrivals
            .iter()
            .flat_map(|a| a.items.iter().filter_map(|item| Some((a.job.owner_id, item.serialize_key.as_deref()?))))
            .collect();
        Ok(Self { lanes: Lanes::find(core, keys).await?, ..Self::default() })
    }

    /// Finds the serialize queues of these keys.
    pub(super) async fn of_keys(core: &Core, keys: BTreeSet<(Uuid, &str)>) -> Result<Self> {
        Ok(Self { lanes: Lanes::find(core, keys).await?, ..Self::default() })
    }

    /// Takes the dedupe keys in order, and records the items whose key was taken.
    pub(super) async fn take_keys(&mut self, tx: &mut Tx, arrivals: &[Arrivals<'_>]) -> Result<()> {
        let wanted: Vec<KeyRow<'_>> = arrivals
            .iter()
            .flat_map(|a| {
                let key = |item: &'_ Prepared| item.dedupe_key.is_some();
                a.items.iter().filter(move |item| key(item)).map(|item| KeyRow {
                    gate_id: a.job.gate_id,
                    key: item.dedupe_key.as_deref().unwrap_or_default(),
                    item_id: item.id,
                })
            })
            .collect();
        if !wanted.is_empty() {
            self.doubles = dedupe::take(tx, &wanted).await?.into_iter().collect();
        }
        Ok(())
    }

    /// True if another item of the job holds this item's dedupe key.
    pub(super) fn is_double(&self, item: &Prepared) -> bool {
        self.doubles.contains(&item.id)
    }

    /// Locks the serialize queues of the arrivals and `others`, in order.
    pub(super) async fn lock_lanes(&mut self, tx: &mut Tx, others: impl IntoIterator<Item = i64>) -> Result<()> {
        self.lanes.lock(tx, others).await
    }

    /// Reads the heads of the serialize queues. Call this after ended items have left them.
    pub(super) async fn look(&mut self, tx: &mut Tx) -> Result<()> {
        self.lanes.look(tx).await
    }

    /// Reads the locked job state rows.
    pub(super) async fn open(&mut self, tx: &mut Tx, locked: &HashMap<i64, Locked>) -> Result<()> {
        self.turns = locked.iter().map(|(&id, gate)| (id, gate.last_turn)).collect();
        self.seqs = locked.iter().map(|(&id, gate)| (id, gate.next_seq)).collect();
        self.now = Some(Time(items::now(tx).await?));
        Ok(())
    }

    async fn current(&mut self, core: &Core, tx: &mut Tx, type_id: i32, rank: i16) -> Result<i64> {
        if let Some(&current) = self.current.get(&(type_id, rank)) {
            return Ok(current);
        }
        let current = lowest_turn(core, tx, type_id, rank).await? * ITEMS_A_TURN;
        self.current.insert((type_id, rank), current);
        Ok(current)
    }

    /// Places the arrivals that are not duplicates into their job; returns their number.
    pub(super) async fn place(
        &mut self,
        core: &Core,
        tx: &mut Tx,
        arrivals: &Arrivals<'_>,
        gate: &Locked,
        deltas: &mut BTreeMap<i64, Delta>,
    ) -> Result<i64> {
        let job = arrivals.job;
        let before = deltas.get(&job.gate_id).map_or_else(Counts::default, |delta| delta.counts);
        let mut n = 0;
        for item in arrivals.items {
            if self.is_double(item) {
                continue;
            }
            let current = self.current(core, tx, job.type_id, -item.priority).await?;
            let now = self.now()?;
            let seq = self.seqs.entry(job.gate_id).or_insert(1);
            let turn = self.turns.entry(job.turn_gate_id).or_insert(0);
            let delta = deltas.entry(job.gate_id).or_default();
            delta.turn_only = false;
            let mut place = Place { job, gate, lanes: &mut self.lanes, turn, current, now };
            self.rows.add(item, *seq, &mut place, delta);
            *seq += 1;
            n += 1;
        }
        let delta = deltas.entry(job.gate_id).or_default();
        delta.turn_only = false;
        delta.seqs += n;
        let arrived = self.arrived.entry(job.type_name.clone()).or_default();
        arrived.added += n;
        arrived.ended += delta.counts - before;
        deltas.entry(job.turn_gate_id).or_insert_with(Delta::turns);
        Ok(n)
    }

    /// Places an existing item that is in none of the state tables.
    pub(super) async fn put(
        &mut self,
        core: &Core,
        tx: &mut Tx,
        job: &JobInfo,
        item: Going<'_>,
        gate: &Locked,
        deltas: &mut BTreeMap<i64, Delta>,
    ) -> Result<()> {
        let current = self.current(core, tx, job.type_id, item.rank).await?;
        let now = self.now()?;
        let turn = self.turns.entry(job.turn_gate_id).or_insert(0);
        let delta = deltas.entry(job.gate_id).or_default();
        delta.turn_only = false;
        let before = delta.counts;
        self.rows.put(item, &mut Place { job, gate, lanes: &mut self.lanes, turn, current, now }, delta);
        let arrived = self.arrived.entry(job.type_name.clone()).or_default();
        arrived.retried += 1;
        arrived.ended += delta.counts - before;
        deltas.entry(job.turn_gate_id).or_insert_with(Delta::turns);
        Ok(())
    }

    fn now(&self) -> Result<Time> {
        self.now.ok_or_else(|| Error::Broken("items are placed before their gates are locked".to_owned()))
    }

    /// Writes all rows except the job state rows.
    pub(super) async fn write(&self, core: &Core, tx: &mut Tx, deltas: &mut BTreeMap<i64, Delta>) -> Result<()> {
        for (gate_id, delta) in deltas {
            delta.turn = self.turns.get(gate_id).copied().unwrap_or(0);
        }
        self.rows.write(core, tx).await?;
        self.lanes.write(tx).await
    }

    /// Items that were dead from the start, for the error groups.
    pub(super) fn dead(&self) -> Vec<FinalRow> {
        let dead = domain::ItemState::Dead.code();
        self.rows.finals.iter().filter(|row| row.state == dead).cloned().collect()
    }

    /// Numbers for the statistics, by type name.
    pub(super) fn arrived(&self) -> BTreeMap<String, Arrived> {
        self.arrived.clone()
    }

    /// Number of claimable items and their lowest position, by type.
    pub(super) fn ready(&self) -> BTreeMap<i32, (usize, Mark)> {
        self.rows.lowest()
    }
}
