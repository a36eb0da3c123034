//! Push target: requests in progress and availability.
//!
//! After a number of consecutive failures nothing is claimed for the target during a pause; then a single request
//! probes it, and each failure doubles the pause. So an unavailable target costs its items one failure per minute, and
//! not their budgets. The state is local: each server finds out for itself.

use std::{
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};

use crate::config::outbound::Outbound;

use super::post::Prepared;

/// The longest pause.
const LONGEST: Duration = Duration::from_mins(1);

/// Target with the types that lead to it.
pub(super) struct Target {
    /// Host and port.
    pub(super) name: String,
    types: RwLock<Arc<Vec<Arc<Prepared>>>>,
    permits: Arc<Semaphore>,
    most: usize,
    breaker: Mutex<Breaker>,
}

/// Requests that are allowed now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Allowance {
    Open,
    /// One request, to test if the target responds again.
    Probe,
    Wait(Instant),
}

impl Target {
    pub(super) fn new(name: String, config: &Outbound) -> Self {
        let most = usize::from(config.push_concurrency);
        Self {
            name,
            types: RwLock::default(),
            permits: Arc::new(Semaphore::new(most)),
            most,
            breaker: Mutex::new(Breaker {
                break_after: config.push_break_after.into(),
                first_pause: Duration::from_secs_f64(config.push_break_seconds),
                failures: 0,
                broken: None,
            }),
        }
    }

    /// Replaces the types that lead to this target.
    pub(super) fn set_types(&self, types: Vec<Arc<Prepared>>) {
        *self.types.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(types);
    }

    pub(super) fn types(&self) -> Arc<Vec<Arc<Prepared>>> {
        Arc::clone(&self.types.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Acquires up to `most` slots, if any are free. Only the task of the target takes slots.
    pub(super) fn slots(&self, most: u32) -> Option<OwnedSemaphorePermit> {
        let free = u32::try_from(self.permits.available_permits()).unwrap_or(u32::MAX).min(most);
        (free > 0).then(|| Arc::clone(&self.permits).try_acquire_many_owned(free).ok()).flatten()
    }

    pub(super) fn in_flight(&self) -> usize {
        self.most - self.permits.available_permits().min(self.most)
    }

    pub(super) fn allowance(&self, now: Instant) -> Allowance {
        self.with_breaker(|breaker| breaker.allowance(now))
    }

    pub(super) fn paused_until(&self) -> Option<Instant> {
        self.with_breaker(|breaker| breaker.broken.map(|broken| broken.until))
    }

    /// Records a response, or a failure that concerns the target rather than the item.
    pub(super) fn record(&self, answered: bool) {
        let now = Instant::now();
        let change = self.with_breaker(|breaker| if answered { breaker.answered() } else { breaker.failed(now) });
        match change {
            Some(Change::Broke(pause)) => {
                tracing::warn!(target = self.name, ?pause, "push target unavailable, paused");
            }
            Some(Change::Recovered) => tracing::info!(target = self.name, "push target recovered"),
            None => {}
        }
    }

    fn with_breaker<R>(&self, action: impl FnOnce(&mut Breaker) -> R) -> R {
        action(&mut self.breaker.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Counter of consecutive failures.
#[derive(Debug)]
struct Breaker {
    break_after: u32,
    first_pause: Duration,
    failures: u32,
    broken: Option<Broken>,
}

#[derive(Clone, Copy, Debug)]
struct Broken {
    until: Instant,
    pause: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Change {
    Broke(Duration),
    Recovered,
}

impl Breaker {
    fn allowance(&self, now: Instant) -> Allowance {
        match self.broken {
            None => Allowance::Open,
            Some(broken) if broken.until <= now => Allowance::Probe,
            Some(broken) => Allowance::Wait(broken.until),
        }
    }

    fn answered(&mut self) -> Option<Change> {
        self.failures = 0;
        self.broken.take().map(|_| Change::Recovered)
    }

    fn failed(&mut self, now: Instant) -> Option<Change> {
        self.failures = self.failures.saturating_add(1);
        let pause = match self.broken {
            None if self.failures < self.break_after => return None,
            None => self.first_pause,
            // A request that was in progress when the breaker opened.
            Some(broken) if now < broken.until => return None,
            Some(broken) => (broken.pause * 2).min(LONGEST.max(self.first_pause)),
        };
        let is_new = self.broken.is_none();
        self.broken = Some(Broken { until: now + pause, pause });
        is_new.then_some(Change::Broke(pause))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_target_is_paused_with_backoff_and_then_probed() {
        let second = Duration::from_secs(1);
        let mut breaker = Breaker { break_after: 3, first_pause: second, failures: 0, broken: None };
        let start = Instant::now();
        assert_eq!((breaker.failed(start), breaker.failed(start)), (None, None));
        assert_eq!(breaker.allowance(start), Allowance::Open);
        assert_eq!(breaker.answered(), None, "an answer in between: it counts from the beginning");
        assert_eq!((breaker.failed(start), breaker.failed(start)), (None, None));
        assert_eq!(breaker.failed(start), Some(Change::Broke(second)));
        assert_eq!(breaker.failed(start), None, "it was under way already");
        assert_eq!(breaker.allowance(start), Allowance::Wait(start + second));
        let mut now = start;
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            let Allowance::Wait(until) = breaker.allowance(now) else { panic!("it waits") };
            assert_eq!(until - now, Duration::from_secs(pause));
            now = until;
            assert_eq!(breaker.allowance(now), Allowance::Probe);
            assert_eq!(breaker.failed(now), None);
        }
        assert_eq!(breaker.answered(), Some(Change::Recovered));
        assert_eq!(breaker.allowance(now), Allowance::Open);
    }
}
