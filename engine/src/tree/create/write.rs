//! Writes the trees of a batch in one transaction: keys, definitions, job state rows, items.
//!
//! All rows are inserted by array, across trees. A tree that does not get a requested key, id or dedupe key, or whose
//! items are refused, is left out, and the others are written again without it.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use domain::{Code, Job, Problem};
use uuid::Uuid;

use crate::{
    enqueue::{
        add::{self, AddCommand, AddedRows, JobStateLocking},
        idempotency_keys::OnDuplicate,
    },
    error::{Error, Result},
    flush::Batch,
    store::{
        Tx,
        enqueue::idempotency::{self, NewKey},
        import::import_mappings,
        notify::{
            audit::{self, AuditRow},
            notices,
        },
        operator::corrections,
        tree::{
            definitions::JobInfo,
            job_states::{self, LockedJobState},
            jobs::{self, FrozenSettings, JobDedupeKey, NewJobRow},
        },
    },
};

use super::{CALL, Core, CreateCommand, KeyState, KeyToTake, Node, rows::Rows};

pub(crate) struct CreateBatch(pub(crate) Arc<Core>);

impl Batch for CreateBatch {
    type Command = CreateCommand;
    type Answer = WriteOutcome;
    type Done = WrittenTrees;

    fn weight(command: &CreateCommand) -> usize {
        command.tree.nodes.iter().map(|node| node.new.items.len() + 1).sum()
    }

    async fn run(&self, commands: &[&CreateCommand]) -> Result<WrittenTrees> {
        let core = &self.0;
        let mut done = None;
        let mut merged = vec![0; commands.len()];
        let mut answers: Vec<Option<Result<bool>>> =
            contested(commands).into_iter().map(|it| it.then_some(Ok(false))).collect();
        loop {
            let remaining: Vec<usize> = (0..commands.len()).filter(|&at| answers[at].is_none()).collect();
            if remaining.is_empty() {
                break;
            }
            let trees: Vec<&CreateCommand> = remaining.iter().map(|&at| commands[at]).collect();
            let mut tx = crate::store::begin(&core.pools.hot).await?;
            match write(core, &mut tx, &trees).await? {
                Written::Refused(refused) => {
                    tx.rollback().await?;
                    for (at, answer) in refused {
                        answers[remaining[at]].get_or_insert(answer);
                    }
                }
                Written::All(added, infos, merged_items) => {
                    crate::store::commit(tx).await?;
                    for info in infos.into_values() {
                        core.jobs.insert(info);
                    }
                    done = added;
                    for (at, n) in remaining.into_iter().zip(merged_items) {
                        answers[at] = Some(Ok(true));
                        merged[at] = n;
                    }
                }
            }
        }
        Ok(WrittenTrees { added: done, answers, merged })
    }

    async fn answer(&self, commands: &[CreateCommand], written_trees: WrittenTrees) -> Vec<Result<WriteOutcome>> {
        let core = &self.0;
        let written =
            commands.iter().zip(&written_trees.answers).filter(|(_, answer)| matches!(answer, Some(Ok(true))));
        let written: Vec<&CreateCommand> = written.map(|(command, _)| command).collect();
        if let Some(added) = written_trees.added {
            added.after_commit(core).await;
        }
        let roots: Vec<Uuid> = written.iter().map(|command| command.tree.root_id()).collect();
        core.live.touch(&roots);
        if written.iter().any(|command| command.tree.nodes.iter().any(|node| node.head.is_some())) {
            core.split_requested.notify_one();
        }
        // One query reads all new trees. If it fails, the trees exist nevertheless.
        let trees = core.read_trees(&roots).await.unwrap_or_default();
        let mut read: HashMap<Uuid, Job> = trees.into_iter().map(|tree| (tree.id, tree)).collect();
        let answer = |((command, answer), merged): ((&CreateCommand, Option<Result<bool>>), i64)| {
            let tree = read.remove(&command.tree.root_id()).map(|tree| {
                let merged = if merged > 0 { Some(merged) } else { None };
                Box::new(Job { merged, ..tree })
            });
            answer.map(|answer| {
                answer.map(|written| if written { WriteOutcome::Tree(tree) } else { WriteOutcome::Conflict })
            })
        };
        commands.iter().zip(written_trees.answers).zip(written_trees.merged).filter_map(answer).collect()
    }
}

