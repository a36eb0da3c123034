//! F48: a thousand schedules, while their servers are killed in turn and the clocks are moved by an hour and across both
//! daylight-saving changes. Each tick has made its tree once, or is listed as skipped by its policy.
//!
//! Ticks follow the database's clock (`database-clock`), so this PostgreSQL runs under libfaketime. Its clock goes ahead in
//! steps, sixteen times as fast as the real one, and jumps. It is always ahead of the real one: libfaketime gives handlers
//! of signals the real time, by which PostgreSQL must not find that a timeout is over. The clocks of the servers are an
//! hour off. The expected ticks are those of `wall_clock`, which shares no code with the engine.

mod check; // the rules
#[cfg(test)]
mod check_tests;
mod clocks; // clocks of the database and the servers
mod plan; // the schedules
mod wall_clock; // expected ticks

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use client::Drain;
use domain::{Time, id::Uuid};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use reqwest::Method;
use serde_json::json;
use sqlx::PgPool;
use time::{Date, Month, OffsetDateTime};

use self::{
    check::{History, Report, Run, check},
    clocks::Clocks,
    plan::{Planned, ZONES},
};
use super::{Scenario, ScenarioOutcome, clients::on_this_thread, limits, scaled};
use crate::{
    checker::Kind,
    findings::Findings,
    fixture::{Fixture, FixtureOptions, RunContext, TOKEN, postgres::Postgres, process::Server},
    raw::Api,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[("F48", |context| on_this_thread(context, run))];

const SCHEDULES: usize = 1_000;
const SERVERS: usize = 2;
const HOUR: i64 = 3_600;
/// Longest wait for the ticks and trees that are due at the end.
const TIMEOUT: Duration = Duration::from_mins(5);

/// The moments of the scenario, in the next year.
#[derive(Clone, Copy)]
struct Moments {
    /// The schedules are created.
    created: Time,
    /// First possible tick, shortly before the clocks are set forward.
    begin: Time,
    /// Shortly before the clocks are set back.
    autumn: Time,
    /// Last possible tick.
    end: Time,
}

impl Moments {
    fn of_next_year() -> Result<Self> {
        let year = OffsetDateTime::now_utc().year() + 1;
        let change = |month| -> Result<OffsetDateTime> {
            let last = Date::from_calendar_date(year, month, 31)?;
            let sunday = last - time::Duration::days(last.weekday().number_days_from_sunday().into());
            Ok(sunday.midnight().assume_utc() + time::Duration::HOUR)
        };
        let (spring, autumn) = (change(Month::March)?, change(Month::October)?);
        let seconds = |at: OffsetDateTime, seconds| Time(at + time::Duration::seconds(seconds));
        Ok(Self {
            created: seconds(spring, -1_200),
            begin: seconds(spring, -140),
            autumn: seconds(autumn, -140),
            end: seconds(autumn, 2 * HOUR - 140),
        })
    }
}

async fn run(context: &RunContext) -> Result<ScenarioOutcome> {
    let moments = Moments::of_next_year()?;
    let (postgres, mut clocks) = tokio::task::spawn_blocking(move || start(moments)).await??;
    let mut fixture = servers(context, &postgres, &clocks).await?;
    let plan = (0..SCHEDULES).map(Planned::nth).collect::<Result<Vec<_>>>()?;
    create(&fixture, &plan, moments).await?;
    let drain = Drain::new();
    let workers = limits::work(&fixture, &["tick"], &drain)?;

    let is_over = AtomicBool::new(false);
    let moving = async {
        let moved = move_clocks(&mut clocks, moments, Duration::from_secs(scaled(context, 10, 60))).await;
        is_over.store(true, Relaxed);
        moved
    };
    let ((), kills) = tokio::try_join!(moving, kill_in_turn(&mut fixture.servers, &is_over))?;
    let has_ended = until_ended(&mut clocks, &fixture.pool).await?;
    drain.begin();
    for worker in workers {
        worker.await??;
    }

    let history = read(&fixture.pool, moments, clocks.set_back.clone()).await?;
    let report = check(&plan, &history);
    let mut findings = Findings::new(format!(
        "{SCHEDULES} schedules in {ZONES} time zones; two servers killed in turn, {kills} times; PostgreSQL's clock \
         moved {} times by an hour and across both daylight-saving changes; the servers' clocks an hour off: {} \
         ticks created their tree, {} were skipped because of an overlap, {} runs stand for missed ticks",
        clocks.moved, report.started, report.skipped_by_overlap, report.missed,
    ));
    findings.acknowledged = history.runs.len() as u64;
    findings.stuck = u64::from(!has_ended);
    record(&mut findings, report);
    compare_with_api(&mut findings, &fixture, &history).await?;
    findings.check_tables(&fixture.pool).await;
    control(&mut findings, &plan, moments, &fixture.pool).await?;
    fixture.stop().await?;
    let outcome = findings.into_outcome();
    if !outcome.verdict.is_clean() {
        eprintln!("     its files are in {}", fixture.keep_files().display());
    }
    Ok(outcome)
}

/// Starts PostgreSQL with a clock that can be moved.
fn start(moments: Moments) -> Result<(Postgres, Clocks)> {
    let mut clocks = None;
    let postgres = Postgres::start_with(|folder| {
        let new = clocks.insert(Clocks::new(folder)?);
        new.jump_to(moments.created)?;
        Ok(new.database.environment())
    })?;
    Ok((postgres, clocks.context("the clocks")?))
}

/// Starts two servers, each with a clock of its own.
async fn servers(context: &RunContext, postgres: &Postgres, clocks: &Clocks) -> Result<Fixture> {
    let options = FixtureOptions {
        servers: clocks.servers.len(),
        workers: 0,
        environment: clocks.servers[0].environment(),
        database: Some(postgres.url(&postgres.database().await?)),
        ..FixtureOptions::default()
    };
    let mut fixture = Fixture::start(context, options).await?;
    for (server, clock) in fixture.servers.iter_mut().zip(&clocks.servers) {
        for (name, value) in clock.environment() {
            server.process.set(&name, &value);
        }
        server.restart().await?;
    }
    Ok(fixture)
}

async fn create(fixture: &Fixture, plan: &[Planned], moments: Moments) -> Result<()> {
    let apis = fixture.servers.iter().map(|server| Api::new(&server.url(), TOKEN)).collect::<Result<Vec<_>>>()?;
    // Seven months pass.
    apis[0].put_type("tick", &json!({"retain_seconds": null})).await?;
    let new = plan.iter().enumerate().map(|(n, planned)| {
        let (api, body) = (&apis[n % apis.len()], planned.body(moments.begin, moments.end));
        async move { api.post("/schedules", &body).await?.ok().with_context(|| body.to_string()) }
    });
    stream::iter(new).buffer_unordered(8).try_for_each(|_| async { Ok(()) }).await
}

/// Lets the clock run and jump, across both daylight-saving changes and beyond the end. A part of the way takes `time`.
async fn move_clocks(clocks: &mut Clocks, moments: Moments, time: Duration) -> Result<()> {
    for change in [moments.begin, moments.autumn] {
        clocks.jump_to(change)?;
        clocks.run(time).await?;
        // An hour is skipped, then runs, then is skipped again.
        for hours in [1, -1, 1] {
            clocks.move_by(hours * HOUR)?;
            clocks.run(time / 2).await?;
        }
    }
    clocks.jump_to(moments.end)
}

/// Kills the servers in turn at random moments and starts them a little later. Returns the number of kills.
async fn kill_in_turn(servers: &mut [Server], is_over: &AtomicBool) -> Result<usize> {
    let mut times = 0;
    while !is_over.load(Relaxed) {
        let at = times % servers.len();
        tokio::time::sleep(Duration::from_millis(rand::random_range(100..1_200))).await;
        servers[at].process.kill().await?;
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..600))).await;
        servers[at].start().await?;
        times += 1;
    }
    Ok(times)
}

