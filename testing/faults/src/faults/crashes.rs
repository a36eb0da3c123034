//! Servers that crash at every commit: just before it, just after it, and before the response is sent.
//!
//! The points are found in the server's source: every commit goes through `store::commit`, which a test of the
//! conventions enforces. Each start arms all points that have not been reached often enough; the first one reached
//! crashes the server. Two fixtures share the points: one with the ordinary workload, and one with all other actions.
//! Every point must be reached, so a new commit needs an action that passes it.

mod actions; // all other actions
mod key_rotation; // the command that exchanges the key of secrets

use std::{
    collections::BTreeMap,
    ops::Range,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{
    FutureExt as _,
    future::{BoxFuture, try_join_all},
};
use tokio::{runtime::Handle, task::block_in_place};

use self::{
    actions::{Environment, IdentityProvider},
    key_rotation::KeyRotation,
};
use super::{Scenario, ScenarioOutcome, broker::a_vhost, end, scaled};
use crate::{
    checker::{self, Kind},
    findings::Findings,
    fixture::{
        Fixture, FixtureOptions, RunContext,
        process::{Server, is_abort},
    },
    proxy_fixture::{ProxyFixture, RunningServer},
    receiver::Receiver,
    workload::Workload,
};

/// Number of servers for the actions. A server that starts again takes longer than it lives.
const SERVERS: usize = 4;

pub(super) const FAULTS: &[(&str, Scenario)] = &[("F02", |context| on_this_thread(context))];

/// Runs on the current thread, because its two fixtures share the stack.
fn on_this_thread(context: &RunContext) -> BoxFuture<'_, Result<ScenarioOutcome>> {
    async move { block_in_place(|| Handle::current().block_on(at_every_commit(context))) }.boxed()
}

/// Number of crashes at each point, and the wanted number.
struct Tally {
    reached: Mutex<BTreeMap<String, usize>>,
    wanted: usize,
}

impl Tally {
    fn count(&self, point: &str) {
        let mut reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        *reached.entry(point.to_owned()).or_default() += 1;
    }

    /// Points that were not reached often enough.
    fn open(&self) -> Vec<String> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        reached.iter().filter(|(_, n)| **n < self.wanted).map(|(point, _)| point.clone()).collect()
    }

    /// Those of the open points that were reached least often.
    fn rarest(&self) -> Vec<String> {
        let reached = self.reached.lock().unwrap_or_else(PoisonError::into_inner);
        let least = reached.values().min().copied().unwrap_or_default();
        reached.iter().filter(|(_, n)| **n == least && **n < self.wanted).map(|(point, _)| point.clone()).collect()
    }
}

/// F02.
async fn at_every_commit(context: &RunContext) -> Result<ScenarioOutcome> {
    let (wanted, time) = scaled(context, (1, Duration::from_mins(2)), (50, Duration::from_mins(30)));
    let reached = Mutex::new(points()?.into_iter().map(|point| (point, 0)).collect());
    let tally = Tally { reached, wanted };
    let (ordinary, rounds) = tokio::try_join!(under_load(context, &tally, time), under_actions(context, &tally, time))?;
    let ScenarioOutcome { verdict: rounds, done: summary } = rounds.into_outcome();
    let mut outcome = ordinary;
    outcome.verdict.add(rounds);
    let reached = tally.reached.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (crashes, all) = (reached.values().sum::<usize>(), reached.len());
    let never: Vec<&str> = reached.iter().filter(|(_, n)| **n == 0).map(|(point, _)| point.as_str()).collect();
    ensure!(crashes > 0, "no server crashed in {time:?}");
    if !never.is_empty() {
        // A short run that does not reach a point was too slow; a long one shows that no action reaches it.
        let kind = if context.full { Kind::Scenario } else { Kind::Slow };
        outcome.verdict.add_finding(kind, format!("not reached within {time:?}: {}", never.join(", ")));
    }
    outcome.done = format!(
        "{crashes} crashes at {} of the {all} points before and after every commit and before the response; {summary}",
        all - never.len()
    );
    Ok(outcome)
}

