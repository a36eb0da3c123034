//! Programs and tests, built together.

use anyhow::Result;

use crate::step::{self, cargo};

/// All programs and tests are built together as one set of crates: a single crate would be built with other features,
/// and all of its dependencies twice.
pub(crate) const WORKSPACE: [&str; 5] = ["--workspace", "--exclude", "frontend", "--exclude", "xtask"];

/// Builds all tests, and the programs that browser tests and clients start.
pub(crate) fn build() -> Result<()> {
    let mut build = cargo(["build", "--bins", "--tests"]);
    build.args(WORKSPACE).env_remove("DATABASE_URL");
    step::run("build the programs and tests", build)
}
