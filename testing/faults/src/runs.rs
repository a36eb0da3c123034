//! Runs of the faults: their order, and which run again. Several run in parallel, because they mostly wait for leases
//! and restarts. Each queue has its own PostgreSQL, which its faults may kill. Faults that measure time run alone, first.
//!
//! A fault runs once more, alone, and its row says so, in three cases: it was only too slow; its error says nothing about
//! the promises (`inconclusive`); or all its findings are about time and the machine stood still (`machine`). Any other
//! finding is final, and so is any other error of a scenario.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anyhow::{Error, Result};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::task::JoinSet;

use crate::{
    faults::{self, Fault},
    fixture::RunContext,
    inconclusive::is_inconclusive,
    machine::Machine,
    report::Row,
};

/// A fault and its place in the list.
type Numbered = (usize, Fault);

/// Row of a fault, or the reason why it could not be checked.
type Checked = Result<Row, String>;

/// Environment in which faults run, one after the other.
pub(crate) trait Context: Send + Sync + 'static {
    fn machine(&self) -> &Machine;

    /// Runs one fault. An error means that the scenario did not come to its end.
    fn run(&self, fault: Fault) -> BoxFuture<'_, Result<Row>>;
}

impl Context for RunContext {
    fn machine(&self) -> &Machine {
        &self.machine
    }

    fn run(&self, fault: Fault) -> BoxFuture<'_, Result<Row>> {
        faults::run(self, fault).boxed()
    }
}

