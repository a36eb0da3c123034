//! Private PostgreSQL: started from installed binaries if no `DATABASE_URL` is given.
//!
//! `programs` finds and runs PostgreSQL's programs, `cluster` manages one durable cluster in the data directory,
//! `lock_file` its lock file after a crash, `throwaway` a cluster for tests, which `guard` deletes. None of them depends
//! on the rest of the server, so that `xtask` can compile the same files. The only SQL here creates an empty database, and
//! the rest of the product does not depend on a private PostgreSQL.

use std::{
    io::{self, Write},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use tokio_util::sync::CancellationToken;

pub mod cluster;
pub mod guard;
mod lock_file;
pub mod programs;
pub mod throwaway;

pub use self::{
    cluster::{PrivatePostgres, Revived},
    programs::{Error, Result},
    throwaway::Throwaway,
};

/// Interval of the checks in [`watch`]. A check is one connection to a Unix socket.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// `treeline-server postgres`: a PostgreSQL that runs until standard input closes. For tests and scripts; prints one
/// line, the URL, once it accepts connections.
#[derive(Clone, Debug, clap::Args)]
pub struct Arguments {
    /// Folder of the cluster. Omit it only with --throwaway.
    #[arg(long, required_unless_present = "throwaway")]
    data_dir: Option<PathBuf>,
    /// A cluster in the temporary directory, deleted at the end. Not durable: for tests only.
    #[arg(long, conflicts_with = "data_dir")]
    throwaway: bool,
}

/// Runs the subcommand until standard input closes or the process receives SIGTERM or Ctrl-C.
pub async fn command(arguments: Arguments) -> anyhow::Result<()> {
    if let Some(data_dir) = arguments.data_dir {
        let postgres = start(data_dir).await?;
        announce(postgres.url())?;
        stop_requested().await;
        tokio::task::spawn_blocking(move || postgres.stop()).await??;
    } else {
        let postgres = tokio::task::spawn_blocking(Throwaway::start).await??;
        announce(postgres.url())?;
        stop_requested().await;
        tokio::task::spawn_blocking(move || drop(postgres)).await?;
    }
    Ok(())
}

/// Runs [`PrivatePostgres::start`] on a blocking thread.
pub async fn start(data_dir: PathBuf) -> Result<PrivatePostgres> {
    tokio::task::spawn_blocking(move || PrivatePostgres::start(&data_dir))
        .await
        .map_err(|e| Error::Io { what: "waiting for PostgreSQL to start".into(), source: io::Error::other(e) })?
}

/// Restarts the cluster whenever it has died, until told to stop. Work then continues by itself.
pub async fn watch(postgres: Arc<PrivatePostgres>, stop: CancellationToken) {
    let mut ticks = tokio::time::interval(CHECK_INTERVAL);
    let mut failures = 0_u32;
    loop {
        tokio::select! {
            () = stop.cancelled() => return,
            _ = ticks.tick() => {}
        }
        let looked_at = Arc::clone(&postgres);
        let revived = tokio::task::spawn_blocking(move || looked_at.revive())
            .await
            .map_err(|error| Error::Io { what: "looking at PostgreSQL".into(), source: io::Error::other(error) });
        match revived.flatten() {
            Ok(state) => {
                failures = 0;
                if state == Revived::Restarted {
                    tracing::warn!("private PostgreSQL restarted after a crash");
                }
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                // The 1st, 2nd, 4th, 8th … failure in a row, as background tasks do.
                if failures.is_power_of_two() {
                    tracing::error!(%error, failures, "private PostgreSQL restart failed");
                }
            }
        }
    }
}

fn announce(url: &str) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{url}")?;
    out.flush()
}

/// Resolves when standard input ends, or at SIGTERM or Ctrl-C.
async fn stop_requested() {
    // A separate thread: a blocking read on the runtime's pool would prevent the process from exiting.
    let (closed, input) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || {
        let _ = io::copy(&mut io::stdin().lock(), &mut io::sink());
        let _ = closed.send(());
    });
    tokio::select! {
        _ = input => {}
        () = terminated() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
}

async fn terminated() {
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        Err(_) => std::future::pending().await,
    }
}
