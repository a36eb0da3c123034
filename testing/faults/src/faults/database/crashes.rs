//! F10, F11, F20, F44: the database crashes, restarts, terminates sessions, and rejects writes during the workload. Servers
//! keep running.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::future::join_all;
use rustix::process::{Pid, Signal, kill_process};
use tokio::task::block_in_place;

use super::super::{ScenarioOutcome, end, scaled};
use crate::{
    checker::Kind,
    fixture::{Fixture, FixtureOptions, RunContext, TOKEN, postgres::StopMode},
    raw::{Api, until},
    workload::Workload,
};

/// Longest time until servers are ready again by themselves (P19).
const BACK: Duration = Duration::from_secs(30);

/// Longest time until a request is refused while PostgreSQL is stopped: two seconds, and a tolerance for a loaded machine.
const REFUSED_WITHIN: Duration = Duration::from_millis(2_500);

/// F10: PostgreSQL stopped as by a power loss, its postmaster killed, one of its backends killed.
pub(crate) async fn crashes(context: &RunContext) -> Result<ScenarioOutcome> {
    let each = scaled(context, 2, 20);
    let modes = [Some(StopMode::Immediate), Some(StopMode::Killed), None];
    let mut refused = Duration::ZERO;
    let ended =
        with_disturbances(
            context,
            each * modes.len(),
            Duration::from_millis(1_500),
            async |fixture, times| match modes[times % modes.len()] {
                Some(mode) => {
                    block_in_place(|| context.postgres.stop(mode))?;
                    refused = refused.max(slowest_refusal(fixture).await?);
                    block_in_place(|| context.postgres.start_again())
                }
                None => kill_backend(fixture).await,
            },
        );
    let (mut outcome, times, back) = ended.await?;
    if refused > REFUSED_WITHIN {
        outcome.verdict.add_finding(Kind::Slow, format!("a request waited {refused:?} for its 503"));
    }
    outcome.done = format!(
        "PostgreSQL stopped immediately, its postmaster killed, a backend killed, {times} times in turn; requests \
         meanwhile got 503 within {} ms; {back}",
        refused.as_millis()
    );
    Ok(outcome)
}

/// Sends requests that wait longest for a connection to servers without a database: heartbeats, and lookups of unknown
/// callers. Returns the time of the slowest refusal.
async fn slowest_refusal(fixture: &Fixture) -> Result<Duration> {
    let mut requests = Vec::new();
    for server in &fixture.servers {
        let known = Api::new(&server.url(), TOKEN)?;
        let unknown = Api::new(&server.url(), "a token that no server has seen")?;
        requests.push(async move {
            let begun = Instant::now();
            let heartbeat = format!("/assignments/{}/heartbeat", uuid::Uuid::now_v7());
            let nothing = serde_json::json!({});
            let sent = [known.post(&heartbeat, &nothing), unknown.post(&heartbeat, &nothing)];
            let sent = join_all(sent).await;
            for answer in sent {
                let answer = answer?;
                let is_refused = answer.status == 503 && answer.retry_after.is_some_and(|seconds| seconds <= 2);
                ensure!(is_refused, "without a database: {} {}", answer.status, answer.text);
            }
            Ok(begun.elapsed())
        });
    }
    join_all(requests).await.into_iter().try_fold(Duration::ZERO, |slowest, time: Result<_>| Ok(slowest.max(time?)))
}

/// F11: fast restarts, as in a fail-over.
pub(crate) async fn restarts(context: &RunContext) -> Result<ScenarioOutcome> {
    let min_times = scaled(context, 4, 20);
    with_disturbances(context, min_times, Duration::from_secs(2), async |_, _| {
        block_in_place(|| context.postgres.stop(StopMode::Fast))?;
        block_in_place(|| context.postgres.start_again())
    })
    .await
    .map(|(outcome, times, back)| ScenarioOutcome {
        done: format!("PostgreSQL restarted in fast mode {times} times; {back}"),
        ..outcome
    })
}

