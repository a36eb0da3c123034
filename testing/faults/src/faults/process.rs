//! Faults of processes: servers and workers that are killed, stopped, paused and restarted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use anyhow::{Result, ensure};
use futures::{FutureExt as _, future::BoxFuture};
use serde_json::json;
use tokio::task::{JoinHandle, JoinSet};

use super::{Scenario, ScenarioOutcome, drain_timeout, end, ensure_tested, run_with_disturbance, scaled};
use crate::{
    checker::Kind,
    fixture::{Fixture, FixtureOptions, LEASE, RunContext, postgres::StopMode, process::Process},
    workload::Workload,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("F01", |context| killed_servers(context).boxed()),
    ("F03", |context| many_servers(context).boxed()),
    ("F04", |context| rolling_restarts(context).boxed()),
    ("F05", |context| killed_workers(context).boxed()),
    ("F06", |context| stopped_workers(context).boxed()),
    ("F07", |context| a_stopped_server(context).boxed()),
    ("F08", |context| outage_of_everything(context).boxed()),
    ("F09", |context| poison(context).boxed()),
];

/// A fixture with the ordinary workload.
async fn fixture_under_load(
    context: &RunContext,
    options: FixtureOptions,
) -> Result<(Fixture, JoinHandle<Result<()>>)> {
    let fixture = Fixture::start(context, options).await?;
    let workload = fixture.start_workload(Workload::of(context.items, context.seed))?;
    Ok((fixture, workload))
}

/// F01: servers are killed and restarted.
async fn killed_servers(context: &RunContext) -> Result<ScenarioOutcome> {
    let (fixture, workload) = fixture_under_load(context, FixtureOptions::default()).await?;
    let repetition = (scaled(context, 6, 60), Duration::from_secs(2));
    run_with_disturbance(context, fixture, workload, repetition, kill_a_server, |n| {
        format!("one of two servers killed and restarted {n} times")
    })
    .await
}

fn kill_a_server(fixture: &mut Fixture, _: usize) -> BoxFuture<'_, Result<()>> {
    let at = rand::random_range(0..fixture.servers.len());
    fixture.servers[at].restart().boxed()
}

/// F03: several servers, each of which runs every background task.
async fn many_servers(context: &RunContext) -> Result<ScenarioOutcome> {
    let (fixture, workload) =
        fixture_under_load(context, FixtureOptions { servers: 5, workers: 5, slots: 6, ..FixtureOptions::default() })
            .await?;
    // Leases are lost and items become due all the time, so that the background tasks compete.
    let repetition = (4, Duration::from_millis(1_500));
    run_with_disturbance(context, fixture, workload, repetition, kill_a_worker, |n| {
        format!("5 servers that all run maintenance; a worker killed {n} times")
    })
    .await
}

fn kill_a_worker(fixture: &mut Fixture, _: usize) -> BoxFuture<'_, Result<()>> {
    let at = rand::random_range(0..fixture.workers.len());
    async move { fixture.workers[at].restart().await }.boxed()
}

/// F04: servers are stopped and restarted, one after the other, while streams are open.
async fn rolling_restarts(context: &RunContext) -> Result<ScenarioOutcome> {
    let (fixture, workload) =
        fixture_under_load(context, FixtureOptions { servers: 3, ..FixtureOptions::default() }).await?;
    let opened = Arc::new(AtomicUsize::new(0));
    let mut listeners = JoinSet::new();
    for at in 0..15 {
        listeners.spawn(listen(fixture.servers[at % 3].url(), Arc::clone(&opened)));
    }
    let repetition = (scaled(context, 6, 30), Duration::from_millis(500));
    let streams = || opened.load(Ordering::Relaxed);
    let outcome = run_with_disturbance(context, fixture, workload, repetition, stop_and_start, |n| {
        format!(
            "3 servers stopped and started in turn, {n} times, with 15 event streams open; {} streams opened in \
             total",
            streams()
        )
    })
    .await?;
    ensure_tested(&outcome, streams() > 15, || {
        format!("{} streams were opened: none was closed by a restart", streams())
    })?;
    Ok(outcome)
}

