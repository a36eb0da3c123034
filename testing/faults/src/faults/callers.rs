//! Concurrent callers: identical requests, contested keys, a cancel during additions, one item retried by two people.

mod concurrent_retries; // one item retried by two people

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use client::{Client, CreateOutcome, Document};
use domain::{
    Code,
    api::{NewItem, NewJob},
    id::Uuid,
};
use futures::{FutureExt as _, StreamExt as _, stream};
use tokio::task::JoinHandle;

use super::{Scenario, ScenarioOutcome, end, kill_in_turn, run_with_disturbance, scaled};
use crate::{
    fixture::{Fixture, FixtureOptions, RunContext},
    journal::{CallOutcome, Journal, Request},
    worker::Payload,
    workload,
};

pub(super) const FAULTS: &[(&str, Scenario)] = &[
    ("F37", |context| identical_requests(context).boxed()),
    ("F38", |context| contested_keys(context).boxed()),
    ("F39", |context| cancelled_trees(context).boxed()),
    ("F43", |context| concurrent_retries::run(context).boxed()),
];

fn items(name: &str, n: usize, fails: i32) -> Vec<NewItem> {
    let item = |at| NewItem {
        payload: Some(Document::of(&Payload { n: at as u64, fails, poison: false })),
        dedupe_key: Some(format!("{name}-{at}")),
        serialize_key: name.starts_with("serial").then(|| format!("{name}-{}", at % 3)),
        ..NewItem::default()
    };
    (0..n).map(item).collect()
}

fn keys(items: &[NewItem]) -> Vec<String> {
    items.iter().filter_map(|item| item.dedupe_key.clone()).collect()
}

/// Creates a job that accepts items, at the first server.
pub(crate) async fn open_job(fixture: &Fixture, key: &str) -> Result<Uuid> {
    let call = fixture.journal.invoke(Request::Create { key: key.to_owned(), items: Vec::new(), calls: false })?;
    let job = NewJob { name: Some(key.to_owned()), ..NewJob::of("plain") };
    let job = fixture.client(0)?.create_job_once(&job, key).await?.job().id;
    fixture.journal.record_outcome(call, CallOutcome::Ok, Some(job))?;
    Ok(job)
}

/// Adds items at one server, and records them in the journal.
pub(crate) async fn add_once(fixture: &Fixture, server: usize, job: Uuid, name: &str, n: usize) -> Result<()> {
    let items = items(name, n, 0);
    let call = fixture.journal.invoke(Request::Add { job, items: keys(&items) })?;
    fixture.client(server)?.add_items(job, &items, false).await?;
    fixture.journal.record_outcome(call, CallOutcome::Ok, None)
}

/// Creates a sealed tree of five items. Returns the duration of the call.
pub(crate) async fn small_tree(client: &Client, journal: &Journal, key: &str) -> Result<Duration> {
    let items = items("small", 5, 0);
    let call = journal.invoke(Request::Create { key: key.to_owned(), items: keys(&items), calls: false })?;
    let tree = NewJob { name: Some(key.to_owned()), items, sealed: true, ..NewJob::of("plain") };
    let requested_at = Instant::now();
    let job = client.create_job_once(&tree, key).await?.job().id;
    let took = requested_at.elapsed();
    journal.record_outcome(call, CallOutcome::Ok, Some(job))?;
    Ok(took)
}

/// Calls the servers in turn until one answers.
async fn answered<T, F>(clients: &[Client], call: impl Fn(Client) -> F) -> Result<T, client::Error>
where
    F: Future<Output = client::Result<T>>,
{
    let first = rand::random_range(0..clients.len());
    for at in first..first + 1_000 {
        match call(clients[at % clients.len()].clone()).await {
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(50)).await,
            other => return other,
        }
    }
    call(clients[0].clone()).await
}