/// F20: a session of a server is terminated every 100 ms.
pub(crate) async fn sessions(context: &RunContext) -> Result<ScenarioOutcome> {
    let min_times = scaled(context, 80, 1_000);
    with_disturbances(context, min_times, Duration::from_millis(100), async |fixture, _| {
        let one = "select pg_terminate_backend(pid) from pg_stat_activity
            where datname = current_database() and application_name = 'treeline' order by random() limit 1";
        // A session may end by itself before its turn.
        until("a session is terminated", BACK, async || {
            let ended: Option<bool> = sqlx::query_scalar(one).fetch_optional(&fixture.pool).await?;
            Ok(ended != Some(false))
        })
        .await
        .map(drop)
    })
    .await
    .map(|(outcome, times, back)| ScenarioOutcome {
        done: format!("a database session of a server terminated {times} times; {back}"),
        ..outcome
    })
}

/// F44: PostgreSQL becomes read-only while its connections stay, like a demoted primary, and accepts writes again when
/// every server has noticed.
pub(crate) async fn read_only(context: &RunContext) -> Result<ScenarioOutcome> {
    let min_times = scaled(context, 4, 40);
    with_disturbances(context, min_times, Duration::from_millis(1_500), async |fixture, _| {
        context.postgres.set("default_transaction_read_only", "on").await?;
        let http = reqwest::Client::builder().timeout(BACK).tls_certs_only([]).build()?;
        for server in &fixture.servers {
            let url = format!("{}/readyz", server.url());
            until("a server notices", BACK, async || Ok(http.get(&url).send().await?.status() == 503)).await?;
        }
        context.postgres.set("default_transaction_read_only", "off").await
    })
    .await
    .map(|(outcome, times, back)| ScenarioOutcome {
        done: format!("PostgreSQL read-only until every server had noticed, {times} times; {back}"),
        ..outcome
    })
}

/// Kills the backend of one session (`kill -9`): PostgreSQL drops all sessions and recovers.
async fn kill_backend(fixture: &mut Fixture) -> Result<()> {
    let one = "select pid from pg_stat_activity
        where datname = current_database() and application_name = 'treeline' order by random() limit 1";
    // Servers that have just lost PostgreSQL have none for a moment, and one may end by itself before its turn.
    until("a backend is killed", BACK, async || {
        let pid: Option<i32> = sqlx::query_scalar(one).fetch_optional(&fixture.pool).await?;
        Ok(pid.and_then(Pid::from_raw).is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok()))
    })
    .await
    .map(drop)
}

/// Repeats a disturbance during the workload. Returns the number of repetitions, and a text about the recovery time.
async fn with_disturbances<F>(
    context: &RunContext,
    min_times: usize,
    pause: Duration,
    mut run: F,
) -> Result<(ScenarioOutcome, usize, String)>
where
    F: AsyncFnMut(&mut Fixture, usize) -> Result<()>,
{
    let mut fixture = Fixture::start(context, FixtureOptions::default()).await?;
    let workload = fixture.start_workload(Workload::of(context.items, context.seed))?;
    let (mut times, mut slowest) = (0, Duration::ZERO);
    // The disturbances stop before the workload ends: with them it would take too long.
    while times < min_times {
        tokio::time::sleep(pause).await;
        run(&mut fixture, times).await?;
        times += 1;
        slowest = slowest.max(back(&mut fixture).await?);
    }
    let mut restarted = 0;
    for server in &mut fixture.servers {
        ensure!(server.process.try_wait()?.is_none(), "a server ended by itself");
        restarted += server.process.starts - 1;
    }
    let mut outcome = end(context, fixture, workload, String::new()).await?;
    if restarted > 0 {
        outcome.verdict.add_finding(Kind::Scenario, format!("{restarted} servers had to be started again"));
    }
    if slowest > BACK {
        outcome.verdict.add_finding(Kind::Slow, format!("a server needed {slowest:?} to serve again"));
    }
    Ok((outcome, times, format!("no server exited; all served again within {} ms", slowest.as_millis())))
}

/// Time until every server is ready.
async fn back(fixture: &mut Fixture) -> Result<Duration> {
    let begun = Instant::now();
    for server in &mut fixture.servers {
        server.wait_until_ready(BACK * 2).await?;
    }
    Ok(begun.elapsed())
}
