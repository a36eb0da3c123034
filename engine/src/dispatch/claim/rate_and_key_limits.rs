//! Claims of types with limits on their starts (`rate-limit`, `concurrency-by-key`).
//!
//! The type is locked, so its claims follow one another on all servers, and the counts of one claim do not change under it,
//! except that endings make room. A rate limit of the type cuts the number of slots.
//!
//! An item that its key's limit holds back is *parked*: claims do not see it. A *hint* names a key whose parked items may
//! start. Each claim first *admits* (unparks) as many of them as fit. It then takes the first items that are not parked and
//! checks each against the limits as they are now, so that a changed limit applies at once.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use domain::dispatch::{
    rate_window::RateWindow,
    type_limits::{RateLimit, TypeLimits},
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    enqueue::limit_keys::{ItemKeys, KeyKind},
    error::{Error, Result},
    store::{
        Tx,
        dispatch::{
            claim_slots::ClaimSlot,
            leases::{self, ClaimCursor, ClaimedRow},
            rate_windows,
        },
        enqueue::{
            items,
            parked_items::{self, Candidate},
        },
        notify::outbox,
        tree::definitions::TypeInfo,
    },
    task::in_task,
};

use super::{Core, Engine, builtin_executors, claim_type};

/// Most rounds of admitting and taking in one claim; the rest is for the next.
const ROUNDS: usize = 4;

/// Fewest and most hints that one round looks at.
const HINTS: (usize, usize) = (64, 1_000);

/// Fewest items of one key that one round may admit.
const ADMITTED_AT_ONCE: usize = 16;

/// Number of admitted items of one key that no claim has taken, from which on none are admitted without a claim: an item of
/// a higher priority that comes later waits for them.
const ADMITTED_WITHOUT_CLAIM: i64 = ADMITTED_AT_ONCE as i64;

/// Most transactions in which items are admitted without a claim; the rest is for the next call.
const ROUNDS_WITHOUT_CLAIM: usize = 16;

/// Fewest and most candidates that a round looks at after one that parked some: many more of the same keys may follow.
const CANDIDATES: (usize, usize) = (64, 1_000);

/// Pause before parked items are looked at again that could not be admitted, in microseconds.
const PAUSE: i64 = 100_000;

/// Claims items of a locked type: those that are next, or those of `item_ids`. `wake_after` receives the seconds after which
/// its limits may allow more.
pub(super) async fn claim(
    core: &Core,
    tx: &mut Tx,
    (info, limits): (&TypeInfo, &TypeLimits),
    slots: &[ClaimSlot],
    item_ids: Option<&[Uuid]>,
    wake_after: &mut Vec<(i32, f64)>,
) -> Result<Vec<ClaimedRow>> {
    if slots.is_empty() {
        return Ok(Vec::new());
    }
    let Some(rate) = limits.rate() else {
        return by_key(core, tx, (info, limits), slots, item_ids, wake_after).await;
    };
    let mut window = rate_windows::read(tx, info.id, &[Uuid::nil()]).await?.remove(&Uuid::nil()).unwrap_or_default();
    let allowed = window.allowed(rate, micros(items::now(tx).await?));
    let n = slots.len().min(usize::try_from(allowed).unwrap_or(0));
    let rows = by_key(core, tx, (info, limits), &slots[..n], item_ids, wake_after).await?;
    // Read after the items started: no start is later than it is recorded.
    let now = micros(items::now(tx).await?);
    if !rows.is_empty() {
        window.start(rate, now, rows.len() as i64);
        rate_windows::write(tx, info.id, &[stored(Uuid::nil(), &window, rate)?]).await?;
    }
    if rows.len() == n && n < slots.len() {
        wake_after.push((info.id, (window.next_at(rate, now) - now) as f64 / 1e6));
    }
    Ok(rows)
}

