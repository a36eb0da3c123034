//! Environment of a fault: a fresh database in the run's PostgreSQL, servers and workers as processes, their journal
//! and callback receiver.
//!
//! Servers keep their address over restarts, so callers can keep using it. The fixture is independent of the fault;
//! the scenarios are in `faults`.

pub(crate) mod faketime;
pub(crate) mod pair;
pub(crate) mod postgres;
pub(crate) mod process;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use client::Client;
use futures::future::BoxFuture;
use sqlx::{PgPool, postgres::PgPoolOptions};
use tempfile::TempDir;

use crate::{
    fixture::{
        postgres::Postgres,
        process::{Guard, Process, Server},
    },
    inconclusive::Inconclusive,
    journal::Journal,
    machine::Machine,
    receiver::Receiver,
    workload::{self, Workload},
};

/// The bootstrap token of every server here.
pub(crate) const TOKEN: &str = "a-token-that-lives-as-long-as-the-faults";

/// A lease, in seconds.
pub(crate) const LEASE: Duration = Duration::from_millis(2_100);

/// State shared by all faults of a run.
pub(crate) struct RunContext {
    pub(crate) postgres: Postgres,
    /// The server's program, built with its crash points.
    pub(crate) server: PathBuf,
    /// The server's program of the version before, for the rehearsal of an upgrade.
    pub(crate) old_server: Option<PathBuf>,
    pub(crate) seed: u64,
    /// Number of items that one fault submits.
    pub(crate) items: usize,
    /// True for the long run.
    pub(crate) full: bool,
    pub(crate) machine: Machine,
    /// Python environment with Patroni, for the faults of a pair of databases.
    pub(crate) patroni: Option<PathBuf>,
}

/// Options of a fixture.
#[derive(Clone, Debug)]
pub(crate) struct FixtureOptions {
    pub(crate) servers: usize,
    pub(crate) workers: usize,
    /// Concurrency of each worker.
    pub(crate) slots: usize,
    /// Approximate duration of an item in milliseconds.
    pub(crate) work_ms: u64,
    /// Workers that ignore the end of their leases.
    pub(crate) stubborn: bool,
    /// Additional environment variables of every server.
    pub(crate) environment: Vec<(String, String)>,
    /// RabbitMQ address of the workers.
    pub(crate) amqp: Option<String>,
    /// URL of an existing, empty database; `None`: a fresh one in the run's PostgreSQL.
    pub(crate) database: Option<String>,
    /// Program of the servers; `None`: the run's.
    pub(crate) program: Option<PathBuf>,
}

impl Default for FixtureOptions {
    fn default() -> Self {
        Self {
            servers: 2,
            workers: 4,
            slots: 8,
            work_ms: 30,
            stubborn: false,
            environment: Vec::new(),
            amqp: None,
            database: None,
            program: None,
        }
    }
}

/// One fault's servers, workers and database.
pub(crate) struct Fixture {
    pub(crate) options: FixtureOptions,
    pub(crate) servers: Vec<Server>,
    pub(crate) workers: Vec<Process>,
    /// Direct connection to the database, without a proxy.
    pub(crate) pool: PgPool,
    /// URL of the database.
    pub(crate) database: String,
    pub(crate) journal: Arc<Journal>,
    /// Receiver of callbacks.
    pub(crate) receiver: Receiver,
    folder: TempDir,
    guard: Guard,
    /// Values that must live as long as the fixture, such as a broker.
    resources: Vec<Box<dyn std::any::Any + Send + Sync>>,
}

impl Fixture {
    /// Starts a fresh database, ready servers, and workers, and creates the job types. An error says nothing about the
    /// promises.
    pub(crate) async fn start(context: &RunContext, options: FixtureOptions) -> Result<Self> {
        Self::start_under_test(context, options).await.context(Inconclusive::Setup)
    }

    /// The same as [`Fixture::start`], if the start is what is tested.
    pub(crate) async fn start_under_test(context: &RunContext, options: FixtureOptions) -> Result<Self> {
        let database = match &options.database {
            Some(url) => url.clone(),
            None => context.postgres.url(&context.postgres.database().await?),
        };
        let pool =
            PgPoolOptions::new().max_connections(4).acquire_timeout(Duration::from_secs(3)).connect_lazy(&database)?;
        let folder = tempfile::Builder::new().prefix("treeline-faults-").tempdir()?;
        let journal = Arc::new(Journal::create(&folder.path().join("journal"))?);
        let receiver = Receiver::listen(folder.path().join("receiver")).await?;
        let guard = Guard::new()?;
        let mut fixture = Self {
            options: options.clone(),
            servers: Vec::new(),
            workers: Vec::new(),
            pool,
            database,
            journal,
            receiver,
            folder,
            guard,
            resources: Vec::new(),
        };
        for _ in 0..options.servers {
            fixture.add_server(context).await?;
        }
        workload::put_types(&fixture.client(0)?).await?;
        for at in 0..options.workers {
            fixture.add_worker(at % options.servers.max(1), &workload::TYPES, options.stubborn)?;
        }
        Ok(fixture)
    }

