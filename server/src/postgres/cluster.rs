//! Durable cluster in the data directory: created once, started, taken over, stopped.
//!
//! The postmaster runs in its own session (by `pg_ctl`), so it outlives a killed server, and the next server takes it
//! over; after a crash of the machine it is started again and recovers. Several servers may share one data directory:
//! the last one stops the cluster. It listens on a Unix socket in a folder that only its account can enter,
//! never on a port. The server connects as `treeline_app`, which can change neither the schema nor an audit entry;
//! `treeline` owns the cluster and migrates it.

use std::{
    fs::{File, TryLockError},
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    lock_file,
    programs::{Doing, Error, Programs, Result, open_lock, output_text, read},
};

/// Timeout of a start; allows for crash recovery of a busy cluster.
const START_TIMEOUT: Duration = Duration::from_mins(2);

/// File name of PostgreSQL's socket.
const SOCKET: &str = ".s.PGSQL.5432";

/// Database role of the server.
pub const APP_ROLE: &str = "treeline_app";

/// Longest path of a Unix socket that every system supports.
const LONGEST_SOCKET: usize = 103;

/// Running private PostgreSQL, shared by all users of the data directory. Dropping it stops the cluster unless another
/// server uses it.
#[derive(Debug)]
pub struct PrivatePostgres {
    programs: Programs,
    home: PathBuf,
    url: String,
    /// Shared lock, held while the cluster is in use; a killed process releases it.
    in_use: Option<File>,
}

impl PrivatePostgres {
    /// Starts the cluster in `data_dir`, creating it if needed, or takes over a running one. Returns when it accepts
    /// connections. Blocks: call it off the async threads.
    pub fn start(data_dir: &Path) -> Result<Self> {
        let data_dir = std::path::absolute(data_dir).doing(|| format!("resolving {}", data_dir.display()))?;
        std::fs::create_dir_all(&data_dir).doing(|| format!("making {}", data_dir.display()))?;
        let home = data_dir.join("postgres");
        let programs = match made_by(&home.join("cluster")) {
            Some(major) => Programs::of_version(major, &home)?,
            None => Programs::newest()?,
        };
        let socket = home.join("run").join(SOCKET);
        if socket.as_os_str().len() > LONGEST_SOCKET {
            return Err(Error::PathTooLong { path: socket });
        }
        programs.private_folder(&home)?;
        programs.folder_within(&home.join("run"))?;

        let url = format!("postgres:///treeline?host={}&user=treeline", percent_encoded(&home.join("run")));
        let mut postgres = Self { programs, home, url, in_use: None };
        let starting = postgres.lock("starting.lock")?;
        starting.lock().doing(|| "waiting for another server to start PostgreSQL".into())?;
        postgres.make()?;
        postgres.run()?;
        postgres.make_database()?;
        let in_use = postgres.lock("in-use.lock")?;
        in_use.lock_shared().doing(|| "marking PostgreSQL as in use".into())?;
        postgres.in_use = Some(in_use);
        Ok(postgres)
    }

    /// `postgres:///treeline?host=…`: for libpq and sqlx alike. As the owner.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// URL for the role of the server, which is not a superuser and owns nothing.
    pub fn app_url(&self) -> String {
        self.url.replace("&user=treeline", &format!("&user={APP_ROLE}"))
    }

    /// Major version, such as 15.
    pub fn major(&self) -> u32 {
        self.programs.major
    }

    /// Folder of its programs, including `psql`.
    pub fn bin(&self) -> &Path {
        &self.programs.bin
    }

    /// Folder of all its files.
    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Restarts the cluster if it has died. Cheap while it runs. Blocks.
    pub fn revive(&self) -> Result<Revived> {
        if self.listens() {
            return Ok(Revived::Ran);
        }
        let starting = self.lock("starting.lock")?;
        starting.lock().doing(|| "waiting for another server to start PostgreSQL".into())?;
        self.run()?;
        Ok(Revived::Restarted)
    }