/// Result of a batch: one answer for each tree, and the rows that were added.
pub(crate) struct WrittenTrees {
    added: Option<AddedRows>,
    answers: Vec<Option<Result<bool>>>,
    /// Number of items of each tree that were merged into waiting items.
    merged: Vec<i64>,
}

/// Outcome of one tree.
pub(crate) enum WriteOutcome {
    /// Written tree, with its current view if it could be read.
    Tree(Option<Box<Job>>),
    /// Conflict: a requested key or id is already in use.
    Conflict,
}

/// Marks commands that compete with an earlier command of the same batch: they look up again after it.
fn contested(commands: &[&CreateCommand]) -> Vec<bool> {
    let mut names = HashSet::new();
    let mut ids = HashSet::new();
    let mut keys: HashSet<JobDedupeKey> = HashSet::new();
    let mut one = |command: &CreateCommand| {
        let tree = &command.tree;
        let mut lost = command.key.as_ref().is_some_and(|take| !names.insert(take.name.clone()));
        for node in &tree.nodes {
            lost |= node.new.id.is_some_and(|id| !ids.insert(id));
            lost |= node.dedupe(tree.owner_id).is_some_and(|key| !keys.insert(key));
        }
        lost
    };
    commands.iter().map(|command| one(command)).collect()
}

enum Written {
    /// Commands not to be tried again; the transaction must be rolled back.
    Refused(Vec<(usize, Result<bool>)>),
    /// Rows added with the trees, the new jobs by job state row id, and the number of merged items of each tree.
    All(Option<AddedRows>, HashMap<i64, Arc<JobInfo>>, Vec<i64>),
}

fn conflicts(at: impl IntoIterator<Item = usize>) -> Written {
    Written::Refused(at.into_iter().map(|at| (at, Ok(false))).collect())
}

/// Writes a tree and rolls back; returns its refusal, if any.
pub(super) async fn check(core: &Arc<Core>, command: CreateCommand) -> Result<()> {
    let mut tx = crate::store::begin(&core.pools.hot).await?;
    let written = write(core, &mut tx, &[&command]).await?;
    tx.rollback().await?;
    match written {
        Written::Refused(refused) => refused.into_iter().try_for_each(|(_, answer)| answer.map(drop)),
        Written::All(..) => Ok(()),
    }
}

