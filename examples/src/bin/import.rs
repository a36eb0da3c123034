//! Runs the example `import`: a file with bad rows, which are downloaded and corrected.
//! This program only reads the environment; the example is in the library.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::run_scenario("import", examples::import::run).await
}
