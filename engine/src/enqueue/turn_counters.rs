//! Last fair turns of trees and groups that no row stores: of items that become available again or later than they came,
//! and of items with a priority other than 0.
//!
//! Each server counts for itself, so that no statement has to. A group therefore gets at most ten items a turn of each
//! server, and after a restart it starts again at the lowest turn that waits. Either delays the others by tens of items,
//! never by the whole queue of the group.

use std::{collections::HashMap, sync::Mutex};

use uuid::Uuid;

use super::add::rows::ITEMS_PER_FAIR_TURN;

/// Number of groups of a rank up to which none are forgotten.
const ROOM: usize = 1_000;

/// Type and negated priority, among whose items turns count.
type Rank = (i32, i16);

/// Last fair turns by rank and group, counted in items.
#[derive(Default)]
pub(crate) struct TurnCounters(Mutex<HashMap<Rank, Groups>>);

#[derive(Default)]
struct Groups {
    last: HashMap<Uuid, i64>,
    /// Number of groups at which those whose turns are over are forgotten.
    full_at: usize,
}

impl TurnCounters {
    /// Takes the next fair turn of a group, which is not below the lowest one that waits.
    pub(crate) fn take(&self, rank: Rank, group: Uuid, lowest: i64) -> i64 {
        let mut ranks = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let groups = ranks.entry(rank).or_default();
        if groups.last.len() >= groups.full_at.max(ROOM) {
            groups.last.retain(|_, last| *last / ITEMS_PER_FAIR_TURN > lowest);
            groups.full_at = 2 * groups.last.len();
        }
        let last = groups.last.entry(group).or_insert(0);
        let turn = (*last).max(lowest * ITEMS_PER_FAIR_TURN);
        *last = turn + 1;
        turn / ITEMS_PER_FAIR_TURN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_items_of_a_group_share_a_turn() {
        let counters = TurnCounters::default();
        let take = |group: u128, lowest: i64| counters.take((1, 0), Uuid::from_u128(group), lowest);
        let turns: Vec<i64> = (0..25).map(|_| take(1, 100)).collect();
        assert_eq!((turns[0], turns[9], turns[10], turns[24]), (100, 100, 101, 102));
        assert_eq!((take(2, 100), take(1, 200), take(1, 100)), (100, 200, 200));
        assert_eq!(counters.take((1, -5), Uuid::from_u128(1), 100), 100, "another priority");
    }

    #[test]
    fn groups_whose_turns_are_over_are_forgotten() {
        let counters = TurnCounters::default();
        let large = Uuid::from_u128(u128::MAX);
        for _ in 0..25 {
            counters.take((1, 0), large, 0);
        }
        for group in 0..100_000 {
            counters.take((1, 0), Uuid::from_u128(group), 0);
        }
        assert!(counters.0.lock().expect("no panic")[&(1, 0)].last.len() <= ROOM);
        assert_eq!(counters.take((1, 0), large, 0), 2, "one that is ahead goes on");
    }
}
