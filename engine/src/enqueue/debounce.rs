//! Debounced items (`debounce`): the key is locked first, then the waiting item that has it, then the states of the jobs.
//! An item that waits and has never started takes the payload of each later one with its key; otherwise the later one is
//! an item of its own. Several arrivals with one key in one batch are merged in their order.
//!
//! A row in `ready` is written anew even where it stays: a claim that began before sees neither the old row nor an old
//! payload.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, HashSet},
};

use domain::debounce::Debounce;
use time::{Duration, OffsetDateTime};
use uuid::Uuid;

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        enqueue::{
            debounces::{self, DebounceRow, LockedWaiting, NewDebounce, OpenDebounce},
            items::{DeferredRow, ReadyRow},
            pending_rows::{self, PendingIn, TakenItem},
        },
        tree::{
            definitions::JobInfo,
            job_states::{Delta, LockedJobState},
        },
    },
};

use super::{add::rows::Rows, item_intake::JobItems, item_validation::PreparedItem};

/// How often an item is looked for that moves between the tables.
const TRIES: usize = 10;

/// Key of an item within its type and owner.
type Name = (i32, Uuid, String);

/// Debounced items of one batch.
#[derive(Default)]
pub(crate) struct Debounces {
    keys: BTreeMap<Name, Key>,
    /// Arrivals that are merged.
    merged: HashSet<Uuid>,
    /// Arrivals that are items of their own, with the key that says how.
    own: HashMap<Uuid, Name>,
}

/// A locked key.
struct Key {
    open: OpenDebounce,
    /// Opened by this batch, for the first arrival.
    is_new: bool,
    waiting: Option<LockedWaiting>,
    /// In order; the last one takes further payloads, unless it expires before the arrival does.
    targets: Vec<Target>,
}

/// Item that arrivals of a key are merged into.
struct Target {
    item_id: Uuid,
    waiting: Option<LockedWaiting>,
    expires_at: Option<OffsetDateTime>,
    first_at: OffsetDateTime,
    starts_by: OffsetDateTime,
    job_run_after: Option<OffsetDateTime>,
    run_after: OffsetDateTime,
    payload: String,
    last: Debounce,
    merged: i64,
}

impl Target {
    /// Takes the payload of an arrival.
    fn take(&mut self, item: &PreparedItem, debounce: &Debounce, now: OffsetDateTime) {
        self.starts_by = self.starts_by.min(after(self.first_at, debounce.max_seconds));
        let start = after(now, debounce.seconds).min(self.starts_by);
        self.run_after = self.job_run_after.map_or(start, |at| at.max(start));
        self.payload.clone_from(&item.payload);
        self.last = debounce.clone();
    }
}

/// True if an item that ends at `end` (`None`: never) waits as long as this arrival may: otherwise the payload could expire
/// in it.
fn outlasts(end: Option<OffsetDateTime>, item: &PreparedItem) -> bool {
    end.is_none_or(|end| item.expires_at.is_some_and(|at| at <= end))
}

fn after(at: OffsetDateTime, seconds: i64) -> OffsetDateTime {
    at.saturating_add(Duration::seconds(seconds))
}

fn new_row<'a>(item_id: Uuid, (type_id, owner_id, key): &'a Name, debounce: &Debounce) -> NewDebounce<'a> {
    let seconds = |seconds: i64| i32::try_from(seconds).unwrap_or(i32::MAX);
    NewDebounce {
        item_id,
        type_id: *type_id,
        owner_id: *owner_id,
        key,
        seconds: seconds(debounce.seconds),
        max_seconds: seconds(debounce.max_seconds),
    }
}

fn name(job: &JobInfo, debounce: &Debounce) -> Name {
    (job.type_id, job.owner_id, debounce.key.clone())
}

