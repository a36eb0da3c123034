//! Endings that workers request, and the rows that a batch of endings collects.

use std::collections::{BTreeMap, BTreeSet};

use domain::{
    Document,
    api::{FailureBody, ReleaseBody},
    dispatch::assignment::Capability,
    event_wait::WaitBody,
};
use uuid::Uuid;

use crate::{
    access::assignment_holder::Holder,
    activity_counters::Run,
    ended_attempts::EndedAttempt,
    store::{
        dispatch::{endings::FinalRow, leases::ClaimCursor},
        tree::job_states::Delta,
    },
};

/// Kinds of endings that a worker can send.
#[derive(Clone, Debug)]
pub enum EndingKind {
    Result(Document),
    Failure(FailureBody),
    Release(ReleaseBody),
    Wait(WaitBody),
}

/// One requested ending.
#[derive(Clone, Debug)]
pub(crate) struct EndCommand {
    pub(crate) assignment_id: Uuid,
    /// Capability that the caller presented, for a pushed assignment.
    pub(crate) capability: Option<Capability>,
    pub(crate) holder: Holder,
    pub(crate) kind: EndingKind,
}

/// Changes made by the ending half of a batch.
#[derive(Default)]
pub(crate) struct EndingRows {
    pub(crate) deltas: BTreeMap<i64, Delta>,
    pub(crate) dead: Vec<FinalRow>,
    /// Items that are claimable again at once: type and position.
    pub(crate) ready: Vec<(i32, ClaimCursor)>,
    /// Jobs known to be canceled (job state row ids, ascending): their running items can only end as canceled.
    pub(crate) cancelled: Vec<i64>,
    /// Items in a serialize queue that became final: queue id and item id.
    pub(crate) freed: Vec<(i64, Uuid)>,
    /// Succeeded items, which may be fed to other jobs.
    pub(crate) succeeded: Vec<Success>,
    /// Jobs that received a result after they were canceled (job state row ids).
    pub(crate) late_results: Vec<i64>,
    /// Jobs whose worker asked to cancel the tree (job state row ids).
    pub(crate) aborted: Vec<i64>,
    /// Attempts that ended with a result or failed, for the statistics.
    pub(crate) runs: Vec<Run>,
    /// All attempts that ended, for traces.
    pub(crate) ended: Vec<EndedAttempt>,
    /// Types with parked items whose keys may allow more now.
    pub(crate) freed_types: BTreeSet<i32>,
}

/// Item that succeeded in this batch: its job and the index of its command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Success {
    pub(crate) item_id: Uuid,
    pub(crate) job_key: i64,
    pub(crate) command: usize,
}

impl EndingRows {
    /// Empty rows of a batch in which these jobs are known to be canceled.
    pub(crate) fn with_cancelled(cancelled: &[i64]) -> Self {
        Self { cancelled: cancelled.to_vec(), ..Self::default() }
    }

    pub(crate) fn is_cancelled(&self, job_key: i64) -> bool {
        self.cancelled.binary_search(&job_key).is_ok()
    }

    pub(crate) fn delta(&mut self, job_key: i64) -> &mut Delta {
        self.deltas.entry(job_key).or_default()
    }
}
