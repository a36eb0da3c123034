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
    time::{Instant as Then, timeout_at},
};

use super::crowds::narrow;
use crate::{
    raw::{Api, quantile, request, until},
    scene::{Scene, Served},
    stage::{House, TOKEN},
    told::Told,
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
struct Watched {
    addr: SocketAddr,
    asks: Vec<u8>,
    job: String,
    /// True from the moment when nobody reconnects anymore.
    calm: AtomicBool,
    opened: AtomicU64,
    /// Number of readers that saw the end, and of those whose final state was wrong.
    ended: AtomicU64,
    succeeded: i64,
    wrong: AtomicU64,
}

pub(super) async fn play(house: &House, size: Size) -> Result<Told> {
    let Size { streams, items, at_once } = size;
    let scene = Scene::new(house, "").await?;
    let room = (streams + BESIDE).to_string();
    let mut served = scene.serve(&[("TREELINE_CONNECTIONS", &room)]).await?;
    let api = served.api.clone();
    api.put_type("shown", &json!({})).await?;
    let list: Vec<Value> = (0..items).map(|n| json!({"payload": n})).collect();
    let job = api.tree(&json!({"type": "shown", "sealed": true, "items": list})).await?;
    let files = || open_files(&served);
    let before = files()?;
    let watched = Arc::new(Watched {
        addr: served.addr,
        asks: request("GET", &format!("/jobs/{job}/events"), TOKEN, None),
        job: job.clone(),
        calm: AtomicBool::new(false),
        opened: AtomicU64::new(0),
        ended: AtomicU64::new(0),
        succeeded: items as i64,
        wrong: AtomicU64::new(0),
    });
    let (mut readers, mut deaf) = (JoinSet::new(), Vec::new());
    let began = Instant::now();
    for n in 0..streams {
        if n % 10 == 0 {
            let mut stream = narrow(served.addr).await?;
            stream.write_all(&watched.asks).await?;
            deaf.push(stream);
        } else {
            let flaps = n % 10 == 1;
            readers.spawn(watch(Arc::clone(&watched), n, flaps));
        }
    }
    let readers_in_all = (streams - deaf.len()) as u64;
    let flapping = streams.div_ceil(10);
    let all = "every stream is open";
    let open = until(all, Duration::from_mins(2), async || Ok(watched.opened.load(Relaxed) >= readers_in_all)).await;
    let took = began.elapsed();
    let mut told = Told::new(format!(
        "{streams} streams, {} of which never read and {flapping} close and open again every second",
        deaf.len()
    ));
    told.must(open);

    let worked = Instant::now();
    let Worked { mut calls, mut memory, refused } = work_off(&api, &served, at_once).await?;
    let changed = worked.elapsed();
    watched.calm.store(true, Relaxed);
    let shown = until("every reader has seen the end", SHOWN, async || {
        memory = memory.max(served.memory()?);
        Ok(readers.is_empty() || watched.ended.load(Relaxed) == readers_in_all)
    });
    told.must(shown.await);
    told.acknowledged = readers_in_all;
    told.lost = readers_in_all - watched.ended.load(Relaxed);
    told.zero("ends that are not as the database has them", watched.wrong.load(Relaxed));
    let done = scene.number("select count(*) from outcome where state = 1").await?;
    told.check(done == items as i64, || format!("{done} of {items} items have succeeded"));
    let (p99, reopened) = (quantile(&mut calls, 0.99), watched.opened.load(Relaxed) - readers_in_all);
    told.note(format!(
        "all open after {:.1} s, opened again {reopened} times; {items} items ended in {:.0} s; at most {} MiB, claim p99 {} ms \
         meanwhile",
        took.as_secs_f64(),
        changed.as_secs_f64(),
        memory / 1024,
        p99.as_millis()
    ));
    told.check(reopened >= flapping as u64, || format!("only {reopened} streams were opened again"));
    told.check(memory <= MEMORY, || format!("the server took {} MiB", memory / 1024));
    told.timed(p99 < CLAIM, || format!("a claim's p99 was {p99:?}"));
    told.timed(refused == 0, || format!("{refused} calls were told to come again"));
    readers.shutdown().await;
    drop(deaf);
    let closed = until("no socket is left", Duration::from_mins(1), async || Ok(files()? <= before + 8));
    told.must(closed.await);
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    Ok(told)
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
async fn work_off(api: &Api, served: &Served, at_once: usize) -> Result<Worked> {
    let mut worked = Worked::default();
    loop {
        let asked = Instant::now();
        let claim = json!({"worker_id": "shown", "types": ["shown"], "max": at_once, "claim_id": Uuid::now_v7()});
        let held = taken(api, "/assignments", &claim, &mut worked.refused).await?;
        worked.calls.push(asked.elapsed());
        worked.memory = worked.memory.max(served.memory()?);
        let held = held["assignments"].as_array().context("assignments")?;
        if held.is_empty() {
            return Ok(worked);
        }
        let endings: Vec<Value> = held.iter().map(|one| json!({"assignment_id": one["id"], "result": {}})).collect();
        taken(api, "/assignments/finish", &json!({"endings": endings}), &mut worked.refused).await?;
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
}

/// Repeats a call while it gets 503.
async fn taken(api: &Api, path: &str, body: &Value, refused: &mut usize) -> Result<Value> {
    let began = Instant::now();
    loop {
        let answer = api.post(path, body).await?;
        if answer.status != 503 {
            return answer.ok();
        }
        ensure!(began.elapsed() < SHOWN, "{path} is refused for too long: {}", answer.text);
        *refused += 1;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn open_files(served: &Served) -> Result<usize> {
    let id = served.server.process.id().context("it runs")?;
    Ok(std::fs::read_dir(format!("/proc/{id}/fd"))?.count())
}

/// Reads until the end; a flapping watcher reconnects every second until `calm`.
async fn watch(watched: Arc<Watched>, n: usize, flaps: bool) {
    // Not all at once.
    let mut second = Duration::from_millis(500 + (n as u64 * 37) % 1_000);
    loop {
        let patience = if flaps && !watched.calm.load(Relaxed) { second } else { SHOWN * 2 };
        second = Duration::from_secs(1);
        match timeout_at(Then::now() + patience, read_to_the_end(&watched, n)).await {
            Ok(Ok(succeeded)) => {
                watched.wrong.fetch_add(u64::from(succeeded != Some(watched.succeeded)), Relaxed);
                watched.ended.fetch_add(1, Relaxed);
                return;
            }
            // Disconnected because the server was full or the reader too slow: it reconnects.
            Ok(Err(_)) => tokio::time::sleep(Duration::from_millis(200)).await,
            Err(_) => {}
        }
    }
}

/// Reads events until the tree is complete. Returns the number of succeeded items in that event.
async fn read_to_the_end(watched: &Watched, n: usize) -> Result<Option<i64>> {
    let socket = TcpSocket::new_v4()?;
    let source = Ipv4Addr::new(127, 0, 0, 2 + (n % usize::from(SOURCES)) as u8);
    socket.bind(SocketAddr::from((source, 0)))?;
    let mut stream: TcpStream = socket.connect(watched.addr).await?;
    stream.write_all(&watched.asks).await?;
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
                watched.opened.fetch_add(1, Relaxed);
                seen = true;
            }
            if frame.data.contains(r#""status":"completed""#) {
                let data: Value = serde_json::from_str(&frame.data)?;
                let jobs = data["jobs"].as_array();
                let of_job = jobs.and_then(|jobs| jobs.iter().find(|job| job["id"] == watched.job.as_str()));
                return Ok(of_job.unwrap_or(&data)["counts"]["succeeded"].as_i64());
            }
        }
    }
}
