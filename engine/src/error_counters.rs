//! Failures by error group, kept in process after each commit and added to small rows every few seconds. A crash loses
//! the seconds not yet written, a failed write nothing; only the charts of groups depend on these numbers.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use scopeguard::{ScopeGuard, guard};
use sqlx::PgPool;

use crate::{error::Result, store::query::error_history};

use super::Engine;

/// Maximum number of groups between two writes. Further groups are not drawn until the next write.
const GROUPS: usize = 10_000;

/// Dead items that a transaction counted into one group: type, fingerprint and number.
pub(crate) type GroupCount = (i32, String, i64);

/// Failures since the last write, by type and fingerprint.
#[derive(Default)]
pub(crate) struct ErrorCounters(Mutex<BTreeMap<(i32, String), i64>>);

impl ErrorCounters {
    /// Adds dead items to their groups. Call this after the commit.
    pub(crate) fn add(&self, counts: &[GroupCount]) {
        if counts.is_empty() {
            return;
        }
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (type_id, fingerprint, n) in counts {
            let key = (*type_id, fingerprint.clone());
            if groups.len() < GROUPS || groups.contains_key(&key) {
                *groups.entry(key).or_default() += n;
            }
        }
    }

    fn take(&self) -> BTreeMap<(i32, String), i64> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Adds what was taken and could not be written.
    fn put_back(&self, taken: BTreeMap<(i32, String), i64>) {
        let counts: Vec<GroupCount> = taken.into_iter().map(|((type_id, print), n)| (type_id, print, n)).collect();
        self.add(&counts);
    }

    /// Writes all failures. If they cannot be written, they stay, also if this future is dropped. Those whose commit gets no
    /// answer are added twice.
    async fn write(&self, pool: &PgPool) -> Result<()> {
        let rows = guard(self.take(), |rows| self.put_back(rows));
        if !rows.is_empty() {
            error_history::add(pool, &rows).await?;
        }
        drop(ScopeGuard::into_inner(rows));
        Ok(())
    }
}

impl Engine {
    /// Writes the failures of all groups since the last write.
    pub async fn write_error_counters(&self) -> Result<()> {
        self.0.core.error_counters.write(&self.0.core.pools.read).await
    }

    /// Deletes failures by minute and hour that are too old for every chart.
    pub async fn delete_old_error_history(&self) -> Result<u64> {
        Ok(error_history::forget(&self.0.core.pools.read).await?)
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn failures_are_taken_once() {
        let counters = ErrorCounters::default();
        counters.add(&[(1, "a".to_owned(), 2), (2, "a".to_owned(), 3)]);
        counters.add(&[(1, "a".to_owned(), 5)]);
        let taken: Vec<_> = counters.take().into_iter().collect();
        assert_eq!(taken, [((1, "a".to_owned()), 7), ((2, "a".to_owned()), 3)]);
        assert!(counters.take().is_empty());
    }

    #[tokio::test]
    async fn failures_stay_if_their_write_is_dropped() {
        let pool = PgPool::connect_lazy("postgres://nobody@127.0.0.1:1/nothing").expect("a pool");
        let counters = ErrorCounters::default();
        counters.add(&[(1, "a".to_owned(), 2)]);
        assert!(counters.write(&pool).now_or_never().is_none(), "it waits for the database");
        assert_eq!(counters.take()[&(1, "a".to_owned())], 2);
    }

    #[test]
    fn the_number_of_groups_in_memory_is_limited() {
        let counters = ErrorCounters::default();
        let many: Vec<GroupCount> = (0..GROUPS + 5).map(|n| (1, format!("{n:06}"), 1)).collect();
        counters.add(&many);
        counters.add(&[(1, "000000".to_owned(), 1)]);
        let taken = counters.take();
        assert_eq!((taken.len(), taken[&(1, "000000".to_owned())]), (GROUPS, 2));
    }
}
