//! Plays the story `invoices`: caps, attempts, times, at most once, replay.
//! It reads the environment and nothing else; the story is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::play("invoices", examples::invoices::run).await
}
