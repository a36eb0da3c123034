//! Jobs and trees, from their gates.

use std::{collections::HashMap, time::Duration};

use domain::{
    Counts, Document, Job, JobStatus, Outcome, Problem, Time,
    api::ErrorGroup,
    job::{OpenBecause, TreeSummary},
    progress,
};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::{
    auth::{Caller, Scope},
    error::Result,
    store::trees::{self, JobQuery, JobView},
};

use super::super::{Core, Engine};

/// What a list of jobs is filtered by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JobFilter {
    pub root: Option<bool>,
    pub root_id: Option<Uuid>,
    pub parent: Option<Uuid>,
    pub status: Option<JobStatus>,
    pub outcome: Option<Outcome>,
    pub job_type: Option<String>,
    pub owner: Option<String>,
    /// Only what this owner has made of files.
    pub uploaded_by: Option<Uuid>,
    pub initiated_by: Option<String>,
    /// Part of a name, key or metadata.
    pub q: Option<String>,
    pub created_after: Option<Time>,
    pub created_before: Option<Time>,
}

/// Groups that a page shows.
const GROUPS: i64 = 50;

impl Engine {
    /// A job with its subtree, or without `children` alone.
    pub async fn job(&self, caller: &Caller, id: Uuid, children: bool) -> Result<Job> {
        caller.require(Scope::JobsRead)?;
        let info = self.visible_job(caller, id).await?;
        let mut job = self.read_tree(info.root_id, id).await?;
        if !children {
            job.children = None;
        }
        Ok(job)
    }

    /// The subtree of a job as it is now, whoever asks.
    pub(crate) async fn read_tree(&self, root_id: Uuid, id: Uuid) -> Result<Job> {
        let views = trees::of_roots(&self.0.core.pools.read, &[root_id]).await?;
        build(&views).into_iter().find_map(|root| find(root, id)).ok_or_else(|| Problem::not_found("job").into())
    }

    /// The job once its version is above `version`, or as it is when `wait` is over.
    pub async fn job_newer_than(&self, caller: &Caller, id: Uuid, version: i64, wait: Duration) -> Result<Job> {
        let deadline = tokio::time::Instant::now() + wait;
        let root_id = self.visible_job(caller, id).await?.root_id;
        let mut watch = self.0.core.hub.watch(self, root_id);
        loop {
            let job = self.job(caller, id, true).await?;
            if job.version > version || tokio::time::Instant::now() >= deadline {
                return Ok(job);
            }
            if tokio::time::timeout_at(deadline, watch.changed()).await.is_err() {
                return self.job(caller, id, true).await;
            }
        }
    }

    /// Jobs that match, newest first, behind a position (a gate id). With the position behind the last
    /// one when there may be more.
    pub async fn list_jobs(
        &self,
        caller: &Caller,
        filter: &JobFilter,
        after: Option<i64>,
        limit: i64,
    ) -> Result<(Vec<Job>, Option<i64>)> {
        caller.require(Scope::JobsRead)?;
        let pool = &self.0.core.pools.read;
        let query = JobQuery {
            owner_id: caller.visible_owner().or(filter.uploaded_by),
            uploads_only: filter.uploaded_by.is_some(),
            before: after,
            limit,
            roots_only: filter.root == Some(true),
            root_id: filter.root_id,
            parent_id: filter.parent,
            job_type: filter.job_type.clone(),
            owner_name: filter.owner.clone(),
            initiated_by: filter.initiated_by.clone(),
            text: filter.q.as_ref().map(|text| format!("%{}%", escape_like(text))),
            created_after: filter.created_after.map(|at| at.0),
            created_before: filter.created_before.map(|at| at.0),
            outcome: filter.outcome.map(|o| match o {
                Outcome::Succeeded => 1,
                Outcome::Partial => 2,
                Outcome::Failed => 3,
                Outcome::Cancelled => 4,
            }),
            status: filter.status.map(|s| s.as_str().to_owned()),
        };
        let found = trees::list(pool, &query).await?;
        let mut roots: Vec<Uuid> = found.jobs.iter().map(|job| job.2).collect();
        roots.sort_unstable();
        roots.dedup();
        let views = trees::of_roots(pool, &roots).await?;
        let mut by_id: HashMap<Uuid, Job> = HashMap::new();
        for root in build(&views) {
            for job in root.walk() {
                by_id.insert(job.id, Job { children: None, ..job.clone() });
            }
        }
        let next = match found.jobs.last() {
            Some(last) if found.jobs.len() as i64 == limit => Some(last.0),
            _ => found.looked_to,
        };
        Ok((found.jobs.iter().filter_map(|job| by_id.remove(&job.1)).collect(), next))
    }

    /// What went wrong in a job and below it: groups of dead items, the largest first, at most fifty.
    pub async fn error_groups(&self, caller: &Caller, job_id: Uuid) -> Result<Vec<ErrorGroup>> {
        let job = self.job(caller, job_id, true).await?;
        let ids: Vec<Uuid> = job.walk().iter().map(|job| job.id).collect();
        let mut gates = Vec::with_capacity(ids.len());
        for id in ids {
            if let Some(info) = self.0.core.jobs.by_id(&self.0.core.pools.read, id).await? {
                gates.push(info.gate_id);
            }
        }
        Ok(trees::error_groups(&self.0.core.pools.read, &gates, GROUPS).await?)
    }
}

