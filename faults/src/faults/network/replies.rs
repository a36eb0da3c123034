//! F29: the response to a claim is lost. A retry with its `claim_id` returns the same assignments. Without a retry, an
//! at_least_once item waits for its lease to expire, and an at_most_once item has an unknown outcome; it never gets a
//! second worker.

use std::{collections::BTreeSet, net::SocketAddr, time::Duration};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    proxy::{Cut, Mode, Proxy, Way},
    raw::{exchange, id, request, until, whole},
    scene::Scene,
    stage::{House, TOKEN},
    told::Told,
};

const LEASE_AND_SWEEP: Duration = Duration::from_secs(12);

pub(crate) async fn play(house: &House, claims: usize) -> Result<Told> {
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    let api = &served.api;
    let backoff = json!({"min_seconds": 0.05, "max_seconds": 0.05});
    api.put_type("again", &json!({"heartbeat_seconds": 60, "backoff": backoff})).await?;
    api.put_type("least", &json!({"heartbeat_seconds": 0.5, "backoff": backoff, "max_failures": "unlimited"})).await?;
    api.put_type("most", &json!({"heartbeat_seconds": 0.5, "delivery": "at_most_once"})).await?;
    let wire = Proxy::to(served.addr).await?;
    let through = SocketAddr::from(([127, 0, 0, 1], wire.port()));
    let lost = async |job_type: &str, claim_id: Option<Uuid>| {
        let claim = json!({"worker_id": "deaf", "types": [job_type], "max": 2, "claim_id": claim_id});
        let bytes = request("POST", "/assignments", TOKEN, Some(&claim));
        // Cut off, or never delivered: then the worker gives up.
        let silent = rand::random_range(0..4) == 0;
        wire.set(if silent { Mode::Lose(Way::Back) } else { Mode::CutAfter(Way::Back, 0, Cut::Reset) });
        let came = exchange(through, &bytes, Duration::from_secs(if silent { 1 } else { 5 })).await;
        anyhow::ensure!(came.is_empty(), "something came back over a cut wire");
        anyhow::Ok(bytes)
    };
    let tree = async |job_type: &str| {
        let items: Vec<Value> = (0..2 * claims).map(|n| json!({"payload": n})).collect();
        api.tree(&json!({"type": job_type, "sealed": true, "items": items})).await
    };

    let mut told = Told::new(format!("{} answers to claims lost", 3 * claims));
    told.acknowledged = 6 * claims as u64;
    for job_type in ["again", "least", "most"] {
        tree(job_type).await?;
    }
    // With a retry: the same two assignments each time, and no others.
    let mut known = BTreeSet::new();
    for _ in 0..claims {
        let bytes = lost("again", Some(Uuid::now_v7())).await?;
        let mut seen: Option<BTreeSet<String>> = None;
        for _ in 0..2 {
            let body = whole(&exchange(served.addr, &bytes, Duration::from_secs(5)).await).context("an answer")?;
            let held = body["assignments"].as_array().context("assignments")?;
            let held: BTreeSet<String> = held.iter().map(|one| id(one).map(str::to_owned)).collect::<Result<_>>()?;
            told.check(held.len() == 2, || format!("a repeated claim brought {} of 2", held.len()));
            if let Some(before) = &seen {
                told.check(*before == held, || "a repeated claim brought others".to_owned());
            }
            seen = Some(held);
        }
        known.extend(seen.unwrap_or_default());
    }
    told.check(known.len() == 2 * claims, || format!("{} assignments were given for {}", known.len(), 2 * claims));
    for fence in &known {
        api.post(&format!("/assignments/{fence}/result"), &json!({})).await?.ok()?;
    }
    // Without a retry.
    for _ in 0..claims {
        lost("least", None).await?;
        lost("most", None).await?;
    }
    let over = until("every lost lease has run out", LEASE_AND_SWEEP, async || {
        Ok(scene.number("select count(*) from lease where attempt = 1").await? == 0)
    });
    let over = over.await;
    told.timed(over.is_ok(), || "lost leases were still open 12 s later".to_owned());
    told.must(scene.drain(api, &["least", "most"], Duration::from_secs(20)).await);
    let of =
        "select count(*) from outcome o join job j on j.gate_id = o.gate_id join job_type t on t.id = j.type_id where ";
    let count = async |what: &str| -> Result<u64> {
        let statement = sqlx::AssertSqlSafe(format!("{of}{what}"));
        let n: i64 = sqlx::query_scalar(statement).fetch_one(&scene.pool).await?;
        Ok(n as u64)
    };
    // Some of them were offered again to a claim whose response was lost as well.
    let handed = scene.number("select count(distinct item_id) from attempt where ended_as = 3").await? as u64;
    let offered = count("t.name = 'least' and o.state = 1 and o.attempt > 1").await?;
    told.check(handed > 0 && offered == handed, || format!("{offered} of {handed} were offered again and done"));
    let unknown = count("t.name = 'most' and o.state = 2 and o.error_kind = 'outcome_unknown'").await?;
    told.check(unknown == 2 * claims as u64, || format!("{unknown} of {} are dead, outcome unknown", 2 * claims));
    told.doubled = count("t.name = 'most' and o.attempt > 1").await?;
    told.lost = told.acknowledged - count("true").await?;
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    Ok(told)
}
