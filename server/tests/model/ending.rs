//! Reference, continued: claims, endings, steps and actions of people, and refusals.
//!
//! Each function returns the correct answers before it changes anything. There are several if the rules give several
//! reasons to refuse without an order between them.

use crate::{
    command::Ending,
    model::{End, Model, Phase},
};

/// Possible responses: the code of a refusal, or `None` for success.
pub(crate) type Answers = Vec<Option<&'static str>>;

/// Type with at-most-once delivery.
pub(crate) const ONCE: usize = 3;
pub(crate) const WITH_STEPS: [usize; 2] = [0, ONCE];
/// Number of declared steps; one more is known by name only.
pub(crate) const STEPS: u8 = 3;

impl Model {
    /// `claiming`: returns true if an item may be claimed, apart from the pause and cap of its type.
    pub(crate) fn may_be_claimed(&self, item: usize) -> bool {
        self.state(item) == "available"
    }

    /// Number of open assignments of a type.
    pub(crate) fn open_assignments(&self, job_type: usize) -> usize {
        let of = |item: &&crate::model::Item| self.jobs[item.job].job_type == job_type;
        self.items.iter().filter(of).filter(|item| item.phase == Phase::Running).count()
    }

    pub(crate) fn assign(&mut self, at: usize) {
        let item = &mut self.items[at];
        item.phase = Phase::Running;
        item.attempts += 1;
        item.touched = false;
        self.jobs[item.job].started = true;
    }

    /// Ends an open assignment (`fencing`, `retry-budget`, `cancellation`). Returns true if it is closed now, and the
    /// response to its worker.
    pub(crate) fn end(&mut self, at: usize, ending: Ending) -> (bool, Option<&'static str>) {
        let job = self.items[at].job;
        let once = self.jobs[job].job_type == ONCE;
        if self.items[at].cancel_requested {
            self.items[at].ended_as.push("cancelled");
            self.finish(at, End::Cancelled);
            return (true, matches!(ending, Ending::Result(_)).then_some("job_cancelled"));
        }
        match ending {
            Ending::Result(list) => {
                self.items[at].ended_as.push("succeeded");
                self.finish(at, End::Succeeded);
                self.feed(at, list);
            }
            Ending::Failure { retryable, later, cancel_tree } => {
                let item = &mut self.items[at];
                item.ended_as.push("failed");
                item.failures += 1;
                if once || cancel_tree || !retryable || item.failures >= self.jobs[job].max_failures {
                    self.finish(at, End::Dead);
                } else {
                    item.phase = if later { Phase::Retryable } else { Phase::Due };
                }
                if cancel_tree {
                    let root = self.root(self.jobs[job].tree);
                    self.cancel_job(root);
                }
            }
            Ending::Wait { .. } => {
                let item = &mut self.items[at];
                item.ended_as.push("waiting");
                item.event = None;
                item.phase = Phase::ForEvent;
            }
            Ending::Release { .. } if once && self.items[at].touched => return (false, Some("already_started")),
            Ending::Release { later } => {
                let item = &mut self.items[at];
                item.ended_as.push("released");
                item.phase = if later { Phase::Retryable } else { Phase::Due };
            }
        }
        (true, None)
    }

