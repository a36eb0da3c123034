//! Schedule of the faults. Several run in parallel, because they mostly wait for leases and restarts. Each queue has its
//! own PostgreSQL, which its faults may kill. Faults that measure time run alone, first.
//!
//! A fault runs once more, alone, and its row says so, in three cases: it was only too slow; its fixture could not be
//! started; or leases expired or items were not final in time while the machine stood still (`machine`). Any other
//! finding is final.

use std::{
    collections::{BTreeMap, VecDeque, btree_map::Entry},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::Error;
use tokio::task::JoinSet;

use crate::{
    faults::{self, Fault},
    fixture::RunContext,
    report::Row,
};

/// A fault and its place in the list.
type Numbered = (usize, Fault);

/// Runs all faults, with one queue per context. Returns the rows in order; a fault that could not be checked has none.
pub(crate) async fn run(chosen: Vec<Fault>, contexts: Vec<RunContext>) -> Vec<Row> {
    let contexts: Vec<Arc<RunContext>> = contexts.into_iter().map(Arc::new).collect();
    let (alone, side_by_side): (Vec<Numbered>, Vec<Numbered>) =
        chosen.into_iter().enumerate().partition(|(_, fault)| fault.is_alone());
    let mut rows = BTreeMap::new();
    let all: BTreeMap<usize, Fault> = alone.iter().chain(&side_by_side).copied().collect();
    let first = Arc::clone(&contexts[0]);
    for (at, fault) in alone {
        rows.extend(run_one(&first, fault).await.map(|row| (at, row)));
    }
    if side_by_side.iter().any(|(_, fault)| fault.has_broker()) {
        faults::start_broker().await;
    }
    let queue = Arc::new(Mutex::new(VecDeque::from(side_by_side)));
    let mut queues = JoinSet::new();
    for context in contexts {
        queues.spawn(run_queue(context, Arc::clone(&queue)));
    }
    for of_lane in queues.join_all().await {
        rows.extend(of_lane);
    }
    for (&at, &fault) in &all {
        if let Entry::Vacant(missing) = rows.entry(at)
            && let Some(mut second) = run_one(&first, fault).await
        {
            second.done = format!("second run, alone (the first was inconclusive): {}", second.done);
            missing.insert(second);
        }
    }
    for (at, row) in &mut rows {
        if row.verdict.is_only_slow() {
            run_again(&first, all[at], row).await;
        }
    }
    rows.into_values().collect()
}

/// Runs one fault after the other, until none is left.
async fn run_queue(context: Arc<RunContext>, queue: Arc<Mutex<VecDeque<Numbered>>>) -> Vec<(usize, Row)> {
    let mut rows = Vec::new();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some((at, fault)) = next else { return rows };
        rows.extend(run_one(&context, fault).await.map(|row| (at, row)));
    }
}

/// Runs a fault that was too slow once more, and replaces its row. If the second run cannot be checked, the row stays.
async fn run_again(context: &Arc<RunContext>, fault: Fault, row: &mut Row) {
    let slow: Vec<String> = row.verdict.findings().flat_map(|(.., examples)| examples.to_vec()).collect();
    if let Some(mut second) = run_one(context, fault).await {
        second.done = format!("second run, alone (the first was only too slow: {}): {}", slow.join("; "), second.done);
        second.seconds += row.seconds;
        *row = second;
    }
}

/// Runs one fault and prints its row. It runs in a task of its own, so that a panic ends only this fault.
async fn run_one(context: &Arc<RunContext>, fault: Fault) -> Option<Row> {
    let begun = Instant::now();
    let shared = Arc::clone(context);
    let outcome = tokio::spawn(async move { faults::run(&shared, fault).await }).await;
    match outcome.map_err(Error::from).and_then(|row| row) {
        Ok(row) => {
            println!("{}", row.line());
            let standstill = context.machine.longest_since(begun).filter(|_| row.verdict.is_about_time());
            if let Some(length) = standstill {
                println!("     {}  inconclusive: the machine stood still for {:.1} s", fault.id, length.as_secs_f64());
                return None;
            }
            Some(row)
        }
        Err(error) => {
            println!("FAIL {}  inconclusive: {error:#}", fault.id);
            None
        }
    }
}
