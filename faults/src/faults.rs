//! The faults, each a scenario: it starts a fixture, submits items, disturbs it, and runs the checker.

mod broker; // RabbitMQ unavailable, killed, emptied, repeated
pub(crate) mod callers; // concurrent callers
mod clients; // clients and callback receivers
mod crashes; // servers that crash at every commit
mod database; // PostgreSQL
mod files; // uploads that are cut
mod network; // connections and clocks
mod process; // servers and workers that die, stop and restart

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::{FutureExt as _, future::BoxFuture};
use tokio::task::JoinHandle;

use crate::{
    checker::{self, Verdict},
    report::Row,
    selftest,
    stage::{House, Stage},
};

/// One fault of the list.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    pub(crate) id: &'static str,
    pub(crate) play: Story,
}

/// Faults that run alone: those that measure time, and the one with the most work.
const ALONE: [&str; 8] = ["F02", "F12", "F14", "F15", "F25", "F33", "F40", "F41"];

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
pub(crate) type Story = for<'a> fn(&'a House) -> BoxFuture<'a, Result<Played>>;

/// Summary and verdict of a scenario.
pub(crate) struct Played {
    pub(crate) done: String,
    pub(crate) verdict: Verdict,
}

/// All faults, in the order in which they run.
pub(crate) fn all() -> Vec<Fault> {
    let lists = [selftest::FAULTS, process::FAULTS, crashes::FAULTS, broker::FAULTS, files::FAULTS, callers::FAULTS];
    let lists = lists.into_iter().chain([database::FAULTS, network::FAULTS, clients::FAULTS]);
    let mut all: Vec<Fault> = lists.flatten().map(|&(id, play)| Fault { id, play }).collect();
    // The tests of the checker run first.
    all.sort_by_key(|fault| (!fault.id.starts_with('S'), fault.id));
    all
}

/// Starts the shared RabbitMQ before other scenarios use the processors, because it needs seconds of CPU to start.
pub(crate) async fn start_broker() {
    broker::a_vhost().await;
}

/// Runs one fault.
pub(crate) async fn play(house: &House, fault: Fault) -> Result<Row> {
    let began = Instant::now();
    let Played { done, verdict } = (fault.play)(house).await?;
    Ok(Row { id: fault.id, done, verdict, seconds: began.elapsed().as_secs_f64() })
}

/// The value for the quick or the full run.
pub(crate) fn scaled<T>(house: &House, quick: T, full: T) -> T {
    if house.full { full } else { quick }
}

/// Longest wait for all work to end after the last disturbance.
pub(crate) fn patience(house: &House) -> Duration {
    Duration::from_secs(scaled(house, 90, 600))
}

/// Minimum number of repetitions of a disturbance, and the pause before each.
pub(crate) type Often = (usize, Duration);

/// Runs one disturbance repeatedly during the workload, then waits and checks. `describe` gets the number of
/// repetitions.
pub(crate) async fn around(
    house: &House,
    mut stage: Stage,
    mut load: JoinHandle<Result<()>>,
    (least, pause): Often,
    play: impl for<'b> FnMut(&'b mut Stage, usize) -> BoxFuture<'b, Result<()>>,
    say: impl FnOnce(usize) -> String,
) -> Result<Played> {
    let times = stage.disturb(&mut load, least, pause, play).await?;
    end(house, stage, load, say(times)).await
}

/// Kills and restarts one server after the other.
pub(crate) fn kill_in_turn(stage: &mut Stage, n: usize) -> BoxFuture<'_, Result<()>> {
    let at = n % stage.servers.len();
    stage.servers[at].again().boxed()
}

/// Common end of a scenario: waits, then checks. If there are findings, the files of the fixture stay.
pub(crate) async fn end(house: &House, mut stage: Stage, load: JoinHandle<Result<()>>, done: String) -> Result<Played> {
    let drained = stage.settle(load, patience(house)).await?;
    let verdict = checker::judge(&mut stage, drained).await?;
    if !verdict.is_clean() {
        eprintln!("     its files are in {}", stage.keep().display());
    }
    Ok(Played { done, verdict })
}

/// End of a scenario with servers broken on purpose: calls may have failed, and not all work may end.
pub(crate) async fn end_broken(mut stage: Stage, load: JoinHandle<Result<()>>) -> Result<Played> {
    let drained = stage.settle(load, Duration::from_secs(6)).await.unwrap_or(false);
    let verdict = checker::judge(&mut stage, drained).await?;
    Ok(Played { done: String::new(), verdict })
}
