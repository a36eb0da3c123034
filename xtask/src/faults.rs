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
    /// Ten minutes: every fault with 5,000 items, several at once.
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

/// What every build plays: that the judge notices what is broken and nothing else, and that what is killed most often
/// costs nothing.
const IN_EVERY_BUILD: &str = "S0,S1,S3,F01,F05,F37";
/// Items of each of them.
const FEW: &str = "1000";

/// Builds the server with its crash points, plays, and writes the table in docs/promises.md.
pub(crate) fn run(length: &Length) -> Result<()> {
    let (name, choice) = match length {
        Length::Quick(choice) => ("quick", choice),
        Length::Full(choice) => ("full", choice),
    };
    setup::all(Need::Faults)?;
    let mut more = Vec::new();
    if let Some(only) = &choice.only {
        more.extend(["--only".to_owned(), only.clone()]);
    }
    if let Some(seed) = choice.seed {
        more.extend(["--seed".to_owned(), seed.to_string()]);
    }
    play(name, &["--release"], &more)
}

/// The faults of every build, with what the tests have built.
pub(crate) fn few() -> Result<()> {
    play("quick", &[], &["--only", IN_EVERY_BUILD, "--items", FEW].map(str::to_owned))
}

fn play(length: &str, profile: &[&str], more: &[String]) -> Result<()> {
    // Together, so that the server is compiled once.
    let mut build = cargo(["build", "--package", "faults", "--package", "server", "--features", "server/failpoints"]);
    build.args(profile);
    step::run("build a server that can crash, and the faults", build)?;
    let target = places::target()?.join(if profile.is_empty() { "debug" } else { "release" });
    // The next ordinary build replaces the program; this one keeps its own.
    let server = target.join("treeline-server-failpoints");
    std::fs::copy(target.join("treeline-server"), &server)?;
    let mut faults = Command::new(target.join("faults"));
    faults.arg(length).arg("--server").arg(server).args(more);
    faults.arg("--out").arg(places::root().join("docs/promises.md"));
    step::show("play", faults)
}