    /// Stops the cluster (fast shutdown) unless another server uses it. Blocks.
    pub fn stop(mut self) -> Result<()> {
        self.leave()
    }

    fn leave(&mut self) -> Result<()> {
        let Some(in_use) = self.in_use.take() else { return Ok(()) };
        let starting = self.lock("starting.lock")?;
        starting.lock().doing(|| "waiting for another server to start PostgreSQL".into())?;
        // Unlocking releases the lock of every copy of this file; closing would leave it with a child that this process
        // is just starting, which holds a copy until it calls exec.
        in_use.unlock().doing(|| "leaving PostgreSQL".into())?;
        // Others cannot start to use it now: starting needs the lock that is held here.
        match self.lock("in-use.lock")?.try_lock() {
            Err(TryLockError::WouldBlock) => Ok(()),
            Err(TryLockError::Error(source)) => Err(Error::Io { what: "asking who uses PostgreSQL".into(), source }),
            Ok(()) if !self.listens() => Ok(()),
            Ok(()) => self.programs.run("pg_ctl", self.pg_ctl(["stop", "--mode=fast", "--timeout=60"])).map(drop),
        }
    }

    /// Returns true if a postmaster accepts connections on its socket, even if it responds slowly.
    fn listens(&self) -> bool {
        UnixStream::connect(self.home.join("run").join(SOCKET)).is_ok()
    }

    fn lock(&self, name: &str) -> Result<File> {
        let path = self.home.join(name);
        open_lock(&path).doing(|| format!("opening {}", path.display()))
    }

    fn cluster(&self) -> PathBuf {
        self.home.join("cluster")
    }

    /// Path of PostgreSQL's own lock file.
    fn lock_file(&self) -> PathBuf {
        self.cluster().join("postmaster.pid")
    }

    fn pg_ctl<const N: usize>(&self, arguments: [&str; N]) -> Vec<std::ffi::OsString> {
        let mut all: Vec<std::ffi::OsString> = arguments.iter().map(Into::into).collect();
        all.extend(["--wait".into(), "--pgdata".into(), self.cluster().into()]);
        all
    }

    /// Creates the cluster if there is none, and writes its settings.
    fn make(&self) -> Result<()> {
        if made_by(&self.cluster()).is_none() {
            // A cluster appears complete or not at all: delete what a killed first start left behind.
            let unfinished = self.home.join("cluster.new");
            self.programs.remove_within(&unfinished)?;
            self.programs.run(
                "initdb",
                [
                    "--username=treeline".as_ref(),
                    "--encoding=UTF8".as_ref(),
                    "--locale=C".as_ref(),
                    "--data-checksums".as_ref(),
                    "--auth-local=trust".as_ref(),
                    "--auth-host=reject".as_ref(),
                    "--pgdata".as_ref(),
                    unfinished.as_os_str(),
                ],
            )?;
            std::fs::rename(&unfinished, self.cluster()).doing(|| "putting the new cluster in its place".into())?;
        }
        let path = self.cluster().join("postgresql.conf");
        self.programs.write_within(&path, &settings(&self.home.join("run")))
    }

