//! F29: the response to a claim is lost. A retry with its `claim_id` returns the same assignments. Without a retry, an
//! at_least_once item waits for its lease to expire, and an at_most_once item has an unknown outcome; it never gets a
//! second worker.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN},
    proxy::{Cut, Mode, Proxy, Way},
    proxy_fixture::ProxyFixture,
    raw::{exchange, exchange_whole, id, request, until},
};

const LEASE_AND_SWEEP: Duration = Duration::from_secs(12);

pub(crate) async fn run(context: &RunContext, claims: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let api = &running.api;
    let backoff = json!({"min_seconds": 0.05, "max_seconds": 0.05});
    api.put_type("again", &json!({"heartbeat_seconds": 60, "backoff": backoff})).await?;
    api.put_type("least", &json!({"heartbeat_seconds": 0.5, "backoff": backoff, "max_failures": "unlimited"})).await?;
    api.put_type("most", &json!({"heartbeat_seconds": 0.5, "delivery": "at_most_once"})).await?;
    let proxy = Proxy::to(running.addr).await?;
    let through = SocketAddr::from(([127, 0, 0, 1], proxy.port()));
    let lost = async |job_type: &str, claim_id: Option<Uuid>| {
        let claim = json!({"worker_id": "deaf", "types": [job_type], "max": 2, "claim_id": claim_id});
        let bytes = request("POST", "/assignments", TOKEN, Some(&claim));
        // Cut off, or never delivered: then the worker gives up.
        let silent = rand::random_range(0..4) == 0;
        proxy.set(if silent { Mode::Lose(Way::Back) } else { Mode::CutAfter(Way::Back, 0, Cut::Reset) });
        let received = exchange(through, &bytes, Duration::from_secs(if silent { 1 } else { 5 })).await;
        anyhow::ensure!(received.is_empty(), "a response came over a cut connection");
        anyhow::Ok(bytes)
    };
    let tree = async |job_type: &str| {
        let items: Vec<Value> = (0..2 * claims).map(|n| json!({"payload": n})).collect();
        api.tree(&json!({"type": job_type, "sealed": true, "items": items})).await
    };

    let mut findings = Findings::new(format!("{} responses to claims lost", 3 * claims));
    findings.acknowledged = 6 * claims as u64;
    for job_type in ["again", "least", "most"] {
        tree(job_type).await?;
    }
    // With a retry: the same two assignments each time, and no others.
    let mut assignment_ids = BTreeSet::new();
    for _ in 0..claims {
        let bytes = lost("again", Some(Uuid::now_v7())).await?;
        let mut seen: Option<BTreeSet<String>> = None;
        for _ in 0..2 {
            let body = exchange_whole(running.addr, &bytes, Duration::from_secs(40)).await?;
            let assignments = body["assignments"].as_array().context("assignments")?;
            let assignments: BTreeSet<String> =
                assignments.iter().map(|one| id(one).map(str::to_owned)).collect::<Result<_>>()?;
            findings.check(assignments.len() == 2, || {
                format!("a repeated claim returned {} of 2 items", assignments.len())
            });
            if let Some(before) = &seen {
                findings.check(*before == assignments, || "a repeated claim returned other items".to_owned());
            }
            seen = Some(assignments);
        }
        assignment_ids.extend(seen.unwrap_or_default());
    }
    findings.check(assignment_ids.len() == 2 * claims, || {
        format!("{} assignments were given for {}", assignment_ids.len(), 2 * claims)
    });
    for assignment_id in &assignment_ids {
        api.post(&format!("/assignments/{assignment_id}/result"), &json!({})).await?.ok()?;
    }
    // Without a retry.
    for _ in 0..claims {
        lost("least", None).await?;
        lost("most", None).await?;
    }
    let over = until("every lost lease has expired", LEASE_AND_SWEEP, async || {
        Ok(proxy_fixture.number("select count(*) from lease where attempt = 1").await? == 0)
    });
    let over = over.await;
    findings.check_fast(over.is_ok(), || "lost leases were still open 12 s later".to_owned());
    findings.expect_ok(proxy_fixture.drain(api, &["least", "most"], Duration::from_secs(20)).await);
    let of =
        "select count(*) from outcome o join job j on j.job_key = o.job_key join job_type t on t.id = j.type_id where ";
    let count = async |what: &str| -> Result<u64> {
        let statement = sqlx::AssertSqlSafe(format!("{of}{what}"));
        let n: i64 = sqlx::query_scalar(statement).fetch_one(&proxy_fixture.pool).await?;
        Ok(n as u64)
    };
    // Some of them were offered again to a claim whose response was lost as well.
    let handed = proxy_fixture.number("select count(distinct item_id) from attempt where ended_as = 3").await? as u64;
    let offered = count("t.name = 'least' and o.state = 1 and o.attempt > 1").await?;
    findings.check(handed > 0 && offered == handed, || format!("{offered} of {handed} were offered again and done"));
    let unknown = count("t.name = 'most' and o.state = 2 and o.error_kind = 'outcome_unknown'").await?;
    findings.check(unknown == 2 * claims as u64, || format!("{unknown} of {} are dead, outcome unknown", 2 * claims));
    findings.doubled = count("t.name = 'most' and o.attempt > 1").await?;
    findings.lost = findings.acknowledged - count("true").await?;
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}
