//! Last statements of every batch that moves items, and the work after its commit: fed items, job state rows,
//! cancellations by workers, completion checks, error groups.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use domain::job::Counts;
use uuid::Uuid;

use super::{cancel, dependency_graph::DependencyGraph, feed::Fed};
use crate::{
    Core,
    activity_counters::AddedCounts,
    ended_attempts,
    ending_batch::EndingRows,
    enqueue::{
        item_intake::{Intake, JobItems},
        serialize_queues,
    },
    error::{Error, Result},
    error_counters::GroupCount,
    notify::{alerts, error_groups},
    store::{
        Tx,
        dispatch::leases::ClaimCursor,
        tree::{
            feeds::{self, FeedRemainder},
            job_states::{self, Delta},
        },
    },
};

/// Work that follows the commit of a batch.
#[derive(Default)]
pub(crate) struct CommitEffects {
    roots: Vec<Uuid>,
    to_complete: Vec<(i64, Uuid)>,
    fed: BTreeMap<i32, (usize, ClaimCursor)>,
    /// Numbers of fed items for the statistics, by job; those that were final at once are in `finished`.
    added_counts: BTreeMap<i64, AddedCounts>,
    /// Number of items that each job gained in each final state.
    finished: Vec<(i64, Counts)>,
    /// Dead items by error group.
    dead: Vec<GroupCount>,
}

/// Items that feeds add in the same batch that ended their sources.
#[derive(Default)]
pub(crate) struct FedItems {
    fed: Vec<Fed>,
    intake: Intake,
}

impl FedItems {
    pub(crate) fn of(fed: Vec<Fed>) -> Self {
        Self { fed, ..Self::default() }
    }

    fn job_items(&self) -> Vec<JobItems<'_>> {
        self.fed.iter().map(|fed| JobItems { job: &fed.job, items: &fed.items }).collect()
    }

    /// Locks the dedupe keys and the serialize queues, including the queues of items that became final in this batch,
    /// and releases the next item of those queues.
    pub(crate) async fn lock(&mut self, core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<()> {
        if self.fed.is_empty() && rows.freed.is_empty() {
            return Ok(());
        }
        let mut intake = Intake::begin(core, &self.job_items()).await?;
        intake.take_keys(tx, &self.job_items()).await?;
        intake.lock_serialize_queues(tx, rows.freed.iter().map(|freed| freed.0)).await?;
        serialize_queues::release_next(core, tx, rows).await?;
        intake.read_heads(tx).await?;
        self.intake = intake;
        Ok(())
    }

    /// Inserts the fed items into their jobs and locks the job state rows. Canceled children are not fed.
    async fn place(
        &mut self,
        core: &Core,
        tx: &mut Tx,
        rows: &mut EndingRows,
        graphs: &[Arc<DependencyGraph>],
    ) -> Result<()> {
        let mut ids: Vec<i64> = rows.deltas.keys().copied().collect();
        ids.extend(self.fed.iter().flat_map(|fed| [fed.job.job_key, fed.job.fair_turn_job_key]));
        ids.extend(graphs.iter().flat_map(|graph| graph.job_keys()));
        ids.sort_unstable();
        ids.dedup();
        let locked: HashMap<i64, job_states::LockedJobState> =
            job_states::lock(tx, &ids).await?.into_iter().map(|job_state| (job_state.job_key, job_state)).collect();
        self.intake.open(tx, &locked).await?;
        let mut owed = Vec::new();
        for fed in &self.fed {
            let job_key = fed.job.job_key;
            let Some(job_state) = locked.get(&job_key).filter(|job_state| !job_state.cancelled && !job_state.deleted)
            else {
                continue;
            };
            let job_items = JobItems { job: &fed.job, items: &fed.items };
            self.intake.place(core, tx, &job_items, job_state, &mut rows.deltas).await?;
            rows.delta(job_key).feeds += fed.rest.len() as i64;
            owed.extend(fed.rest.iter().map(|&(item_id, next)| FeedRemainder { item_id, job_key, next }));
        }
        feeds::insert(tx, &owed).await?;
        self.intake.write(core, tx, &mut rows.deltas).await
    }
}

