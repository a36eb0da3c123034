//! Low-water marks: positions from which claims of a type start to scan.
//!
//! Rows that claims deleted stay in the index until vacuum, and an open snapshot anywhere keeps them for minutes. A
//! mark skips them. It is a hint, never the truth: an add that read the current fair turn a moment ago can commit below
//! it. So every claim that is not filled, and one every 250 ms, scans from the very bottom.

use std::{
    collections::HashMap,
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::{
    error::Result,
    store::{
        Tx,
        items::{self, ReadyRow},
        leases::Mark,
    },
};

use super::Core;

const FROM_THE_BOTTOM_EVERY: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(super) struct Marks(Mutex<HashMap<i32, Entry>>);

struct Entry {
    mark: Mark,
    bottom_scan: Instant,
}

impl Marks {
    fn with<R>(&self, type_id: i32, change: impl FnOnce(&mut Entry) -> R) -> R {
        let mut marks = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(marks.entry(type_id).or_insert_with(|| Entry { mark: Mark::BOTTOM, bottom_scan: Instant::now() }))
    }

    /// Position from which a claim starts now.
    pub(super) fn start(&self, type_id: i32) -> Mark {
        self.with(type_id, |entry| {
            if entry.bottom_scan.elapsed() >= FROM_THE_BOTTOM_EVERY {
                entry.bottom_scan = Instant::now();
                Mark::BOTTOM
            } else {
                entry.mark
            }
        })
    }

    /// Records the first row that a claim found: all rows before it are gone or locked.
    pub(super) fn found(&self, type_id: i32, first: Mark) {
        self.with(type_id, |entry| entry.mark = first);
    }

    /// Records that rows were committed at this position.
    pub(super) fn added(&self, type_id: i32, lowest: Mark) {
        self.with(type_id, |entry| entry.mark = entry.mark.min(lowest));
    }

    /// Fair turn from which to search for the current one at a rank.
    pub(super) fn turn(&self, type_id: i32, rank: i16) -> i64 {
        self.with(type_id, |entry| if entry.mark.rank == rank { entry.mark.turn } else { i64::MIN })
    }
}

/// Makes items claimable at the lowest waiting fair turn, because they have waited before.
pub(super) async fn make_ready_now(core: &Core, tx: &mut Tx, mut ready: Vec<ReadyRow>) -> Result<Vec<(i32, Mark)>> {
    let mut turns: HashMap<(i32, i16), i64> = HashMap::new();
    for row in &mut ready {
        let key = (row.type_id, row.rank);
        row.turn = if let Some(&turn) = turns.get(&key) {
            turn
        } else {
            let from = core.marks.turn(row.type_id, row.rank);
            let turn = items::current_turn(tx, row.type_id, row.rank, from).await?.unwrap_or(from.max(0));
            turns.insert(key, turn);
            turn
        };
    }
    core.make_ready(tx, &ready).await?;
    Ok(ready.into_iter().map(|row| (row.type_id, Mark { rank: row.rank, turn: row.turn })).collect())
}
