//! F45: a backup of the database and its files as in docs/how-to/backup.md, taken under load and restored elsewhere.
//!
//! The database is copied first, then the files: then no row lacks its file, unless it was deleted in between. Files
//! without rows are harmless.

use std::{collections::HashMap, path::Path, process::Command, sync::Arc, time::Duration};

use anyhow::{Context as _, Result, ensure};
use domain::id::Uuid;
use server::postgres::programs::Programs;
use tokio::task::{JoinHandle, block_in_place};

use super::{Scenario, clients::with_findings, drain_timeout, files};
use crate::{
    findings::Findings,
    fixture::{Fixture, FixtureOptions, RunContext},
    inconclusive::Inconclusive,
    journal::{self, Call, CallOutcome, Request, now_us},
    raw::until,
    workload::Workload,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[("F45", |context| with_findings(context, restored))];

/// Time over which callers spread their calls.
const LOAD: Duration = Duration::from_secs(12);
/// Load before the backup begins.
const BEFORE: Duration = Duration::from_secs(4);
/// Files that callers upload, and their rows.
const FILES: usize = 8;
const ROWS: usize = 1_000;

/// `pg_dump`, then a copy of the files, both under load; restored into another PostgreSQL database and folder.
async fn restored(context: &RunContext) -> Result<Findings> {
    let mut original = Fixture::start(context, FixtureOptions { work_ms: 10, ..FixtureOptions::default() }).await?;
    let calls = context.items as f64 * (0.9 / 50.0 + 0.01);
    let calls_a_second = Some(calls / LOAD.as_secs_f64());
    let workload = original.start_workload(Workload { calls_a_second, ..Workload::of(context.items, context.seed) })?;
    let uploads = start_uploads(&original, context.seed)?;
    tokio::time::sleep(BEFORE).await;
    let (began_us, dump) = (now_us(), original.path("dump"));
    let to = format!("--file={}", dump.display());
    block_in_place(|| run("pg_dump", &["--format=custom", &to, &original.database]))?;
    let copy_of_data = original.path("copy");
    block_in_place(|| copy(&original.path("data"), &copy_of_data))?;
    if workload.is_finished() {
        return Err(Inconclusive::Untested.error("the load ended before the backup"));
    }
    workload.await??;
    uploads.await??;
    original.stop().await?;
    let calls = journal::read(&original.path("journal"))?;

    // A file without a row, as one that was uploaded after the copy of the database.
    std::fs::write(copy_of_data.join("stray"), "of no upload")?;
    let database = context.postgres.url(&context.postgres.database().await?);
    block_in_place(|| run("pg_restore", &["--dbname", &database, "--no-owner", &dump.to_string_lossy()]))?;
    let folder = ("TREELINE_DATA_DIR".to_owned(), copy_of_data.to_string_lossy().into_owned());
    let options = FixtureOptions { database: Some(database), environment: vec![folder], ..original.options.clone() };
    let copied = Fixture::start_under_test(context, options).await?;
    let mut findings = Findings::new("pg_dump under load, then a copy of the files, restored elsewhere");
    check_files(&copied, &mut findings).await?;
    // New work beside the restored; and nobody adds to the restored jobs anymore.
    let more = copied.start_workload(Workload::of(context.items / 10, context.seed ^ 1))?;
    seal(&copied).await?;
    findings.stuck = u64::from(!copied.wait_until_drained(more, drain_timeout(context)).await?);
    check_calls(&copied, &calls, began_us, &mut findings).await?;
    findings.check_tables(&copied.pool).await;
    Ok(findings)
}

/// Seals the jobs that were open at the time of the backup.
async fn seal(copied: &Fixture) -> Result<()> {
    // Feeds and files seal their jobs.
    let open = "select j.id from job j join job_state s on s.job_key = j.job_key
        where not s.sealed and s.cancelled_at is null and j.feed is null and j.upload_id is null";
    let open: Vec<Uuid> = sqlx::query_scalar(open).fetch_all(&copied.pool).await?;
    let client = copied.client(0)?.with_retry_timeout(Duration::from_secs(30));
    for job in open {
        client.seal(job).await?;
    }
    Ok(())
}

/// Every tree and item that was acknowledged before the backup began must be there, once.
async fn check_calls(copied: &Fixture, calls: &[Call], began_us: u64, findings: &mut Findings) -> Result<()> {
    let names = counts(copied, "select coalesce(name, '') from job where parent_id is null").await?;
    let keys = "select j.id || ' ' || coalesce(i.dedupe_key, 'row') from item i join job j on j.job_key = i.job_key";
    let keys = counts(copied, keys).await?;
    let mut expect = |found: &HashMap<String, usize>, key: String, n: usize| {
        let there = found.get(&key).copied().unwrap_or_default();
        findings.acknowledged += n as u64;
        findings.lost += n.saturating_sub(there) as u64;
        findings.doubled += there.saturating_sub(n) as u64;
    };
    for call in calls.iter().filter(|call| call.outcome == CallOutcome::Ok && call.answered_us < began_us) {
        let (tree, job, items): (_, _, &[String]) = match (&call.request, call.job) {
            (Request::Create { key, items, .. }, Some(job)) => (Some(key), job, items),
            (Request::File { key, rows }, Some(job)) => {
                expect(&keys, format!("{job} row"), *rows);
                (Some(key), job, &[])
            }
            (Request::Add { job, items }, _) => (None, *job, items),
            _ => continue,
        };
        if let Some(key) = tree {
            expect(&names, key.clone(), 1);
        }
        for item in items {
            expect(&keys, format!("{job} {item}"), 1);
        }
    }
    Ok(())
}

/// Every file that has a row is there: it is split once more.
async fn check_files(copied: &Fixture, findings: &mut Findings) -> Result<()> {
    let uploads: Vec<Uuid> = sqlx::query_scalar("select id from upload").fetch_all(&copied.pool).await?;
    if uploads.is_empty() {
        return Err(Inconclusive::Untested.error("no file was in the backup"));
    }
    let client = copied.client(0)?.with_retry_timeout(Duration::from_secs(30));
    for &id in &uploads {
        let tree = files::tree(&format!("again-{id}"), id);
        let job = client.create_job_once(&tree, &id.to_string()).await?.job().id;
        let count = "select count(*) from item i join job j on j.job_key = i.job_key where j.id = $1";
        let all = until("a restored file is split", Duration::from_secs(30), async || {
            let rows: i64 = sqlx::query_scalar(count).bind(job).fetch_one(&copied.pool).await?;
            Ok(rows == ROWS as i64)
        });
        findings.expect_ok(all.await.map(drop));
    }
    findings.note(format!("{} of {FILES} files were in the backup and readable", uploads.len()));
    Ok(())
}

/// Uploads files and creates a tree of each, one after the other.
fn start_uploads(original: &Fixture, seed: u64) -> Result<JoinHandle<Result<()>>> {
    let client = original.client(0)?;
    let (journal, folder) = (Arc::clone(&original.journal), original.folder().to_owned());
    Ok(tokio::spawn(async move {
        for n in 0..FILES {
            let key = format!("file-{n}-{seed}");
            let path = folder.join(format!("{key}.csv"));
            std::fs::write(&path, files::table(&key, ROWS))?;
            let upload = client.upload(&path, |_| {}).await.context("a file")?;
            let call = journal.invoke(Request::File { key: key.clone(), rows: ROWS })?;
            let made = client.create_job_once(&files::tree(&key, upload.id), &key).await.context("a tree of it")?;
            journal.record_outcome(call, CallOutcome::Ok, Some(made.job().id))?;
            tokio::time::sleep(LOAD / FILES as u32).await;
        }
        Ok(())
    }))
}

/// How often a statement returns each text.
async fn counts(fixture: &Fixture, statement: &'static str) -> Result<HashMap<String, usize>> {
    let mut counts = HashMap::new();
    for text in sqlx::query_scalar::<_, String>(statement).fetch_all(&fixture.pool).await? {
        *counts.entry(text).or_default() += 1;
    }
    Ok(counts)
}

/// Runs one of PostgreSQL's programs under this process's account, which writes the backup.
fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(Programs::newest()?.bin.join(program)).args(arguments).output()?;
    ensure!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Copies a folder that changes meanwhile.
fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let to = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &to)?;
        } else if let Err(error) = std::fs::copy(entry.path(), to)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            return Err(error.into());
        }
    }
    Ok(())
}
