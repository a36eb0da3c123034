//! F19: servers start and migrate next to a busy one, while a long transaction reads.

use std::{
    process::Stdio,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use futures::future::join_all;
use serde_json::json;
use sqlx::Connection as _;

use crate::{
    raw::{Api, id},
    scene::Scene,
    stage::House,
    told::Told,
};

pub(crate) async fn play(house: &House, rounds: usize) -> Result<Told> {
    let scene = Scene::new(house, "").await?;
    let mut served = scene.serve(&[]).await?;
    served.api.put_type("steady", &json!({})).await?;
    let tables = "select string_agg(format('select count(*) from %I', relname), '; ') from pg_stat_user_tables";
    let tables: String = sqlx::query_scalar(tables).fetch_one(&scene.pool).await?;
    let mut session = scene.session().await?;
    let mut reading = session.begin().await?;
    sqlx::raw_sql(sqlx::AssertSqlSafe(tables)).execute(&mut *reading).await?;

    let (calls, failed, over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let steady = join_all((0..8).map(|_| async {
        while !over.load(Relaxed) {
            let (asked, well) = cycle(&served.api).await;
            calls.fetch_add(asked, Relaxed);
            failed.fetch_add(u64::from(!well), Relaxed);
        }
    }));
    let waiting = "select count(*) from pg_stat_activity where datname = current_database()
        and wait_event_type = 'Lock' and clock_timestamp() - state_change > interval '1 second'";
    let watching = async {
        let mut waits = 0;
        while !over.load(Relaxed) {
            waits += scene.number(waiting).await?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        anyhow::Ok(waits)
    };
    let migrating = async {
        let went = async {
            let mut slowest = Duration::ZERO;
            for _ in 0..rounds {
                let mut other = scene.serve(&[]).await?;
                slowest = slowest.max(migrate(&scene, house).await?);
                let (_, well) = cycle(&other.api).await;
                ensure!(well, "the server that came later does not work");
                other.stop().await?;
            }
            anyhow::Ok(slowest)
        }
        .await;
        over.store(true, Relaxed);
        went
    };
    let (_, waits, slowest) = tokio::join!(steady, watching, migrating);
    let (waits, slowest) = (waits?, slowest?);
    reading.rollback().await?;

    let calls = calls.load(Relaxed);
    let mut told = Told::new(format!(
        "{rounds} servers started, migrated and stopped beside one that answered {calls} calls, a reader's transaction \
         open all the time"
    ));
    told.acknowledged = scene.number("select count(*) from item").await? as u64;
    told.note(format!("slowest migration {} ms", slowest.as_millis()));
    told.zero("calls failed", failed.load(Relaxed));
    told.zero("waits for locks longer than a second", waits as u64);
    let invalid = scene.number("select count(*) from pg_index where not indisvalid").await?;
    told.zero("invalid indexes", invalid as u64);
    told.must(scene.drain(&served.api, &["steady"], Duration::from_secs(20)).await);
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    Ok(told)
}

/// Creates a tree, claims and ends its items, and reads it. Returns the number of calls, and true if all succeeded.
async fn cycle(api: &Api) -> (u64, bool) {
    let went = async {
        let items = json!([{"payload": 1}, {"payload": 2}]);
        let job = api.tree(&json!({"type": "steady", "sealed": true, "items": items})).await?;
        for one in api.claim("steady", 2).await? {
            api.post(&format!("/assignments/{}/result", id(&one)?), &json!({})).await?.ok()?;
        }
        api.get(&format!("/jobs/{job}")).await?.ok().map(drop)
    }
    .await;
    (5, went.is_ok())
}

/// Runs the server's `migrate`. Returns its duration.
async fn migrate(scene: &Scene, house: &House) -> Result<Duration> {
    let begun = Instant::now();
    let migrated = tokio::process::Command::new(&house.server)
        .arg("migrate")
        .env("DATABASE_URL", &scene.url)
        .stdin(Stdio::null())
        .output()
        .await?;
    ensure!(migrated.status.success(), "migrate: {}", String::from_utf8_lossy(&migrated.stderr));
    Ok(begun.elapsed())
}
