//! Items in: from requests, and from files batch by batch.
//!
//! One transaction for many requests. It locks the gates first (the job's, and the one that carries
//! the tree's turns), so places in the sequence and turns are exact, and a refusal of one request
//! (sealed, cancelled) leaves the others alone.

mod rows; // rows on their way into the tables

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::{
    Code, Document, Problem, Time,
    api::{Added, WorkError},
};
use uuid::Uuid;

use crate::{
    auth::Caller,
    error::{Error, Result},
    flush::Batch,
    store::{
        Tx,
        contracts::JobInfo,
        endings::{self, ErrorText},
        gates::{self, Delta},
        items, jobs,
        leases::Mark,
    },
};

use super::{Core, Engine, groups, keys, prepare::Prepared, settle};
use rows::{ITEMS_A_TURN, Rows};

/// Items for one job.
pub(super) struct AddCommand {
    pub(super) job: Arc<JobInfo>,
    pub(super) items: Vec<Prepared>,
    pub(super) seal: bool,
    /// The step in a file that these items are.
    pub(super) place: Option<Place>,
    /// The Idempotency-Key that moves with these items.
    pub(super) key: Option<keys::KeyMove>,
}

pub(super) struct Place {
    from: i64,
    to: i64,
    line: i64,
    done: bool,
    expected: Option<i64>,
}

/// A row cut from a file.
#[derive(Clone, Debug)]
pub struct SplitRow {
    /// First line of its record.
    pub line: i64,
    /// The payload, as far as known.
    pub payload: Document,
    /// Why it cannot be worked on.
    pub problem: Option<WorkError>,
}

/// A batch of rows, and the place in the file that it moves.
#[derive(Clone, Debug)]
pub struct SplitBatch {
    pub job_id: Uuid,
    /// Byte offset where the batch begins; must still be the place of the file.
    pub from: i64,
    /// Byte offset of the first record after it.
    pub to: i64,
    /// Line of the first record after it.
    pub line: i64,
    pub rows: Vec<SplitRow>,
    /// The file is at its end: the job is sealed.
    pub done: bool,
    /// A better estimate of the number of rows.
    pub expected: Option<i64>,
}

pub(super) struct AddBatch(pub(super) Arc<Core>);

impl Batch for AddBatch {
    type Command = AddCommand;
    type Answer = Added;

    fn weight(command: &AddCommand) -> usize {
        command.items.len().max(1)
    }

    async fn run(&self, commands: &[&AddCommand]) -> Result<Vec<Result<Added>>> {
        let core = &self.0;
        let mut tx = core.pools.hot.begin().await?;
        let done = keys::add(core, &mut tx, commands).await?;
        tx.commit().await?;
        done.after_commit(core).await;
        Ok(done.answers)
    }
}

/// What an adding transaction did, and what is to follow its commit.
pub(super) struct AddedRows {
    pub(super) answers: Vec<Result<Added>>,
    ready: BTreeMap<i32, (usize, Mark)>,
    roots: Vec<Uuid>,
    settle: Vec<(i64, Uuid)>,
}

impl AddedRows {
    pub(super) async fn after_commit(&self, core: &Arc<Core>) {
        for (&type_id, &(n, lowest)) in &self.ready {
            core.marks.added(type_id, lowest);
            core.hub.work_added(type_id);
            core.waiters.wake(type_id, n);
        }
        settle::settle_all(core, &self.settle).await;
        core.hub.touch(&self.roots);
    }
}