/// Claims items within the limits of their keys.
async fn by_key(
    core: &Core,
    tx: &mut Tx,
    (info, limits): (&TypeInfo, &TypeLimits),
    slots: &[ClaimSlot],
    item_ids: Option<&[Uuid]>,
    wake_after: &mut Vec<(i32, f64)>,
) -> Result<Vec<ClaimedRow>> {
    if slots.is_empty() {
        return Ok(Vec::new());
    }
    if limits.is_keyed() {
        let now = micros(items::now(tx).await?);
        let mut keyed = KeyedClaim::new(core, info, limits, now);
        let rows = keyed.fill(tx, slots, item_ids).await?;
        keyed.finish(tx).await?;
        if item_ids.is_none() && rows.len() < slots.len() {
            let seconds = if keyed.has_more { Some(0.0) } else { parked_items::next_hint_seconds(tx, info.id).await? };
            wake_after.extend(seconds.map(|seconds| (info.id, seconds)));
        }
        return Ok(rows);
    }
    match item_ids {
        None => claim_type(core, tx, info, slots).await,
        Some(ids) => {
            let cancelled_jobs = core.cancelled_jobs.job_keys();
            Ok(leases::claim_items(tx, ids, &[info.id], slots, times(info), &cancelled_jobs).await?)
        }
    }
}

impl Engine {
    /// Admits and announces parked items of a type as its next claim would. Otherwise only claims by type admit items:
    /// workers that claim only the items that the broker names would never learn that a parked item may start.
    pub async fn admit_parked_items(&self, type_id: i32) -> Result<()> {
        let core = Arc::clone(&self.0.core);
        in_task("admitting parked items", async move {
            let Some(info) = core.types.by_id(type_id).filter(|info| info.limits.is_keyed()) else { return Ok(()) };
            if parked_items::hinted_types(&core.pools.read, &[type_id]).await?.is_empty() {
                return Ok(());
            }
            // In short transactions: claims of the type wait for each.
            for _ in 0..ROUNDS_WITHOUT_CLAIM {
                if admit_without_claim(&core, &info).await? < HINTS.0 {
                    break;
                }
            }
            core.live.work_added(type_id);
            core.waiters.wake(type_id, 1);
            Ok(())
        })
        .await
    }
}

/// Admits parked items in one transaction. Returns the number of hints that it looked at.
async fn admit_without_claim(core: &Core, info: &TypeInfo) -> Result<usize> {
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let limits = leases::lock_type(&mut tx, info.id).await?.limits;
    if !limits.is_keyed() {
        return Ok(0);
    }
    let now = micros(items::now(&mut tx).await?);
    let mut keyed = KeyedClaim::new(core, info, &limits, now);
    let hinted = keyed.admit(&mut tx, 1, ADMITTED_WITHOUT_CLAIM).await?;
    keyed.finish(&mut tx).await?;
    crate::store::commit(tx).await?;
    Ok(hinted)
}

fn times(info: &TypeInfo) -> (f64, Option<f64>) {
    (builtin_executors::lease_of(info), info.run_timeout_seconds)
}

fn micros(at: OffsetDateTime) -> i64 {
    (at.unix_timestamp_nanos() / 1_000) as i64
}

fn time_of(micros: i64) -> Result<OffsetDateTime> {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000).map_err(|e| Error::Broken(e.to_string()))
}

fn stored(key: Uuid, window: &RateWindow, rate: &RateLimit) -> Result<(Uuid, String, OffsetDateTime)> {
    Ok((key, window.text(), time_of(window.expires_at(rate))?))
}

/// One claim of a type whose keys are limited.
struct KeyedClaim<'a> {
    core: &'a Core,
    info: &'a TypeInfo,
    limits: &'a TypeLimits,
    cancelled_jobs: Arc<Vec<i64>>,
    now: i64,
    /// Running items by key, with those of this claim.
    running: HashMap<Uuid, i64>,
    windows: HashMap<Uuid, RateWindow>,
    /// Starts in this claim, by rate key.
    starts: HashMap<Uuid, i64>,
    /// Keys to be looked at by the next claim.
    hints: BTreeSet<Uuid>,
    /// Keys to be looked at after a pause, or when their rate allows more.
    later: BTreeSet<Uuid>,
    /// The last round parked items: others may follow that may start.
    has_more: bool,
}

