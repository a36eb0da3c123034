//! Tests of the checker: servers that are broken on purpose, one promise each, and an intact server.
//!
//! A passing run proves nothing unless the checker can fail. These run first, and an undetected broken server is a
//! finding like any other.

use std::time::Duration;

use anyhow::Result;
use futures::FutureExt as _;

use crate::{
    checker::{self, Kind, Verdict},
    faults::{Scenario, callers, clients::on_this_thread, end, end_broken, kill_in_turn, scaled},
    findings::ScenarioOutcome,
    fixture::{Fixture, FixtureOptions, LEASE, RunContext},
    raw::until,
    workload::Workload,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("S0", |context| intact(context).boxed()),
    ("S1", |context| without_a_lease_check(context).boxed()),
    ("S2", |context| sweeping_by_item(context).boxed()),
    ("S3", |context| answering_first(context).boxed()),
    ("S4", |context| without_a_unique_key(context).boxed()),
    ("S5", |context| offering_again(context).boxed()),
    ("S6", |context| recording_first(context).boxed()),
    ("S7", |context| on_this_thread(context, forgetting_trees)),
];

/// Items that take half a lease, so that the next holder of an item still works when the previous one returns.
fn slow(broken: Option<&str>) -> FixtureOptions {
    let environment = broken.map(|point| ("FAILPOINTS".to_owned(), format!("{point}=return")));
    FixtureOptions {
        work_ms: 1_000,
        slots: 6,
        environment: environment.into_iter().collect(),
        ..FixtureOptions::default()
    }
}