/// Adds within a transaction of the caller. Locks the gates it needs, in order.
pub(super) async fn add(core: &Core, tx: &mut Tx, commands: &[&AddCommand]) -> Result<AddedRows> {
    let mut refused: HashMap<usize, Problem> = HashMap::new();
    for (at, command) in commands.iter().enumerate() {
        if let Some(place) = &command.place
            && !jobs::move_split(tx, command.job.gate_id, place.from, place.to, place.line, place.done).await?
        {
            refused.insert(at, Problem::new(Code::JobSealed, "The place in the file has moved meanwhile."));
        }
    }
    for (at, problem) in refuse_early_seals(tx, commands).await? {
        refused.insert(at, problem);
    }
    let mut gate_ids: Vec<i64> = commands.iter().flat_map(|c| [c.job.gate_id, c.job.turn_gate_id]).collect();
    gate_ids.sort_unstable();
    gate_ids.dedup();
    let locked: HashMap<i64, gates::Locked> =
        gates::lock(tx, &gate_ids).await?.into_iter().map(|gate| (gate.gate_id, gate)).collect();
    let now = Time(items::now(tx).await?);

    let mut rows = Rows::default();
    let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
    let mut turns: HashMap<i64, i64> = locked.iter().map(|(&id, gate)| (id, gate.last_turn)).collect();
    let mut seqs: HashMap<i64, i64> = locked.iter().map(|(&id, gate)| (id, gate.next_seq)).collect();
    let mut current: HashMap<(i32, i16), i64> = HashMap::new();
    for (at, command) in commands.iter().enumerate() {
        if refused.contains_key(&at) {
            continue;
        }
        let job = &command.job;
        if let Some(problem) = locked
            .get(&job.gate_id)
            .map_or_else(|| Some(Problem::new(Code::JobRemoved, "The job was removed.")), |gate| refusal(gate, command))
        {
            refused.insert(at, problem);
            continue;
        }
        for item in &command.items {
            let rank = (job.type_id, -item.priority);
            if let std::collections::hash_map::Entry::Vacant(entry) = current.entry(rank) {
                let from = core.marks.turn(rank.0, rank.1);
                let lowest = items::current_turn(tx, rank.0, rank.1, from).await?;
                entry.insert(lowest.unwrap_or(from.max(0)) * ITEMS_A_TURN);
            }
            let seq = seqs.entry(job.gate_id).or_insert(1);
            let turn = turns.entry(job.turn_gate_id).or_insert(0);
            let delta = deltas.entry(job.gate_id).or_default();
            rows.place(job, item, *seq, turn, current[&rank], now, delta);
            *seq += 1;
        }
        let delta = deltas.entry(job.gate_id).or_default();
        delta.seqs += command.items.len() as i64;
        delta.adds |= !command.items.is_empty();
        delta.seal |= command.seal;
        if let Some(place) = &command.place
            && (place.done || place.expected.is_some())
        {
            jobs::set_expected(tx, job.gate_id, place.expected).await?;
        }
        deltas.entry(job.turn_gate_id).or_default();
    }
    for (gate_id, delta) in &mut deltas {
        delta.turn = turns.get(gate_id).copied().unwrap_or(0);
    }

    items::insert(tx, &rows.items).await?;
    items::make_ready(tx, &rows.ready).await?;
    items::defer(tx, &rows.deferred).await?;
    endings::finish(tx, &rows.dead).await?;
    let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
    let after = gates::apply(tx, &deltas).await?;
    if after.len() != deltas.len() {
        return Err(Error::Broken("a gate refused what its lock allowed".to_owned()));
    }
    groups::count(tx, &rows.dead).await?;
    let settle: Vec<(i64, Uuid)> = after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect();
    if !settle.is_empty() {
        gates::ask_to_settle(tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    }

    let answers = commands
        .iter()
        .enumerate()
        .map(|(at, command)| match refused.remove(&at) {
            Some(problem) => Err(problem.into()),
            None => Ok(Added {
                accepted: command.items.len() as i64,
                duplicates: 0,
                sealed: command.seal || locked.get(&command.job.gate_id).is_some_and(|gate| gate.sealed),
            }),
        })
        .collect();
    let mut roots: Vec<Uuid> = after.iter().map(|a| a.root_id).collect();
    roots.dedup();
    Ok(AddedRows { answers, ready: rows.lowest(), roots, settle })
}

/// A job that is filled from a file is sealed at the file's end: by hand, the rest of its rows would be
/// lost.
async fn refuse_early_seals(tx: &mut Tx, commands: &[&AddCommand]) -> Result<Vec<(usize, Problem)>> {
    let by_hand = |command: &AddCommand| command.seal && command.place.is_none();
    let gates: Vec<i64> = commands.iter().filter(|c| by_hand(c)).map(|c| c.job.gate_id).collect();
    if gates.is_empty() {
        return Ok(Vec::new());
    }
    let being_split = jobs::being_split(tx, &gates).await?;
    let problem = || {
        Problem::new(Code::JobIsFed, "The job is being filled from its file and is sealed by itself at the file's end.")
    };
    Ok(commands
        .iter()
        .enumerate()
        .filter(|(_, command)| by_hand(command) && being_split.contains(&command.job.gate_id))
        .map(|(at, _)| (at, problem()))
        .collect())
}

/// Rule 3 and 15: a sealed or cancelled job takes nothing more. Sealing again is fine.
fn refusal(gate: &gates::Locked, command: &AddCommand) -> Option<Problem> {
    if gate.cancelled {
        Some(Problem::new(Code::JobCancelled, "The job is cancelled and takes no more items."))
    } else if gate.sealed && !command.items.is_empty() {
        Some(Problem::new(Code::JobSealed, "The job is sealed and takes no more items. Create another job for them."))
    } else {
        None
    }
}

impl Engine {
    /// Promises that a job gets no more items (rule 3). Again is fine.
    pub async fn seal(&self, caller: &Caller, job_id: Uuid) -> Result<()> {
        self.add_items(caller, job_id, Vec::new(), keys::Adding { seal: true, ..keys::Adding::default() })
            .await
            .map(|_| ())
    }

    /// Adds rows cut from a file and moves the place in the file, in one commit. `false`: somebody else
    /// has moved it, and nothing was added.
    pub async fn add_split_batch(&self, batch: SplitBatch) -> Result<bool> {
        let core = &self.0.core;
        let Some(job) = core.jobs.by_id(&core.pools.read, batch.job_id).await? else { return Ok(false) };
        let items = batch
            .rows
            .into_iter()
            .map(|row| Prepared {
                payload: row.payload.text().to_owned(),
                metadata: None,
                priority: job.priority,
                row: Some(row.line),
                run_after: job.run_after,
                expires_at: job.expires_at,
                error: row.problem.map(|error| ErrorText {
                    fingerprint: domain::fingerprint::fingerprint(error.kind.as_deref(), &error.message),
                    message: error.message,
                    kind: error.kind,
                    detail: error.detail.map(|detail| detail.text().to_owned()),
                }),
            })
            .collect();
        let place =
            Place { from: batch.from, to: batch.to, line: batch.line, done: batch.done, expected: batch.expected };
        match self.0.adds.run(AddCommand { job, items, seal: batch.done, place: Some(place), key: None }).await {
            Ok(_) => Ok(true),
            Err(Error::Problem(problem)) if matches!(problem.code, Code::JobSealed | Code::JobCancelled) => Ok(false),
            Err(e) => Err(e),
        }
    }
}
