//! F14: every database connection is in use. Heartbeats have their own; other requests get 503 with `Retry-After`.

use std::time::{Duration, Instant};

use anyhow::Result;
use futures::future::join_all;
use serde_json::{Value, json};
use sqlx::Connection as _;
use tokio::time::sleep;

use crate::{
    findings::Findings,
    fixture::RunContext,
    proxy_fixture::ProxyFixture,
    raw::{Answer, id, quantile, until},
};

/// The smallest allowed pool.
const POOL: &str = "8";
/// Duration of the lock that blocks all other statements.
const BLOCKED_FOR: Duration = Duration::from_secs(10);
/// Longest time until a queued request is refused: two seconds, and a tolerance for a loaded machine.
const SOON: Duration = Duration::from_millis(2_500);
/// A started request waits up to five seconds for its lock; its outcome is unknown until then. The number of started
/// requests is random: a batch takes the commands that are queued when it begins.
const BEGUN: Duration = Duration::from_secs(5);
const BEGUN_ENDS: Duration = Duration::from_millis(6_500);

pub(crate) async fn run(context: &RunContext, requests: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[("TREELINE_DB_POOL", POOL)]).await?;
    let api = &running.api;
    api.put_type("full", &json!({"heartbeat_seconds": 1})).await?;
    let items: Vec<Value> = (0..50).map(|n| json!({"payload": n})).collect();
    let job = api.tree(&json!({"type": "full", "items": items})).await?;
    let assignments = api.claim("full", 20).await?;

    let mut blocker = proxy_fixture.session().await?;
    let mut long = blocker.begin().await?;
    sqlx::query("lock table item in access exclusive mode").execute(&mut *long).await?;
    let begun = Instant::now();

    let sent = join_all((0..requests).map(|n| {
        let (api, job) = (api.clone(), &job);
        async move {
            let begun = Instant::now();
            let answer = match n % 3 {
                0 => api.post("/jobs", &json!({"type": "full", "sealed": true, "items": [{"payload": n}]})).await,
                1 => api.post(&format!("/jobs/{job}/items"), &json!([{"payload": n}])).await,
                _ => api.get(&format!("/items?job={job}")).await,
            };
            (begun.elapsed(), answer)
        }
    }));
    let heartbeating = async {
        let heartbeats: Vec<Value> = assignments.iter().map(|one| json!({"assignment_id": one["id"]})).collect();
        let (mut took, mut failed) = (Vec::new(), 0_u64);
        while begun.elapsed() < BLOCKED_FOR {
            let begun = Instant::now();
            let answer = api.post("/assignments/heartbeat", &json!({"heartbeats": heartbeats})).await;
            let all_accepted = |answer: Answer| {
                let body = answer.json();
                let heartbeats = body["heartbeats"].as_array().map(Vec::as_slice).unwrap_or_default();
                answer.status == 200
                    && heartbeats.len() == assignments.len()
                    && heartbeats.iter().all(|one| one["status"] == 200)
            };
            failed += u64::from(!answer.is_ok_and(all_accepted));
            took.push(begun.elapsed());
            sleep(Duration::from_millis(200)).await;
        }
        (took, failed)
    };
    let releasing = async {
        sleep(BLOCKED_FOR).await;
        long.rollback().await
    };
    let (answers, (mut heartbeats, failed), released) = tokio::join!(sent, heartbeating, releasing);
    released?;
    let freed = Instant::now();

    let mut findings = Findings::new(format!(
        "{requests} requests at once on a pool of {POOL} connections while a statement locks the items for {} s; {} \
         heartbeats",
        BLOCKED_FOR.as_secs(),
        heartbeats.len()
    ));
    findings.check_in_time(failed == 0, || format!("{failed} heartbeats failed"));
    findings.note(format!("slowest heartbeat {} ms", quantile(&mut heartbeats, 1.0).as_millis()));
    let (mut refused, mut other) = (Vec::new(), Vec::new());
    for (took, answer) in answers {
        match answer {
            Ok(answer) if answer.status < 300 => findings.acknowledged += u64::from(answer.status == 201),
            Ok(answer) if answer.status == 503 && answer.retry_after.is_some() => refused.push(took),
            Ok(answer) => other.push(format!("{} after {took:?}: {}", answer.status, answer.text)),
            Err(error) => other.push(format!("after {took:?}: {error}")),
        }
    }
    let untested = || "no request was rejected: the pool was never exhausted".to_owned();
    findings.check_in_time(!refused.is_empty(), untested);
    let soon = refused.iter().filter(|took| **took <= SOON).count();
    let begun = refused.iter().filter(|took| **took >= BEGUN).count();
    let (late, worst) = (refused.len() - soon - begun, quantile(&mut refused, 1.0));
    // Some requests first look something up, so they wait for a connection before they are queued.
    findings.check_fast(2 * soon >= refused.len(), || {
        format!("only {soon} of {} were rejected within {SOON:?}", refused.len())
    });
    findings.check_fast(worst <= BEGUN_ENDS, || format!("a rejection took {worst:?}"));
    findings.note(format!(
        "{} × 503 with Retry-After: {soon} within {} ms, {begun} after the {} s that a started request waits for a \
         lock, {late} in between, the last after {} ms",
        refused.len(),
        SOON.as_millis(),
        BEGUN.as_secs(),
        worst.as_millis()
    ));
    let first = other.first().cloned().unwrap_or_default();
    findings.check(other.is_empty(), || format!("{} other responses, such as {first}", other.len()));

    let recovered = until("it works again", Duration::from_secs(5), async || {
        let answer = api.post("/jobs", &json!({"type": "full", "sealed": true, "items": [{"payload": 1}]})).await?;
        Ok(answer.status == 201)
    });
    findings.expect_ok(recovered.await);
    findings.note(format!("works again after {} ms", freed.elapsed().as_millis()));
    for one in &assignments {
        api.post(&format!("/assignments/{}/result", id(one)?), &json!({})).await?.ok()?;
    }
    api.post(&format!("/jobs/{job}/seal"), &json!({})).await?.ok()?;
    findings.expect_ok(proxy_fixture.drain(api, &["full"], Duration::from_secs(30)).await);
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}
