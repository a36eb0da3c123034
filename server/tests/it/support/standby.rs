//! A private PostgreSQL with a hot standby that can be paused, killed and started again. Both log every statement with
//! its parameters, which shows the one that a read came from.

use std::path::PathBuf;

use server::postgres::{Throwaway, guard::Guard, programs::Programs};
use sqlx::{ConnectOptions as _, postgres::PgConnectOptions};
use uuid::Uuid;

use super::{run, until};

/// A primary, and its standby.
pub(crate) struct Pair {
    /// Stops the standby and deletes the folder. The primary, which logs there, stops after it.
    _guard: Guard,
    pub(crate) primary: Throwaway,
    programs: Programs,
    home: PathBuf,
    port: u16,
}

impl Pair {
    /// Starts both.
    pub(crate) fn start() -> Self {
        let programs = Programs::newest().expect("PostgreSQL");
        let home = std::env::temp_dir().join(format!("treeline-standby-{}", Uuid::now_v7().simple()));
        programs.private_folder(&home).expect("a folder");
        let guard = Guard::start(&programs, &home).expect("a shell");
        let settings = format!(
            "logging_collector = on\nlog_directory = '{}'\nlog_filename = 'primary.log'\nlog_rotation_age = 0\n\
             log_rotation_size = 0\nlog_min_duration_statement = 0\nwal_retrieve_retry_interval = '100ms'\n\
             hot_standby_feedback = on\n",
            home.display()
        );
        let primary = Throwaway::start_with_settings(&settings).expect("a primary");
        let free = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let port = free.local_addr().expect("an address").port();
        drop(free);
        let pair = Self { _guard: guard, primary, programs, home, port };
        let cluster = pair.cluster();
        let copied =
            ["-R", "-X", "stream", "-c", "fast", "--no-sync", "-d", pair.primary.url(), "-D", cluster.as_str()];
        pair.programs.run("pg_basebackup", copied).expect("a copy of the primary");
        let path = PathBuf::from(&cluster).join("postgresql.conf");
        let copied = std::fs::read_to_string(&path).expect("settings");
        std::fs::write(path, format!("{copied}port = {port}\nlog_filename = 'standby.log'\n")).expect("settings");
        pair.start_standby();
        pair
    }

    fn cluster(&self) -> String {
        self.home.join("cluster").display().to_string()
    }

    /// Starts the standby again.
    pub(crate) fn start_standby(&self) {
        let log = self.home.join("start.log").display().to_string();
        let cluster = self.cluster();
        let arguments = ["start", "--wait", "--timeout=60", "--pgdata", cluster.as_str(), "--log", log.as_str()];
        self.programs.run("pg_ctl", arguments).expect("the standby starts");
    }

    /// Stops the standby as if it crashed.
    pub(crate) fn kill_standby(&self) {
        let cluster = self.cluster();
        let arguments = ["stop", "--wait", "--mode=immediate", "--pgdata", cluster.as_str()];
        self.programs.run("pg_ctl", arguments).expect("the standby stops");
    }

    /// Superuser on the standby.
    pub(crate) fn standby(&self) -> PgConnectOptions {
        let primary: PgConnectOptions = self.primary.url().parse().expect("a URL");
        primary.port(self.port)
    }

    /// URL of a database on the standby.
    pub(crate) fn standby_url(&self, database: &str) -> String {
        self.standby().database(database).to_url_lossy().to_string()
    }

    /// Number of statements so far with this text or parameter on the primary, and on the standby. Both must run.
    pub(crate) async fn statements(&self, text: &str) -> (usize, usize) {
        let primary = self.primary.url().parse().expect("a URL");
        (self.logged(&primary, "primary.log", text).await, self.logged(&self.standby(), "standby.log", text).await)
    }

    async fn logged(&self, postgres: &PgConnectOptions, log: &str, text: &str) -> usize {
        // Earlier lines are in the file when the last one is.
        let last = format!("select '{}'", Uuid::now_v7());
        run(postgres, last.clone()).await;
        let read = || String::from_utf8_lossy(&std::fs::read(self.home.join(log)).expect("a log")).into_owned();
        until(async || read().contains(&last)).await;
        read().matches(text).count()
    }
}
