//! Database of one test, dropped with its value.

use std::{
    fs,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::Path,
    str::FromStr,
};

use engine::store::migrations;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection, PgPool, postgres::PgConnectOptions};
use tokio::sync::OnceCell;
use uuid::Uuid;

/// Database that is dropped with this value.
pub(crate) struct Database {
    pub(crate) admin: PgConnectOptions,
    pub(crate) name: String,
}

impl Database {
    /// Creates a migrated database in the PostgreSQL of `TREELINE_TEST_POSTGRES`: a copy of one that was migrated once.
    pub(crate) async fn create() -> Self {
        static TEMPLATE: OnceCell<String> = OnceCell::const_new();
        let url = std::env::var("TREELINE_TEST_POSTGRES")
            .expect("TREELINE_TEST_POSTGRES is the admin URL of a PostgreSQL for tests: see CONTRIBUTING.md");
        let database = Self::named(&url);
        let template = TEMPLATE.get_or_init(|| migrated(&database.admin)).await;
        run(&database.admin, format!("create database {} template {template}", database.name)).await;
        database
    }

    /// Creates an empty database in the PostgreSQL of this admin URL.
    pub(crate) async fn create_in(url: &str) -> Self {
        let database = Self::named(url);
        run(&database.admin, format!("create database {}", database.name)).await;
        database
    }

    fn named(url: &str) -> Self {
        let admin = PgConnectOptions::from_str(url).expect("the URL of a PostgreSQL");
        Self { admin, name: format!("treeline_it_{}", Uuid::now_v7().simple()) }
    }

    pub(super) fn url(&self) -> String {
        self.admin.clone().database(&self.name).to_url_lossy().to_string()
    }

    /// Address of PostgreSQL.
    pub(super) async fn address(&self) -> std::net::SocketAddr {
        let host_and_port = (self.admin.get_host(), self.admin.get_port());
        tokio::net::lookup_host(host_and_port).await.expect("its address").next().expect("an address")
    }
}

/// Returns the name of a database with the schema of today, for tests to copy. It is made once and stays.
async fn migrated(admin: &PgConnectOptions) -> String {
    let name = format!("treeline_it_template_{:016x}", hash_of_migrations());
    let mut connection = PgConnection::connect_with(admin).await.expect("PostgreSQL answers");
    let mut lock = connection.begin().await.expect("a transaction");
    let locked = sqlx::query("select pg_advisory_xact_lock(20261126)").execute(&mut *lock).await;
    locked.expect("only one process makes it");
    let found = sqlx::query_scalar::<_, bool>("select exists (select from pg_database where datname = $1)").bind(&name);
    if !found.fetch_one(&mut *lock).await.expect("an answer") {
        let unfinished = format!("{name}_unfinished");
        run(admin, format!("drop database if exists {unfinished}")).await;
        run(admin, format!("create database {unfinished}")).await;
        let pool = PgPool::connect_with(admin.clone().database(&unfinished)).await.expect("connections");
        migrations::migrate(&pool).await.expect("the schema");
        // The first server of a test has not come back from an outage, after which no lease would end for seconds.
        let up = "update uptime set last_seen_at = 'infinity', resumed_at = '-infinity'";
        sqlx::query(up).execute(&pool).await.expect("the service is up");
        pool.close().await;
        run(admin, format!("alter database {unfinished} rename to {name}")).await;
    }
    lock.rollback().await.expect("the end of the lock");
    connection.close().await.expect("the connection closes");
    name
}

fn hash_of_migrations() -> u64 {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
    let mut files: Vec<_> =
        fs::read_dir(folder).expect("migrations").map(|file| file.expect("a file").path()).collect();
    files.sort();
    let mut hasher = DefaultHasher::new();
    for file in files {
        fs::read(file).expect("a migration").hash(&mut hasher);
    }
    hasher.finish()
}

impl Drop for Database {
    fn drop(&mut self) {
        // Not waited for: the story's runtime may have connections half open, PostgreSQL waits for them before
        // it drops anything, and they end only with the runtime, whose thread this is.
        let (admin, name) = (self.admin.clone(), std::mem::take(&mut self.name));
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(run(&admin, format!("drop database {name} with (force)")));
        });
    }
}

/// Runs a statement on the PostgreSQL server.
pub(crate) async fn run(admin: &PgConnectOptions, statement: String) {
    let mut connection = PgConnection::connect_with(admin).await.expect("PostgreSQL answers");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await.expect("the statement runs");
    connection.close().await.expect("the connection closes");
}
