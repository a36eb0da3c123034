//! Programs and tests, built together.

use anyhow::Result;

use crate::step::{self, cargo};

/// All programs and tests are built together as one set of crates: a single crate would be built with other features,
/// and all of its dependencies twice. The server has its failpoints, which do nothing until a fault asks for one, so that
/// it is not built again for the faults.
pub(crate) const WORKSPACE: [&str; 7] =
    ["--workspace", "--exclude", "frontend", "--exclude", "xtask", "--features", "server/failpoints"];

/// Builds all tests, and the programs that browser tests, clients, and the faults of every build start.
pub(crate) fn build() -> Result<()> {
    let mut build = cargo(["build", "--bins", "--tests"]);
    build.args(WORKSPACE).env_remove("DATABASE_URL");
    step::run("build the programs and tests", build)
}
