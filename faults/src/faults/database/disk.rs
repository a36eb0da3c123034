//! F17a: the disk of the database is full. Acknowledged work stays, the rest is refused, and work continues by itself
//! when there is space again.

use std::{
    fs::File,
    io::Write as _,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, ensure};
use futures::future::try_join_all;
use serde_json::{Value, json};
use server::postgres::programs::Programs;
use sqlx::{Connection as _, PgConnection};

use crate::{
    raw::{id, until},
    scene::Scene,
    stage::House,
    told::Told,
};

/// Size for a new database and some work.
const SIZE: &str = "size=64m,mode=700";

/// A small file system in memory, unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: &Path) -> Result<Self> {
        let programs = Programs::newest()?;
        std::fs::create_dir(at)?;
        let owner = programs.account.map_or_else(String::new, |who| format!(",uid={},gid={}", who.uid, who.gid));
        let mounted =
            Command::new("mount").args(["-t", "tmpfs", "-o", &format!("{SIZE}{owner}"), "tmpfs"]).arg(at).output()?;
        let said = String::from_utf8_lossy(&mounted.stderr).into_owned();
        ensure!(mounted.status.success(), "a small disk cannot be mounted here (it needs root): {said}");
        Ok(Self(at.to_owned()))
    }

    /// Fills the disk.
    fn fill(&self) -> Result<()> {
        let mut file = File::create(self.0.join("ballast"))?;
        for size in [1 << 20, 4096, 512] {
            while file.write_all(&vec![1; size]).is_ok() {}
        }
        Ok(())
    }

    fn free(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.0.join("ballast"))?)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
        let _ = std::fs::remove_dir(&self.0);
    }
}

pub(crate) async fn play(house: &House, length: Duration) -> Result<Told> {
    let disk = SmallDisk::mount(&std::env::temp_dir().join(format!("treeline-disk-{:08x}", rand::random::<u32>())))?;
    let space = format!("small_{:08x}", rand::random::<u32>());
    let mut admin = PgConnection::connect(&house.postgres.url("postgres")).await?;
    let folder = disk.0.join("data");
    Programs::newest()?.private_folder(&folder)?;
    let make = sqlx::AssertSqlSafe(format!("create tablespace {space} location '{}'", folder.display()));
    sqlx::raw_sql(make).execute(&mut admin).await.context("making a tablespace")?;
    let told = on(house, &space, &disk, length).await;
    // Drop the tablespace before its disk, also after an error.
    let databases =
        "select datname::text from pg_database d join pg_tablespace t on t.oid = d.dattablespace where spcname = $1";
    let databases: Vec<String> = sqlx::query_scalar(databases).bind(&space).fetch_all(&mut admin).await?;
    for name in databases {
        let drop = sqlx::AssertSqlSafe(format!("drop database {name} with (force)"));
        sqlx::raw_sql(drop).execute(&mut admin).await?;
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("drop tablespace {space}"))).execute(&mut admin).await?;
    told
}

async fn on(house: &House, space: &str, disk: &SmallDisk, length: Duration) -> Result<Told> {
    let scene = Scene::new(house, &format!("tablespace {space}")).await?;
    let mut served = scene.serve(&[]).await?;
    let api = &served.api;
    api.put_type("full", &json!({"heartbeat_seconds": 5, "max_failures": "unlimited"})).await?;

    let begun = Instant::now();
    let filling = async {
        tokio::time::sleep(length / 4).await;
        disk.fill()?;
        tokio::time::sleep(length / 2).await;
        disk.free()?;
        anyhow::Ok(Instant::now())
    };
    let payload = "x".repeat(1_000);
    let adding = try_join_all((0..3).map(|_| async {
        let (mut made, mut refused, mut other) = (Vec::new(), 0_u64, Vec::new());
        while begun.elapsed() < length {
            let items: Vec<Value> = (0..10).map(|_| json!({"payload": payload})).collect();
            let answer = api.post("/jobs", &json!({"type": "full", "sealed": true, "items": items})).await?;
            match answer.status {
                201 => made.push((id(&answer.json())?.to_owned(), Instant::now())),
                500..=599 => refused += 1,
                status => other.push(format!("{status}: {}", answer.text)),
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        anyhow::Ok((made, refused, other))
    }));
    let working = async {
        let mut ended = 0;
        while begun.elapsed() < length {
            let claim = json!({"worker_id": "w", "types": ["full"], "max": 10});
            let held = api.post("/assignments", &claim).await?.json()["assignments"].clone();
            for one in held.as_array().into_iter().flatten() {
                let answer =
                    api.post(&format!("/assignments/{}/result", id(one)?), &json!({"result": payload})).await?;
                ended += u64::from(answer.status == 200);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(ended)
    };
    let (freed, added, ended) = tokio::try_join!(filling, adding, working)?;

    let mut told = Told::new(format!("the disk full for {} s under load", (length / 2).as_secs()));
    let refused: u64 = added.iter().map(|one| one.1).sum();
    told.check(refused > 0, || "nothing was refused: the disk was never full".to_owned());
    told.note(format!("{refused} requests refused with 5xx, {ended} results taken"));
    for (_, _, other) in &added {
        told.check(other.is_empty(), || format!("{} other answers, such as {}", other.len(), other[0]));
    }
    let made: Vec<_> = added.into_iter().flat_map(|one| one.0).collect();
    let back = made.iter().map(|one| one.1).filter(|at| *at > freed).min();
    if let Some(at) = back {
        told.note(format!("works again {} ms after there is room", at.duration_since(freed).as_millis()));
    } else {
        let works = until("it works again", Duration::from_secs(10), async || {
            Ok(api.post("/jobs", &json!({"type": "full", "sealed": true})).await?.status == 201)
        });
        told.must(works.await);
    }
    told.acknowledged = 10 * made.len() as u64;
    told.must(scene.drain(api, &["full"], Duration::from_secs(40)).await);
    for (job, _) in &made {
        let job = api.get(&format!("/jobs/{job}")).await?.json();
        told.lost += 10 - job["counts"]["succeeded"].as_u64().unwrap_or(0).min(10);
        told.stuck += u64::from(job["status"] != "completed");
    }
    let results = scene.number("select count(*) from outcome where state = 1").await?;
    told.check(results >= ended as i64, || format!("{ended} results were taken, {results} are there"));
    told.whole(&scene, &[&served]).await?;
    served.stop().await?;
    scene.pool.close().await;
    Ok(told)
}
