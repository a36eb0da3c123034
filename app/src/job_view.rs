//! View of a [`Job`] for pages: small enough to be sent as the first state of an island, and comparable, so that only
//! changes are rendered again.
//!
//! The server builds it for the first rendering and the browser for every later one, with the same functions, so the
//! two cannot differ. It must not decide anything that the engine decides.

use domain::{Counts, Item, Job, JobStatus, Outcome, Time, id::Uuid};
use serde::{Deserialize, Serialize};

use crate::{meter::Meter, t};

/// Maximum lines of a tree on one page; deeper jobs have their own pages.
pub const MOST_LINES: usize = 200;

/// The head of a page: a job with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    pub status: JobStatus,
    pub outcome: Option<Outcome>,
    pub sealed: bool,
    /// True if it was created from a file: its items are rows.
    pub file: bool,
    pub meter: Meter,
    pub started_at: Option<Time>,
    pub completed_at: Option<Time>,
    /// True if it was complete before and is open again, for example after a retry.
    pub reopened: bool,
    /// Number of the active stage, number of stages, and its name, if a tree has several.
    pub stage: Option<(usize, usize, String)>,
    /// Reason why it is not complete, if that is not obvious.
    pub waits: Option<String>,
    pub version: i64,
}

/// One line of a tree: a job's own items.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub id: Uuid,
    pub parent_id: Option<Uuid>,
    /// From 1.
    pub level: u16,
    /// Position among its siblings, from 1, and their number.
    pub place: (u32, u32),
    pub parent: bool,
    /// Display name: its name, or its key if it has none.
    pub name: String,
    pub job_type: String,
    pub status: JobStatus,
    pub outcome: Option<Outcome>,
    pub meter: Meter,
}

/// One item that a worker is processing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveItem {
    pub id: Uuid,
    /// Row in the file, or position in its job.
    pub label: String,
    /// Key or type of its job.
    pub job: String,
    pub worker: String,
    pub since: Option<Time>,
    pub attempt: i32,
    pub done: Option<i64>,
    pub total: Option<i64>,
    pub message: Option<String>,
    pub cancelling: bool,
}

impl Head {
    pub fn of(job: &Job) -> Self {
        Self {
            status: job.tree.status,
            outcome: job.tree.outcome,
            sealed: job.sealed,
            file: job.upload_id.is_some(),
            meter: Meter::of_tree(job),
            started_at: job.started_at,
            completed_at: job.completed_at,
            reopened: job.completion > 1,
            stage: stage(job),
            waits: job
                .open_because
                .as_ref()
                .filter(|why| matches!(why.reason.as_str(), "unsealed" | "after"))
                .map(|why| why.detail.clone()),
            version: job.version,
        }
    }

    pub fn completed(&self) -> bool {
        self.status == JobStatus::Completed
    }

    fn counts(&self) -> &Counts {
        &self.meter.counts
    }

    /// A number of rows, or of items if there is no file.
    fn rows(&self, n: i64) -> String {
        counted(self.file, n)
    }

    /// The one sentence on an uploader's page: the state of the import and its meaning for them.
    pub fn sentence(&self) -> String {
        let counts = self.counts();
        let (bad, corrected, all) = (counts.unresolved(), counts.superseded, counts.total());
        let kind = kind(self.file);
        match self.status {
            JobStatus::Waiting if all > 0 && self.sealed => t!("live-waiting-count", rows = &self.rows(all)),
            JobStatus::Waiting | JobStatus::Running if !self.sealed && counts.finished() == 0 => {
                if all > 0 {
                    t!("live-reading-count", kind = kind, rows = &self.rows(all))
                } else {
                    t!("live-reading", kind = kind)
                }
            }
            JobStatus::Waiting => t!("live-waiting").to_owned(),
            JobStatus::Cancelling => t!("live-canceling", rows = &self.rows(counts.running)),
            JobStatus::Running => {
                let (done, whole) = (counts.finished(), self.meter.whole);
                if self.sealed {
                    t!("live-working", kind = kind, done = done, whole = whole)
                } else {
                    t!("live-working-reading", kind = kind, done = done, whole = whole)
                }
            }
            JobStatus::Completed if self.outcome == Some(Outcome::Cancelled) => {
                t!("live-canceled-after", done = counts.succeeded, rows = &self.rows(all))
            }
            JobStatus::Completed if all == 0 => t!("live-nothing-to-do").to_owned(),
            JobStatus::Completed if corrected > 0 => {
                let good = t!("live-done-of", kind = kind, n = counts.succeeded, rows = &self.rows(all));
                let corrected = t!("live-corrected", n = corrected, rows = &self.rows(corrected));
                let rest = if bad == 0 { String::new() } else { format!(" {}", self.attention(bad)) };
                format!("{good} {corrected}{rest}")
            }
            JobStatus::Completed if bad == 0 => t!("live-all-done", kind = kind, n = all),
            JobStatus::Completed if bad == all => t!("live-none-done", kind = kind, n = all),
            JobStatus::Completed => {
                let good = t!("live-done-of", kind = kind, n = counts.succeeded, rows = &self.rows(all));
                format!("{good} {}", self.attention(bad))
            }
        }
    }

