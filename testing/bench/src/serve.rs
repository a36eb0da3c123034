//! A server in a separate process, whose memory can be measured.

use std::process::Stdio;

use anyhow::{Context as _, Result};
use client::Client;
use domain::job_type::JobTypeSpec;
use sqlx::PgPool;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader},
    process::{Child, Command},
};

use crate::{TOKEN, fresh_database, statistics::meter};

/// Serves a database until standard input ends. Prints its address.
pub(crate) async fn serve(url: &str) -> Result<()> {
    let data = tempfile::tempdir()?;
    let running = crate::start(url, &data.path().to_string_lossy()).await?;
    println!("{}", running.addr);
    tokio::io::stdin().read_to_end(&mut Vec::new()).await?;
    running.shutdown().await
}

/// A separate server process with its own database.
pub(crate) struct SeparateServer {
    child: Child,
    /// Host and port.
    pub(crate) address: String,
    pub(crate) client: Client,
}

const DATABASE: &str = "bench_apart";

impl SeparateServer {
    /// Starts it, with one type of work.
    pub(crate) async fn start(admin: &str, job_type: &str) -> Result<Self> {
        let url = fresh_database(admin, DATABASE).await?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["--serve", &url])
            // The maximum number of measured streams, and some connections for work.
            .env("TREELINE_CONNECTIONS", "11000")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let output = child.stdout.take().context("no output")?;
        let address = BufReader::new(output).lines().next_line().await?.context("the server did not start")?;
        let client = Client::new(&format!("http://{address}"), Some(TOKEN))?;
        client.put_job_type(&JobTypeSpec::named(job_type)).await?;
        Ok(Self { child, address, client })
    }

    /// Its memory, in megabytes.
    pub(crate) fn memory(&self) -> Result<f64> {
        Ok(meter::memory_of(self.child.id().context("the server has exited")?)? / 1e6)
    }

    /// Transactions in its database so far. PostgreSQL counts them with up to a second's delay.
    pub(crate) async fn transactions(&self, pool: &PgPool) -> Result<f64> {
        let counted = "select (xact_commit + xact_rollback)::float8 from pg_stat_database where datname = $1";
        Ok(sqlx::query_scalar(counted).bind(DATABASE).fetch_one(pool).await?)
    }

    pub(crate) async fn end(mut self) -> Result<()> {
        drop(self.child.stdin.take());
        self.child.wait().await?;
        Ok(())
    }
}