impl<'a> KeyedClaim<'a> {
    fn new(core: &'a Core, info: &'a TypeInfo, limits: &'a TypeLimits, now: i64) -> Self {
        Self {
            core,
            info,
            limits,
            cancelled_jobs: core.cancelled_jobs.job_keys(),
            now,
            running: HashMap::new(),
            windows: HashMap::new(),
            starts: HashMap::new(),
            hints: BTreeSet::new(),
            later: BTreeSet::new(),
            has_more: false,
        }
    }

    async fn fill(&mut self, tx: &mut Tx, slots: &[ClaimSlot], item_ids: Option<&[Uuid]>) -> Result<Vec<ClaimedRow>> {
        let mut rows: Vec<ClaimedRow> = Vec::new();
        if let Some(ids) = item_ids {
            // More than there are slots: those that their keys hold back leave them to others.
            let limit = ids.len() as i64;
            let found = parked_items::candidates_by_id(tx, self.info.id, ids, limit, &self.cancelled_jobs).await?;
            return Ok(self.take(tx, found, slots).await?.0);
        }
        let mut least = 0;
        for _ in 0..ROUNDS {
            let rest = &slots[rows.len()..];
            if rest.is_empty() {
                break;
            }
            let hinted = self.admit(tx, rest.len(), i64::MAX).await?;
            let found = self.candidates(tx, rest.len().max(least)).await?;
            let (taken, parked) = self.take(tx, found, rest).await?;
            rows.extend(taken);
            self.has_more = parked > 0;
            if hinted == 0 && parked == 0 {
                break;
            }
            if parked > 0 {
                least = (4 * least).clamp(CANDIDATES.0, CANDIDATES.1);
            }
        }
        Ok(rows)
    }

    /// Looks at the keys with due hints, and admits as many of their items as may start, but not beyond `most_admitted` items
    /// of a key that no claim has taken. Returns the number of hints.
    async fn admit(&mut self, tx: &mut Tx, wanted: usize, most_admitted: i64) -> Result<usize> {
        let limit = (2 * wanted).clamp(HINTS.0, HINTS.1);
        let mut keys = parked_items::take_hints(tx, self.info.id, limit as i64).await?;
        let hinted = keys.len();
        let mut seen = HashSet::new();
        keys.retain(|key| seen.insert(*key));
        if keys.is_empty() {
            return Ok(0);
        }
        self.load(tx, keys.iter().map(|&key| keys_of(key))).await?;
        let most = wanted.max(ADMITTED_AT_ONCE) as i64;
        let (mut open, mut numbers) = (Vec::new(), Vec::new());
        let (mut uncertain, mut cut) = (Vec::new(), HashSet::new());
        for used in parked_items::uses(tx, self.info.id, &keys).await? {
            let key = used.limit_key;
            let room = self.room(key);
            let free = room.map_or(most, |room| room - used.admitted);
            let granted = free.min(most).min(most_admitted - used.admitted);
            if room.is_none() || free > granted {
                cut.insert(key);
            }
            if KeyKind::of(key) == KeyKind::Rate || cut.contains(&key) || used.running + used.admitted == 0 {
                uncertain.push(key);
            }
            if granted > 0 {
                open.push(key);
                numbers.push(granted);
            }
        }
        let admitted = parked_items::admit(tx, self.info.id, &open, &numbers, &self.cancelled_jobs).await?;
        for item in &admitted {
            let mark = ClaimCursor { negated_priority: item.negated_priority, fair_turn: item.fair_turn };
            self.core.low_water_marks.added(self.info.id, mark);
        }
        if self.core.has_broker && self.info.is_pulled() && !admitted.is_empty() {
            let (ids, job_keys): (Vec<Uuid>, Vec<i64>) =
                admitted.iter().map(|item| (item.item_id, item.job_key)).unzip();
            outbox::insert_wake_up(tx, self.info.id, &ids, &job_keys).await?;
        }
        // A concurrency key needs no hint while one of its items is admitted or running: its end writes one.
        let with_admitted: HashSet<Uuid> = admitted.iter().map(|item| item.limit_key).collect();
        uncertain.retain(|key| KeyKind::of(*key) == KeyKind::Rate || cut.contains(key) || !with_admitted.contains(key));
        for key in parked_items::keys_with_parked(tx, self.info.id, &uncertain).await? {
            if cut.contains(&key) && with_admitted.contains(&key) {
                self.hints.insert(key);
            } else {
                self.later.insert(key);
            }
        }
        Ok(hinted)
    }

