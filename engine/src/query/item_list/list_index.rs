//! Choice of the index for a filter, and of the jobs that are searched together.

use domain::{Counts, ItemState};
use uuid::Uuid;

use super::{ItemFilter, STEP};
use crate::store::query::{item_list_jobs::ListedJobState, item_list_keys::PendingTables};

/// Maximum number of pending items of a job that are sorted for one page; with more, all its items are scanned.
const SORTED: i64 = 10_000;

/// Index that finds the keys; the test checks the remaining conditions.
#[derive(Clone, Debug)]
pub(super) enum ListIndex {
    Ids(Vec<Uuid>),
    Row(i64),
    Dedupe(String),
    Error(String),
    Unsuccessful(Vec<i16>),
    PendingTables(PendingTables),
    All,
}

impl ListIndex {
    pub(super) fn of(filter: &ItemFilter) -> Self {
        if !filter.ids.is_empty() {
            return Self::Ids(filter.ids.clone());
        }
        if let Some(row) = filter.row {
            return Self::Row(row);
        }
        if let Some(key) = &filter.dedupe_key {
            return Self::Dedupe(key.clone());
        }
        if let Some(error) = &filter.error {
            return Self::Error(error.clone());
        }
        let all = |among: &[ItemState]| !filter.states.is_empty() && filter.states.iter().all(|s| among.contains(s));
        if all(&[ItemState::Dead, ItemState::Cancelled, ItemState::Expired]) {
            let mut states: Vec<i16> = filter.states.iter().map(|s| s.code()).collect();
            states.sort_unstable();
            states.dedup();
            return Self::Unsuccessful(states);
        }
        let pending = [
            ItemState::Running,
            ItemState::Retryable,
            ItemState::Scheduled,
            ItemState::Blocked,
            ItemState::WaitingForEvent,
        ];
        if all(&pending) {
            let has = |state| filter.states.contains(&state);
            return Self::PendingTables(PendingTables {
                running: has(ItemState::Running),
                deferred: has(ItemState::Retryable) || has(ItemState::Scheduled) || has(ItemState::WaitingForEvent),
                blocked: has(ItemState::Blocked),
            });
        }
        Self::All
    }

    /// Index for one job. All items are scanned while a decision propagates, or if too many would have to be sorted.
    fn within(&self, job_state: &ListedJobState) -> Self {
        match self {
            Self::Unsuccessful(_) | Self::PendingTables(_) if job_state.propagating => Self::All,
            Self::PendingTables(_) if self.weight(&job_state.counts) > SORTED => Self::All,
            other => other.clone(),
        }
    }

    /// Maximum number of keys that a job has in this index.
    fn weight(&self, counts: &Counts) -> i64 {
        match self {
            Self::Ids(_) | Self::Row(_) | Self::Dedupe(_) => 1,
            Self::Error(_) | Self::Unsuccessful(_) => counts.unsuccessful(),
            Self::PendingTables(held) => {
                let of = |wanted, n| if wanted { n } else { 0 };
                of(held.running, counts.running)
                    + of(held.deferred, counts.retryable + counts.scheduled + counts.waiting_for_event)
                    + of(held.blocked, counts.blocked)
            }
            Self::All => counts.total(),
        }
    }
}

/// Job state rows that are searched together: one of any size, or several small ones.
pub(super) struct Group {
    pub(super) job_keys: Vec<i64>,
    pub(super) index: ListIndex,
}

pub(super) fn grouped(job_states: &[ListedJobState], index: &ListIndex) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut room = 0;
    for job_state in job_states {
        let job_index = index.within(job_state);
        let weight = job_index.weight(&job_state.counts);
        if weight == 0 {
            continue;
        }
        let alike = std::mem::discriminant(&job_index) == std::mem::discriminant(index);
        match groups.last_mut() {
            Some(group) if alike && weight <= room && !group.job_keys.is_empty() => {
                group.job_keys.push(job_state.job_key);
                room -= weight;
            }
            _ => {
                room = if alike { STEP - weight } else { 0 };
                groups.push(Group { job_keys: vec![job_state.job_key], index: job_index });
            }
        }
    }
    groups
}