impl Core {
    /// Whole trees as they are now, whoever asks.
    pub(in crate::jobs) async fn read_trees(&self, root_ids: &[Uuid]) -> Result<Vec<Job>> {
        Ok(build(&trees::of_roots(&self.pools.read, root_ids).await?))
    }
}

fn escape_like(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn find(job: Job, id: Uuid) -> Option<Job> {
    if job.id == id {
        return Some(job);
    }
    job.children.into_iter().flatten().find_map(|child| find(child, id))
}

/// Trees from their rows, which come parents first.
fn build(views: &[JobView]) -> Vec<Job> {
    let mut below: HashMap<Uuid, Vec<&JobView>> = HashMap::new();
    for view in views {
        if let Some(parent) = view.parent_id {
            below.entry(parent).or_default().push(view);
        }
    }
    views.iter().filter(|view| view.parent_id.is_none()).map(|root| node(root, &below).job).collect()
}

/// A job with what its parent needs to add up.
struct Node {
    job: Job,
    all_complete: bool,
    all_sealed: bool,
    started: bool,
    /// Expected items, where every job below says how many or is sealed.
    expected: Option<i64>,
}

fn node(view: &JobView, below: &HashMap<Uuid, Vec<&JobView>>) -> Node {
    let children: Vec<Node> = below.get(&view.id).into_iter().flatten().map(|child| node(child, below)).collect();
    let own = view.counts();
    let mut counts = own;
    let mut all_complete = view.completed_at.is_some();
    let mut all_sealed = view.sealed;
    let mut started = view.started_at.is_some() || own.finished() > 0;
    let mut version = view.version;
    let mut updated_at = view.updated_at;
    let mut started_at = view.started_at;
    let mut completed_at = view.completed_at;
    let mut expected = expectation(view.sealed, view.expected_count, &own);
    for child in &children {
        counts += child.job.tree.counts;
        all_complete &= child.all_complete;
        all_sealed &= child.all_sealed;
        started |= child.started;
        version += child.job.version;
        updated_at = updated_at.max(child.job.updated_at.0);
        started_at = [started_at, child.job.started_at.map(|at| at.0)].into_iter().flatten().min();
        completed_at = completed_at.max(child.job.completed_at.map(|at| at.0));
        expected = expected.zip(child.expected).map(|(a, b)| a.saturating_add(b));
    }
    if view.parent_id.is_none() {
        all_complete &= view.tree_completed_at.is_some();
        completed_at = view.tree_completed_at;
    }
    let tree_status = JobStatus::of(&counts, started, view.cancelled, all_complete);
    let tree_outcome = all_complete.then(|| Outcome::of(&counts, view.cancelled));
    let status = JobStatus::of(
        &own,
        view.started_at.is_some() || own.finished() > 0,
        view.cancelled,
        view.completed_at.is_some(),
    );
    let expectation = if all_sealed { None } else { expected };
    let percent = progress::percent(&counts, all_sealed, expectation, all_complete);
    let job = Job {
        id: view.id,
        root_id: view.root_id,
        parent_id: view.parent_id,
        key: view.key.clone(),
        job_type: view.job_type.clone(),
        name: view.name.clone(),
        status,
        outcome: view.completed_at.is_some().then(|| Outcome::of(&own, view.cancelled)),
        sealed: view.sealed,
        item_count: own.total(),
        item_progress: own.finished(),
        expected_count: view.expected_count,
        percent,
        message: progress::message(&counts, tree_status, tree_outcome, percent),
        counts: own,
        tree: TreeSummary {
            status: tree_status,
            outcome: tree_outcome,
            item_count: counts.total(),
            item_progress: counts.finished(),
            counts,
        },
        after: view.after.clone(),
        feed: view.feed.clone().map(Document::trusted),
        final_stage: view.final_stage,
        max_failures: view.max_failures(),
        metadata: view.metadata(),
        dedupe_key: view.dedupe_key.clone(),
        owner: view.owner(),
        initiated_by: view.initiated_by.clone(),
        upload_id: view.upload_id,
        replay_of: view.replay_of,
        superseded_by: view.superseded_by,
        completion: view.completion,
        keep: view.keep,
        open_because: open_because(view, &own),
        created_at: Time(view.created_at),
        started_at: started_at.map(Time),
        completed_at: if all_complete { completed_at.map(Time) } else { None },
        updated_at: Time(updated_at),
        run_after: time(view.run_after),
        expires_at: time(view.expires_at),
        priority: view.priority,
        version,
        children: Some(children.into_iter().map(|child| child.job).collect()),
    };
    Node { job, all_complete, all_sealed, started, expected }
}

fn time(at: Option<OffsetDateTime>) -> Option<Time> {
    at.map(Time)
}

/// How many items a job will have: what it has once sealed, else what it expects, if anything.
fn expectation(sealed: bool, expected: Option<i64>, own: &Counts) -> Option<i64> {
    if sealed { Some(own.total()) } else { expected.map(|n| n.max(own.total())) }
}

fn open_because(view: &JobView, own: &Counts) -> Option<OpenBecause> {
    if view.completed_at.is_some() {
        return None;
    }
    let (reason, detail) = if view.cancelled {
        ("cancelling", format!("Workers still hold {} items.", progress::grouped(own.running)))
    } else if own.pending() > 0 {
        ("items", format!("{} items are not in a final state.", progress::grouped(own.pending())))
    } else if view.sealed {
        ("after", "It is being completed.".to_owned())
    } else {
        ("unsealed", "More items may be added until it is sealed.".to_owned())
    };
    Some(OpenBecause { reason: reason.to_owned(), detail })
}
