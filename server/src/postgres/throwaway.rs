//! PostgreSQL for tests and benchmarks: fast to create, on a free port, and deleted with the process that started it.
//!
//! It is in the temporary directory. It behaves like the durable one, except that it does not survive a power failure.
//! Standard library only: `xtask` compiles this file too.

use std::{
    fmt::Write,
    io::Read,
    path::{Path, PathBuf},
};

use super::{
    guard::Guard,
    programs::{Doing, Error, Programs, Result},
};

/// Running throwaway PostgreSQL. Dropping it stops it and deletes its folder.
#[derive(Debug)]
pub struct Throwaway {
    url: String,
    bin: PathBuf,
    /// Stops the cluster and deletes the folder.
    _guard: Guard,
}

impl Throwaway {
    /// Creates and starts a cluster. Blocks for about two seconds.
    pub fn start() -> Result<Self> {
        Self::start_with(QUICK)
    }

    /// Starts a cluster with additional lines of settings.
    pub fn start_with_settings(more: &str) -> Result<Self> {
        Self::start_with(&format!("{QUICK}{more}"))
    }

    /// Starts a cluster with the durability costs of production, for benchmarks. `more`: lines of settings.
    pub fn start_durable(more: &str) -> Result<Self> {
        Self::start_with(&format!("{DURABLE}{more}"))
    }

    fn start_with(more: &str) -> Result<Self> {
        let programs = Programs::newest()?;
        let home = std::env::temp_dir().join(format!("treeline-{}", secret(8)?));
        programs.private_folder(&home)?;
        // Guard first: nothing may be left behind, wherever this process is stopped.
        let guard = Guard::start(&programs, &home)?;
        let password = secret(16)?;
        let mut postgres = Self { url: String::new(), bin: programs.bin.clone(), _guard: guard };

        let password_file = home.join("password");
        std::fs::write(&password_file, &password).doing(|| "writing the password".into())?;
        programs.give(&password_file)?;
        let cluster = home.join("cluster");
        programs.run(
            "initdb",
            [
                "--username=postgres".as_ref(),
                "--encoding=UTF8".as_ref(),
                "--locale=C".as_ref(),
                "--no-sync".as_ref(),
                "--auth=scram-sha-256".as_ref(),
                "--pwfile".as_ref(),
                password_file.as_os_str(),
                "--pgdata".as_ref(),
                cluster.as_os_str(),
            ],
        )?;
        // A free port may be taken before PostgreSQL binds it.
        let mut tries = 0;
        let port = loop {
            tries += 1;
            let port = free_port()?;
            std::fs::write(cluster.join("postgresql.conf"), settings(port, more))
                .doing(|| "writing the settings".into())?;
            let log = home.join("postgresql.log");
            let arguments = [
                "start".as_ref(),
                "--wait".as_ref(),
                "--timeout=60".as_ref(),
                "--pgdata".as_ref(),
                cluster.as_os_str(),
                "--log".as_ref(),
                log.as_os_str(),
            ];
            match programs.run("pg_ctl", arguments) {
                Ok(_) => break port,
                Err(_) if tries < 3 => {}
                Err(Error::Program { program, output }) => {
                    let log = std::fs::read_to_string(&log).unwrap_or_default();
                    return Err(Error::Program { program, output: format!("{output}\n{log}") });
                }
                Err(other) => return Err(other),
            }
        };
        postgres.url = format!("postgres://postgres:{password}@127.0.0.1:{port}/postgres");
        Ok(postgres)
    }

    /// URL of the superuser, to create databases: `postgres://postgres:…@127.0.0.1:…/postgres`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Folder of its programs, including `psql`.
    pub fn bin(&self) -> &Path {
        &self.bin
    }
}

fn settings(port: u16, more: &str) -> String {
    format!(
        "listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = ''
max_connections = 500
jit = off
synchronous_commit = on
{more}"
    )
}

/// Only for tests: the last two settings give up safety against power failures, which tests cannot observe. A killed
/// process loses nothing either way.
const QUICK: &str = "shared_buffers = 256MB
max_wal_size = 2GB
fsync = off
full_page_writes = off
";

const DURABLE: &str = "shared_buffers = 1GB
max_wal_size = 4GB
checkpoint_timeout = 15min
fsync = on
full_page_writes = on
";

fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).doing(|| "looking for a free port".into())?;
    Ok(listener.local_addr().doing(|| "looking for a free port".into())?.port())
}

/// Returns random bytes from the system, in hexadecimal.
fn secret(bytes: usize) -> Result<String> {
    let mut random = vec![0; bytes];
    let mut source = std::fs::File::open("/dev/urandom").doing(|| "opening /dev/urandom".into())?;
    source.read_exact(&mut random).doing(|| "reading /dev/urandom".into())?;
    Ok(random.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