/// Runs the ordinary workload.
async fn under_load(context: &RunContext, tally: &Tally, time: Duration) -> Result<ScenarioOutcome> {
    let mut fixture = Fixture::start(context, FixtureOptions::default()).await?;
    let workload = fixture.start_workload(Workload {
        calls_a_second: Some(4.0),
        cancels: 6,
        ..Workload::of(context.items, context.seed)
    })?;
    let began = Instant::now();
    for server in &mut fixture.servers {
        server.process.kill().await?;
        arm(server, tally, 30..120)?;
    }
    while began.elapsed() < time && !(workload.is_finished() && fixture.is_drained().await == Some(true)) {
        for server in &mut fixture.servers {
            restart_if_crashed(server, tally, 30..120)?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for server in &mut fixture.servers {
        disarm(server).await?;
    }
    end(context, fixture, workload, String::new()).await
}

/// Runs all other actions, until every point was reached or the time is over.
async fn under_actions(context: &RunContext, tally: &Tally, time: Duration) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let receiver = Receiver::listen(proxy_fixture.folder().join("receiver")).await?;
    let messages = Receiver::listen(proxy_fixture.folder().join("messages")).await?;
    let alert_url = format!("http://{}/alerts", messages.addr());
    let identity_provider = IdentityProvider::start().await?;
    let issuer = identity_provider.issuer().to_owned();
    let (broker, _vhost) = a_vhost().await?;
    // Short intervals, so that background tasks run all the time.
    let busy = [
        ("AMQP_URL", broker.as_str()),
        ("TREELINE_ALERT_URL", &alert_url),
        ("TREELINE_PUBLIC_URL", actions::PUBLIC_URL),
        ("TREELINE_AUTH_HEADER", actions::PROXY_HEADER),
        ("TREELINE_TRUSTED_PROXIES", "127.0.0.1"),
        ("TREELINE_BROKER_RESEND_SECONDS", "1"),
        ("TREELINE_UPLOAD_TTL_SECONDS", "30"),
        ("TREELINE_CALLBACK_RETRY_SECONDS", "0.3"),
        ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "1"),
    ];
    let settings = [&busy[..], &IdentityProvider::settings(&issuer)].concat();
    let mut running = try_join_all((0..SERVERS).map(|_| proxy_fixture.serve(&settings))).await?;
    let mut rotation = KeyRotation::new(&proxy_fixture, &settings);
    let caller = actions::Caller::new(Environment {
        bases: running.iter().map(|one| one.server.url()).collect(),
        logs: running.iter().map(|one| one.server.process.log().to_owned()).collect(),
        pool: proxy_fixture.pool.clone(),
        callback_port: receiver.addr().port(),
        messages,
        identity_provider,
    })?;
    caller.put_types().await?;
    let (over, done_mending) = (AtomicBool::new(false), AtomicBool::new(false));
    let began = Instant::now();
    let timing = async {
        while began.elapsed() < time && !tally.open().is_empty() && !over.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        over.store(true, Relaxed);
    };
    let doing = async {
        let (mut failures, rotated) = tokio::join!(caller.everything(&over), rotation.repeat(tally, &over));
        failures.extend(rotated.err());
        over.store(true, Relaxed);
        done_mending.store(true, Relaxed);
        failures
    };
    let ((), failures, killed) = tokio::join!(timing, doing, kill_and_restart(&mut running, tally, &done_mending));
    killed?;
    let mut findings = Findings::new(String::new());
    for failure in failures {
        findings.expect_ok::<()>(Err(failure));
    }
    findings.expect_ok(rotation.complete(&proxy_fixture).await);
    findings.expect_ok(caller.ended_operations().await);
    findings.expect_ok(proxy_fixture.drain(&running[0].api, &actions::TYPES, Duration::from_secs(30)).await);
    findings.acknowledged = caller.done() as u64;
    findings.summary = format!("{} actions of callers and people meanwhile, each verified", caller.done());
    let open = "select count(*) from delivery where state = 1";
    let complete = crate::raw::until("every callback is settled", Duration::from_secs(20), async || {
        Ok(proxy_fixture.number(open).await? == 0)
    });
    findings.expect_ok(complete.await);
    findings.callbacks =
        checker::check_callbacks(&proxy_fixture.pool, caller.callback_trees(), receiver.received()?).await?;
    findings.check_integrity(&proxy_fixture, &running.iter().collect::<Vec<_>>()).await?;
    for server in &mut running {
        server.stop().await?;
    }
    Ok(findings)
}

