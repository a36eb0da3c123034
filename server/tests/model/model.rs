//! Reference: the rules of the engine, in memory and sequentially.
//!
//! Written from the rules alone (cited by name), for clarity and not for speed. Without database, HTTP or time: a time
//! that is a day ahead stays ahead until a person changes it.

use crate::command::{Feed, NewItem};

/// Ending of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Succeeded,
    Dead,
    Cancelled,
    /// Canceled by `after`: a job that it waited for ended otherwise.
    Skipped,
    Expired,
}

/// Phase of an item, regardless of what holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Due,
    Scheduled,
    Retryable,
    ForEvent,
    Running,
    Final(End),
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a word of the rules")]
pub(crate) struct Item {
    pub(crate) job: usize,
    pub(crate) phase: Phase,
    pub(crate) serialize_queue: Option<usize>,
    pub(crate) dedupe: Option<String>,
    pub(crate) priority: i16,
    /// True if its run_after is ahead.
    pub(crate) later: bool,
    /// True if its expires_at has passed.
    pub(crate) stale: bool,
    /// True if its place in the queue has an expires_at that is ahead, from a retry.
    pub(crate) renewed: bool,
    /// Number of the arrival whose payload it has, if it has a debounce key.
    pub(crate) arrival: Option<usize>,
    /// Item that fed it.
    pub(crate) source: Option<usize>,
    pub(crate) attempts: usize,
    pub(crate) failures: usize,
    pub(crate) cancel_requested: bool,
    /// True if a step or progress was reported since it was claimed.
    pub(crate) touched: bool,
    pub(crate) step: Option<(u8, u8)>,
    /// Data of the event that ended its last wait.
    pub(crate) event: Option<u8>,
    /// Ending of each attempt.
    pub(crate) ended_as: Vec<&'static str>,
}

#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, clippy::struct_field_names, reason = "each is a word of the rules")]
pub(crate) struct Job {
    pub(crate) tree: usize,
    pub(crate) job_type: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) feed: Option<Feed>,
    pub(crate) after: Vec<usize>,
    pub(crate) after_any: bool,
    pub(crate) max_failures: usize,
    pub(crate) sealed: bool,
    pub(crate) sealed_by_feed: bool,
    pub(crate) cancelled: bool,
    pub(crate) complete: bool,
    /// True if its dependencies ended as required: it is not held again.
    pub(crate) unblocked: bool,
    pub(crate) after_failed: bool,
    pub(crate) started: bool,
    pub(crate) reopened: bool,
    /// True if one of its items was ever final.
    pub(crate) ended: bool,
    /// True if its cancellation or that of an ancestor was requested, complete or not.
    pub(crate) cancel_requested: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tree {
    pub(crate) complete: bool,
    pub(crate) completion: usize,
    /// True if the cancellation of its root was requested.
    pub(crate) cancelled: bool,
    pub(crate) removed: bool,
}

/// Complete state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Model {
    pub(crate) trees: Vec<Tree>,
    pub(crate) jobs: Vec<Job>,
    pub(crate) items: Vec<Item>,
    /// Items in each serialize queue, in order of acceptance.
    pub(crate) serialize_queues: Vec<Vec<usize>>,
    /// Last item of each debounce key: job type, key, and item.
    pub(crate) debounced: Vec<(usize, u8, usize)>,
    /// Items that joined a serialize queue since this was last cleared.
    pub(crate) joined: Vec<(usize, usize)>,
}

