//! First figures: what the engine reaches, beside what PostgreSQL and HTTP allow on the same machine.
//!
//! `cargo xtask bench quick` builds and runs this. It starts a durable PostgreSQL of its own and writes
//! docs/benchmarks.md. Everything is measured in one run, in turns, so a ratio compares like with like; losing ones are
//! printed too. Nothing depends on this crate, and it changes nothing of what it measures.

mod bare; // the limits
mod door; // the ways in, and the work
mod machine; // what it ran on
mod meter; // what work costs
mod pages; // what people wait for
mod push; // posts to workers
mod report; // the table
mod statements; // which statements took the time

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use clap::Parser;
use client::Client;
use domain::job_type::JobTypeSpec;
use server::{
    Running,
    auth::{BOOTSTRAP_SERVICE, Caller, Scope},
    config::Config,
    postgres::Throwaway,
    store::identity,
};
use sqlx::Connection as _;
use uuid::Uuid;

use crate::{
    bare::Bare,
    door::{Door, Manner},
    meter::Meter,
    pages::Known,
    report::Report,
};

/// What every item ends with: 30 bytes.
pub(crate) const RESULT: &str = r#"{"shipped":true,"parcel":4711}"#;
/// What every item carries: about 100 bytes.
pub(crate) const PAYLOAD: &str =
    r#"{"user":4711,"amount":"129.90","currency":"EUR","reason":"monthly payroll","reference":"2026-11-000471"}"#;
const TOKEN: &str = "a-token-that-lives-as-long-as-the-benchmark";

const UNFUSED: Manner = Manner { workers: 2, batch: 100, fused: false };
const FUSED: Manner = Manner { workers: 2, batch: 100, fused: true };
const APART: Manner = Manner { workers: 8, batch: 100, fused: false };
const TOGETHER: Manner = Manner { workers: 8, batch: 100, fused: true };
const ONE: Manner = Manner { workers: 64, batch: 1, fused: true };

#[derive(Parser)]
struct Arguments {
    /// An admin URL of the PostgreSQL to measure on; a database `bench` is made in it. Absent: a durable one
    /// is started, and is gone at the end.
    #[arg(long)]
    postgres: Option<String>,
    /// Items of one drain.
    #[arg(long, default_value_t = 100_000)]
    items: u64,
    /// Rounds; the figures are medians.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Items that wait where a claim looks past many.
    #[arg(long, default_value_t = 1_000_000)]
    backlog: u64,
    /// Where the table is written.
    #[arg(long)]
    out: PathBuf,
    /// Also prints which statements took the time; needs `pg_stat_statements` to be loaded.
    #[arg(long)]
    statements: bool,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run(arguments))
}

/// What is measured, and with what.
struct Bench {
    arguments: Arguments,
    meter: Meter,
    bare: Bare,
    engine: Door,
    http: Door,
    client: Client,
    /// Where the server listens.
    url: String,
    report: Report,
    /// Job types made so far: each piece of work has its own.
    types: usize,
}

async fn run(arguments: Arguments) -> Result<()> {
    let own = if arguments.postgres.is_none() {
        let more = if arguments.statements { "shared_preload_libraries = 'pg_stat_statements'\n" } else { "" };
        Some(tokio::task::spawn_blocking(move || Throwaway::start_durable(more)).await??)
    } else {
        None
    };
    let admin = arguments.postgres.as_deref().or(own.as_ref().map(Throwaway::url)).unwrap_or_default();
    let url = fresh_database(admin).await?;
    let data = tempfile::tempdir()?;
    let machine = machine::facts(&url).await?;
    let running = start(&url, data.path()).await?;
    let meter = Meter::connect(&url).await?;
    let listens = format!("http://{}", running.addr);
    let client = Client::new(&listens, Some(TOKEN))?;
    let mut bench = Bench {
        bare: Bare::connect(&url).await?,
        engine: Door::Engine(running.app.engine.clone(), caller(&running).await?),
        http: Door::Http(client.clone()),
        client,
        url: listens,
        meter,
        report: Report::new(machine),
        types: 0,
        arguments,
    };
    bench.limits().await?;
    for round in 0..bench.arguments.rounds {
        eprintln!("round {} of {}", round + 1, bench.arguments.rounds);
        bench.round(round).await?;
    }
    bench.spread().await?;
    bench.posts().await?;
    bench.backlog().await?;
    let text = bench.report.markdown();
    std::fs::write(&bench.arguments.out, &text).with_context(|| bench.arguments.out.display().to_string())?;
    println!("{text}");
    running.shutdown().await?;
    // Only now: the server must not see its database go.
    drop(own);
    Ok(())
}

