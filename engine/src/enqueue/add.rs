//! Adding items: from requests, and from files batch by batch.
//!
//! One transaction serves many requests. It takes dedupe keys and serialize queues, then locks the job state rows (the
//! job's, and the one that holds the fair turns of the tree). Sequence numbers and turns are therefore exact, and a
//! refused request (sealed, canceled, duplicate) does not affect the others. Large batches reserve their places first
//! and lock the job state rows last (`reserved_places.rs`).

mod refusal; // reasons to refuse items
mod reserved_places; // places for many items, reserved before their rows are written
pub(crate) mod rows; // rows prepared for the tables

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
    Core, Engine,
    access::caller::Caller,
    activity_counters::AddedCounts,
    error::{Error, Result},
    error_counters::GroupCount,
    flush::Batch,
    notify::error_groups,
    store::{
        Tx,
        dispatch::{endings::ErrorText, leases::ClaimCursor},
        enqueue::dedupe,
        notify::audit::{self, AuditRow},
        tree::{
            definitions::JobInfo,
            job_states::{self, Delta, LockedJobState},
            jobs,
        },
    },
};

use super::{
    idempotency_keys::{self, OnDuplicate},
    item_intake::{Intake, JobItems},
    item_validation::PreparedItem,
};

use refusal::{refusal, refuse_duplicates, refuse_early_seals, removed};

pub(crate) use reserved_places::Reserved;

/// Items to add to one job.
pub(crate) struct AddCommand {
    pub(crate) job: Arc<JobInfo>,
    pub(crate) items: Vec<PreparedItem>,
    pub(crate) seal: bool,
    pub(crate) on_duplicate: OnDuplicate,
    /// Move of the file cursor that these items belong to.
    pub(crate) cursor_move: Option<CursorMove>,
    /// Idempotency-Key whose cursor moves with these items.
    pub(crate) key: Option<idempotency_keys::KeyAdvance>,
    /// Audit log entry that is written with the items.
    pub(crate) audit: Option<Box<AuditRow>>,
}

pub(crate) struct CursorMove {
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

pub(crate) struct AddBatch(pub(crate) Arc<Core>);

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
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let done = idempotency_keys::add(core, &mut tx, commands, reserved).await?;
    let written = commands.iter().zip(&done.answers).filter(|(_, answer)| answer.is_ok());
    let entries: Vec<AuditRow> = written.filter_map(|(command, _)| command.audit.as_deref().cloned()).collect();
    audit::record_all(&mut tx, &entries).await?;
    crate::store::commit(tx).await?;
    Ok(done)
}

/// Result of an adding transaction, and the work that follows its commit.
pub(crate) struct AddedRows {
    pub(crate) answers: Vec<Result<Added>>,
    ready: BTreeMap<i32, (usize, ClaimCursor)>,
    roots: Vec<Uuid>,
    to_complete: Vec<(i64, Uuid)>,
    /// Numbers for the statistics, by job.
    added_counts: BTreeMap<i64, AddedCounts>,
    /// Items that were dead at once, by error group.
    dead: Vec<GroupCount>,
}

impl AddedRows {
    pub(crate) fn of(intake: &Intake, roots: Vec<Uuid>, to_complete: Vec<(i64, Uuid)>) -> Self {
        let (ready, added_counts) = (intake.ready(), intake.added_counts());
        Self { answers: Vec::new(), ready, roots, to_complete, added_counts, dead: Vec::new() }
    }

    /// Adds what [`error_groups::count`] returned.
    pub(crate) fn with_dead(self, dead: Vec<GroupCount>) -> Self {
        Self { dead, ..self }
    }

    pub(crate) async fn after_commit(&self, core: &Arc<Core>) {
        core.announce(&self.ready);
        for (&job_key, added_counts) in &self.added_counts {
            core.activity_counters.count_added(job_key, added_counts);
        }
        core.error_counters.add(&self.dead);
        core.complete_jobs(&self.to_complete).await;
        core.live.touch(&self.roots);
    }
}

