//! Places for many items, reserved before their rows are written.
//!
//! While a job state row is locked for thousands of inserts, every add to the job, claim from it and completion of its
//! items waits. So a large batch reserves its sequence numbers and fair turns in a separate commit, inserts its rows
//! without holding the lock, and locks the row again only for a short commit. If the job has changed by then (sealed,
//! canceled, released), the batch is rolled back and runs once more without a reservation. A failed batch leaves a gap
//! in the sequence, which no rule forbids. A reservation never decides anything; the rows locked at the end do.

use std::collections::{BTreeMap, HashMap};

use crate::{
    error::{Error, Result},
    store::{
        Tx,
        gates::{self, Delta, Locked},
    },
};

use super::{AddCommand, refusal::refusal, rows::ITEMS_A_TURN};
use crate::jobs::{Core, intake};

/// Number of items from which two transactions cost less than the wait of others.
const LARGE: usize = 1_000;

/// Job state rows as they were when places were reserved.
pub(in crate::jobs) struct Reserved {
    gates: HashMap<i64, Locked>,
}

impl Reserved {
    /// Reserves places for a large batch without refusals; `None`: the batch runs without a reservation.
    pub(super) async fn take(core: &Core, commands: &[&AddCommand]) -> Result<Option<Self>> {
        if commands.iter().map(|command| command.items.len()).sum::<usize>() < LARGE {
            return Ok(None);
        }
        let mut tx = core.pools.hot.begin().await?;
        let gates = lock(&mut tx, commands).await?;
        let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
        let mut turns: HashMap<i64, i64> = HashMap::new();
        for command in commands {
            let job = &command.job;
            match gates.get(&job.gate_id) {
                Some(gate) if refusal(gate, command).is_none() => {}
                _ => return Ok(None),
            }
            let Some(carrier) = gates.get(&job.turn_gate_id) else { return Ok(None) };
            let mut turn = *turns.get(&job.turn_gate_id).unwrap_or(&carrier.last_turn);
            let mut ranks: Vec<i16> = command.items.iter().map(|item| -item.priority).collect();
            ranks.sort_unstable();
            ranks.dedup();
            for rank in ranks {
                turn = turn.max(intake::lowest_turn(core, &mut tx, job.type_id, rank).await? * ITEMS_A_TURN);
            }
            let n = command.items.len() as i64;
            turns.insert(job.turn_gate_id, turn + n);
            let delta = deltas.entry(job.gate_id).or_default();
            delta.turn_only = false;
            delta.adds = true;
            delta.seqs += n;
            deltas.entry(job.turn_gate_id).or_insert_with(Delta::turns);
        }
        for (gate, turn) in turns {
            if let Some(delta) = deltas.get_mut(&gate) {
                delta.turn = turn;
            }
        }
        let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
        if gates::apply_held(&mut tx, &deltas).await?.len() != deltas.len() {
            return Ok(None);
        }
        crate::store::commit(tx).await?;
        Ok(Some(Self { gates }))
    }

    /// Job state rows with the reserved places.
    pub(super) fn gates(&self) -> &HashMap<i64, Locked> {
        &self.gates
    }

    /// Locks the job state rows. Returns [`Error::Conflict`] if a job has changed since the reservation.
    pub(super) async fn confirm(&self, tx: &mut Tx, commands: &[&AddCommand]) -> Result<()> {
        let what_counts = |gate: &Locked| (gate.sealed, gate.cancelled, gate.removed, gate.held(), gate.after_failed);
        let now = lock(tx, commands).await?;
        let same = |(id, gate): (&i64, &Locked)| self.gates.get(id).map(what_counts) == Some(what_counts(gate));
        if now.len() == self.gates.len() && now.iter().all(same) {
            Ok(())
        } else {
            Err(Error::Conflict("a job changed while many items were on their way into it"))
        }
    }
}

/// Locks the job state rows of the jobs of a batch, and those that hold the fair turns of their trees.
pub(super) async fn lock(tx: &mut Tx, commands: &[&AddCommand]) -> Result<HashMap<i64, Locked>> {
    let mut ids: Vec<i64> = commands.iter().flat_map(|c| [c.job.gate_id, c.job.turn_gate_id]).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(gates::lock(tx, &ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect())
}
