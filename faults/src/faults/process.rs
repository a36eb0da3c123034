//! Faults of processes: servers and workers that are killed, stopped, paused and restarted.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::task::{JoinHandle, JoinSet};

use super::{Played, Story, around, end, patience, scaled};
use crate::{
    checker::Kind,
    load::Load,
    stage::{House, LEASE, Setting, Stage, postgres::Going, process::Process},
};

pub(super) const FAULTS: &[(&str, Story)] = &[
    ("F01", |house| killed_servers(house).boxed()),
    ("F03", |house| many_servers(house).boxed()),
    ("F04", |house| rolling_restarts(house).boxed()),
    ("F05", |house| killed_workers(house).boxed()),
    ("F06", |house| held_workers(house).boxed()),
    ("F07", |house| a_held_server(house).boxed()),
    ("F08", |house| everybody_away(house).boxed()),
    ("F09", |house| poison(house).boxed()),
];

/// A fixture with the ordinary workload.
async fn loaded(house: &House, setting: Setting) -> Result<(Stage, JoinHandle<Result<()>>)> {
    let stage = Stage::set(house, setting).await?;
    let load = stage.load(Load::of(house.items, house.seed))?;
    Ok((stage, load))
}

/// F01: servers are killed and restarted.
async fn killed_servers(house: &House) -> Result<Played> {
    let (stage, load) = loaded(house, Setting::default()).await?;
    let often = (scaled(house, 6, 60), Duration::from_secs(2));
    around(house, stage, load, often, kill_a_server, |n| {
        format!("one of two servers killed and started again, {n} times")
    })
    .await
}

fn kill_a_server(stage: &mut Stage, _: usize) -> BoxFuture<'_, Result<()>> {
    let at = rand::random_range(0..stage.servers.len());
    stage.servers[at].again().boxed()
}

/// F03: several servers, each of which runs every background task.
async fn many_servers(house: &House) -> Result<Played> {
    let (stage, load) = loaded(house, Setting { servers: 5, workers: 5, slots: 6, ..Setting::default() }).await?;
    // Leases are lost and items become due all the time, so that the background tasks compete.
    let often = (4, Duration::from_millis(1_500));
    around(house, stage, load, often, kill_a_worker, |n| format!("5 servers at every duty, a worker killed {n} times"))
        .await
}

fn kill_a_worker(stage: &mut Stage, _: usize) -> BoxFuture<'_, Result<()>> {
    let at = rand::random_range(0..stage.workers.len());
    async move { stage.workers[at].again().await }.boxed()
}

/// F04: servers are stopped and restarted, one after the other, while streams are open.
async fn rolling_restarts(house: &House) -> Result<Played> {
    let (stage, load) = loaded(house, Setting { servers: 3, ..Setting::default() }).await?;
    let opened = Arc::new(AtomicUsize::new(0));
    let mut listeners = JoinSet::new();
    for at in 0..15 {
        listeners.spawn(listen(stage.servers[at % 3].url(), Arc::clone(&opened)));
    }
    let often = (scaled(house, 6, 30), Duration::from_millis(500));
    let streams = || opened.load(Ordering::Relaxed);
    let played = around(house, stage, load, often, stop_and_start, |n| {
        format!(
            "3 servers stopped and started in turn, {n} times, 15 streams open; {} streams opened in all",
            streams()
        )
    })
    .await?;
    ensure!(streams() > 15, "{} streams were opened: none was closed by a restart", streams());
    Ok(played)
}

fn stop_and_start(stage: &mut Stage, n: usize) -> BoxFuture<'_, Result<()>> {
    async move {
        let server = &mut stage.servers[n % 3];
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
        let stream = client.get(format!("{url}/api/v1/events")).bearer_auth(crate::stage::TOKEN).send().await;
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
async fn killed_workers(house: &House) -> Result<Played> {
    let (stage, load) = loaded(house, Setting::default()).await?;
    let often = (scaled(house, 12, 60), Duration::from_millis(700));
    around(house, stage, load, often, kill_a_worker, |n| format!("a worker process killed and replaced, {n} times"))
        .await
}

/// F06: workers that ignore their leases are paused past them, resumed, and report their results.
async fn held_workers(house: &House) -> Result<Played> {
    let mut stage = Stage::set(house, Setting::default()).await?;
    for at in 0..4 {
        stage.add_worker(at % 2, &["plain", "once", "serial", "capped", "stage-1", "stage-2", "stage-3"], true)?;
    }
    let load = stage.load(Load::of(house.items, house.seed))?;
    let often = (scaled(house, 4, 30), Duration::from_millis(300));
    let say = |n| format!("two worker processes held past their lease and let go, {n} times");
    let played = around(house, stage, load, often, hold_two_workers, say).await?;
    ensure!(played.verdict.refused_late > 0, "no result came late: nothing was tested");
    Ok(played)
}

fn hold_two_workers(stage: &mut Stage, n: usize) -> BoxFuture<'_, Result<()>> {
    async move {
        // A careful worker and a stubborn one.
        let pair = [n % 4, 4 + n % 4];
        for at in pair {
            stage.workers[at].pause()?;
        }
        let more = rand::random_range(300..1_500);
        tokio::time::sleep(LEASE + Duration::from_millis(more)).await;
        for at in pair {
            stage.workers[at].resume()?;
        }
        Ok(())
    }
    .boxed()
}