impl Debounces {
    /// Locks the keys of these items.
    pub(crate) async fn lock_keys(tx: &mut Tx, job_items: &[JobItems<'_>]) -> Result<Self> {
        let mut first: BTreeMap<Name, (Uuid, &Debounce)> = BTreeMap::new();
        for JobItems { job, items } in job_items {
            for item in *items {
                if let Some(debounce) = &item.debounce {
                    first.entry(name(job, debounce)).or_insert((item.id, debounce));
                }
            }
        }
        if first.is_empty() {
            return Ok(Self::default());
        }
        let rows: Vec<NewDebounce<'_>> =
            first.iter().map(|(name, (item_id, debounce))| new_row(*item_id, name, debounce)).collect();
        let open = debounces::lock(tx, &rows).await?;
        let key = |open: OpenDebounce| {
            let name = (open.type_id, open.owner_id, open.key.clone());
            let is_new = first.get(&name).is_some_and(|(item_id, _)| *item_id == open.item_id);
            (name, Key { open, is_new, waiting: None, targets: Vec::new() })
        };
        Ok(Self { keys: open.into_iter().map(key).collect(), ..Self::default() })
    }

    /// Items that had the keys before, ascending.
    fn holders(&self) -> Vec<Uuid> {
        let mut holders: Vec<Uuid> = self.keys.values().filter(|key| !key.is_new).map(|key| key.open.item_id).collect();
        holders.sort_unstable();
        holders
    }

    /// Serialize queues of the waiting items, to be locked before them.
    pub(crate) async fn serialize_queues(&self, tx: &mut Tx) -> Result<Vec<i64>> {
        let holders = self.holders();
        if holders.is_empty() {
            return Ok(Vec::new());
        }
        Ok(debounces::waiting(tx, &holders).await?.into_iter().filter_map(|(_, queue_id)| queue_id).collect())
    }

    /// Locks the waiting items.
    pub(crate) async fn lock_waiting(&mut self, tx: &mut Tx) -> Result<()> {
        let mut missing = self.holders();
        for _ in 0..TRIES {
            if missing.is_empty() {
                return Ok(());
            }
            let locked: HashMap<Uuid, LockedWaiting> =
                debounces::lock_waiting(tx, &missing).await?.into_iter().map(|row| (row.item_id, row)).collect();
            for key in self.keys.values_mut() {
                key.waiting = key.waiting.or_else(|| locked.get(&key.open.item_id).copied());
            }
            missing.retain(|id| !locked.contains_key(id));
            // One that still waits has moved from table to table meanwhile; the others have started or ended.
            let waiting = debounces::waiting(tx, &missing).await?;
            missing.retain(|id| waiting.iter().any(|(item_id, _)| item_id == id));
        }
        Err(Error::Conflict("a debounced item moves"))
    }

    /// Jobs of the waiting items, whose states are to be locked.
    pub(crate) fn job_keys(&self) -> impl Iterator<Item = i64> {
        self.keys.values().filter_map(|key| key.waiting.map(|waiting| waiting.job_key))
    }

    /// Decides what becomes of an arrival that is not refused. In the order of arrival.
    fn arrive(
        &mut self,
        job: &JobInfo,
        item: &PreparedItem,
        job_states: &HashMap<i64, LockedJobState>,
        now: OffsetDateTime,
    ) -> Result<()> {
        // One that has expired never runs: its payload replaces none, and it takes none.
        let has_expired = item.expires_at.is_some_and(|at| at <= now);
        let Some(debounce) = item.debounce.as_ref().filter(|_| !has_expired) else { return Ok(()) };
        let name = name(job, debounce);
        let key = self.keys.get_mut(&name).ok_or_else(|| Error::Broken("a debounce key is not locked".to_owned()))?;
        if let Some(target) = key.targets.last_mut().filter(|target| outlasts(target.expires_at, item)) {
            target.take(item, debounce, now);
            target.merged += 1;
            self.merged.insert(item.id);
            return Ok(());
        }
        let is_open = |state: &LockedJobState| !state.cancelled && !state.deleted && !state.after_failed;
        let waiting = key.waiting.filter(|waiting| {
            key.targets.is_empty()
                && outlasts(waiting.expires_at, item)
                && job_states.get(&waiting.job_key).is_some_and(is_open)
        });
        let is_first = waiting.is_none();
        // The row that this batch has opened begins with its first item.
        let is_opened = key.is_new && key.targets.is_empty();
        let mut target = Target {
            item_id: waiting.map_or(item.id, |waiting| waiting.item_id),
            waiting,
            expires_at: waiting.map_or(item.expires_at, |waiting| waiting.expires_at),
            first_at: if is_first && !is_opened { now } else { key.open.first_at },
            starts_by: if is_first { after(now, debounce.max_seconds) } else { key.open.starts_by },
            job_run_after: waiting.map_or(job.run_after, |waiting| waiting.job_run_after),
            run_after: now,
            payload: String::new(),
            last: debounce.clone(),
            merged: i64::from(!is_first),
        };
        target.take(item, debounce, now);
        key.targets.push(target);
        if is_first {
            self.own.insert(item.id, name);
        } else {
            self.merged.insert(item.id);
        }
        Ok(())
    }

    /// Decides what becomes of the items that are not refused, in the order of arrival.
    pub(crate) fn resolve<'a>(
        &mut self,
        accepted: impl Iterator<Item = (&'a JobInfo, &'a PreparedItem)>,
        job_states: &HashMap<i64, LockedJobState>,
        now: OffsetDateTime,
    ) -> Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        for (job, item) in accepted {
            self.arrive(job, item, job_states, now)?;
        }
        Ok(())
    }

    /// True if an arrival is no item of its own.
    pub(crate) fn is_merged(&self, item: &PreparedItem) -> bool {
        self.merged.contains(&item.id)
    }

    /// An arrival as it is added: with the payload of the last one of its key, and its start.
    pub(crate) fn effective<'a>(&self, item: &'a PreparedItem) -> Cow<'a, PreparedItem> {
        let key = self.own.get(&item.id).and_then(|name| self.keys.get(name));
        match key.and_then(|key| key.targets.iter().find(|target| target.item_id == item.id)) {
            Some(target) => Cow::Owned(PreparedItem {
                payload: target.payload.clone(),
                run_after: Some(target.run_after),
                ..item.clone()
            }),
            None => Cow::Borrowed(item),
        }
    }

    /// Writes the keys, and the waiting items with their new payloads. Moved rows are added to `rows`.
    pub(crate) async fn write(
        &self,
        tx: &mut Tx,
        rows: &mut Rows,
        deltas: &mut BTreeMap<i64, Delta>,
        now: OffsetDateTime,
    ) -> Result<()> {
        if self.keys.is_empty() {
            return Ok(());
        }
        let (mut unused, mut closed) = (Vec::new(), Vec::new());
        let mut waiting: Vec<(LockedWaiting, &Target)> = Vec::new();
        for key in self.keys.values() {
            let holder = key.open.item_id;
            let Some(first) = key.targets.first() else {
                unused.extend(key.is_new.then_some(holder));
                continue;
            };
            if first.item_id != holder {
                if key.is_new { unused.push(holder) } else { closed.push(holder) }
            }
            waiting.extend(first.waiting.map(|row| (row, first)));
        }
        debounces::give_back(tx, &unused).await?;
        debounces::close(tx, &closed).await?;
        self.write_keys(tx, now).await?;
        if waiting.is_empty() {
            return Ok(());
        }
        waiting.sort_unstable_by_key(|(row, _)| row.item_id);
        replace(tx, &waiting, rows, deltas, now).await
    }

    /// Writes the rows of the keys: of each key one after the other, as only its last item is open.
    async fn write_keys(&self, tx: &mut Tx, now: OffsetDateTime) -> Result<()> {
        let most = self.keys.values().map(|key| key.targets.len()).max().unwrap_or(0);
        for nth in 0..most {
            let (mut closed, mut open) = (Vec::new(), Vec::new());
            for (name, key) in &self.keys {
                let Some(target) = key.targets.get(nth) else { continue };
                closed.extend(key.targets[..nth].last().map(|before| before.item_id));
                open.push(DebounceRow {
                    new: new_row(target.item_id, name, &target.last),
                    first_at: target.first_at,
                    starts_by: target.starts_by,
                    merged: target.merged,
                });
            }
            debounces::close(tx, &closed).await?;
            debounces::write(tx, &open, now).await?;
        }
        Ok(())
    }
}

