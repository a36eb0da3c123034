//! F41: all items become due while all servers are down, and all workers reconnect at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::Result;
use client::{Client, Document, Drain, Worker};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN},
    proxy_fixture::ProxyFixture,
    raw::{Api, id, quantile, until},
};

/// Connections of one server: its pools, and two for notifications.
const POOL: i64 = 16 + 2;
const SERVERS: usize = 2;
const OUTAGE: Duration = Duration::from_secs(5);
/// Minimum share of the usual speed, with a tolerance for a shared machine.
const SPEED: f64 = 0.5;

pub(crate) async fn run(context: &RunContext, items: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut servers = [proxy_fixture.serve(&[]).await?, proxy_fixture.serve(&[]).await?];
    let api = servers[0].api.clone();
    api.put_type("herd", &json!({"heartbeat_seconds": 0.7})).await?;
    let drain = Drain::new();
    let working: Vec<_> = (0..8)
        .map(|n| {
            let client = Client::new(&servers[n % SERVERS].server.url(), Some(TOKEN))?;
            let worker = Worker::new(client, ["herd"]).concurrency(16);
            let drain = drain.clone();
            anyhow::Ok(tokio::spawn(worker.run_until(drain, |_| async {
                tokio::time::sleep(Duration::from_millis(10)).await;
                Ok(Document::empty_object())
            })))
        })
        .collect::<Result<_>>()?;

    // The usual speed first.
    submit(&api, items, None).await?;
    let steady = drained(&proxy_fixture, items).await?;
    let due = OffsetDateTime::now_utc() + OUTAGE;
    submit(&api, items, Some(due)).await?;
    for server in &mut servers {
        server.stop().await?;
    }
    let early = proxy_fixture.number("select count(*) from outcome").await? - items as i64;
    let left = due - OffsetDateTime::now_utc();
    tokio::time::sleep(left.try_into().unwrap_or(Duration::ZERO) + Duration::from_secs(2)).await;
    let (one, other) = servers.split_at_mut(1);
    tokio::try_join!(one[0].server.start(), other[0].server.start())?;

    let over = Arc::new(AtomicBool::new(false));
    let sampling = async {
        let (mut most, mut claims) = (0, Vec::new());
        let sessions = "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'treeline'";
        while !over.load(Relaxed) {
            most = most.max(proxy_fixture.number(sessions).await?);
            let requested_at = Instant::now();
            let assignments = api.claim("herd", 1).await?;
            claims.push(requested_at.elapsed());
            for one in assignments {
                api.post(&format!("/assignments/{}/result", id(&one)?), &json!({})).await?.ok()?;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok((most, claims))
    };
    let draining = async {
        let took = drained(&proxy_fixture, 2 * items).await;
        over.store(true, Relaxed);
        took
    };
    let (sampled, took) = tokio::join!(sampling, draining);
    let ((most, mut claims), took) = (sampled?, took?);

    let mut findings =
        Findings::new(format!("{items} items became due while {SERVERS} servers were down and 128 workers waited"));
    findings.acknowledged = 2 * items as u64;
    let p99 = quantile(&mut claims, 0.99);
    let speed = steady.as_secs_f64() / took.as_secs_f64().max(0.001);
    findings.note(format!(
        "at most {most} database sessions, claim p99 {} ms, {:.0} % of the ordinary throughput",
        p99.as_millis(),
        speed * 100.0
    ));
    findings.check(most <= POOL * SERVERS as i64, || format!("{most} sessions, more than {}", POOL * SERVERS as i64));
    findings.check_fast(p99 < Duration::from_secs(1), || format!("a claim's p99 was {p99:?}"));
    findings.check_fast(speed >= SPEED, || format!("drained at {:.0} % of the ordinary throughput", speed * 100.0));
    findings.expect_zero("items handed out before they were due", early as u64);
    let lost = proxy_fixture.number("select count(*) from attempt where ended_as = 3").await?;
    findings.check_in_time(lost == 0, || format!("{lost} leases lost"));
    findings.lost =
        findings.acknowledged - proxy_fixture.number("select count(*) from outcome where state = 1").await? as u64;
    drain.begin();
    for worker in working {
        worker.await??;
    }
    findings.check_integrity(&proxy_fixture, &[&servers[0], &servers[1]]).await?;
    for server in &mut servers {
        server.stop().await?;
    }
    Ok(findings)
}

/// Submits sealed trees with this number of items in all.
async fn submit(api: &Api, items: usize, due: Option<OffsetDateTime>) -> Result<()> {
    let due = due.map(|due| due.format(&Rfc3339)).transpose()?;
    for part in (0..items).collect::<Vec<_>>().chunks(1_000) {
        let list: Vec<Value> = part.iter().map(|n| json!({"payload": n, "run_after": due})).collect();
        api.tree(&json!({"type": "herd", "sealed": true, "items": list})).await?;
    }
    Ok(())
}

/// Time until this number of items has ended.
async fn drained(proxy_fixture: &ProxyFixture, items: usize) -> Result<Duration> {
    until("all items have ended", Duration::from_mins(5), async || {
        Ok(proxy_fixture.number("select count(*) from outcome").await? >= items as i64)
    })
    .await
}
