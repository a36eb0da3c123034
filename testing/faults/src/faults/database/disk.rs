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
    findings::Findings,
    fixture::RunContext,
    inconclusive::Inconclusive,
    proxy_fixture::ProxyFixture,
    raw::{id, until},
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
        let stderr = String::from_utf8_lossy(&mounted.stderr).into_owned();
        ensure!(mounted.status.success(), "a small disk cannot be mounted here (it needs root): {stderr}");
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

pub(crate) async fn run(context: &RunContext, length: Duration) -> Result<Findings> {
    let place = std::env::temp_dir().join(format!("treeline-disk-{:08x}", rand::random::<u32>()));
    let disk = SmallDisk::mount(&place).context(Inconclusive::Setup)?;
    let tablespace = format!("small_{:08x}", rand::random::<u32>());
    let mut admin = PgConnection::connect(&context.postgres.url("postgres")).await?;
    let folder = disk.0.join("data");
    Programs::newest()?.private_folder(&folder)?;
    let make = sqlx::AssertSqlSafe(format!("create tablespace {tablespace} location '{}'", folder.display()));
    sqlx::raw_sql(make).execute(&mut admin).await.context("making a tablespace")?;
    let findings = run_on_disk(context, &tablespace, &disk, length).await;
    // Drop the tablespace before its disk, also after an error.
    let databases =
        "select datname::text from pg_database d join pg_tablespace t on t.oid = d.dattablespace where spcname = $1";
    let databases: Vec<String> = sqlx::query_scalar(databases).bind(&tablespace).fetch_all(&mut admin).await?;
    for name in databases {
        let drop = sqlx::AssertSqlSafe(format!("drop database {name} with (force)"));
        sqlx::raw_sql(drop).execute(&mut admin).await?;
    }
    sqlx::raw_sql(sqlx::AssertSqlSafe(format!("drop tablespace {tablespace}"))).execute(&mut admin).await?;
    findings
}

async fn run_on_disk(context: &RunContext, tablespace: &str, disk: &SmallDisk, length: Duration) -> Result<Findings> {
    let proxy_fixture = ProxyFixture::new(context, &format!("tablespace {tablespace}")).await?;
    let mut running = proxy_fixture.serve(&[]).await?;
    let api = &running.api;
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
            let assignments = api.post("/assignments", &claim).await?.json()["assignments"].clone();
            for one in assignments.as_array().into_iter().flatten() {
                let answer =
                    api.post(&format!("/assignments/{}/result", id(one)?), &json!({"result": payload})).await?;
                ended += u64::from(answer.status == 200);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        anyhow::Ok(ended)
    };
    let (freed, added, ended) = tokio::try_join!(filling, adding, working)?;

    let mut findings = Findings::new(format!("disk full for {} s under load", (length / 2).as_secs()));
    let refused: u64 = added.iter().map(|one| one.1).sum();
    findings.check_in_time(refused > 0, || "no request was rejected: the disk was never full".to_owned());
    findings.note(format!("{refused} requests rejected with 5xx, {ended} results accepted"));
    for (_, _, other) in &added {
        findings.check(other.is_empty(), || format!("{} other responses, such as {}", other.len(), other[0]));
    }
    let made: Vec<_> = added.into_iter().flat_map(|one| one.0).collect();
    let back = made.iter().map(|one| one.1).filter(|at| *at > freed).min();
    if let Some(at) = back {
        findings.note(format!("works again {} ms after space was freed", at.duration_since(freed).as_millis()));
    } else {
        let works = until("it works again", Duration::from_secs(10), async || {
            Ok(api.post("/jobs", &json!({"type": "full", "sealed": true})).await?.status == 201)
        });
        findings.expect_ok(works.await);
    }
    findings.acknowledged = 10 * made.len() as u64;
    findings.expect_ok(proxy_fixture.drain(api, &["full"], Duration::from_secs(40)).await);
    for (job, _) in &made {
        let job = api.get(&format!("/jobs/{job}")).await?.json();
        findings.lost += 10 - job["counts"]["succeeded"].as_u64().unwrap_or(0).min(10);
        findings.stuck += u64::from(job["status"] != "completed");
    }
    let results = proxy_fixture.number("select count(*) from outcome where state = 1").await?;
    findings.check(results >= ended as i64, || format!("{ended} results were accepted, {results} are stored"));
    findings.check_integrity(&proxy_fixture, &[&running]).await?;
    running.stop().await?;
    proxy_fixture.pool.close().await;
    Ok(findings)
}
