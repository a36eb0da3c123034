//! Adding items: from requests, and from files batch by batch.
//!
//! One transaction serves many requests. It takes dedupe keys and serialize queues, then locks the job state rows (the
//! job's, and the one that holds the fair turns of the tree). Sequence numbers and turns are therefore exact, and a
//! refused request (sealed, canceled, duplicate) does not affect the others. Large batches reserve their places first
//! and lock the job state rows last (`reserve.rs`).

mod refusal; // reasons to refuse items
mod reserve; // places for many items, reserved before their rows are written
pub(super) mod rows; // rows prepared for the tables

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
    intake::{Arrivals, Arrived, Intake},
    keys::{self, OnDuplicate},
    prepare::Prepared,
    settle,
};

use refusal::{refusal, refuse_doubles, refuse_early_seals, removed};

pub(super) use reserve::Reserved;

/// Items to add to one job.
pub(super) struct AddCommand {
    pub(super) job: Arc<JobInfo>,
    pub(super) items: Vec<Prepared>,
    pub(super) seal: bool,
    pub(super) on_duplicate: OnDuplicate,
    /// Move of the file cursor that these items belong to.
    pub(super) place: Option<Place>,
    /// Idempotency-Key whose cursor moves with these items.
    pub(super) key: Option<keys::KeyMove>,
    /// Audit log entry that is written with the items.
    pub(super) audit: Option<Box<AuditRow>>,
}

pub(super) struct Place {
    from: i64,
    to: i64,
    line: i64,
    done: bool,
    expected: Option<i64>,
}

/// Row read from a file.
#[derive(Clone, Debug)]
pub struct SplitRow {
    /// Number of the first line of the record.
    pub line: i64,
    /// Payload, as far as it could be parsed.
    pub payload: Document,
    /// Error that makes the row unprocessable.
    pub problem: Option<WorkError>,
}

/// Batch of rows, and the move of the file cursor.
#[derive(Clone, Debug)]
pub struct SplitBatch {
    pub job_id: Uuid,
    /// Byte offset where the batch begins; must equal the file's stored cursor.
    pub from: i64,
    /// Byte offset of the first record after the batch.
    pub to: i64,
    /// Line number of the first record after the batch.
    pub line: i64,
    pub rows: Vec<SplitRow>,
    /// True if the file is at its end; the job is then sealed.
    pub done: bool,
    /// Better estimate of the number of rows.
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

/// Runs one transaction for many requests, with places reserved before or taken now.
async fn attempt(core: &Core, commands: &[&AddCommand], reserved: Option<&Reserved>) -> Result<AddedRows> {
    let mut tx = core.pools.hot.begin().await?;
    let done = keys::add(core, &mut tx, commands, reserved).await?;
    let written = commands.iter().zip(&done.answers).filter(|(_, answer)| answer.is_ok());
    let entries: Vec<AuditRow> = written.filter_map(|(command, _)| command.audit.as_deref().cloned()).collect();
    audit::record_all(&mut tx, &entries).await?;
    crate::store::commit(tx).await?;
    Ok(done)
}

/// Result of an adding transaction, and the work that follows its commit.
pub(super) struct AddedRows {
    pub(super) answers: Vec<Result<Added>>,
    ready: BTreeMap<i32, (usize, Mark)>,
    roots: Vec<Uuid>,
    settle: Vec<(i64, Uuid)>,
    /// Numbers for the statistics, by type.
    arrived: BTreeMap<String, Arrived>,
}

impl AddedRows {
    pub(super) fn of(intake: &Intake, roots: Vec<Uuid>, settle: Vec<(i64, Uuid)>) -> Self {
        Self { answers: Vec::new(), ready: intake.ready(), roots, settle, arrived: intake.arrived() }
    }

    pub(super) async fn after_commit(&self, core: &Arc<Core>) {
        core.announce(&self.ready);
        for (type_name, arrived) in &self.arrived {
            core.figures.arrived(type_name, arrived);
        }
        settle::settle_all(core, &self.settle).await;
        core.hub.touch(&self.roots);
    }
}

impl Core {
    /// Wakes waiting claims because there is work.
    pub(super) fn announce(&self, ready: &BTreeMap<i32, (usize, Mark)>) {
        for (&type_id, &(n, lowest)) in ready {
            self.marks.added(type_id, lowest);
            self.hub.work_added(type_id);
            self.waiters.wake(type_id, n);
        }
    }
}

/// Way in which the job state rows of the target jobs are locked.
pub(super) enum Gates<'a> {
    /// Locked before the rows are written.
    Lock,
    /// Places are reserved; the job state rows are locked after the rows are written.
    Reserved(&'a Reserved),
    /// Created by this transaction, so no other transaction can see them.
    New(HashMap<i64, Locked>),
}

/// Adds items within the caller's transaction and takes all locks in order. A refused command leaves the rest of the
/// transaction valid.
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
    Ok(AddedRows { answers, ..AddedRows::of(&intake, roots, settle) })
}

/// Releases the dedupe keys of refused commands.
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
    /// Seals a job: it gets no more items (`sealing`). Idempotent.
    pub async fn seal(&self, caller: &Caller, job_id: Uuid, reason: Option<String>) -> Result<()> {
        self.add_items(caller, job_id, Vec::new(), keys::Adding { seal: true, reason, ..keys::Adding::default() })
            .await
            .map(|_| ())
    }

    /// Adds rows read from a file and moves the file cursor, in one commit. Returns `false` if another task has moved
    /// the cursor; nothing was added then.
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
