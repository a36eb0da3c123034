//! Fault injection: the `faults` crate against servers built with failpoints.
//!
//! Separate from the tests, because it kills processes for minutes; its checks are as strict.

mod old_server; // the server of an earlier revision

use std::{path::Path, process::Command};

use anyhow::Result;
use clap::Subcommand;

use crate::{
    paths, programs,
    setup::{self, Need},
    step::{self, cargo},
};

/// Length of a run.
#[derive(Subcommand)]
pub(crate) enum Length {
    /// Ten minutes: every fault with 5,000 items, several at once.
    Quick(Choice),
    /// Hours: every fault with 100,000 items.
    Full(Choice),
    /// Ten minutes: the primary of two PostgreSQLs under Patroni killed, frozen, cut off, and exchanged.
    Ha(Choice),
    /// An upgrade under load: the server of an earlier revision beside that of the working copy, and back.
    Upgrade {
        /// Revision of the old server, such as a tag. Default: the newest one before the newest migration.
        #[arg(long)]
        from: Option<String>,
        #[command(flatten)]
        choice: Choice,
    },
}

#[derive(clap::Args)]
pub(crate) struct Choice {
    /// Only these faults: F01,F05. The table in docs/promises.md stays unchanged.
    #[arg(long)]
    only: Option<String>,
    /// Seed of the offered work. Default: random.
    #[arg(long)]
    seed: Option<u64>,
    /// Items of one fault.
    #[arg(long)]
    items: Option<usize>,
}

/// Builds the server with its failpoints, runs the faults, and writes the table in docs/promises.md.
pub(crate) fn run(length: &Length) -> Result<()> {
    let (name, choice) = match length {
        Length::Quick(choice) => ("quick", choice),
        Length::Full(choice) => ("full", choice),
        Length::Ha(choice) => ("ha", choice),
        Length::Upgrade { choice, .. } => ("upgrade", choice),
    };
    let mut more = Vec::new();
    if let Length::Upgrade { from, .. } = length {
        setup::all(Need::Faults)?;
        match old_server::build(from.as_deref())? {
            Some(old) => more.extend(["--old-server".to_owned(), old.display().to_string()]),
            None => println!("There is only the baseline: one program is the old and the new version"),
        }
    } else if let Length::Ha(_) = length {
        setup::all(Need::Pair)?;
        let requirements = paths::root().join("testing/faults/ha/requirements.txt");
        let patroni = setup::python_environment("patroni", setup::system_python(), &requirements)?;
        more.extend(["--patroni".to_owned(), patroni.display().to_string()]);
    } else {
        setup::all(Need::Faults)?;
    }
    if let Some(only) = &choice.only {
        more.extend(["--only".to_owned(), only.clone()]);
    }
    for (name, number) in [("--seed", choice.seed), ("--items", choice.items.map(|items| items as u64))] {
        more.extend(number.into_iter().flat_map(|number| [name.to_owned(), number.to_string()]));
    }
    more.extend(["--out".to_owned(), paths::root().join("docs/promises.md").display().to_string()]);
    if let Length::Upgrade { .. } = length {
        // It is about what the versions do together, not how fast.
        return play_programs_of_tests(name, &more);
    }
    // Together, so that the server is compiled once.
    let mut build = cargo(["build", "--release", "--package", "faults", "--package", "server"]);
    build.args(["--features", "server/failpoints"]);
    step::run("build a server that can crash, and the faults", build)?;
    let target = paths::target()?.join("release");
    // The next ordinary build replaces the program; this copy stays.
    let server = target.join("treeline-server-failpoints");
    std::fs::copy(target.join("treeline-server"), &server)?;
    play(name, &target.join("faults"), &server, &more)
}

/// Faults of every build, with fewer items than those of ten minutes: killed processes, PostgreSQL and RabbitMQ outages, a full disk, cut
/// connections, forged requests, an aborted upload, and deliberately broken servers, which test the checker itself.
const IN_EVERY_BUILD: &str =
    "F01,F05,F07,F08,F10,F16,F17a,F19,F22,F24,F28a,F29,F34,F36,F37,F40,S0,S1,S2,S3,S4,S5,S6,S7";

/// Runs the faults of every build with the programs that the tests use; the table stays unchanged. Build machines are
/// shared: being too slow twice is only reported; a broken promise fails the build.
pub(crate) fn quick() -> Result<()> {
    let options = ["--only", IN_EVERY_BUILD, "--items", "2000", "--report-slow"];
    play_programs_of_tests("quick", &options.map(str::to_owned))
}

fn play_programs_of_tests(length: &str, more: &[String]) -> Result<()> {
    programs::build()?;
    let built = paths::target()?.join("debug");
    play(length, &built.join("faults"), &built.join("treeline-server"), more)
}

fn play(length: &str, program: &Path, server: &Path, more: &[String]) -> Result<()> {
    // A build leaves gigabytes to write, and commits would wait behind them for longer than a lease.
    step::run("write the build to disk", Command::new("sync"))?;
    let mut faults = Command::new(program);
    faults.arg(length).arg("--server").arg(server).args(more);
    step::show("play", faults)
}
