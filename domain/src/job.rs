//! Jobs: counters, status, outcome, and what the API says of one (`completion`, `job-status`, `sealing`).

use serde::{Deserialize, Serialize};

use crate::{
    Document, Time,
    id::Uuid,
    item::{ItemState, MaxFailures},
};

pub use crate::identity::owner::{Owner, OwnerKind};

/// Number of items in each state: exact totals at any size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Counts {
    pub available: i64,
    pub running: i64,
    pub retryable: i64,
    pub scheduled: i64,
    pub blocked: i64,
    pub succeeded: i64,
    pub dead: i64,
    pub cancelled: i64,
    pub expired: i64,
    // Absent in what an earlier version has stored.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(required = true))]
    pub waiting_for_event: i64,
    /// Number of `cancelled` items that were replaced by corrected rows. Absent if there are none.
    #[serde(default, skip_serializing_if = "is_default")]
    #[cfg_attr(feature = "openapi", schema(required = false))]
    pub superseded: i64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl Counts {
    /// The number in one state.
    pub const fn get(&self, state: ItemState) -> i64 {
        match state {
            ItemState::Available => self.available,
            ItemState::Running => self.running,
            ItemState::Retryable => self.retryable,
            ItemState::Scheduled => self.scheduled,
            ItemState::Blocked => self.blocked,
            ItemState::WaitingForEvent => self.waiting_for_event,
            ItemState::Succeeded => self.succeeded,
            ItemState::Dead => self.dead,
            ItemState::Cancelled => self.cancelled,
            ItemState::Expired => self.expired,
        }
    }

    /// All items.
    pub const fn total(&self) -> i64 {
        self.pending() + self.finished()
    }

    /// Items that are not final.
    pub const fn pending(&self) -> i64 {
        self.available + self.running + self.retryable + self.scheduled + self.blocked + self.waiting_for_event
    }

    /// Number of items in a final state.
    pub const fn finished(&self) -> i64 {
        self.succeeded + self.dead + self.cancelled + self.expired
    }

    /// Final, but not succeeded.
    pub const fn unsuccessful(&self) -> i64 {
        self.dead + self.cancelled + self.expired
    }

    /// Final, neither succeeded nor replaced by a corrected row.
    pub const fn unresolved(&self) -> i64 {
        self.unsuccessful() - self.superseded
    }
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.available += other.available;
        self.running += other.running;
        self.retryable += other.retryable;
        self.scheduled += other.scheduled;
        self.blocked += other.blocked;
        self.waiting_for_event += other.waiting_for_event;
        self.succeeded += other.succeeded;
        self.dead += other.dead;
        self.cancelled += other.cancelled;
        self.expired += other.expired;
        self.superseded += other.superseded;
    }
}

impl std::ops::Sub for Counts {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            available: self.available - other.available,
            running: self.running - other.running,
            retryable: self.retryable - other.retryable,
            scheduled: self.scheduled - other.scheduled,
            blocked: self.blocked - other.blocked,
            waiting_for_event: self.waiting_for_event - other.waiting_for_event,
            succeeded: self.succeeded - other.succeeded,
            dead: self.dead - other.dead,
            cancelled: self.cancelled - other.cancelled,
            expired: self.expired - other.expired,
            superseded: self.superseded - other.superseded,
        }
    }
}

impl std::iter::Sum for Counts {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::default(), |mut all, one| {
            all += one;
            all
        })
    }
}

/// Status of a job or a tree (`job-status`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum JobStatus {
    /// No item has started or ended.
    Waiting,
    Running,
    /// Cancelled, but workers still hold some of its items.
    Cancelling,
    Completed,
}

impl JobStatus {
    pub const ALL: [JobStatus; 4] = [Self::Waiting, Self::Running, Self::Cancelling, Self::Completed];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Running => "running",
            Self::Cancelling => "cancelling",
            Self::Completed => "completed",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }

    /// `job-status`, from what a job state row holds.
    pub const fn of(counts: &Counts, started: bool, cancelled: bool, completed: bool) -> Self {
        if completed {
            Self::Completed
        } else if cancelled {
            Self::Cancelling
        } else if started || counts.running > 0 || counts.finished() > 0 {
            Self::Running
        } else {
            Self::Waiting
        }
    }
}

/// Outcome of a complete job or tree (`completion`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Outcome {
    /// Every item succeeded; an empty job succeeds.
    Succeeded,
    /// Some items succeeded.
    Partial,
    /// None did.
    Failed,
    /// The job, or one above it, was canceled.
    Cancelled,
}

