//! `treeline`: the command line. Parses, sets up the log, runs one command, and turns its end into an
//! exit code: 0 done, 1 something went wrong, 2 wrong usage, 3 a tree ended partial, 4 it failed or was
//! cancelled, 130 a second signal.
//!
//! One thread is enough, and keeps a worker with hundreds of slots small: the work is done by other
//! processes.

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
            cli::Exit::Trouble.into()
        }
    }
}