/// F07: a server is paused for two leases and resumed.
async fn a_held_server(house: &House) -> Result<Played> {
    let (stage, load) = loaded(house, Setting::default()).await?;
    let often = (scaled(house, 2, 20), Duration::from_millis(1_500));
    around(house, stage, load, often, hold_a_server, |n| {
        format!("one of two servers held for two leases and let go, {n} times")
    })
    .await
}

fn hold_a_server(stage: &mut Stage, n: usize) -> BoxFuture<'_, Result<()>> {
    async move {
        let server = &mut stage.servers[n % 2];
        server.process.pause()?;
        tokio::time::sleep(LEASE * 2).await;
        server.process.resume()?;
        server.serves(Duration::from_secs(20)).await
    }
    .boxed()
}

/// Duration of an outage: longer than a lease, and than the five seconds after which an outage is detected.
const AWAY: Duration = Duration::from_secs(7);

/// F08: all servers, then PostgreSQL, are down for longer than a lease while workers continue.
async fn everybody_away(house: &House) -> Result<Played> {
    // Workers that ignore their leases report their results after the outage, unless the item was reassigned.
    let mut stage = Stage::set(house, Setting { workers: 0, work_ms: 300, ..Setting::default() }).await?;
    for at in 0..4 {
        stage.add_worker(at % 2, &["plain", "once", "serial"], true)?;
    }
    let only = vec!["plain", "once", "serial"];
    let load = stage.load(Load { only, cancels: 0, ..Load::of(house.items, house.seed) })?;
    let rounds = scaled(house, 1, 10);
    let mut held = 0;
    for round in 0..rounds {
        let going = [Going::Immediate, Going::Fast, Going::Killed][round % 3];
        tokio::time::sleep(Duration::from_secs(2)).await;
        held += open_leases(&stage).await?;
        for server in &mut stage.servers {
            server.process.kill().await?;
        }
        tokio::time::sleep(AWAY).await;
        for server in &mut stage.servers {
            server.start().await?;
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        held += open_leases(&stage).await?;
        tokio::task::block_in_place(|| house.postgres.go(going))?;
        tokio::time::sleep(AWAY).await;
        tokio::task::block_in_place(|| house.postgres.come_back())?;
    }
    ensure!(held > 0, "nobody held anything: nothing was tested");
    let done = format!("all servers killed for 7 s, then PostgreSQL, {rounds} times each, with {held} items in hand");
    let mut played = end(house, stage, load, done).await?;
    let (lost, repeated) = (played.verdict.leases_lost, played.verdict.repeated);
    if lost + repeated > 0 {
        let what = format!("{lost} leases of healthy workers were lost, {repeated} items begun again");
        played.verdict.find(Kind::Story, what);
    }
    Ok(played)
}

async fn open_leases(stage: &Stage) -> Result<i64> {
    Ok(sqlx::query_scalar("select count(*) from lease").fetch_one(&stage.pool).await?)
}

/// F09: items that kill their worker.
async fn poison(house: &House) -> Result<Played> {
    let count = scaled(house, 4, 20);
    let mut stage = Stage::set(house, Setting { slots: 4, ..Setting::default() }).await?;
    let load = stage.load(Load { poison: count, ..Load::of(house.items / 2, house.seed) })?;
    let mut deaths = 0;
    let began = Instant::now();
    // Dead workers are always restarted; each death delays three other items by a lease.
    while !(load.is_finished() && stage.is_drained().await == Some(true)) {
        ensure!(began.elapsed() < patience(house) * 2, "items that kill are not put aside");
        for worker in &mut stage.workers {
            replace_dead(worker)?;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for worker in &stage.workers {
        deaths += worker.starts - 1;
    }
    ensure!(deaths > count, "{deaths} workers died of {count} items: nothing was tested");
    let dead = "select count(*) from outcome o join item i on i.id = o.item_id where i.dedupe_key like 'poison-%' and o.state = 2";
    let dead: i64 = sqlx::query_scalar(dead).fetch_one(&stage.pool).await?;
    ensure!(dead == count as i64, "{dead} of {count} items that kill are dead letters");
    end(house, stage, load, format!("{count} items that kill their worker: {deaths} workers died, {dead} dead letters"))
        .await
}

fn replace_dead(worker: &mut Process) -> Result<()> {
    worker.look()?;
    if worker.is_running() { Ok(()) } else { worker.start() }
}