fn stop_and_start(fixture: &mut Fixture, n: usize) -> BoxFuture<'_, Result<()>> {
    async move {
        let server = &mut fixture.servers[n % 3];
        let status = server.process.terminate().await?;
        ensure!(status.success(), "a server that was told to stop ended with {status}");
        server.start().await
    }
    .boxed()
}

/// Keeps a stream of all trees open, reopens it after each end, and counts how often it was opened.
async fn listen(url: String, opened: Arc<AtomicUsize>) {
    let client = reqwest::Client::new();
    loop {
        let stream = client.get(format!("{url}/api/v1/events")).bearer_auth(crate::fixture::TOKEN).send().await;
        if let Ok(mut stream) = stream
            && stream.status().is_success()
        {
            opened.fetch_add(1, Ordering::Relaxed);
            while let Ok(Some(_)) = stream.chunk().await {}
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// F05: workers are killed and replaced.
async fn killed_workers(context: &RunContext) -> Result<ScenarioOutcome> {
    let (fixture, workload) = fixture_under_load(context, FixtureOptions::default()).await?;
    let repetition = (scaled(context, 12, 60), Duration::from_millis(700));
    run_with_disturbance(context, fixture, workload, repetition, kill_a_worker, |n| {
        format!("a worker process killed and replaced, {n} times")
    })
    .await
}

/// F06: workers that ignore their leases are paused past them, resumed, and report their results.
async fn stopped_workers(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut fixture = Fixture::start(context, FixtureOptions::default()).await?;
    for at in 0..4 {
        fixture.add_worker(at % 2, &["plain", "once", "serial", "capped", "stage-1", "stage-2", "stage-3"], true)?;
    }
    let workload = fixture.start_workload(Workload::of(context.items, context.seed))?;
    let repetition = (scaled(context, 4, 30), Duration::from_millis(300));
    let describe = |n| format!("two worker processes frozen for longer than their lease and resumed, {n} times");
    let outcome = run_with_disturbance(context, fixture, workload, repetition, hold_two_workers, describe).await?;
    ensure_tested(&outcome, outcome.verdict.refused_late > 0, || "no result came late".to_owned())?;
    Ok(outcome)
}

fn hold_two_workers(fixture: &mut Fixture, n: usize) -> BoxFuture<'_, Result<()>> {
    async move {
        // A careful worker and a stubborn one.
        let pair = [n % 4, 4 + n % 4];
        for at in pair {
            fixture.workers[at].pause()?;
        }
        let more = rand::random_range(300..1_500);
        tokio::time::sleep(LEASE + Duration::from_millis(more)).await;
        for at in pair {
            fixture.workers[at].resume()?;
        }
        Ok(())
    }
    .boxed()
}

/// F07: a server is paused for two leases and resumed.
async fn a_stopped_server(context: &RunContext) -> Result<ScenarioOutcome> {
    let (fixture, workload) = fixture_under_load(context, FixtureOptions::default()).await?;
    let repetition = (scaled(context, 2, 20), Duration::from_millis(1_500));
    run_with_disturbance(context, fixture, workload, repetition, hold_a_server, |n| {
        format!("one of two servers frozen for the length of two leases and resumed, {n} times")
    })
    .await
}

fn hold_a_server(fixture: &mut Fixture, n: usize) -> BoxFuture<'_, Result<()>> {
    async move {
        let server = &mut fixture.servers[n % 2];
        server.process.pause()?;
        tokio::time::sleep(LEASE * 2).await;
        server.process.resume()?;
        server.wait_until_ready(Duration::from_secs(20)).await
    }
    .boxed()
}

/// Duration of an outage: longer than a lease of 5.1 s, and than the five seconds after which an outage is detected.
const AWAY: Duration = Duration::from_secs(7);

/// F08: all servers, then PostgreSQL, are down for longer than a lease while workers continue.
async fn outage_of_everything(context: &RunContext) -> Result<ScenarioOutcome> {
    // Workers that ignore their leases report their results after the outage, unless the item was reassigned.
    let mut fixture =
        Fixture::start(context, FixtureOptions { workers: 0, work_ms: 300, ..FixtureOptions::default() }).await?;
    // These workers never renew a lease: with the usual 2.1 s, a disk that is busy for 1.7 s would end their leases, and
    // that is neither an outage nor recorded as a standstill of the machine.
    let client = fixture.client(0)?;
    for name in ["plain", "once", "serial"] {
        client.patch_job_type(name, &json!({"heartbeat_seconds": 1.7}), None).await?;
    }
    for at in 0..4 {
        fixture.add_worker(at % 2, &["plain", "once", "serial"], true)?;
    }
    let only = vec!["plain", "once", "serial"];
    let workload =
        fixture.start_workload(Workload { only, cancels: 0, ..Workload::of(context.items, context.seed) })?;
    let rounds = scaled(context, 1, 10);
    let mut open_count = 0;
    let mut outages = Vec::new();
    for round in 0..rounds {
        let mode = [StopMode::Immediate, StopMode::Fast, StopMode::Killed][round % 3];
        tokio::time::sleep(Duration::from_secs(2)).await;
        open_count += open_leases(&fixture).await?;
        outages.push(SystemTime::UNIX_EPOCH.elapsed()?.as_micros());
        for server in &mut fixture.servers {
            server.process.kill().await?;
        }
        tokio::time::sleep(AWAY).await;
        for server in &mut fixture.servers {
            server.start().await?;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        open_count += open_leases(&fixture).await?;
        outages.push(SystemTime::UNIX_EPOCH.elapsed()?.as_micros());
        tokio::task::block_in_place(|| context.postgres.stop(mode))?;
        tokio::time::sleep(AWAY).await;
        tokio::task::block_in_place(|| context.postgres.start_again())?;
    }
    let done =
        format!("all servers killed for 7 s, then PostgreSQL, {rounds} times each, with {open_count} items assigned");
    let mut outcome = end(context, fixture, workload, done).await?;
    ensure_tested(&outcome, open_count > 0, || "no worker held an item".to_owned())?;
    let (lost, repeated) = (outcome.verdict.leases_lost, outcome.verdict.repeated);
    if lost + repeated > 0 {
        let what = format!(
            "{lost} leases of healthy workers were lost, {repeated} items assigned again; first and last loss: {:?} µs \
             since 1970; outages from {outages:?}",
            outcome.verdict.lost_between_us
        );
        outcome.verdict.add_finding(Kind::NotInTime, what);
    }
    Ok(outcome)
}

async fn open_leases(fixture: &Fixture) -> Result<i64> {
    Ok(sqlx::query_scalar("select count(*) from lease").fetch_one(&fixture.pool).await?)
}

/// F09: items that kill their worker.
async fn poison(context: &RunContext) -> Result<ScenarioOutcome> {
    let count = scaled(context, 4, 20);
    let mut fixture = Fixture::start(context, FixtureOptions { slots: 4, ..FixtureOptions::default() }).await?;
    let workload =
        fixture.start_workload(Workload { poison: count, ..Workload::of(context.items / 2, context.seed) })?;
    let mut deaths = 0;
    let began = Instant::now();
    // Dead workers are always restarted; each death delays three other items by a lease.
    while !(workload.is_finished() && fixture.is_drained().await == Some(true)) {
        ensure!(
            began.elapsed() < drain_timeout(context) * 2,
            "items that kill their worker do not become dead letters"
        );
        for worker in &mut fixture.workers {
            replace_dead(worker)?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for worker in &fixture.workers {
        deaths += worker.starts - 1;
    }
    let dead = "select count(*) from outcome o join item i on i.id = o.item_id where i.dedupe_key like 'poison-%' and o.state = 2";
    let dead: i64 = sqlx::query_scalar(dead).fetch_one(&fixture.pool).await?;
    ensure!(dead == count as i64, "{dead} of {count} items that kill their worker are dead letters");
    let done = format!("{count} items that kill their worker: {deaths} workers died, {dead} dead letters");
    let outcome = end(context, fixture, workload, done).await?;
    ensure_tested(&outcome, deaths > count, || format!("{deaths} workers died of {count} items"))?;
    Ok(outcome)
}

fn replace_dead(worker: &mut Process) -> Result<()> {
    worker.try_wait()?;
    if worker.is_running() { Ok(()) } else { worker.start() }
}
