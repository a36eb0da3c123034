//! Benchmarks: the engine, compared with the limits of PostgreSQL and HTTP on the same machine, and with other queues.
//!
//! `cargo xtask bench quick` (or `full`) builds and runs this. It starts a private, durable PostgreSQL and writes
//! docs/benchmarks.md. Everything is measured in one run, in alternating rounds, so that ratios are comparable;
//! unfavorable ones are printed, too. Nothing depends on this crate, and it does not change what it measures.

mod adds; // batches of several sizes
mod bare; // the limits
mod claims; // claims with a long backlog
mod drains; // rounds of limits, engine and peers
mod failing; // failures and dead workers
mod growth; // costs that must not grow
mod idle; // latency and cost of an idle server
mod limited_types; // claims of types with limits
mod load; // latency at a steady load
mod memory; // memory of a server and of the worker program
mod pages; // latency of pages
mod peers; // other queues
mod push; // push delivery
mod report; // the report
mod serve; // a separate server process
mod spread; // one job, many jobs, trees
pub mod statistics; // times, cost, ratios, plots, the machine
mod transport; // access to the engine, in process and over HTTP
mod watchers; // event streams
mod workers; // growing numbers of workers

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use client::Client;
use domain::job_type::JobTypeSpec;
use engine::{
    access::caller::{Caller, Scope},
    store::access::identity,
};
use server::{Running, auth::BOOTSTRAP_SERVICE, config::Config, postgres::Throwaway};
use sqlx::Connection as _;
use uuid::Uuid;

use crate::{
    bare::Bare,
    pages::TypedJob,
    report::Report,
    statistics::{
        meter::Meter,
        sizes::{FULL, Length, QUICK, Sizes},
    },
    transport::{DrainMode, Transport},
};

/// Result of every item: 30 bytes.
pub(crate) const RESULT: &str = r#"{"shipped":true,"parcel":4711}"#;
/// Payload of every item: about 100 bytes.
pub(crate) const PAYLOAD: &str =
    r#"{"user":4711,"amount":"129.90","currency":"EUR","reason":"monthly payroll","reference":"2026-11-000471"}"#;
const TOKEN: &str = "a-token-that-lives-as-long-as-the-benchmark";

#[derive(Parser)]
struct Arguments {
    /// Admin URL of the PostgreSQL to use; a database `bench` is created in it. Default: a private, durable PostgreSQL,
    /// which is removed at the end.
    #[arg(long)]
    postgres: Option<String>,
    /// Length of the run.
    #[arg(long, value_enum, default_value_t = Length::Quick)]
    length: Length,
    /// Folder of the peers' programs. Default: no peers.
    #[arg(long)]
    peers: Option<PathBuf>,
    /// Folder of peers that are built.
    #[arg(long, default_value = "target/peers")]
    peers_built: PathBuf,
    /// Only these kinds of work. Default: all.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Serves this database and measures nothing; the benchmark starts its separate server this way.
    #[arg(long, hide = true)]
    serve: Option<String>,
    /// Page to write.
    #[arg(long, default_value = "docs/benchmarks.md")]
    out: PathBuf,
    /// Also prints the slowest statements; requires `pg_stat_statements`.
    #[arg(long)]
    statements: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    if let Some(url) = &arguments.serve {
        return tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(serve::serve(url));
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(arguments))
}

/// State of a run.
struct Bench {
    arguments: Arguments,
    sizes: Sizes,
    /// The database server, as an administrator.
    admin: String,
    meter: Meter,
    bare: Bare,
    engine: Transport,
    http: Transport,
    client: Client,
    /// Address of the server.
    url: String,
    report: Report,
    /// Number of job types created so far: each measurement has its own.
    types: usize,
}

