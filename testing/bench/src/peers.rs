//! Other job queues on the same PostgreSQL, each with its best durable settings, in alternation with the engine.
//!
//! Each is a program under `testing/bench/peers`, which reads `add` and `drain` from standard input and answers when it is
//! done. This module measures time and cost. Each run has its own database, whose rows are counted afterwards: a figure
//! is valid only if every item ended exactly once. The report names peers that cannot run.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use anyhow::{Context as _, Result, bail, ensure};
use sqlx::{Connection as _, PgConnection};
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};

use crate::{Bench, PAYLOAD, RESULT, fresh_database};

/// Timeout of one command.
const TIMEOUT: Duration = Duration::from_mins(3);

/// A system to compare with.
#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) added: &'static str,
    pub(crate) drained: &'static str,
    /// History of a finished item, stored result, detection of a dead worker, HTTP, and fetching of work.
    pub(crate) contract: [&'static str; 5],
    /// Number of items relative to the engine's run, so that a run takes at least three seconds.
    share: f64,
    program: fn(&Programs) -> Command,
    /// Statement that counts items that have ended exactly once.
    ended: &'static str,
}

/// Folders of the peers' programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    pub(crate) folder: PathBuf,
    pub(crate) built: PathBuf,
}

pub(crate) const CONTRACT: [&str; 6] =
    ["system", "history kept", "result stored", "worker's death noticed", "HTTP", "claims"];
/// The row of the engine.
pub(crate) const OURS: [&str; 6] =
    ["Treeline", "yes", "yes", "lease, heartbeat", "both measured", "only in the worker's memory"];

pub(crate) const PEERS: [Peer; 5] = [
    Peer {
        name: "graphile-worker",
        added: "graphile-worker: add",
        drained: "graphile-worker: drain",
        contract: ["**no**: deleted", "no", "lock, 4 hours", "no", "500 held in memory per process"],
        share: 4.0,
        program: |programs| node(&programs.folder.join("graphile-worker")),
        ended: "select $1::bigint - count(*) from graphile_worker._private_jobs",
    },
    Peer {
        name: "pg-boss",
        added: "pg-boss: add",
        drained: "pg-boss: drain",
        contract: ["yes", "yes", "expiry, 15 minutes", "no", "only in the worker's memory"],
        share: 3.0,
        program: |programs| node(&programs.folder.join("pg-boss")),
        ended: "select count(*) from pgboss.job where name = 'pay' and state = 'completed' and retry_count = 0 and $1 > 0",
    },
    Peer {
        name: "awa",
        added: "awa: add",
        drained: "awa: drain",
        contract: ["yes", "no", "heartbeat, 90 seconds", "no", "only in the workers' memory"],
        share: 1.0,
        program: |programs| Command::new(programs.built.join("release").join("peer-awa")),
        ended: "select count(distinct id) from awa.jobs where queue = 'pay' and state = 'completed' and attempt = 1 and $1 > 0",
    },
    Peer {
        name: "graphile_worker (Rust)",
        added: "graphile_worker (Rust): add",
        drained: "graphile_worker (Rust): drain",
        contract: ["**no**: deleted", "no", "lock, 4 hours", "no", "5,000 held in memory per process"],
        share: 4.0,
        program: |programs| Command::new(programs.built.join("release").join("peer-graphile-worker-rs")),
        ended: "select $1::bigint - count(*) from graphile_worker._private_jobs",
    },
    Peer {
        name: "pgqueuer",
        added: "pgqueuer: add",
        drained: "pgqueuer: drain",
        contract: ["log of states", "no", "heartbeat, 30 seconds", "no", "only in the workers' memory"],
        share: 0.4,
        program: |programs| {
            let mut python = Command::new(programs.built.join("pgqueuer").join("bin").join("python"));
            python.arg("main.py").current_dir(programs.folder.join("pgqueuer"));
            python
        },
        ended: "select count(distinct job_id) from pgqueuer_log where status = 'successful' and $1 > 0",
    },
];

/// The peers that keep what has ended, as the engine does.
pub(crate) const KEEPS_HISTORY: [&str; 3] = ["pg-boss: drain", "awa: drain", "pgqueuer: drain"];

/// The peers that delete what has ended.
pub(crate) const DELETING: [&str; 2] = ["graphile-worker: drain", "graphile_worker (Rust): drain"];

