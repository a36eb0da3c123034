//! Counts of added and finished items, kept in process after each commit and added to small rows every few seconds. A
//! crash loses the seconds not yet written; nothing depends on these numbers.

use std::{
    collections::BTreeMap,
    sync::{Mutex, PoisonError},
};

use domain::ItemState;

use crate::{
    error::Result,
    store::figures::{self, TallyRow},
    task::in_task,
};

use super::Engine;

/// Counts since the last write, by type.
#[derive(Default)]
pub(super) struct Figures(Mutex<BTreeMap<String, TallyRow>>);

impl Figures {
    fn with(&self, type_name: &str, change: impl FnOnce(&mut TallyRow)) {
        let mut tallies = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tally) = tallies.get_mut(type_name) {
            change(tally);
        } else {
            let mut tally = TallyRow { type_name: type_name.to_owned(), ..TallyRow::default() };
            change(&mut tally);
            tallies.insert(type_name.to_owned(), tally);
        }
    }

    /// Counts added items of a type. Call this after the commit.
    pub(super) fn added(&self, type_name: &str, n: usize) {
        self.with(type_name, |tally| tally.added += n as i64);
    }

    /// Counts items of a type that reached this final state. Call this after the commit.
    pub(super) fn ended(&self, type_name: &str, outcome: ItemState, n: usize) {
        let labels = [("type", type_name.to_owned()), ("outcome", outcome.as_str().to_owned())];
        metrics::counter!("treeline_endings_total", &labels).increment(n as u64);
        let n = n as i64;
        self.with(type_name, |tally| match outcome {
            ItemState::Succeeded => tally.succeeded += n,
            ItemState::Dead => tally.dead += n,
            ItemState::Cancelled => tally.cancelled += n,
            ItemState::Expired => tally.expired += n,
            _ => {}
        });
    }

    fn take(&self) -> Vec<TallyRow> {
        let taken = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        taken.into_values().collect()
    }
}

impl Engine {
    /// Writes the counts. Returns the number of types.
    pub async fn keep_figures(&self) -> Result<usize> {
        let rows = self.0.core.figures.take();
        if !rows.is_empty() {
            figures::add(&self.0.core.pools.read, &rows).await?;
        }
        Ok(rows.len())
    }

    /// Sums up the items of the next job state rows: one bounded step of an endless scan.
    pub async fn walk_figures(&self) -> Result<bool> {
        let core = std::sync::Arc::clone(&self.0.core);
        in_task("adding up", async move {
            let mut tx = core.pools.read.begin().await?;
            let walked = figures::walk(&mut tx).await?;
            crate::store::commit(tx).await?;
            Ok(walked)
        })
        .await
    }

    /// Deletes counts that are too old for every rate.
    pub async fn forget_figures(&self) -> Result<u64> {
        Ok(figures::forget(&self.0.core.pools.read).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_is_counted_once() {
        let figures = Figures::default();
        figures.added("a", 5);
        figures.ended("a", ItemState::Succeeded, 3);
        figures.ended("a", ItemState::Dead, 1);
        figures.ended("b", ItemState::Expired, 1);
        let rows = figures.take();
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].added, rows[0].succeeded, rows[0].dead, rows[1].expired), (5, 3, 1, 1));
        assert!(figures.take().is_empty());
    }
}
