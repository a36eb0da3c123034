//! All checks of a change, in the order that finds errors fastest.
//!
//! All tests share one throwaway PostgreSQL; each creates its own database in it. Continuous integration runs exactly
//! this.

use anyhow::Result;

use crate::{
    browser, clients, faults,
    paths::TEST_POSTGRES,
    postgres::throwaway::Throwaway,
    prepare, programs,
    setup::{self, Need},
    site,
    step::{self, cargo},
    supply,
};

/// Module of the tests that count what a statement reads: other tests at the same time would change the counts.
const MEASURED_ALONE: &str = "query_buffers";

/// The test program of the scenarios, and all others: their names have at least three letters.
const SCENARIOS: [&str; 2] = ["--test", "it"];
const ALL_BUT_SCENARIOS: [&str; 4] = ["--lib", "--bins", "--test", "???*"];

pub(crate) fn all() -> Result<()> {
    setup::all(Need::Everything)?;
    step::run("check the format", cargo(["fmt", "--all", "--check"]))?;
    supply::check()?;
    supply::sbom(None, &[])?;
    let postgres = postgres()?;
    prepare::check(&postgres)?;
    lint()?;
    site::build(site::Kind::Release)?;
    programs::build()?;
    tests(&postgres)?;
    browser::test_untimed(&postgres)?;
    // The clients wait more than they compute.
    step::both(|| clients::test(&postgres), || browser::test_timed(&postgres))?;
    drop(postgres);
    faults::quick()
}

/// Runs all Rust tests: four scenarios at once, because they also wait, beside the other programs of tests, and then those
/// that measure. With six at once on two cores, servers of some tests answer 503 for their load.
fn tests(postgres: &Throwaway) -> Result<()> {
    let with = |cargo_options: &[&str], options: &[&str]| {
        let mut tests = cargo(["test", "--no-fail-fast"]);
        tests.args(programs::WORKSPACE).args(cargo_options).arg("--").args(options);
        tests.env(TEST_POSTGRES, postgres.url()).env_remove("DATABASE_URL");
        tests
    };
    let others = || {
        step::show("test all but the scenarios", with(&ALL_BUT_SCENARIOS, &["--test-threads=1"]))?;
        step::show("test examples of the documentation", with(&["--doc"], &[]))
    };
    let scenarios = with(&SCENARIOS, &["--test-threads=4", "--skip", MEASURED_ALONE]);
    step::both(others, || step::show("test the scenarios", scenarios))?;
    step::show("measure statements", with(&SCENARIOS, &["--test-threads=1", MEASURED_ALONE]))
}

/// Runs the lints. The frontend is linted separately for the browser: together with the server, both feature sets of
/// Leptos would be enabled.
pub(crate) fn lint() -> Result<()> {
    let strict = ["--", "-D", "warnings"];
    let mut server = cargo(["clippy", "--workspace", "--exclude", "frontend", "--all-targets"]);
    server.args(strict);
    step::run("lint", server)?;
    let mut frontend = cargo(["clippy", "--package", "frontend", "--target", "wasm32-unknown-unknown"]);
    frontend.args(strict);
    step::run("lint the browser's part", frontend)
}

/// Starts a PostgreSQL that ends when the value is dropped.
pub(crate) fn postgres() -> Result<Throwaway> {
    step::time("start a throwaway PostgreSQL", || Ok(Throwaway::start()?))
}
