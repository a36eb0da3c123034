//! A pair of PostgreSQLs under Patroni behind HAProxy that loses its primary: killed, frozen, cut off, or exchanged. With
//! a synchronous standby nothing acknowledged is lost. An asynchronous one must lose something: it shows that the checker
//! would notice.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::{task::JoinHandle, time::sleep};

use super::{Scenario, ScenarioOutcome, clients::on_this_thread, end, end_broken};
use crate::{
    checker::{Kind, Verdict},
    fixture::{
        Fixture, FixtureOptions, RunContext,
        pair::{Pair, Replication},
        postgres::new_database,
    },
    inconclusive::Inconclusive,
    journal::{self, CallOutcome, now_us},
    workload::Workload,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("H0", |context| on_this_thread(context, asynchronous)),
    ("H1", |context| on_this_thread(context, killed)),
    ("H2", |context| on_this_thread(context, frozen)),
    ("H3", |context| on_this_thread(context, cut_off)),
    ("H4", |context| on_this_thread(context, switched_over)),
];

/// Longest time without an acknowledged call when a primary is lost (P19).
const BACK: Duration = Duration::from_secs(30);
/// Time over which callers spread their calls around one loss.
const LOAD: Duration = Duration::from_secs(40);
/// Load before the first loss.
const BEFORE: Duration = Duration::from_secs(6);
/// Time for which the asynchronous standby receives nothing.
const LAG: Duration = Duration::from_secs(3);

/// A pair, and servers and workers that use it, under load.
struct Scene {
    pair: Pair,
    fixture: Fixture,
    workload: JoinHandle<Result<()>>,
}

impl Scene {
    async fn start(context: &RunContext, replication: Replication, losses: u32) -> Result<Self> {
        let patroni = context.patroni.as_ref().context("where Patroni is: --patroni")?;
        let pair = Pair::start(patroni, replication).await?;
        let database = pair.url(&new_database(&pair.url("postgres")).await.context(Inconclusive::Setup)?);
        let options = FixtureOptions { work_ms: 10, slots: 16, database: Some(database), ..FixtureOptions::default() };
        let fixture = Fixture::start(context, options).await?;
        // Calls of 50 items, and trees of 10.
        let calls = context.items as f64 * (0.9 / 50.0 + 0.01);
        let calls_a_second = Some(calls / (LOAD * losses).as_secs_f64());
        let workload = Workload { calls_a_second, ..Workload::of(context.items, context.seed) };
        let workload = fixture.start_workload(workload)?;
        sleep(BEFORE).await;
        Ok(Self { pair, fixture, workload })
    }

    /// Waits until the other node is the primary and a call has been acknowledged since. Returns the longest time
    /// without an acknowledged call.
    async fn wait_until_back(&self, primary: usize, lost_us: u64) -> Result<Duration> {
        let begun = Instant::now();
        while self.pair.primary().await.ok() != Some(1 - primary) {
            if begun.elapsed() > BACK * 2 {
                return Err(Inconclusive::Setup.error("the standby does not take over"));
            }
            sleep(Duration::from_millis(50)).await;
        }
        let replaced_us = now_us();
        loop {
            if begun.elapsed() > BACK * 4 {
                let what = "no request is acknowledged after the standby took over";
                return Err(Inconclusive::Timeout.error(what));
            }
            sleep(Duration::from_millis(100)).await;
            // The last line may be half written.
            let Ok(calls) = journal::read(&self.fixture.path("journal")) else { continue };
            let answered = calls.iter().filter(|call| call.outcome == CallOutcome::Ok).map(|call| call.answered_us);
            let mut answered: Vec<u64> = answered.collect();
            answered.sort_unstable();
            if answered.last().is_some_and(|&last| last > replaced_us) {
                let gaps = answered.windows(2).filter(|pair| pair[1] >= lost_us).map(|pair| pair[1] - pair[0]);
                return Ok(Duration::from_micros(gaps.max().unwrap_or_default()));
            }
        }
    }
}

