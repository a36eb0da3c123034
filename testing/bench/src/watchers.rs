//! Watchers of one job, over the topic streams that pages use: latency of a commit, cost, and simultaneous reconnects.
//!
//! The watchers are plain connections in this process; the server is a separate process on the same cores.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use domain::api::FinishBody;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::watch,
    task::JoinSet,
    time::{interval, sleep, timeout},
};
use uuid::Uuid;

use crate::{
    Bench, PAYLOAD, TOKEN,
    report::{Table, Threshold},
    serve::SeparateServer,
    statistics::{
        plot::{Line, Plot},
        times::{Times, short},
    },
    transport::{self, Transport},
};

/// Interval between commits, and items of each.
const PACE: Duration = Duration::from_millis(50);
const AT_ONCE: u32 = 10;
/// Number of streams that are opened concurrently.
const OPENED_AT_ONCE: usize = 100;
const TIMEOUT: Duration = Duration::from_secs(30);
/// Time in which all watchers reconnect.
const STORM: Duration = Duration::from_secs(10);

/// States of the job as one watcher saw them: time, and number of succeeded items.
type Sightings = Vec<(Instant, i64)>;

impl Bench {
    pub(crate) async fn watchers(&mut self) -> Result<()> {
        let separate_server = SeparateServer::start(&self.admin, "watched").await?;
        let transport = Transport::Http(separate_server.client.clone());
        // Of the round before. The first streams touch code of the executable, which is no memory of theirs.
        let (mut fewer, mut memory_of_fewer) = (0, separate_server.memory()?);
        let (mut rows, mut transaction_points, mut latency_points) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = None;
        for &count in self.sizes.watchers {
            let result = self.watched(&separate_server, &transport, count).await?;
            let each = (result.memory - memory_of_fewer).max(0.0) / ((count - fewer).max(1) as f64) * 1e3;
            (fewer, memory_of_fewer) = (count, result.memory);
            let cells = if count == 0 {
                vec![String::new(); 5]
            } else {
                let mut cells: Vec<String> =
                    [result.times.median(), result.times.within(99.0), result.times.longest()].map(short).into();
                cells.extend([short(result.last), short(each)]);
                latency_points.push((count as f64, result.times.within(99.0)));
                cells
            };
            transaction_points.push((count.max(1) as f64, result.transactions));
            let ends = Times::new(result.ends);
            let mut row = vec![count.to_string()];
            row.extend(cells);
            row.extend([short(result.transactions), short(ends.median()), short(ends.within(99.0))]);
            rows.push(row);
            if count == 1_000 {
                let p99 = result.times.within(99.0);
                let what = format!("commit to event, 1,000 watchers, p99 {} ms", short(p99));
                self.report.compare(what, "500 ms".into(), p99 / 500.0, Some(Threshold::AtMost(1.0)));
            }
            last = Some((count, each));
        }
        if let Some((count, each)) = last {
            let what = format!("server memory per additional watcher, {count} watchers, {} KB", short(each));
            self.report.compare(what, "20 KB".into(), each / 20.0, Some(Threshold::AtMost(1.0)));
            self.storm(&separate_server, &transport, count).await?;
        }
        separate_server.end().await?;
        self.report.table(Table {
            title: "Watchers of one job",
            about: "Twenty commits per second of ten items each. Time from the response to a commit until each watcher has received a state that \
                    includes it; a state is sent at most four times a second. The last columns show the cost for the database and for endings.",
            columns: vec![
                "watchers", "p50 ms", "p99 ms", "longest ms", "last final state, ms", "server memory per additional watcher, KB",
                "transactions/s in the database", "an ending p50 ms", "an ending p99 ms",
            ],
            rows,
        });
        let title = "Watchers of one job";
        let lines = vec![
            Line { name: "commit to event, p99 ms", points: latency_points },
            Line { name: "transactions per second", points: transaction_points },
        ];
        self.report.plot(Plot { name: "watchers", title, x_axis: "watchers", y_axis: "", lines });
        Ok(())
    }

    /// Measures `count` watchers while items end.
    async fn watched(
        &mut self,
        separate_server: &SeparateServer,
        transport: &Transport,
        count: usize,
    ) -> Result<WatchResult> {
        let commits = (Duration::from_secs(self.sizes.load_seconds.max(5)).as_millis() / PACE.as_millis()) as u64;
        let all = commits * u64::from(AT_ONCE);
        let job = transport.create("watched", Vec::new(), false).await?;
        transport.add(job, all, PAYLOAD).await?;
        let mut watchers = open(separate_server, job, count, all as i64).await?;
        let memory = separate_server.memory()?;
        sleep(Duration::from_secs(1)).await;
        let before = separate_server.transactions(self.meter.pool()).await?;
        let began = Instant::now();
        let (mut done, mut ends) = (Vec::new(), Vec::new());
        let mut pace = interval(PACE);
        for _ in 0..commits {
            pace.tick().await;
            let claimed = transport.claim(transport::claim_of("w", "watched", AT_ONCE)).await?;
            ensure!(claimed.len() == AT_ONCE as usize, "a claim returned {}", claimed.len());
            let endings = claimed.into_iter().map(|assignment| transport::ending(assignment.id)).collect();
            let requested_at = Instant::now();
            transport.finish(FinishBody { endings, claim: None }).await?;
            ends.push(requested_at.elapsed().as_secs_f64() * 1e3);
            done.push(Instant::now());
        }
        let seconds = began.elapsed().as_secs_f64();
        let (mut times, mut last) = (Vec::new(), 0.0_f64);
        while let Some(watcher) = timeout(TIMEOUT, watchers.join_next()).await.context("a watcher missed the end")? {
            let mut sightings = watcher??.into_iter().peekable();
            for (n, &committed) in done.iter().enumerate() {
                let holds = (n as i64 + 1) * i64::from(AT_ONCE);
                while sightings.next_if(|&(_, succeeded)| succeeded < holds).is_some() {}
                let &(at, _) = sightings.peek().context("a watcher missed the end")?;
                times.push(at.saturating_duration_since(committed).as_secs_f64() * 1e3);
            }
            last = last.max(times.last().copied().unwrap_or_default());
        }
        sleep(Duration::from_secs(1)).await;
        let transactions = (separate_server.transactions(self.meter.pool()).await? - before) / (seconds + 1.0);
        Ok(WatchResult { times: Times::new(times), last, ends, memory, transactions })
    }

