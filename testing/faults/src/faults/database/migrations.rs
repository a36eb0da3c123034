//! F19: servers start and migrate next to a busy one, while a long transaction reads.

use std::{
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::join_all;
use serde_json::json;
use sqlx::Connection as _;

use crate::{
    findings::Findings,
    fixture::RunContext,
    proxy_fixture::ProxyFixture,
    raw::{Api, id},
};

pub(crate) async fn run(context: &RunContext, rounds: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    running.api.put_type("steady", &json!({})).await?;
    let tables = "select string_agg(format('select count(*) from %I', relname), '; ') from pg_stat_user_tables";
    let tables: String = sqlx::query_scalar(tables).fetch_one(&proxy_fixture.pool).await?;
    let mut session = proxy_fixture.session().await?;
    let mut reading = session.begin().await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(tables)).execute(&mut *reading).await?;

    let (calls, failed, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let steady = join_all((0..8).map(|_| async {
        while !over.load(Relaxed) {
            let (call_count, succeeded) = cycle(&running.api).await;
            calls.fetch_add(call_count, Relaxed);
            failed.fetch_add(u64::from(!succeeded), Relaxed);
        }
    }));
    let waiting = "select count(*) from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and clock_timestamp() - state_change > interval '1 second'";
    let watching = async {
        let mut waits = 0;
        while !over.load(Relaxed) {
            waits += proxy_fixture.number(waiting).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        anyhow::Ok(waits)
    };
    let migrating = async {
        let result = async {
            let mut slowest = Duration::ZERO;
            for _ in 0..rounds {
                let mut other = proxy_fixture.serve(&[]).await?;
                slowest = slowest.max(migrate(&proxy_fixture, context).await?);
                let (_, succeeded) = cycle(&other.api).await;
                ensure!(succeeded, "the server that was started later does not work");
                other.stop().await?;
            }
            anyhow::Ok(slowest)
        }
        .await;
        over.store(true, Relaxed);
        result
    };
    let (_, waits, slowest) = tokio::join!(steady, watching, migrating);
    let (waits, slowest) = (waits?, slowest?);
    reading.rollback().await?;

    let calls = calls.load(Relaxed);
    let mut findings = Findings::new(format!(
        "{rounds} servers started, migrated, and stopped while another served {calls} requests and a reader's \
         transaction stayed open"
    ));
    findings.acknowledged = proxy_fixture.number("select count(*) from item").await? as u64;
    findings.note(format!("slowest migration {} ms", slowest.as_millis()));
    findings.expect_zero("calls failed", failed.load(Relaxed));
    findings.expect_zero("waits for locks longer than a second", waits as u64);
    let invalid = proxy_fixture.number("select count(*) from pg_index where not indisvalid").await?;
    findings.expect_zero("invalid indexes", invalid as u64);
    findings.expect_ok(proxy_fixture.drain(&running.api, &["steady"], Duration::from_secs(20)).await);
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Creates a tree, claims and ends its items, and reads it. Returns the number of calls, and true if all succeeded.
async fn cycle(api: &Api) -> (u64, bool) {
    let result = async {
        let items = json!([{"payload": 1}, {"payload": 2}]);
        let job = api.tree(&json!({"type": "steady", "sealed": true, "items": items})).await?;
        for one in api.claim("steady", 2).await? {
            api.post(&format!("/assignments/{}/result", id(&one)?), &json!({})).await?.ok()?;
        }
        api.get(&format!("/jobs/{job}")).await?.ok().map(drop)
    }
    .await;
    (5, result.is_ok())
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
