//! Queue of requests with the same Idempotency-Key: of sixty-four concurrent ones, one does the work and the others
//! read, and only one at a time holds a connection.
//!
//! Between servers the unique key decides; this only keeps the load off the database.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as Gate, OwnedMutexGuard};

use crate::store::idempotency::KeyName;

type Gates = HashMap<KeyName, Arc<Gate<()>>>;

/// Locks, one for each key in use.
#[derive(Default)]
pub(in crate::jobs) struct Turns(Mutex<Gates>);

/// Exclusive right to a key, until it is dropped.
pub struct Turn<'a> {
    turns: &'a Turns,
    name: KeyName,
    held: Option<OwnedMutexGuard<()>>,
}

impl Turns {
    fn gates(&self) -> MutexGuard<'_, Gates> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all earlier requests with this key.
    pub(in crate::jobs) async fn take(&self, name: &KeyName) -> Turn<'_> {
        let gate = Arc::clone(self.gates().entry(name.clone()).or_default());
        // Created before the wait: a request that is dropped while it waits leaves nothing behind.
        let mut turn = Turn { turns: self, name: name.clone(), held: None };
        turn.held = Some(gate.lock_owned().await);
        turn
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.held = None;
        let mut gates = self.turns.gates();
        // Every waiting request holds a reference; only the map's is left when none waits.
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
