//! F33: thousands of streams of one changing tree. One in ten never reads, one in ten reconnects every second. Every
//! reader sees the final state of the database, work continues, and nothing is left when they disconnect.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use client::Parser;
use domain::id::Uuid;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::{Instant as TokioInstant, timeout_at},
};

use super::crowds::connect_with_small_buffer;
use crate::{
    findings::Findings,
    fixture::{RunContext, TOKEN},
    inconclusive::Inconclusive,
    proxy_fixture::{ProxyFixture, RunningServer},
    raw::{Api, quantile, request, until},
};

/// Maximum memory of a server with ten thousand streams, in KiB.
const MEMORY: u64 = 300 * 1024;
/// Limit for the p99 of claims.
const CLAIM: Duration = Duration::from_millis(200);
/// Connections to the server beside the streams.
const BESIDE: usize = 500;
/// Number of local source addresses of the streams, so that there are enough ports.
const SOURCES: u8 = 20;
/// Longest wait for the final event.
const SHOWN: Duration = Duration::from_mins(2);

/// Number of streams, number of items that end, and items per batch.
pub(super) struct Size {
    pub(super) streams: usize,
    pub(super) items: usize,
    pub(super) at_once: usize,
}

/// State shared by the watchers.
struct WatcherContext {
    addr: SocketAddr,
    request_bytes: Vec<u8>,
    job: String,
    /// True from the moment when nobody reconnects anymore.
    calm: AtomicBool,
    opened: AtomicU64,
    /// Number of readers that saw the end, and of those whose final state was wrong.
    ended: AtomicU64,
    succeeded: i64,
    mismatches: AtomicU64,
}

pub(super) async fn run(context: &RunContext, size: Size) -> Result<Findings> {
    let Size { streams, items, at_once } = size;
    let proxy_fixture = ProxyFixture::new(context, "").await?;
    let room = (streams + BESIDE).to_string();
    let mut running = proxy_fixture.serve(&[("TREELINE_CONNECTIONS", &room)]).await?;
    let api = running.api.clone();
    api.put_type("shown", &json!({})).await?;
    let list: Vec<Value> = (0..items).map(|n| json!({"payload": n})).collect();
    let job = api.tree(&json!({"type": "shown", "sealed": true, "items": list})).await?;
    let files = || open_files(&running);
    let before = files()?;
    let shared = Arc::new(WatcherContext {
        addr: running.addr,
        request_bytes: request("GET", &format!("/jobs/{job}/events"), TOKEN, None),
        job: job.clone(),
        calm: AtomicBool::new(false),
        opened: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        succeeded: items as i64,
        mismatches: AtomicU64::new(0),
    });
    let (mut readers, mut silent_readers) = (JoinSet::new(), Vec::new());
    let began = Instant::now();
    for n in 0..streams {
        if n % 10 == 0 {
            let mut stream = connect_with_small_buffer(running.addr).await?;
            stream.write_all(&shared.request_bytes).await?;
            silent_readers.push(stream);
        } else {
            let flaps = n % 10 == 1;
            readers.spawn(watch(Arc::clone(&shared), n, flaps));
        }
    }
    let readers_in_all = (streams - silent_readers.len()) as u64;
    let flapping = streams.div_ceil(10);
    let all = "every stream is open";
    let open = until(all, Duration::from_mins(2), async || Ok(shared.opened.load(Relaxed) >= readers_in_all)).await;
    let took = began.elapsed();
    let mut findings = Findings::new(format!(
        "{streams} event streams: {} never read, and {flapping} reconnect every second",
        silent_readers.len()
    ));
    findings.expect_ok(open);

    let worked = Instant::now();
    let Worked { mut calls, mut memory, refused } = work_off(&api, &running, at_once).await?;
    let changed = worked.elapsed();
    shared.calm.store(true, Relaxed);
    let shown = until("every reader has seen the end", SHOWN, async || {
        memory = memory.max(running.memory()?);
        Ok(readers.is_empty() || shared.ended.load(Relaxed) == readers_in_all)
    });
    findings.expect_ok(shown.await);
    findings.acknowledged = readers_in_all;
    findings.lost = readers_in_all - shared.ended.load(Relaxed);
    findings.expect_zero("final states that differ from the database", shared.mismatches.load(Relaxed));
    let done = proxy_fixture.number("select count(*) from outcome where state = 1").await?;
    findings.check(done == items as i64, || format!("{done} of {items} items have succeeded"));
    let (p99, reopened) = (quantile(&mut calls, 0.99), shared.opened.load(Relaxed) - readers_in_all);
    findings.note(format!(
        "all open after {:.1} s, {reopened} reconnects; {items} items ended in {:.0} s; peak memory {} MiB, claim \
         p99 {} ms",
        took.as_secs_f64(),
        changed.as_secs_f64(),
        memory / 1024,
        p99.as_millis()
    ));
    findings.check_in_time(reopened >= flapping as u64, || format!("only {reopened} streams reconnected"));
    findings.check(memory <= MEMORY, || format!("the server took {} MiB", memory / 1024));
    findings.check_fast(p99 < CLAIM, || format!("a claim's p99 was {p99:?}"));
    findings.check_fast(refused == 0, || format!("{refused} calls were rejected with a retry time"));
    readers.shutdown().await;
    drop(silent_readers);
    let closed = until("no socket is left", Duration::from_mins(1), async || Ok(files()? <= before + 8));
    findings.expect_ok(closed.await);
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    Ok(findings)
}

