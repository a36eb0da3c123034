//! F46: rate limits, limits by key, and debounced items, while their servers are killed in turn.
//!
//! Limits are checked in the database's own clock, over all attempts. Each debounce key has one sender, whose payloads are
//! numbered: the last one must run, and there must be as many runs as items were accepted.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use client::{Client, Document, Drain, Worker};
use domain::id::Uuid;
use futures::{FutureExt as _, future::try_join_all};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::PgPool;
use tokio::task::JoinHandle;

use super::{Scenario, ScenarioOutcome, drain_timeout, kill_in_turn, scaled};
use crate::{
    findings::Findings,
    fixture::{Fixture, FixtureOptions, RunContext, TOKEN},
    inconclusive::Inconclusive,
    raw::Api,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[("F46", |context| run(context).boxed())];

/// Starts a second of the type `rated`, for each key.
const RATE: usize = 25;
/// Concurrent items of the type `keyed`, for each key.
const ABREAST: usize = 2;
/// Keys of each type, and senders of debounced items.
const KEYS: usize = 4;
/// Time for which a request is repeated until it is answered.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Servers that are asked in turn.
#[derive(Clone)]
struct Servers(Arc<[Api]>);

impl Servers {
    /// Repeats a request with one Idempotency-Key until a server answers it.
    async fn post(&self, path: &str, body: &Value, key: &str) -> Result<Value> {
        let began = Instant::now();
        for api in self.0.iter().cycle().skip(rand::random_range(0..self.0.len())) {
            match api.send_keyed(Method::POST, path, Some(body), Some(key)).await {
                Ok(answer) if answer.status == 429 || answer.status >= 500 => {}
                Ok(answer) => return answer.ok(),
                Err(_) => {}
            }
            if began.elapsed() > TIMEOUT {
                return Err(Inconclusive::Timeout.error(format!("POST {path} got no response")));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        bail!("there is no server")
    }

    /// Creates a sealed job with items, and returns its id.
    async fn job(&self, job_type: &str, items: &[Value], sealed: bool) -> Result<Uuid> {
        let tree = json!({"type": job_type, "sealed": sealed, "items": items});
        let made = self.post("/jobs", &tree, job_type).await?;
        Ok(made["id"].as_str().context("a job without an id")?.parse()?)
    }
}

/// Numbers of one sender of debounced items.
#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    /// Number of the last payload.
    last: u64,
    /// Items of its own, and payloads that were merged.
    accepted: u64,
    merged: u64,
}

async fn run(context: &RunContext) -> Result<ScenarioOutcome> {
    let mut fixture = Fixture::start(context, FixtureOptions { workers: 0, ..FixtureOptions::default() }).await?;
    let apis = fixture.servers.iter().map(|server| Api::new(&server.url(), TOKEN)).collect::<Result<Vec<_>>>()?;
    let types = [
        ("rated", json!({"rate_limit": {"count": RATE, "per_seconds": 1, "key": "/k"}})),
        ("keyed", json!({"concurrency_by": {"key": "/k", "limit": ABREAST}})),
        ("merged", json!({})),
    ];
    for (name, spec) in &types {
        apis[0].put_type(name, spec).await?;
    }
    let servers = Servers(apis.into());
    let items: Vec<Value> = (0..scaled(context, 400, 4_000)).map(|n| json!({"payload": {"k": n % KEYS}})).collect();
    let rated = servers.job("rated", &items, true).await?;
    let keyed = servers.job("keyed", &items, true).await?;
    let merged = servers.job("merged", &[], false).await?;

    let drain = Drain::new();
    let workers = work(&fixture, &types.map(|(name, _)| name), &drain)?;
    let sending = send(servers.clone(), merged, Duration::from_secs(scaled(context, 8, 60)));
    let mut sending: JoinHandle<Result<Vec<Sent>>> = tokio::spawn(sending);
    let times = disturb(&mut fixture, &mut sending, context).await?;
    let sent = sending.await??;

    let drained = until_drained(&fixture, drain_timeout(context)).await;
    drain.begin();
    for worker in workers {
        worker.await??;
    }
    let mut findings = Findings::new(format!(
        "two servers killed in turn, {times} times: {} items limited to {RATE} a second for each of {KEYS} keys, as \
         many limited to {ABREAST} at once for each key, and {} debounced payloads in {} items",
        items.len(),
        sent.iter().map(|sent| sent.last).sum::<u64>(),
        sent.iter().map(|sent| sent.accepted).sum::<u64>(),
    ));
    findings.acknowledged = 2 * items.len() as u64 + sent.iter().map(|sent| sent.accepted).sum::<u64>();
    findings.stuck = u64::from(!drained);
    check_rate(&mut findings, &fixture.pool, rated).await?;
    check_concurrency(&mut findings, &fixture.pool, keyed).await?;
    check_debounce(&mut findings, &fixture.pool, merged, &sent).await?;
    findings.check_tables(&fixture.pool).await;
    fixture.stop().await?;
    let outcome = findings.into_outcome();
    if !outcome.verdict.is_clean() {
        eprintln!("     its files are in {}", fixture.keep_files().display());
    }
    Ok(outcome)
}

/// Kills the servers in turn until the senders have ended, and a minimum of times.
async fn disturb<T>(fixture: &mut Fixture, sending: &mut JoinHandle<T>, context: &RunContext) -> Result<usize> {
    let (min_times, mut times) = (scaled(context, 6, 30), 0);
    while times < min_times || !sending.is_finished() {
        tokio::time::sleep(Duration::from_millis(700)).await;
        kill_in_turn(fixture, times).await?;
        times += 1;
    }
    Ok(times)
}

async fn until_drained(fixture: &Fixture, max_wait: Duration) -> bool {
    let began = Instant::now();
    while fixture.is_drained().await != Some(true) {
        if began.elapsed() > max_wait {
            return false;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    true
}

/// Starts a worker at each server.
pub(super) fn work(fixture: &Fixture, types: &[&str], drain: &Drain) -> Result<Vec<JoinHandle<Result<()>>>> {
    let worker = |server: &crate::fixture::process::Server| {
        let client = Client::new(&server.url(), Some(TOKEN))?.with_retry_timeout(TIMEOUT);
        let worker = Worker::new(client, types.iter().copied()).concurrency(16);
        let drain = drain.clone();
        Ok(tokio::spawn(async move {
            let handler = |_| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Ok(Document::of(&json!({})))
            };
            worker.run_until(drain, handler).await?;
            Ok(())
        }))
    };
    fixture.servers.iter().map(worker).collect()
}

/// Sends debounced items of each key for a time, then seals the job.
async fn send(servers: Servers, job: Uuid, time: Duration) -> Result<Vec<Sent>> {
    let began = Instant::now();
    let path = format!("/jobs/{job}/items");
    let sender = async |key: usize| {
        let mut sent = Sent::default();
        while began.elapsed() < time {
            sent.last += 1;
            let debounce = json!({"key": key.to_string(), "seconds": 1, "max_seconds": 1});
            let item = json!({"payload": {"k": key, "n": sent.last}, "debounce": debounce});
            let added = servers.post(&path, &json!([item]), &format!("{key}-{}", sent.last)).await?;
            let number = |field: &str| added[field].as_u64().context("a number");
            sent.accepted += number("accepted")?;
            sent.merged += number("merged")?;
        }
        anyhow::Ok(sent)
    };
    let sent = try_join_all((0..KEYS).map(sender)).await?;
    servers.post(&format!("/jobs/{job}/seal"), &json!({}), "seal").await?;
    Ok(sent)
}

/// Beginnings and ends of all attempts of a job by key, in microseconds of the database's clock, by beginning.
async fn attempts(pool: &PgPool, job: Uuid) -> Result<BTreeMap<String, Vec<(i64, i64)>>> {
    let rows: Vec<(String, i64, i64)> = sqlx::query_as(
        "select i.payload::json ->> 'k', (extract(epoch from a.started_at) * 1000000)::bigint,
           (extract(epoch from a.ended_at) * 1000000)::bigint
         from (select item_id, job_key, started_at, ended_at from outcome where started_at is not null
               union all select item_id, job_key, started_at, ended_at from attempt) a
         join item i on i.id = a.item_id join job j on j.job_key = a.job_key where j.id = $1 order by a.started_at",
    )
    .bind(job)
    .fetch_all(pool)
    .await?;
    let mut by_key: BTreeMap<String, Vec<(i64, i64)>> = BTreeMap::new();
    for (key, from, to) in rows {
        by_key.entry(key).or_default().push((from, to));
    }
    ensure!(by_key.len() == KEYS, "attempts of {} keys", by_key.len());
    Ok(by_key)
}

/// `rate-limit`: no window of a second has more starts of one key.
async fn check_rate(findings: &mut Findings, pool: &PgPool, job: Uuid) -> Result<()> {
    for (key, attempts) in attempts(pool, job).await? {
        let starts: Vec<i64> = attempts.iter().map(|attempt| attempt.0).collect();
        let most =
            starts.iter().enumerate().map(|(at, from)| starts[at..].partition_point(|start| start - from < 1_000_000));
        let most = most.max().unwrap_or(0);
        let untested = || format!("at most {most} items a second of key {key}, so nothing was tested");
        findings.check_in_time(most > RATE / 2, untested);
        findings.check(most <= RATE, || format!("{most} items of the rate-limited key {key} started within a second"));
    }
    Ok(())
}

/// `concurrency-by-key`: at no moment more attempts of one key are open.
async fn check_concurrency(findings: &mut Findings, pool: &PgPool, job: Uuid) -> Result<()> {
    for (key, attempts) in attempts(pool, job).await? {
        // At the same moment, ends come before beginnings.
        let mut changes: Vec<(i64, i64)> = attempts.iter().flat_map(|&(from, to)| [(from, 1), (to, -1)]).collect();
        changes.sort_unstable();
        let open = changes.iter().scan(0, |open, (_, change)| {
            *open += change;
            Some(*open)
        });
        let most = open.max().unwrap_or(0);
        findings.check(most <= ABREAST as i64, || format!("{most} items of the key {key} were open at once"));
    }
    Ok(())
}

/// `debounce`: as many runs as accepted items, in the order of arrival, the last of which has the last payload.
async fn check_debounce(findings: &mut Findings, pool: &PgPool, job: Uuid, sent: &[Sent]) -> Result<()> {
    let runs: Vec<(i64, i64)> = sqlx::query_as(
        "select (i.payload::json ->> 'k')::bigint, (i.payload::json ->> 'n')::bigint
         from outcome o join item i on i.id = o.item_id join job j on j.job_key = o.job_key
         where j.id = $1 and o.state = 1 order by i.created_at, i.id",
    )
    .bind(job)
    .fetch_all(pool)
    .await?;
    for (key, sent) in sent.iter().enumerate() {
        let ran: Vec<u64> = runs.iter().filter(|run| run.0 == key as i64).map(|run| run.1 as u64).collect();
        findings.check(sent.accepted + sent.merged == sent.last, || format!("{sent:?} of key {key} do not add up"));
        findings.lost += sent.accepted.saturating_sub(ran.len() as u64);
        findings.doubled += (ran.len() as u64).saturating_sub(sent.accepted);
        findings.check(ran.is_sorted_by(|a, b| a < b), || format!("the runs of key {key} went back: {ran:?}"));
        findings.check(ran.last() == Some(&sent.last), || format!("{ran:?} of key {key} end before {}", sent.last));
        let untested = || format!("no payload of key {key} was merged, so nothing was tested");
        findings.check_in_time(sent.merged > 0, untested);
    }
    Ok(())
}
