//! Waiting claims, woken in order of arrival when an item of their type may be claimable.
//!
//! A wake-up is a hint: it may be lost, duplicated or wrong. A woken waiter claims like any other, and a background
//! task checks every two seconds for claimable items that woke no one. Waiting costs the database nothing.

use std::{collections::VecDeque, sync::Mutex};

use tokio::sync::oneshot;

#[derive(Default)]
pub(crate) struct Waiters(Mutex<VecDeque<Waiter>>);

struct Waiter {
    types: Vec<i32>,
    wake: oneshot::Sender<()>,
}

impl Waiters {
    /// Registers a waiter. Call this before querying, so that no wake-up is lost.
    pub(crate) fn wait(&self, types: &[i32]) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let mut queue = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        queue.retain(|waiter| !waiter.wake.is_closed());
        queue.push_back(Waiter { types: types.to_vec(), wake });
        woken
    }

    /// Wakes up to `n` waiters of a type because `n` items may be claimable.
    pub(crate) fn wake(&self, type_id: i32, n: usize) {
        let mut queue = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut woken = 0;
        let mut at = 0;
        while woken < n && at < queue.len() {
            if queue[at].types.contains(&type_id) {
                if let Some(waiter) = queue.remove(at)
                    && waiter.wake.send(()).is_ok()
                {
                    woken += 1;
                }
            } else {
                at += 1;
            }
        }
    }

    /// Types that claims are waiting for.
    pub(crate) fn types(&self) -> Vec<i32> {
        let mut queue = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        queue.retain(|waiter| !waiter.wake.is_closed());
        let mut types: Vec<i32> = queue.iter().flat_map(|waiter| waiter.types.iter().copied()).collect();
        types.sort_unstable();
        types.dedup();
        types
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wakes_one_waiter_per_item_in_order() {
        let queue = Waiters::default();
        let mut first = queue.wait(&[1]);
        let mut other = queue.wait(&[2]);
        let mut second = queue.wait(&[1, 2]);
        queue.wake(1, 1);
        assert!(first.try_recv().is_ok());
        assert!(second.try_recv().is_err());
        queue.wake(1, 5);
        assert!(second.try_recv().is_ok());
        assert!(other.try_recv().is_err());
        assert_eq!(queue.types(), [2]);
    }

    #[test]
    fn a_dropped_waiter_takes_no_wake_up() {
        let queue = Waiters::default();
        drop(queue.wait(&[1]));
        let mut here = queue.wait(&[1]);
        queue.wake(1, 1);
        assert!(here.try_recv().is_ok());
    }
}
