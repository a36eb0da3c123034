//! Plays the story `site`: parallel and sequential tasks, repaired, cancelled, made anew.
//! It reads the environment and nothing else; the story is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::play("site", examples::site::run).await
}
