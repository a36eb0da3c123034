//! Site: one complex job as parallel and sequential tasks.
//!
//! Metadata, files and database are created in parallel, the site is set up after its database, and a last task runs
//! after all others (`after`). Tasks are retried without limit; a person repairs an item that no retry can fix, and
//! the tree continues (`manual-retry`). An abandoned site is cancelled, completed, deleted, and created again under the
//! same name: no late task can affect the new one (`fencing`, `dedupe-key`, `cancellation`, `retention`).

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context as _, Result, ensure};
use client::{Client, Document, ItemFilter, Task, Unfinished, Worker};
use domain::{
    Code, ItemState, Job, JobStatus, Outcome,
    api::{
        Assignment, Claim, FailureBody, HeartbeatBody, Inputs, NewItem, NewJob, ReleaseBody, ResultBody, RetryBody,
        WorkError,
    },
    dispatch::retry::Backoff,
    id::Uuid,
    item::MaxFailures,
    job_type::JobTypeSpec,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Barrier;

use crate::scenario::{RunningWorker, complete, job, new_word, only, payload, prepare, print_line, read, refused};

const SITE: &str = "site";
const METADATA: &str = "site.metadata";
const FILES: &str = "site.files";
const DATABASE: &str = "site.database";
const BOOTSTRAP: &str = "site.bootstrap";
const FINISH: &str = "site.finish";
/// Tasks that run in parallel.
const PARALLEL: [&str; 3] = [METADATA, FILES, DATABASE];
const TASKS: [&str; 5] = [METADATA, FILES, DATABASE, BOOTSTRAP, FINISH];

/// Number of failures before saving metadata succeeds.
const STUMBLES: i32 = 2;

/// Result of the example.
#[derive(Debug)]
pub struct Report {
    /// The site whose database was repaired.
    pub repaired: Uuid,
    /// The abandoned site, and the new one of the same name.
    pub given_up: Uuid,
    pub anew: Uuid,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("two sites run: one was repaired on the way, one was given up and made anew")
    }
}

/// The payload of every task.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Site {
    domain: String,
    /// The name of its database; hyphens are not allowed in it.
    database: String,
}

/// The platform of the sites, which records the order of the tasks.
struct Platform {
    /// Opens when all three parallel tasks are running.
    together: Barrier,
    done: Mutex<Vec<(Uuid, String)>>,
}

/// Runs the example.
pub async fn run(client: &Client) -> Result<Report> {
    let for_ever = |name: &str| JobTypeSpec {
        max_failures: Some(MaxFailures::Unlimited),
        backoff: Backoff { min_seconds: 0.05, max_seconds: None, factor: 2.0, jitter: false },
        ..JobTypeSpec::named(name)
    };
    let mut types = vec![JobTypeSpec::named(SITE)];
    types.extend(TASKS.map(for_ever));
    prepare(client, &types).await?;
    let platform = Arc::new(Platform { together: Barrier::new(PARALLEL.len()), done: Mutex::default() });
    let word = new_word();

    let running_worker = builders(client, &platform);
    let repaired = dies_and_is_repaired(client, &platform, &format!("shop-{word}")).await?;
    running_worker.stop().await?;

    let name = format!("blog-{word}");
    let (given_up, late) = is_given_up(client, &name).await?;
    let anew = is_made_anew(client, &platform, &name, given_up, &late).await?;
    Ok(Report { repaired, given_up, anew })
}

fn builders(client: &Client, platform: &Arc<Platform>) -> RunningWorker {
    let platform = Arc::clone(platform);
    let worker = Worker::new(client.clone(), TASKS).concurrency(4).worker_id("builders");
    RunningWorker::start(worker, move |task| {
        let platform = Arc::clone(&platform);
        async move { platform.build(&task).await }
    })
}

/// The tree of a site; its dedupe key makes the name unique.
fn tree(name: &str, database: &str) -> NewJob {
    let site = Site { domain: format!("{name}.example"), database: database.to_owned() };
    let task = |job_type: &str, key: &str, after: &[&str]| NewJob {
        key: Some(key.to_owned()),
        items: vec![NewItem { payload: Some(Document::of(&site)), ..NewItem::default() }],
        sealed: true,
        after: after.iter().map(|&key| key.to_owned()).collect(),
        ..NewJob::of(job_type)
    };
    let finish = task(FINISH, "finish", &["metadata", "files", "create-db", "bootstrap"]);
    NewJob {
        name: Some(site.domain.clone()),
        dedupe_key: Some(site.domain.clone()),
        sealed: true,
        children: vec![
            task(METADATA, "metadata", &[]),
            task(FILES, "files", &[]),
            task(DATABASE, "create-db", &[]),
            task(BOOTSTRAP, "bootstrap", &["create-db"]),
            NewJob { final_stage: true, ..finish },
        ],
        ..NewJob::of(SITE)
    }
}

