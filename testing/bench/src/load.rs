//! Latency at a steady load: the time from the moment at which an item should be added until its result is committed.
//! The load does not slow down with the server.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use domain::api::FinishBody;
use futures::future::try_join_all;
use tokio::{
    task::JoinSet,
    time::{interval_at, timeout},
};
use uuid::Uuid;

use crate::{
    Bench,
    report::{Table, Threshold, thousands},
    statistics::{
        ratios::HTTP_DRAIN,
        times::{COLUMNS, Times, short},
    },
    transport::{self, Transport},
};

/// Interval between additions of items.
const TICK: Duration = Duration::from_millis(10);
const WORKERS: usize = 8;
/// Longest wait for the remaining items.
const TIMEOUT: Duration = Duration::from_mins(1);

impl Bench {
    pub(crate) async fn load(&mut self) -> Result<()> {
        let Some(most) = self.report.rate(HTTP_DRAIN) else { return Ok(()) };
        let mut rows = Vec::new();
        for share in [0.25, 0.5, 0.75] {
            let http = self.http.clone();
            let (name, job) = self.job(&http).await?;
            let each_tick = (most * share * TICK.as_secs_f64()) as u64;
            let times = steady(&http, &name, job, each_tick, self.sizes.load_seconds).await?;
            if share > 0.7 {
                let what = format!("steady load of 75 % over HTTP, p99 {} ms", short(times.within(99.0)));
                self.report.compare(what, "250 ms".into(), times.within(99.0) / 250.0, Some(Threshold::AtMost(1.0)));
            }
            let mut row = vec![format!("{:.0} %", share * 100.0), thousands(each_tick as f64 / TICK.as_secs_f64())];
            row.extend(times.cells());
            rows.push(row);
        }
        self.report.table(Table {
            title: "A steady load over HTTP",
            about: "Items are added a hundred times a second, at a share of the rate of the drain over HTTP; the drain does not include adding. \
                    Time from the planned moment of adding until the response that the result is committed.",
            columns: ["share", "items/s"].into_iter().chain(COLUMNS).collect(),
            rows,
        });
        Ok(())
    }
}

async fn steady(transport: &Transport, job_type: &str, job: Uuid, each_tick: u64, seconds: u64) -> Result<Times> {
    let origin = Instant::now();
    let ticks = seconds * 1_000 / TICK.as_millis() as u64;
    let ended = AtomicU64::new(0);
    let adding = async {
        let mut pace = interval_at(origin.into(), TICK);
        let mut adds = JoinSet::new();
        for _ in 0..ticks {
            let meant = pace.tick().await.into_std() - origin;
            let payload = format!(r#"{{"meant":{},"reference":"2026-11-000471"}}"#, meant.as_micros());
            let transport = transport.clone();
            adds.spawn(async move { transport.add_by(job, each_tick, &payload, 1, 5_000).await });
        }
        while let Some(added) = adds.join_next().await {
            added??;
        }
        Ok::<_, anyhow::Error>(())
    };
    let all = each_tick * ticks;
    let working = try_join_all((0..WORKERS).map(|worker| work(transport, job_type, worker, origin, &ended, all)));
    let both = async { tokio::try_join!(adding, working) };
    let allowed = Duration::from_secs(seconds) + TIMEOUT;
    let ((), times) = timeout(allowed, both).await.context("the items of the load have not ended")??;
    let times = Times::new(times.into_iter().flatten().collect());
    ensure!(times.len() as u64 == all, "{} of {all} items have ended", times.len());
    Ok(times)
}

async fn work(
    transport: &Transport,
    job_type: &str,
    worker: usize,
    origin: Instant,
    ended: &AtomicU64,
    all: u64,
) -> Result<Vec<f64>> {
    let mut times = Vec::new();
    let claim = transport::claim_of(&format!("w-{worker}"), job_type, 100);
    let mut assignments = Vec::new();
    while ended.load(Ordering::Relaxed) < all {
        if assignments.is_empty() {
            let mut waits = claim.clone();
            waits.wait_seconds = Some(1);
            assignments = transport.claim(waits).await?;
            continue;
        }
        let mut meant = Vec::with_capacity(assignments.len());
        let mut endings = Vec::with_capacity(assignments.len());
        for assignment in assignments.drain(..) {
            let payload: serde_json::Value = serde_json::from_str(assignment.item.payload.text())?;
            meant.push(payload["meant"].as_f64().context("an item without its time")?);
            endings.push(transport::ending(assignment.id));
        }
        let finished = transport.finish(FinishBody { endings, claim: Some(claim.clone()) }).await?;
        let now = origin.elapsed().as_secs_f64() * 1e6;
        if let Some(refused) = finished.endings.iter().find(|ending| ending.code.is_some()) {
            bail!("an ending was rejected: {refused:?}");
        }
        times.extend(meant.iter().map(|meant| (now - meant) / 1e3));
        ended.fetch_add(finished.endings.len() as u64, Ordering::Relaxed);
        assignments = finished.assignments;
    }
    Ok(times)
}
