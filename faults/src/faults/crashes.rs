//! Servers that crash at every commit: just before it, just after it, and before the response is sent.
//!
//! The points are found in the server's source: every commit goes through `store::commit`, which a test of the
//! conventions enforces. Each start arms all points that have not been reached often enough; the first one reached
//! crashes the server. Two fixtures share the points: one with the ordinary workload, and one with all other actions.

mod deeds; // all other actions

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::{FutureExt as _, future::BoxFuture};
use tokio::{runtime::Handle, task::block_in_place};

use super::{Played, Story, broker::a_vhost, end, scaled};
use crate::{
    checker,
    load::Load,
    receiver::Receiver,
    scene::{Scene, Served},
    stage::{
        House, Setting, Stage,
        process::{Server, is_abort},
    },
    told::Told,
};

pub(super) const FAULTS: &[(&str, Story)] = &[("F02", |house| on_one_thread(house))];

/// Runs on the current thread, because its two fixtures share the stack.
fn on_one_thread(house: &House) -> BoxFuture<'_, Result<Played>> {
    async move { block_in_place(|| Handle::current().block_on(at_every_commit(house))) }.boxed()
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
}

/// F02.
async fn at_every_commit(house: &House) -> Result<Played> {
    let (wanted, time) = scaled(house, (1, Duration::from_secs(45)), (50, Duration::from_mins(30)));
    let reached = Mutex::new(points()?.into_iter().map(|point| (point, 0)).collect());
    let tally = Tally { reached, wanted };
    let (ordinary, rounds) = tokio::try_join!(under_load(house, &tally, time), beside_it(house, &tally, time))?;
    let Played { verdict: rounds, done: did } = rounds.played();
    let mut played = ordinary;
    played.verdict.add(rounds);
    let reached = tally.reached.into_inner().unwrap_or_else(PoisonError::into_inner);
    let (crashes, all) = (reached.values().sum::<usize>(), reached.len());
    let never: Vec<&str> = reached.iter().filter(|(_, n)| **n == 0).map(|(point, _)| point.as_str()).collect();
    ensure!(crashes > 0, "no server crashed in {time:?}");
    let missed = if never.is_empty() { String::new() } else { format!("; not reached: {}", never.join(", ")) };
    played.done = format!(
        "{crashes} crashes at {} of the {all} points before and after every commit and before the answer; {did}{missed}",
        all - never.len()
    );
    Ok(played)
}

