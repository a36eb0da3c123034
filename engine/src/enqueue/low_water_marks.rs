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
    Core,
    error::Result,
    store::{
        Tx,
        dispatch::leases::ClaimCursor,
        enqueue::items::{self, ReadyRow},
    },
};

const FROM_THE_BOTTOM_EVERY: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(crate) struct LowWaterMarks(Mutex<HashMap<i32, Entry>>);

struct Entry {
    mark: ClaimCursor,
    bottom_scan: Instant,
    /// The same for what is looked at without a claim.
    bottom_look: Instant,
}

impl LowWaterMarks {
    fn with<R>(&self, type_id: i32, change: impl FnOnce(&mut Entry) -> R) -> R {
        let mut low_water_marks = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        change(low_water_marks.entry(type_id).or_insert_with(|| Entry {
            mark: ClaimCursor::BOTTOM,
            bottom_scan: Instant::now(),
            bottom_look: Instant::now(),
        }))
    }

    /// Position from which a claim starts now.
    pub(crate) fn start(&self, type_id: i32) -> ClaimCursor {
        self.with(type_id, |entry| from_the_bottom(&mut entry.bottom_scan).unwrap_or(entry.mark))
    }

    /// Position from which to look for the first waiting item now, without a claim. Pass what is found to [`Self::added`]:
    /// the claim that follows starts there.
    pub(crate) fn look(&self, type_id: i32) -> ClaimCursor {
        self.with(type_id, |entry| from_the_bottom(&mut entry.bottom_look).unwrap_or(entry.mark))
    }

    /// Records the first row that a claim found: all rows before it are gone or locked.
    pub(crate) fn found(&self, type_id: i32, first: ClaimCursor) {
        self.with(type_id, |entry| entry.mark = first);
    }

    /// Records that rows were committed at this position.
    pub(crate) fn added(&self, type_id: i32, lowest: ClaimCursor) {
        self.with(type_id, |entry| entry.mark = entry.mark.min(lowest));
    }

    /// Fair turn from which to search for the current one at a rank.
    pub(crate) fn fair_turn(&self, type_id: i32, negated_priority: i16) -> i64 {
        self.with(type_id, |entry| {
            if entry.mark.negated_priority == negated_priority { entry.mark.fair_turn } else { i64::MIN }
        })
    }
}

/// The bottom, if the last scan from there is too long ago.
fn from_the_bottom(last: &mut Instant) -> Option<ClaimCursor> {
    (last.elapsed() >= FROM_THE_BOTTOM_EVERY).then(|| {
        *last = Instant::now();
        ClaimCursor::BOTTOM
    })
}

impl Core {
    /// Lowest waiting fair turn at a rank of a type, with the items that a limit of a key parks; if nothing waits, a turn
    /// after all that were served. New items start there.
    pub(crate) async fn lowest_waiting_turn(&self, tx: &mut Tx, type_id: i32, negated_priority: i16) -> Result<i64> {
        let from = self.low_water_marks.fair_turn(type_id, negated_priority);
        Ok(items::current_fair_turn(tx, type_id, negated_priority, from).await?)
    }
}

/// Makes items claimable that were in another state before, in turns of their own
/// ([`Core::assign_returning_turns`]).
pub(crate) async fn make_ready_now(
    core: &Core,
    tx: &mut Tx,
    mut ready: Vec<ReadyRow>,
) -> Result<Vec<(i32, ClaimCursor)>> {
    core.assign_returning_turns(tx, &mut ready).await?;
    core.make_ready(tx, &ready).await?;
    Ok(ready
        .into_iter()
        .map(|row| (row.type_id, ClaimCursor { negated_priority: row.negated_priority, fair_turn: row.fair_turn }))
        .collect())
}
