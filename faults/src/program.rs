//! What is played when: several faults side by side, as most of their time is spent waiting for leases and restarts.
//! Each lane has a PostgreSQL of its own, which its faults may kill. What is judged by the clock is played alone, before.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
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
    for (at, fault) in alone {
        rows.extend(one(&houses[0], fault).await.map(|row| (at, row)));
    }
    let queue = Arc::new(Mutex::new(VecDeque::from(beside)));
    let mut lanes = JoinSet::new();
    for house in houses {
        lanes.spawn(lane(house, Arc::clone(&queue)));
    }
    for of_lane in lanes.join_all().await {
        rows.extend(of_lane);
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

/// One fault, said as it went. A task of its own: what panics ends its fault and no other.
async fn one(house: &Arc<House>, fault: Fault) -> Option<Row> {
    let house = Arc::clone(house);
    let played = tokio::spawn(async move { faults::play(&house, fault).await }).await;
    match played.map_err(Error::from).and_then(|row| row) {
        Ok(row) => {
            println!("{}", row.line());
            Some(row)
        }
        Err(error) => {
            println!("FAIL {}  could not be judged: {error:#}", fault.id);
            None
        }
    }
}
