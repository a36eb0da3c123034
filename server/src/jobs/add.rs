//! Items in: from requests, and from files batch by batch.
//!
//! One transaction for many requests. It takes dedupe keys and lanes, then locks the gates (the job's,
//! and the one that carries the tree's turns), so places in the sequence and turns are exact, and a
//! refusal of one request (sealed, cancelled, a double) leaves the others alone. Large batches take their
//! places first and lock the gates last (`reserve.rs`).

mod refusal; // what a job does not take
mod reserve; // places for many items, taken before their rows are written
pub(super) mod rows; // rows on their way into the tables

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::{
    Code, Document, Problem,
    api::{Added, WorkError},
};
use uuid::Uuid;

use crate::{
    auth::Caller,
    error::{Error, Result},
    flush::Batch,
    store::{
        Tx,
        audit::{self, AuditRow},
        contracts::JobInfo,
        dedupe,
        endings::ErrorText,
        gates::{self, Delta, Locked},
        jobs,
        leases::Mark,
    },
};

use super::{
    Core, Engine, groups,
    intake::{Arrivals, Intake},
    keys::{self, OnDuplicate},
    prepare::Prepared,
    settle,
};

use refusal::{refusal, refuse_doubles, refuse_early_seals, removed};

pub(super) use reserve::Reserved;

/// Items for one job.
pub(super) struct AddCommand {
    pub(super) job: Arc<JobInfo>,
    pub(super) items: Vec<Prepared>,
    pub(super) seal: bool,
    pub(super) on_duplicate: OnDuplicate,
    /// The step in a file that these items are.
    pub(super) place: Option<Place>,
    /// The Idempotency-Key that moves with these items.
    pub(super) key: Option<keys::KeyMove>,
    /// Entry of the audit log that is written with them.
    pub(super) audit: Option<Box<AuditRow>>,
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
    type Done = AddedRows;

    fn weight(command: &AddCommand) -> usize {
        command.items.len().max(1)
    }

    async fn run(&self, commands: &[&AddCommand]) -> Result<AddedRows> {
        let core = &self.0;
        let reserved = Reserved::take(core, commands).await?;
        match attempt(core, commands, reserved.as_ref()).await {
            Err(Error::Conflict(_)) if reserved.is_some() => attempt(core, commands, None).await,
            other => other,
        }
    }

    async fn answer(&self, _: &[AddCommand], done: AddedRows) -> Vec<Result<Added>> {
        done.after_commit(&self.0).await;
        done.answers
    }
}

/// One transaction for many requests, in places that were taken before or are taken now.
async fn attempt(core: &Core, commands: &[&AddCommand], reserved: Option<&Reserved>) -> Result<AddedRows> {
    let mut tx = core.pools.hot.begin().await?;
    let done = keys::add(core, &mut tx, commands, reserved).await?;
    let written = commands.iter().zip(&done.answers).filter(|(_, answer)| answer.is_ok());
    let entries: Vec<AuditRow> = written.filter_map(|(command, _)| command.audit.as_deref().cloned()).collect();
    audit::record_all(&mut tx, &entries).await?;
    crate::store::commit(tx).await?;
    Ok(done)
}

/// What an adding transaction did, and what is to follow its commit.
pub(super) struct AddedRows {
    pub(super) answers: Vec<Result<Added>>,
    ready: BTreeMap<i32, (usize, Mark)>,
    roots: Vec<Uuid>,
    settle: Vec<(i64, Uuid)>,
    /// Items by type, for the figures.
    arrived: BTreeMap<String, usize>,
}

impl AddedRows {
    pub(super) fn of(ready: BTreeMap<i32, (usize, Mark)>, roots: Vec<Uuid>, settle: Vec<(i64, Uuid)>) -> Self {
        Self { answers: Vec::new(), ready, roots, settle, arrived: BTreeMap::new() }
    }

    pub(super) async fn after_commit(&self, core: &Arc<Core>) {
        core.announce(&self.ready);
        for (type_name, &n) in &self.arrived {
            core.figures.added(type_name, n);
        }
        settle::settle_all(core, &self.settle).await;
        core.hub.touch(&self.roots);
    }
}

impl Core {
    /// Tells those who wait that there is work.
    pub(super) fn announce(&self, ready: &BTreeMap<i32, (usize, Mark)>) {
        for (&type_id, &(n, lowest)) in ready {
            self.marks.added(type_id, lowest);
            self.hub.work_added(type_id);
            self.waiters.wake(type_id, n);
        }
    }
}

/// How the gates are held that items are added to.
pub(super) enum Gates<'a> {
    /// They are locked before the rows are written.
    Lock,
    /// Places of them are taken; they are locked after the rows are written.
    Reserved(&'a Reserved),
    /// The transaction has written them, and nobody else can know them.
    New(HashMap<i64, Locked>),
}