/// Waits until no schedule has a tick to come or a queued run. Returns false after the timeout.
async fn until_ended(clocks: &mut Clocks, pool: &PgPool) -> Result<bool> {
    let began = Instant::now();
    while began.elapsed() < TIMEOUT {
        let open = "select count(*) from schedule where next_at is not null or queued > 0";
        let open: i64 = sqlx::query_scalar(open).fetch_one(pool).await?;
        if open == 0 {
            return Ok(true);
        }
        // Queued runs are looked at every second of the database.
        clocks.run(Duration::from_millis(200)).await?;
    }
    Ok(false)
}

/// Schedule, tick, time of writing, state, reason, and tree.
type RunRow = (i32, i64, i64, String, Option<String>, Option<Uuid>);

async fn read(pool: &PgPool, moments: Moments, set_back: Vec<i64>) -> Result<History> {
    let runs: Vec<RunRow> = sqlx::query_as(
        "select s.name::int, extract(epoch from r.tick)::bigint, floor(extract(epoch from r.at))::bigint, r.state, r.reason, r.job_id
         from schedule_run r join schedule s on s.id = r.schedule_id order by s.id, r.seq",
    )
    .fetch_all(pool)
    .await?;
    let trees: Vec<Uuid> = sqlx::query_scalar("select id from job where parent_id is null").fetch_all(pool).await?;
    let run = |(schedule, tick, at, state, reason, job_id): RunRow| Run {
        schedule: schedule as usize,
        tick,
        at,
        state,
        reason,
        job_id,
    };
    Ok(History {
        from: moments.begin.0.unix_timestamp(),
        until: moments.end.0.unix_timestamp(),
        set_back,
        runs: runs.into_iter().map(run).collect(),
        trees: trees.into_iter().collect(),
    })
}

