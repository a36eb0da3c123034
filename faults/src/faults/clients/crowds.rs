//! F33 and F35: streams in thousands of which some never read, and connections that are slow with everything.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use client::Parser;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpSocket, TcpStream},
    task::JoinSet,
    time::timeout,
};

use crate::{
    raw::{Api, quantile, request, until},
    scene::{Scene, Served},
    stage::{House, TOKEN},
    told::Told,
};

/// The most memory a server may take for ten thousand streams, in KiB.
const MEMORY: u64 = 300 * 1024;

/// F33: so many streams of one tree, a tenth of which never read.
pub(crate) async fn streams(house: &House, streams: usize) -> Result<Told> {
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    let api = served.api.clone();
    api.put_type("shown", &json!({})).await?;
    let items: Vec<Value> = (0..1_000).map(|n| json!({"payload": n})).collect();
    let job = api.tree(&json!({"type": "shown", "sealed": true, "items": items})).await?;
    let files = || anyhow::Ok(std::fs::read_dir(format!("/proc/{}/fd", served.id()?))?.count());
    let before = files()?;
    let asks = Arc::new(request("GET", &format!("/jobs/{job}/events"), TOKEN, None));
    let finished = Arc::new(AtomicU64::new(0));
    let mut readers = JoinSet::new();
    let mut deaf = Vec::new();
    for n in 0..streams {
        if n % 10 == 0 {
            let mut stream = narrow(served.addr).await?;
            stream.write_all(&asks).await?;
            deaf.push(stream);
        } else {
            let (asks, finished, addr) = (Arc::clone(&asks), Arc::clone(&finished), served.addr);
            readers.spawn(async move {
                let read = read_to_the_end(addr, &asks).await;
                finished.fetch_add(u64::from(read.is_ok()), Relaxed);
            });
        }
    }
    let open = until("every stream is open", Duration::from_mins(1), async || Ok(files()? >= before + streams));
    let mut told = Told::new(format!("{streams} streams, {} of which never read", deaf.len()));
    told.must(open.await);

    let mut calls = Vec::new();
    let mut memory = 0;
    for _ in 0..200 {
        let asked = Instant::now();
        let held = api.claim("shown", 5).await?;
        calls.push(asked.elapsed());
        let endings: Vec<Value> = held.iter().map(|one| json!({"assignment_id": one["id"], "result": {}})).collect();
        api.post("/assignments/finish", &json!({"endings": endings})).await?.ok()?;
        memory = memory.max(served.memory()?);
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    let readers_in_all = (streams - deaf.len()) as u64;
    let shown = until("every reader has seen the end", Duration::from_mins(1), async || {
        Ok(readers.is_empty() || finished.load(Relaxed) == readers_in_all)
    });
    told.must(shown.await);
    told.acknowledged = readers_in_all;
    told.lost = readers_in_all - finished.load(Relaxed);
    memory = memory.max(served.memory()?);
    let p99 = quantile(&mut calls, 0.99);
    told.note(format!("at most {} MiB, claim p99 {} ms meanwhile", memory / 1024, p99.as_millis()));
    told.check(memory <= MEMORY, || format!("the server took {} MiB", memory / 1024));
    told.check(p99 < Duration::from_secs(1), || format!("a claim's p99 was {p99:?}"));
    readers.shutdown().await;
    drop(deaf);
    let closed = until("no socket is left", Duration::from_mins(1), async || Ok(files()? <= before + 8));
    told.must(closed.await);
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    Ok(told)
}

/// A connection that takes in little.
async fn narrow(addr: SocketAddr) -> io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_recv_buffer_size(4_096)?;
    socket.connect(addr).await
}

