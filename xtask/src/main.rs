//! Development commands: `cargo xtask run`, `test`, `build`, `prepare` …
//!
//! Each command installs its tools if the system allows it, and skips steps that are up to date. Each step prints one
//! line with its duration. Crates can be built without this, and the product does not depend on it.

mod bench;
mod book;
mod browser;
mod clients;
mod dev;
mod dist;
mod faults;
mod paths;
mod prepare;
mod programs;
mod quick;
mod rabbit;
mod release;
mod setup;
mod site;
mod step;
mod supply;
mod test;

/// The server's code that starts PostgreSQL; these files depend only on the standard library.
#[path = "../../server/src/postgres"]
#[expect(dead_code, unreachable_pub, reason = "the server uses the rest of it")]
mod postgres {
    pub mod guard;
    pub mod programs;
    pub mod throwaway;
}

use std::{os::unix::process::CommandExt, process::ExitCode};

use anyhow::Result;
use clap::Parser;

use crate::{browser::Pictures, setup::Need, step::cargo};

/// Development commands of Treeline.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
enum Verb {
    /// Installs missing tools, or prints what to install.
    Setup,
    /// Builds the site into site/ (WASM, styles, fonts, packed).
    Build {
        /// Optimizes for size, with a size check. Default: a fast build for working on pages.
        #[arg(long)]
        release: bool,
    },
    /// Builds everything optimized and runs the server. Arguments are passed to the server.
    Run {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Builds the site and a debug server, runs it, and rebuilds and restarts what changes. Arguments are passed to the
    /// server.
    Dev {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Runs format, lints, the statement cache check, all tests, the site build, and the browser tests.
    Test {
        /// Only what a small change can break, in two minutes: format, layout, documents, unit tests of the changed
        /// crates, some scenarios.
        #[arg(long)]
        quick: bool,
    },
    /// Fills the server at `TREELINE_URL` with demo data, with `TREELINE_TOKEN`. It creates nothing twice.
    Seed,
    /// Builds the documentation as a book, into target/book.
    Book,
    /// Walks the checklist of docs/releasing.md.
    Release {
        /// Names every problem, and runs and changes nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Checks every SQL statement against the migrations and writes .sqlx/.
    Prepare {
        /// Writes nothing; fails if .sqlx/ differs.
        #[arg(long)]
        check: bool,
    },
    /// Runs only the browser tests.
    E2e {
        /// Runs the test files whose names contain this text.
        filter: Option<String>,
    },
    /// Lints the API description, generates clients from it in four ways, and runs them against a server.
    Clients,
    /// Sends malformed requests to the API (schemathesis), and fails if a response does not match the description.
    Hostile {
        /// Duration in seconds. Default: 60.
        #[arg(long)]
        seconds: Option<u32>,
    },
    /// Compares the engine with PostgreSQL, plain HTTP, and other queues; writes docs/benchmarks.md.
    Bench {
        #[command(subcommand)]
        length: bench::Length,
    },
    /// Injects every fault, checks that every promise holds, and writes the table in docs/promises.md.
    Faults {
        #[command(subcommand)]
        length: faults::Length,
    },
    /// Renders every page in its states with sample data, and takes the pictures of docs/gallery.
    Gallery {
        /// Draws docs/gallery/pairs too: each page beside its prototype in this folder.
        #[arg(long, value_name = "DESIGN")]
        pairs: Option<std::path::PathBuf>,
    },
    /// Checks licenses, banned crates, sources and, if they can be fetched, advisories.
    Deny,
    /// Writes the bill of materials (CycloneDX, JSON), by default to target/treeline.cdx.json.
    Sbom {
        #[arg(long)]
        output: Option<std::path::PathBuf>,
    },
    /// Makes the files of a release in target/dist: programs, Debian package, images, chart, Compose file, checksums.
    Dist {
        /// Also installs and uses each in a clean root, and makes all of them a second time, which must give the same.
        #[arg(long)]
        verify: bool,
        /// Packs the programs of this folder instead of building them.
        #[arg(long)]
        bin_dir: Option<std::path::PathBuf>,
    },
    /// Formats all Rust code.
    Fmt,
    /// Lints all Rust code, including the frontend.
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
    std::env::set_current_dir(paths::root())?;
    match verb {
        Verb::Setup => setup::all(Need::Everything),
        Verb::Build { release } => {
            setup::all(Need::Site)?;
            site::build(if release { site::Kind::Release } else { site::Kind::Quick })
        }
        Verb::Run { arguments } => serve(&arguments),
        Verb::Dev { arguments } => dev::run(&arguments),
        Verb::Test { quick: false } => test::all(),
        Verb::Test { quick: true } => quick::run(),
        Verb::Seed => step::show("seed", cargo(["run", "--quiet", "--package", "examples", "--bin", "seed"])),
        Verb::Book => book::build(),
        Verb::Release { dry_run } => release::run(dry_run),
        Verb::Prepare { check } => {
            setup::all(Need::Postgres)?;
            let postgres = test::postgres()?;
            if check { prepare::check(&postgres) } else { prepare::write(&postgres) }
        }
        Verb::E2e { filter } => {
            setup::all(Need::Everything)?;
            let postgres = test::postgres()?;
            site::build(site::Kind::Release)?;
            programs::build()?;
            browser::test(&postgres, filter.as_deref(), Pictures::Yes)
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
        Verb::Gallery { pairs } => {
            setup::all(Need::Everything)?;
            site::build(site::Kind::Quick)?;
            browser::gallery(pairs.as_deref())
        }
        Verb::Deny => supply::check(),
        Verb::Sbom { output } => supply::sbom(output, &[]),
        Verb::Dist { verify, bin_dir } => dist::run(bin_dir.as_deref(), verify),
        Verb::Fmt => step::run("format", cargo(["fmt", "--all"])),
        Verb::Lint => test::lint(),
    }
}

/// Replaces this process with the server: signals and exit code are the server's.
fn serve(arguments: &[String]) -> Result<()> {
    setup::all(Need::Run)?;
    site::build(site::Kind::Release)?;
    step::run("build the server", cargo(["build", "--release", "--package", "server", "--bin", "treeline-server"]))?;
    let server = paths::target()?.join("release").join("treeline-server");
    Err(std::process::Command::new(server).args(arguments).exec().into())
}
