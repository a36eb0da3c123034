//! `treeline`, the command line: parses the arguments, sets up the log and runs one command. Exit codes: 0 success,
//! 1 error, 2 wrong usage, 3 the tree ended partial, 4 it failed or was canceled, 130 a second signal
//! (`cli/exit.rs`).
//!
//! One thread is enough, because other processes do the work; it keeps a worker with hundreds of slots small.

mod cli;

use std::process::ExitCode;

use clap::Parser as _;

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    let args = cli::Args::parse();
    cli::log(&args);
    match cli::run(args).await {
        Ok(code) => code.into(),
        Err(error) => {
            eprintln!("treeline: {error:#}");
            cli::Exit::Error.into()
        }
    }
}
