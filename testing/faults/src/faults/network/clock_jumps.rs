//! F30: clocks of servers and workers that jump, or run at half or double speed. Only the database's clock counts
//! (`database-clock`).

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN, faketime::FakeClock},
    proxy_fixture::{ProxyFixture, RunningServer},
    raw::until,
};

/// Change of a clock, and the offset that must then be seen, in seconds.
const CLOCKS: [(&str, f64); 4] = [("+3600", 3600.0), ("-3600", -3600.0), ("+7200 x2", 7200.0), ("-7200 x0.5", -7200.0)];

pub(crate) async fn run(context: &RunContext, items: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let clock = FakeClock::new(proxy_fixture.folder().join("clock"))?;
    let faked = clock.environment();
    let mut faked: Vec<(&str, &str)> = faked.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    faked.push(("TREELINE_LOG_HTTP", "1"));
    let mut running = proxy_fixture.serve(&faked).await?;
    let api = running.api.clone();
    api.put_type("timed", &json!({"heartbeat_seconds": 0.7})).await?;
    let mut worker = proxy_fixture.process(&std::env::current_exe()?, "worker.log").arguments([
        "worker",
        "--url",
        &running.server.url(),
        "--token",
        TOKEN,
        "--ledger",
        &proxy_fixture.folder().join("ledger").to_string_lossy(),
        "--slots",
        "16",
        "--work-ms",
        "2500",
        "--types",
        "timed",
    ]);
    for (name, value) in &faked {
        worker.set(name, value);
    }
    worker.start()?;

    let mut findings = Findings::new(format!(
        "{} wrong clocks at a server and a worker ({}), with {items} items each that run for longer than a lease",
        CLOCKS.len(),
        CLOCKS.map(|clock| clock.0).join(", ")
    ));
    for (change, off) in CLOCKS {
        clock.set("+0")?;
        let now = OffsetDateTime::now_utc();
        let text = |seconds: f64| (now + time::Duration::seconds_f64(seconds)).format(&Rfc3339);
        let (due, late) = (text(2.0)?, text(600.0)?);
        let list: Vec<Value> = (0..items as u64)
            .map(|n| match n % 3 {
                0 => json!({"payload": {"n": n}}),
                1 => json!({"payload": {"n": n}, "run_after": due}),
                _ => json!({"payload": {"n": n}, "expires_at": late}),
            })
            .collect();
        let job = api.tree(&json!({"type": "timed", "sealed": true, "items": list})).await?;
        findings.acknowledged += items as u64;
        until("work begins", Duration::from_secs(30), async || {
            Ok(proxy_fixture.number("select count(*) from lease").await? > 0)
        })
        .await?;
        clock.set(change)?;
        let seen = seen(&running).await?;
        // A clock with another speed has moved in the meantime.
        ensure!(
            (seen - off).abs() < 60.0,
            "{change}: the server's clock is off by {seen} s, so the fault had no effect"
        );
        let complete = until("all is done", Duration::from_secs(40), async || {
            Ok(api.get(&format!("/jobs/{job}")).await?.json()["status"] == "completed")
        });
        findings.expect_ok(complete.await.with_context(|| change.to_owned()));
    }
    let early = "select count(*) from outcome o join item i on i.id = o.item_id where o.started_at < i.run_after";
    findings.expect_zero("items handed out early", proxy_fixture.number(early).await? as u64);
    findings.expect_zero(
        "items expired",
        proxy_fixture.number("select count(*) from outcome where state = 4").await? as u64,
    );
    let lost = proxy_fixture.number("select count(*) from attempt").await?;
    findings.check_in_time(lost == 0, || format!("{lost} attempts lost"));
    let done = proxy_fixture.number("select count(*) from outcome where state = 1 and attempt = 1").await? as u64;
    findings.lost = findings.acknowledged.saturating_sub(done);
    let stamped = worker_clocks(&proxy_fixture)?;
    findings.check(stamped, || "the worker's clock was never off, so the fault had no effect there".to_owned());
    worker.kill().await?;
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.server.process.kill().await?;
    Ok(findings)
}

/// Offset of the server's clock in seconds, by the last line of its log.
async fn seen(running: &RunningServer) -> Result<f64> {
    running.api.get("/me").await?.ok()?;
    let log = std::fs::read_to_string(running.server.process.log())?;
    let last =
        log.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok()).context("a line of the log")?;
    let at = OffsetDateTime::parse(last["timestamp"].as_str().context("a time")?, &Rfc3339)?;
    Ok((at - OffsetDateTime::now_utc()).as_seconds_f64())
}

/// True if the worker's ledger has times that are far from now.
fn worker_clocks(proxy_fixture: &ProxyFixture) -> Result<bool> {
    let now = OffsetDateTime::now_utc().unix_timestamp() as f64;
    let ledger = std::fs::read_to_string(proxy_fixture.folder().join("ledger"))?;
    let at = |line: &str| serde_json::from_str::<Value>(line).ok()?["at_us"].as_f64();
    Ok(ledger.lines().filter_map(at).any(|us| (us / 1e6 - now).abs() > 1_800.0))
}