/// Measurements of the work.
#[derive(Default)]
struct Worked {
    /// Duration of each claim until it was accepted.
    calls: Vec<Duration>,
    /// Maximum memory of the server, in KiB.
    memory: u64,
    /// Number of refused calls.
    refused: usize,
}

/// Claims and ends all items in batches, with at most one claim per 25 ms.
async fn work_off(api: &Api, running: &RunningServer, at_once: usize) -> Result<Worked> {
    let mut worked = Worked::default();
    loop {
        let requested_at = Instant::now();
        let claim = json!({"worker_id": "shown", "types": ["shown"], "max": at_once, "claim_id": Uuid::now_v7()});
        let claimed = post_until_accepted(api, "/assignments", &claim, &mut worked.refused).await?;
        worked.calls.push(requested_at.elapsed());
        worked.memory = worked.memory.max(running.memory()?);
        let claimed = claimed["assignments"].as_array().context("assignments")?;
        if claimed.is_empty() {
            return Ok(worked);
        }
        let endings: Vec<Value> = claimed.iter().map(|one| json!({"assignment_id": one["id"], "result": {}})).collect();
        post_until_accepted(api, "/assignments/finish", &json!({"endings": endings}), &mut worked.refused).await?;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Repeats a call while it gets 503.
async fn post_until_accepted(api: &Api, path: &str, body: &Value, refused: &mut usize) -> Result<Value> {
    let began = Instant::now();
    loop {
        let answer = api.post(path, body).await?;
        if answer.status != 503 {
            return answer.ok();
        }
        if began.elapsed() > SHOWN {
            return Err(Inconclusive::Timeout.error(format!("{path} is rejected for too long: {}", answer.text)));
        }
        *refused += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn open_files(running: &RunningServer) -> Result<usize> {
    let id = running.server.process.id().context("it runs")?;
    Ok(std::fs::read_dir(format!("/proc/{id}/fd"))?.count())
}

/// Reads until the end; a flapping watcher reconnects every second until `calm`.
async fn watch(shared: Arc<WatcherContext>, n: usize, flaps: bool) {
    // Not all at once.
    let mut second = Duration::from_millis(500 + (n as u64 * 37) % 1_000);
    loop {
        let max_wait = if flaps && !shared.calm.load(Relaxed) { second } else { SHOWN * 2 };
        second = Duration::from_secs(1);
        match timeout_at(TokioInstant::now() + max_wait, read_to_the_end(&shared, n)).await {
            Ok(Ok(succeeded)) => {
                shared.mismatches.fetch_add(u64::from(succeeded != Some(shared.succeeded)), Relaxed);
                shared.ended.fetch_add(1, Relaxed);
                return;
            }
            // Disconnected because the server was full or the reader too slow: it reconnects.
            Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(_) => {}
        }
    }
}

/// Reads events until the tree is complete. Returns the number of succeeded items in that event.
async fn read_to_the_end(shared: &WatcherContext, n: usize) -> Result<Option<i64>> {
    let socket = TcpSocket::new_v4()?;
    let source = Ipv4Addr::new(127, 0, 0, 2 + (n % usize::from(SOURCES)) as u8);
    socket.bind(SocketAddr::from((source, 0)))?;
    let mut stream: TcpStream = socket.connect(shared.addr).await?;
    stream.write_all(&shared.request_bytes).await?;
    let (mut parser, mut frames, mut seen) = (Parser::default(), Vec::new(), false);
    let mut buffer = vec![0; 4 * 1024];
    loop {
        let n = stream.read(&mut buffer).await?;
        ensure!(n > 0, "the stream ended");
        // Lines of the response head and of its chunks are not fields of an event.
        parser.feed(&buffer[..n], &mut frames).map_err(|_| anyhow::anyhow!("an event is too large"))?;
        for frame in frames.drain(..) {
            ensure!(frame.data != "{}", "sent away");
            if !seen {
                shared.opened.fetch_add(1, Relaxed);
                seen = true;
            }
            if frame.data.contains(r#""status":"completed""#) {
                let data: Value = serde_json::from_str(&frame.data)?;
                let jobs = data["jobs"].as_array();
                let of_job = jobs.and_then(|jobs| jobs.iter().find(|job| job["id"] == shared.job.as_str()));
                return Ok(of_job.unwrap_or(&data)["counts"]["succeeded"].as_i64());
            }
        }
    }
}
