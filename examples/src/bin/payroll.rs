//! Runs the example `payroll`: two levels of fed jobs, one payment per bank at a time.
//! This program only reads the environment; the example is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::run_scenario("payroll", examples::payroll::run).await
}
