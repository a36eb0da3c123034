//! Plays the story `payroll`: two levels of fed jobs, one payment a bank at a time.
//! It reads the environment and nothing else; the story is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::play("payroll", examples::payroll::run).await
}
