//! Five examples, each runnable with one command against a running Treeline, each also a test.
//!
//! An example is a function: it submits work, processes it, causes failures, and checks every promise it describes;
//! the first broken promise is its error. It uses only the crate `client`. The programs in `src/bin` only read the
//! environment; the tests run the same functions against a server of their own.

use std::{fmt, process::ExitCode};

use anyhow::{Context as _, Result};
use client::Client;

pub mod downstream; // a server that the workers call
pub mod import; // a file with bad rows
pub mod invoices; // types with attempts and caps, times, at most once, replay
pub mod payroll; // trees that feed each other
pub mod refund; // exactly once, although workers die
mod scenario; // shared helpers
pub mod site; // parallel and sequential tasks, repaired, cancelled, created again

/// Default address of Treeline.
const DEFAULT_URL: &str = "http://127.0.0.1:3000";

/// Runs an example against the server in the environment: `TREELINE_URL`, `TREELINE_TOKEN`. It succeeds if every
/// promise held.
pub async fn run_scenario<R: fmt::Display>(name: &str, scenario: impl AsyncFnOnce(&Client) -> Result<R>) -> ExitCode {
    println!("{name}");
    let result = async {
        let url = std::env::var("TREELINE_URL").unwrap_or_else(|_| DEFAULT_URL.to_owned());
        let token = std::env::var("TREELINE_TOKEN").context(
            "TREELINE_TOKEN is not set: start the server with TREELINE_BOOTSTRAP_TOKEN=<32 characters or more> \
             and give the same text here as TREELINE_TOKEN",
        )?;
        let client = Client::new(&url, Some(&token))?;
        client.me().await.context("Treeline does not know us")?;
        scenario(&client).await
    };
    match result.await {
        Ok(report) => {
            println!("{report}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{name}: {error:#}");
            ExitCode::FAILURE
        }
    }
}
