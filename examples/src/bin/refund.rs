//! Plays the story `refund`: done once, although every worker dies.
//! It reads the environment and nothing else; the story is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::play("refund", examples::refund::run).await
}
