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

use super::super::{ScenarioOutcome, end, scaled};
use crate::{
    checker::Kind,
    fixture::{Fixture, FixtureOptions, RunContext, TOKEN},
    proxy::{Mode, Proxy},
    proxy_fixture::ProxyFixture,
    raw::{Api, id, quantile},
    workload::{self, Workload},
};

const FAR: Duration = Duration::from_millis(200);
const VERY_FAR: Duration = Duration::from_secs(2);
/// Heartbeat interval of the items at two seconds of latency, and the limit for one heartbeat.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);

/// Runs a workload at 200 ms per round trip, and in parallel only heartbeats at two seconds.
pub(crate) async fn run(context: &RunContext) -> Result<ScenarioOutcome> {
    let (outcome, heartbeats) = tokio::join!(far(context), very_far(context));
    let (mut outcome, heartbeats) = (outcome?, heartbeats?);
    let near = std::mem::take(&mut outcome.done);
    outcome.done = format!(
        "{near}; latency of {} s for {} heartbeats: {:.1} % answered before the next was due, the slowest after {} \
         ms, {} leases lost",
        VERY_FAR.as_secs(),
        heartbeats.sent,
        heartbeats.share() * 100.0,
        heartbeats.slowest.as_millis(),
        heartbeats.lost
    );
    if heartbeats.lost > 0 {
        outcome.verdict.add_finding(Kind::NotInTime, format!("{} leases were lost at {VERY_FAR:?}", heartbeats.lost));
    }
    Ok(outcome)
}

/// Servers with 200 ms of latency to the database.
async fn far(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut fixture =
        Fixture::start(context, FixtureOptions { workers: 0, slots: 64, ..FixtureOptions::default() }).await?;
    let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], context.postgres.port))).await?;
    let far = fixture.database.replace(&format!(":{}/", context.postgres.port), &format!(":{}/", proxy.port()));
    for server in &mut fixture.servers {
        server.process.kill().await?;
        server.process.set("DATABASE_URL", &far);
        server.start().await?;
    }
    // With this latency a transaction takes two seconds: use leases that are ten times as long.
    let api = Api::new(&fixture.servers[0].url(), TOKEN)?;
    for name in workload::TYPES {
        let slow_type = json!({"heartbeat_seconds": 7, "max_failures": if name == "once" { 1 } else { 2 }});
        api.send(Method::PATCH, &format!("/job-types/{name}"), Some(&slow_type)).await?.ok()?;
    }
    // No caps, serialize keys or levels: there one transaction waits for another, and each takes seconds.
    for at in 0..4 {
        fixture.add_worker(at % 2, &["plain", "once"], false)?;
    }
    proxy.set(Mode::Delay(FAR));
    let reduced =
        Workload { only: vec!["plain", "once", "trees"], cancels: 0, ..Workload::of(context.items / 5, context.seed) };
    let workload = fixture.start_workload(reduced)?;
    let mut outcome = end(context, fixture, workload, String::new()).await?;
    // Nothing was killed or unreachable here.
    let lost = outcome.verdict.leases_lost;
    if lost > 0 {
        outcome.verdict.add_finding(Kind::NotInTime, format!("{lost} leases of healthy workers were lost at {FAR:?}"));
    }
    let items = outcome.verdict.acknowledged;
    outcome.done = format!("database latency of {} ms for {items} items, {lost} leases lost", FAR.as_millis());
    Ok(outcome)
}

/// Statistics of heartbeats.
struct HeartbeatStats {
    sent: usize,
    late: usize,
    slowest: Duration,
    /// Leases that were lost although they were renewed.
    lost: i64,
}

impl HeartbeatStats {
    fn share(&self) -> f64 {
        1.0 - self.late as f64 / self.sent.max(1) as f64
    }
}

/// Sends heartbeats for items every ten seconds, while other clients add trees.
async fn very_far(context: &RunContext) -> Result<HeartbeatStats> {
    let (items, length) = (400, HEARTBEAT_INTERVAL * scaled(context, 3, 12));
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let api = &running.api;
    api.put_type("far", &json!({"heartbeat_seconds": HEARTBEAT_INTERVAL.as_secs()})).await?;
    let list: Vec<Value> = (0..items).map(|n| json!({"payload": n})).collect();
    api.tree(&json!({"type": "far", "sealed": true, "items": list})).await?;
    let assignments = api.claim("far", items).await?;
    proxy_fixture.proxy.set(Mode::Delay(VERY_FAR));
    let begun = Instant::now();
    let heartbeating = try_join_all(assignments.iter().map(|one| async {
        let (path, mut took) = (format!("/assignments/{}/heartbeat", id(one)?), Vec::new());
        // Not all at once.
        sleep(HEARTBEAT_INTERVAL.mul_f64(rand::random())).await;
        while begun.elapsed() < length {
            let requested_at = Instant::now();
            let accepted = api.post(&path, &json!({})).await.is_ok_and(|answer| answer.status == 200);
            took.push((requested_at.elapsed(), accepted));
            sleep(HEARTBEAT_INTERVAL.saturating_sub(requested_at.elapsed())).await;
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
    let (heartbeats, _) = tokio::join!(heartbeating, adding);
    proxy_fixture.proxy.set(Mode::Pass);
    let took: Vec<(Duration, bool)> = heartbeats?.into_iter().flatten().collect();
    let late = took.iter().filter(|(took, accepted)| !accepted || *took > HEARTBEAT_INTERVAL).count();
    let slowest = quantile(&mut took.iter().map(|heartbeat| heartbeat.0).collect::<Vec<_>>(), 1.0);
    let lost = proxy_fixture.number("select count(*) from attempt where ended_as = 3").await?;
    running.server.process.kill().await?;
    Ok(HeartbeatStats { sent: took.len(), late, slowest, lost })
}
