//! F25, F26, F27: a RabbitMQ that blocks publishers, that times out its consumers, and that falls silent.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use client::Client;
use futures::FutureExt as _;
use lapin::uri::AMQPUri;
use tokio::{process::Command, task::JoinSet, time::sleep};

use super::{
    super::{ScenarioOutcome, callers, drain_timeout, end, ensure_tested, scaled},
    a_vhost, broker_options, connected,
    rabbit::{self, Node},
    reconnected, start, workload_items,
};
use crate::{
    checker::Kind,
    findings::kind_of,
    fixture::{Fixture, RunContext, TOKEN},
    inconclusive::Inconclusive,
    journal::Journal,
    proxy::{Mode, Proxy},
    raw::{quantile, until},
    workload::Workload,
};

/// Longest time until publishers and consumers have recovered.
const BACK: Duration = Duration::from_secs(15);
/// Tolerance: smaller differences measure the machine.
const NOISE: Duration = Duration::from_millis(20);

impl Node {
    /// Runs a `rabbitmqctl` command on the node.
    async fn control(&self, words: &[&str]) -> Result<()> {
        let output = Command::new(rabbit::program().with_file_name("rabbitmqctl"))
            .args(["--node", &format!("treeline-{}@localhost", self.port)])
            .args(words)
            .env("HOME", self.folder.join("home"))
            .env("ERL_EPMD_PORT", self.names.to_string())
            .output()
            .await?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stdout);
            return Err(Inconclusive::Setup.error(format!("rabbitmqctl {words:?}: {errors}{text}")));
        }
        Ok(())
    }

    /// Number of occurrences of a text in its log.
    fn count_in_log(&self, what: &str) -> Result<usize> {
        let mut times = 0;
        for file in std::fs::read_dir(self.folder.join("log"))? {
            let path = file?.path();
            if path.is_file() {
                times += String::from_utf8_lossy(&std::fs::read(path)?).matches(what).count();
            }
        }
        Ok(times)
    }
}

/// F25: the broker raises its memory alarm, and blocks publishers until it is cleared.
pub(super) async fn memory_alarm(context: &RunContext) -> Result<ScenarioOutcome> {
    let alarm = Duration::from_secs(scaled(context, 15, 60));
    let mut node = Node::new();
    start(&mut node).await?;
    let mut fixture = Fixture::start(context, broker_options(&node.url())).await?;
    connected(&node.root()).await?;
    let over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    for at in 0..fixture.servers.len() {
        let (client, journal, over) = (fixture.client(at)?, Arc::clone(&fixture.journal), Arc::clone(&over));
        callers.spawn(accept(client, journal, format!("accepted-{}-{at}", context.seed), over));
    }
    // The first calls take longer.
    sleep(Duration::from_secs(2)).await;
    let begun = Instant::now();
    sleep(alarm / 2).await;
    let raised = Instant::now();
    node.control(&["set_vm_memory_high_watermark", "0"]).await?;
    sleep(alarm / 2).await;
    let half = published(&fixture).await?;
    sleep(alarm / 2).await;
    let whole = published(&fixture).await?;
    node.control(&["set_vm_memory_high_watermark", "0.8"]).await?;
    let cleared = Instant::now();
    let republished = until("every server publishes again", BACK, async || {
        Ok(published(&fixture).await?.iter().zip(&whole).all(|(now, then)| now > then))
    })
    .await;
    over.store(true, Relaxed);
    let mut calls = Vec::new();
    for called in callers.join_all().await {
        calls.extend(called?);
    }
    let within = |from: Instant, to: Instant| -> Vec<Duration> {
        calls.iter().filter(|(at, _)| (from..to).contains(at)).map(|(_, took)| *took).collect()
    };
    let before = quantile(&mut within(begun, raised), 0.99);
    let during = quantile(&mut within(raised, cleared), 0.99);
    let attached_after = reconnected(&node.root()).await?;
    fixture.keep_alive(Box::new(node));
    let done = format!(
        "RabbitMQ alarm for {} s: p99 of accepting a tree {} ms, {} ms before; publishing resumed after {} ms, \
         consumers were back after {} ms",
        alarm.as_secs(),
        during.as_millis(),
        before.as_millis(),
        republished.as_ref().map_or(0, Duration::as_millis),
        attached_after.as_millis()
    );
    let mut outcome = end(context, fixture, tokio::spawn(async { Ok(()) }), done).await?;
    let published = || format!("messages were published during the alarm ({half:?}, {whole:?})");
    ensure_tested(&outcome, half == whole, published)?;
    if let Err(error) = republished {
        outcome.verdict.add_finding(kind_of(&error), format!("{error:#}"));
    }
    if during > before.mul_f64(1.2) + NOISE {
        outcome.verdict.add_finding(
            Kind::Slow,
            format!("p99 of accepting a tree: {during:?} during the alarm, {before:?} before"),
        );
    }
    Ok(outcome)
}

/// Creates twenty trees per second. Returns the time and the duration of each call.
async fn accept(
    client: Client,
    journal: Arc<Journal>,
    key: String,
    over: Arc<AtomicBool>,
) -> Result<Vec<(Instant, Duration)>> {
    let (mut calls, mut pace) = (Vec::new(), tokio::time::interval(Duration::from_millis(50)));
    while !over.load(Relaxed) {
        pace.tick().await;
        let requested_at = Instant::now();
        let took = callers::small_tree(&client, &journal, &format!("{key}-{}", calls.len())).await?;
        calls.push((requested_at, took));
    }
    Ok(calls)
}

