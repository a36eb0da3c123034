//! One assignment that the worker holds: when its heartbeat is due, and when its handler must stop.
//!
//! Pure bookkeeping; the loop passes the time in. A lease counts from the moment the last accepted heartbeat was
//! **sent**. The server counts from a later moment, so a handler is stopped before the server can assign its item to
//! another worker (`lease-expiry`).

use std::{sync::Arc, time::Duration};

use domain::{
    api::Assignment,
    dispatch::{assignment::MISSED_HEARTBEATS, retry::Delivery},
    item::ItemProgress,
};
use tokio::{task::AbortHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{ProgressCell, report::Unanswered};
use crate::retry::backoff;

/// Intervals after which the lease is at risk: two heartbeats have failed, plus a quarter of an interval for the answer
/// to the second.
const AT_RISK_AFTER: f64 = 2.25;
/// Intervals after which a handler that has not stopped is dropped, a quarter of an interval before the lease ends.
const DROPPED_AFTER: f64 = MISSED_HEARTBEATS - 0.25;
/// Longest pause before an ending is reported again.
const LONGEST_REPORT_PAUSE: Duration = Duration::from_secs(30);

/// Reason for stopping a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StopReason {
    /// The item or its job was cancelled.
    Cancelled,
    /// The assignment is closed.
    Closed,
    /// Two consecutive heartbeats were not answered.
    LeaseAtRisk,
    /// The worker is draining.
    Draining,
}

/// What follows a report that Treeline has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextReport {
    /// The same ending after this pause.
    Again(Duration),
    /// A failure without the content that something on the way refuses.
    WithoutContent,
    /// Nothing: Treeline said that the assignment is closed.
    Nothing,
}

/// Heartbeats that may carry new progress. One with progress can be refused on the way for its text, which must not
/// cost the lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ProgressTiming {
    /// Any, and new progress has one of its own.
    AtOnce,
    /// None: the last one with progress was refused by something else than Treeline.
    NotNext,
    /// Those that are due anyway, until one with progress is accepted.
    WhenDue,
}

/// Reports of an ending that Treeline has not answered.
#[derive(Debug, Default)]
struct UnansweredReports {
    count: u32,
    /// Since when something else than Treeline refuses the ending, while Treeline answers the heartbeats.
    refused_since: Option<Instant>,
    /// True if the ending was replaced by a failure without content.
    is_without_content: bool,
}

/// Phase of the work on an item.
pub(super) enum Phase {
    /// The claim took longer than a heartbeat interval: a heartbeat must confirm it before work begins.
    Unconfirmed(Box<Assignment>),
    Working(AbortHandle),
    Stopping {
        reason: StopReason,
        abort: AbortHandle,
        drop_at: Instant,
    },
    /// The handler has ended; its ending is being reported.
    Ended,
}

/// An assignment, from the claim until its ending is acknowledged.
pub(super) struct ActiveAssignment {
    pub(super) phase: Phase,
    pub(super) stop: CancellationToken,
    pub(super) progress: Arc<ProgressCell>,
    /// True if the item may be handed out only once: it is not released after its handler has begun.
    pub(super) at_most_once: bool,
    /// Name of the item in the log.
    pub(super) label: String,
    interval: Duration,
    /// Time at which the last accepted heartbeat was sent.
    last_accepted_at: Instant,
    next_heartbeat: Instant,
    failures: u32,
    progress_timing: ProgressTiming,
    reports: UnansweredReports,
    /// True if its handler was dropped, which ends at its next `await`.
    dropped: bool,
    /// True if the server said that the assignment is closed: no more heartbeats.
    closed: bool,
}

impl ActiveAssignment {
    /// `sent` is the time at which the claim was sent, `now` the time at which its answer is handled.
    pub(super) fn new(assignment: Assignment, progress: Arc<ProgressCell>, sent: Instant, now: Instant) -> Self {
        let interval = Duration::try_from_secs_f64(assignment.heartbeat_seconds).unwrap_or(Duration::from_mins(1));
        let item = &assignment.item;
        let label = match item.row {
            Some(row) => format!("{} row {row} ({})", item.job_type, item.id),
            None => format!("{} {} ({})", item.job_type, item.seq, item.id),
        };
        let at_most_once = item.delivery == Delivery::AtMostOnce;
        let is_fresh = now.duration_since(sent) < interval;
        let phase = Phase::Unconfirmed(Box::new(assignment));
        let (last_accepted_at, next_heartbeat) = if is_fresh { (sent, sent + interval) } else { (now, now) };
        Self {
            phase,
            stop: CancellationToken::new(),
            progress,
            at_most_once,
            label,
            interval,
            last_accepted_at,
            next_heartbeat,
            failures: 0,
            progress_timing: ProgressTiming::AtOnce,
            reports: UnansweredReports::default(),
            dropped: false,
            closed: false,
        }
    }