    /// `steps`, for an open assignment.
    pub(crate) fn step(&mut self, at: usize, step: u8, data: u8) -> Option<&'static str> {
        if step >= STEPS || !WITH_STEPS.contains(&self.jobs[self.items[at].job].job_type) {
            return Some("unknown_step");
        }
        let item = &mut self.items[at];
        if item.step.is_some_and(|last| last != (step, data) && last.0 >= step) {
            return Some("step_behind");
        }
        item.step = Some((step, data));
        item.touched = true;
        None
    }

    /// `cancellation` for one item.
    pub(crate) fn cancel_item(&mut self, at: usize) -> Option<&'static str> {
        match self.items[at].phase {
            Phase::Final(End::Cancelled | End::Skipped) => {}
            Phase::Final(_) => return Some("item_final"),
            Phase::Running => self.items[at].cancel_requested = true,
            _ => self.finish(at, End::Cancelled),
        }
        None
    }

    /// `waiting-for-events`: an event for an item.
    pub(crate) fn event(&mut self, at: usize, data: u8, other: bool) -> Answers {
        let cancelled = self.under_cancel(self.items[at].job);
        let item = &mut self.items[at];
        match item.phase {
            Phase::ForEvent if other => vec![Some("other_event")],
            Phase::ForEvent => {
                item.phase = Phase::Due;
                item.event = Some(data);
                vec![None]
            }
            // Its row may still follow the decision about its job.
            _ if cancelled => vec![Some("not_waiting"), Some("job_cancelled"), Some("other_event")],
            _ => vec![Some("not_waiting")],
        }
    }

    /// `cancellation` for a job.
    pub(crate) fn cancel(&mut self, job: usize) -> Answers {
        if self.jobs[job].cancelled {
            return vec![None];
        }
        let again = self.jobs[job].cancel_requested;
        if self.cancel_job(job) {
            vec![None]
        } else if again {
            vec![None, Some("job_completed")]
        } else {
            vec![Some("job_completed")]
        }
    }

    /// `manual-retry`.
    pub(crate) fn retry(&mut self, at: usize, restart: bool, renew: bool) -> Answers {
        let item = &self.items[at];
        let mut refusals: Answers = Vec::new();
        if self.under_cancel(item.job) {
            refusals.push(Some("job_cancelled"));
        }
        match item.phase {
            // What it would have been made from was no list, so no worker ever got it: only a payload helps (`feeding`).
            Phase::Final(End::Dead) if item.attempts == 0 => refusals.push(Some("not_retryable")),
            // Cancelled with its job, or singly: the first refuses already.
            Phase::Final(End::Dead | End::Expired | End::Cancelled) | Phase::Retryable | Phase::Scheduled => {
                if item.stale && !renew {
                    refusals.push(Some("item_expired"));
                }
            }
            _ => refusals.push(Some("not_retryable")),
        }
        if !refusals.is_empty() {
            return refusals;
        }
        let was = item.phase;
        let item = &mut self.items[at];
        item.stale &= !renew;
        item.renewed |= renew;
        if restart {
            item.step = None;
            item.event = None;
        }
        if matches!(was, Phase::Final(_)) {
            self.retry_manually(at);
        } else {
            // Its later start is forgotten: nothing postpones it again.
            (item.later, item.phase) = (false, Phase::Due);
        }
        vec![None]
    }

    /// `sealing` and `feeding`.
    pub(crate) fn seal(&mut self, job: usize) -> Answers {
        if self.jobs[job].feed.is_some() {
            let mut answers = vec![Some("job_is_fed")];
            answers.extend(self.jobs[job].cancel_requested.then_some(Some("job_cancelled")));
            return answers;
        }
        if self.jobs[job].cancel_requested {
            // Sealed by its cancellation: no change, or nothing that may be changed.
            return vec![None, Some("job_cancelled")];
        }
        self.jobs[job].sealed = true;
        vec![None]
    }

    /// `sealing`, `dedupe-key` and `cancellation`: reasons to refuse items. Empty if they are accepted.
    pub(crate) fn refusals_of_items(&self, job: usize, seal: bool, is_duplicate: bool) -> Answers {
        let this = &self.jobs[job];
        let mut refusals: Answers = Vec::new();
        if this.cancelled || self.under_cancel(job) {
            refusals.push(Some("job_cancelled"));
        }
        if this.sealed && !this.cancelled {
            refusals.push(Some("job_sealed"));
        }
        if seal && this.feed.is_some() {
            refusals.push(Some("job_is_fed"));
        }
        if is_duplicate {
            refusals.push(Some("duplicate"));
        }
        refusals
    }
}
