//! Places for many items, reserved before their rows are written.
//!
//! While a job state row is locked for thousands of inserts, every add to the job, claim from it and completion of its
//! items waits. So a large batch reserves its sequence numbers and fair turns in a separate commit, inserts its rows
//! without holding the lock, and locks the row again only for a short commit. If the job has changed by then (sealed,
//! canceled, released), the batch is rolled back and runs once more without a reservation. A failed batch leaves a gap
//! in the sequence, which no rule forbids. A reservation never decides anything; the rows locked at the end do.

use std::collections::{BTreeMap, HashMap};

use crate::{
    Core,
    error::{Error, Result},
    store::{
        Tx,
        tree::job_states::{self, Delta, LockedJobState},
    },
};

use super::{AddCommand, refusal::refusal, rows::ITEMS_PER_FAIR_TURN};

/// Number of items from which two transactions cost less than the wait of others.
const LARGE: usize = 1_000;

/// Job state rows as they were when places were reserved.
pub(crate) struct Reserved {
    job_states: HashMap<i64, LockedJobState>,
}

impl Reserved {
    /// Reserves places for a large batch without refusals; `None`: the batch runs without a reservation.
    pub(super) async fn take(core: &Core, commands: &[&AddCommand]) -> Result<Option<Self>> {
        if commands.iter().map(|command| command.items.len()).sum::<usize>() < LARGE {
            return Ok(None);
        }
        // They may change other jobs.
        if commands.iter().any(|command| command.items.iter().any(|item| item.debounce.is_some())) {
            return Ok(None);
        }
        let mut tx = crate::store::begin(&core.pools.hot).await?;
        let job_states = lock(&mut tx, commands, Vec::new()).await?;
        let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
        let mut fair_turns: HashMap<i64, i64> = HashMap::new();
        for command in commands {
            let job = &command.job;
            match job_states.get(&job.job_key) {
                Some(job_state) if refusal(job_state, command).is_none() => {}
                _ => return Ok(None),
            }
            let Some(carrier) = job_states.get(&job.fair_turn_job_key) else { return Ok(None) };
            // Only at priority 0: no row stores the turns of others.
            let in_turns = command.items.iter().filter(|item| item.priority == 0).count() as i64;
            if in_turns > 0 {
                let lowest = core.lowest_waiting_turn(&mut tx, job.type_id, 0).await? * ITEMS_PER_FAIR_TURN;
                let last = fair_turns.entry(job.fair_turn_job_key).or_insert(carrier.last_fair_turn);
                *last = lowest.max(*last) + in_turns;
            }
            let n = command.items.len() as i64;
            let delta = deltas.entry(job.job_key).or_default();
            delta.fair_turn_only = false;
            delta.adds = true;
            delta.seqs += n;
            deltas.entry(job.fair_turn_job_key).or_insert_with(Delta::fair_turns);
        }
        for (job_state, fair_turn) in fair_turns {
            if let Some(delta) = deltas.get_mut(&job_state) {
                delta.fair_turn = fair_turn;
            }
        }
        let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
        if job_states::apply_locked(&mut tx, &deltas).await?.len() != deltas.len() {
            return Ok(None);
        }
        crate::store::commit(tx).await?;
        Ok(Some(Self { job_states }))
    }

    /// Job state rows with the reserved places.
    pub(super) fn job_states(&self) -> &HashMap<i64, LockedJobState> {
        &self.job_states
    }

    /// Locks the job state rows. Returns [`Error::Conflict`] if a job has changed since the reservation.
    pub(super) async fn confirm(&self, tx: &mut Tx, commands: &[&AddCommand]) -> Result<()> {
        let what_counts = |job_state: &LockedJobState| {
            (job_state.sealed, job_state.cancelled, job_state.deleted, job_state.blocks_items(), job_state.after_failed)
        };
        let now = lock(tx, commands, Vec::new()).await?;
        let same = |(id, job_state): (&i64, &LockedJobState)| {
            self.job_states.get(id).map(what_counts) == Some(what_counts(job_state))
        };
        if now.len() == self.job_states.len() && now.iter().all(same) {
            Ok(())
        } else {
            Err(Error::Conflict("a job changed while many items were on their way into it"))
        }
    }
}

/// Locks the job state rows of the jobs of a batch, those that hold the fair turns of their trees, and others.
pub(super) async fn lock(
    tx: &mut Tx,
    commands: &[&AddCommand],
    others: Vec<i64>,
) -> Result<HashMap<i64, LockedJobState>> {
    let mut ids: Vec<i64> = commands.iter().flat_map(|c| [c.job.job_key, c.job.fair_turn_job_key]).collect();
    ids.extend(others);
    ids.sort_unstable();
    ids.dedup();
    Ok(job_states::lock(tx, &ids).await?.into_iter().map(|job_state| (job_state.job_key, job_state)).collect())
}

/// Locks the job state rows that are not among these.
pub(super) async fn lock_others(
    tx: &mut Tx,
    job_keys: Vec<i64>,
    known: &HashMap<i64, LockedJobState>,
) -> Result<HashMap<i64, LockedJobState>> {
    let others: Vec<i64> = job_keys.into_iter().filter(|job_key| !known.contains_key(job_key)).collect();
    if others.is_empty() { Ok(HashMap::new()) } else { lock(tx, &[], others).await }
}
