//! Fills a server with demo data. It can be run again: it creates nothing twice.
//! This program only reads the environment; the data is in the crate `client`.

use std::process::ExitCode;

#[tokio::main]
async fn main() -> ExitCode {
    examples::run_scenario("seed", async |client| Ok(client::demo::run(client).await?)).await
}
