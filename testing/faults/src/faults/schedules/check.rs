//! Rules for the runs of schedules, pure functions from a history to findings (`schedule-exactly-once`).

use std::collections::{BTreeMap, BTreeSet, HashSet};

use domain::{
    api::{CatchUp, Overlap},
    id::Uuid,
};

use super::{HOUR, SERVERS, plan::Planned};

/// Least age in seconds of a tick that counts as missed. A server that works on other schedules gives ticks more time, as
/// long as it works on them: then they have runs of their own, which every policy permits.
const LATE: i64 = 5;
/// Seconds of the database's clock within which what was decided is written.
const SOON: i64 = 120;

/// A run as stored.
#[derive(Clone, Debug)]
pub(super) struct Run {
    /// Number of its schedule in the plan.
    pub(super) schedule: usize,
    /// Unix time.
    pub(super) tick: i64,
    /// Time of the database at which it was written.
    pub(super) at: i64,
    pub(super) state: String,
    pub(super) reason: Option<String>,
    pub(super) job_id: Option<Uuid>,
}

impl Run {
    fn is_missed(&self) -> bool {
        self.reason.as_deref() == Some("missed")
    }
}

/// Everything that the rules need.
pub(super) struct History {
    /// Unix times of the first and the last possible tick.
    pub(super) from: i64,
    pub(super) until: i64,
    /// Times that the clock showed when it had been set back by an hour.
    pub(super) set_back: Vec<i64>,
    /// In the order of each schedule.
    pub(super) runs: Vec<Run>,
    /// Ids of all trees.
    pub(super) trees: HashSet<Uuid>,
}

/// Numbers and violations.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) started: usize,
    pub(super) skipped_by_overlap: usize,
    /// Runs that stand for missed ticks.
    pub(super) missed: usize,
    /// Schedules with runs that were decided before the clock was set back, and written after it. Each server can be at
    /// one schedule.
    at_set_back: BTreeSet<usize>,
    /// Ticks without a run, and runs without their tree.
    pub(super) lost: Vec<String>,
    /// Ticks with two runs, and trees that no run lists.
    pub(super) doubled: Vec<String>,
    pub(super) violations: Vec<String>,
}

/// Checks every rule.
pub(super) fn check(plan: &[Planned], history: &History) -> Report {
    let mut report = Report::default();
    let mut by_schedule: BTreeMap<usize, Vec<&Run>> = BTreeMap::new();
    for run in &history.runs {
        by_schedule.entry(run.schedule).or_default().push(run);
    }
    for (n, planned) in plan.iter().enumerate() {
        let runs = by_schedule.remove(&n).unwrap_or_default();
        complete(planned, history, &runs, &mut report);
        for (at, run) in runs.iter().enumerate() {
            let next = runs.get(at + 1).map_or(history.until + 1, |next| next.tick);
            by_policy(planned, history, run, next, &mut report);
        }
    }
    trees(history, &mut report);
    if report.at_set_back.len() > SERVERS * history.set_back.len() {
        report
            .violations
            .push(format!("runs that seem decided before the clock was set back: {:?}", report.at_set_back));
    }
    report
}

/// Each tick has one run, or is among the missed ticks for which one run stands; each run has a tick.
fn complete(planned: &Planned, history: &History, runs: &[&Run], report: &mut Report) {
    let mut from = history.from;
    let name = |tick: i64| format!("{} of {} {}", tick, planned.cron, planned.zone);
    for run in runs {
        if run.tick < from {
            report.doubled.push(format!("a second run or one out of order: {}", name(run.tick)));
            continue;
        }
        if !planned.clock.is_tick(run.tick) {
            report.violations.push(format!("a run at no tick: {}", name(run.tick)));
        }
        if let Some(tick) = planned.clock.first(from, run.tick - 1) {
            report.lost.push(format!("no run: {}", name(tick)));
        }
        from = run.tick + 1;
        if run.is_missed() {
            // It stands for all ticks before the next run.
            from = runs.iter().map(|next| next.tick).find(|&tick| tick > run.tick).unwrap_or(history.until + 1);
        }
    }
    if let Some(tick) = planned.clock.first(from, history.until) {
        report.lost.push(format!("no run: {}", name(tick)));
    }
}

/// The state of a run is one that the schedule's policies permit. `next` is the tick of the next run.
fn by_policy(planned: &Planned, history: &History, run: &Run, next: i64, report: &mut Report) {
    if let Some(what) = wrong(planned, run, next) {
        let before = Run { at: run.at + HOUR, ..run.clone() };
        let is_just_set_back = history.set_back.iter().any(|back| (0..SOON).contains(&(run.at - back)));
        if is_just_set_back && wrong(planned, &before, next).is_none() {
            report.at_set_back.insert(run.schedule);
        } else {
            report.violations.push(format!("{what}: {run:?}, {:?}, before {next}", planned.catch_up));
        }
    }
    match (run.state.as_str(), run.reason.as_deref()) {
        ("started", None) => report.started += 1,
        ("skipped", Some("overlap")) if planned.overlap == Overlap::Skip => report.skipped_by_overlap += 1,
        ("skipped", Some("queue_full")) if planned.overlap == Overlap::Queue => report.skipped_by_overlap += 1,
        ("skipped", Some("missed")) => {
            report.missed += 1;
        }
        _ => report.violations.push(format!("not according to its policy: {run:?}")),
    }
}

/// The rule about times that a run breaks. The time of a run is a little later than the time by which it was decided,
/// which makes the rule weaker, never stronger.
fn wrong(planned: &Planned, run: &Run, next: i64) -> Option<&'static str> {
    if run.at < run.tick {
        return Some("a run before its tick");
    }
    if !run.is_missed() {
        return None;
    }
    let last = planned.clock.last(run.tick, next - 1)?;
    if last > run.at - LATE {
        return Some("a tick counts as missed too early");
    }
    // Fractions of a second are cut off.
    let in_window = last > run.at - planned.window;
    match planned.catch_up {
        CatchUp::All if in_window => Some("a missed tick was not caught up"),
        CatchUp::Last if in_window && next > run.at - LATE => Some("the last missed tick was not caught up"),
        _ => None,
    }
}

/// Each run that started has a tree of its own, and there are no others.
fn trees(history: &History, report: &mut Report) {
    let mut listed = HashSet::new();
    for run in history.runs.iter().filter(|run| run.state == "started") {
        let Some(id) = run.job_id else { continue };
        if !listed.insert(id) {
            report.doubled.push(format!("two runs with one tree: {run:?}"));
        }
        if !history.trees.contains(&id) {
            report.lost.push(format!("a run without its tree: {run:?}"));
        }
    }
    report.doubled.extend(history.trees.difference(&listed).map(|id| format!("a tree that no run lists: {id}")));
}