impl Platform {
    async fn build(&self, task: &Task) -> Result<Document, Unfinished> {
        let site: Site = payload(task)?;
        let job_type = task.item().job_type.as_str();
        if PARALLEL.contains(&job_type) && task.attempt() == 1 {
            // Each waits for the other two, which proves that they run in parallel.
            self.together.wait().await;
        }
        let result = match job_type {
            METADATA if task.attempt() <= STUMBLES => {
                return Err(Unfinished::failed("the registry is busy").kind("busy"));
            }
            DATABASE if site.database.contains('-') => {
                let why = format!("{:?} cannot name a database", site.database);
                return Err(Unfinished::failed(why).kind("bad_name").not_retryable());
            }
            FINISH => finish(task, &site)?,
            _ => Document::of(&json!({"made": job_type})),
        };
        let mut done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.push((task.item().root_id, job_type.to_owned()));
        Ok(result)
    }

    /// Tasks done for a tree, in order.
    fn done(&self, root: Uuid) -> Vec<String> {
        let done = self.done.lock().unwrap_or_else(PoisonError::into_inner);
        done.iter().filter(|(of, _)| *of == root).map(|(_, what)| what.clone()).collect()
    }
}

/// The last task, which gets the results of the others.
fn finish(task: &Task, site: &Site) -> Result<Document, Unfinished> {
    let inputs = task.inputs().into_iter().flatten();
    let ready = inputs.filter(|(_, brought)| matches!(brought, Inputs::Results(results) if results.len() == 1)).count();
    if ready == TASKS.len() - 1 {
        Ok(Document::of(&json!({"domain": site.domain, "state": "running"})))
    } else {
        Err(Unfinished::failed(format!("only {ready} parts are ready")).kind("too_early").not_retryable())
    }
}

/// A database that cannot be created becomes a dead letter. A person corrects its payload, and everything that waited
/// for it continues.
async fn dies_and_is_repaired(client: &Client, platform: &Platform, name: &str) -> Result<Uuid> {
    let root = client.create_job(&tree(name, name)).await?.id;
    print_line(format_args!("{name} is being built: {}", client.page(&["jobs", &root.to_string()])));
    let stuck = complete(client, root).await?;
    ensure!(stuck.tree.outcome == Some(Outcome::Partial), "it cannot be finished: {:?}", stuck.tree);
    for key in ["bootstrap", "finish"] {
        let item = item_of(client, &stuck, key).await?;
        ensure!(item.state == ItemState::Cancelled && item.last_error.is_some(), "{key} did not run: {item:?}");
    }
    let dead = item_of(client, &stuck, "create-db").await?;
    let why = dead.last_error.context("a dead letter says why")?;
    ensure!(dead.state == ItemState::Dead && why.kind.as_deref() == Some("bad_name"), "create-db died: {why:?}");
    print_line(format_args!("create-db died ({}), and what waited for it was called off", why.message));

    let mended = Site { domain: format!("{name}.example"), database: name.replace('-', "_") };
    let retry = RetryBody {
        payload: Some(Document::of(&mended)),
        reason: Some("a hyphen in the name of the database".to_owned()),
        ..RetryBody::default()
    };
    client.retry_item(dead.id, &retry).await?;
    let reopened = client.job(root).await?;
    ensure!(reopened.tree.outcome.is_none() || reopened.completion == 2, "it goes on: {:?}", reopened.tree);
    let done = complete(client, root).await?;
    ensure!(done.tree.outcome == Some(Outcome::Succeeded) && done.completion == 2, "it runs: {:?}", done.tree);
    print_line("a person mended it, and the tree finished");

    let order = platform.done(root);
    let at = |job_type: &str| order.iter().position(|done| done == job_type);
    ensure!(order.len() == TASKS.len(), "each task was done once: {order:?}");
    ensure!(at(DATABASE) < at(BOOTSTRAP) && at(FINISH) == Some(TASKS.len() - 1), "in this order: {order:?}");
    let metadata = item_of(client, &done, "metadata").await?;
    ensure!(metadata.failures == STUMBLES && metadata.attempts == STUMBLES + 1, "tried until it worked: {metadata:?}");
    let mut lines = client.results(root, None).await?;
    let only_line = lines.next().await?.context("a result")?;
    ensure!(lines.next().await?.is_none(), "the result of the tree is that of its last stage alone");
    let result: serde_json::Value = read(&only_line.result)?;
    ensure!(result["state"] == "running", "the site runs: {result}");
    Ok(root)
}