/// Adds within a transaction of the caller. Locks what it needs, in order. Where a command is refused, the
/// rest of the transaction stands.
pub(super) async fn add(core: &Core, tx: &mut Tx, commands: &[&AddCommand], gates: Gates<'_>) -> Result<AddedRows> {
    let mut refused: HashMap<usize, Problem> = HashMap::new();
    for (at, command) in commands.iter().enumerate() {
        if let Some(place) = &command.place
            && !jobs::move_split(tx, command.job.gate_id, place.from, place.to, place.line, place.done).await?
        {
            refused.insert(at, Problem::new(Code::JobSealed, "The place in the file has moved meanwhile."));
        }
    }
    let new = matches!(gates, Gates::New(_));
    for (at, problem) in refuse_early_seals(tx, commands, new).await? {
        refused.insert(at, problem);
    }
    let arrivals: Vec<Arrivals<'_>> = commands.iter().map(|c| Arrivals { job: &c.job, items: &c.items }).collect();
    let mut intake = Intake::begin(core, &arrivals).await?;
    intake.take_keys(tx, &arrivals).await?;
    for (at, problem) in refuse_doubles(tx, commands, &intake).await? {
        refused.entry(at).or_insert(problem);
    }
    intake.lock_lanes(tx, []).await?;
    intake.look(tx).await?;

    let reserved = if let Gates::Reserved(reserved) = gates { Some(reserved) } else { None };
    let locked = match gates {
        Gates::Lock => reserve::lock(tx, commands).await?,
        Gates::Reserved(reserved) => reserved.gates().clone(),
        Gates::New(gates) => gates,
    };
    intake.open(tx, &locked).await?;

    let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
    let mut added = vec![0; commands.len()];
    for (at, command) in commands.iter().enumerate() {
        if refused.contains_key(&at) {
            continue;
        }
        let Some(gate) = locked.get(&command.job.gate_id) else {
            refused.insert(at, removed());
            continue;
        };
        if let Some(problem) = refusal(gate, command) {
            refused.insert(at, problem);
            continue;
        }
        let n = intake.place(core, tx, &arrivals[at], gate, &mut deltas).await?;
        added[at] = n;
        let delta = deltas.entry(command.job.gate_id).or_default();
        delta.adds |= n > 0;
        delta.seal |= command.seal;
        if let Some(place) = &command.place
            && (place.done || place.expected.is_some())
        {
            jobs::set_expected(tx, command.job.gate_id, place.expected).await?;
        }
    }
    give_back_keys(tx, commands, &refused, &intake).await?;

    intake.write(core, tx, &mut deltas).await?;
    if let Some(reserved) = reserved {
        reserved.confirm(tx, commands).await?;
        for delta in deltas.values_mut() {
            delta.seqs = 0;
        }
    }
    let deltas: Vec<(i64, Delta)> = deltas.into_iter().collect();
    let after = gates::apply_held(tx, &deltas).await?;
    if after.len() != deltas.len() {
        return Err(Error::Broken("a gate refused what its lock allowed".to_owned()));
    }
    core.announce_complete_of(tx, &deltas).await?;
    groups::count(core, tx, &intake.dead()).await?;
    let settle: Vec<(i64, Uuid)> = after.iter().filter(|a| a.needs_settle).map(|a| (a.gate_id, a.root_id)).collect();
    if !settle.is_empty() {
        gates::ask_to_settle(tx, &settle.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    }

    let mut arrived: BTreeMap<String, usize> = BTreeMap::new();
    for (command, &n) in commands.iter().zip(&added).filter(|(_, n)| **n > 0) {
        *arrived.entry(command.job.type_name.clone()).or_default() += n as usize;
    }
    let answers = commands
        .iter()
        .enumerate()
        .map(|(at, command)| match refused.remove(&at) {
            Some(problem) => Err(problem.into()),
            None => Ok(Added {
                accepted: added[at],
                duplicates: command.items.len() as i64 - added[at],
                sealed: command.seal || locked.get(&command.job.gate_id).is_some_and(|gate| gate.sealed),
            }),
        })
        .collect();
    let mut roots: Vec<Uuid> = after.iter().map(|a| a.root_id).collect();
    roots.sort_unstable();
    roots.dedup();
    Ok(AddedRows { answers, ready: intake.ready(), roots, settle, arrived })
}

/// The keys of commands that add nothing after all.
async fn give_back_keys(
    tx: &mut Tx,
    commands: &[&AddCommand],
    refused: &HashMap<usize, Problem>,
    intake: &Intake,
) -> Result<()> {
    let mut items = Vec::new();
    let mut gates = Vec::new();
    let mut names = Vec::new();
    for (_, command) in commands.iter().enumerate().filter(|(at, _)| refused.contains_key(at)) {
        for item in command.items.iter().filter(|item| !intake.is_double(item)) {
            if let Some(key) = &item.dedupe_key {
                items.push(item.id);
                gates.push(command.job.gate_id);
                names.push(key.as_str());
            }
        }
    }
    if !items.is_empty() {
        dedupe::give_back(tx, &items, &gates, &names).await?;
    }
    Ok(())
}

impl Engine {
    /// Promises that a job gets no more items (`sealing`). Again is fine.
    pub async fn seal(&self, caller: &Caller, job_id: Uuid, reason: Option<String>) -> Result<()> {
        self.add_items(caller, job_id, Vec::new(), keys::Adding { seal: true, reason, ..keys::Adding::default() })
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
                id: Uuid::now_v7(),
                dedupe_key: None,
                serialize_key: None,
                fed_by: None,
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
        match self
            .0
            .adds
            .run(AddCommand {
                job,
                items,
                seal: batch.done,
                on_duplicate: OnDuplicate::Refuse,
                place: Some(place),
                key: None,
                audit: None,
            })
            .await
        {
            Ok(_) => Ok(true),
            Err(Error::Problem(problem)) if matches!(problem.code, Code::JobSealed | Code::JobCancelled) => Ok(false),
            Err(e) => Err(e),
        }
    }
}
