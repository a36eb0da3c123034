//! State of a watched tree, and differences between two states.

use std::collections::HashMap;

use domain::{Item, Job, tree::change::Change};
use uuid::Uuid;

/// State of a tree, with the items in progress.
pub struct TreeState {
    /// Number of this state in its pump; not comparable across servers.
    seq: u64,
    job: Job,
    items: Vec<Item>,
    /// Serialized change since the previous state, which most streams send as it is.
    frame: String,
}

impl TreeState {
    pub(super) fn first(seq: u64, job: Job, items: Vec<Item>) -> Self {
        Self { seq, job, items, frame: String::new() }
    }

    /// Returns the next state if anything differs.
    pub(super) fn next(&self, seq: u64, job: Job, items: Vec<Item>) -> Option<Self> {
        let change = difference(self, &job, &items)?;
        let frame = serde_json::to_string(&change).unwrap_or_default();
        Some(Self { seq, job, items, frame })
    }

    /// Finds a job with its subtree in the tree.
    pub fn job(&self, id: Uuid) -> Option<&Job> {
        self.job.subtree().into_iter().find(|job| job.id == id)
    }

    /// Version of the whole tree.
    pub fn version(&self) -> i64 {
        self.job.version
    }

    /// A `change` from `before` to this state, as JSON: of the whole tree, or of the subtree of `id`. `None` if nothing
    /// differs.
    pub fn change_since(&self, before: &Self, id: Uuid) -> Option<String> {
        if id == self.job.id && before.seq + 1 == self.seq {
            return Some(self.frame.clone());
        }
        let mut change = difference(before, &self.job, &self.items)?;
        if id != self.job.id {
            let below: Vec<Uuid> = self.job(id)?.subtree().iter().map(|job| job.id).collect();
            change.jobs.retain(|job| below.contains(&job.id));
            change.items.retain(|item| below.contains(&item.job_id));
            let before_items = before.items.iter().filter(|item| below.contains(&item.job_id));
            if change.jobs.is_empty() && before_items.eq(change.items.iter()) {
                return None;
            }
        }
        serde_json::to_string(&change).ok()
    }

    /// Items in progress below a job, for the first `change` of a stream.
    pub fn items_below(&self, id: Uuid) -> Change {
        let below: Vec<Uuid> =
            self.job(id).map(|job| job.subtree().iter().map(|job| job.id).collect()).unwrap_or_default();
        let items = self.items.iter().filter(|item| below.contains(&item.job_id)).cloned().collect();
        Change { jobs: Vec::new(), items }
    }
}

fn difference(before: &TreeState, job: &Job, items: &[Item]) -> Option<Change> {
    let old: HashMap<Uuid, i64> = before.job.subtree().into_iter().map(|job| (job.id, job.version)).collect();
    let jobs: Vec<Job> = job
        .subtree()
        .into_iter()
        .filter(|job| old.get(&job.id) != Some(&job.version))
        .map(|job| Job { children: None, ..job.clone() })
        .collect();
    if jobs.is_empty() && before.items == items {
        return None;
    }
    Some(Change { jobs, items: items.to_vec() })
}
