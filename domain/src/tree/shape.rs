//! A job with its subtree as a reader holds it, and how a change is applied to it.

use crate::{Job, tree::change::Change};

impl Job {
    /// This job and every job below it, parents first.
    pub fn subtree(&self) -> Vec<&Job> {
        let mut jobs = vec![self];
        let mut at = 0;
        while at < jobs.len() {
            let job = jobs[at];
            let below: Vec<&Job> = job.children.iter().flatten().collect();
            jobs.splice((at + 1)..=at, below);
            at += 1;
        }
        jobs
    }

    /// Puts the newer state of each job in the change into the tree. An older or equal version is
    /// left out, so that order and repeats do not matter. Says whether anything is new.
    pub fn apply(&mut self, change: &Change) -> bool {
        let newer = change.jobs.iter().find(|job| job.id == self.id && job.version > self.version);
        let mut changed = false;
        if let Some(newer) = newer {
            let children = self.children.take();
            *self = newer.clone();
            self.children = children;
            changed = true;
        }
        for child in self.children.iter_mut().flatten() {
            changed |= child.apply(change);
        }
        changed
    }

    /// True if this tree holds a newer version of a job in the change, whose items are then out of date too.
    pub fn is_ahead_of(&self, change: &Change) -> bool {
        change.jobs.iter().any(|job| job.id == self.id && job.version < self.version)
            || self.children.iter().flatten().any(|child| child.is_ahead_of(change))
    }
}
