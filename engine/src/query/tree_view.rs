//! Tree views built from job state rows: own and tree values, progress, and the reason why a job is open.
//!
//! Pure functions from rows to views. Every number is summed up from the rows of the descendants.

use std::collections::{HashMap, HashSet};

use domain::{
    Counts, Document, Job, JobStatus, Outcome, Time,
    dispatch::progress,
    job::{OpenBecause, TreeSummary},
};
use serde::{Deserialize, de::IgnoredAny};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::store::query::job_views::JobView;

/// Finds a job by id in a tree.
pub(crate) fn find(job: Job, id: Uuid) -> Option<Job> {
    if job.id == id {
        return Some(job);
    }
    job.children.into_iter().flatten().find_map(|child| find(child, id))
}

/// Builds trees from their rows, parents first.
pub(crate) fn build(views: &[JobView]) -> Vec<Job> {
    let mut job_views = Trees { below: HashMap::new(), open: HashSet::new() };
    for view in views {
        if let Some(parent) = view.parent_id {
            job_views.below.entry(parent).or_default().push(view);
        }
        if view.completed_at.is_none() {
            job_views.open.insert((view.root_id, &view.key));
        }
    }
    let inherited = Inherited { expected: None, version: 0 };
    views.iter().filter(|view| view.parent_id.is_none()).map(|root| job_views.node(root, inherited).job).collect()
}

/// Version of a job, computed from the rows of its tree.
pub(crate) fn version(views: &[JobView], id: Uuid) -> Option<i64> {
    build(views).into_iter().find_map(|root| find(root, id)).map(|job| job.version)
}

struct Trees<'a> {
    below: HashMap<Uuid, Vec<&'a JobView>>,
    /// Incomplete jobs, by tree and key.
    open: HashSet<(Uuid, &'a str)>,
}

/// Values that a fed child takes from its parent.
#[derive(Clone, Copy)]
struct Inherited {
    /// Expected number of items of the parent, if known.
    expected: Option<i64>,
    /// Number that changes whenever `expected` does.
    version: i64,
}

/// Job with the values that its parent sums up.
struct Node {
    job: Job,
    all_complete: bool,
    all_sealed: bool,
    started: bool,
    /// Expected number of items; `None` unless every job below is sealed or has an expectation.
    expected: Option<i64>,
}

/// True if a feed makes exactly one item per item of its parent.
fn is_one_to_one(feed: &str) -> bool {
    #[derive(Deserialize)]
    struct Each {
        each: Option<IgnoredAny>,
    }
    serde_json::from_str::<Each>(feed).is_ok_and(|feed| feed.each.is_none())
}

impl Trees<'_> {
    fn node(&self, view: &JobView, inherited: Inherited) -> Node {
        let own_counts = view.counts();
        let mut counts = own_counts;
        let mut all_complete = view.completed_at.is_some();
        let mut all_sealed = view.sealed;
        let mut started = view.started_at.is_some() || own_counts.finished() > 0;
        // The expectation of a fed child depends on its parent, so its version does too.
        let mut version = view.version + if view.feed.is_some() { inherited.version } else { 0 };
        let mut updated_at = view.updated_at;
        let mut started_at = view.started_at;
        let mut completed_at = view.completed_at;
        let mut expected = expectation(view, inherited, &own_counts);
        let below = Inherited { expected, version };
        let children: Vec<Node> =
            self.below.get(&view.id).into_iter().flatten().map(|child| self.node(child, below)).collect();
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
            &own_counts,
            view.started_at.is_some() || own_counts.finished() > 0,
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
            outcome: view.completed_at.is_some().then(|| Outcome::of(&own_counts, view.cancelled)),
            sealed: view.sealed,
            item_count: own_counts.total(),
            item_progress: own_counts.finished(),
            expected_count: view.expected_count,
            percent,
            message: progress::message(&counts, tree_status, tree_outcome, percent),
            counts: own_counts,
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
            idempotency_key: view.idempotency_key.clone(),
            owner: view.owner(),
            initiated_by: view.initiated_by.clone(),
            upload_id: view.upload_id,
            replay_of: view.replay_of,
            merged: None,
            superseded_by: view.superseded_by,
            completion: view.completion,
            pinned: view.pinned,
            open_because: self.open_because(view, &own_counts),
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

    /// Reason why a job is not complete: the first unsatisfied condition of `completion`, with details.
    fn open_because(&self, view: &JobView, own_counts: &Counts) -> Option<OpenBecause> {
        if view.completed_at.is_some() {
            return None;
        }
        let waits: Vec<&str> =
            view.after.iter().map(String::as_str).filter(|key| self.open.contains(&(view.root_id, *key))).collect();
        let (reason, detail) = if view.cancelled {
            ("cancelling", format!("Workers still hold {}.", items(own_counts.running)))
        } else if !view.sealed && view.feed.is_some() {
            ("unsealed", "Its parent may feed it more items; it is sealed when its parent is complete.".to_owned())
        } else if !view.sealed {
            ("unsealed", "More items may be added until it is sealed.".to_owned())
        } else if view.after_open > 0 || (own_counts.pending() == 0 && !waits.is_empty()) {
            ("after", format!("Waits for {}.", waits.join(", ")))
        } else if own_counts.pending() > 0 {
            ("items", format!("{} not in a final state.", items(own_counts.pending())))
        } else {
            ("items", "It is being completed.".to_owned())
        };
        Some(OpenBecause { reason: reason.to_owned(), detail })
    }
}

fn items(n: i64) -> String {
    format!("{} {}", progress::grouped(n), if n == 1 { "item" } else { "items" })
}

fn time(at: Option<OffsetDateTime>) -> Option<Time> {
    at.map(Time)
}

/// Expected number of items of a job: its total once sealed, else its own expectation, else the parent's if each item
/// of the parent becomes one of its own.
fn expectation(view: &JobView, inherited: Inherited, own_counts: &Counts) -> Option<i64> {
    if view.sealed {
        return Some(own_counts.total());
    }
    let fed = || if view.feed.as_deref().is_some_and(is_one_to_one) { inherited.expected } else { None };
    view.expected_count.or_else(fed).map(|n| n.max(own_counts.total()))
}
