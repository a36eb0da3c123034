//! Tests of the checker: servers that are broken on purpose, one promise each, and an intact server.
//!
//! A passing run proves nothing unless the checker can fail. These run first, and an undetected broken server is a
//! finding like any other.

use std::time::Duration;

use anyhow::Result;
use futures::FutureExt as _;

use crate::{
    checker::{Kind, Verdict},
    faults::{Played, Story, callers, end, end_broken, kill_in_turn, scaled},
    load::Load,
    stage::{House, LEASE, Setting, Stage},
};

pub(crate) const FAULTS: &[(&str, Story)] = &[
    ("S0", |house| intact(house).boxed()),
    ("S1", |house| without_a_fence(house).boxed()),
    ("S2", |house| sweeping_by_item(house).boxed()),
    ("S3", |house| answering_first(house).boxed()),
    ("S4", |house| without_a_unique_key(house).boxed()),
    ("S5", |house| offering_again(house).boxed()),
    ("S6", |house| recording_first(house).boxed()),
];

/// Items that take half a lease, so that the next holder of an item still works when the previous one returns.
fn slow(broken: Option<&str>) -> Setting {
    let environment = broken.map(|point| ("FAILPOINTS".to_owned(), format!("{point}=return")));
    Setting { work_ms: 1_000, slots: 6, environment: environment.into_iter().collect(), ..Setting::default() }
}

/// A small workload of these types.
fn few(house: &House, only: &[&'static str]) -> Load {
    Load { only: only.to_vec(), cancels: 0, ..Load::of(scaled(house, 400, 1_200), house.seed) }
}

/// Checks that the broken server was detected by the expected kind of finding.
fn noticed(played: &Played, expected: Kind, broken: &str) -> Played {
    let n = played.verdict.count(expected);
    let mut verdict = Verdict::acknowledging(played.verdict.acknowledged);
    if n == 0 {
        verdict.find(Kind::Story, format!("the judge did not notice: {broken}"));
    }
    Played { done: format!("servers broken on purpose ({broken}): noticed as {n} × {}", expected.words()), verdict }
}

/// Pauses every worker past its lease in turn, and kills one from time to time.
async fn disturbed(house: &House, setting: Setting, load: Load, least: usize) -> Result<Played> {
    let is_broken = !setting.environment.is_empty();
    let mut stage = Stage::set(house, setting).await?;
    for at in 0..2 {
        stage.add_worker(at, &["plain", "once"], true)?;
    }
    let mut load = stage.load(load)?;
    stage.disturb(&mut load, least, Duration::from_millis(200), |stage, times| rough(stage, times).boxed()).await?;
    if is_broken { end_broken(stage, load).await } else { end(house, stage, load, String::new()).await }
}

async fn rough(stage: &mut Stage, times: usize) -> Result<()> {
    let stubborn = 4 + times % 2;
    stage.workers[stubborn].pause()?;
    let careful = times % 4;
    stage.workers[careful].again().await?;
    tokio::time::sleep(LEASE + Duration::from_millis(700)).await;
    stage.workers[stubborn].resume()
}

/// S0: the same disturbances and an intact server.
async fn intact(house: &House) -> Result<Played> {
    let mut played = disturbed(house, slow(None), few(house, &["plain", "once"]), 3).await?;
    "intact servers under the disturbances of S1, S2 and S5: nothing is noticed".clone_into(&mut played.done);
    Ok(played)
}

/// S1: an ending names its item instead of its assignment.
async fn without_a_fence(house: &House) -> Result<Played> {
    let broken = slow(Some("no_fence:jobs/unfenced"));
    let played = disturbed(house, broken, few(house, &["plain"]), 3).await?;
    Ok(noticed(&played, Kind::Fence, "no fence: late results end whatever assignment the item is in"))
}

/// S2: the sweep looks for lost leases, and ends whatever their items are in a little later.
async fn sweeping_by_item(house: &House) -> Result<Played> {
    // The next holder of an item must still have it when the other server's sweep reaches it.
    let broken = Setting { work_ms: 1_500, ..slow(Some("sweep_by_item:store/leases")) };
    let played = disturbed(house, broken, few(house, &["plain"]), 5).await?;
    Ok(noticed(&played, Kind::EarlyLoss, "lost leases are swept by item"))
}

/// S3: the server responds before the commit. The failpoint delays the commit for longer than a kill takes, and the
/// server is killed at the response.
async fn answering_first(house: &House) -> Result<Played> {
    let environment = vec![("FAILPOINTS".to_owned(), "answer_first:jobs/add=return".to_owned())];
    let mut stage = Stage::set(house, Setting { environment, workers: 0, ..Setting::default() }).await?;
    let job = callers::open_job(&stage, &format!("hasty-{}", house.seed)).await?;
    let times = 4;
    for n in 0..times {
        callers::add_once(&stage, n % stage.servers.len(), job, &format!("hasty-{n}"), 25).await?;
        kill_in_turn(&mut stage, n).await?;
    }
    let played = end_broken(stage, tokio::spawn(async { Ok(()) })).await?;
    Ok(noticed(&played, Kind::Lost, "answers before the commit"))
}

/// S4: Idempotency-Keys are neither looked up nor unique.
async fn without_a_unique_key(house: &House) -> Result<Played> {
    let environment = vec![("FAILPOINTS".to_owned(), "no_lookup:store/idempotency=return".to_owned())];
    let stage = Stage::set(house, Setting { environment, ..Setting::default() }).await?;
    sqlx::raw_sql("alter table idempotency drop constraint idempotency_pkey").execute(&stage.pool).await?;
    let load = callers::identical(&stage, house.seed, 5, 16)?;
    let played = end_broken(stage, load).await?;
    Ok(noticed(&played, Kind::Doubled, "Idempotency-Keys that are not unique"))
}

/// S5: an at_most_once item is offered again after its lease was lost.
async fn offering_again(house: &House) -> Result<Played> {
    let played = disturbed(house, slow(Some("offer_again:jobs/fate")), few(house, &["once"]), 3).await?;
    Ok(noticed(&played, Kind::Twice, "at_most_once offered again"))
}

/// S6: a callback is recorded as delivered before it is posted. The failpoint delays the post for longer than it takes
/// to kill both servers.
async fn recording_first(house: &House) -> Result<Played> {
    let environment = vec![("FAILPOINTS".to_owned(), "record_first:duties/callbacks=return".to_owned())];
    let mut stage = Stage::set(house, Setting { environment, ..Setting::default() }).await?;
    let load = Load { only: vec!["trees"], cancels: 0, ..Load::of(scaled(house, 1_000, 3_000), house.seed) };
    let mut load = stage.load(load)?;
    stage.disturb(&mut load, 4, Duration::from_secs(1), kill_in_turn).await?;
    let played = end_broken(stage, load).await?;
    Ok(noticed(&played, Kind::Untold, "callbacks recorded as delivered before they are posted"))
}
