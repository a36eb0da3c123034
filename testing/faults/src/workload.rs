//! Submitted work: trees and items of every kind, through the public API. Each call is retried until it is answered,
//! and recorded in the journal.
//!
//! Every item has a dedupe key and every tree an Idempotency-Key, so a call can be repeated after a lost response, and
//! the journal knows each item by name. The work depends only on the seed.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result};
use client::{Client, Document};
use domain::{
    Code, JobType,
    api::{NewItem, NewJob, OnCompleted},
    dispatch::retry::Backoff,
    id::Uuid,
    item::MaxFailures,
    job_type::{Delivery, JobTypeSpec},
};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::SliceRandom as _};

use crate::{
    journal::{CallOutcome, Journal, Request},
    worker::{Payload, STEPS},
};

/// Seconds between heartbeats of every type here; three of them are a lease.
pub(crate) const HEARTBEAT: f64 = 0.7;

/// Job types, all of which the workers process.
pub(crate) const TYPES: [&str; 8] = ["plain", "once", "serial", "capped", "steps", "stage-1", "stage-2", "stage-3"];
/// The cap of the type `capped`.
pub(crate) const CAP: i32 = 5;
/// Maximum number of failures of an item, for every type except `once`.
pub(crate) const MAX_FAILURES: u32 = 8;
/// Maximum number of failures of an item that kills its worker.
pub(crate) const POISON_FAILURES: u32 = 3;
/// Items of one call.
const CHUNK: usize = 50;
/// Time for which a call is retried before it counts as unanswered.
const TIMEOUT: Duration = Duration::from_secs(90);

/// Amount and kind of the submitted work.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub(crate) items: usize,
    pub(crate) seed: u64,
    /// Number of concurrent calls.
    pub(crate) callers: usize,
    /// Maximum rate of all calls per second; `None`: as fast as they are answered.
    pub(crate) calls_a_second: Option<f64>,
    /// Number of items that kill their worker.
    pub(crate) poison: usize,
    /// Callback target of the trees; `None`: the fixture's receiver.
    pub(crate) callback: Option<OnCompleted>,
    /// Number of trees that are cancelled while they run.
    pub(crate) cancels: usize,
    /// Only these types; empty: all.
    pub(crate) only: Vec<&'static str>,
}

impl Workload {
    /// Items of every kind, this many in all.
    pub(crate) fn of(items: usize, seed: u64) -> Self {
        Self { items, seed, callers: 6, calls_a_second: None, poison: 0, callback: None, cancels: 2, only: Vec::new() }
    }
}

/// Creates the job types.
pub(crate) async fn put_types(client: &Client) -> Result<()> {
    for name in TYPES {
        let backoff = Backoff { min_seconds: 0.05, max_seconds: Some(0.5), factor: 2.0, jitter: true };
        let mut spec = JobTypeSpec { backoff, heartbeat_seconds: HEARTBEAT, ..JobTypeSpec::named(name) };
        spec.max_failures = Some(MaxFailures::AtMost(MAX_FAILURES as _));
        match name {
            "once" => (spec.delivery, spec.max_failures) = (Delivery::AtMostOnce, None),
            "capped" => spec.concurrency = Some(CAP),
            "steps" => spec.steps = STEPS.map(str::to_owned).to_vec(),
            _ => {}
        }
        let _: JobType = client.put_job_type(&spec).await?;
    }
    Ok(())
}

/// One call to be made.
enum Call {
    Create { key: String, tree: Box<NewJob> },
    Add { job: Uuid, items: Vec<NewItem> },
}

/// Makes calls, and retries them until they are answered.
struct Caller {
    clients: Vec<Client>,
    journal: Arc<Journal>,
}