/// Reads events until one says that the tree is complete.
async fn read_to_the_end(addr: SocketAddr, asks: &[u8]) -> Result<()> {
    let mut stream = TcpStream::connect(addr).await?;
    stream.write_all(asks).await?;
    let (mut parser, mut frames) = (Parser::default(), Vec::new());
    let mut buffer = vec![0; 8 * 1024];
    loop {
        let n = stream.read(&mut buffer).await?;
        anyhow::ensure!(n > 0, "the stream ended");
        // Lines of the answer's head and of its chunks are no fields of an event.
        parser.feed(&buffer[..n], &mut frames).map_err(|_| anyhow::anyhow!("an event is too large"))?;
        if frames.drain(..).any(|frame| frame.data.contains(r#""status":"completed""#)) {
            return Ok(());
        }
    }
}

/// How long the server waits for headers, and a little.
const HEADERS: Duration = Duration::from_secs(33);

/// F35: half headers, bodies a byte at a time, answers that nobody reads.
pub(crate) async fn slow(house: &House, connections: usize) -> Result<Told> {
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    let api = served.api.clone();
    api.put_type("slow", &json!({})).await?;
    let items: Vec<Value> = (0..500).map(|n| json!({"payload": "x".repeat(2_000), "metadata": {"n": n}})).collect();
    let job = api.tree(&json!({"type": "slow", "items": items})).await?;
    let begun = Instant::now();
    let mut attackers = JoinSet::new();
    for n in 0..connections {
        let (addr, job) = (served.addr, job.clone());
        attackers.spawn(async move { attack(addr, n, &job).await });
    }
    let mut told = Told::new(format!("{connections} connections: half headers, half bodies, answers nobody reads"));
    let (mut calls, mut failed) = (Vec::new(), 0_u64);
    while begun.elapsed() < HEADERS {
        let (took, well) = usual(&api).await;
        calls.push(took);
        failed += u64::from(!well);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let p99 = quantile(&mut calls, 0.99);
    told.acknowledged = calls.len() as u64 - failed;
    told.zero("usual requests failed", failed);
    told.note(format!("p99 of {} usual requests {} ms", calls.len(), p99.as_millis()));
    told.check(p99 < Duration::from_secs(1), || format!("the p99 of usual requests was {p99:?}"));
    let (mut closed, mut open) = (0, 0_u64);
    while let Some(ended) = timeout(Duration::from_millis(500), attackers.join_next()).await.ok().flatten() {
        match ended? {
            Some(within) if within <= HEADERS => closed += 1,
            _ => open += 1,
        }
    }
    told.note(format!("{closed} half headers closed within {} s", HEADERS.as_secs()));
    told.check(closed == connections.div_ceil(2), || format!("{closed} of {} were closed", connections.div_ceil(2)));
    told.zero("half headers that were kept", open);
    attackers.shutdown().await;
    until("nobody is left", Duration::from_secs(10), async || Ok(usual(&api).await.1)).await?;
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    Ok(told)
}

/// A request as others make it: how long it took, and whether it went well.
async fn usual(api: &Api) -> (Duration, bool) {
    let asked = Instant::now();
    let made = api.tree(&json!({"type": "slow", "sealed": true})).await;
    (asked.elapsed(), made.is_ok())
}

/// One slow connection. After how long it was closed, if it has only ever sent half of its headers; the others
/// stay as long as they are let.
async fn attack(addr: SocketAddr, n: usize, job: &str) -> Option<Duration> {
    let begun = Instant::now();
    let mut stream = narrow(addr).await.ok()?;
    if n.is_multiple_of(2) {
        stream.write_all(b"POST /api/v1/jobs HTTP/1.1\r\nhost: treeline\r\nx-slow: ").await.ok()?;
        let mut buffer = [0; 256];
        // A byte every two seconds, and never an end.
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
        let asks = request("GET", &format!("/items?job={job}&limit=500"), TOKEN, None);
        stream.write_all(&asks).await.ok()?;
    }
    std::future::pending().await
}

impl Served {
    /// Its process.
    fn id(&self) -> Result<u32> {
        self.server.process.id().context("it runs")
    }
}