impl Outcome {
    pub const ALL: [Outcome; 4] = [Self::Succeeded, Self::Partial, Self::Failed, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Succeeded => "succeeded",
            Self::Partial => "partial",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|o| o.as_str() == word)
    }

    /// Stored number, as in the function `outcome_of` of the schema. Never renumber.
    pub const fn code(self) -> i16 {
        match self {
            Self::Succeeded => 1,
            Self::Partial => 2,
            Self::Failed => 3,
            Self::Cancelled => 4,
        }
    }

    /// The outcome that a stored number stands for.
    pub fn from_code(code: i16) -> Option<Self> {
        Self::ALL.into_iter().find(|outcome| outcome.code() == code)
    }

    /// `completion`, over the items of a complete job or tree.
    pub const fn of(counts: &Counts, cancelled: bool) -> Self {
        if cancelled {
            Self::Cancelled
        } else if counts.unsuccessful() == 0 {
            Self::Succeeded
        } else if counts.succeeded > 0 {
            Self::Partial
        } else {
            Self::Failed
        }
    }
}

/// Reason why a job is not complete.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OpenBecause {
    /// `unsealed`, `items`, `after` or `cancelling`.
    pub reason: String,
    pub detail: String,
}

/// Summary of a job together with everything below it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TreeSummary {
    pub status: JobStatus,
    pub outcome: Option<Outcome>,
    pub item_count: i64,
    pub item_progress: i64,
    pub counts: Counts,
}

/// A job. `status`, `outcome` and `counts` are those of the job itself; `tree` is the job with everything below it,
/// which `percent`, `message`, `started_at` and `completed_at` also describe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Job {
    pub id: Uuid,
    pub root_id: Uuid,
    pub parent_id: Option<Uuid>,
    pub key: String,
    #[serde(rename = "type")]
    pub job_type: String,
    pub name: Option<String>,
    pub status: JobStatus,
    pub outcome: Option<Outcome>,
    pub sealed: bool,
    pub item_count: i64,
    /// Number of items in a final state.
    pub item_progress: i64,
    pub expected_count: Option<i64>,
    /// On the root in the response that created the tree: number of items that replaced the payload of a waiting item
    /// with the same debounce key, and are not items of this tree. Absent if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub merged: Option<i64>,
    /// Percentage, 0 to 100; at most 99 before completion; null while the job is unsealed without `expected_count`.
    pub percent: Option<u8>,
    pub message: String,
    pub counts: Counts,
    pub tree: TreeSummary,
    pub after: Vec<String>,
    pub feed: Option<Document>,
    pub final_stage: bool,
    pub max_failures: MaxFailures,
    pub metadata: Document,
    pub dedupe_key: Option<String>,
    /// For a root: Idempotency-Key of the request that created the tree, as long as it is stored.
    #[serde(default)]
    pub idempotency_key: Option<String>,
    pub owner: Owner,
    pub initiated_by: Option<String>,
    pub upload_id: Option<Uuid>,
    pub replay_of: Option<Uuid>,
    pub superseded_by: Option<Uuid>,
    /// Number of times that the tree has completed.
    pub completion: i32,
    /// True if exempt from retention: the tree is kept until somebody deletes it.
    pub pinned: bool,
    pub open_because: Option<OpenBecause>,
    pub created_at: Time,
    pub started_at: Option<Time>,
    pub completed_at: Option<Time>,
    pub updated_at: Time,
    pub run_after: Option<Time>,
    pub expires_at: Option<Time>,
    pub priority: i16,
    pub version: i64,
    /// Child jobs; omitted in lists and in `change` events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(no_recursion))]
    pub children: Option<Vec<Job>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(succeeded: i64, dead: i64, running: i64) -> Counts {
        Counts { running, succeeded, dead, ..Counts::default() }
    }

    #[test]
    fn outcome_covers_all_items() {
        assert_eq!(Outcome::of(&counts(0, 0, 0), false), Outcome::Succeeded);
        assert_eq!(Outcome::of(&counts(3, 0, 0), false), Outcome::Succeeded);
        assert_eq!(Outcome::of(&counts(3, 1, 0), false), Outcome::Partial);
        assert_eq!(Outcome::of(&counts(0, 1, 0), false), Outcome::Failed);
        assert_eq!(Outcome::of(&counts(3, 0, 0), true), Outcome::Cancelled);
    }

    #[test]
    fn job_status_from_counts() {
        assert_eq!(JobStatus::of(&counts(0, 0, 0), false, false, false), JobStatus::Waiting);
        assert_eq!(JobStatus::of(&counts(0, 0, 1), false, false, false), JobStatus::Running);
        assert_eq!(JobStatus::of(&counts(0, 0, 0), true, false, false), JobStatus::Running);
        assert_eq!(JobStatus::of(&counts(0, 0, 1), true, true, false), JobStatus::Cancelling);
        assert_eq!(JobStatus::of(&counts(1, 0, 0), true, true, true), JobStatus::Completed);
    }
}