impl Model {
    pub(crate) fn items_of(&self, job: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.items.len()).filter(move |&item| self.items[item].job == job)
    }

    pub(crate) fn jobs_of(&self, tree: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.jobs.len()).filter(move |&job| self.jobs[job].tree == tree)
    }

    pub(crate) fn root(&self, tree: usize) -> usize {
        (0..self.jobs.len()).find(|&job| self.jobs[job].tree == tree).expect("a tree has a root")
    }

    /// Returns the job and its descendants.
    pub(crate) fn subtree(&self, job: usize) -> Vec<usize> {
        let below = |mut at: usize| loop {
            if at == job {
                return true;
            }
            match self.jobs[at].parent {
                Some(parent) => at = parent,
                None => return false,
            }
        };
        (0..self.jobs.len()).filter(|&at| below(at)).collect()
    }

    /// Returns true if the job or an ancestor is canceled.
    pub(crate) fn under_cancel(&self, mut job: usize) -> bool {
        loop {
            if self.jobs[job].cancelled {
                return true;
            }
            match self.jobs[job].parent {
                Some(parent) => job = parent,
                None => return false,
            }
        }
    }

    /// Returns true if `after` holds its items.
    pub(crate) fn waits_for_dependencies(&self, job: usize) -> bool {
        !self.jobs[job].unblocked
    }

    /// State of an item: the first that applies.
    pub(crate) fn state(&self, at: usize) -> &'static str {
        let item = &self.items[at];
        match item.phase {
            Phase::Final(End::Succeeded) => "succeeded",
            Phase::Final(End::Dead) => "dead",
            Phase::Final(End::Cancelled | End::Skipped) => "cancelled",
            Phase::Final(End::Expired) => "expired",
            Phase::Running => "running",
            Phase::Retryable => "retryable",
            Phase::Scheduled => "scheduled",
            Phase::ForEvent => "waiting_for_event",
            Phase::Due if self.waits_for_dependencies(item.job) => "blocked",
            Phase::Due
                if item
                    .serialize_queue
                    .is_some_and(|serialize_queue| self.serialize_queues[serialize_queue].first() != Some(&at)) =>
            {
                "blocked"
            }
            Phase::Due => "available",
        }
    }

    pub(crate) fn is_final(&self, item: usize) -> bool {
        matches!(self.items[item].phase, Phase::Final(_))
    }

    /// `completion`, over the items of some jobs.
    pub(crate) fn outcome(&self, jobs: &[usize], cancelled: bool) -> &'static str {
        let ends: Vec<Phase> = jobs.iter().flat_map(|&job| self.items_of(job)).map(|at| self.items[at].phase).collect();
        let succeeded = ends.iter().filter(|&&end| end == Phase::Final(End::Succeeded)).count();
        if cancelled {
            "cancelled"
        } else if succeeded == ends.len() {
            "succeeded"
        } else if succeeded > 0 {
            "partial"
        } else {
            "failed"
        }
    }

    // ---- What happens ----------------------------------------------------------------------------

    /// Adds an item to a job that accepts it.
    pub(crate) fn add(
        &mut self,
        job: usize,
        new: NewItem,
        serialize_queue: Option<usize>,
        dedupe: Option<String>,
    ) -> usize {
        let at = self.items.len();
        let phase = if new.later { Phase::Scheduled } else { Phase::Due };
        self.items.push(Item {
            job,
            phase,
            serialize_queue,
            dedupe,
            priority: new.priority,
            later: new.later,
            stale: new.stale,
            renewed: false,
            arrival: None,
            source: None,
            attempts: 0,
            failures: 0,
            cancel_requested: false,
            touched: false,
            step: None,
            event: None,
            ended_as: Vec::new(),
        });
        self.accept(at);
        at
    }

    /// Makes an item wait: a new one, or one that was retried or released.
    fn accept(&mut self, at: usize) {
        let job = self.items[at].job;
        if self.jobs[job].after_failed {
            self.finish(at, End::Skipped);
        } else if self.items[at].stale {
            self.finish(at, End::Expired);
        } else if !self.waits_for_dependencies(job) {
            self.enqueue(at);
        }
    }

    /// `debounce`: item that takes the payloads of items with this key. These never expire, so they outlast one that does.
    pub(crate) fn debounce_target(&self, job_type: usize, key: u8) -> Option<usize> {
        let (.., at) = *self.debounced.iter().rfind(|last| (last.0, last.1) == (job_type, key))?;
        let item = &self.items[at];
        let waits = matches!(item.phase, Phase::Due | Phase::Scheduled) && item.attempts == 0 && !item.renewed;
        (waits && !self.trees[self.jobs[item.job].tree].removed).then_some(at)
    }

    /// `debounce`: an item takes the payload of a later one and waits again.
    pub(crate) fn merge(&mut self, at: usize, arrival: usize) {
        let item = &mut self.items[at];
        (item.arrival, item.later, item.phase) = (Some(arrival), true, Phase::Scheduled);
    }

    fn enqueue(&mut self, at: usize) {
        if let Some(serialize_queue) = self.items[at].serialize_queue {
            self.serialize_queues[serialize_queue].push(at);
            self.joined.push((serialize_queue, at));
        }
    }

    /// Makes an item final: it leaves its serialize queue.
    pub(crate) fn finish(&mut self, at: usize, end: End) {
        self.items[at].phase = Phase::Final(end);
        let job = self.items[at].job;
        self.jobs[job].ended = true;
        for serialize_queue in &mut self.serialize_queues {
            serialize_queue.retain(|&other| other != at);
        }
    }

    /// `feeding`: an item of the parent succeeded with a list, or without one.
    pub(crate) fn feed(&mut self, source: usize, list: Option<u8>) {
        let parent = self.items[source].job;
        for child in 0..self.jobs.len() {
            let job = &self.jobs[child];
            let Some(feed) = job.feed.filter(|_| job.parent == Some(parent) && !job.cancelled) else { continue };
            let n = if feed.each { list } else { Some(1) };
            let plain = NewItem {
                serialize_queue: feed.serialize_queue,
                dedupe: None,
                priority: 0,
                later: false,
                stale: false,
                debounce: None,
            };
            for _ in 0..n.unwrap_or(1) {
                let dedupe = (feed.dedupe && n.is_some()).then(|| "fed".to_owned());
                if dedupe.is_some() && self.items_of(child).any(|other| self.items[other].dedupe == dedupe) {
                    continue;
                }
                if n.is_some() {
                    let at = self.add(child, plain, feed.serialize_queue.map(usize::from), dedupe);
                    self.items[at].source = Some(source);
                } else {
                    let at = self.add(child, plain, None, None);
                    self.items[at].source = Some(source);
                    self.finish(at, End::Dead);
                }
            }
        }
    }

    /// `cancellation` for a job. False if there is nothing left to cancel.
    pub(crate) fn cancel_job(&mut self, job: usize) -> bool {
        let open: Vec<usize> =
            self.subtree(job).into_iter().filter(|&at| !self.jobs[at].complete && !self.jobs[at].cancelled).collect();
        if open.is_empty() {
            return false;
        }
        let tree = self.jobs[job].tree;
        self.trees[tree].cancelled |= self.jobs[job].parent.is_none();
        // Also one that is complete itself, while something below it is not (`completion`).
        self.jobs[job].cancelled = true;
        for at in self.subtree(job) {
            self.jobs[at].cancel_requested = true;
        }
        for &at in &open {
            let job = &mut self.jobs[at];
            (job.cancelled, job.sealed, job.unblocked, job.after_failed) = (true, true, true, false);
            for item in self.items_of(at).collect::<Vec<_>>() {
                match self.items[item].phase {
                    Phase::Final(_) => {}
                    Phase::Running => self.items[item].cancel_requested = true,
                    _ => self.finish(item, End::Cancelled),
                }
            }
        }
        true
    }

    /// `manual-retry`: retries a final item, and reopens what depends on it.
    pub(crate) fn retry_manually(&mut self, at: usize) {
        let item = &mut self.items[at];
        item.failures = 0;
        item.cancel_requested = false;
        item.phase = if item.later { Phase::Scheduled } else { Phase::Due };
        self.reopen(self.items[at].job);
        self.accept(at);
    }

    fn reopen(&mut self, job: usize) {
        if !self.jobs[job].complete {
            return;
        }
        self.jobs[job].complete = false;
        self.jobs[job].reopened = true;
        let tree = self.jobs[job].tree;
        self.trees[tree].complete = false;
        for other in self.jobs_of(tree).collect::<Vec<_>>() {
            // One that was complete when a job above it was canceled is canceled, too.
            let cancelled = self.jobs[other].cancel_requested;
            if self.jobs[other].parent == Some(job) && self.jobs[other].sealed_by_feed && !cancelled {
                (self.jobs[other].sealed, self.jobs[other].sealed_by_feed) = (false, false);
                self.reopen(other);
            }
            // What was let go is not held again; what `after` cancelled because of this waits again.
            if self.jobs[other].after.contains(&job) && self.waits_for_dependencies(other) && !cancelled {
                if self.jobs[other].after_failed && !self.dependency_failed(other) {
                    self.jobs[other].after_failed = false;
                    for item in self.items_of(other).collect::<Vec<_>>() {
                        if self.items[item].phase == Phase::Final(End::Skipped) {
                            let later = self.items[item].later;
                            self.items[item].phase = if later { Phase::Scheduled } else { Phase::Due };
                            self.accept(item);
                        }
                    }
                }
                self.reopen(other);
            }
        }
    }

    /// `after`: returns true if a job that it waits for ended otherwise than required. One that was complete when a job above
    /// it was canceled is canceled, too.
    fn dependency_failed(&self, job: usize) -> bool {
        let waits = &self.jobs[job];
        let ended_otherwise = |dep: usize| {
            self.jobs[dep].complete && self.outcome(&[dep], self.jobs[dep].cancel_requested) != "succeeded"
        };
        !waits.after_any && waits.after.iter().any(|&dep| ended_otherwise(dep))
    }

    /// Applies automatic consequences (`completion`, `feeding`, `after`).
    pub(crate) fn propagate(&mut self) {
        while (0..self.jobs.len()).any(|job| self.propagate_job(job)) {}
        for tree in 0..self.trees.len() {
            let complete = self.jobs_of(tree).all(|job| self.jobs[job].complete);
            if complete && !self.trees[tree].complete {
                self.trees[tree].completion += 1;
            }
            self.trees[tree].complete = complete;
        }
    }

    fn propagate_job(&mut self, job: usize) -> bool {
        let this = &self.jobs[job];
        if this.cancelled {
            let done = !this.complete && self.items_of(job).all(|item| self.is_final(item));
            self.jobs[job].complete |= done;
            return done;
        }
        let waited_for = this.after.iter().all(|&dep| self.jobs[dep].complete);
        if self.waits_for_dependencies(job) && !this.after_failed && self.dependency_failed(job) {
            self.jobs[job].after_failed = true;
            for item in self.items_of(job).collect::<Vec<_>>() {
                if !self.is_final(item) {
                    self.finish(item, End::Skipped);
                }
            }
            return true;
        }
        if self.waits_for_dependencies(job) && !this.after_failed && waited_for {
            self.jobs[job].unblocked = true;
            for item in self.items_of(job).collect::<Vec<_>>() {
                if !self.is_final(item) {
                    self.enqueue(item);
                }
            }
            return true;
        }
        let this = &self.jobs[job];
        if let Some(parent) = this.parent.filter(|&parent| this.feed.is_some() && self.jobs[parent].complete)
            && !this.sealed
            && self.jobs[parent].sealed
        {
            (self.jobs[job].sealed, self.jobs[job].sealed_by_feed) = (true, true);
            return true;
        }
        let ready = this.unblocked || (this.after_failed && waited_for);
        let done = !this.complete && this.sealed && ready && self.items_of(job).all(|item| self.is_final(item));
        self.jobs[job].complete |= done;
        done
    }
}
