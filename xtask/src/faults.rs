//! Faults: the `faults` crate against servers that are built to crash where they are asked to.
//!
//! Apart from the tests, as it kills processes for minutes; its judgement is as strict.

use std::process::Command;

use anyhow::Result;
use clap::Subcommand;

use crate::{
    places,
    setup::{self, Need},
    step::{self, cargo},
};

/// How much is played.
#[derive(Subcommand)]
pub(crate) enum Length {
    /// Every fault with 800 items: more than ten minutes.
    Quick(Choice),
    /// Hours: every fault with 100,000 items.
    Full(Choice),
}

#[derive(clap::Args)]
pub(crate) struct Choice {
    /// Only these: F01,F05. The table in docs/promises.md stays as it is.
    #[arg(long)]
    only: Option<String>,
    /// What is offered follows from it. Absent: another each time.
    #[arg(long)]
    seed: Option<u64>,
}

/// What every build plays: that the judge notices, and that what is killed most often costs nothing. Of the servers
/// that are broken on purpose only the one that no chance can hide: S3 shows itself when a kill falls into a moment.
const IN_EVERY_BUILD: &str = "S1,F01,F05,F37";

/// Builds the server with its crash points, plays, and writes the table in docs/promises.md.
pub(crate) fn run(length: &Length) -> Result<()> {
    let (name, choice) = match length {
        Length::Quick(choice) => ("quick", choice),
        Length::Full(choice) => ("full", choice),
    };
    setup::all(Need::Faults)?;
    play(name, choice.only.as_deref(), choice.seed)
}

/// The faults of every build.
pub(crate) fn few() -> Result<()> {
    play("quick", Some(IN_EVERY_BUILD), None)
}

fn play(length: &str, only: Option<&str>, seed: Option<u64>) -> Result<()> {
    let arguments = ["build", "--package", "server", "--bin", "treeline-server", "--features", "failpoints"];
    step::run("build a server that can crash", cargo(arguments))?;
    let target = places::target()?.join("debug");
    // The next ordinary build replaces the program; this one keeps its own.
    let server = target.join("treeline-server-failpoints");
    std::fs::copy(target.join("treeline-server"), &server)?;
    step::run("build the faults", cargo(["build", "--package", "faults"]))?;
    let mut faults = Command::new(target.join("faults"));
    faults.arg(length).arg("--server").arg(server);
    faults.arg("--out").arg(places::root().join("docs/promises.md"));
    if let Some(only) = only {
        faults.arg("--only").arg(only);
    }
    if let Some(seed) = seed {
        faults.arg("--seed").arg(seed.to_string());
    }
    step::show("play", faults)
}
