//! The faults, each a story: it sets a stage, offers items, disturbs, and hands over to the judge.

mod broker; // RabbitMQ away, killed, emptied, repeated
pub(crate) mod callers; // callers who race each other
mod clients; // who asks, and who is called
mod crashes; // servers that die at every commit
mod database; // PostgreSQL
mod files; // uploads that are cut
mod network; // wires and clocks
mod process; // servers and workers that die, stop and come back

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

/// Faults whose judgement is about time, and the one that has the most to do in its time: nothing else is played beside them.
const ALONE: [&str; 8] = ["F02", "F12", "F14", "F15", "F25", "F33", "F40", "F41"];

/// Faults with a virtual host of their own on the one RabbitMQ.
const ON_THE_BROKER: [&str; 3] = ["F23", "F24", "F27"];

impl Fault {
    pub(crate) fn is_alone(self) -> bool {
        ALONE.contains(&self.id)
    }

    pub(crate) fn has_broker(self) -> bool {
        ON_THE_BROKER.contains(&self.id)
    }
}

/// How a fault is played.
pub(crate) type Story = for<'a> fn(&'a House) -> BoxFuture<'a, Result<Played>>;

/// What a story did, and what came of it.
pub(crate) struct Played {
    pub(crate) done: String,
    pub(crate) verdict: Verdict,
}

/// Every fault, in the order in which they are played.
pub(crate) fn all() -> Vec<Fault> {
    let lists = [selftest::FAULTS, process::FAULTS, crashes::FAULTS, broker::FAULTS, files::FAULTS, callers::FAULTS];
    let lists = lists.into_iter().chain([database::FAULTS, network::FAULTS, clients::FAULTS]);
    let mut all: Vec<Fault> = lists.flatten().map(|&(id, play)| Fault { id, play }).collect();
    // The judge is judged first.
    all.sort_by_key(|fault| (!fault.id.starts_with('S'), fault.id));
    all
}

/// Starts the RabbitMQ that several share, before others take the processors: it needs seconds of them to start.
pub(crate) async fn start_broker() {
    broker::a_vhost().await;
}

/// Plays one.
pub(crate) async fn play(house: &House, fault: Fault) -> Result<Row> {
    let began = Instant::now();
    let Played { done, verdict } = (fault.play)(house).await?;
    Ok(Row { id: fault.id, done, verdict, seconds: began.elapsed().as_secs_f64() })
}

/// As many as the length of the run asks for.
pub(crate) fn scaled<T>(house: &House, quick: T, full: T) -> T {
    if house.full { full } else { quick }
}

/// How long everything may take to come to its end once nothing disturbs it anymore.
pub(crate) fn patience(house: &House) -> Duration {
    Duration::from_secs(scaled(house, 90, 600))
}

/// How often something is done to a stage: at least so often, with a pause before each.
pub(crate) type Often = (usize, Duration);

/// A story around one disturbance: it is played while items are offered, then everything is waited for and judged.
/// `say` is told how often it was.
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

/// One server after the other is killed and started again.
pub(crate) fn kill_in_turn(stage: &mut Stage, n: usize) -> BoxFuture<'_, Result<()>> {
    let at = n % stage.servers.len();
    stage.servers[at].again().boxed()
}

/// The common end of a story: waits, then judges. Files of a stage in which something was found stay.
pub(crate) async fn end(house: &House, mut stage: Stage, load: JoinHandle<Result<()>>, done: String) -> Result<Played> {
    let drained = stage.settle(load, patience(house)).await?;
    let verdict = checker::judge(&mut stage, drained).await?;
    if !verdict.is_clean() {
        eprintln!("     its files are in {}", stage.keep().display());
    }
    Ok(Played { done, verdict })
}

/// The end where servers were broken on purpose: calls may have failed, and not everything comes to its end.
pub(crate) async fn end_broken(mut stage: Stage, load: JoinHandle<Result<()>>) -> Result<Played> {
    let drained = stage.settle(load, Duration::from_secs(6)).await.unwrap_or(false);
    let verdict = checker::judge(&mut stage, drained).await?;
    Ok(Played { done: String::new(), verdict })
}