/// A small workload of these types.
fn few(context: &RunContext, only: &[&'static str]) -> Workload {
    Workload { only: only.to_vec(), cancels: 0, ..Workload::of(scaled(context, 400, 1_200), context.seed) }
}

/// Checks that the broken server was detected by the expected kind of finding.
fn noticed(outcome: &ScenarioOutcome, expected: Kind, broken: &str) -> ScenarioOutcome {
    let n = outcome.verdict.count(expected);
    let mut verdict = Verdict::acknowledging(outcome.verdict.acknowledged);
    if n == 0 {
        verdict.add_finding(Kind::NotInTime, format!("the checker did not notice: {broken}"));
    }
    ScenarioOutcome {
        done: format!("deliberately broken servers ({broken}): detected as {n} × {}", expected.label()),
        verdict,
    }
}

/// Pauses every worker past its lease in turn, and kills one from time to time.
async fn with_disturbances(
    context: &RunContext,
    options: FixtureOptions,
    workload: Workload,
    least: usize,
) -> Result<ScenarioOutcome> {
    let is_broken = !options.environment.is_empty();
    let mut fixture = Fixture::start(context, options).await?;
    for at in 0..2 {
        fixture.add_worker(at, &["plain", "once"], true)?;
    }
    let mut workload = fixture.start_workload(workload)?;
    fixture
        .disturb(&mut workload, least, Duration::from_millis(200), |fixture, times| {
            disturb_workers(fixture, times).boxed()
        })
        .await?;
    if is_broken { end_broken(fixture, workload).await } else { end(context, fixture, workload, String::new()).await }
}

async fn disturb_workers(fixture: &mut Fixture, times: usize) -> Result<()> {
    let stubborn = 4 + times % 2;
    fixture.workers[stubborn].pause()?;
    let careful = times % 4;
    fixture.workers[careful].restart().await?;
    tokio::time::sleep(LEASE + Duration::from_millis(700)).await;
    fixture.workers[stubborn].resume()
}

/// S0: the same disturbances and an intact server.
async fn intact(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut outcome = with_disturbances(context, slow(None), few(context, &["plain", "once"]), 3).await?;
    "intact servers under the disturbances of S1, S2, and S5: nothing is detected".clone_into(&mut outcome.done);
    Ok(outcome)
}

/// S1: an ending names its item instead of its assignment.
async fn without_a_lease_check(context: &RunContext) -> Result<ScenarioOutcome> {
    let broken = slow(Some("no_fence:dispatch/without_lease_check"));
    let outcome = with_disturbances(context, broken, few(context, &["plain"]), 3).await?;
    Ok(noticed(
        &outcome,
        Kind::StaleResult,
        "assignments are not checked: a late result ends the item's current assignment",
    ))
}

/// S2: the sweep looks for lost leases, and ends whatever their items are in a little later.
async fn sweeping_by_item(context: &RunContext) -> Result<ScenarioOutcome> {
    // The next holder of an item must still have it when the other server's sweep reaches it.
    let broken = FixtureOptions { work_ms: 1_500, ..slow(Some("sweep_by_item:store/dispatch/leases")) };
    let outcome = with_disturbances(context, broken, few(context, &["plain"]), 5).await?;
    Ok(noticed(&outcome, Kind::EarlyLoss, "expired leases are swept by item instead of by assignment"))
}

/// S3: the server responds before the commit. The failpoint delays the commit for longer than a kill takes, and the
/// server is killed at the response.
async fn answering_first(context: &RunContext) -> Result<ScenarioOutcome> {
    let environment = vec![("FAILPOINTS".to_owned(), "answer_first:enqueue/add=return".to_owned())];
    let mut fixture =
        Fixture::start(context, FixtureOptions { environment, workers: 0, ..FixtureOptions::default() }).await?;
    let job = callers::open_job(&fixture, &format!("hasty-{}", context.seed)).await?;
    let times = 4;
    for n in 0..times {
        callers::add_once(&fixture, n % fixture.servers.len(), job, &format!("hasty-{n}"), 25).await?;
        kill_in_turn(&mut fixture, n).await?;
    }
    let outcome = end_broken(fixture, tokio::spawn(async { Ok(()) })).await?;
    Ok(noticed(&outcome, Kind::Lost, "responses are sent before the commit"))
}

/// S4: Idempotency-Keys are neither looked up nor unique.
async fn without_a_unique_key(context: &RunContext) -> Result<ScenarioOutcome> {
    let environment = vec![("FAILPOINTS".to_owned(), "no_lookup:store/enqueue/idempotency=return".to_owned())];
    let fixture = Fixture::start(context, FixtureOptions { environment, ..FixtureOptions::default() }).await?;
    sqlx::raw_sql("alter table idempotency drop constraint idempotency_pkey").execute(&fixture.pool).await?;
    let workload = callers::identical(&fixture, context.seed, 5, 16)?;
    let outcome = end_broken(fixture, workload).await?;
    Ok(noticed(&outcome, Kind::Doubled, "idempotency keys are not unique"))
}

/// S5: an at_most_once item is offered again after its lease was lost.
async fn offering_again(context: &RunContext) -> Result<ScenarioOutcome> {
    let outcome =
        with_disturbances(context, slow(Some("offer_again:dispatch/failure_outcome")), few(context, &["once"]), 3)
            .await?;
    Ok(noticed(&outcome, Kind::HandedOutTwice, "`at_most_once` items are offered again"))
}

/// S6: a callback is recorded as delivered before it is posted. The failpoint delays the post for longer than it takes
/// to kill both servers.
async fn recording_first(context: &RunContext) -> Result<ScenarioOutcome> {
    let environment = vec![("FAILPOINTS".to_owned(), "record_first:maintenance/callbacks=return".to_owned())];
    let mut fixture = Fixture::start(context, FixtureOptions { environment, ..FixtureOptions::default() }).await?;
    let workload =
        Workload { only: vec!["trees"], cancels: 0, ..Workload::of(scaled(context, 1_000, 3_000), context.seed) };
    let mut workload = fixture.start_workload(workload)?;
    fixture.disturb(&mut workload, 4, Duration::from_secs(1), kill_in_turn).await?;
    let outcome = end_broken(fixture, workload).await?;
    Ok(noticed(&outcome, Kind::CallbackMissing, "callbacks are recorded as delivered before they are sent"))
}

/// S7: a tree is not completed with its last job. On an intact server, nothing would be stuck when all jobs are complete
/// and no callback is pending.
async fn forgetting_trees(context: &RunContext) -> Result<ScenarioOutcome> {
    let environment = vec![("FAILPOINTS".to_owned(), "forget_tree:tree/completion=return".to_owned())];
    let mut fixture = Fixture::start(context, FixtureOptions { environment, ..FixtureOptions::default() }).await?;
    fixture.start_workload(few(context, &["stage-1"]))?.await??;
    let open = "select (select count(*) from job_state where completed_at is null)
        + (select count(*) from delivery where state = 1)";
    until("every job is complete", Duration::from_mins(1), async || {
        let open: i64 = sqlx::query_scalar(open).fetch_one(&fixture.pool).await?;
        Ok(open == 0)
    })
    .await?;
    let verdict = checker::check_records(&mut fixture).await?;
    let outcome = ScenarioOutcome { done: String::new(), verdict };
    Ok(noticed(&outcome, Kind::Stuck, "trees of several jobs are not completed with their last job"))
}
