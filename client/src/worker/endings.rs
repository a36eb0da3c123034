//! Endings of items whose handler has ended: reported, released, or left to their lease.
//!
//! An ending stays in the queue, and its assignment gets heartbeats, until the server has answered.

use std::time::Duration;

use domain::{
    Code, Document,
    api::{Ending, ReleaseBody},
    event_wait::WaitBody,
    id::Uuid,
};
use tokio::{
    task::{Id, JoinError},
    time::Instant,
};

use super::{
    Unfinished,
    active::{Phase, StopReason},
    claims::Claiming,
    report::{self, ReleaseOutcome, ReportOutcome, Reported},
    run::{Loop, Reply},
};

/// Pause before an ending is reported again if the server could not process it.
const REPORT_RETRY_PAUSE: Duration = Duration::from_secs(1);

impl Loop {
    pub(super) fn handler_ended(&mut self, ended: Result<(Id, Result<Document, Unfinished>), JoinError>) {
        let (task, outcome) = match ended {
            Ok((task, outcome)) => (task, Some(outcome)),
            Err(error) if error.is_panic() => {
                (error.id(), Some(Err(Unfinished::failed("The worker's handler panicked.").kind("panicked"))))
            }
            Err(error) => (error.id(), None),
        };
        let Some(id) = self.by_task.remove(&task) else { return };
        let Some(active) = self.active.get_mut(&id) else { return };
        let stop_reason = match std::mem::replace(&mut active.phase, Phase::Ended) {
            Phase::Stopping { reason: stop_reason, .. } => Some(stop_reason),
            _ => None,
        };
        if stop_reason == Some(StopReason::Closed) {
            self.active.remove(&id);
            self.summary.closed += 1;
            return;
        }
        match outcome {
            Some(Ok(result)) => {
                tracing::debug!(item = %active.label, "done");
                self.endings.push_back(report::result(id, result));
            }
            // A failure while the handler is being stopped was most likely caused by the stop. Work that is delivered at
            // most once has begun nevertheless, and must not be released.
            Some(Err(Unfinished::Failed(failure)))
                if stop_reason.is_none() || !failure.retryable || active.at_most_once =>
            {
                tracing::warn!(item = %active.label, error = %failure.error.message, "failed");
                self.endings.push_back(report::failed(id, failure));
            }
            Some(Err(Unfinished::Released(body))) => self.release(id, body),
            Some(Err(Unfinished::Waits(body))) => self.wait_for_event(id, body),
            None if active.at_most_once => self.endings.push_back(report::stopped(id)),
            Some(Err(Unfinished::Failed(_))) | None => self.release(id, ReleaseBody::default()),
        }
    }

    /// Reports endings, and claims as many items as these endings free slots.
    pub(super) fn report(&mut self, now: Instant) {
        if self.reporting || self.endings.is_empty() || now < self.report_after {
            return;
        }
        let endings: Vec<Ending> = self.endings.drain(..report::batch_len(&self.endings)).collect();
        let slots = (self.worker.concurrency + endings.len()).saturating_sub(self.active.len());
        let may_claim = self.leaving.is_none() && self.claiming.is_none();
        let claim = (may_claim && slots > 0).then(|| self.claim_for(slots, None));
        if claim.is_some() {
            self.claiming = Some(Claiming::WithReport);
        }
        self.reporting = true;
        let client = self.worker.client.clone();
        self.calls.spawn(async move { Reply::Reported(report::report(client, endings, claim).await) });
    }

    pub(super) fn reported(&mut self, reported: Reported) {
        self.reporting = false;
        self.claiming.take_if(|claiming| matches!(claiming, Claiming::WithReport));
        for (ending, outcome) in reported.endings {
            let id = ending.assignment_id.id;
            let label = self.active.get(&id).map_or("", |active| active.label.as_str());
            match outcome {
                ReportOutcome::Accepted if ending.error.is_some() => self.summary.failed += 1,
                ReportOutcome::Accepted => self.summary.succeeded += 1,
                ReportOutcome::Closed(code) => {
                    let code = code.map_or("closed", Code::as_str);
                    tracing::warn!(item = %label, code, "ending too late; it had no effect");
                    self.summary.closed += 1;
                }
                ReportOutcome::RetryLater => {
                    self.report_after = Instant::now() + REPORT_RETRY_PAUSE;
                    self.endings.push_back(ending);
                    continue;
                }
                ReportOutcome::Foreign(reason) => {
                    let now = Instant::now();
                    if self.active.get_mut(&id).is_some_and(|active| active.may_report_again(now)) {
                        tracing::warn!(reason, "ending not answered by Treeline; reporting it again");
                        self.report_after = now + REPORT_RETRY_PAUSE;
                        self.endings.push_back(ending);
                        continue;
                    }
                    tracing::error!(reason, "ending not answered by Treeline until its lease was over");
                    self.summary.unreported += 1;
                }
                ReportOutcome::Refused(reason) => {
                    tracing::error!(item = %label, reason, "ending refused");
                    if let Some(ending) = report::after_refusal(ending, &reason) {
                        self.endings.push_back(ending);
                        continue;
                    }
                    self.summary.unreported += 1;
                }
            }
            self.active.remove(&id);
        }
        self.accept(reported.assignments, reported.sent);
        if let Some(claim) = reported.unanswered {
            self.repeat_claim(claim, reported.sent);
        }
    }

    pub(super) fn release(&mut self, id: Uuid, body: ReleaseBody) {
        let Some(active) = self.active.get_mut(&id) else { return };
        active.phase = Phase::Ended;
        let (client, lease) = (self.worker.client.clone(), active.lease());
        self.calls.spawn(async move {
            let outcome = report::release(client, id, body, lease).await;
            Reply::Released { assignment: id, outcome }
        });
    }

    /// Ends the attempt to wait for an event.
    fn wait_for_event(&mut self, id: Uuid, body: WaitBody) {
        let Some(active) = self.active.get(&id) else { return };
        let (client, lease) = (self.worker.client.clone(), active.lease());
        self.calls.spawn(async move {
            let outcome = report::wait(client, id, body, lease).await;
            Reply::Released { assignment: id, outcome }
        });
    }

    pub(super) fn release_answered(&mut self, id: Uuid, outcome: &ReleaseOutcome) {
        match outcome {
            ReleaseOutcome::Accepted => self.summary.released += 1,
            ReleaseOutcome::Closed => self.summary.closed += 1,
            ReleaseOutcome::Refused(reason) => {
                let message = format!("Treeline refused the wait: {reason}");
                self.endings.push_back(report::failure(id, report::error("bad_wait", message)));
                return;
            }
            ReleaseOutcome::MustFail => {
                self.endings.push_back(report::stopped(id));
                return;
            }
        }
        self.active.remove(&id);
    }
}