async fn run(arguments: Arguments) -> Result<()> {
    let throwaway = if arguments.postgres.is_none() {
        let more = if arguments.statements { "shared_preload_libraries = 'pg_stat_statements'\n" } else { "" };
        Some(tokio::task::spawn_blocking(move || Throwaway::start_durable(more)).await??)
    } else {
        None
    };
    let admin = arguments.postgres.as_deref().or(throwaway.as_ref().map(Throwaway::url)).unwrap_or_default().to_owned();
    let url = fresh_database(&admin, "bench").await?;
    let data = tempfile::tempdir()?;
    let machine = statistics::machine::facts(&url).await?;
    let running = start(&url, &data.path().to_string_lossy()).await?;
    let listens = format!("http://{}", running.addr);
    let client = Client::new(&listens, Some(TOKEN))?;
    let sizes = if arguments.length == Length::Quick { QUICK } else { FULL };
    let mut bench = Bench {
        bare: Bare::connect(&url).await?,
        engine: Transport::Engine(running.app.engine.clone(), caller(&running).await?),
        http: Transport::Http(client.clone()),
        client,
        url: listens,
        meter: Meter::connect(&url).await?,
        report: Report::new(sizes.name, machine),
        types: 0,
        admin,
        sizes,
        arguments,
    };
    bench.all().await?;
    let text = bench.report.markdown();
    std::fs::write(&bench.arguments.out, &text).with_context(|| bench.arguments.out.display().to_string())?;
    let pictures = bench.arguments.out.with_extension("");
    std::fs::create_dir_all(&pictures)?;
    for plot in bench.report.plots() {
        std::fs::write(pictures.join(format!("{}.svg", plot.name)), plot.svg())?;
    }
    println!("{text}");
    let broken = bench.report.broken();
    running.shutdown().await?;
    // Only now: the server must not lose its database.
    drop(throwaway);
    anyhow::ensure!(broken == 0, "{broken} measurements failed; the report names them");
    Ok(())
}

impl Bench {
    async fn all(&mut self) -> Result<()> {
        let began = std::time::Instant::now();
        if self.wants("drains") {
            self.limits().await?;
            for round in 0..self.sizes.rounds {
                eprintln!("round {} of {}", round + 1, self.sizes.rounds);
                self.round(round).await?;
            }
        }
        macro_rules! each {
            ($($name:ident),*) => {$(
                if self.wants(stringify!($name)) {
                    eprintln!("{} ({:.0} s)", stringify!($name), began.elapsed().as_secs_f64());
                    if let Err(error) = self.$name().await {
                        eprintln!("  {} broke: {error:#}", stringify!($name));
                        self.report.broke(stringify!($name), format!("{error:#}"));
                    }
                }
            )*};
        }
        each!(spread, adds, posts, workers, idle, load, loaded, failing, watchers, limited_types, backlog);
        eprintln!("done ({:.0} s)", began.elapsed().as_secs_f64());
        Ok(())
    }

    fn wants(&self, work: &str) -> bool {
        self.arguments.only.is_empty() || self.arguments.only.iter().any(|only| only == work)
    }

    /// Push delivery, compared with a bare HTTP client.
    async fn posts(&mut self) -> Result<()> {
        let n = self.sizes.items / 5;
        let target = push::Target::start().await?;
        for round in 0..self.sizes.rounds {
            let cost = self.meter.measure(target.bare(n, PAYLOAD)).await?;
            self.report.add("limit: bare HTTP client, 100 POSTs in flight", cost);
            self.types += 1;
            let (spec, job) = target.filled(&self.client, &format!("bench-{}", self.types), n, PAYLOAD).await?;
            self.begin_statements().await?;
            let cost = self.meter.measure(target.posted(&self.client, &spec, job, n)).await?;
            self.end_statements(round, "posts to a worker").await?;
            self.report.add("push, one POST per item, 100 in flight", cost);
        }
        Ok(())
    }