async fn item_of(client: &Client, tree: &Job, key: &str) -> Result<domain::Item> {
    only(client.items(&ItemFilter { job: Some(job(tree, key)?.id), ..ItemFilter::default() }).await?)
}

/// A tree cancelled while three tasks run: it waits for their workers, and refuses their results.
async fn is_given_up(client: &Client, name: &str) -> Result<(Uuid, Assignment)> {
    let request = tree(name, "blog");
    let root = client.create_job(&request).await?.id;
    let taken = refused(client.create_job(&request).await, Code::Duplicate, "the same site a second time")?;
    ensure!(taken.id == Some(root), "the refusal names the one that is there: {taken:?}");

    let assignments = claim(client, &PARALLEL).await?;
    let [first, second, late] = <[Assignment; 3]>::try_from(assignments)
        .map_err(|assignments| anyhow::anyhow!("expected 3 tasks, got {}", assignments.len()))?;
    let cancelled = client.cancel_job(root, Some("the customer went away")).await?;
    ensure!(cancelled.tree.status == JobStatus::Cancelling, "three tasks still run: {}", cancelled.message);
    ensure!(claim(client, &TASKS).await?.is_empty(), "nothing of it is handed out any more");
    refused(client.delete_job(root, None).await, Code::JobNotComplete, "deleting what still runs")?;
    print_line(format_args!("{name} is given up: {}", cancelled.message));

    let heartbeat = client.heartbeat(first.id, &HeartbeatBody::default()).await?;
    ensure!(heartbeat.cancel, "a worker learns it from its next heartbeat");
    let stopped = FailureBody {
        error: WorkError { message: "stopped".to_owned(), kind: None, detail: None },
        retryable: true,
        retry_after_seconds: None,
        cancel_tree: false,
    };
    let ended = client.failure(first.id, &stopped).await?;
    ensure!(ended.item_state == ItemState::Cancelled, "whatever it says, the task is cancelled: {ended:?}");
    client.release(second.id, &ReleaseBody::default()).await?;
    let waiting = client.job(root).await?;
    ensure!(waiting.tree.status == JobStatus::Cancelling, "one is still waited for: {}", waiting.message);

    refused(client.result(late.id, &made_late()).await, Code::JobCancelled, "a result that comes late")?;
    let done = complete(client, root).await?;
    ensure!(done.tree.outcome == Some(Outcome::Cancelled), "nothing runs any more: {:?}", done.tree);
    let item = client.item(late.item.id).await?;
    ensure!(item.state == ItemState::Cancelled && item.result.is_none(), "what came late is not kept: {item:?}");
    print_line("its last worker is gone, and what that brought was refused");
    Ok((root, late))
}

fn made_late() -> ResultBody {
    ResultBody { result: Some(Document::of(&json!({"made": "too late"}))) }
}

async fn claim(client: &Client, types: &[&str]) -> Result<Vec<Assignment>> {
    let claim = Claim {
        worker_id: "somebody-slow".to_owned(),
        types: types.iter().map(|&name| name.to_owned()).collect(),
        item_ids: None,
        max: Some(10),
        wait_seconds: None,
        claim_id: None,
    };
    Ok(client.claim(&claim).await?.assignments)
}

/// The deleted tree frees its name; workers of the old site cannot affect the new one.
async fn is_made_anew(
    client: &Client,
    platform: &Arc<Platform>,
    name: &str,
    given_up: Uuid,
    late: &Assignment,
) -> Result<Uuid> {
    client.delete_job(given_up, Some("never finished")).await?;
    refused(client.job(given_up).await, Code::JobRemoved, "reading what was deleted")?;
    let anew = client.create_job(&tree(name, "blog")).await?.id;
    let running_worker = builders(client, platform);
    let refusal = client.result(late.id, &made_late()).await.err().context("a late task reached a deleted tree")?;
    ensure!(matches!(refusal.status(), Some(404 | 409 | 410)), "a late task is refused: {refusal}");
    let done = complete(client, anew).await?;
    running_worker.stop().await?;
    ensure!(done.tree.outcome == Some(Outcome::Succeeded), "the new one runs: {:?}", done.tree);
    ensure!(platform.done(anew).len() == TASKS.len() && platform.done(given_up).is_empty(), "and was built alone");
    print_line(format_args!("{name} was deleted and made anew: {}", client.page(&["jobs", &anew.to_string()])));
    Ok(anew)
}