/// Sends `times` identical requests concurrently for each of `count` keys, over all servers.
pub(crate) fn identical(fixture: &Fixture, seed: u64, count: usize, times: usize) -> Result<JoinHandle<Result<()>>> {
    let clients: Arc<[Client]> = (0..fixture.servers.len()).map(|at| fixture.client(at)).collect::<Result<_>>()?;
    let journal = Arc::clone(&fixture.journal);
    Ok(tokio::spawn(async move {
        for n in 0..count {
            one_key(&clients, &journal, &format!("same-{seed}-{n}"), times).await?;
        }
        Ok(())
    }))
}

async fn one_key(clients: &Arc<[Client]>, journal: &Journal, key: &str, times: usize) -> Result<()> {
    let items = items("same", 3, 0);
    let call = journal.invoke(Request::Create { key: key.to_owned(), items: keys(&items), calls: false })?;
    let tree = NewJob { name: Some(key.to_owned()), items, sealed: true, ..NewJob::of("plain") };
    let posts = (0..times).map(|_| {
        let (clients, tree, key) = (Arc::clone(clients), tree.clone(), key.to_owned());
        tokio::spawn(async move {
            let (tree, key) = (&tree, key.as_str());
            answered(&clients, |client| async move { client.create_job_once(tree, key).await }).await
        })
    });
    let mut made: Vec<CreateOutcome> = Vec::new();
    for post in futures::future::join_all(posts).await {
        made.push(post??);
    }
    journal.record_outcome(call, CallOutcome::Ok, made.first().map(|made| made.job().id))?;
    let other = NewJob { items: Vec::new(), ..tree };
    let (other, new) = (&other, made.iter().filter(|made| made.is_new()).count());
    let refused = answered(clients, |client| async move { client.create_job_once(other, key).await }).await;
    let reused = refused.is_err_and(|error| error.code() == Some(Code::IdempotencyKeyReused));
    let same = made.windows(2).all(|pair| pair[0].job().id == pair[1].job().id);
    ensure!(
        new <= 1 && same,
        "the key {key}: {new} responses say that they created the tree; all name one tree: {same}"
    );
    ensure!(reused, "the key {key} was accepted with another body");
    Ok(())
}

/// F37: 64 identical requests for each key, while servers are killed.
async fn identical_requests(context: &RunContext) -> Result<ScenarioOutcome> {
    let fixture = Fixture::start(context, FixtureOptions { work_ms: 5, ..FixtureOptions::default() }).await?;
    let count = scaled(context, 20, 2_000);
    let workload = identical(&fixture, context.seed, count, 64)?;
    run_with_disturbance(context, fixture, workload, (2, Duration::from_secs(2)), kill_in_turn, |kills| {
        format!(
            "for each of {count} idempotency keys, 64 identical POST requests at once and one with another body; \
             {kills} servers killed"
        )
    })
    .await
}

/// F38: many producers with the same keys, under a cap and serialize keys.
async fn contested_keys(context: &RunContext) -> Result<ScenarioOutcome> {
    let fixture = Fixture::start(context, FixtureOptions { work_ms: 5, ..FixtureOptions::default() }).await?;
    let clients: Arc<[Client]> = (0..2).map(|at| fixture.client(at)).collect::<Result<_>>()?;
    let journal = Arc::clone(&fixture.journal);
    let (seed, rounds) = (context.seed, scaled(context, 20, 400));
    let workload = tokio::spawn(async move {
        let mut jobs = Vec::new();
        for name in ["capped", "serial"] {
            let key = format!("{name}-{seed}");
            let call = journal.invoke(Request::Create { key: key.clone(), items: Vec::new(), calls: false })?;
            let job = clients[0].create_job_once(&NewJob { name: Some(key.clone()), ..NewJob::of(name) }, &key).await?;
            journal.record_outcome(call, CallOutcome::Ok, Some(job.job().id))?;
            jobs.push((name, job.job().id));
        }
        for round in 0..rounds {
            for &(name, job) in &jobs {
                contest(&clients, &journal, job, &items(&format!("{name}-{round}"), 10, 0)).await?;
            }
        }
        for (_, job) in jobs {
            clients[0].seal(job).await?;
        }
        Ok(())
    });
    let done = format!(
        "64 producers add the same 10 items at once, {} times, with a cap of {} and serialize keys",
        rounds * 2,
        workload::CAP
    );
    end(context, fixture, workload, done).await
}

