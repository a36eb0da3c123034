//! Claims that wait: woken when an item of their type may be had, in the order in which they came.
//!
//! A wake-up is a hint: it may be lost, doubled or wrong. A waiter that is woken claims like any other,
//! and a duty looks every two seconds whether there is something that nobody was woken for. The
//! database does no work for those who wait.

use std::{collections::VecDeque, sync::Mutex};

use tokio::sync::oneshot;

#[derive(Default)]
pub(super) struct Waiters(Mutex<VecDeque<Waiter>>);

struct Waiter {
    types: Vec<i32>,
    wake: oneshot::Sender<()>,
}

impl Waiters {
    /// Stands in line. Do this before looking, so that nothing is missed in between.
    pub(super) fn wait(&self, types: &[i32]) -> oneshot::Receiver<()> {
        let (wake, woken) = oneshot::channel();
        let mut line = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        line.retain(|waiter| !waiter.wake.is_closed());
        line.push_back(Waiter { types: types.to_vec(), wake });
        woken
    }

    /// `n` items of a type may be had: wakes as many waiters.
    pub(super) fn wake(&self, type_id: i32, n: usize) {
        let mut line = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut woken = 0;
        let mut at = 0;
        while woken < n && at < line.len() {
            if line[at].types.contains(&type_id) {
                if let Some(waiter) = line.remove(at)
                    && waiter.wake.send(()).is_ok()
                {
                    woken += 1;
                }
            } else {
                at += 1;
            }
        }
    }

    /// The types that somebody waits for.
    pub(super) fn types(&self) -> Vec<i32> {
        let mut line = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        line.retain(|waiter| !waiter.wake.is_closed());
        let mut types: Vec<i32> = line.iter().flat_map(|waiter| waiter.types.iter().copied()).collect();
        types.sort_unstable();
        types.dedup();
        types
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_wake_as_there_is_work_and_in_order() {
        let line = Waiters::default();
        let mut first = line.wait(&[1]);
        let mut other = line.wait(&[2]);
        let mut second = line.wait(&[1, 2]);
        line.wake(1, 1);
        assert!(first.try_recv().is_ok());
        assert!(second.try_recv().is_err());
        line.wake(1, 5);
        assert!(second.try_recv().is_ok());
        assert!(other.try_recv().is_err());
        assert_eq!(line.types(), [2]);
    }

    #[test]
    fn one_who_left_takes_no_wake_up() {
        let line = Waiters::default();
        drop(line.wait(&[1]));
        let mut here = line.wait(&[1]);
        line.wake(1, 1);
        assert!(here.try_recv().is_ok());
    }
}
