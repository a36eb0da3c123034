//! What is played when: several faults side by side, as most of their time is spent waiting for leases and restarts.
//! Each lane has a PostgreSQL of its own, which its faults may kill. What is judged by the clock is played alone, before.
//!
//! A fault is played once more, alone, and its row says so, in three cases: it was only too slow; its stage could not be set; or
//! leases ran out or items were not final in time while the machine stood still (`machine`). Any other finding is final.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::Error;
use tokio::task::JoinSet;

use crate::{
    faults::{self, Fault},
    report::Row,
    stage::House,
};

/// A fault and its place in the list.
type Numbered = (usize, Fault);

/// Plays all of them, a lane in each house; their rows in order. Shorter than the list where one could not be judged.
pub(crate) async fn play(chosen: Vec<Fault>, houses: Vec<House>) -> Vec<Row> {
    let houses: Vec<Arc<House>> = houses.into_iter().map(Arc::new).collect();
    let (alone, beside): (Vec<Numbered>, Vec<Numbered>) =
        chosen.into_iter().enumerate().partition(|(_, fault)| fault.is_alone());
    let mut rows = BTreeMap::new();
    let all: BTreeMap<usize, Fault> = alone.iter().chain(&beside).copied().collect();
    let first = Arc::clone(&houses[0]);
    for (at, fault) in alone {
        rows.extend(one(&first, fault).await.map(|row| (at, row)));
    }
    if beside.iter().any(|(_, fault)| fault.has_broker()) {
        faults::start_broker().await;
    }
    let queue = Arc::new(Mutex::new(VecDeque::from(beside)));
    let mut lanes = JoinSet::new();
    for house in houses {
        lanes.spawn(lane(house, Arc::clone(&queue)));
    }
    for of_lane in lanes.join_all().await {
        rows.extend(of_lane);
    }
    for (&at, &fault) in &all {
        if let Entry::Vacant(missing) = rows.entry(at)
            && let Some(mut second) = one(&first, fault).await
        {
            second.done = format!("second play, alone (the first could not be judged): {}", second.done);
            missing.insert(second);
        }
    }
    for (at, row) in &mut rows {
        if row.verdict.is_only_slow() {
            again(&first, all[at], row).await;
        }
    }
    rows.into_values().collect()
}

/// One fault after the other, until there is none left.
async fn lane(house: Arc<House>, queue: Arc<Mutex<VecDeque<Numbered>>>) -> Vec<(usize, Row)> {
    let mut rows = Vec::new();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some((at, fault)) = next else { return rows };
        rows.extend(one(&house, fault).await.map(|row| (at, row)));
    }
}

/// Plays a fault that was only too slow once more, and puts that play into its row. Where it cannot be judged the first stays.
async fn again(house: &Arc<House>, fault: Fault, row: &mut Row) {
    let slow: Vec<String> = row.verdict.findings().flat_map(|(.., examples)| examples.to_vec()).collect();
    if let Some(mut second) = one(house, fault).await {
        second.done = format!("second play, alone (the first was only too slow: {}): {}", slow.join("; "), second.done);
        second.seconds += row.seconds;
        *row = second;
    }
}

/// One fault, said as it went. A task of its own: what panics ends its fault and no other.
async fn one(house: &Arc<House>, fault: Fault) -> Option<Row> {
    let begun = Instant::now();
    let stage = Arc::clone(house);
    let played = tokio::spawn(async move { faults::play(&stage, fault).await }).await;
    match played.map_err(Error::from).and_then(|row| row) {
        Ok(row) => {
            println!("{}", row.line());
            let standstill = house.machine.longest_since(begun).filter(|_| row.verdict.is_about_time());
            if let Some(length) = standstill {
                println!(
                    "     {}  could not be judged: the machine stood still for {:.1} s",
                    fault.id,
                    length.as_secs_f64()
                );
                return None;
            }
            Some(row)
        }
        Err(error) => {
            println!("FAIL {}  could not be judged: {error:#}", fault.id);
            None
        }
    }
}