impl Core {
    /// Wakes waiting claims because there is work.
    pub(crate) fn announce(&self, ready: &BTreeMap<i32, (usize, ClaimCursor)>) {
        for (&type_id, &(n, lowest)) in ready {
            self.low_water_marks.added(type_id, lowest);
            self.live.work_added(type_id);
            self.waiters.wake(type_id, n);
        }
    }
}

/// Way in which the job state rows of the target jobs are locked.
pub(crate) enum JobStateLocking<'a> {
    /// Locked before the rows are written.
    Lock,
    /// Places are reserved; the job state rows are locked after the rows are written.
    Reserved(&'a Reserved),
    /// Created by this transaction, so no other transaction can see them.
    New(HashMap<i64, LockedJobState>),
}

/// Adds items within the caller's transaction and takes all locks in order. A refused command leaves the rest of the
/// transaction valid.
pub(crate) async fn add(
    core: &Core,
    tx: &mut Tx,
    commands: &[&AddCommand],
    job_states: JobStateLocking<'_>,
) -> Result<AddedRows> {
    let mut refused: HashMap<usize, Problem> = HashMap::new();
    for (at, command) in commands.iter().enumerate() {
        if let Some(cursor_move) = &command.cursor_move
            && !jobs::advance_import_cursor(
                tx,
                command.job.job_key,
                cursor_move.from,
                cursor_move.to,
                cursor_move.line,
                cursor_move.done,
            )
            .await?
        {
            refused.insert(at, Problem::new(Code::JobSealed, "The place in the file has moved meanwhile."));
        }
    }
    let new = matches!(job_states, JobStateLocking::New(_));
    for (at, problem) in refuse_early_seals(tx, commands, new).await? {
        refused.insert(at, problem);
    }
    // Items of refused commands take no keys: the same keys in other commands would count as duplicates.
    let job_items: Vec<JobItems<'_>> = commands
        .iter()
        .enumerate()
        .map(|(at, c)| JobItems { job: &c.job, items: if refused.contains_key(&at) { &[] } else { &c.items } })
        .collect();
    let mut intake = Intake::begin(core, &job_items).await?;
    intake.take_keys(tx, &job_items).await?;
    for (at, problem) in refuse_duplicates(tx, commands, &intake).await? {
        refused.entry(at).or_insert(problem);
    }
    let queues = intake.lock_debounces(tx, &job_items).await?;
    intake.lock_serialize_queues(tx, queues).await?;
    intake.read_heads(tx).await?;
    let merged_into = intake.lock_debounced(tx).await?;

    let reserved = if let JobStateLocking::Reserved(reserved) = job_states { Some(reserved) } else { None };
    let locked = match job_states {
        JobStateLocking::Lock => reserved_places::lock(tx, commands, merged_into).await?,
        JobStateLocking::Reserved(reserved) => reserved.job_states().clone(),
        // Nobody waits for the new rows, so the older ones may be locked after them.
        JobStateLocking::New(job_states) => {
            let older = reserved_places::lock_others(tx, merged_into, &job_states).await?;
            job_states.into_iter().chain(older).collect()
        }
    };
    intake.open(tx, &locked).await?;

    let mut deltas: BTreeMap<i64, Delta> = BTreeMap::new();
    let mut added = vec![0; commands.len()];
    for (at, command) in commands.iter().enumerate() {
        let problem = locked.get(&command.job.job_key).map_or_else(|| Some(removed()), |state| refusal(state, command));
        if let Some(problem) = problem {
            refused.entry(at).or_insert(problem);
        }
    }
    let accepted = commands.iter().enumerate().filter(|(at, _)| !refused.contains_key(at)).map(|(_, command)| command);
    let items = accepted.flat_map(|command| command.items.iter().map(|item| (&*command.job, item)));
    intake.merge_debounced(items, &locked)?;
    for (at, command) in commands.iter().enumerate() {
        let Some(job_state) = locked.get(&command.job.job_key).filter(|_| !refused.contains_key(&at)) else { continue };
        let n = intake.place(core, tx, &job_items[at], job_state, &mut deltas).await?;
        added[at] = n;
        let delta = deltas.entry(command.job.job_key).or_default();
        delta.adds |= n > 0;
        delta.seal |= command.seal;
        if let Some(cursor_move) = &command.cursor_move
            && (cursor_move.done || cursor_move.expected.is_some())
        {
            jobs::set_expected(tx, command.job.job_key, cursor_move.expected).await?;
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
    let after = job_states::apply_locked(tx, &deltas).await?;
    if after.len() != deltas.len() {
        return Err(Error::Broken("a job state refused what its lock allowed".to_owned()));
    }
    core.announce_complete_of(tx, &deltas).await?;
    let dead = error_groups::count(core, tx, &intake.dead()).await?;
    let to_complete: Vec<(i64, Uuid)> =
        after.iter().filter(|a| a.needs_completion_check).map(|a| (a.job_key, a.root_id)).collect();
    if !to_complete.is_empty() {
        job_states::request_completion_checks(tx, &to_complete.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    }

    let answers = commands
        .iter()
        .enumerate()
        .map(|(at, command)| match refused.remove(&at) {
            Some(problem) => Err(problem.into()),
            None => Ok(Added {
                accepted: added[at],
                duplicates: command.items.len() as i64 - added[at] - intake.merged(&command.items),
                merged: intake.merged(&command.items),
                sealed: command.seal || locked.get(&command.job.job_key).is_some_and(|job_state| job_state.sealed),
            }),
        })
        .collect();
    let mut roots: Vec<Uuid> = after.iter().map(|a| a.root_id).collect();
    roots.sort_unstable();
    roots.dedup();
    Ok(AddedRows { answers, ..AddedRows::of(&intake, roots, to_complete).with_dead(dead) })
}

/// Releases the dedupe keys of refused commands.
async fn give_back_keys(
    tx: &mut Tx,
    commands: &[&AddCommand],
    refused: &HashMap<usize, Problem>,
    intake: &Intake,
) -> Result<()> {
    let mut items = Vec::new();
    let mut job_keys = Vec::new();
    let mut names = Vec::new();
    for (_, command) in commands.iter().enumerate().filter(|(at, _)| refused.contains_key(at)) {
        for item in command.items.iter().filter(|item| !intake.is_duplicate(item)) {
            if let Some(key) = &item.dedupe_key {
                items.push(item.id);
                job_keys.push(command.job.job_key);
                names.push(key.as_str());
            }
        }
    }
    if !items.is_empty() {
        dedupe::give_back(tx, &items, &job_keys, &names).await?;
    }
    Ok(())
}

impl Engine {
    /// Seals a job: it gets no more items (`sealing`). Idempotent.
    pub async fn seal(&self, caller: &Caller, job_id: Uuid, reason: Option<String>) -> Result<()> {
        self.add_items(
            caller,
            job_id,
            Vec::new(),
            idempotency_keys::AddOptions { seal: true, reason, ..idempotency_keys::AddOptions::default() },
        )
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
            .map(|row| PreparedItem {
                id: Uuid::now_v7(),
                dedupe_key: None,
                serialize_key: None,
                fed_by: None,
                payload: row.payload.into_text(),
                metadata: None,
                priority: job.priority,
                row: Some(row.line),
                run_after: job.run_after,
                expires_at: job.expires_at,
                debounce: None,
                traceparent: None,
                error: row.problem.map(|error| ErrorText {
                    fingerprint: domain::fingerprint::fingerprint(error.kind.as_deref(), &error.message),
                    message: error.message,
                    kind: error.kind,
                    detail: error.detail.map(Document::into_text),
                }),
            })
            .collect();
        let cursor_move =
            CursorMove { from: batch.from, to: batch.to, line: batch.line, done: batch.done, expected: batch.expected };
        match self
            .0
            .adds
            .run(AddCommand {
                job,
                items,
                seal: batch.done,
                on_duplicate: OnDuplicate::Refuse,
                cursor_move: Some(cursor_move),
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