    /// True if work may begin without a heartbeat first: less than one interval has passed since the claim
    /// was sent. A long poll may have been answered long ago by a server that was then cut off.
    pub(super) fn is_confirmed(&self) -> bool {
        self.next_heartbeat > self.last_accepted_at
    }

    /// Takes the assignment if work has not begun; [`Phase::Working`] must follow.
    pub(super) fn take_assignment(&mut self) -> Option<Box<Assignment>> {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Unconfirmed(assignment) => Some(assignment),
            other => {
                self.phase = other;
                None
            }
        }
    }

    pub(super) const fn interval(&self) -> Duration {
        self.interval
    }

    /// True if a heartbeat belongs in a batch that is sent now: it is due within a third of its interval.
    pub(super) fn joins_batch(&self, now: Instant) -> bool {
        !self.closed && self.next_heartbeat <= now + self.interval / 3
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        !self.closed && self.next_heartbeat <= now
    }

    /// True if no report of the ending was left without an answer.
    pub(super) const fn is_first_report(&self) -> bool {
        self.reports.count == 0
    }

    /// True if progress can be reported without waiting for the next heartbeat.
    pub(super) fn has_unsent_progress(&self) -> bool {
        let is_open = !self.closed && matches!(self.phase, Phase::Working(_));
        is_open && self.progress_timing == ProgressTiming::AtOnce && self.progress.is_unsent()
    }

    /// Progress for a heartbeat that is sent now.
    pub(super) fn take_progress(&self) -> Option<ItemProgress> {
        (self.progress_timing != ProgressTiming::NotNext).then(|| self.progress.take()).flatten()
    }

    /// Records that something else than Treeline refused a batch of heartbeats. If any of them had progress, the next one has
    /// none.
    pub(super) fn heartbeat_refused_on_the_way(&mut self, had_progress: bool) {
        self.progress_timing = if had_progress { ProgressTiming::NotNext } else { ProgressTiming::AtOnce };
    }

    /// Records that a heartbeat sent at `sent` was accepted.
    pub(super) fn heartbeat_accepted(&mut self, sent: Instant, had_progress: bool) {
        self.progress_timing = match self.progress_timing {
            ProgressTiming::NotNext | ProgressTiming::WhenDue if !had_progress => ProgressTiming::WhenDue,
            _ => ProgressTiming::AtOnce,
        };
        self.last_accepted_at = sent;
        self.next_heartbeat = sent + self.interval;
        self.failures = 0;
    }

    /// Records that a heartbeat was not answered. The next one follows with backoff, within a quarter of the interval.
    pub(super) fn heartbeat_failed(&mut self, now: Instant) {
        self.failures += 1;
        self.next_heartbeat = now + backoff(self.failures).min(self.interval / 4);
    }

    /// Records that a report of the ending was not answered by Treeline. It is reported again until Treeline says that the
    /// assignment is closed, or refuses the caller for as long as the lease. If it was only refused on the way for the length of a lease, in which Treeline answered the
    /// heartbeats, its content is the reason: it is replaced once.
    pub(super) fn report_unanswered(&mut self, unanswered: &Unanswered, now: Instant) -> NextReport {
        if self.closed || (unanswered.is_caller_refused && now >= self.lease_at_risk_at()) {
            return NextReport::Nothing;
        }
        let (lease, is_lease_alive) = (self.lease(), now < self.lease_at_risk_at());
        let reports = &mut self.reports;
        reports.count += 1;
        let is_only_report_refused = unanswered.is_foreign && is_lease_alive;
        reports.refused_since = is_only_report_refused.then(|| reports.refused_since.unwrap_or(now));
        let is_content_refused = reports.refused_since.is_some_and(|since| now >= since + lease);
        if is_content_refused && !reports.is_without_content {
            reports.is_without_content = true;
            return NextReport::WithoutContent;
        }
        NextReport::Again(backoff(reports.count).max(unanswered.retry_after).min(LONGEST_REPORT_PAUSE))
    }

    /// Length of the lease after a heartbeat.
    fn lease(&self) -> Duration {
        self.interval.mul_f64(MISSED_HEARTBEATS)
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    /// Time of the next check of this assignment. While a batch is in flight, no heartbeat is sent before its answer.
    pub(super) fn wake_at(&self, heartbeat_in_flight: bool) -> Option<Instant> {
        let heartbeat_at = (!self.closed && !heartbeat_in_flight).then_some(self.next_heartbeat);
        let phase = match &self.phase {
            Phase::Unconfirmed(_) | Phase::Working(_) => Some(self.lease_at_risk_at()),
            Phase::Stopping { .. } => self.drop_at(),
            Phase::Ended => None,
        };
        heartbeat_at.into_iter().chain(phase).min()
    }

    /// Time from which the lease may be lost without the worker knowing.
    pub(super) fn lease_at_risk_at(&self) -> Instant {
        self.last_accepted_at + self.interval.mul_f64(AT_RISK_AFTER)
    }

    /// Tells the handler to stop; it is dropped after `grace`, or earlier if the lease ends.
    pub(super) fn stop(&mut self, reason: StopReason, now: Instant, grace: Duration) {
        let Phase::Working(abort) = &self.phase else { return };
        self.phase = Phase::Stopping { reason, abort: abort.clone(), drop_at: now + grace };
        self.stop.cancel();
    }

    /// Drops a handler that was told to stop and has not.
    pub(super) fn drop_handler(&mut self) {
        if let Phase::Stopping { abort, .. } = &self.phase {
            abort.abort();
            self.dropped = true;
        }
    }

    /// Time at which a handler that was told to stop is dropped: after its grace, or shortly before the lease ends.
    pub(super) fn drop_at(&self) -> Option<Instant> {
        let Phase::Stopping { drop_at, abort, reason } = &self.phase else { return None };
        let lease_at = self.last_accepted_at + self.interval.mul_f64(DROPPED_AFTER);
        // The lease of a closed assignment is over already.
        let at = if *reason == StopReason::Closed { *drop_at } else { (*drop_at).min(lease_at) };
        (!self.dropped && !abort.is_finished()).then_some(at)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use domain::{Document, Time, api::AssignedItem, id::Uuid, item::MaxFailures, job_type::Delivery};

    /// An assignment of an item of the type `t`.
    pub(in crate::worker) fn assignment(heartbeat_seconds: f64) -> Assignment {
        let now = Time::parse("2026-11-20T14:03:07Z").expect("a time");
        let id = Uuid::nil();
        let item = AssignedItem {
            id,
            job_id: id,
            root_id: id,
            job_type: "t".to_owned(),
            seq: 1,
            row: None,
            attempts: 1,
            failures: 0,
            max_failures: MaxFailures::AtMost(3),
            delivery: Delivery::default(),
            payload: Document::null(),
            metadata: Document::empty_object(),
            step: None,
            event: None,
            dedupe_key: None,
            serialize_key: None,
            priority: 0,
            expires_at: None,
            created_at: now,
            traceparent: None,
        };
        Assignment { id, item, attempt: 1, inputs: None, lease_expires_at: now, heartbeat_seconds }
    }

    fn active(sent: Instant, now: Instant) -> ActiveAssignment {
        ActiveAssignment::new(assignment(60.0), Arc::new(ProgressCell::new(Arc::default())), sent, now)
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test]
    async fn a_lease_is_counted_from_sending_and_let_go_before_it_ends() {
        let sent = Instant::now();
        let mut active = active(sent, sent + s(20));
        assert!(active.is_confirmed());
        assert!(!active.is_due(sent + s(59)) && active.is_due(sent + s(60)));
        active.heartbeat_accepted(sent + s(60), false);
        assert_eq!(active.lease_at_risk_at(), sent + s(60 + 135));

        active.phase = Phase::Working(tokio::spawn(async {}).abort_handle());
        active.stop(StopReason::LeaseAtRisk, sent + s(195), s(300));
        assert!(active.stop.is_cancelled());
    }

    #[tokio::test]
    async fn the_grace_ends_before_the_lease_whatever_the_reason() {
        let sent = Instant::now();
        for reason in [StopReason::LeaseAtRisk, StopReason::Draining, StopReason::Cancelled] {
            let mut active = active(sent, sent);
            active.phase = Phase::Working(tokio::spawn(std::future::pending::<()>()).abort_handle());
            active.stop(reason, sent + s(5), s(300));
            assert_eq!(active.drop_at(), Some(sent + s(165)), "{reason:?}: before the lease ends at 180 s");
            active.heartbeat_accepted(sent + s(100), false);
            assert_eq!(active.drop_at(), Some(sent + s(265)), "{reason:?}: a lease that was renewed is longer");
            active.heartbeat_accepted(sent + s(200), false);
            assert_eq!(active.drop_at(), Some(sent + s(305)), "{reason:?}: the grace");
        }
    }

    const REFUSED: Unanswered = unanswered(true);
    const AWAY: Unanswered = unanswered(false);

    const fn unanswered(is_foreign: bool) -> Unanswered {
        Unanswered {
            reason: String::new(),
            is_foreign,
            is_caller_refused: false,
            status: Some(403),
            retry_after: Duration::ZERO,
        }
    }

    // The ending was dropped three intervals after the first refusal, although its lease was alive: the work ran again.
    #[test]
    fn an_ending_that_is_refused_on_the_way_loses_its_content_after_a_lease_and_is_reported_again() {
        let sent = Instant::now();
        let mut active = active(sent, sent);
        let mut report = |unanswered: &Unanswered, seconds, heartbeat| {
            active.heartbeat_accepted(sent + s(heartbeat), false);
            active.report_unanswered(unanswered, sent + s(seconds))
        };
        assert!(matches!(report(&REFUSED, 10, 60), NextReport::Again(_)));
        assert!(matches!(report(&REFUSED, 189, 180), NextReport::Again(_)));
        assert_eq!(report(&REFUSED, 190, 180), NextReport::WithoutContent);
        assert!(matches!(report(&REFUSED, 500, 480), NextReport::Again(_)), "once");
        active.close();
        assert_eq!(active.report_unanswered(&REFUSED, sent + s(501)), NextReport::Nothing);
    }

    // It was reported for ever in the only slot, and no claim showed that the token was revoked.
    #[test]
    fn an_ending_of_a_refused_caller_is_given_up_with_its_lease() {
        let sent = Instant::now();
        let mut active = active(sent, sent);
        let revoked = Unanswered { is_caller_refused: true, status: Some(401), ..unanswered(false) };
        let end = active.lease_at_risk_at();
        assert!(matches!(active.report_unanswered(&revoked, sent + s(10)), NextReport::Again(_)));
        assert!(matches!(active.report_unanswered(&AWAY, end), NextReport::Again(_)), "nobody refuses it");
        assert_eq!(active.report_unanswered(&revoked, end), NextReport::Nothing);
    }

    #[test]
    fn an_ending_keeps_its_content_unless_it_is_the_only_thing_that_is_refused() {
        let sent = Instant::now();
        let mut active = active(sent, sent);
        assert!(matches!(active.report_unanswered(&REFUSED, sent + s(10)), NextReport::Again(_)));
        assert!(
            matches!(active.report_unanswered(&REFUSED, sent + s(300)), NextReport::Again(_)),
            "no heartbeat answered"
        );
        active.heartbeat_accepted(sent + s(300), false);
        assert!(matches!(active.report_unanswered(&REFUSED, sent + s(301)), NextReport::Again(_)), "after an outage");
        assert!(matches!(active.report_unanswered(&AWAY, sent + s(301)), NextReport::Again(_)));
        assert!(matches!(active.report_unanswered(&REFUSED, sent + s(302)), NextReport::Again(_)), "counted anew");
        active.heartbeat_accepted(sent + s(480), false);
        assert_eq!(active.report_unanswered(&REFUSED, sent + s(482)), NextReport::WithoutContent);
    }

    #[test]
    fn the_pause_before_a_report_is_bounded() {
        let sent = Instant::now();
        let mut active = active(sent, sent);
        let busy = Unanswered { retry_after: s(3_600), ..unanswered(false) };
        assert_eq!(active.report_unanswered(&busy, sent), NextReport::Again(LONGEST_REPORT_PAUSE));
        for _ in 0..40 {
            let next = active.report_unanswered(&AWAY, sent);
            assert!(matches!(next, NextReport::Again(pause) if pause <= LONGEST_REPORT_PAUSE), "{next:?}");
        }
    }

    #[tokio::test]
    async fn progress_that_is_refused_on_the_way_waits_for_a_heartbeat_that_is_due() {
        let sent = Instant::now();
        let mut active = active(sent, sent);
        active.phase = Phase::Working(tokio::spawn(async {}).abort_handle());
        active.progress.set(ItemProgress { done: Some(1), ..ItemProgress::default() });
        for _ in 0..3 {
            assert!(active.take_progress().is_some());
            active.progress.put_back();
            active.heartbeat_refused_on_the_way(true);
            assert!(!active.has_unsent_progress() && active.take_progress().is_none(), "the next one has none");
            active.heartbeat_accepted(sent, false);
            assert!(!active.has_unsent_progress(), "it has no heartbeat of its own");
        }
        assert!(active.take_progress().is_some());
        active.heartbeat_accepted(sent, true);
        active.progress.set(ItemProgress { done: Some(2), ..ItemProgress::default() });
        assert!(active.has_unsent_progress());
    }

    #[test]
    fn a_claim_answered_late_is_confirmed_first() {
        let sent = Instant::now();
        let active = active(sent, sent + s(60));
        assert!(!active.is_confirmed());
        assert!(active.is_due(sent + s(60)));
    }

    #[test]
    fn a_failed_heartbeat_is_tried_again_well_within_its_interval() {
        let sent = Instant::now();
        let mut active = active(sent, sent);
        let mut at = sent + s(60);
        for tries in 0.. {
            assert!(active.is_due(at));
            active.heartbeat_failed(at);
            at = active.next_heartbeat;
            if at > active.lease_at_risk_at() {
                assert!(tries > 10);
                break;
            }
        }
    }
}
