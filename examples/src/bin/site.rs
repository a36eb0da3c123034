//! Runs the example `site`: parallel and sequential tasks, repaired, cancelled, created again.
//! This program only reads the environment; the example is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::run_scenario("site", examples::site::run).await
}
