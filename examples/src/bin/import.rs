//! Plays the story `import`: a file with bad rows, taken home and mended.
//! It reads the environment and nothing else; the story is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::play("import", examples::import::run).await
}
