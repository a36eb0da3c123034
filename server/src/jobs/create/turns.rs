//! Requests with one Idempotency-Key take turns: sixty-four of them at once make one of them work and
//! the others read, and only one at a time holds a connection.
//!
//! Between servers the unique key decides; this only spares the database the crowd.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

use crate::store::idempotency::KeyName;

type Gates = HashMap<KeyName, Arc<Gate<()>>>;

/// Whose turn it is, key by key.
#[derive(Default)]
pub(in crate::jobs) struct Turns(Mutex<Gates>);

/// A turn, until it is dropped.
pub struct Turn<'a> {
    turns: &'a Turns,
    name: KeyName,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for everybody who came earlier with this key.
    pub(in crate::jobs) async fn take(&self, name: &KeyName) -> Turn<'_> {
        let gate = Arc::clone(self.gates().entry(name.clone()).or_default());
        // Made before the wait: a request that is dropped while it waits leaves nothing behind.
        let mut turn = Turn { turns: self, name: name.clone(), held: None };
        turn.held = Some(gate.lock_owned().await);
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut gates = self.turns.gates();
        // Everybody who waits holds the gate; only the map does when nobody is left.
        if gates.get(&self.name).is_some_and(|gate| Arc::strong_count(gate) == 1) {
            gates.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use uuid::Uuid;

    use super::*;

    fn name(key: &str) -> KeyName {
        KeyName { owner_id: Uuid::nil(), scope: String::new(), key: key.to_owned() }
    }

    #[tokio::test]
    async fn one_at_a_time_and_nothing_stays_behind() {
        let turns = Arc::new(Turns::default());
        let inside = Arc::new(AtomicUsize::new(0));
        let all = (0..64).map(|n| {
            let (turns, inside) = (Arc::clone(&turns), Arc::clone(&inside));
            tokio::spawn(async move {
                let _turn = turns.take(&name("k")).await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{n} is not alone");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for one in futures::future::join_all(all).await {
            one.expect("no turn fails");
        }
        assert!(turns.gates().is_empty());
    }

    #[tokio::test]
    async fn one_that_gives_up_waiting_is_forgotten() {
        let turns = Turns::default();
        let first = turns.take(&name("k")).await;
        let second = tokio::time::timeout(std::time::Duration::ZERO, turns.take(&name("k"))).await;
        assert!(second.is_err());
        let _other = turns.take(&name("other")).await;
        drop(first);
        assert_eq!(turns.gates().len(), 1);
    }
}