/// Restarts crashed servers until `over`; then disarms all of them.
async fn kill_and_restart(running: &mut [RunningServer], tally: &Tally, over: &AtomicBool) -> Result<()> {
    for one in &mut *running {
        one.server.process.kill().await?;
        arm(&mut one.server, tally, 2..8)?;
    }
    while !over.load(Relaxed) {
        for one in &mut *running {
            restart_if_crashed(&mut one.server, tally, 2..8)?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for one in running.iter_mut() {
        // It may have crashed just now.
        if !count_crash(&mut one.server, tally)? {
            one.server.process.kill().await?;
        }
        disarm(&mut one.server).await?;
    }
    Ok(())
}

/// Counts a crash, and restarts the server with the remaining points.
fn restart_if_crashed(server: &mut Server, tally: &Tally, busy: Range<usize>) -> Result<()> {
    if count_crash(server, tally)? { arm(server, tally, busy) } else { Ok(()) }
}

/// Counts a crash. Returns true if there was one.
fn count_crash(server: &mut Server, tally: &Tally) -> Result<bool> {
    let Some(status) = server.process.try_wait()? else { return Ok(false) };
    let log = std::fs::read_to_string(server.process.log())?;
    ensure!(is_abort(status), "a server ended with {status}; its log ends {:?}", log.lines().last());
    tally.count(crash_point(&log)?);
    Ok(true)
}

/// Point of the last crash in a log.
fn crash_point(log: &str) -> Result<&str> {
    let (_, point) = log.rsplit_once("crashed on purpose: ").context("an unexpected crash")?;
    Ok(point.lines().next().unwrap_or_default().trim())
}

/// Parts of the names of points that are passed all the time.
const PASSED_ALL_THE_TIME: [&str; 6] = [
    "dispatch/work_batch",
    "activity_counters",
    "retention/due_trees",
    "notify/alerts",
    "notify/broker_messages",
    "http/",
];

/// Number of open points up to which each start has all of them.
const FEW: usize = 20;

/// Starts a server that crashes at the first of the points that it reaches: while many are open, at some of them, and a
/// point that is passed all the time must be passed `busy` times before. So servers live long enough for the requests
/// that lead to the others. For the same reason, every second start has only points that were reached least often. A point
/// that is wanted often lets every second request pass, so that the action behind it ends.
fn arm(server: &mut Server, tally: &Tally, busy: Range<usize>) -> Result<()> {
    let mut points = if rand::random() { tally.open() } else { tally.rarest() };
    let many = points.len() > FEW;
    if many {
        points.retain(|_| rand::random_ratio(1, 3));
    }
    let points = points.into_iter().map(|point| {
        let always = PASSED_ALL_THE_TIME.iter().any(|part| point.contains(part));
        let passed = match (many, always) {
            (true, true) => rand::random_range(busy.clone()),
            (false, _) if tally.wanted == 1 => 0,
            _ => rand::random_range(0..2),
        };
        format!("{point}={passed}*off->return")
    });
    let points = points.collect::<Vec<_>>().join(";");
    server.process.unset("FAILPOINTS");
    server.process.set("FAILPOINTS", &points);
    server.process.start()
}

/// Restarts a server without crash points.
async fn disarm(server: &mut Server) -> Result<()> {
    server.process.kill().await?;
    server.process.unset("FAILPOINTS");
    server.start().await
}

/// Points before and after every commit in the server's source, and before the response.
fn points() -> Result<Vec<String>> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut points = vec!["before_reply:http/layers".to_owned()];
    for krate in ["engine", "server"] {
        points.extend(commits_in(&workspace.join(krate).join("src"))?);
    }
    Ok(points)
}

/// Points before and after every commit in these sources.
fn commits_in(source: &Path) -> Result<Vec<String>> {
    let mut points = Vec::new();
    let mut folders = vec![source.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && std::fs::read_to_string(&path)?.contains("commit(tx)")
                && !path.ends_with("store/transactions.rs")
            {
                let place = path.strip_prefix(source)?.with_extension("").display().to_string();
                points.extend([format!("before_commit:{place}"), format!("after_commit:{place}")]);
            }
        }
    }
    Ok(points)
}
