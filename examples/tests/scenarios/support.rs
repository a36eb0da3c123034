//! A server for each test: in this process, on a free port, with its own database on `TREELINE_TEST_POSTGRES`, which
//! is dropped with it. The server's own tests have more helpers.

use std::str::FromStr as _;

use clap::Parser as _;
use client::Client;
use server::{Running, config::Config};
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, postgres::PgConnectOptions};
use tempfile::TempDir;
use uuid::Uuid;

/// The bootstrap token of every test server.
pub(crate) const TOKEN: &str = "a-bootstrap-token-for-examples-0123456789";

/// The server's settings with their defaults, whatever settings there are.
#[derive(clap::Parser)]
struct Settings {
    #[command(flatten)]
    config: Config,
}

/// A server, and a client that may do everything.
pub(crate) struct Server {
    pub(crate) client: Client,
    pub(crate) url: String,
    running: Running,
    // Dropped after the server has stopped.
    _files: TempDir,
    _database: Database,
}

impl Server {
    pub(crate) async fn start() -> Self {
        let database = Database::create().await;
        let files = TempDir::new().expect("a temporary folder");
        let folder = files.path().to_str().expect("a path of text");
        let settings = Settings::parse_from([
            "treeline-server",
            "--listen=127.0.0.1:0",
            &format!("--data-dir={folder}"),
            &format!("--database-url={}", database.url()),
            &format!("--bootstrap-token={TOKEN}"),
            "--db-pool=8",
        ]);
        let running = server::start(settings.config).await.expect("the server starts");
        let url = format!("http://{}", running.addr);
        let client = Client::new(&url, Some(TOKEN)).expect("a client");
        Self { client, url, running, _files: files, _database: database }
    }

    /// Stops the server; the database goes with it.
    pub(crate) async fn stop(self) {
        self.running.shutdown().await.expect("the server stops");
    }
}

/// A database that is dropped with this.
struct Database {
    admin: PgConnectOptions,
    name: String,
}

impl Database {
    async fn create() -> Self {
        let url = std::env::var("TREELINE_TEST_POSTGRES")
            .expect("TREELINE_TEST_POSTGRES is the admin URL of a PostgreSQL for tests: see CONTRIBUTING.md");
        let admin = PgConnectOptions::from_str(&url).expect("TREELINE_TEST_POSTGRES is a PostgreSQL URL");
        let database = Self { admin, name: format!("treeline_ex_{}", Uuid::now_v7().simple()) };
        run(&database.admin, format!("create database {}", database.name)).await;
        database
    }

    fn url(&self) -> String {
        self.admin.clone().database(&self.name).to_url_lossy().to_string()
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Do not wait for this: the test's runtime may have half-open connections, PostgreSQL waits for them before
        // it drops the database, and they close only with the runtime, whose thread this is.
        let (admin, name) = (self.admin.clone(), std::mem::take(&mut self.name));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(run(&admin, format!("drop database {name} with (force)")));
        });
    }
}

/// Runs a statement on PostgreSQL itself.
async fn run(admin: &PgConnectOptions, statement: String) {
    let mut connection = PgConnection::connect_with(admin).await.expect("PostgreSQL answers");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.expect("the statement runs");
    connection.close().await.expect("the connection closes");
}
