//! F12: a database with high latency. No live worker loses an item because of it.
//!
//! At two seconds per round trip, only lost leases are violations. The share of heartbeats answered before the next is
//! due is only reported, because authentication then waits for a connection of the pages' pool.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::Result;
use futures::future::{join_all, try_join_all};
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::super::{Played, end, scaled};
use crate::{
    checker::Kind,
    load::{self, Load},
    proxy::{Mode, Proxy},
    raw::{Api, id, quantile},
    scene::Scene,
    stage::{House, Setting, Stage, TOKEN},
};

const FAR: Duration = Duration::from_millis(200);
const VERY_FAR: Duration = Duration::from_secs(2);
/// Heartbeat interval of the items at two seconds of latency, and the limit for one heartbeat.
const BEAT: Duration = Duration::from_secs(10);

/// Runs a workload at 200 ms per round trip, and in parallel only heartbeats at two seconds.
pub(crate) async fn play(house: &House) -> Result<Played> {
    let (played, beats) = tokio::join!(far(house), very_far(house));
    let (mut played, beats) = (played?, beats?);
    let near = std::mem::take(&mut played.done);
    played.done = format!(
        "{near}; {} s away for {} heartbeats, {:.1} % answered before the next was due, the slowest after {} ms, {} leases lost",
        VERY_FAR.as_secs(),
        beats.sent,
        beats.share() * 100.0,
        beats.slowest.as_millis(),
        beats.lost
    );
    if beats.lost > 0 {
        played.verdict.find(Kind::Story, format!("{} leases were lost at {VERY_FAR:?}", beats.lost));
    }
    Ok(played)
}

/// Servers with 200 ms of latency to the database.
async fn far(house: &House) -> Result<Played> {
    let mut stage = Stage::set(house, Setting { workers: 0, slots: 64, ..Setting::default() }).await?;
    let wire = Proxy::to(SocketAddr::from(([127, 0, 0, 1], house.postgres.port))).await?;
    let direct = house.postgres.url(&stage.database);
    let far = direct.replace(&format!(":{}/", house.postgres.port), &format!(":{}/", wire.port()));
    for server in &mut stage.servers {
        server.process.kill().await?;
        server.process.set("DATABASE_URL", &far);
        server.start().await?;
    }
    // With this latency a transaction takes two seconds: use leases that are ten times as long.
    let api = Api::new(&stage.servers[0].url(), TOKEN)?;
    for name in load::TYPES {
        let patient = json!({"heartbeat_seconds": 7, "max_failures": if name == "once" { 1 } else { 2 }});
        api.send(Method::PATCH, &format!("/job-types/{name}"), Some(&patient)).await?.ok()?;
    }
    // No caps, serialize keys or levels: there one transaction waits for another, and each takes seconds.
    for at in 0..4 {
        stage.add_worker(at % 2, &["plain", "once"], false)?;
    }
    wire.set(Mode::Delay(FAR));
    let offered = Load { only: vec!["plain", "once", "trees"], cancels: 0, ..Load::of(house.items / 5, house.seed) };
    let load = stage.load(offered)?;
    let mut played = end(house, stage, load, String::new()).await?;
    // Nothing was killed or unreachable here.
    let lost = played.verdict.leases_lost;
    if lost > 0 {
        played.verdict.find(Kind::Story, format!("{lost} leases of healthy workers were lost at {FAR:?}"));
    }
    let items = played.verdict.acknowledged;
    played.done = format!("the database {} ms away for {items} items, {lost} leases lost", FAR.as_millis());
    Ok(played)
}

/// Statistics of heartbeats.
struct Beats {
    sent: usize,
    late: usize,
    slowest: Duration,
    /// Leases that were lost although they were renewed.
    lost: i64,
}

impl Beats {
    fn share(&self) -> f64 {
        1.0 - self.late as f64 / self.sent.max(1) as f64
    }
}

/// Sends heartbeats for items every ten seconds, while other clients add trees.
async fn very_far(house: &House) -> Result<Beats> {
    let (items, length) = (400, BEAT * scaled(house, 3, 12));
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    let api = &served.api;
    api.put_type("far", &json!({"heartbeat_seconds": BEAT.as_secs()})).await?;
    let list: Vec<Value> = (0..items).map(|n| json!({"payload": n})).collect();
    api.tree(&json!({"type": "far", "sealed": true, "items": list})).await?;
    let held = api.claim("far", items).await?;
    scene.wire.set(Mode::Delay(VERY_FAR));
    let begun = Instant::now();
    let beating = try_join_all(held.iter().map(|one| async {
        let (path, mut took) = (format!("/assignments/{}/heartbeat", id(one)?), Vec::new());
        // Not all at once.
        sleep(BEAT.mul_f64(rand::random())).await;
        while begun.elapsed() < length {
            let asked = Instant::now();
            let kept = api.post(&path, &json!({})).await.is_ok_and(|answer| answer.status == 200);
            took.push((asked.elapsed(), kept));
            sleep(BEAT.saturating_sub(asked.elapsed())).await;
        }
        anyhow::Ok(took)
    }));
    let adding = join_all((0..30).map(|n| async move {
        while begun.elapsed() < length {
            let tree = json!({"type": "far", "sealed": true, "items": [{"payload": n}]});
            // Ignore the response: only heartbeats are measured.
            let _ = api.post("/jobs", &tree).await;
        }
    }));
    let (beats, _) = tokio::join!(beating, adding);
    scene.wire.set(Mode::Pass);
    let took: Vec<(Duration, bool)> = beats?.into_iter().flatten().collect();
    let late = took.iter().filter(|(took, kept)| !kept || *took > BEAT).count();
    let slowest = quantile(&mut took.iter().map(|beat| beat.0).collect::<Vec<_>>(), 1.0);
    let lost = scene.number("select count(*) from attempt where ended_as = 3").await?;
    served.server.process.kill().await?;
    Ok(Beats { sent: took.len(), late, slowest, lost })
}