    /// Disconnects all watchers and reconnects them, spread over ten seconds.
    async fn storm(&mut self, separate_server: &SeparateServer, transport: &Transport, count: usize) -> Result<()> {
        let job = transport.create("watched", Vec::new(), false).await?;
        let mut watchers = open(separate_server, job, count, i64::MAX).await?;
        let before = separate_server.memory()?;
        watchers.shutdown().await;
        let mut firsts = JoinSet::new();
        let (hold, claimed) = watch::channel(());
        for n in 0..count {
            let (address, mut claimed) = (separate_server.address.clone(), claimed.clone());
            let at = STORM.mul_f64(n as f64 / count as f64);
            firsts.spawn(async move {
                sleep(at).await;
                let began = Instant::now();
                let mut stream = Stream::open(&address, job).await?;
                stream.next().await?;
                let took = began.elapsed().as_secs_f64() * 1e3;
                // The stream stays open until all have reconnected.
                tokio::spawn(async move {
                    let _ = claimed.changed().await;
                    drop(stream);
                });
                Ok::<_, anyhow::Error>(took)
            });
        }
        let mut times = Vec::with_capacity(count);
        while let Some(first) = firsts.join_next().await {
            times.push(first??);
        }
        let after = separate_server.memory()?;
        drop(hold);
        let times = Times::new(times);
        let what =
            format!("all {count} watchers reconnected within 10 s, first event p99 {} ms", short(times.within(99.0)));
        self.report.compare(what, "3 s".into(), times.within(99.0) / 3e3, Some(Threshold::AtMost(1.0)));
        let what = format!("memory of the server after that, {} MB", short(after));
        self.report.compare(what, format!("before, {} MB", short(before)), after / before, None);
        Ok(())
    }
}

struct WatchResult {
    times: Times,
    /// From the last commit until the last watcher saw it, in milliseconds.
    last: f64,
    /// Durations of endings, in milliseconds.
    ends: Vec<f64>,
    memory: f64,
    transactions: f64,
}

/// Opens watchers and waits for their snapshots. Each ends when it sees `until` succeeded items.
async fn open(
    separate_server: &SeparateServer,
    job: Uuid,
    count: usize,
    until: i64,
) -> Result<JoinSet<Result<Sightings>>> {
    let mut watchers = JoinSet::new();
    let mut left = count;
    while left > 0 {
        let part = left.min(OPENED_AT_ONCE);
        let mut streams = Vec::with_capacity(part);
        for _ in 0..part {
            streams.push(async {
                let mut stream = Stream::open(&separate_server.address, job).await?;
                stream.next().await?;
                Ok::<_, anyhow::Error>(stream)
            });
        }
        for mut stream in futures::future::try_join_all(streams).await? {
            watchers.spawn(async move {
                let mut sightings = Sightings::new();
                loop {
                    let succeeded = stream.next().await?;
                    sightings.push((Instant::now(), succeeded));
                    if succeeded >= until {
                        return Ok(sightings);
                    }
                }
            });
        }
        left -= part;
    }
    Ok(watchers)
}

/// Connection of one watcher, which only parses the number of succeeded items.
struct Stream {
    socket: TcpStream,
    read: Vec<u8>,
}

impl Stream {
    async fn open(address: &str, job: Uuid) -> Result<Self> {
        let mut socket = TcpStream::connect(address).await?;
        let request = format!(
            "GET /api/v1/events?topics=job:{job} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {TOKEN}\r\naccept: text/event-stream\r\n\r\n"
        );
        socket.write_all(request.as_bytes()).await?;
        Ok(Self { socket, read: Vec::new() })
    }

    /// The next state of the job.
    async fn next(&mut self) -> Result<i64> {
        loop {
            if let Some(end) = find(&self.read, b"\n\n") {
                let event: Vec<u8> = self.read.drain(..end + 2).collect();
                if let Some(succeeded) = succeeded_in(&event) {
                    return Ok(succeeded);
                }
                continue;
            }
            let mut bytes = [0; 4096];
            let n = self.socket.read(&mut bytes).await?;
            ensure!(n > 0, "a stream ended");
            self.read.extend_from_slice(&bytes[..n]);
            if self.read.starts_with(b"HTTP/1.1 ") {
                ensure!(self.read.starts_with(b"HTTP/1.1 200"), "a stream was rejected");
            }
        }
    }
}

fn succeeded_in(event: &[u8]) -> Option<i64> {
    let name = b"\"succeeded\":";
    let at = find(event, name)? + name.len();
    let digits: Vec<u8> = event[at..].iter().copied().take_while(u8::is_ascii_digit).collect();
    String::from_utf8(digits).ok()?.parse().ok()
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
