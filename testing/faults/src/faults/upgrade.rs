//! F47: an upgrade under load, rehearsed as in docs/how-to/upgrade.md. Two servers of the old version work; the database is
//! migrated; two of the new version start beside them; then the old ones are replaced one at a time, and after that all
//! are replaced by the old version again, which works on the new schema.
//!
//! With an old program (`--old-server`), both are what they say. Without, the one program is both: what a next version
//! can do in an expanding migration is done to the schema (a column in every table, new indexes), and it is
//! recorded as a migration that the servers do not know.

mod expansion; // the migration of a version that does not exist
mod probe; // clients that repeat nothing by themselves

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use tokio::process::Command;

use self::probe::{Load, Seen};
use super::{Scenario, ScenarioOutcome, clients::on_this_thread, end, ensure_tested, scaled};
use crate::{
    checker::{Kind, Verdict},
    fixture::{Fixture, FixtureOptions, RunContext},
    raw::until,
    workload,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[("F47", |context| on_this_thread(context, upgraded))];

/// Longest time without an acknowledged request: somebody always answers.
const SILENCE: Duration = Duration::from_secs(5);
/// Longest wait until a server that was started has its share of the load.
const SHARE: Duration = Duration::from_secs(30);

/// Programs of both versions.
struct Versions {
    old: PathBuf,
    new: PathBuf,
    /// True if they differ.
    differ: bool,
}

async fn upgraded(context: &RunContext) -> Result<ScenarioOutcome> {
    let old = context.old_server.as_ref().unwrap_or(&context.server).clone();
    let versions = Versions { old, new: context.server.clone(), differ: context.old_server.is_some() };
    let options = FixtureOptions { work_ms: 10, program: Some(versions.old.clone()), ..FixtureOptions::default() };
    let mut fixture = Fixture::start(context, options).await?;
    probe::put_type(&fixture).await?;
    let load = Arc::new(Load::of(&fixture));
    let (work, probes) = load.start(&fixture, context)?;
    let stages = run_stages(context, &versions, &mut fixture, &load).await;
    let under_load = !work.is_finished();
    load.finish();
    let ended = probes.await?;
    let seen = load.take_seen();
    if !seen.rejected.is_empty() {
        // The versions do not go together. What else is wrong does not matter.
        work.abort();
        fixture.stop().await?;
        eprintln!("     its files are in {}", fixture.keep_files().display());
        return Ok(rejected(&seen, stages.err()));
    }
    ended?;
    let migrated = stages?;
    let mut outcome = end(context, fixture, work, String::new()).await?;
    ensure_tested(&outcome, under_load, || "the load ended before the upgrade".to_owned())?;
    let silence = seen.silence();
    if silence > SILENCE {
        outcome.verdict.add_finding(Kind::Slow, format!("no request was answered for {silence:?}"));
    }
    let mode = if versions.differ { "the old and the new program" } else { "one program as both" };
    outcome.done = format!("upgrade under load with {mode}: {migrated}; {}", seen.summary());
    Ok(outcome)
}

/// Requests that a client does not repeat.
fn rejected(seen: &Seen, then: Option<anyhow::Error>) -> ScenarioOutcome {
    let mut verdict = Verdict::default();
    for rejected in &seen.rejected {
        verdict.add_finding(Kind::Scenario, rejected);
    }
    let then = then.map(|error| format!("; ended: {error:#}")).unwrap_or_default();
    ScenarioOutcome { done: format!("upgrade under load: {}{then}", seen.summary()), verdict }
}

/// The steps of docs/how-to/upgrade.md, and back. Each waits until every server that it left running has its share of
/// the load. Returns what was migrated.
async fn run_stages(context: &RunContext, versions: &Versions, fixture: &mut Fixture, load: &Load) -> Result<String> {
    let share = scaled(context, 40, 400);
    wait_for_shares(fixture, load, share).await?;
    let before = migrations(fixture).await?;
    let begun = Instant::now();
    let expanded = if versions.differ { None } else { Some(expansion::apply(&fixture.pool).await?) };
    migrate(&versions.new, fixture).await?;
    let migrated = describe(expanded, migrations(fixture).await? - before, begun.elapsed());
    // The old ones on the new schema.
    wait_for_shares(fixture, load, share).await?;

    fixture.options.program = Some(versions.new.clone());
    for _ in 0..2 {
        fixture.add_server(context).await?;
    }
    for at in 2..4 {
        fixture.add_worker(at, &workload::TYPES, false)?;
    }
    load.set_servers(fixture);
    wait_for_shares(fixture, load, share).await?;
    for at in 0..2 {
        replace(fixture, at, &versions.new).await?;
        wait_for_shares(fixture, load, share).await?;
    }
    for at in [2, 0, 3, 1] {
        replace(fixture, at, &versions.old).await?;
        wait_for_shares(fixture, load, share).await?;
    }
    Ok(format!(
        "{migrated}; 2 new servers started, the old ones replaced one at a time, then all 4 replaced by the old version \
         again"
    ))
}

/// What was migrated, and in what time: an expansion, or the migrations that the old version lacks, if there are any.
fn describe(expanded: Option<String>, migrations: i64, took: Duration) -> String {
    let what = match (expanded, migrations) {
        (Some(expanded), _) => expanded,
        (None, 0) => return "no migration".to_owned(),
        (None, 1) => "a migration".to_owned(),
        (None, more) => format!("{more} migrations"),
    };
    format!("{what} migrated in {} ms beside 2 old servers", took.as_millis())
}

/// Stops a server with SIGTERM, and starts this program at its address.
async fn replace(fixture: &mut Fixture, at: usize, program: &Path) -> Result<()> {
    let server = &mut fixture.servers[at];
    let status = server.process.terminate().await?;
    ensure!(status.success(), "a server that was told to stop ended with {status}");
    server.process.set_program(program);
    server.start().await
}

/// Waits until each server has answered this many requests more.
async fn wait_for_shares(fixture: &Fixture, load: &Load, share: usize) -> Result<()> {
    let urls: Vec<String> = fixture.servers.iter().map(crate::fixture::process::Server::url).collect();
    let before: Vec<usize> = urls.iter().map(|url| load.answers_of(url)).collect();
    let all = async || {
        ensure!(!load.is_rejected(), "a request was rejected");
        Ok(urls.iter().zip(&before).all(|(url, before)| load.answers_of(url) >= before + share))
    };
    until("every server answers its share of the requests", SHARE, all).await.map(drop)
}

/// `treeline-server migrate` of this version.
async fn migrate(program: &Path, fixture: &Fixture) -> Result<()> {
    let migrated = Command::new(program)
        .arg("migrate")
        .env("DATABASE_URL", &fixture.database)
        .stdin(Stdio::null())
        .output()
        .await
        .with_context(|| program.display().to_string())?;
    ensure!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
    Ok(())
}

/// Number of migrations in the database.
async fn migrations(fixture: &Fixture) -> Result<i64> {
    Ok(sqlx::query_scalar("select count(*) from _sqlx_migrations where success").fetch_one(&fixture.pool).await?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_without_a_migration_can_be_upgraded_to() {
        let describe =
            |expanded: Option<&str>, more| super::describe(expanded.map(str::to_owned), more, Duration::from_millis(7));
        assert_eq!(describe(None, 0), "no migration");
        assert_eq!(describe(None, 2), "2 migrations migrated in 7 ms beside 2 old servers");
        assert_eq!(describe(Some("a column"), 1), "a column migrated in 7 ms beside 2 old servers");
    }
}
