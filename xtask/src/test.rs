//! Everything that must hold before a change is good, in the order that finds faults soonest.
//!
//! All tests share one throwaway PostgreSQL; each makes a database of its own in it. Continuous
//! integration runs exactly this.

use anyhow::Result;

use crate::{
    browser, clients, faults,
    postgres::throwaway::Throwaway,
    prepare,
    setup::{self, Need},
    site,
    step::{self, cargo},
    supply,
};

/// The admin URL of the tests' PostgreSQL; each test makes its own database with it.
pub(crate) const TEST_POSTGRES: &str = "TREELINE_TEST_POSTGRES";

pub(crate) fn all() -> Result<()> {
    setup::all(Need::Everything)?;
    step::run("check the format", cargo(["fmt", "--all", "--check"]))?;
    supply::check()?;
    supply::sbom(None)?;
    let postgres = postgres()?;
    prepare::check(&postgres)?;
    lint()?;
    site::build(site::Kind::Release)?;
    let mut tests = cargo(["test", "--workspace", "--exclude", "frontend", "--exclude", "xtask"]);
    tests.env(TEST_POSTGRES, postgres.url()).env_remove("DATABASE_URL");
    step::show("test", tests)?;
    browser::test(&postgres, None)?;
    clients::test(&postgres)?;
    drop(postgres);
    faults::quick()
}

/// The browser's part is linted for the browser: together with the server, both halves of Leptos would
/// be switched on at once.
pub(crate) fn lint() -> Result<()> {
    let strict = ["--", "-D", "warnings"];
    let mut server = cargo(["clippy", "--workspace", "--exclude", "frontend", "--all-targets"]);
    server.args(strict);
    step::run("lint", server)?;
    let mut frontend = cargo(["clippy", "--package", "frontend", "--target", "wasm32-unknown-unknown"]);
    frontend.args(strict);
    step::run("lint the browser's part", frontend)
}

/// A PostgreSQL that goes when the value does.
pub(crate) fn postgres() -> Result<Throwaway> {
    step::time("start a throwaway PostgreSQL", || Ok(Throwaway::start()?))
}