async fn write(core: &Arc<Core>, tx: &mut Tx, commands: &[&CreateCommand]) -> Result<Written> {
    let keyless = refuse_keyless(tx, commands).await?;
    if !keyless.is_empty() {
        return Ok(Written::Refused(keyless));
    }
    let lost = take_keys(core, tx, commands).await?;
    if !lost.is_empty() {
        return Ok(conflicts(lost));
    }

    let jobs_of = |command: &CreateCommand| command.tree.nodes.len();
    let job_keys = job_states::reserve(tx, commands.iter().map(|c| jobs_of(c) as i64).sum()).await?;
    let mut rows = Rows::default();
    let mut places = Vec::with_capacity(commands.len());
    let mut next = 0;
    for command in commands {
        let end = next + jobs_of(command);
        // Consecutive job state row ids for each tree: the root has the lowest.
        rows.tree(&core.sealer, command, &job_keys[next..end])?;
        places.push(next..end);
        next = end;
    }

    if !rows.keys.is_empty() {
        let taken_keys: HashSet<Uuid> = jobs::take_keys(tx, &rows.keys).await?.into_iter().collect();
        let duplicates: HashSet<Uuid> =
            rows.keys.iter().map(|(_, job)| *job).filter(|job| !taken_keys.contains(job)).collect();
        if !duplicates.is_empty() {
            return Ok(conflicts(of_jobs(commands, &duplicates)));
        }
    }
    let named: Vec<Uuid> = commands.iter().flat_map(|c| c.tree.nodes.iter().filter_map(|node| node.new.id)).collect();
    if !named.is_empty() {
        let removed: HashSet<Uuid> = jobs::deleted_ids(tx, &named).await?.into_iter().collect();
        if !removed.is_empty() {
            return Ok(conflicts(of_jobs(commands, &removed)));
        }
    }
    let mut written: HashMap<Uuid, FrozenSettings> =
        jobs::insert(tx, &rows.jobs).await?.into_iter().map(|job| (job.id, job)).collect();
    let used: HashSet<Uuid> = rows.jobs.iter().map(|job| job.id).filter(|id| !written.contains_key(id)).collect();
    if !used.is_empty() {
        return Ok(conflicts(of_jobs(commands, &used)));
    }
    let retried = supersede(tx, commands).await?;
    if !retried.is_empty() {
        return Ok(conflicts(retried));
    }
    jobs::insert_job_states(tx, &rows.job_states).await?;
    if !rows.deadlines.is_empty() {
        jobs::insert_deadlines(tx, &rows.deadlines).await?;
    }
    for split in &rows.splits {
        jobs::insert_import_cursor(tx, split).await?;
    }
    for &(job_key, job_id, owner_id) in &rows.corrections {
        corrections::insert(tx, job_key, job_id, owner_id).await?;
    }
    // In the order of their keys.
    for (&(owner_id, type_id), mapping) in &rows.mappings {
        import_mappings::remember(tx, owner_id, type_id, mapping).await?;
    }
    if !rows.imports.is_empty() {
        notices::watch_imports(tx, &rows.imports).await?;
    }
    let audit_rows: Vec<AuditRow> = commands.iter().flat_map(|command| command.tree.audit_rows.clone()).collect();
    audit::record_all(tx, &audit_rows).await?;
    let nodes = commands.iter().flat_map(|command| command.tree.nodes.iter().map(move |node| (command, node)));
    let info = |(row, (command, node)): (&NewJobRow, (&&CreateCommand, &Node))| {
        let solo = command.tree.nodes.len() == 1;
        let frozen = written.remove(&row.id)?;
        Some((row.job_key, Arc::new(JobInfo::written(row, frozen, node.info.name.clone(), solo))))
    };
    let infos: HashMap<i64, Arc<JobInfo>> = rows.jobs.iter().zip(nodes).filter_map(info).collect();
    let job_states = rows.job_states.iter().map(|job_state| (job_state.job_key, job_state.locked())).collect();
    let places: Vec<&[i64]> = places.into_iter().map(|place| &job_keys[place]).collect();
    add_items(core, tx, commands, &places, infos, job_states).await
}

/// Indexes of the commands that contain these jobs.
fn of_jobs(commands: &[&CreateCommand], ids: &HashSet<Uuid>) -> Vec<usize> {
    let has = |command: &CreateCommand| command.tree.nodes.iter().any(|node| ids.contains(&node.id));
    (0..commands.len()).filter(|&at| has(commands[at])).collect()
}

/// Refuses trees without an Idempotency-Key whose types require one.
async fn refuse_keyless(tx: &mut Tx, commands: &[&CreateCommand]) -> Result<Vec<(usize, Result<bool>)>> {
    let keyless: Vec<usize> =
        (0..commands.len()).filter(|&at| commands[at].tree.may_need_key && commands[at].key.is_none()).collect();
    let mut types: Vec<i32> =
        keyless.iter().flat_map(|&at| commands[at].tree.nodes.iter().map(|node| node.info.id)).collect();
    types.sort_unstable();
    types.dedup();
    if types.is_empty() {
        return Ok(Vec::new());
    }
    let insisting = idempotency::types_requiring_key(tx, &types).await?;
    let refused = keyless.into_iter().filter_map(|at| {
        let node = commands[at].tree.nodes.iter().find(|node| insisting.contains(&node.info.id))?;
        let detail = format!("Jobs of the type {} are created with an Idempotency-Key only.", node.info.name);
        Some((at, Err(Problem::new(Code::IdempotencyKeyRequired, detail).into())))
    });
    Ok(refused.collect())
}

