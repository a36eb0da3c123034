//! Runs the example `refund`: done once, although every worker dies.
//! This program only reads the environment; the example is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::run_scenario("refund", examples::refund::run).await
}
