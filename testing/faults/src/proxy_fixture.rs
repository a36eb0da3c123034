//! Environment of a network fault: a database, a proxy in front of it, and servers that know only the proxy.
//!
//! Several fixtures share one PostgreSQL, each with its own database. Servers are processes; their logs are checked at
//! the end, so that a run with errors in a log never passes.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use serde_json::{Value, json};
use sqlx::{
    Connection as _, PgConnection, PgPool,
    postgres::{PgConnectOptions, PgPoolOptions},
};
use tempfile::TempDir;

use crate::{
    fixture::{
        RunContext, TOKEN,
        postgres::free_port,
        process::{Guard, Process, Server},
    },
    inconclusive::Inconclusive,
    proxy::Proxy,
    raw::{Api, until},
};

/// Texts that must not appear in a log: a panic, a statement in an aborted transaction (SQLSTATE 25P02), a nested
/// transaction (25001). The messages, not the codes: digits of a time or of an id can spell a code.
const FORBIDDEN_LOG_TEXTS: &[&str] = &[
    "panicked at",
    "current transaction is aborted",
    "inside a transaction block",
    "already a transaction",
    "already in progress",
];

/// A database, the proxy in front of it, and a folder for files.
pub(crate) struct ProxyFixture {
    /// Direct connection to the database, for checks.
    pub(crate) pool: PgPool,
    /// Proxy between the servers and the database.
    pub(crate) proxy: Proxy,
    /// URL of the database through the proxy.
    pub(crate) url: String,
    program: PathBuf,
    direct: PgConnectOptions,
    folder: TempDir,
    guard: Guard,
    started: AtomicU32,
}

/// A running server, and a client of it.
pub(crate) struct RunningServer {
    pub(crate) api: Api,
    pub(crate) addr: SocketAddr,
    pub(crate) server: Server,
}

impl ProxyFixture {
    /// Creates a database. `more` is appended to the statement, such as `tablespace small`.
    pub(crate) async fn new(context: &RunContext, more: &str) -> Result<Self> {
        Self::create(context, more).await.context(Inconclusive::Setup)
    }

    async fn create(context: &RunContext, more: &str) -> Result<Self> {
        let name = format!("scene_{:08x}", rand::random::<u32>());
        let mut connection = PgConnection::connect(&context.postgres.url("postgres")).await?;
        let make = sqlx::AssertSqlSafe(format!("create database {name} {more}"));
        sqlx::raw_sql(make).execute(&mut connection).await.context("making a database")?;
        let proxy = Proxy::to(SocketAddr::from(([127, 0, 0, 1], context.postgres.port))).await?;
        let direct: PgConnectOptions = context.postgres.url(&name).parse()?;
        let url = context
            .postgres
            .url(&name)
            .replace(&format!(":{}/", context.postgres.port), &format!(":{}/", proxy.port()));
        let pool = PgPoolOptions::new().max_connections(6).connect_lazy_with(direct.clone());
        let folder = tempfile::Builder::new().prefix("treeline-faults-").tempdir()?;
        let (program, guard, started) = (context.server.clone(), Guard::new()?, AtomicU32::new(1));
        Ok(Self { pool, proxy, url, program, direct, folder, guard, started })
    }

    /// A separate, direct connection to the database.
    pub(crate) async fn session(&self) -> Result<PgConnection> {
        Ok(PgConnection::connect_with(&self.direct.clone().application_name("fault")).await?)
    }

    /// Folder for files of the fault.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// A program that ends with this process.
    pub(crate) fn process(&self, program: &Path, log: &str) -> Process {
        Process::new(program, self.folder().join(log), &self.guard)
    }

    /// The server's program with the environment of this fixture, not started.
    pub(crate) fn program(&self, listen: &str, environment: &[(&str, &str)]) -> Process {
        let number = self.started.fetch_add(1, Relaxed);
        let mut process = self.process(&self.program, &format!("server-{number}.log"));
        for (name, value) in [
            ("DATABASE_URL", self.url.as_str()),
            ("TREELINE_DATA_DIR", &self.folder().join("data").to_string_lossy()),
            ("TREELINE_LISTEN", listen),
            ("TREELINE_BOOTSTRAP_TOKEN", TOKEN),
            ("TREELINE_CALLBACK_ALLOW", "127.0.0.1"),
            ("TREELINE_PUSH_ALLOW", "127.0.0.1"),
            ("RUST_LOG", "info,sqlx=warn"),
        ] {
            process.set(name, value);
        }
        for (name, value) in environment {
            process.set(name, value);
        }
        process
    }

    /// Starts a server and waits until it is ready.
    pub(crate) async fn serve(&self, environment: &[(&str, &str)]) -> Result<RunningServer> {
        let port = free_port()?;
        let process = self.program(&format!("127.0.0.1:{port}"), environment);
        let mut server = Server { process, port };
        server.start().await?;
        let api = Api::new(&server.url(), TOKEN)?;
        Ok(RunningServer { api, addr: SocketAddr::from(([127, 0, 0, 1], port)), server })
    }

    /// Reads one number from the database.
    pub(crate) async fn number(&self, statement: &'static str) -> Result<i64> {
        Ok(sqlx::query_scalar(statement).fetch_one(&self.pool).await?)
    }

    /// Number of server sessions that have been idle in a transaction for more than a second.
    pub(crate) async fn idle_in_transaction(&self) -> Result<i64> {
        self.number(
            "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'treeline'
             and state like 'idle in transaction%' and clock_timestamp() - state_change > interval '1 second'",
        )
        .await
    }

    /// Claims and ends all remaining items, and waits until all trees are complete and nothing is pending. Leases of
    /// lost workers expire in the meantime.
    pub(crate) async fn drain(&self, api: &Api, types: &[&str], max_wait: Duration) -> Result<()> {
        let open =
            "select (select count(*) from ready) + (select count(*) from deferred) + (select count(*) from blocked)
             + (select count(*) from lease) + (select count(*) from completion_check) + (select count(*) from propagation)";
        until("everything has ended", max_wait, async || {
            for job_type in types {
                let assignments = api.claim(job_type, 500).await?;
                let ending = |one: &Value| json!({"assignment_id": one["id"], "result": {}});
                let endings: Vec<_> = assignments.iter().map(ending).collect();
                if !endings.is_empty() {
                    api.post("/assignments/finish", &json!({"endings": endings})).await?.ok()?;
                }
            }
            Ok(self.number(open).await? == 0)
        })
        .await
        .map(drop)
    }
}

impl RunningServer {
    /// The first line of its log with a forbidden text.
    pub(crate) fn forbidden_log_line(&self) -> Result<Option<String>> {
        let log = std::fs::read_to_string(self.server.process.log())?;
        Ok(log
            .lines()
            .find(|line| FORBIDDEN_LOG_TEXTS.iter().any(|forbidden| line.contains(forbidden)))
            .map(str::to_owned))
    }

    /// Its current memory, in KiB.
    pub(crate) fn memory(&self) -> Result<u64> {
        let id = self.server.process.id().context("it runs")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("its memory")?;
        line.split_whitespace().nth(1).context("a number")?.parse().context("a number")
    }

    /// Stops it, and returns the time that this took.
    pub(crate) async fn stop(&mut self) -> Result<Duration> {
        let begun = Instant::now();
        self.server.process.terminate().await?;
        Ok(begun.elapsed())
    }
}