    /// Number of items of a key that may start now; `None` if no limit of the type is for such keys any more.
    fn room(&self, key: Uuid) -> Option<i64> {
        match KeyKind::of(key) {
            KeyKind::Concurrency => {
                let limit = self.limits.concurrency_by.as_ref().filter(|limit| KeyKind::is_at(key, &limit.key))?;
                Some(limit.limit - self.running.get(&key).copied().unwrap_or(0))
            }
            KeyKind::Rate => {
                let (rate, _) = self.limits.keyed_rate().filter(|(_, pointer)| KeyKind::is_at(key, pointer))?;
                let allowed =
                    self.windows.get(&key).map_or(rate.most_per_window(), |window| window.allowed(rate, self.now));
                Some(allowed - self.starts.get(&key).copied().unwrap_or(0))
            }
        }
    }

    /// Reads what runs and what has started under these keys, unless it is known.
    async fn load(&mut self, tx: &mut Tx, keys: impl Iterator<Item = ItemKeys>) -> Result<()> {
        let (mut running, mut rates) = (BTreeSet::new(), BTreeSet::new());
        for keys in keys {
            running.extend(keys.concurrency.filter(|key| !self.running.contains_key(key)));
            rates.extend(keys.rate.filter(|key| !self.windows.contains_key(key)));
        }
        if !running.is_empty() {
            let keys: Vec<Uuid> = running.into_iter().collect();
            self.running.extend(keys.iter().map(|&key| (key, 0)));
            self.running.extend(parked_items::running(&mut **tx, &[self.info.id], &keys).await?);
        }
        if !rates.is_empty() {
            let keys: Vec<Uuid> = rates.into_iter().collect();
            self.windows.extend(keys.iter().map(|&key| (key, RateWindow::default())));
            self.windows.extend(rate_windows::read(tx, self.info.id, &keys).await?);
        }
        Ok(())
    }

    /// The next items that are not parked, from the low-water mark, and again from the bottom if those are not enough.
    async fn candidates(&self, tx: &mut Tx, wanted: usize) -> Result<Vec<Candidate>> {
        let limit = wanted as i64;
        let start = self.core.low_water_marks.start(self.info.id);
        let found = parked_items::candidates(tx, self.info.id, start, limit, &self.cancelled_jobs).await?;
        let found = if found.len() >= wanted || start == ClaimCursor::BOTTOM {
            found
        } else {
            parked_items::candidates(tx, self.info.id, ClaimCursor::BOTTOM, limit, &self.cancelled_jobs).await?
        };
        let first = found.first().map_or(ClaimCursor::BOTTOM, |first| ClaimCursor {
            negated_priority: first.negated_priority,
            fair_turn: first.fair_turn,
        });
        self.core.low_water_marks.found(self.info.id, first);
        Ok(found)
    }

