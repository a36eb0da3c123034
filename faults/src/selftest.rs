//! The judge, judged: servers that are broken on purpose, one promise each, and the same without.
//!
//! A green run is worth nothing while no one has seen it red. These are played first, and a broken server that is not
//! noticed is a fault of the run like any other.

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

/// Work that takes half a lease, so that whoever holds an item after another still does when he comes back.
fn slow(broken: Option<&str>) -> Setting {
    let environment = broken.map(|point| ("FAILPOINTS".to_owned(), format!("{point}=return")));
    Setting { work_ms: 1_000, slots: 6, environment: environment.into_iter().collect(), ..Setting::default() }
}

/// What is offered here: little, and of these types.
fn few(house: &House, only: &[&'static str]) -> Load {
    Load { only: only.to_vec(), cancels: 0, ..Load::of(scaled(house, 400, 1_200), house.seed) }
}

/// The broken server must have been noticed, by what it broke.
fn noticed(played: &Played, expected: Kind, broken: &str) -> Played {
    let n = played.verdict.count(expected);
    let mut verdict = Verdict::acknowledging(played.verdict.acknowledged);
    if n == 0 {
        verdict.find(Kind::Story, format!("the judge did not notice: {broken}"));
    }
    Played { done: format!("servers broken on purpose ({broken}): noticed as {n} × {}", expected.words()), verdict }
}

/// Holds every worker past its lease in turn, and kills one now and then.
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
    // Whoever holds an item next must still do so when the other server's sweep gets to it.
    let broken = Setting { work_ms: 1_500, ..slow(Some("sweep_by_item:store/leases")) };
    let played = disturbed(house, broken, few(house, &["plain"]), 5).await?;
    Ok(noticed(&played, Kind::EarlyLoss, "lost leases are swept by item"))
}

/// S3: who adds is answered before the commit. The failpoint holds that moment open for longer than a kill takes, and
/// the kill comes with the answer.
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

/// S5: what may be handed out once is offered again after its lease was lost.
async fn offering_again(house: &House) -> Result<Played> {
    let played = disturbed(house, slow(Some("offer_again:jobs/fate")), few(house, &["once"]), 3).await?;
    Ok(noticed(&played, Kind::Twice, "at_most_once offered again"))
}

/// S6: a callback is recorded as delivered before it is posted. The failpoint holds that moment open for longer than
/// it takes until both servers were killed.
async fn recording_first(house: &House) -> Result<Played> {
    let environment = vec![("FAILPOINTS".to_owned(), "record_first:duties/callbacks=return".to_owned())];
    let mut stage = Stage::set(house, Setting { environment, ..Setting::default() }).await?;
    let load = Load { only: vec!["trees"], cancels: 0, ..Load::of(scaled(house, 1_000, 3_000), house.seed) };
    let mut load = stage.load(load)?;
    stage.disturb(&mut load, 4, Duration::from_secs(1), kill_in_turn).await?;
    let played = end_broken(stage, load).await?;
    Ok(noticed(&played, Kind::Untold, "callbacks recorded as delivered before they are posted"))
}
