//! Queue of requests with the same Idempotency-Key: of sixty-four concurrent ones, one does the work and the others
//! read, and only one at a time holds a connection. Claims with the same `claim_id` wait here, too.
//!
//! Between servers the unique key decides; this only keeps the load off the database.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::{Mutex as KeyLock, OwnedMutexGuard};

use crate::store::enqueue::idempotency::KeyName;

type LockMap = HashMap<KeyName, Arc<KeyLock<()>>>;

/// Locks, one for each key in use.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyLocks(Arc<Mutex<LockMap>>);

/// Exclusive right to a key, until it is dropped.
#[derive(Debug)]
pub struct KeyGuard {
    key_locks: KeyLocks,
    name: KeyName,
    guard: Option<OwnedMutexGuard<()>>,
}

impl KeyLocks {
    fn locks(&self) -> MutexGuard<'_, LockMap> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for all earlier requests with this key.
    pub(crate) async fn take(&self, name: &KeyName) -> KeyGuard {
        let lock = Arc::clone(self.locks().entry(name.clone()).or_default());
        // Created before the wait: a request that is dropped while it waits leaves nothing behind.
        let mut guard = KeyGuard { key_locks: self.clone(), name: name.clone(), guard: None };
        guard.guard = Some(lock.lock_owned().await);
        guard
    }
}

impl Drop for KeyGuard {
    fn drop(&mut self) {
        self.guard = None;
        let mut locks = self.key_locks.locks();
        // Every waiting request holds a reference; only the map's is left when none waits.
        if locks.get(&self.name).is_some_and(|lock| Arc::strong_count(lock) == 1) {
            locks.remove(&self.name);
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
    async fn requests_run_one_at_a_time_and_leave_nothing_behind() {
        let key_locks = KeyLocks::default();
        let inside = Arc::new(AtomicUsize::new(0));
        let all = (0..64).map(|n| {
            let (key_locks, inside) = (key_locks.clone(), Arc::clone(&inside));
            tokio::spawn(async move {
                let _guard = key_locks.take(&name("k")).await;
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "{n} is not alone");
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            })
        });
        for one in futures::future::join_all(all).await {
            one.expect("no turn fails");
        }
        assert!(key_locks.locks().is_empty());
    }

    #[tokio::test]
    async fn a_dropped_request_leaves_nothing_behind() {
        let key_locks = KeyLocks::default();
        let first = key_locks.take(&name("k")).await;
        let second = tokio::time::timeout(std::time::Duration::ZERO, key_locks.take(&name("k"))).await;
        assert!(second.is_err());
        let _other = key_locks.take(&name("other")).await;
        drop(first);
        assert_eq!(key_locks.locks().len(), 1);
    }
}