/// Runs the ordinary workload.
async fn under_load(house: &House, tally: &Tally, time: Duration) -> Result<Played> {
    let mut stage = Stage::set(house, Setting::default()).await?;
    let load = stage.load(Load { calls_a_second: Some(4.0), cancels: 6, ..Load::of(house.items, house.seed) })?;
    let began = Instant::now();
    for server in &mut stage.servers {
        server.process.kill().await?;
        arm(server, tally, 30..120)?;
    }
    while began.elapsed() < time && !(load.is_finished() && stage.is_drained().await == Some(true)) {
        for server in &mut stage.servers {
            look(server, tally, 30..120)?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for server in &mut stage.servers {
        disarm(server).await?;
    }
    end(house, stage, load, String::new()).await
}

/// Runs all other actions, until every point was reached or the time is over.
async fn beside_it(house: &House, tally: &Tally, time: Duration) -> Result<Told> {
    let scene = Scene::new(house, "").await?;
    let receiver = Receiver::listen(scene.folder().join("receiver")).await?;
    let (broker, _vhost) = a_vhost().await;
    // Short intervals, so that background tasks run all the time.
    let busy = [
        ("AMQP_URL", broker.as_str()),
        ("TREELINE_BROKER_RESEND_SECONDS", "1"),
        ("TREELINE_UPLOAD_TTL_SECONDS", "30"),
        ("TREELINE_CALLBACK_RETRY_SECONDS", "0.3"),
        ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "1"),
    ];
    let mut served = [scene.serve(&busy).await?, scene.serve(&busy).await?];
    let caller = deeds::Caller::new(served.iter().map(|one| one.server.url()).collect(), receiver.addr().port())?;
    caller.put_types().await?;
    let (over, mended) = (AtomicBool::new(false), AtomicBool::new(false));
    let began = Instant::now();
    let timing = async {
        while began.elapsed() < time && !tally.open().is_empty() && !over.load(Relaxed) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        over.store(true, Relaxed);
    };
    let doing = async {
        let went = Box::pin(caller.everything(&over)).await;
        over.store(true, Relaxed);
        mended.store(true, Relaxed);
        went
    };
    let ((), went, killed) = tokio::join!(timing, doing, kill_and_mend(&mut served, tally, &mended));
    killed?;
    let mut told = Told::new(String::new());
    told.must(went);
    told.must(caller.ended_operations().await);
    told.must(scene.drain(&served[0].api, &deeds::TYPES, Duration::from_secs(30)).await);
    told.acknowledged = caller.done() as u64;
    told.did = format!("{} deeds of callers and people beside it, each looked for", caller.done());
    let open = "select count(*) from delivery where state = 1";
    let settled = crate::raw::until("every callback is settled", Duration::from_secs(20), async || {
        Ok(scene.number(open).await? == 0)
    });
    told.must(settled.await);
    told.callbacks = checker::judge_callbacks(&scene.pool, caller.told(), receiver.heard()?).await?;
    told.whole(&scene, &[&served[0], &served[1]]).await?;
    for server in &mut served {
        server.stop().await?;
    }
    Ok(told)
}

/// Restarts crashed servers until `over`; then disarms all of them.
async fn kill_and_mend(served: &mut [Served], tally: &Tally, over: &AtomicBool) -> Result<()> {
    for one in &mut *served {
        one.server.process.kill().await?;
        arm(&mut one.server, tally, 2..8)?;
    }
    while !over.load(Relaxed) {
        for one in &mut *served {
            look(&mut one.server, tally, 2..8)?;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for one in served.iter_mut() {
        // It may have crashed just now.
        if !look_once(&mut one.server, tally)? {
            one.server.process.kill().await?;
        }
        disarm(&mut one.server).await?;
    }
    Ok(())
}

/// Counts a crash, and restarts the server with the remaining points.
fn look(server: &mut Server, tally: &Tally, busy: std::ops::Range<usize>) -> Result<()> {
    if look_once(server, tally)? { arm(server, tally, busy) } else { Ok(()) }
}

/// Counts a crash. Returns true if there was one.
fn look_once(server: &mut Server, tally: &Tally) -> Result<bool> {
    let Some(status) = server.process.look()? else { return Ok(false) };
    let log = std::fs::read_to_string(server.process.log())?;
    ensure!(is_abort(status), "a server ended with {status}; its log ends {:?}", log.lines().last());
    let (_, point) = log.rsplit_once("crashed on purpose: ").context("a crash that nobody asked for")?;
    tally.count(point.lines().next().unwrap_or_default().trim());
    Ok(true)
}

/// Starts a server that crashes at the first of the points that it reaches. A point that is passed all the time must be
/// passed `busy` times before it crashes, so that the others are reached, too.
fn arm(server: &mut Server, tally: &Tally, busy: std::ops::Range<usize>) -> Result<()> {
    let open = tally.open().into_iter().map(|point| {
        let always = ["jobs/work", "jobs/figures", "jobs/tend", "jobs/outbox", "http/"];
        let passed = if always.iter().any(|file| point.contains(file)) { busy.clone() } else { 0..2 };
        format!("{point}={}*off->return", rand::random_range(passed))
    });
    let points = open.collect::<Vec<_>>().join(";");
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
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../server/src");
    let mut points = vec!["before_reply:http/layers".to_owned()];
    let mut folders = vec![source.clone()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs")
                && std::fs::read_to_string(&path)?.contains("commit(tx)")
                && !path.ends_with("store/commit.rs")
            {
                let place = path.strip_prefix(&source)?.with_extension("").display().to_string();
                points.extend([format!("before_commit:{place}"), format!("after_commit:{place}")]);
            }
        }
    }
    Ok(points)
}