/// Loses the primary, repairs it, and waits until it follows the new one, this many times. Then checks everything.
async fn with_losses(
    context: &RunContext,
    losses: u32,
    what: &str,
    mut strike: impl AsyncFnMut(&mut Pair, usize) -> Result<()>,
    mut repair: impl AsyncFnMut(&mut Pair, usize) -> Result<()>,
) -> Result<ScenarioOutcome> {
    let mut scene = Scene::start(context, Replication::Synchronous, losses).await?;
    let mut slowest = Duration::ZERO;
    for _ in 0..losses {
        let (primary, lost_us) = (scene.pair.primary().await?, now_us());
        strike(&mut scene.pair, primary).await?;
        slowest = slowest.max(scene.wait_until_back(primary, lost_us).await?);
        repair(&mut scene.pair, primary).await?;
        scene.pair.wait_until_formed().await?;
    }
    for server in &mut scene.fixture.servers {
        ensure!(server.process.try_wait()?.is_none() && server.process.starts == 1, "a server ended by itself");
    }
    // They stay with the other files if anything is found.
    scene.pair.keep_logs(scene.fixture.folder())?;
    let mut outcome = end(context, scene.fixture, scene.workload, String::new()).await?;
    if slowest > BACK {
        outcome.verdict.add_finding(Kind::Slow, format!("no request was acknowledged for {slowest:?}"));
    }
    outcome.done =
        format!("{what}; at most {:.1} s without an acknowledged request; no server exited", slowest.as_secs_f64());
    Ok(outcome)
}

/// H1: all processes of the primary's machine are killed; then it returns as the standby, and the other is killed.
async fn killed(context: &RunContext) -> Result<ScenarioOutcome> {
    let what = "primary with a synchronous standby killed (SIGKILL), and again after it had returned as the standby";
    with_losses(context, 2, what, async |pair, at| pair.kill(at), async |pair, at| pair.start_again(at)).await
}

/// H2: all processes of the primary's machine stop, and go on when the other is the primary.
async fn frozen(context: &RunContext) -> Result<ScenarioOutcome> {
    let what = "primary frozen (SIGSTOP) until the standby had taken over";
    with_losses(context, 1, what, async |pair, at| pair.freeze(at), async |pair, at| pair.thaw(at)).await
}

/// H3: nothing goes to or from the primary's machine until the other is the primary.
async fn cut_off(context: &RunContext) -> Result<ScenarioOutcome> {
    let strike = async |pair: &mut Pair, at| {
        pair.cut_off(at);
        Ok(())
    };
    let repair = async |pair: &mut Pair, at| {
        pair.connect(at);
        Ok(())
    };
    with_losses(context, 1, "primary cut off until the standby had taken over", strike, repair).await
}

/// H4: the standby takes over as for maintenance, and back.
async fn switched_over(context: &RunContext) -> Result<ScenarioOutcome> {
    let what = "planned switchover, twice";
    with_losses(context, 2, what, async |pair, at| pair.switch_over(at).await, async |_, _| Ok(())).await
}

/// H0: the standby is asynchronous and receives nothing for a while; then the primary is killed.
async fn asynchronous(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut scene = Scene::start(context, Replication::Asynchronous, 1).await?;
    let (primary, lost_us) = (scene.pair.primary().await?, now_us());
    scene.pair.lose_replication(primary);
    sleep(LAG).await;
    scene.pair.kill(primary)?;
    scene.wait_until_back(primary, lost_us).await?;
    let outcome = end_broken(scene.fixture, scene.workload).await?;
    let lost = outcome.verdict.count(Kind::Lost);
    let mut verdict = Verdict::acknowledging(outcome.verdict.acknowledged);
    if lost == 0 {
        verdict.add_finding(Kind::NotInTime, "an asynchronous standby lost nothing: the checker cannot fail");
    }
    let done = format!(
        "control: primary killed (SIGKILL) with an asynchronous standby {} s behind: {lost} × lost",
        LAG.as_secs()
    );
    Ok(ScenarioOutcome { done, verdict })
}
