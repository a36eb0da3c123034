//! Attempts that have ended, for whoever records traces of them.

use domain::item::EndedAs;
use time::OffsetDateTime;
use tokio::sync::mpsc;
use uuid::Uuid;

use crate::store::dispatch::leases::TakenLease;

/// Attempt of a committed batch.
#[derive(Clone, Copy, Debug)]
pub struct EndedAttempt {
    pub assignment_id: Uuid,
    pub item_id: Uuid,
    /// Time since its start, by the database's clock.
    pub seconds: f64,
    pub ended_as: EndedAs,
}

impl EndedAttempt {
    /// Attempt whose lease was removed at this time.
    pub(crate) fn of(row: &TakenLease, ended_as: EndedAs, now: OffsetDateTime) -> Self {
        Self { assignment_id: row.id, item_id: row.item_id, seconds: (now - row.started_at).as_seconds_f64(), ended_as }
    }
}

/// Receiver of ended attempts, if there is one.
pub type EndedAttempts = Option<mpsc::Sender<EndedAttempt>>;

/// Reports attempts, after their commit. Those that the receiver has no room for are lost to it.
pub(crate) fn report(receiver: &EndedAttempts, attempts: &[EndedAttempt]) {
    let Some(receiver) = receiver else { return };
    let lost = attempts.iter().filter(|attempt| receiver.try_send(**attempt).is_err()).count();
    if lost > 0 {
        metrics::counter!("treeline_trace_attempts_lost_total").increment(lost as u64);
    }
}
