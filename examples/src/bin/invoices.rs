//! Runs the example `invoices`: caps, attempts, times, at most once, replay.
//! This program only reads the environment; the example is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::run_scenario("invoices", examples::invoices::run).await
}