/// Releases the items that waited in serialize queues behind final items, in a batch without feeds.
pub(crate) async fn release_next_items(core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<()> {
    FedItems::default().lock(core, tx, rows).await
}

/// Last statements of a batch that moves items and feeds none.
pub(crate) async fn finish_batch(core: &Core, tx: &mut Tx, rows: &mut EndingRows) -> Result<CommitEffects> {
    finish_batch_with(core, tx, rows, FedItems::default()).await
}

/// Last statements of every batch that moves items: job state rows and dependent updates. A job state row that refuses
/// its delta belongs to a job that was canceled in the meantime: the batch must be rolled back.
pub(crate) async fn finish_batch_with(
    core: &Core,
    tx: &mut Tx,
    rows: &mut EndingRows,
    mut fed_items: FedItems,
) -> Result<CommitEffects> {
    let mut graphs: Vec<Arc<DependencyGraph>> = Vec::new();
    let mut aborted: Vec<i64> = std::mem::take(&mut rows.aborted);
    aborted.sort_unstable();
    aborted.dedup();
    for job in core.jobs.by_job_keys(&mut **tx, aborted).await?.values() {
        rows.delta(job.job_key).stays_open = true;
        graphs.push(core.graphs.of(&mut **tx, job.root_id).await?);
    }
    if !fed_items.fed.is_empty() || !graphs.is_empty() {
        fed_items.place(core, tx, rows, &graphs).await?;
    }
    let deltas: Vec<(i64, Delta)> = std::mem::take(&mut rows.deltas).into_iter().collect();
    if deltas.is_empty() {
        return Ok(CommitEffects::default());
    }
    let after = job_states::apply(tx, &deltas).await?;
    if after.len() != deltas.len() {
        let applied: Vec<i64> = after.iter().map(|a| a.job_key).collect();
        let refused = deltas.iter().map(|d| d.0).filter(|job_key| !applied.contains(job_key)).collect();
        return Err(Error::JobsCancelled(refused));
    }
    core.announce_complete_of(tx, &deltas).await?;
    let mut to_complete: Vec<(i64, Uuid)> =
        after.iter().filter(|a| a.needs_completion_check).map(|a| (a.job_key, a.root_id)).collect();
    for graph in &graphs {
        let cancellation = cancel::cancel_subtree(tx, graph, 0, Some("A worker gave the tree up.")).await?;
        core.announce_complete(tx, &cancellation.job_keys).await?;
        to_complete.extend(cancellation.to_complete);
    }
    to_complete.sort_unstable();
    to_complete.dedup();
    if !to_complete.is_empty() {
        job_states::request_completion_checks(tx, &to_complete.iter().map(|s| s.0).collect::<Vec<_>>()).await?;
    }
    let mut dead = std::mem::take(&mut rows.dead);
    dead.extend(fed_items.intake.dead());
    let dead_counts = error_groups::count(core, tx, &dead).await?;
    rows.dead = dead;
    let mut roots: Vec<Uuid> = after.into_iter().map(|a| a.root_id).collect();
    roots.sort_unstable();
    roots.dedup();
    let finished =
        deltas.iter().filter(|(_, delta)| delta.counts.finished() > 0).map(|(id, d)| (*id, d.counts)).collect();
    Ok(CommitEffects {
        roots,
        to_complete,
        fed: fed_items.intake.ready(),
        added_counts: fed_items.intake.added_counts(),
        finished,
        dead: dead_counts,
    })
}

impl CommitEffects {
    pub(crate) async fn after_commit(&self, core: &Core, rows: &EndingRows) {
        for &(type_id, mark) in &rows.ready {
            core.low_water_marks.added(type_id, mark);
            core.live.work_added(type_id);
            core.waiters.wake(type_id, 1);
        }
        for &type_id in &rows.freed_types {
            core.live.work_added(type_id);
            core.waiters.wake(type_id, 1);
        }
        core.announce(&self.fed);
        for (&job_key, added_counts) in &self.added_counts {
            core.activity_counters.count_new(job_key, added_counts);
        }
        core.error_counters.add(&self.dead);
        self.count(core, rows).await;
        ended_attempts::report(&core.ended_attempts, &rows.ended);
        core.complete_jobs(&self.to_complete).await;
        core.live.touch(&self.roots);
    }
}

impl CommitEffects {
    /// Adds final items to the statistics, and alerts people to refused results of canceled jobs.
    async fn count(&self, core: &Core, rows: &EndingRows) {
        if self.finished.is_empty() && rows.late_results.is_empty() && rows.runs.is_empty() {
            return;
        }
        let job_keys = self.finished.iter().map(|f| f.0).chain(rows.late_results.iter().copied());
        let job_keys = job_keys.chain(rows.runs.iter().map(|run| run.job_key));
        let Ok(jobs) = core.jobs.by_job_keys(&core.pools.read, job_keys).await else { return };
        for (job_key, counts) in &self.finished {
            if let Some(job) = jobs.get(job_key) {
                core.activity_counters.ended(*job_key, &job.type_name, counts);
            }
        }
        core.activity_counters.count_runs(&rows.runs);
        // Neighbors share their job and outcome: their series is looked up once.
        for runs in rows.runs.chunk_by(|one, next| one.job_key == next.job_key && one.outcome() == next.outcome()) {
            let Some(job) = jobs.get(&runs[0].job_key) else { continue };
            core.activity_counters.with(&job.type_name, |activity| {
                for run in runs {
                    activity.failed += i64::from(run.failure.is_some());
                    activity.run.record(run.seconds);
                }
            });
            let labels = [("type", job.type_name.clone()), ("outcome", runs[0].outcome().to_owned())];
            let histogram = metrics::histogram!("treeline_run_seconds", &labels);
            for run in runs {
                histogram.record(run.seconds);
            }
        }
        for job in rows.late_results.iter().filter_map(|job_key| jobs.get(job_key)) {
            alerts::ending_refused(core, job).await;
        }
    }
}