/// Gives waiting items their new payloads and starts. Rows that are to be placed anew are added to `rows`.
async fn replace(
    tx: &mut Tx,
    waiting: &[(LockedWaiting, &Target)],
    rows: &mut Rows,
    deltas: &mut BTreeMap<i64, Delta>,
    now: OffsetDateTime,
) -> Result<()> {
    let ids: Vec<Uuid> = waiting.iter().map(|(row, _)| row.item_id).collect();
    let payloads: Vec<&str> = waiting.iter().map(|(_, target)| target.payload.as_str()).collect();
    let run_after: Vec<OffsetDateTime> = waiting.iter().map(|(_, target)| target.run_after).collect();
    debounces::replace(tx, &ids, &payloads, &run_after).await?;
    for (row, _) in waiting {
        // Its version changes, also where its state does not.
        deltas.entry(row.job_key).or_default().fair_turn_only = false;
    }
    let moving: Vec<Uuid> = waiting.iter().filter(|(row, _)| !row.by_after).map(|(row, _)| row.item_id).collect();
    let places: HashMap<Uuid, (LockedWaiting, OffsetDateTime)> =
        waiting.iter().map(|(row, target)| (row.item_id, (*row, target.run_after))).collect();
    for taken in pending_rows::take(tx, &moving, false).await? {
        let Some(&(row, run_after)) = places.get(&taken.item_id) else { continue };
        match row.fair_turn {
            Some(fair_turn) if run_after <= now => rows.in_place.push(ready_row(&taken, fair_turn)),
            _ => {
                let counts = &mut deltas.entry(taken.job_key).or_default().counts;
                match taken.was {
                    PendingIn::Ready => counts.available -= 1,
                    PendingIn::Blocked => counts.blocked -= 1,
                    _ => counts.scheduled -= 1,
                }
                counts.scheduled += 1;
                rows.deferred.push(deferred_row(&taken, run_after));
            }
        }
    }
    Ok(())
}

fn ready_row(taken: &TakenItem, fair_turn: i64) -> ReadyRow {
    ReadyRow {
        item_id: taken.item_id,
        job_key: taken.job_key,
        type_id: taken.type_id,
        negated_priority: taken.negated_priority,
        fair_turn,
        expires_at: taken.expires_at,
        attempts: taken.attempts,
        failures: taken.failures,
        serialize_queue_id: taken.serialize_queue_id,
    }
}

/// An item behind an older one of its serialize key is blocked again when it is due.
fn deferred_row(taken: &TakenItem, due_at: OffsetDateTime) -> DeferredRow {
    DeferredRow {
        item_id: taken.item_id,
        job_key: taken.job_key,
        type_id: taken.type_id,
        negated_priority: taken.negated_priority,
        due_at,
        expires_at: taken.expires_at,
        attempts: taken.attempts,
        failures: taken.failures,
        retryable: false,
        for_event: false,
        serialize_queue_id: taken.serialize_queue_id,
    }
}
