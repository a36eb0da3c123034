//! Figures: the `bench` crate, built as it is shipped, beside a PostgreSQL of its own that is durable.
//!
//! Apart from the tests, as it measures and judges nothing: what it writes is read by people.

use std::process::Command;

use anyhow::Result;
use clap::Subcommand;

use crate::{
    places,
    setup::{self, Need},
    step::{self, cargo},
};

/// How much is measured.
#[derive(Subcommand)]
pub(crate) enum Length {
    /// Less than five minutes: the engine against its limits.
    Quick {
        /// Also prints which statements took the time. Costs some: docs/benchmarks.md stays as it is.
        #[arg(long)]
        statements: bool,
    },
}

/// Builds, measures, writes docs/benchmarks.md and prints it.
pub(crate) fn run(length: &Length) -> Result<()> {
    let Length::Quick { statements } = length;
    setup::all(Need::Postgres)?;
    step::run("build the benchmark", cargo(["build", "--release", "--package", "bench"]))?;
    let target = places::target()?;
    let mut bench = Command::new(target.join("release").join("bench"));
    bench.arg("--out");
    if *statements {
        bench.arg(target.join("benchmarks.md")).arg("--statements");
    } else {
        bench.arg(places::root().join("docs/benchmarks.md"));
    }
    step::show("measure", bench)
}
