//! Every chore of the house as one verb: `cargo xtask run`, `test`, `build`, `prepare` …
//!
//! Each verb does what it needs itself, installs included where the system lets it, and only what
//! has not been done yet. Each step prints one line with the time it took. Nothing here is needed
//! to build a crate by hand, and nothing of the product depends on it.

mod bench;
mod browser;
mod clients;
mod faults;
mod places;
mod prepare;
mod setup;
mod site;
mod step;
mod supply;
mod test;

/// The server's own way to start PostgreSQL; these files know only the standard library.
#[path = "../../server/src/postgres"]
#[expect(dead_code, unreachable_pub, reason = "the server uses the rest of it")]
mod postgres {
    pub mod programs;
    pub mod throwaway;
}

use std::{os::unix::process::CommandExt, process::ExitCode};

use anyhow::Result;
use clap::Parser;

use crate::{setup::Need, step::cargo};

/// Treeline's chores.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Verb {
    /// Installs what is missing, or says what to install.
    Setup,
    /// Builds the site into site/ (WASM, styles, fonts, packed).
    Build {
        /// As small as it gets, and measured. Without it: quick to build, for working on pages.
        #[arg(long)]
        release: bool,
    },
    /// Builds everything optimised and runs the server. Arguments go to the server.
    Run {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Format, lints, the statements' cache, all tests, the site, the browser tests.
    Test,
    /// Checks every SQL statement against the migrations and writes .sqlx/.
    Prepare {
        /// Writes nothing; fails where .sqlx/ differs.
        #[arg(long)]
        check: bool,
    },
    /// The browser tests only.
    E2e {
        /// Runs the test files whose names contain this.
        filter: Option<String>,
    },
    /// Lints the API's description, generates clients from it in four ways, and runs them against a server.
    Clients,
    /// Sends the API what nobody would send (schemathesis), and fails where an answer is not as described.
    Hostile {
        /// Duration in seconds. Default: 60.
        #[arg(long)]
        seconds: Option<u32>,
    },
    /// Measures the engine against what PostgreSQL and HTTP allow here and others reach, and writes docs/benchmarks.md.
    Bench {
        #[command(subcommand)]
        length: bench::Length,
    },
    /// Kills, cuts and stops everything that can be, checks that every promise holds, and writes the table in
    /// docs/promises.md.
    Faults {
        #[command(subcommand)]
        length: faults::Length,
    },
    /// Draws every page in its states, with made-up data, and takes the pictures of docs/gallery.
    Gallery,
    /// Checks licenses, banned crates, sources and, where they can be fetched, advisories.
    Deny,
    /// Writes the bill of materials (CycloneDX, JSON), to target/treeline.cdx.json where no file is named.
    Sbom {
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// Formats all Rust code.
    Fmt,
    /// Lints all Rust code, the browser's part included.
    Lint,
}

fn main() -> ExitCode {
    match run(Verb::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("\nxtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(verb: Verb) -> Result<()> {
    std::env::set_current_dir(places::root())?;
    match verb {
        Verb::Setup => setup::all(Need::Everything),
        Verb::Build { release } => {
            setup::all(Need::Site)?;
            site::build(if release { site::Kind::Release } else { site::Kind::Quick })
        }
        Verb::Run { arguments } => serve(&arguments),
        Verb::Test => test::all(),
        Verb::Prepare { check } => {
            setup::all(Need::Postgres)?;
            let postgres = test::postgres()?;
            if check { prepare::check(&postgres) } else { prepare::write(&postgres) }
        }
        Verb::E2e { filter } => {
            setup::all(Need::Everything)?;
            let postgres = test::postgres()?;
            site::build(site::Kind::Release)?;
            browser::test(&postgres, filter.as_deref())
        }
        Verb::Clients => {
            setup::all(Need::Everything)?;
            clients::test(&test::postgres()?)
        }
        Verb::Hostile { seconds } => {
            setup::all(Need::Everything)?;
            clients::hostile(&test::postgres()?, seconds)
        }
        Verb::Bench { length } => bench::run(&length),
        Verb::Faults { length } => faults::run(&length),
        Verb::Gallery => {
            setup::all(Need::Everything)?;
            site::build(site::Kind::Quick)?;
            browser::gallery()
        }
        Verb::Deny => supply::check(),
        Verb::Sbom { output } => supply::sbom(output),
        Verb::Fmt => step::run("format", cargo(["fmt", "--all"])),
        Verb::Lint => test::lint(),
    }
}

/// Becomes the server: signals and the exit code are its own.
fn serve(arguments: &[String]) -> Result<()> {
    setup::all(Need::Run)?;
    site::build(site::Kind::Release)?;
    step::run("build the server", cargo(["build", "--release", "--package", "server", "--bin", "treeline-server"]))?;
    let server = places::target()?.join("release").join("treeline-server");
    Err(std::process::Command::new(server).args(arguments).exec().into())
}