/// Runs all faults, with one queue per context. Returns the rows in order; a fault that could not be checked has none.
pub(crate) async fn run<C: Context>(chosen: Vec<Fault>, contexts: Vec<C>) -> Vec<Row> {
    let contexts: Vec<Arc<C>> = contexts.into_iter().map(Arc::new).collect();
    let (alone, side_by_side): (Vec<Numbered>, Vec<Numbered>) =
        chosen.into_iter().enumerate().partition(|(_, fault)| fault.is_alone());
    let mut rows = BTreeMap::new();
    let all: BTreeMap<usize, Fault> = alone.iter().chain(&side_by_side).copied().collect();
    let first = Arc::clone(&contexts[0]);
    for (at, fault) in alone {
        rows.insert(at, run_one(&first, fault).await);
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
    for (at, checked) in &mut rows {
        if let Err(why) = checked
            && let Ok(mut second) = run_one(&first, all[at]).await
        {
            second.done = format!("second run, alone (the first was inconclusive: {why}): {}", second.done);
            *checked = Ok(second);
        }
    }
    for (at, checked) in &mut rows {
        if let Ok(row) = checked
            && row.verdict.is_only_slow()
        {
            run_again(&first, all[at], row).await;
        }
    }
    rows.into_values().flatten().collect()
}

/// Runs one fault after the other, until none is left.
async fn run_queue<C: Context>(context: Arc<C>, queue: Arc<Mutex<VecDeque<Numbered>>>) -> Vec<(usize, Checked)> {
    let mut rows = Vec::new();
    loop {
        let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let Some((at, fault)) = next else { return rows };
        rows.push((at, run_one(&context, fault).await));
    }
}

/// Runs a fault that was too slow once more, and replaces its row. If the second run cannot be checked, the row stays.
async fn run_again<C: Context>(context: &Arc<C>, fault: Fault, row: &mut Row) {
    let slow: Vec<String> = row.verdict.findings().flat_map(|(.., examples)| examples.to_vec()).collect();
    if let Ok(mut second) = run_one(context, fault).await {
        second.done = format!("second run, alone (the first was only too slow: {}): {}", slow.join("; "), second.done);
        second.seconds += row.seconds;
        *row = second;
    }
}

/// Runs one fault and prints its row. It runs in a task of its own, so that a panic ends only this fault.
async fn run_one<C: Context>(context: &Arc<C>, fault: Fault) -> Checked {
    let begun = Instant::now();
    let shared = Arc::clone(context);
    let outcome = tokio::spawn(async move { shared.run(fault).await }).await;
    let row = match outcome.map_err(Error::from).and_then(|row| row) {
        Ok(row) => row,
        Err(error) if is_inconclusive(&error) => return Err(report_inconclusive(fault, &format!("{error:#}"))),
        Err(error) => Row::of_error(fault.id, &error, begun.elapsed()),
    };
    println!("{}", row.line());
    match context.machine().longest_since(begun).filter(|_| row.verdict.is_about_time()) {
        Some(length) => {
            let why = format!("the machine stood still for {:.1} s", length.as_secs_f64());
            Err(report_inconclusive(fault, &why))
        }
        None => Ok(row),
    }
}

/// Prints why a fault could not be checked. Returns the first line of it.
fn report_inconclusive(fault: Fault, why: &str) -> String {
    println!("FAIL {}  inconclusive: {why}", fault.id);
    why.lines().next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use anyhow::anyhow;

    use super::*;
    use crate::{
        checker::{Kind, Verdict},
        inconclusive::Inconclusive,
    };

    /// Context in which a fault ends in a given way at each run; the number of runs so far is its argument.
    struct Forged {
        runs: Arc<AtomicUsize>,
        end: fn(usize) -> Result<Verdict>,
        machine: Machine,
    }

    impl Context for Forged {
        fn machine(&self) -> &Machine {
            &self.machine
        }

        fn run(&self, fault: Fault) -> BoxFuture<'_, Result<Row>> {
            let verdict = (self.end)(self.runs.fetch_add(1, Relaxed));
            let row = move |verdict| Row { id: fault.id, done: "done".to_owned(), verdict, seconds: 0.0 };
            async move { verdict.map(row) }.boxed()
        }
    }

    /// Runs one fault. Returns its row, if it has one, and the number of runs.
    async fn run_forged(end: fn(usize) -> Result<Verdict>, machine: Machine) -> (Option<Row>, usize) {
        let runs = Arc::new(AtomicUsize::new(0));
        let context = Forged { runs: Arc::clone(&runs), end, machine };
        let never = Fault { id: "F00", run: |_| async { Err(anyhow!("it has no scenario")) }.boxed() };
        let mut rows = run(vec![never], vec![context]).await;
        (rows.pop(), runs.load(Relaxed))
    }

    fn found(kind: Kind) -> Verdict {
        let mut verdict = Verdict::default();
        verdict.add_finding(kind, "an example");
        verdict
    }

    #[tokio::test]
    async fn a_fault_whose_scenario_fails_never_runs_again() {
        let fails_once =
            |runs: usize| if runs == 0 { Err(anyhow!("two trees for one key")) } else { Ok(Verdict::default()) };
        let (row, runs) = run_forged(fails_once, Machine::default()).await;
        let row = row.expect("a row");
        assert_eq!((runs, row.verdict.count(Kind::Scenario)), (1, 1));
        assert!(row.line().contains("FAIL F00") && row.line().contains("two trees for one key"), "{}", row.line());
    }

    #[tokio::test]
    async fn a_fault_that_panics_never_runs_again() {
        let panics_once =
            |runs: usize| if runs == 0 { panic!("an index out of bounds") } else { Ok(Verdict::default()) };
        let (row, runs) = run_forged(panics_once, Machine::default()).await;
        assert_eq!((runs, row.expect("a row").verdict.count(Kind::Scenario)), (1, 1));
    }

    #[tokio::test]
    async fn a_fault_whose_setup_fails_runs_once_more() {
        let fails_once = |runs: usize| match runs {
            0 => Err(Inconclusive::Setup.error("no port is free")),
            _ => Ok(Verdict::default()),
        };
        let (row, runs) = run_forged(fails_once, Machine::default()).await;
        let row = row.expect("a row");
        assert!(row.verdict.is_clean() && runs == 2);
        assert!(row.done.contains("no port is free"), "{}", row.done);
        let always = |_: usize| Err(Inconclusive::Timeout.error("everything has ended: not within 40 s"));
        let (row, runs) = run_forged(always, Machine::default()).await;
        assert!(row.is_none() && runs == 2);
    }

    #[tokio::test]
    async fn a_standstill_of_the_machine_excuses_only_findings_about_time() {
        let stuck_once = |runs: usize| Ok(if runs == 0 { found(Kind::Stuck) } else { Verdict::default() });
        let (row, runs) = run_forged(stuck_once, Machine::default()).await;
        assert!(!row.expect("a row").verdict.is_clean() && runs == 1);
        let (row, runs) = run_forged(stuck_once, Machine::with_standstill()).await;
        assert!(row.expect("a row").verdict.is_clean() && runs == 2);
        let panicked_once = |runs: usize| Ok(if runs == 0 { found(Kind::Log) } else { Verdict::default() });
        let (row, runs) = run_forged(panicked_once, Machine::with_standstill()).await;
        assert!(!row.expect("a row").verdict.is_clean() && runs == 1);
    }
}
