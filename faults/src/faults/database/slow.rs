//! F12: a database that is far away. Nobody who is alive loses an item by that.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::Result;
use serde_json::{Value, json};

use super::super::{Played, end};
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

/// Everything that is offered, at 200 ms a round trip; then heartbeats alone, at two seconds.
pub(crate) async fn play(house: &House) -> Result<Played> {
    let mut stage = Stage::set(house, Setting { workers: 0, ..Setting::default() }).await?;
    let wire = Proxy::to(SocketAddr::from(([127, 0, 0, 1], house.postgres.port))).await?;
    let direct = house.postgres.url(&stage.database);
    let far = direct.replace(&format!(":{}/", house.postgres.port), &format!(":{}/", wire.port()));
    for server in &mut stage.servers {
        server.process.kill().await?;
        server.process.set("DATABASE_URL", &far);
        server.start().await?;
    }
    for server in 0..stage.servers.len() {
        stage.add_worker(server, &load::TYPES, false)?;
    }
    // At this distance a transaction takes a second: leases are those of a patient type, twenty times as long as that.
    let api = Api::new(&stage.servers[0].url(), TOKEN)?;
    for name in load::TYPES {
        let patient = json!({"heartbeat_seconds": 7});
        api.send(reqwest::Method::PATCH, &format!("/job-types/{name}"), Some(&patient)).await?.ok()?;
    }
    wire.set(Mode::Delay(FAR));
    let items = house.items / 10;
    // A few kinds are enough for workers to hold something all the time.
    let load = Load { only: vec!["plain", "once", "serial"], cancels: 0, ..Load::of(items, house.seed) };
    let load = stage.load(load)?;
    let mut played = end(house, stage, load, String::new()).await?;
    // Nobody was killed here, and nobody was away.
    let lost = played.verdict.leases_lost;
    if lost > 0 {
        played.verdict.find(Kind::Story, format!("{lost} leases of healthy workers were lost at {FAR:?}"));
    }
    let (beats, slowest, failed) = heartbeats(house).await?;
    if failed > 0 {
        played
            .verdict
            .find(Kind::Story, format!("{failed} of {beats} heartbeats were not answered in time at {VERY_FAR:?}"));
    }
    played.done = format!(
        "the database {} ms away for {items} items, then {} s for {beats} heartbeats of 50 items, the slowest {} ms",
        FAR.as_millis(),
        VERY_FAR.as_secs(),
        slowest.as_millis()
    );
    Ok(played)
}

/// Fifty items whose workers send heartbeats every ten seconds, among others who add.
async fn heartbeats(house: &House) -> Result<(usize, Duration, usize)> {
    const BEAT: Duration = Duration::from_secs(10);
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    let api = &served.api;
    api.put_type("far", &json!({"heartbeat_seconds": BEAT.as_secs()})).await?;
    let items: Vec<Value> = (0..50).map(|n| json!({"payload": n})).collect();
    api.tree(&json!({"type": "far", "sealed": true, "items": items})).await?;
    let held = api.claim("far", 50).await?;
    // The connections are there: making one takes several round trips, and longer than anybody waits for one.
    for one in &held {
        api.post(&format!("/assignments/{}/heartbeat", id(one)?), &json!({})).await?.ok()?;
    }
    scene.wire.set(Mode::Delay(VERY_FAR));
    let begun = Instant::now();
    let length = BEAT * 2;
    let beating = futures::future::try_join_all(held.iter().map(|one| async {
        let (path, mut took) = (format!("/assignments/{}/heartbeat", id(one)?), Vec::new());
        // Not all at once.
        tokio::time::sleep(BEAT.mul_f64(rand::random())).await;
        while begun.elapsed() < length {
            let asked = Instant::now();
            let kept = api.post(&path, &json!({})).await.is_ok_and(|answer| answer.status == 200);
            took.push((asked.elapsed(), kept));
            tokio::time::sleep(BEAT.saturating_sub(asked.elapsed())).await;
        }
        anyhow::Ok(took)
    }));
    let adding = futures::future::join_all((0..30).map(|n| async move {
        while begun.elapsed() < length {
            let tree = json!({"type": "far", "sealed": true, "items": [{"payload": n}]});
            // Refused or taken: it is heartbeats that are looked at.
            let _ = api.post("/jobs", &tree).await;
        }
    }));
    let (beats, _) = tokio::join!(beating, adding);
    scene.wire.set(Mode::Pass);
    let beats: Vec<(Duration, bool)> = beats?.into_iter().flatten().collect();
    let failed = beats.iter().filter(|(took, kept)| !kept || *took > BEAT).count();
    let slowest = quantile(&mut beats.iter().map(|beat| beat.0).collect::<Vec<_>>(), 1.0);
    // A heartbeat that came too late shows in the tables as well.
    let lost = scene.number("select count(*) from attempt").await? as usize;
    served.stop().await?;
    Ok((beats.len(), slowest, failed + lost))
}