    /// Adds a server on the same database and waits until it is ready.
    pub(crate) async fn add_server(&mut self, context: &RunContext) -> Result<()> {
        let at = self.servers.len();
        let port = postgres::free_port()?;
        let program = self.options.program.as_ref().unwrap_or(&context.server);
        let mut process = Process::new(program, self.path(&format!("server-{at}.log")), &self.guard);
        for (name, value) in [
            ("DATABASE_URL", self.database.as_str()),
            ("TREELINE_DATA_DIR", &self.path("data").to_string_lossy()),
            ("TREELINE_LISTEN", &format!("127.0.0.1:{port}")),
            ("TREELINE_BOOTSTRAP_TOKEN", TOKEN),
            ("TREELINE_CALLBACK_ALLOW", "127.0.0.1"),
            ("TREELINE_PUSH_ALLOW", "127.0.0.1"),
            ("TREELINE_CALLBACK_RETRY_SECONDS", "0.3"),
            ("TREELINE_CALLBACK_TIMEOUT_SECONDS", "1"),
            ("RUST_LOG", "info,sqlx=warn"),
        ] {
            process.set(name, value);
        }
        for (name, value) in &self.options.environment {
            process.set(name, value);
        }
        let mut server = Server { process, port };
        server.start().await?;
        self.servers.push(server);
        Ok(())
    }

    /// Adds a worker process for these types that uses this server.
    pub(crate) fn add_worker(&mut self, server: usize, types: &[&str], stubborn: bool) -> Result<()> {
        let url = self.servers.get(server).context("no such server")?.url();
        self.add_worker_at(&url, types, stubborn)
    }

    /// Adds a worker process that uses any address.
    pub(crate) fn add_worker_at(&mut self, url: &str, types: &[&str], stubborn: bool) -> Result<()> {
        let at = self.workers.len();
        let ledger = self.path(&format!("worker-{at}.ledger")).to_string_lossy().into_owned();
        let (slots, work_ms) = (self.options.slots.to_string(), self.options.work_ms.to_string());
        let line = ["worker", "--url", url, "--token", TOKEN, "--ledger", &ledger, "--slots", &slots];
        let mut line: Vec<String> = line.iter().map(|&word| word.to_owned()).collect();
        line.extend(["--work-ms".to_owned(), work_ms]);
        for name in types {
            line.extend(["--types".to_owned(), (*name).to_owned()]);
        }
        if stubborn {
            line.push("--stubborn".to_owned());
        }
        if let Some(amqp) = &self.options.amqp {
            line.extend(["--amqp".to_owned(), amqp.clone()]);
        }
        let log = self.path(&format!("worker-{at}.log"));
        let mut process = Process::new(&std::env::current_exe()?, log, &self.guard).arguments(line);
        process.start()?;
        self.workers.push(process);
        Ok(())
    }

    /// A client of one server.
    pub(crate) fn client(&self, server: usize) -> Result<Client> {
        let url = self.servers.get(server).context("no such server")?.url();
        Ok(Client::new(&url, Some(TOKEN))?.with_retry_timeout(Duration::from_secs(2)))
    }

    /// Submits items to all servers, in the background.
    pub(crate) fn start_workload(&self, mut workload: Workload) -> Result<tokio::task::JoinHandle<Result<()>>> {
        let clients = (0..self.servers.len()).map(|at| self.client(at)).collect::<Result<Vec<_>>>()?;
        workload.callback.get_or_insert_with(|| self.receiver.target());
        Ok(tokio::spawn(workload::submit(workload, clients, Arc::clone(&self.journal))))
    }

    /// True if every tree is complete and no callback is pending. `None` if the database does not answer.
    pub(crate) async fn is_drained(&self) -> Option<bool> {
        Some(self.open_work().await? == (0, 0))
    }

    /// Number of trees that are not complete, and of pending callbacks. `None` if the database does not answer.
    pub(crate) async fn open_work(&self) -> Option<(i64, i64)> {
        let open = "select (select count(*) from job_state g join job j on j.job_key = g.job_key
              where j.parent_id is null and g.tree_completed_at is null and g.deleted_at is null),
            (select count(*) from delivery where state = 1)";
        sqlx::query_as(open).fetch_one(&self.pool).await.ok()
    }

    /// Repeats a disturbance during the workload, at least `min_times` times, and at most twice as often while the
    /// submitted items are processed. Returns the number of repetitions.
    pub(crate) async fn disturb(
        &mut self,
        workload: &mut tokio::task::JoinHandle<Result<()>>,
        min_times: usize,
        pause: Duration,
        mut run: impl for<'b> FnMut(&'b mut Fixture, usize) -> BoxFuture<'b, Result<()>>,
    ) -> Result<usize> {
        let mut times = 0;
        loop {
            tokio::time::sleep(pause).await;
            let enough = times >= min_times && workload.is_finished();
            if enough && (times >= 2 * min_times || self.is_drained().await == Some(true)) {
                return Ok(times);
            }
            ensure!(times < 10_000, "the offered work has not ended after {times} disturbances");
            run(self, times).await?;
            times += 1;
        }
    }

    /// Waits until every call is answered, every tree complete and every callback sent. Returns `Ok(false)` after the
    /// timeout.
    pub(crate) async fn wait_until_drained(
        &self,
        workload: tokio::task::JoinHandle<Result<()>>,
        max_wait: Duration,
    ) -> Result<bool> {
        tokio::time::timeout(Duration::from_mins(5), workload).await.context("the load does not end")???;
        let began = Instant::now();
        while self.is_drained().await != Some(true) {
            if began.elapsed() > max_wait {
                return Ok(false);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(true)
    }

    /// Path of a file or folder of this fixture.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Folder of its files: journal, ledgers, logs.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills all processes, so that nothing is written anymore.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        for worker in &mut self.workers {
            worker.kill().await?;
        }
        for server in &mut self.servers {
            server.process.kill().await?;
        }
        Ok(())
    }

    /// Keeps a value alive until the fixture has been checked.
    pub(crate) fn keep_alive(&mut self, what: Box<dyn std::any::Any + Send + Sync>) {
        self.resources.push(what);
    }

    /// Keeps the files of the fixture for the analysis of a failure. Returns their folder.
    pub(crate) fn keep_files(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }
}
