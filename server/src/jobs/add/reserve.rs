//! Places for many items, taken before their rows are written.
//!
//! A gate that is locked while thousands of rows go in makes everybody wait who adds to the job, claims
//! from it or ends work of it. So a large batch takes its places in the sequence and its turns in a
//! commit of its own, writes its rows holding no gate, and locks the gates again for the length of a
//! commit. If the job is another by then (sealed, cancelled, let go), the batch is rolled back and runs
//! once more the plain way. What is left of a batch that failed is a gap in the sequence, which no rule
//! forbids. It must not decide anything: the gates that are locked at the end do.

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

/// Items from which on two transactions cost less than the wait of the others.
const LARGE: usize = 1_000;

/// The gates as they were when places were taken of them.
pub(in crate::jobs) struct Reserved {
    gates: HashMap<i64, Locked>,
}

impl Reserved {
    /// Takes places for a batch that is large and would be refused nothing; `None`: it runs the plain way.
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

    /// The gates with the places that were taken.
    pub(super) fn gates(&self) -> &HashMap<i64, Locked> {
        &self.gates
    }

    /// Locks the gates for good. [`Error::Conflict`]: a job is not what it was when the rows were made.
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

/// Locks the gates of a batch, those of the jobs and those that carry the turns of their trees.
pub(super) async fn lock(tx: &mut Tx, commands: &[&AddCommand]) -> Result<HashMap<i64, Locked>> {
    let mut ids: Vec<i64> = commands.iter().flat_map(|c| [c.job.gate_id, c.job.turn_gate_id]).collect();
    ids.sort_unstable();
    ids.dedup();
    Ok(gates::lock(tx, &ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect())
}
