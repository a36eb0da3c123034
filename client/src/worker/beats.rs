//! Heartbeats, with progress, and the answers to them.
//!
//! One batch is in flight at a time. Heartbeats that are due at about the same time share a batch; changed progress
//! does not wait for them.

use std::time::Duration;

use domain::api::{HeartbeatAnswer, HeartbeatOf, Heartbeats, HeartbeatsBody, ReleaseBody};
use tokio::time::Instant;

use super::{
    MOST,
    held::{Phase, Why},
    run::{Loop, Reply},
};
use crate::error::Result;

/// Changed progress is sent at most this often.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);
/// Timeout of a batch; shorter if the heartbeat intervals are short.
const ANSWER: Duration = Duration::from_secs(10);

impl Loop {
    pub(super) fn beat(&mut self, now: Instant) {
        if self.beating {
            return;
        }
        let due = self.held.values().any(|held| held.is_due(now));
        let news = self.news_waits && now >= self.news_after;
        if news {
            self.news_waits = false;
            self.news_after = now + PROGRESS_EVERY;
        }
        let mut timeout = ANSWER;
        let mut told = Vec::new();
        for (&id, held) in &self.held {
            if told.len() < MOST && ((due && held.joins_batch(now)) || (news && held.has_news())) {
                timeout = timeout.min(held.interval() / 2);
                told.push(HeartbeatOf { assignment_id: id.into(), progress: held.progress.take() });
            }
        }
        if told.is_empty() {
            return;
        }
        self.beating = true;
        let client = self.worker.client.clone();
        self.calls.spawn(async move {
            let body = HeartbeatsBody { heartbeats: told };
            let sent = Instant::now();
            let answer = client.heartbeats(&body, timeout).await;
            Reply::Beaten { sent, told: body.heartbeats, answer }
        });
    }

    pub(super) fn beaten(&mut self, sent: Instant, told: Vec<HeartbeatOf>, answer: Result<Heartbeats>) {
        self.beating = false;
        match answer {
            Ok(answers) => {
                self.beat_failures = 0;
                answers.heartbeats.iter().for_each(|answer| self.heard(sent, answer));
            }
            Err(error) => {
                self.beat_failures += 1;
                if self.beat_failures == 1 {
                    tracing::warn!(%error, items = told.len(), "heartbeat failed; retrying");
                }
                // Progress that the server refuses must not cost the lease: it is dropped.
                let keeps_progress = error.is_passing();
                let now = Instant::now();
                for told in told {
                    let Some(held) = self.held.get_mut(&told.assignment_id.id) else { continue };
                    held.beat_failed(now);
                    if keeps_progress && told.progress.is_some() {
                        held.progress.put_back();
                    }
                }
            }
        }
    }

    fn heard(&mut self, sent: Instant, answer: &HeartbeatAnswer) {
        let (id, now) = (answer.assignment_id.id, Instant::now());
        let grace = self.worker.stop_grace;
        let Some(held) = self.held.get_mut(&id) else { return };
        match answer.status {
            200..=299 => {
                held.beat_accepted(sent);
                let is_cancelled = answer.cancel == Some(true);
                if !matches!(held.phase, Phase::Unconfirmed(_)) {
                    if is_cancelled {
                        held.stop(Why::Cancelled, now, grace);
                    }
                } else if is_cancelled || self.leaving.is_some() {
                    self.give_back(id, ReleaseBody::default());
                } else {
                    self.start(id);
                }
            }
            404 | 409 | 410 => {
                held.close();
                match held.phase {
                    Phase::Unconfirmed(_) => {
                        self.held.remove(&id);
                    }
                    Phase::Working(_) => {
                        tracing::warn!(item = %held.label, "assignment closed; stopping its handler");
                        held.stop(Why::Closed, now, grace);
                    }
                    Phase::Stopping { .. } | Phase::Ended => {}
                }
            }
            _ => held.beat_failed(now),
        }
    }
}