/// Number of confirmed messages of each server.
async fn published(fixture: &Fixture) -> Result<Vec<u64>> {
    let (mut counts, client) = (Vec::new(), reqwest::Client::new());
    for server in &fixture.servers {
        let answer = client.get(format!("{}/metrics", server.url())).bearer_auth(TOKEN).send().await?;
        let text = answer.error_for_status()?.text().await?;
        let line = text.lines().find_map(|line| line.strip_prefix("treeline_broker_published_total "));
        counts.push(line.context("the count of published messages is missing")?.trim().parse()?);
    }
    Ok(counts)
}

/// Settings of the broker: timeout of an acknowledgement and check interval, in milliseconds.
const CONSUMER_TIMEOUT: &str = "application:set_env(rabbit, consumer_timeout, 3000),
    application:set_env(rabbit, channel_tick_interval, 1000).";
/// Pause of a worker: longer than that timeout, and shorter than the broker's heartbeat timeout.
const BLOCKED_FOR: Duration = Duration::from_secs(6);

/// F26: workers hold messages for longer than the broker allows, so it closes their channels.
pub(super) async fn consumer_timeout(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut node = Node::new();
    start(&mut node).await?;
    node.control(&["eval", CONSUMER_TIMEOUT]).await?;
    let mut fixture = Fixture::start(context, broker_options(&node.url())).await?;
    connected(&node.root()).await?;
    let mut workload = fixture.start_workload(Workload {
        calls_a_second: Some(6.0),
        ..Workload::of(workload_items(context), context.seed)
    })?;
    let least = scaled(context, 2, 20);
    let times = fixture
        .disturb(&mut workload, least, Duration::from_secs(1), |fixture, n| hold_a_worker(fixture, n).boxed())
        .await?;
    // A worker at capacity has no consumers: check for them when there is nothing left to do.
    let idle = async || Ok(workload.is_finished() && fixture.is_drained().await == Some(true));
    until("all items have ended", drain_timeout(context), idle).await?;
    let back = reconnected(&node.root()).await?;
    let ended = node.count_in_log("has timed out waiting for")?;
    fixture.keep_alive(Box::new(node));
    let done = format!(
        "a worker with unacknowledged messages frozen for {} s, {times} times; RabbitMQ closed {ended} channels; \
         all consumers were back {} ms after the last item",
        BLOCKED_FOR.as_secs(),
        back.as_millis()
    );
    let outcome = end(context, fixture, workload, done).await?;
    ensure_tested(&outcome, ended > 0, || "RabbitMQ timed out no consumer".to_owned())?;
    Ok(outcome)
}

async fn hold_a_worker(fixture: &mut Fixture, n: usize) -> Result<()> {
    let at = n % fixture.workers.len();
    fixture.workers[at].pause()?;
    sleep(BLOCKED_FOR).await;
    fixture.workers[at].resume()
}

/// Two heartbeats of the connection, the pause before a reconnect, and a tolerance for a loaded machine.
const NOTICED: Duration = Duration::from_secs(2 * 5 + 2);

/// F27: the proxy to the broker drops everything without closing a connection.
pub(super) async fn silent(context: &RunContext) -> Result<ScenarioOutcome> {
    let (url, vhost) = a_vhost().await?;
    let uri: AMQPUri = url.parse().map_err(anyhow::Error::msg)?;
    let proxy = Proxy::to(([127, 0, 0, 1], uri.authority.port).into()).await?;
    let url = url.replace(&format!(":{}/", uri.authority.port), &format!(":{}/", proxy.port()));
    let fixture = Fixture::start(context, broker_options(&url)).await?;
    connected(&vhost).await?;
    let workload = fixture.start_workload(Workload {
        calls_a_second: Some(4.0),
        ..Workload::of(workload_items(context), context.seed)
    })?;
    sleep(Duration::from_secs(2)).await;
    let (silent, begun) = (Duration::from_secs(scaled(context, 20, 60)), Instant::now());
    let (before, all) = (proxy.accepted(), (fixture.servers.len() + fixture.workers.len()) as u64);
    proxy.set(Mode::BlackHole);
    // Everyone who notices reconnects.
    let noticed = until("everybody notices", silent, async || Ok(proxy.accepted() >= before + all)).await;
    sleep(silent.saturating_sub(begun.elapsed())).await;
    proxy.set(Mode::Pass);
    let back = reconnected(&vhost).await?;
    let done = format!(
        "all connections to RabbitMQ silent for {} s: the last of {all} noticed after {:.1} s; all consumers were \
         back after {:.1} s",
        silent.as_secs(),
        noticed.as_ref().map_or(0.0, Duration::as_secs_f64),
        back.as_secs_f64()
    );
    let mut outcome = end(context, fixture, workload, done).await?;
    match noticed {
        Ok(took) if took <= NOTICED => {}
        Ok(took) => outcome.verdict.add_finding(Kind::Slow, format!("the silence was noticed only after {took:?}")),
        Err(error) => outcome.verdict.add_finding(kind_of(&error), format!("{error:#}")),
    }
    Ok(outcome)
}