/// Moves a report to the findings, with a few examples of each kind.
fn record(findings: &mut Findings, report: Report) {
    (findings.lost, findings.doubled) = (report.lost.len() as u64, report.doubled.len() as u64);
    for list in [report.lost, report.doubled, report.violations] {
        list.into_iter().take(5).for_each(|violation| findings.add(Kind::Scenario, violation));
    }
    let has_started = report.started > SCHEDULES;
    findings.check_in_time(has_started, || "few ticks created a tree, so nothing was tested".to_owned());
    let has_skipped = report.skipped_by_overlap > 0 && report.missed > SCHEDULES;
    findings.check_in_time(has_skipped, || "nothing was skipped".to_owned());
}

/// The history of every twentieth schedule is the same by the API.
async fn compare_with_api(findings: &mut Findings, fixture: &Fixture, history: &History) -> Result<()> {
    let api = Api::new(&fixture.servers[0].url(), TOKEN)?;
    let ids: Vec<(Uuid, i32)> =
        sqlx::query_as("select id, name::int from schedule where name::int % 20 = 0").fetch_all(&fixture.pool).await?;
    ensure!(ids.len() == SCHEDULES / 20, "{} schedules", ids.len());
    for (id, name) in ids {
        let path = format!("/schedules/{id}/runs?limit=1000&sort=created_at");
        let page = api.send(Method::GET, &path, None).await?.ok()?;
        let listed = page["data"].as_array().context("a list")?.iter().map(|run| {
            let tick = Time::parse(run["tick"].as_str()?)?;
            Some((tick.0.unix_timestamp(), run["state"].as_str()?.to_owned()))
        });
        let stored = history.runs.iter().filter(|run| run.schedule == name as usize);
        let is_same = listed.eq(stored.map(|run| Some((run.tick, run.state.clone()))));
        findings.check(is_same, || format!("the API lists other runs of schedule {name}"));
    }
    Ok(())
}

/// Control: the checker notices two ticks whose runs are gone, and their trees.
async fn control(findings: &mut Findings, plan: &[Planned], moments: Moments, pool: &PgPool) -> Result<()> {
    let before = check(plan, &read(pool, moments, Vec::new()).await?);
    let gone = sqlx::query(
        "delete from schedule_run where (schedule_id, seq) in
           (select schedule_id, seq from schedule_run where seq = 1 and state = 'started' limit 2)",
    )
    .execute(pool)
    .await?;
    let after = check(plan, &read(pool, moments, Vec::new()).await?);
    let noticed = (after.lost.len() - before.lost.len(), after.doubled.len() - before.doubled.len());
    findings.check(gone.rows_affected() == 2 && noticed == (2, 2), || {
        format!("{} runs were deleted, and the checker noticed {noticed:?}", gone.rows_affected())
    });
    findings.note("control: two deleted runs were noticed, and their two trees");
    Ok(())
}
