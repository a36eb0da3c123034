//! Heartbeats, with progress, and the answers to them.
//!
//! One batch is in flight at a time. Heartbeats that are due at about the same time share a batch; changed progress
//! does not wait for them. When a heartbeat is due, and how long an assignment stays held without an answer,
//! is in `active.rs`; `watch_leases` in `run.rs` then stops its handler.

use std::{collections::HashSet, time::Duration};

use domain::{
    api::{HeartbeatAnswer, HeartbeatOf, Heartbeats, HeartbeatsBody},
    id::Uuid,
};
use tokio::time::Instant;

use super::{
    MAX_BATCH,
    active::{Phase, StopReason},
    report::EndingCall,
    run::{Loop, Reply},
};
use crate::error::Result;

/// Changed progress is sent at most this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Timeout of a batch; shorter if the heartbeat intervals are short.
const BATCH_TIMEOUT: Duration = Duration::from_secs(10);

impl Loop {
    pub(super) fn send_heartbeats(&mut self, now: Instant) {
        if self.heartbeat_in_flight {
            return;
        }
        let due = self.active.values().any(|active| active.is_due(now));
        let progress_changed = self.progress_pending && now >= self.progress_after;
        if progress_changed {
            self.progress_pending = false;
            self.progress_after = now + PROGRESS_EVERY;
        }
        let mut timeout = BATCH_TIMEOUT;
        let mut heartbeats = Vec::new();
        for (&id, active) in &self.active {
            if heartbeats.len() < MAX_BATCH
                && ((due && active.joins_batch(now)) || (progress_changed && active.has_unsent_progress()))
            {
                timeout = timeout.min(active.interval() / 2);
                heartbeats.push(HeartbeatOf { assignment_id: id.into(), progress: active.take_progress() });
            }
        }
        if heartbeats.is_empty() {
            return;
        }
        self.heartbeat_in_flight = true;
        let client = self.worker.client.clone();
        self.calls.spawn(async move {
            let body = HeartbeatsBody { heartbeats };
            let sent = Instant::now();
            let answer = client.heartbeats(&body, timeout).await;
            Reply::HeartbeatsAnswered { sent, heartbeats: body.heartbeats, answer }
        });
    }

    pub(super) fn heartbeats_answered(
        &mut self,
        sent: Instant,
        heartbeats: Vec<HeartbeatOf>,
        answer: Result<Heartbeats>,
    ) {
        self.heartbeat_in_flight = false;
        match answer {
            Ok(answers) => {
                self.heartbeat_failures = 0;
                let had_progress =
                    |heartbeat: HeartbeatOf| heartbeat.progress.is_some().then_some(heartbeat.assignment_id.id);
                let with_progress: HashSet<Uuid> = heartbeats.into_iter().filter_map(had_progress).collect();
                answers.heartbeats.iter().for_each(|answer| self.heartbeat_answered(sent, answer, &with_progress));
            }
            Err(error) => {
                self.heartbeat_failures += 1;
                if self.heartbeat_failures == 1 {
                    tracing::warn!(%error, items = heartbeats.len(), "heartbeat failed; retrying");
                }
                // Progress that is refused must not cost the lease: what Treeline refuses is dropped, and after what
                // something else refuses, the next heartbeat has none.
                let is_foreign = error.is_foreign();
                let keeps_progress = error.is_transient() || is_foreign;
                // Any progress in the batch may be the reason.
                let had_any_progress = heartbeats.iter().any(|heartbeat| heartbeat.progress.is_some());
                let now = Instant::now();
                for heartbeat in heartbeats {
                    let Some(active) = self.active.get_mut(&heartbeat.assignment_id.id) else { continue };
                    active.heartbeat_failed(now);
                    if keeps_progress && heartbeat.progress.is_some() {
                        active.progress.put_back();
                    }
                    if is_foreign {
                        active.heartbeat_refused_on_the_way(had_any_progress);
                    }
                }
            }
        }
    }

    fn heartbeat_answered(&mut self, sent: Instant, answer: &HeartbeatAnswer, with_progress: &HashSet<Uuid>) {
        let Some(id) = answer.assignment_id.uuid() else { return };
        let now = Instant::now();
        let grace = self.worker.stop_grace;
        let Some(active) = self.active.get_mut(&id) else { return };
        match answer.status {
            200..=299 => {
                active.heartbeat_accepted(sent, with_progress.contains(&id));
                let is_cancelled = answer.cancel == Some(true);
                if !matches!(active.phase, Phase::Unconfirmed(_)) {
                    if is_cancelled {
                        active.stop(StopReason::Cancelled, now, grace);
                    }
                } else if is_cancelled || self.leaving.is_some() {
                    self.release(id, EndingCall::default());
                } else {
                    self.start(id);
                }
            }
            404 | 409 | 410 => {
                active.close();
                match active.phase {
                    Phase::Unconfirmed(_) => {
                        self.active.remove(&id);
                    }
                    Phase::Working(_) => {
                        tracing::warn!(item = %active.label, "assignment closed; stopping its handler");
                        active.stop(StopReason::Closed, now, grace);
                    }
                    Phase::Stopping { .. } | Phase::Ended => {}
                }
            }
            _ => active.heartbeat_failed(now),
        }
    }
}