/// Adds the same items 64 times concurrently: one call succeeds, the others get `duplicate`.
async fn contest(clients: &Arc<[Client]>, journal: &Journal, job: Uuid, items: &[NewItem]) -> Result<()> {
    let call = journal.invoke(Request::Add { job, items: keys(items) })?;
    let adds = (0..64).map(|n| {
        let (client, items) = (clients[n % clients.len()].clone(), items.to_vec());
        tokio::spawn(async move { client.add_items(job, &items, false).await })
    });
    let mut won = 0;
    for add in futures::future::join_all(adds).await {
        match add? {
            Ok(_) => won += 1,
            Err(error) if error.code() == Some(Code::Duplicate) => {}
            Err(error) => return Err(error.into()),
        }
    }
    ensure!(won == 1, "{won} of 64 identical additions were accepted");
    journal.record_outcome(call, CallOutcome::Ok, None)
}

/// F39: trees are cancelled while items are added to them, fed and finished.
async fn cancelled_trees(context: &RunContext) -> Result<ScenarioOutcome> {
    let fixture = Fixture::start(context, FixtureOptions { work_ms: 10, ..FixtureOptions::default() }).await?;
    let clients: Arc<[Client]> = (0..2).map(|at| fixture.client(at)).collect::<Result<_>>()?;
    let journal = Arc::clone(&fixture.journal);
    let (seed, count) = (context.seed, scaled(context, 40, 1_000));
    let workload = tokio::spawn(async move {
        let trees = stream::iter(0..count)
            .map(|n| cancelled_tree(Arc::clone(&clients), Arc::clone(&journal), format!("cancel-{seed}-{n}")));
        let done: Vec<Result<()>> = trees.buffer_unordered(8).collect().await;
        done.into_iter().collect()
    });
    end(
        context,
        fixture,
        workload,
        format!("{count} trees of three dependent jobs, each canceled at a random moment while items are added"),
    )
    .await
}

async fn cancelled_tree(clients: Arc<[Client]>, journal: Arc<Journal>, key: String) -> Result<()> {
    let first = items("first", 20, 0);
    let call = journal.invoke(Request::Create { key: key.clone(), items: keys(&first), calls: false })?;
    let tree = NewJob { name: Some(key.clone()), items: first, ..workload::tree("stage-1", None) };
    let job = clients[0].create_job_once(&tree, &key).await?.job().id;
    journal.record_outcome(call, CallOutcome::Ok, Some(job))?;
    let adding = async {
        for n in 0..4 {
            let more = items(&format!("more-{n}"), 20, 0);
            let call = journal.invoke(Request::Add { job, items: keys(&more) })?;
            match clients[n % 2].add_items(job, &more, false).await {
                Ok(_) => journal.record_outcome(call, CallOutcome::Ok, None)?,
                Err(error) if error.code() == Some(Code::JobCancelled) => {
                    journal.record_outcome(call, CallOutcome::Fail, None)?;
                }
                Err(error) => return Err(anyhow::Error::from(error)),
            }
        }
        Ok(())
    };
    let cancelling = async {
        tokio::time::sleep(Duration::from_millis(rand::random_range(0..400))).await;
        let call = journal.invoke(Request::Cancel { job })?;
        clients[1].cancel_job(job, None).await?;
        journal.record_outcome(call, CallOutcome::Ok, None)
    };
    let (added, cancelled) = tokio::join!(adding, cancelling);
    added?;
    cancelled
}
