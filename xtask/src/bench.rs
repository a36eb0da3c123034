//! Benchmarks: the `bench` crate, built like a package, next to its own durable PostgreSQL.
//!
//! Separate from the tests: its report is for people, not a judgment. Other job queues are fetched and built here for
//! the benchmark only; one that is unavailable is named in the report, and the run continues.

use std::{path::Path, process::Command};

use anyhow::Result;
use clap::{Args, Subcommand};

use crate::{
    paths,
    setup::{self, Need},
    step::{self, OPTIMIZED, cargo},
};

/// Length of a run.
#[derive(Subcommand)]
pub(crate) enum Length {
    /// About ten minutes, small numbers.
    Quick(Options),
    /// As long as it takes, up to an hour.
    Full(Options),
}

#[derive(Args)]
pub(crate) struct Options {
    /// Also prints the statements that took the time. Slows the run: docs/benchmarks.md stays unchanged.
    #[arg(long)]
    statements: bool,
    /// Only these kinds of work, such as `drains,idle`: docs/benchmarks.md stays unchanged.
    #[arg(long)]
    only: Option<String>,
    /// Without other job queues.
    #[arg(long)]
    alone: bool,
}

/// Builds, measures, writes docs/benchmarks.md and prints it.
pub(crate) fn run(length: &Length) -> Result<()> {
    let (name, options) = match length {
        Length::Quick(options) => ("quick", options),
        Length::Full(options) => ("full", options),
    };
    setup::all(Need::Postgres)?;
    // The worker program is measured together with the server.
    step::run(
        "build the benchmark",
        cargo(["build", "--profile", OPTIMIZED, "--package", "bench", "--package", "client"]),
    )?;
    let target = paths::target()?;
    let mut bench = Command::new(target.join(OPTIMIZED).join("bench"));
    bench.args(["--length", name]);
    let aside = options.statements || options.only.is_some();
    let docs = if aside { target.to_path_buf() } else { paths::root().join("docs") };
    bench.arg("--out").arg(docs.join("benchmarks.md"));
    if options.statements {
        bench.arg("--statements");
    }
    if let Some(only) = &options.only {
        bench.arg("--only").arg(only);
    }
    if !options.alone {
        peers()?;
        bench.arg("--peers").arg(paths::root().join("testing/bench/peers"));
        bench.arg("--peers-built").arg(target.join("peers"));
    }
    step::show("measure", bench)
}

/// Fetches and builds other job queues. Failures are printed here, and again in the report.
fn peers() -> Result<()> {
    let folder = paths::root().join("testing/bench/peers");
    for name in ["graphile-worker", "pg-boss"] {
        if let Err(error) = setup::npm_parts_of(&folder.join(name)) {
            println!("    {name} will not be measured: {error:#}");
        }
    }
    let built = paths::target()?.join("peers");
    for name in ["awa", "graphile_worker-rs"] {
        let mut build = cargo(["build", "--release", "--locked"]);
        build.arg("--manifest-path").arg(folder.join(name).join("Cargo.toml"));
        build.arg("--target-dir").arg(&built);
        if let Err(error) = step::run(&format!("build {name}"), build) {
            println!("    {name} will not be measured: {error:#}");
        }
    }
    if let Err(error) = python_parts(&folder.join("pgqueuer"), &built.join("pgqueuer")) {
        println!("    pgqueuer will not be measured: {error:#}");
    }
    Ok(())
}

/// Installs `requirements.txt` into a separate virtual environment, once.
fn python_parts(folder: &Path, environment: &Path) -> Result<()> {
    let requirements = folder.join("requirements.txt");
    let wanted = std::fs::read_to_string(&requirements)?;
    let installed = environment.join("installed-from.txt");
    if std::fs::read_to_string(&installed).is_ok_and(|before| before == wanted) {
        return Ok(());
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv"]).arg(environment);
    step::run("make an environment for Python", make)?;
    let mut install = Command::new(environment.join("bin").join("pip"));
    install.args(["install", "--quiet", "--disable-pip-version-check", "--requirement"]).arg(&requirements);
    step::run("pip install", install)?;
    Ok(std::fs::write(installed, wanted)?)
}