/// All of them, adding.
pub(crate) const ADDING: [&str; 5] =
    ["graphile-worker: add", "pg-boss: add", "awa: add", "graphile_worker (Rust): add", "pgqueuer: add"];

/// The Node that the folder's own lock file names: newer than the one that building the site needs.
fn node(folder: &Path) -> Command {
    let mut node = Command::new(folder.join("node_modules").join(".bin").join("node"));
    node.arg("main.mjs").current_dir(folder);
    node
}

impl Bench {
    /// One run of a peer. What cannot be run is named in the report, and the benchmark goes on.
    pub(crate) async fn peer(&mut self, peer: &Peer) -> Result<()> {
        if self.arguments.peers.is_none() || self.report.is_absent(peer.name) {
            return Ok(());
        }
        if let Err(error) = self.try_peer(peer).await {
            eprintln!("  {} is not measured: {error:#}", peer.name);
            self.report.absent(peer.name, format!("{error:#}"));
        }
        Ok(())
    }

    async fn try_peer(&mut self, peer: &Peer) -> Result<()> {
        let folder = self.arguments.peers.clone().context("there are no peers")?;
        let programs = Programs { folder, built: self.arguments.peers_built.clone() };
        let items = (self.sizes.items as f64 * peer.share) as u64;
        let url = fresh_database(&self.admin, "bench_peer").await?;
        let mut running = Running::start(peer, &programs, &url, items).await?;
        self.report.settings(peer, &running.version, &running.settings);
        let process = running.child.id();
        let meter = self.meter.clone().of(process);
        let added = meter.measure(running.command("add", items)).await?;
        let mut connection = PgConnection::connect(&url).await?;
        sqlx::query("analyze").execute(&mut connection).await?;
        let drained = meter.measure(running.command("drain", items)).await?;
        // What was written since is unknown to the planner, and some count through views over many tables.
        sqlx::raw_sql("analyze; set statement_timeout = '30s'").execute(&mut connection).await?;
        let ended: i64 = sqlx::query_scalar(peer.ended)
            .bind(items as i64)
            .fetch_one(&mut connection)
            .await
            .context("counting what has ended")?;
        connection.close().await?;
        ensure!(ended as u64 == items, "{ended} of {items} items have ended once");
        running.end().await?;
        self.report.add(peer.added, added);
        self.report.add(peer.drained, drained);
        Ok(())
    }
}

/// A peer's program that is ready.
struct Running {
    child: Child,
    input: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
    version: String,
    settings: String,
}

impl Running {
    async fn start(peer: &Peer, programs: &Programs, url: &str, items: u64) -> Result<Self> {
        let mut child = (peer.program)(programs)
            .env("DATABASE_URL", url)
            .env("ITEMS", items.to_string())
            .env("PAYLOAD", PAYLOAD)
            .env("RESULT", RESULT)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("its program cannot be started")?;
        let input = child.stdin.take();
        let lines = BufReader::new(child.stdout.take().context("no output")?).lines();
        let mut running = Self { child, input, lines, version: String::new(), settings: String::new() };
        let ready = running.answer().await?;
        let reported =
            |name: &str| ready[name].as_str().map(str::to_owned).with_context(|| format!("it did not say its {name}"));
        (running.version, running.settings) = (reported("version")?, reported("settings")?);
        Ok(running)
    }

    async fn answer(&mut self) -> Result<serde_json::Value> {
        match timeout(TIMEOUT, self.lines.next_line()).await.context("it takes too long")?? {
            Some(line) => Ok(serde_json::from_str(&line)?),
            None => bail!("its program ended with {}", self.child.wait().await?),
        }
    }

    async fn command(&mut self, word: &str, items: u64) -> Result<u64> {
        let input = self.input.as_mut().context("it was told to end")?;
        input.write_all(format!("{word}\n").as_bytes()).await?;
        let answer = self.answer().await?;
        ensure!(answer["done"] == word, "it was told {word} and said {answer}");
        Ok(items)
    }

    /// Its connections stay until here, so that what they cost could be read.
    async fn end(mut self) -> Result<()> {
        drop(self.input.take());
        timeout(TIMEOUT, self.child.wait()).await.context("it does not end")??;
        Ok(())
    }
}