    fn attention(&self, bad: i64) -> String {
        t!("live-attention", n = bad, rows = &self.rows(bad))
    }

    /// Advice after the sentence: the reader's next action.
    pub fn advice(&self) -> &'static str {
        match (self.status, self.outcome) {
            (JobStatus::Completed, Some(Outcome::Partial | Outcome::Failed))
                if self.meter.counts.superseded > 0 && self.meter.counts.unresolved() == 0 =>
            {
                t!("live-advice-corrected")
            }
            (JobStatus::Waiting | JobStatus::Running, _) if self.file => t!("live-advice-import"),
            (JobStatus::Waiting | JobStatus::Running, _) => t!("live-advice-work"),
            (JobStatus::Cancelling, _) => t!("live-advice-canceling"),
            (JobStatus::Completed, Some(Outcome::Cancelled)) => t!("live-advice-canceled"),
            (JobStatus::Completed, Some(Outcome::Partial | Outcome::Failed)) => t!("live-advice-reasons"),
            (JobStatus::Completed, _) => t!("live-advice-results"),
        }
    }

    /// Active stage of a tree with several stages, in words.
    pub fn stage_in_words(&self) -> String {
        match &self.stage {
            Some((at, of, name)) if !self.completed() => t!("live-stage", at = *at, of = *of, name = name),
            _ => String::new(),
        }
    }

    /// Sentence on a page for staff.
    pub fn message(&self) -> String {
        let counts = self.counts();
        match (self.status, self.meter.percent) {
            (JobStatus::Waiting, _) => t!("live-job-waiting").to_owned(),
            (JobStatus::Cancelling, _) => t!("live-job-canceling", n = counts.running),
            (JobStatus::Running, Some(percent)) => t!("live-job-running", percent = percent),
            (JobStatus::Running, None) => t!("live-job-running-done", n = counts.finished()),
            (JobStatus::Completed, _) if self.outcome == Some(Outcome::Cancelled) => t!("live-job-canceled").to_owned(),
            (JobStatus::Completed, _) => {
                let mut text = t!("live-job-complete").to_owned();
                if counts.unresolved() > 0 {
                    text.push_str(&t!("live-job-failed", n = counts.unresolved(), all = counts.total()));
                }
                if counts.superseded > 0 {
                    text.push_str(&t!("live-job-corrected", n = counts.superseded));
                }
                text
            }
        }
    }
}

/// A number of rows of a file, or of items of a job without a file.
pub fn counted(file: bool, n: i64) -> String {
    t!("live-count", kind = kind(file), n = n)
}

/// Word by which texts choose between rows and items.
pub const fn kind(file: bool) -> &'static str {
    if file { "row" } else { "item" }
}

/// Display name of a job: its name, or its key if it has none.
pub fn display_name(job: &Job) -> String {
    job.name.clone().unwrap_or_else(|| job.key.clone())
}

/// The first job of a tree, parents first, that is not complete.
fn stage(root: &Job) -> Option<(usize, usize, String)> {
    let jobs = root.subtree();
    if jobs.len() < 2 {
        return None;
    }
    let at = jobs.iter().position(|job| job.status != JobStatus::Completed)?;
    Some((at + 1, jobs.len(), display_name(jobs[at])))
}

impl Line {
    /// Lines of the tree, parents first, and the number of lines left out.
    pub fn of_tree(root: &Job) -> (Vec<Self>, usize) {
        let mut lines = Vec::new();
        let mut left_out = 0;
        add(&mut lines, &mut left_out, root, 1, (1, 1));
        (lines, left_out)
    }

    fn of(job: &Job, level: u16, place: (u32, u32)) -> Self {
        Self {
            id: job.id,
            parent_id: job.parent_id,
            level,
            place,
            parent: job.children.as_ref().is_some_and(|below| !below.is_empty()),
            name: display_name(job),
            job_type: job.job_type.clone(),
            status: job.status,
            outcome: job.outcome,
            meter: Meter::of_job(job),
        }
    }
}

fn add(lines: &mut Vec<Line>, left_out: &mut usize, job: &Job, level: u16, place: (u32, u32)) {
    if lines.len() < MOST_LINES {
        lines.push(Line::of(job, level, place));
    } else {
        *left_out += 1;
    }
    let below = job.children.as_deref().unwrap_or_default();
    for (at, child) in below.iter().enumerate() {
        add(lines, left_out, child, level.saturating_add(1), (at as u32 + 1, below.len() as u32));
    }
}

