//! F19: servers start beside a busy one, while a long transaction reads. The schema is complete: `migrate` must find that
//! out beside both. What a migration itself may do is tested by F47.

use std::{
    process::Stdio,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::future::join_all;
use serde_json::json;
use sqlx::Connection as _;

use crate::{
    findings::Findings,
    fixture::RunContext,
    proxy_fixture::ProxyFixture,
    raw::{Api, id},
};

/// Requests of one [`cycle`].
const CALLS: u64 = 5;

pub(crate) async fn run(context: &RunContext, rounds: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    running.api.put_type("steady", &json!({})).await?;
    let tables = "select string_agg(format('select count(*) from %I', relname), '; ') from pg_stat_user_tables";
    let tables: String = sqlx::query_scalar(tables).fetch_one(&proxy_fixture.pool).await?;
    let mut session = proxy_fixture.session().await?;
    let mut reading = session.begin().await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(tables)).execute(&mut *reading).await?;

    let over = AtomicBool::new(false);
    let steady = join_all((0..8).map(|_| async {
        let mut cycles = Vec::new();
        while !over.load(Relaxed) {
            cycles.push(cycle(&running.api).await);
        }
        cycles
    }));
    let starting = async {
        let result = async {
            let mut slowest = Duration::ZERO;
            for _ in 0..rounds {
                let mut other = proxy_fixture.serve(&[]).await?;
                slowest = slowest.max(migrate(&proxy_fixture, context).await?);
                cycle(&other.api).await.context("the server that was started later")?;
                other.stop().await?;
            }
            anyhow::Ok(slowest)
        }
        .await;
        over.store(true, Relaxed);
        result
    };
    let (cycles, slowest) = tokio::join!(steady, starting);
    let slowest = slowest?;
    reading.rollback().await?;

    let cycles: Vec<Result<()>> = cycles.into_iter().flatten().collect();
    let mut findings = Findings::new(format!(
        "{rounds} servers started beside a busy one and stopped, while that served {} requests and a reader's \
         transaction stayed open",
        cycles.len() as u64 * CALLS
    ));
    findings.acknowledged = proxy_fixture.number("select count(*) from item").await? as u64;
    findings.note(format!("`migrate` of the complete schema took at most {} ms", slowest.as_millis()));
    for cycle in cycles {
        findings.expect_ok(cycle);
    }
    findings.expect_ok(proxy_fixture.drain(&running.api, &["steady"], Duration::from_secs(20)).await);
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Creates a tree, claims and ends its items, and reads it.
async fn cycle(api: &Api) -> Result<()> {
    let items = json!([{"payload": 1}, {"payload": 2}]);
    let job = api.tree(&json!({"type": "steady", "sealed": true, "items": items})).await?;
    for one in api.claim("steady", 2).await? {
        api.post(&format!("/assignments/{}/result", id(&one)?), &json!({})).await?.ok()?;
    }
    api.get(&format!("/jobs/{job}")).await?.ok().map(drop)
}

/// Runs the server's `migrate`. Returns its duration.
async fn migrate(proxy_fixture: &ProxyFixture, context: &RunContext) -> Result<Duration> {
    let begun = Instant::now();
    let migrated = tokio::process::Command::new(&context.server)
        .arg("migrate")
        .env("DATABASE_URL", &proxy_fixture.url)
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
    Ok(begun.elapsed())
}