    /// Claims the candidates that all limits allow, one for each slot, and parks those before the last of them that a limit
    /// holds back. Returns the number of those, too.
    async fn take(
        &mut self,
        tx: &mut Tx,
        candidates: Vec<Candidate>,
        slots: &[ClaimSlot],
    ) -> Result<(Vec<ClaimedRow>, usize)> {
        let keys: Vec<ItemKeys> = candidates.iter().map(|it| ItemKeys::of(self.limits, &it.payload)).collect();
        self.load(tx, keys.iter().copied()).await?;
        let (mut claimed, mut parked) = (Vec::new(), Vec::new());
        for (candidate, keys) in candidates.into_iter().zip(keys) {
            if claimed.len() == slots.len() {
                break;
            }
            let full = |key: &Uuid| self.room(*key).is_some_and(|room| room <= 0);
            let holder = keys.concurrency.filter(full).or_else(|| keys.rate.filter(full));
            let counted = holder.or(keys.concurrency);
            // If the item no longer counts for the key that parked it, the next item of that key may start instead.
            self.hints.extend(candidate.limit_key.filter(|old| Some(*old) != counted && Some(*old) != keys.rate));
            if let Some(key) = holder {
                if KeyKind::of(key) == KeyKind::Rate {
                    self.later.insert(key);
                }
                parked.push((candidate.item_id, key));
                continue;
            }
            if let Some(key) = keys.concurrency {
                *self.running.entry(key).or_default() += 1;
            }
            if let Some(key) = keys.rate {
                *self.starts.entry(key).or_default() += 1;
            }
            claimed.push((candidate.item_id, keys.concurrency));
        }
        parked.sort_unstable_by_key(|item| item.0);
        let (ids, parked_by): (Vec<Uuid>, Vec<Uuid>) = parked.into_iter().unzip();
        parked_items::park_again(tx, self.info.id, &ids, &parked_by).await?;
        let n_parked = ids.len();
        if claimed.is_empty() {
            return Ok((Vec::new(), n_parked));
        }
        claimed.sort_unstable_by_key(|item| item.0);
        let (ids, counted): (Vec<Uuid>, Vec<Option<Uuid>>) = claimed.into_iter().unzip();
        let slots = &slots[..ids.len()];
        let rows = parked_items::claim(tx, self.info.id, &ids, &counted, slots, times(self.info)).await?;
        Ok((rows, n_parked))
    }

    /// Records the starts, and hints at the keys that are to be looked at again.
    async fn finish(&mut self, tx: &mut Tx) -> Result<()> {
        let type_id = self.info.id;
        parked_items::hint(tx, self.hints.iter().map(|&key| (type_id, key))).await?;
        // Read after the items started: no start is later than it is recorded.
        let now = micros(items::now(tx).await?);
        let mut changed: BTreeSet<Uuid> = BTreeSet::new();
        let mut later: Vec<(Uuid, i64)> = Vec::new();
        let rate = self.limits.keyed_rate().map(|(rate, _)| rate);
        if let Some(rate) = rate {
            for (&key, &n) in &self.starts {
                self.windows.entry(key).or_default().start(rate, now, n);
                changed.insert(key);
            }
        }
        for &key in self.later.difference(&self.hints) {
            let Some(rate) = rate.filter(|_| KeyKind::of(key) == KeyKind::Rate) else {
                later.push((key, now + PAUSE));
                continue;
            };
            let window = self.windows.entry(key).or_default();
            let next = window.next_at(rate, now);
            let next = if next > now { next } else { now + PAUSE };
            // A hint that is later than `next` is of a limit that was tighter.
            if window.hint_at > now && window.hint_at <= next {
                continue;
            }
            window.hint_at = next;
            later.push((key, next));
            changed.insert(key);
        }
        if let Some(rate) = rate {
            let windows = changed.into_iter().map(|key| {
                let window = self.windows.get(&key).cloned().unwrap_or_default();
                stored(key, &window, rate)
            });
            rate_windows::write(tx, type_id, &windows.collect::<Result<Vec<_>>>()?).await?;
        }
        let later = later.into_iter().map(|(key, at)| Ok((key, time_of(at)?)));
        Ok(parked_items::hint_later(tx, type_id, &later.collect::<Result<Vec<_>>>()?).await?)
    }
}

/// A key alone, as the keys of an item.
fn keys_of(key: Uuid) -> ItemKeys {
    match KeyKind::of(key) {
        KeyKind::Concurrency => ItemKeys { concurrency: Some(key), rate: None },
        KeyKind::Rate => ItemKeys { concurrency: None, rate: Some(key) },
    }
}
