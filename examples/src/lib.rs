//! Five stories, each runnable with one command against a Treeline that runs, each also a test.
//!
//! A story is a function: it hands work over, does it, breaks what can break, and checks every promise it
//! tells of; the first one that is not kept is its error. It speaks to Treeline through the crate `client`
//! alone. The programs in `src/bin` only read the environment; the tests run the same functions against a
//! server of their own.

use std::{fmt, process::ExitCode};

use anyhow::{Context as _, Result};
use client::Client;

pub mod downstream; // the world behind the workers
pub mod import; // a file with bad rows
pub mod invoices; // types with attempts and caps, times, at most once, replay
pub mod payroll; // trees that feed each other
pub mod refund; // exactly once, whoever dies
pub mod site; // parallel and sequential tasks, repaired, cancelled, made anew
mod story; // what the five have in common

/// Where Treeline listens unless it is told otherwise.
const USUAL_URL: &str = "http://127.0.0.1:3000";

/// Plays a story against the server that the environment names: `TREELINE_URL`, `TREELINE_TOKEN`. Success
/// is that everything was as promised.
pub async fn play<R: fmt::Display>(name: &str, tell: impl AsyncFnOnce(&Client) -> Result<R>) -> ExitCode {
    println!("{name}");
    let played = async {
        let url = std::env::var("TREELINE_URL").unwrap_or_else(|_| USUAL_URL.to_owned());
        let token = std::env::var("TREELINE_TOKEN").context(
            "TREELINE_TOKEN is not set: start the server with TREELINE_BOOTSTRAP_TOKEN=<32 characters or more> \
             and give the same text here as TREELINE_TOKEN",
        )?;
        let client = Client::new(&url, Some(&token))?;
        client.me().await.context("Treeline does not know us")?;
        tell(&client).await
    };
    match played.await {
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
