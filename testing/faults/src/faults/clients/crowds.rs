//! F35: connections that are slow with everything.

use std::{
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN},
    proxy_fixture::ProxyFixture,
    raw::{Api, quantile, request, until},
};

/// A connection with a small receive buffer.
pub(super) async fn connect_with_small_buffer(addr: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    socket.connect(addr).await
}

/// The server's timeout for headers, and a tolerance.
const HEADERS: Duration = Duration::from_secs(33);

/// F35: incomplete headers, bodies sent byte by byte, responses that nobody reads.
pub(crate) async fn slow(context: &RunContext, connections: usize) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let api = running.api.clone();
    api.put_type("slow", &json!({})).await?;
    let items: Vec<Value> = (0..500).map(|n| json!({"payload": "x".repeat(2_000), "metadata": {"n": n}})).collect();
    let job = api.tree(&json!({"type": "slow", "items": items})).await?;
    let begun = Instant::now();
    let mut attackers = JoinSet::new();
    for n in 0..connections {
        let (addr, job) = (running.addr, job.clone());
        attackers.spawn(async move { attack(addr, n, &job).await });
    }
    let mut findings = Findings::new(format!(
        "{connections} connections with half-sent headers, half-sent bodies, or unread responses"
    ));
    let mut calls = Vec::new();
    while begun.elapsed() < HEADERS {
        let (took, made) = ordinary_request(&api).await;
        calls.push(took);
        findings.acknowledged += u64::from(made.is_ok());
        findings.expect_ok(made.context("an ordinary request"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let p99 = quantile(&mut calls, 0.99);
    findings.note(format!("p99 of {} ordinary requests {} ms", calls.len(), p99.as_millis()));
    findings.check_fast(p99 < Duration::from_secs(1), || format!("the p99 of ordinary requests was {p99:?}"));
    let (mut closed, mut open) = (0, 0_u64);
    while let Some(ended) = timeout(Duration::from_millis(500), attackers.join_next()).await.ok().flatten() {
        match ended? {
            Some(within) if within <= HEADERS => closed += 1,
            _ => open += 1,
        }
    }
    findings.note(format!("{closed} connections with half-sent headers closed within {} s", HEADERS.as_secs()));
    let slow = connections.div_ceil(2);
    findings.check_in_time(closed == slow, || format!("{closed} of {slow} were closed"));
    findings.check_in_time(open == 0, || format!("{open} connections with half-sent headers stayed open"));
    attackers.shutdown().await;
    until("nobody is left", Duration::from_secs(10), async || Ok(ordinary_request(&api).await.1.is_ok())).await?;
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// An ordinary request. Returns its duration and its result.
async fn ordinary_request(api: &Api) -> (Duration, Result<String>) {
    let requested_at = Instant::now();
    let made = api.tree(&json!({"type": "slow", "sealed": true})).await;
    (requested_at.elapsed(), made)
}

/// One slow connection. If it sends incomplete headers, returns the time until it was closed; otherwise it stays open.
async fn attack(addr: SocketAddr, n: usize, job: &str) -> Option<Duration> {
    let begun = Instant::now();
    let mut stream = connect_with_small_buffer(addr).await.ok()?;
    if n.is_multiple_of(2) {
        stream.write_all(b"POST /api/v1/jobs HTTP/1.1\r\nhost: treeline\r\nx-slow: ").await.ok()?;
        let mut buffer = [0; 256];
        // One byte every two seconds, without an end.
        loop {
            let _ = stream.write_all(b"z").await;
            match timeout(Duration::from_secs(2), stream.read(&mut buffer)).await {
                Err(_) => {}
                Ok(Ok(n)) if n > 0 => {}
                Ok(_) => return Some(begun.elapsed()),
            }
        }
    }
    if n % 4 == 1 {
        let whole = request("POST", "/jobs", TOKEN, Some(&json!({"type": "slow", "name": "x".repeat(200)})));
        let (head, body) = whole.split_at(whole.len() - 200);
        stream.write_all(head).await.ok()?;
        for byte in body {
            tokio::time::sleep(Duration::from_secs(1)).await;
            stream.write_all(&[*byte]).await.ok()?;
        }
    } else {
        let request_bytes = request("GET", &format!("/items?job={job}&limit=500"), TOKEN, None);
        stream.write_all(&request_bytes).await.ok()?;
    }
    std::future::pending().await
}
