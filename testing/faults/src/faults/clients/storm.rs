//! F13: clients that disconnect at random moments, which must never leave a transaction open.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use anyhow::{Context as _, Result};
use futures::future::{join_all, try_join_all};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::sleep};

use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN},
    inconclusive::Inconclusive,
    proxy::Mode,
    proxy_fixture::ProxyFixture,
    raw::{request, until},
};

/// Number of concurrent clients.
const CLIENTS: u64 = 64;

pub(crate) async fn run(context: &RunContext, requests: u64) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let spec = json!({"heartbeat_seconds": 0.5, "max_failures": "unlimited",
        "backoff": {"min_seconds": 0.1, "max_seconds": 0.1}});
    running.api.put_type("storm", &spec).await?;
    proxy_fixture.proxy.set(Mode::Delay(Duration::from_millis(5)));

    let left = AtomicU64::new(requests);
    let next = || left.try_update(Relaxed, Relaxed, |left| left.checked_sub(1)).ok();
    let client = async || {
        while let Some(number) = next() {
            gone(running.addr, number).await?;
        }
        anyhow::Ok(())
    };
    try_join_all((0..CLIENTS).map(|_| client())).await?;
    proxy_fixture.proxy.set(Mode::Pass);

    let mut findings = Findings::new(format!(
        "{requests} requests, each reset after 0 to 20 ms, over a connection with 5 ms of latency"
    ));
    let closed = until("no transaction is left open", Duration::from_secs(5), async || {
        Ok(proxy_fixture.idle_in_transaction().await? == 0)
    });
    findings.expect_ok(closed.await);

    // Every connection of the pools must still work: send more concurrent requests than there are connections.
    let tree = |n| json!({"type": "storm", "sealed": true, "items": [{"payload": n}]});
    let after = join_all((0..100).map(|n| {
        let api = running.api.clone();
        async move { api.tree(&tree(n)).await }
    }));
    let made: Vec<Result<String>> = after.await;
    let pages = join_all((0..100).map(|_| running.api.get("/jobs?limit=20"))).await;
    for page in pages {
        let page = page.map_err(anyhow::Error::from).and_then(|page| page.ok());
        findings.expect_ok(page.context("a page afterwards"));
    }
    let (made, rejected): (Vec<_>, Vec<_>) = made.into_iter().partition(Result::is_ok);
    for tree in rejected {
        findings.expect_ok(tree.context("a tree afterwards"));
    }
    findings.acknowledged = made.len() as u64;

    findings.expect_ok(proxy_fixture.drain(&running.api, &["storm"], Duration::from_secs(30)).await);
    let all = proxy_fixture.number("select count(*) from job").await?;
    if all <= 100 && findings.is_clean() {
        return Err(Inconclusive::Untested.error("no request reached the engine"));
    }
    findings.note(format!("{} of the requested trees were created", all - 100));
    for id in made.into_iter().flatten() {
        let here = running.api.get(&format!("/jobs/{id}")).await?;
        findings.lost += u64::from(here.status != 200);
    }
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Sends one request and resets its connection a moment later.
async fn gone(server: SocketAddr, number: u64) -> Result<()> {
    let bytes = match number % 5 {
        0 | 1 => {
            let tree = json!({"type": "storm", "sealed": true, "items": [{"payload": number}, {"payload": "again"}]});
            request("POST", "/jobs", TOKEN, Some(&tree))
        }
        2 | 3 => {
            let claim = json!({"worker_id": "storm", "types": ["storm"], "max": 5, "wait_seconds": number % 2});
            request("POST", "/assignments", TOKEN, Some(&claim))
        }
        _ => request("GET", "/jobs?limit=20", TOKEN, None),
    };
    let mut stream = TcpStream::connect(server).await?;
    stream.write_all(&bytes).await?;
    sleep(Duration::from_millis(rand::random_range(0..=20))).await;
    stream.set_zero_linger()?;
    Ok(())
}