    /// Starts the cluster and waits until it accepts connections.
    fn run(&self) -> Result<()> {
        let deadline = Instant::now() + START_TIMEOUT;
        let log = self.home.join("start.log");
        loop {
            match self.answer()? {
                Answer::Ready => return Ok(()),
                // Recovering, or still shutting down for a server that was killed meanwhile.
                Answer::Busy if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(50)),
                Answer::Busy => {
                    return Err(Error::Program {
                        program: "postgres".into(),
                        output: "it does not become ready".into(),
                    });
                }
                Answer::Silent => {
                    lock_file::replace_stale_id(&self.programs, &self.lock_file())?;
                    let mut arguments = self.pg_ctl(["start", "--timeout=120"]);
                    arguments.extend(["--log".into(), log.clone().into()]);
                    let _ = std::fs::remove_file(&log);
                    match self.programs.run("pg_ctl", arguments) {
                        Ok(_) => return Ok(()),
                        // Another postmaster is shutting down here: its socket is gone, its lock file not yet.
                        Err(_) if self.lock_file().exists() && Instant::now() < deadline => {
                            std::thread::sleep(Duration::from_millis(50));
                        }
                        Err(Error::Program { program, output }) => {
                            let log = read(&log).unwrap_or_default();
                            return Err(Error::Program { program, output: format!("{output}\n{log}") });
                        }
                        Err(other) => return Err(other),
                    }
                }
            }
        }
    }

    fn answer(&self) -> Result<Answer> {
        let probe = self
            .programs
            .command("pg_isready")
            .args(["--quiet", "--timeout=5", "--host"])
            .arg(self.home.join("run"))
            .output()
            .doing(|| "running pg_isready".into())?;
        match probe.status.code() {
            Some(0) => Ok(Answer::Ready),
            Some(1) => Ok(Answer::Busy),
            Some(2) => Ok(Answer::Silent),
            _ => Err(Error::Program { program: "pg_isready".into(), output: output_text(&probe) }),
        }
    }

    fn make_database(&self) -> Result<()> {
        let run = self.home.join("run");
        let psql = |statement: &str| {
            let fixed = [
                "--no-psqlrc",
                "--username=treeline",
                "--dbname=postgres",
                "--tuples-only",
                "--no-align",
                "--command",
                statement,
            ];
            let host = [std::ffi::OsString::from("--host"), run.clone().into()];
            self.programs.run("psql", host.into_iter().chain(fixed.into_iter().map(Into::into)))
        };
        if psql("select 1 from pg_database where datname = 'treeline'")?.trim().is_empty() {
            psql("create database treeline")?;
        }
        // The lock serializes two servers that start at once.
        if psql(&format!("select 1 from pg_roles where rolname = '{APP_ROLE}'"))?.trim().is_empty() {
            psql(&format!("create role {APP_ROLE} login nosuperuser nocreatedb nocreaterole"))?;
        }
        Ok(())
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        if let Err(error) = self.leave() {
            // The error cannot be returned here; the next start takes the cluster over.
            eprintln!("PostgreSQL was not stopped: {error}");
        }
    }
}

/// Result of [`PrivatePostgres::revive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Revived {
    /// It was running; nothing was done.
    Ran,
    /// It had died and was restarted.
    Restarted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Accepts connections.
    Ready,
    /// Starting, recovering or shutting down.
    Busy,
    /// No listener.
    Silent,
}

/// Major version that created a cluster; `None` if there is no cluster.
fn made_by(cluster: &Path) -> Option<u32> {
    read(&cluster.join("PG_VERSION")).ok()?.trim().parse().ok()
}

/// Contents of postgresql.conf. The durability of acknowledged commits depends on these settings.
fn settings(run: &Path) -> String {
    let run = run.display().to_string().replace('\'', "''");
    format!(
        "# Written by Treeline at every start. Put settings of your own into own.conf beside this file.
listen_addresses = ''
unix_socket_directories = '{run}'
unix_socket_permissions = 0700

# An acknowledged commit survives the loss of power.
fsync = on
full_page_writes = on
synchronous_commit = on

max_connections = 200
shared_buffers = 256MB
max_wal_size = 2GB
checkpoint_timeout = 10min
wal_compression = on
random_page_cost = 1.1
# Short statements only: compiling a plan would cost more than running it.
jit = off

logging_collector = on
log_directory = 'log'
log_filename = 'postgresql-%a.log'
log_truncate_on_rotation = on
log_rotation_age = 1d
log_rotation_size = 0
include_if_exists = 'own.conf'
"
    )
}

/// Percent-encodes a path as the value of a URL parameter.
pub(super) fn percent_encoded(path: &Path) -> String {
    use std::{fmt::Write, os::unix::ffi::OsStrExt};
    let mut text = String::new();
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-_.~".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}
