//! The faults, each a scenario: it starts a fixture, submits items, disturbs it, and runs the checker.

mod broker; // RabbitMQ unavailable, killed, emptied, repeated
pub(crate) mod callers; // concurrent callers
mod clients; // clients and callback receivers
mod crashes; // servers that crash at every commit
mod database; // PostgreSQL
mod files; // uploads that are cut
mod limits; // rate limits, limits by key, debounced items
mod network; // connections and clocks
mod pair; // a primary and its standby
mod process; // servers and workers that die, stop and restart
mod restore; // a backup that is restored
mod roles; // processes with one role each
mod schedules; // ticks of cron expressions
mod selftest; // servers broken on purpose
mod upgrade; // the next version

use std::time::{Duration, Instant};

use anyhow::{Error, Result};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::task::JoinHandle;

use crate::{
    checker::{self, Kind, Verdict},
    findings::ScenarioOutcome,
    fixture::{Fixture, RunContext},
    inconclusive::Inconclusive,
    report::Row,
};

/// One fault of the list.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) id: &'static str,
    pub(crate) run: Scenario,
}

/// Faults that run alone: those that measure time, and those with the most work.
const ALONE: [&str; 10] = ["F02", "F12", "F14", "F15", "F16", "F25", "F33", "F40", "F41", "F48"];

/// Faults with their own virtual host on the shared RabbitMQ.
const ON_THE_BROKER: [&str; 3] = ["F23", "F24", "F27"];

impl Fault {
    pub(crate) fn is_alone(self) -> bool {
        ALONE.contains(&self.id)
    }

    pub(crate) fn has_broker(self) -> bool {
        ON_THE_BROKER.contains(&self.id)
    }
}

/// Function that runs a fault.
pub(crate) type Scenario = for<'a> fn(&'a RunContext) -> BoxFuture<'a, Result<ScenarioOutcome>>;

/// All faults, in the order in which they run.
pub(crate) fn all() -> Vec<Fault> {
    let lists = [selftest::FAULTS, process::FAULTS, crashes::FAULTS, broker::FAULTS, files::FAULTS, callers::FAULTS];
    let more = [database::FAULTS, network::FAULTS, clients::FAULTS, limits::FAULTS, roles::FAULTS, restore::FAULTS];
    let lists = lists.into_iter().chain(more).chain([upgrade::FAULTS, schedules::FAULTS]);
    let mut all: Vec<Fault> = lists.flatten().map(|&(id, run)| Fault { id, run }).collect();
    // The tests of the checker run first.
    all.sort_by_key(|fault| (!fault.id.starts_with('S'), fault.id));
    all
}

/// The faults of a pair of databases, which need Patroni, etcd, and HAProxy.
pub(crate) fn of_a_pair() -> Vec<Fault> {
    pair::FAULTS.iter().map(|&(id, run)| Fault { id, run }).collect()
}

/// The rehearsal of an upgrade alone, for an old and a new program.
pub(crate) fn of_an_upgrade() -> Vec<Fault> {
    upgrade::FAULTS.iter().map(|&(id, run)| Fault { id, run }).collect()
}

/// Starts the shared RabbitMQ before other scenarios use the processors, because it needs seconds of CPU to start.
pub(crate) async fn start_broker() {
    // Without it, the faults that need it fail.
    let _ = broker::a_vhost().await;
}

/// Runs one fault.
pub(crate) async fn run(context: &RunContext, fault: Fault) -> Result<Row> {
    let began = Instant::now();
    let ScenarioOutcome { done, verdict } = (fault.run)(context).await?;
    Ok(Row { id: fault.id, done, verdict, seconds: began.elapsed().as_secs_f64() })
}

/// The value for the quick or the full run.
pub(crate) fn scaled<T>(context: &RunContext, quick: T, full: T) -> T {
    if context.full { full } else { quick }
}

/// Longest wait for all work to end after the last disturbance: five minutes, or 50 items a second. What is open then is
/// stuck; a slow machine needs much less.
pub(crate) fn drain_timeout(context: &RunContext) -> Duration {
    Duration::from_mins(5).max(Duration::from_millis(20) * context.items as u32)
}

/// Minimum number of repetitions of a disturbance, and the pause before each.
pub(crate) type Repetition = (usize, Duration);

/// Runs one disturbance repeatedly during the workload, then waits and checks. `describe` gets the number of
/// repetitions.
pub(crate) async fn run_with_disturbance(
    context: &RunContext,
    mut fixture: Fixture,
    mut workload: JoinHandle<Result<()>>,
    (min_times, pause): Repetition,
    run: impl for<'b> FnMut(&'b mut Fixture, usize) -> BoxFuture<'b, Result<()>>,
    describe: impl FnOnce(usize) -> String,
) -> Result<ScenarioOutcome> {
    let times = fixture.disturb(&mut workload, min_times, pause, run).await?;
    end(context, fixture, workload, describe(times)).await
}

/// Kills and restarts one server after the other.
pub(crate) fn kill_in_turn(fixture: &mut Fixture, n: usize) -> BoxFuture<'_, Result<()>> {
    let at = n % fixture.servers.len();
    fixture.servers[at].restart().boxed()
}

/// Common end of a scenario: waits, then checks. All work must end. If there are findings, the files of the fixture stay.
pub(crate) async fn end(
    context: &RunContext,
    mut fixture: Fixture,
    workload: JoinHandle<Result<()>>,
    done: String,
) -> Result<ScenarioOutcome> {
    let verdict = match fixture.wait_until_drained(workload, drain_timeout(context)).await {
        Ok(drained) => checker::check(&mut fixture, drained).await?,
        Err(error) => load_failed(&mut fixture, error)?,
    };
    if !verdict.is_clean() {
        eprintln!("     its files are in {}", fixture.keep_files().display());
    }
    Ok(ScenarioOutcome { done, verdict })
}

/// Verdict after the load has failed: the error itself, unless a server explains it.
fn load_failed(fixture: &mut Fixture, error: Error) -> Result<Verdict> {
    let mut verdict = Verdict::default();
    checker::check_servers(fixture, &mut verdict)?;
    if verdict.is_clean() {
        eprintln!("     its files are in {}", fixture.keep_files().display());
        return Err(error);
    }
    verdict.add_finding(Kind::Scenario, format!("{error:#}"));
    Ok(verdict)
}

/// Returns an error if nothing was tested, so that the fault runs once more, unless there are findings.
pub(crate) fn ensure_tested(outcome: &ScenarioOutcome, tested: bool, otherwise: impl FnOnce() -> String) -> Result<()> {
    if tested || !outcome.verdict.is_clean() { Ok(()) } else { Err(Inconclusive::Untested.error(otherwise())) }
}

/// End of a scenario with servers broken on purpose: calls may have failed, and not all work may end. Only one kind of
/// finding counts.
pub(crate) async fn end_broken(mut fixture: Fixture, workload: JoinHandle<Result<()>>) -> Result<ScenarioOutcome> {
    let drained = fixture.wait_until_drained(workload, Duration::from_secs(6)).await.unwrap_or(false);
    let verdict = checker::check(&mut fixture, drained).await?;
    Ok(ScenarioOutcome { done: String::new(), verdict })
}