impl Bench {
    /// What HTTP allows, and commits of one row.
    async fn limits(&mut self) -> Result<()> {
        let (bare, n) = (&self.bare, self.arguments.items / 5);
        bare.reset().await?;
        let cost = self.meter.measure(bare.singles(n, PAYLOAD)).await?;
        self.report.add("limit: one row a commit, 64 connections", cost);
        let body = serde_json::json!({"endings": [{"assignment_id": Uuid::nil(), "result": {"shipped": true}}]});
        let cost = self.meter.measure(bare::http(n, body)).await?;
        self.report.add("limit: HTTP with an empty handler, 64 connections", cost);
        Ok(())
    }

    /// The bare work, then the engine's, with the same number of items.
    async fn round(&mut self, round: usize) -> Result<()> {
        let n = self.arguments.items;
        self.bare.reset().await?;
        let cost = self.meter.measure(self.bare.add(n, PAYLOAD)).await?;
        self.report.add("limit: bare INSERT, 5,000 a statement, 2 connections", cost);
        let cost = self.meter.measure(self.bare.drain(n)).await?;
        self.report.add("limit: bare claim and end of 100, 2 connections", cost);

        let engine = self.engine.clone();
        let (name, job) = self.filled(&engine, n, "add in process, 5,000 a call, 2 callers").await?;
        self.begin_statements().await?;
        self.drained(&engine, &name, n, UNFUSED, "drain in process, 100 a call, claim and end apart, 2 workers")
            .await?;
        self.end_statements(round, "apart").await?;
        self.client.seal(job).await?;

        let (name, job) = self.filled(&engine, n, "add in process, 5,000 a call, 2 callers").await?;
        self.begin_statements().await?;
        self.drained(&engine, &name, n, FUSED, "drain in process, 100 a call, fused, 2 workers").await?;
        self.end_statements(round, "fused").await?;
        self.client.seal(job).await?;

        let http = self.http.clone();
        let (name, _) = self.filled(&http, n, "add over HTTP, 5,000 a request, 2 callers").await?;
        self.drained(&http, &name, n, TOGETHER, "drain over HTTP, 100 a request, fused, 8 workers").await?;
        if round == 0 {
            let (name, _) = self.filled(&engine, n, "add in process, 5,000 a call, 2 callers").await?;
            self.drained(&engine, &name, n, TOGETHER, "drain in process, 100 a call, fused, 8 workers").await?;
            let (name, _) = self.filled(&engine, n, "add in process, 5,000 a call, 2 callers").await?;
            self.drained(&engine, &name, n, APART, "drain in process, 100 a call, claim and end apart, 8 workers")
                .await?;
            let n = n / 5;
            let (name, job) = self.job(&http).await?;
            http.add(job, n, PAYLOAD).await?;
            self.drained(&http, &name, n, ONE, "drain over HTTP, 1 a request, fused, 64 workers").await?;
        }
        Ok(())
    }

    /// Many jobs against one.
    async fn spread(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let n = self.arguments.items;
        let name = self.job_type().await?;
        engine.plant(&name, 1_000, n / 1_000, PAYLOAD).await?;
        self.drained(&engine, &name, n, FUSED, "drain in process, the items in 1,000 jobs, fused").await?;

        let n = n / 5;
        let (name, job) = self.job(&engine).await?;
        let (meter, door) = (self.meter.clone(), &engine);
        let both = async {
            door.add(job, n, PAYLOAD).await?;
            door.drain(&name, n, FUSED).await
        };
        let cost = meter.measure(both).await?;
        self.report.add("add and drain in process, one job, fused", cost);

        let name = self.job_type().await?;
        let both = async {
            door.plant(&name, n, 1, PAYLOAD).await?;
            door.drain(&name, n, FUSED).await
        };
        self.begin_statements().await?;
        let cost = meter.measure(both).await?;
        self.end_statements(self.arguments.rounds - 1, "trees of one item").await?;
        self.report.add("create and drain in process, trees of one item, fused", cost);
        Ok(())
    }

