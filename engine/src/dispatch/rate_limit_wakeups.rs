//! Waiting claims of rate-limited types, woken when the limit allows more.
//!
//! A hint like every wake-up: a woken claim asks the database, and a background task finds what no one woke.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::Core;

/// Shortest pause: many short ones would make small batches.
const SHORTEST: Duration = Duration::from_millis(10);

/// Longest pause; the next claim after it asks again.
const LONGEST: Duration = Duration::from_mins(1);

/// Next wake-up of each type.
#[derive(Default)]
pub(crate) struct RateLimitWakeups(Mutex<HashMap<i32, Instant>>);

impl RateLimitWakeups {
    /// Records a wake-up. Returns false if there is an earlier one.
    fn begin(&self, type_id: i32, at: Instant) -> bool {
        let mut wakes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wakes.get(&type_id).is_some_and(|earlier| *earlier <= at) {
            return false;
        }
        wakes.insert(type_id, at);
        true
    }

    /// Removes a wake-up that has come.
    fn end(&self, type_id: i32, at: Instant) {
        let mut wakes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if wakes.get(&type_id) == Some(&at) {
            wakes.remove(&type_id);
        }
    }
}

impl Core {
    /// Wakes a claim of each type after so many seconds, as long as claims wait.
    pub(crate) fn wake_later(self: &Arc<Self>, wake_after: &[(i32, f64)]) {
        for &(type_id, seconds) in wake_after {
            let pause = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(LONGEST).clamp(SHORTEST, LONGEST);
            let at = Instant::now() + pause;
            if !self.rate_limit_wakeups.begin(type_id, at) {
                continue;
            }
            let core = Arc::clone(self);
            tokio::spawn(async move {
                let slept = core.shutdown.run_until_cancelled(tokio::time::sleep_until(at)).await;
                core.rate_limit_wakeups.end(type_id, at);
                if slept.is_some() {
                    core.waiters.wake(type_id, 1);
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_wake_up_of_a_type_counts() {
        let wakes = RateLimitWakeups::default();
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        assert!(wakes.begin(1, later));
        assert!(!wakes.begin(1, later + Duration::from_secs(1)));
        assert!(wakes.begin(1, now));
        wakes.end(1, later);
        assert!(!wakes.begin(1, now), "the earlier one is still there");
        wakes.end(1, now);
        assert!(wakes.begin(1, later));
    }
}
