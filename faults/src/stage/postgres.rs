//! A private, durable PostgreSQL, which can be stopped, killed and started again.
//!
//! Unlike `server::postgres::Throwaway`, it survives being stopped. A shell removes the cluster when its input closes,
//! so it is removed however this process ends.

use std::{
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use server::postgres::programs::Programs;
use sqlx::Connection as _;

const SETTINGS: &str = "listen_addresses = '127.0.0.1'
unix_socket_directories = ''
max_connections = 300
jit = off
shared_buffers = 256MB
max_wal_size = 2GB
fsync = on
full_page_writes = on
synchronous_commit = on
";

/// Mode of stopping PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Going {
    /// `pg_ctl stop -m fast`: sessions are cut, all data is written.
    Fast,
    /// `pg_ctl stop -m immediate`: as after a crash.
    Immediate,
    /// `kill -9` of the postmaster.
    Killed,
}

/// The cluster, running or not.
pub(crate) struct Postgres {
    programs: Programs,
    home: PathBuf,
    pub(crate) port: u16,
    guard: Child,
}

impl Postgres {
    /// Creates a cluster and starts it.
    pub(crate) fn start() -> Result<Self> {
        let programs = Programs::newest()?;
        let home = std::env::temp_dir().join(format!("treeline-faults-{:08x}", rand::random::<u32>()));
        programs.private_folder(&home)?;
        let mut shell = Command::new("sh");
        if let Some(account) = &programs.account {
            shell.uid(account.uid).gid(account.gid);
        }
        let guard = shell
            .args(["-c", "cat >/dev/null; \"$1/pg_ctl\" stop -m immediate -w -D \"$2/cluster\"; rm -rf \"$2\"", "sh"])
            .arg(&programs.bin)
            .arg(&home)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let port = free_port()?;
        let postgres = Self { programs, home, port, guard };
        let cluster = postgres.cluster();
        let made: Vec<std::ffi::OsString> =
            ["--username=postgres", "--encoding=UTF8", "--locale=C", "--no-sync", "--auth=trust", "--pgdata"]
                .iter()
                .map(Into::into)
                .chain([cluster.clone().into_os_string()])
                .collect();
        postgres.programs.run("initdb", made)?;
        let mut file = std::fs::File::options().append(true).open(cluster.join("postgresql.conf"))?;
        writeln!(file, "{SETTINGS}port = {port}")?;
        postgres.come_back()?;
        Ok(postgres)
    }

    fn cluster(&self) -> PathBuf {
        self.home.join("cluster")
    }

    /// URL of a database.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Stops PostgreSQL in this mode, and returns when no process is left.
    pub(crate) fn go(&self, going: Going) -> Result<()> {
        let cluster = self.cluster();
        let stop = |mode: &str| {
            let arguments = ["stop", "--wait", "--mode", mode, "--pgdata"].map(std::ffi::OsString::from);
            self.programs.run("pg_ctl", arguments.into_iter().chain([cluster.clone().into_os_string()]))
        };
        match going {
            Going::Fast => drop(stop("fast")?),
            Going::Immediate => drop(stop("immediate")?),
            Going::Killed => {
                let text = std::fs::read_to_string(cluster.join("postmaster.pid"))?;
                let pid: i32 = text.lines().next().context("a process id")?.trim().parse()?;
                kill_process(Pid::from_raw(pid).context("a process id")?, Signal::KILL)?;
                let began = Instant::now();
                while std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
                    ensure!(began.elapsed() < Duration::from_secs(10), "PostgreSQL does not die");
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        Ok(())
    }

    /// Starts PostgreSQL again and waits until it is ready. Processes left by a kill may take a moment to exit.
    pub(crate) fn come_back(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let (cluster, log) = (self.cluster(), self.home.join("log"));
            let arguments: [std::ffi::OsString; 7] = [
                "start".into(),
                "--wait".into(),
                "--timeout=60".into(),
                "--pgdata".into(),
                cluster.into(),
                "--log".into(),
                log.clone().into(),
            ];
            match self.programs.run("pg_ctl", arguments) {
                Ok(_) => return Ok(()),
                Err(error) if began.elapsed() > Duration::from_mins(1) => {
                    let log = std::fs::read_to_string(log).unwrap_or_default();
                    bail!("{error}\n{log}");
                }
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Creates an empty database with a new name, which it returns.
    pub(crate) async fn database(&self) -> Result<String> {
        let name = format!("faults_{:08x}", rand::random::<u32>());
        let mut connection = sqlx::PgConnection::connect(&self.url("postgres")).await?;
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create database {name}"))).execute(&mut connection).await?;
        Ok(name)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// A free port below the range for outgoing connections, so that the system does not use it while its server is down.
pub(crate) fn free_port() -> Result<u16> {
    let mut tried = (0..1_000).map(|_| rand::random_range(15_000..32_000));
    tried.find(|&port: &u16| std::net::TcpListener::bind(("127.0.0.1", port)).is_ok()).context("no port is free")
}