/// Submits everything; returns when every call is answered and every job is sealed.
pub(crate) async fn submit(workload: Workload, clients: Vec<Client>, journal: Arc<Journal>) -> Result<()> {
    let caller = Arc::new(Caller { clients, journal });
    let mut rng = StdRng::seed_from_u64(workload.seed);
    let (mut calls, mut open) = (Vec::new(), Vec::new());
    for (name, share) in [("plain", 20), ("once", 15), ("serial", 15), ("capped", 8), ("steps", 10), ("stage-1", 4)] {
        if !workload.only.is_empty() && !workload.only.contains(&name) {
            continue;
        }
        let key = format!("{name}-{}", workload.seed);
        let job = caller.create(&key, &tree(name, workload.callback.clone())).await?;
        open.push(job);
        let items: Vec<NewItem> =
            (0..workload.items * share / 80).map(|n| item(name, workload.seed, n, &mut rng)).collect();
        calls.extend(items.chunks(CHUNK).map(|items| Call::Add { job, items: items.to_vec() }));
    }
    if workload.only.is_empty() || workload.only.contains(&"trees") {
        for at in 0..workload.items / 10 / 10 {
            let key = format!("small-{}-{at}", workload.seed);
            let items: Vec<NewItem> = (0..10).map(|n| item("plain", workload.seed, n, &mut rng)).collect();
            // Some trees have no callback.
            let callback = workload.callback.clone().filter(|_| at % 4 != 3);
            let tree = NewJob { items, sealed: true, ..tree("plain", callback) };
            calls.push(Call::Create { key, tree: Box::new(tree) });
        }
    }
    if workload.poison > 0 {
        let item = |n| {
            let payload = Document::of(&Payload { n: n as u64, fails: 0, poison: true });
            NewItem { payload: Some(payload), dedupe_key: Some(format!("poison-{n}")), ..NewItem::default() }
        };
        let items = (0..workload.poison).map(item).collect();
        let max_failures = Some(MaxFailures::AtMost(POISON_FAILURES as _));
        let tree = NewJob { items, max_failures, sealed: true, ..tree("plain", workload.callback.clone()) };
        calls.push(Call::Create { key: format!("poison-{}", workload.seed), tree: Box::new(tree) });
    }
    calls.shuffle(&mut rng);
    let queue = Arc::new(Mutex::new(VecDeque::from(calls)));
    let pace = workload.calls_a_second.map(|rate| Duration::from_secs_f64(workload.callers as f64 / rate));
    let callers =
        (0..workload.callers).map(|_| tokio::spawn(send_calls(Arc::clone(&caller), Arc::clone(&queue), pace)));
    let cancels = tokio::spawn(cancel_some(Arc::clone(&caller), workload.clone()));
    for done in futures::future::join_all(callers).await {
        done??;
    }
    cancels.await??;
    for job in open {
        caller.until_answered(|client| async move { client.seal(job).await.map(drop) }).await?.context("sealing")?;
    }
    Ok(())
}