    /// Posts to workers against the bare client.
    async fn posts(&mut self) -> Result<()> {
        let n = self.arguments.items / 5;
        let target = push::Target::start().await?;
        for round in 0..self.arguments.rounds {
            let cost = self.meter.measure(target.bare(n, PAYLOAD)).await?;
            self.report.add("limit: the bare HTTP client, 100 posts under way", cost);
            self.types += 1;
            let (spec, job) = target.filled(&self.client, &format!("bench-{}", self.types), n, PAYLOAD).await?;
            self.begin_statements().await?;
            let cost = self.meter.measure(target.posted(&self.client, &spec, job, n)).await?;
            self.end_statements(round, "posts to a worker").await?;
            self.report.add("push, one post an item, 100 under way", cost);
        }
        Ok(())
    }

    /// Claims with little and with much waiting.
    async fn backlog(&mut self) -> Result<()> {
        let engine = self.engine.clone();
        let (large, job) = self.job(&engine).await?;
        let backlog = self.arguments.backlog;
        let cost = self.meter.measure(engine.add(job, backlog, PAYLOAD)).await?;
        self.report.add("add in process, the million", cost);
        let mut times = (Vec::new(), Vec::new());
        for _ in 0..self.arguments.rounds {
            let (small, job) = self.job(&engine).await?;
            engine.add(job, 1_200, PAYLOAD).await?;
            times.0.push(engine.claim_time(&small, 40).await?);
            times.1.push(engine.claim_time(&large, 40).await?);
        }
        self.report.claims(times.0, times.1);
        self.pages(Known { job, job_type: large }).await
    }

    /// Pages of a job with as many items, and of one with a thousand.
    async fn pages(&mut self, large: Known) -> Result<()> {
        let engine = self.engine.clone();
        let (job_type, job) = self.job(&engine).await?;
        let small = Known { job, job_type };
        engine.add(job, 1_000, PAYLOAD).await?;
        pages::work_on(&engine, &small, 500).await?;
        pages::work_on(&engine, &large, 50_000).await?;
        for known in [&small, &large] {
            pages::hold_some(&engine, known).await?;
        }
        let times = pages::measure(&self.url, TOKEN, &engine, &large, &small).await?;
        self.report.pages(times);
        Ok(())
    }

    async fn job_type(&mut self) -> Result<String> {
        self.types += 1;
        let name = format!("bench-{}", self.types);
        self.client.put_job_type(&JobTypeSpec::named(&name)).await?;
        Ok(name)
    }

    /// An open job of a type of its own.
    async fn job(&mut self, door: &Door) -> Result<(String, Uuid)> {
        let name = self.job_type().await?;
        let job = door.create(&name, Vec::new(), false).await?;
        Ok((name, job))
    }

    /// The same with items in it; the adding is measured.
    async fn filled(&mut self, door: &Door, n: u64, what: &'static str) -> Result<(String, Uuid)> {
        let (name, job) = self.job(door).await?;
        let cost = self.meter.measure(door.add(job, n, PAYLOAD)).await?;
        self.report.add(what, cost);
        Ok((name, job))
    }

    async fn drained(&mut self, door: &Door, name: &str, n: u64, manner: Manner, what: &'static str) -> Result<()> {
        let cost = self.meter.measure(door.drain(name, n, manner)).await?;
        self.report.add(what, cost);
        Ok(())
    }

    async fn begin_statements(&self) -> Result<()> {
        if self.arguments.statements { statements::begin(self.meter.pool()).await } else { Ok(()) }
    }

    async fn end_statements(&self, round: usize, what: &str) -> Result<()> {
        if self.arguments.statements && round + 1 == self.arguments.rounds {
            eprintln!("\nstatements, {what}:\n{}", statements::top(self.meter.pool()).await?);
        }
        Ok(())
    }
}

/// Makes the database `bench`; its URL.
async fn fresh_database(admin: &str) -> Result<String> {
    let mut connection = sqlx::PgConnection::connect(admin).await.context("cannot reach PostgreSQL")?;
    sqlx::raw_sql("drop database if exists bench").execute(&mut connection).await?;
    sqlx::raw_sql("create database bench").execute(&mut connection).await?;
    let (base, _) = admin.rsplit_once('/').context("a URL without a database")?;
    Ok(format!("{base}/bench"))
}

/// A server with the settings that a new installation has.
async fn start(url: &str, data: &std::path::Path) -> Result<Running> {
    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        config: Config,
    }
    let data = data.to_string_lossy();
    let line = ["server", "--listen", "127.0.0.1:0", "--database-url", url, "--bootstrap-token", TOKEN, "--data-dir"];
    server::start(Line::try_parse_from(line.into_iter().chain([&*data]))?.config).await
}

/// Who calls in process: the service whose token the HTTP clients have.
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
    })
}
