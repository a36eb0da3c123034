//! Turns for work that takes long: one at a time for each holder, such as an owner, in order of arrival, so that none blocks
//! all others.

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock, Mutex, PoisonError},
};

use tokio::sync::OwnedMutexGuard;
use uuid::Uuid;

type HolderLocks = HashMap<Uuid, Arc<tokio::sync::Mutex<()>>>;

/// Turns of one kind of work. Each ends when its guard is dropped.
#[derive(Debug)]
pub struct Turns(LazyLock<Mutex<HolderLocks>>);

/// Turn of a holder.
pub type Turn = OwnedMutexGuard<()>;

impl Turns {
    #[expect(clippy::new_without_default, reason = "only statics have turns")]
    pub const fn new() -> Self {
        Self(LazyLock::new(Mutex::default))
    }

    /// Waits for a turn of this holder.
    pub async fn take(&self, holder: Uuid) -> Turn {
        let lock = {
            let mut locks = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            locks.retain(|_, lock| Arc::strong_count(lock) > 1);
            Arc::clone(locks.entry(holder).or_default())
        };
        lock.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn each_holder_has_one_turn_at_a_time() {
        static TURNS: Turns = Turns::new();
        let (ada, ben) = (Uuid::from_u128(1), Uuid::from_u128(2));
        let first = TURNS.take(ada).await;
        let second = TURNS.take(ben).await;
        assert!(TURNS.take(ada).now_or_never().is_none());
        drop(first);
        TURNS.take(ada).await;
        drop(second);
    }
}
