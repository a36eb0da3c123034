//! The machine, versions and settings of a run, without which its figures mean nothing.

use std::process::Command;

use anyhow::{Context as _, Result};
use server::postgres::programs::Programs;
use sqlx::{Connection as _, PgConnection, Row as _};

/// Settings that affect the cost of durability.
const SETTINGS: &[&str] = &[
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "shared_buffers",
    "max_wal_size",
    "checkpoint_timeout",
    "autovacuum",
    "wal_compression",
];

/// Date, machine, versions and settings, one line each.
pub(crate) async fn facts(url: &str) -> Result<Vec<String>> {
    let mut connection = PgConnection::connect(url).await?;
    let row = sqlx::query(
        "select to_char(now() at time zone 'UTC', 'YYYY-MM-DD HH24:MI UTC'), current_setting('server_version')",
    )
    .fetch_one(&mut connection)
    .await?;
    let (date, postgres): (String, String) = (row.get(0), row.get(1));
    let mut settings = Vec::new();
    for name in SETTINGS {
        let value: String =
            sqlx::query_scalar("select current_setting($1)").bind(*name).fetch_one(&mut connection).await?;
        settings.push(format!("`{name} = {value}`"));
    }
    let flush =
        flushes().map_or_else(|error| format!("not measured: {error:#}"), |flushes| format!("{flushes} per second"));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let processor = line_of("/proc/cpuinfo", "model name");
    let memory: f64 = line_of("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or(0.0);
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').next().unwrap_or_default().to_owned();
    let busy = load.parse::<f64>().is_ok_and(|load| load > cores as f64 / 2.0);
    let busy = if busy { ": **busy with other work, so the figures are low and the ratios rough**" } else { "" };
    Ok(vec![
        date,
        format!(
            "{cores} cores ({processor}), {:.0} GB of memory, load average before the run {load}{busy}",
            memory / 1e6
        ),
        format!("Treeline {}, PostgreSQL {postgres}, {}", env!("CARGO_PKG_VERSION"), compiler()),
        format!("PostgreSQL: {}", settings.join(", ")),
        format!("Sequential durable writes of 8 kB (`pg_test_fsync`, fdatasync): {flush}"),
    ])
}

/// Writes per second that reach the disk of the temporary folder, where the cluster is: the limit of commits from one
/// connection.
fn flushes() -> Result<String> {
    let folder = tempfile::tempdir()?;
    let program = Programs::newest()?.bin.join("pg_test_fsync");
    let output = Command::new(program).args(["--secs-per-test=1", "-f"]).arg(folder.path().join("file")).output()?;
    let text = String::from_utf8(output.stdout)?;
    let line = text.lines().find(|line| line.trim_start().starts_with("fdatasync")).context("it said nothing")?;
    Ok(line.split_whitespace().nth(1).context("it said nothing")?.to_owned())
}

fn line_of(file: &str, name: &str) -> String {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map_or_else(String::new, |(_, value)| value.trim().to_owned())
}

fn compiler() -> String {
    let version = Command::new("rustc").arg("--version").output();
    version.map_or_else(|_| "rustc".to_owned(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
