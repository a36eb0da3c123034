//! Fault injection: runs the product under failures and checks every promise.
//!
//! `cargo xtask faults` builds and runs this. It starts a private, durable PostgreSQL, and servers and workers as
//! processes; it submits items through the public API, kills processes and cuts connections, and then checks the
//! promises against the journal of the callers, the ledgers of workers and callback receivers, and the tables.
//! Nothing depends on this crate.

mod checker; // checks the promises
mod faults; // the scenarios
mod findings; // findings of a scenario
mod fixture; // a database, servers and workers
mod inconclusive; // errors after which a fault runs once more
mod journal; // calls and their outcomes
mod ledger; // work that workers did
mod machine; // standstills of the machine
mod proxy; // connections that can be cut
mod proxy_fixture; // a database behind a proxy, and servers
mod raw; // requests without retries
mod receiver; // receiver of callbacks
mod report; // the table
mod runs; // order and parallelism of the scenarios, and second runs
mod worker; // the worker process
mod workload; // the submitted work

use std::{path::PathBuf, process::ExitCode, time::Instant};

use anyhow::{Result, ensure};
use clap::{Parser, Subcommand};

use crate::{
    fixture::{RunContext, postgres::Postgres},
    machine::Machine,
};

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Every fault with 5,000 items, in ten minutes.
    Quick(Choice),
    /// Every fault with 100,000 items.
    Full(Choice),
    /// Losses of the primary of two databases, each with 5,000 items.
    Ha(Choice),
    /// An upgrade from the old to the new server under load, with 5,000 items.
    Upgrade(Choice),
    /// A worker process.
    #[command(hide = true)]
    Worker(worker::Arguments),
}

#[derive(clap::Args)]
struct Choice {
    /// Only these faults: F01,F05.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// All but these: F02.
    #[arg(long, value_delimiter = ',')]
    except: Vec<String>,
    /// Items of one fault.
    #[arg(long)]
    items: Option<usize>,
    /// Report a fault that was too slow twice, but do not fail. For builds on shared machines.
    #[arg(long)]
    report_slow: bool,
    /// Seed of the submitted work. Default: random.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of parallel faults, each with its own PostgreSQL. Default: four in the quick run, one in the full run.
    #[arg(long)]
    at_once: Option<usize>,
    /// The server's program, built with the feature `failpoints`.
    #[arg(long)]
    server: PathBuf,
    /// The server's program of the version before, for F47. Default: the same program, and a schema that a newer
    /// version has changed.
    #[arg(long)]
    old_server: Option<PathBuf>,
    /// Python environment with Patroni.
    #[arg(long)]
    patroni: Option<PathBuf>,
    /// Page with the table; written if all faults ran.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// A run: its name, its faults, and what applies unless the caller chooses otherwise.
struct Plan {
    name: &'static str,
    /// The table that it writes.
    mark: &'static str,
    faults: fn() -> Vec<faults::Fault>,
    full: bool,
    items: usize,
    at_once: usize,
}

const QUICK: Plan = Plan { name: "quick", mark: "faults", faults: faults::all, full: false, items: 5_000, at_once: 4 };
const FULL: Plan = Plan { name: "full", full: true, items: 100_000, at_once: 1, ..QUICK };
const HA: Plan = Plan { name: "ha", mark: "faults ha", faults: faults::of_a_pair, at_once: 1, ..QUICK };
const UPGRADE: Plan =
    Plan { name: "upgrade", mark: "faults upgrade", faults: faults::of_an_upgrade, at_once: 1, ..QUICK };

fn main() -> ExitCode {
    let line = Line::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let done = runtime.map_err(Into::into).and_then(|runtime| match line.command {
        Command::Worker(arguments) => runtime.block_on(worker::run(arguments)).map(|()| true),
        Command::Quick(choice) => runtime.block_on(run(choice, &QUICK)),
        Command::Full(choice) => runtime.block_on(run(choice, &FULL)),
        Command::Ha(choice) => runtime.block_on(run(choice, &HA)),
        Command::Upgrade(choice) => runtime.block_on(run(choice, &UPGRADE)),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("faults: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs the chosen faults. Returns true if every promise was kept.
async fn run(choice: Choice, plan: &Plan) -> Result<bool> {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let chosen: Vec<faults::Fault> = (plan.faults)()
        .into_iter()
        .filter(|fault| choice.only.is_empty() || is_among(&choice.only, fault))
        .filter(|fault| !is_among(&choice.except, fault))
        .collect();
    ensure!(!chosen.is_empty(), "no such fault; there are {}", ids(&(plan.faults)()));
    let (begun, count) = (Instant::now(), chosen.len());
    let seed = choice.seed.unwrap_or_else(rand::random::<u64>) % 1_000_000_000;
    let items = choice.items.unwrap_or(plan.items);
    let at_once = choice.at_once.unwrap_or(plan.at_once).clamp(1, count);
    let server = choice.server.canonicalize()?;
    let old_server = choice.old_server.map(|path| path.canonicalize()).transpose()?;
    let machine = Machine::watch()?;
    let mut contexts = Vec::new();
    for _ in 0..at_once {
        let postgres = tokio::task::spawn_blocking(Postgres::start).await??;
        let (server, old_server) = (server.clone(), old_server.clone());
        let (machine, patroni) = (machine.clone(), choice.patroni.clone());
        contexts.push(RunContext { postgres, server, old_server, seed, items, full: plan.full, machine, patroni });
    }
    println!("seed {seed}, {items} items for each fault, {at_once} at once");
    let rows = runs::run(chosen, contexts).await;
    let (seconds, cores) = (begun.elapsed().as_secs(), std::thread::available_parallelism().map_or(1, usize::from));
    println!("{} of {count} finished in {seconds} s", rows.len());
    for row in rows.iter().filter(|row| !row.verdict.is_clean()) {
        println!("{}", row.line());
    }
    let is_passed = |row: &report::Row| row.verdict.is_clean() || choice.report_slow && row.verdict.is_only_slow();
    let passed = rows.len() == count && rows.iter().all(is_passed);
    let all = choice.only.is_empty() && choice.except.is_empty() && rows.len() == count;
    if let Some(out) = choice.out.filter(|_| all) {
        let how = format!(
            "`cargo xtask faults {}`: {items} items for each fault, seed {seed}, {at_once} faults at once on \
             {cores} cores, {seconds} s in total. A fault passes if nothing is lost, doubled, or stuck and no rule \
             of the checker is broken.",
            plan.name
        );
        report::write(&out, plan.mark, &rows, &how)?;
    }
    Ok(passed)
}

fn is_among(ids: &[String], fault: &faults::Fault) -> bool {
    ids.iter().any(|id| id.eq_ignore_ascii_case(fault.id))
}

fn ids(faults: &[faults::Fault]) -> String {
    faults.iter().map(|fault| fault.id).collect::<Vec<_>>().join(", ")
}