/// Takes the Idempotency-Keys; returns the commands that lost their key to another request.
async fn take_keys(core: &Core, tx: &mut Tx, commands: &[&CreateCommand]) -> Result<Vec<usize>> {
    let mut requested_keys: Vec<(usize, &KeyToTake, NewKey<'_>)> = commands
        .iter()
        .enumerate()
        .filter_map(|(at, command)| {
            let take = command.key.as_ref()?;
            let job_id = command.tree.root_id();
            Some((at, take, NewKey { name: &take.name, call: CALL, fingerprint: &take.fingerprint, job_id }))
        })
        .collect();
    if requested_keys.is_empty() {
        return Ok(Vec::new());
    }
    requested_keys.sort_unstable_by(|a, b| a.1.name.cmp(&b.1.name));
    let new: Vec<NewKey<'_>> = requested_keys
        .iter()
        .filter(|(_, take, _)| take.from == KeyState::Unused)
        .map(|(_, _, key)| key.clone())
        .collect();
    let free: HashSet<Uuid> = if new.is_empty() {
        HashSet::new()
    } else {
        idempotency::insert(tx, &new, core.window_seconds).await?.into_iter().collect()
    };
    let mut lost = Vec::new();
    for (at, take, key) in requested_keys {
        let got = match take.from {
            KeyState::Unused => free.contains(&key.job_id),
            KeyState::Expired(before) => idempotency::rename(tx, &key, before, false, core.window_seconds).await?,
            KeyState::Failed(before) => {
                let moved = idempotency::rename(tx, &key, Some(before), true, core.window_seconds).await?;
                if moved {
                    idempotency::free_job_keys(tx, before).await?;
                }
                moved
            }
        };
        if !got {
            lost.push(at);
        }
    }
    Ok(lost)
}

/// Marks the replayed trees as superseded; returns the commands whose tree is being retried by a person.
async fn supersede(tx: &mut Tx, commands: &[&CreateCommand]) -> Result<Vec<usize>> {
    let mut retried = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        if let Some(KeyToTake { from: KeyState::Failed(before), .. }) = command.key
            && !idempotency::supersede(tx, before, command.tree.root_id()).await?
        {
            retried.push(at);
        }
    }
    Ok(retried)
}

/// Adds the requested items and seals. Items are validated here, against the jobs as just written.
async fn add_items(
    core: &Arc<Core>,
    tx: &mut Tx,
    commands: &[&CreateCommand],
    job_keys: &[&[i64]],
    infos: HashMap<i64, Arc<JobInfo>>,
    job_states: HashMap<i64, LockedJobState>,
) -> Result<Written> {
    // A job that is filled from a file is sealed at the end of the file.
    let seals = |node: &Node| node.new.sealed && node.head.is_none();
    let mut wanted: Vec<(usize, i64, &Node)> = Vec::new();
    for (at, command) in commands.iter().enumerate() {
        let nodes = command.tree.nodes.iter().zip(job_keys[at]);
        wanted.extend(
            nodes
                .filter(|(node, _)| seals(node) || !node.new.items.is_empty())
                .map(|(node, job_state)| (at, *job_state, node)),
        );
    }
    if wanted.is_empty() {
        return Ok(Written::All(None, infos, vec![0; commands.len()]));
    }
    let mut refused = Vec::new();
    let mut adding: Vec<(usize, &Node, AddCommand)> = Vec::with_capacity(wanted.len());
    for (at, job_key, node) in wanted {
        let job = infos.get(&job_key).cloned().ok_or_else(|| Error::Broken("a new job is not there".to_owned()))?;
        match core.prepare(&job, node.new.items.clone(), &format!("{}/items", node.pointer)) {
            Ok(items) => adding.push((
                at,
                node,
                AddCommand {
                    job,
                    items,
                    seal: seals(node),
                    on_duplicate: OnDuplicate::Refuse,
                    cursor_move: None,
                    key: None,
                    audit: None,
                },
            )),
            Err(problem) => refused.push((at, Err(problem.into()))),
        }
    }
    if !refused.is_empty() {
        return Ok(Written::Refused(refused));
    }
    let adding_all: Vec<&AddCommand> = adding.iter().map(|(.., command)| command).collect();
    let mut added = add::add(core, tx, &adding_all, JobStateLocking::New(job_states)).await?;
    let answers = std::mem::take(&mut added.answers);
    let mut merged = vec![0; commands.len()];
    for ((at, node, _), answer) in adding.iter().zip(answers) {
        match answer {
            Ok(answer) => merged[*at] += answer.merged,
            Err(Error::Problem(problem)) => {
                let problem = problem.moved(|pointer| Some(format!("{}/items{pointer}", node.pointer)));
                refused.push((*at, Err(problem.into())));
            }
            Err(error) => refused.push((*at, Err(error))),
        }
    }
    Ok(if refused.is_empty() { Written::All(Some(added), infos, merged) } else { Written::Refused(refused) })
}