/// A tree of one job; `stage-1` feeds two more.
pub(crate) fn tree(name: &str, callback: Option<OnCompleted>) -> NewJob {
    let feed =
        || Some(Document::trusted(r#"{"payload":{"$from":"/payload"},"dedupe_key":{"$from":"/item_id"}}"#.into()));
    let mut tree = NewJob { on_completed: callback, ..NewJob::of(name) };
    if name == "stage-1" {
        let last = NewJob { feed: feed(), final_stage: true, ..NewJob::of("stage-3") };
        tree.children = vec![NewJob { feed: feed(), children: vec![last], ..NewJob::of("stage-2") }];
    }
    tree
}

/// An item. One in twenty fails once, one in a hundred always.
fn item(name: &str, seed: u64, n: usize, rng: &mut StdRng) -> NewItem {
    let fails = match rng.random_range(0..100) {
        0 => 99,
        1..=5 => 1,
        _ => 0,
    };
    let payload = Payload { n: n as u64, fails, poison: false };
    // A key is used within one call only, so that the order in the call is the order of acceptance.
    let serialize_key = (name == "serial").then(|| format!("key-{seed}-{}-{}", n / CHUNK, n % 5));
    NewItem {
        payload: Some(Document::of(&payload)),
        dedupe_key: Some(format!("{name}-{n}")),
        serialize_key,
        ..NewItem::default()
    }
}

async fn send_calls(caller: Arc<Caller>, queue: Arc<Mutex<VecDeque<Call>>>, pace: Option<Duration>) -> Result<()> {
    let mut next = Instant::now();
    loop {
        let call = queue.lock().map_err(|_| anyhow::anyhow!("a caller broke"))?.pop_front();
        match call {
            None => return Ok(()),
            Some(Call::Create { key, tree }) => drop(caller.create(&key, &tree).await?),
            Some(Call::Add { job, items }) => caller.add(job, &items).await?,
        }
        if let Some(pace) = pace {
            next += pace;
            tokio::time::sleep_until(next.into()).await;
        }
    }
}

/// Creates trees and cancels them as soon as they have begun.
async fn cancel_some(caller: Arc<Caller>, workload: Workload) -> Result<()> {
    let mut rng = StdRng::seed_from_u64(workload.seed ^ 0xcace1);
    for at in 0..workload.cancels {
        let items: Vec<NewItem> = (0..100).map(|n| item("plain", workload.seed, n, &mut rng)).collect();
        let tree = NewJob { items, sealed: true, ..tree("plain", workload.callback.clone()) };
        let job = caller.create(&format!("cancelled-{}-{at}", workload.seed), &tree).await?;
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(5) {
            let seen =
                caller.until_answered(|client| async move { client.job(job).await }).await?.context("reading")?;
            if seen.counts.succeeded > 0 {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        caller.cancel(job).await?;
    }
    Ok(())
}

impl Caller {
    /// Creates a tree exactly once, in spite of failures.
    async fn create(&self, key: &str, tree: &NewJob) -> Result<Uuid> {
        let items = tree.items.iter().filter_map(|item| item.dedupe_key.clone()).collect();
        let calls = tree.on_completed.is_some();
        let n = self.journal.invoke(Request::Create { key: key.to_owned(), items, calls })?;
        let tree = &NewJob { name: Some(key.to_owned()), ..tree.clone() };
        let made = self.until_answered(|client| async move { client.create_job_once(tree, key).await }).await?;
        match made {
            Ok(made) => {
                self.journal.record_outcome(n, CallOutcome::Ok, Some(made.job().id))?;
                Ok(made.job().id)
            }
            Err(error) => {
                self.journal.record_outcome(n, outcome(&error), None)?;
                Err(error).context("creating a tree")
            }
        }
    }

    /// Adds items exactly once: if a retry is refused as a duplicate, the first attempt succeeded.
    async fn add(&self, job: Uuid, items: &[NewItem]) -> Result<()> {
        let keys = items.iter().filter_map(|item| item.dedupe_key.clone()).collect();
        let n = self.journal.invoke(Request::Add { job, items: keys })?;
        match self.until_answered(|client| async move { client.add_items(job, items, false).await }).await? {
            Ok(_) => self.journal.record_outcome(n, CallOutcome::Ok, None),
            Err(error) if error.code() == Some(Code::Duplicate) => {
                self.journal.record_outcome(n, CallOutcome::Ok, None)
            }
            Err(error) => {
                self.journal.record_outcome(n, outcome(&error), None)?;
                Err(error).context("adding items")
            }
        }
    }

    async fn cancel(&self, job: Uuid) -> Result<()> {
        let n = self.journal.invoke(Request::Cancel { job })?;
        match self.until_answered(|client| async move { client.cancel_job(job, None).await }).await? {
            Ok(_) => self.journal.record_outcome(n, CallOutcome::Ok, None),
            // The tree was complete before the cancel.
            Err(error) if error.code() == Some(Code::JobCompleted) => {
                self.journal.record_outcome(n, CallOutcome::Fail, None)
            }
            Err(error) => {
                self.journal.record_outcome(n, outcome(&error), None)?;
                Err(error).context("canceling a tree")
            }
        }
    }

    /// Calls one server after the other until one answers; returns permanent errors.
    async fn until_answered<T, F>(&self, call: impl Fn(Client) -> F) -> Result<Result<T, client::Error>>
    where
        F: Future<Output = client::Result<T>>,
    {
        let began = Instant::now();
        let mut tries = rand::random_range(0..self.clients.len());
        loop {
            match call(self.clients[tries % self.clients.len()].clone()).await {
                Err(error) if error.is_transient() && began.elapsed() < TIMEOUT => {
                    tries += 1;
                    tokio::time::sleep(Duration::from_millis(50)).await;
                }
                answer => return Ok(answer),
            }
        }
    }
}

fn outcome(error: &client::Error) -> CallOutcome {
    if error.is_transient() { CallOutcome::Info } else { CallOutcome::Fail }
}