    /// Pages of the large job, and of one with a thousand items.
    async fn pages(&mut self, large: TypedJob) -> Result<()> {
        let engine = self.engine.clone();
        let (job_type, job) = self.job(&engine).await?;
        let small = TypedJob { job, job_type };
        engine.add(job, 1_000, PAYLOAD).await?;
        pages::work_on(&engine, &small, 500).await?;
        pages::work_on(&engine, &large, 50_000).await?;
        for typed_job in [&small, &large] {
            pages::hold_some(&engine, typed_job).await?;
        }
        let times = pages::measure(&self.url, TOKEN, self.sizes.pages, &engine, &large, &small).await?;
        self.report.pages(times);
        Ok(())
    }

    async fn job_type(&mut self) -> Result<String> {
        self.types += 1;
        let name = format!("bench-{}", self.types);
        self.client.put_job_type(&JobTypeSpec::named(&name)).await?;
        Ok(name)
    }

    /// Creates an open job with its own type.
    async fn job(&mut self, transport: &Transport) -> Result<(String, Uuid)> {
        let name = self.job_type().await?;
        let job = transport.create(&name, Vec::new(), false).await?;
        Ok((name, job))
    }

    /// Creates an open job with items, and measures adding them.
    async fn filled(&mut self, transport: &Transport, n: u64, what: &'static str) -> Result<(String, Uuid)> {
        let (name, job) = self.job(transport).await?;
        let cost = self.meter.measure(transport.add(job, n, PAYLOAD)).await?;
        self.report.add(what, cost);
        Ok((name, job))
    }

    async fn drained(
        &mut self,
        transport: &Transport,
        name: &str,
        n: u64,
        mode: DrainMode,
        what: &'static str,
    ) -> Result<()> {
        let cost = self.meter.measure(transport.drain(name, n, mode)).await?;
        self.report.add(what, cost);
        Ok(())
    }

    async fn begin_statements(&self) -> Result<()> {
        if self.arguments.statements { statistics::statements::begin(self.meter.pool()).await } else { Ok(()) }
    }

    async fn end_statements(&self, round: usize, what: &str) -> Result<()> {
        if self.arguments.statements && round + 1 == self.sizes.rounds {
            eprintln!("\nstatements, {what}:\n{}", statistics::statements::top(self.meter.pool()).await?);
        }
        Ok(())
    }
}

/// Creates a database, in place of one of this name. Returns its URL.
async fn fresh_database(admin: &str, name: &'static str) -> Result<String> {
    let mut connection = sqlx::PgConnection::connect(admin).await.context("cannot reach PostgreSQL")?;
    let statement = format!("drop database if exists {name} with (force)");
    sqlx::raw_sql(sqlx::AssertSqlSafe(statement)).execute(&mut connection).await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("create database {name}"))).execute(&mut connection).await?;
    let (base, _) = admin.rsplit_once('/').context("a URL without a database")?;
    Ok(format!("{base}/{name}"))
}

/// Starts a server with default settings.
async fn start(url: &str, data: &str) -> Result<Running> {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        config: Config,
    }
    let line = ["server", "--listen", "127.0.0.1:0", "--database-url", url, "--bootstrap-token", TOKEN];
    // All requests use one credential, so raise its limits. Push targets are on this machine.
    let more = [
        "--rate-requests",
        "4000000000",
        "--rate-searches",
        "4000000000",
        "--quota-requests",
        "100000",
        "--push-allow",
        "127.0.0.1",
    ];
    let line = line.into_iter().chain(more).chain(["--data-dir", data]);
    server::start(Line::try_parse_from(line)?.config).await
}

/// Caller of the engine in process: the service whose token the HTTP clients use.
async fn caller(running: &Running) -> Result<Caller> {
    let service = identity::find_service(&running.app.pool, BOOTSTRAP_SERVICE).await?;
    let service = service.context("the bootstrap service is missing")?;
    Ok(Caller {
        owner_id: service.id,
        kind: domain::job::OwnerKind::Service,
        name: service.name,
        role: None,
        scopes: Scope::ALL.to_vec(),
        credential_id: Uuid::now_v7(),
        work_types: None,
        must_change_password: false,
        enrolls: false,
        proxy_user: None,
        address: None,
    })
}