impl ActiveItem {
    /// `key_of` finds the key of the item's job.
    pub fn of(item: &Item, key_of: impl FnOnce(Uuid) -> Option<String>) -> Self {
        let progress = item.progress.as_ref();
        Self {
            id: item.id,
            label: item.row.map_or_else(|| t!("live-item", n = item.seq), |row| t!("live-row", n = row)),
            job: key_of(item.job_id).unwrap_or_else(|| item.job_type.clone()),
            worker: item.assignment.as_ref().map(|holder| holder.worker_id.clone()).unwrap_or_default(),
            since: item.assignment.as_ref().map(|holder| holder.since),
            attempt: item.attempts,
            done: progress.and_then(|p| p.done),
            total: progress.and_then(|p| p.total).filter(|&total| total > 0),
            message: progress.and_then(|p| p.message.clone()),
            cancelling: item.cancel_requested_at.is_some(),
        }
    }

    /// Active items as lines, with the keys of their jobs.
    pub fn of_items(root: &Job, items: &[Item]) -> Vec<Self> {
        let jobs = root.subtree();
        let several = jobs.len() > 1;
        let key = |id| jobs.iter().find(|job| several && job.id == id).map(|job| display_name(job));
        items.iter().map(|item| Self::of(item, key)).collect()
    }
}

/// State of a job in one or two words, for badges and lists.
pub fn job_word(status: JobStatus, outcome: Option<Outcome>) -> &'static str {
    match (status, outcome) {
        (JobStatus::Waiting, _) => t!("live-status-waiting"),
        (JobStatus::Running, _) => t!("live-status-running"),
        (JobStatus::Cancelling, _) => t!("live-status-canceling"),
        (JobStatus::Completed, Some(Outcome::Partial)) => t!("live-status-partial"),
        (JobStatus::Completed, Some(Outcome::Failed)) => t!("live-status-failed"),
        (JobStatus::Completed, Some(Outcome::Cancelled)) => t!("live-status-canceled"),
        (JobStatus::Completed, _) => t!("live-status-completed"),
    }
}

/// Shape of the state: the name of an icon and of a color.
pub fn job_shape(status: JobStatus, outcome: Option<Outcome>) -> &'static str {
    match (status, outcome) {
        (JobStatus::Waiting, _) => "available",
        (JobStatus::Running, _) => "running",
        (JobStatus::Completed, Some(Outcome::Partial)) => "partial",
        (JobStatus::Completed, Some(Outcome::Failed)) => "dead",
        (JobStatus::Cancelling, _) | (JobStatus::Completed, Some(Outcome::Cancelled)) => "cancelled",
        (JobStatus::Completed, _) => "succeeded",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(status: JobStatus, outcome: Option<Outcome>, counts: Counts) -> Head {
        Head {
            status,
            outcome,
            sealed: true,
            file: true,
            meter: Meter { counts, whole: counts.total(), percent: Some(41) },
            started_at: None,
            completed_at: None,
            reopened: false,
            stage: None,
            waits: None,
            version: 1,
        }
    }

    #[test]
    fn sentence_states_the_progress_in_rows() {
        let counts = |succeeded, dead, available| Counts { succeeded, dead, available, ..Counts::default() };
        let done = |outcome, counts| head(JobStatus::Completed, Some(outcome), counts).sentence();
        assert_eq!(done(Outcome::Succeeded, counts(5_000, 0, 0)), "All 5,000 rows are imported.");
        assert_eq!(done(Outcome::Succeeded, counts(1, 0, 0)), "1 row is imported.");
        assert_eq!(
            done(Outcome::Partial, counts(482, 18, 0)),
            "482 of 500 rows are imported. 18 rows need your attention."
        );
        assert_eq!(done(Outcome::Partial, counts(1, 1, 0)), "1 of 2 rows is imported. 1 row needs your attention.");
        assert_eq!(done(Outcome::Failed, counts(0, 7, 0)), "None of the 7 rows could be imported.");
        assert_eq!(
            head(JobStatus::Running, None, counts(2_041, 0, 2_959)).sentence(),
            "Working on your rows: 2,041 of 5,000 are done."
        );
    }

    #[test]
    fn jobs_without_a_file_count_items() {
        let counts = Counts { succeeded: 30, cancelled: 30, ..Counts::default() };
        let of = |status, outcome| Head { file: false, ..head(status, outcome, counts) };
        assert_eq!(of(JobStatus::Completed, Some(Outcome::Cancelled)).sentence(), "Canceled after 30 of 60 items.");
        assert_eq!(of(JobStatus::Completed, Some(Outcome::Succeeded)).advice(), "Your results are ready.");
        let partial = Head { outcome: Some(Outcome::Partial), ..of(JobStatus::Completed, None) };
        assert_eq!(partial.sentence(), "30 of 60 items are done. 30 items need your attention.");
    }
}
