//! Helpers of the five examples: output, waiting, and workers.
//!
//! They wait for events, such as a job's next version, never for an amount of time. An event that does not happen
//! within [`TIMEOUT`] is an error that names it.

use std::{fmt, time::Duration};

use anyhow::{Context as _, Result, bail};
use client::{Client, Document, Drain, Error, JobFilter, Summary, Task, Unfinished, Worker};
use domain::{Code, Item, Job, JobStatus, Problem, api::Page, id::Uuid, job_type::JobTypeSpec};
use serde::de::DeserializeOwned;
use tokio::{task::JoinHandle, time::timeout};

/// Longest wait for any event of an example.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);
/// Seconds of one long poll.
const POLL_SECONDS: u32 = 20;

/// Prints one line of the output.
pub(crate) fn print_line(line: impl fmt::Display) {
    println!("  {line}");
}

/// A unique word, for keys that must be new.
pub(crate) fn new_word() -> String {
    let id = Uuid::now_v7().simple().to_string();
    id[id.len() - 8..].to_owned()
}

/// Reads a payload or a result.
pub(crate) fn read<T: DeserializeOwned>(document: &Document) -> Result<T> {
    serde_json::from_str(document.text()).with_context(|| format!("not what was sent: {}", document.text()))
}

/// Reads the payload of an item; a payload of another shape is a permanent failure.
pub(crate) fn payload<T: DeserializeOwned>(task: &Task) -> Result<T, Unfinished> {
    read(&task.item().payload)
        .map_err(|error| Unfinished::failed(format!("{error:#}")).kind("bad_payload").not_retryable())
}

/// Creates the job types, and cancels our trees that an interrupted run left behind, so that nobody works on them now.
pub(crate) async fn prepare(client: &Client, types: &[JobTypeSpec]) -> Result<()> {
    for spec in types {
        client.put_job_type(spec).await.with_context(|| format!("making the job type {}", spec.name))?;
    }
    let me = client.me().await?.name;
    for spec in types {
        for status in [JobStatus::Waiting, JobStatus::Running] {
            let mut filter = JobFilter {
                root: Some(true),
                status: Some(status.as_str().to_owned()),
                job_type: Some(spec.name.clone()),
                ..JobFilter::default()
            };
            loop {
                let page = client.jobs(&filter).await?;
                for left in page.data.iter().filter(|job| job.owner.name == me) {
                    cancel_if_open(client, left).await?;
                }
                filter.cursor = page.next_cursor;
                if filter.cursor.is_none() {
                    break;
                }
            }
        }
    }
    Ok(())
}

async fn cancel_if_open(client: &Client, job: &Job) -> Result<()> {
    match client.cancel_job(job.id, Some("left by an interrupted run")).await {
        Err(error) if error.code() != Some(Code::JobCompleted) => Err(error.into()),
        _ => Ok(()),
    }
}

/// Waits until a job with everything below it satisfies a condition.
pub(crate) async fn until(client: &Client, id: Uuid, what: &str, is_reached: impl Fn(&Job) -> bool) -> Result<Job> {
    let waiting = async {
        let mut job = client.job(id).await?;
        while !is_reached(&job) {
            if let Some(newer) = client.newer_job(id, job.version, POLL_SECONDS).await? {
                job = newer;
            }
        }
        Ok(job)
    };
    within(what, waiting).await
}

/// Waits until a tree is complete.
pub(crate) async fn complete(client: &Client, root: Uuid) -> Result<Job> {
    until(client, root, "the tree completes", |job| job.tree.status == JobStatus::Completed).await
}

/// Waits for an event, with a timeout.
pub(crate) async fn within<T>(what: &str, event: impl Future<Output = Result<T>>) -> Result<T> {
    match timeout(TIMEOUT, event).await {
        Ok(outcome) => outcome,
        Err(_) => bail!("expected within {} s that {what}", TIMEOUT.as_secs()),
    }
}

/// The job of a key in a tree.
pub(crate) fn job<'a>(tree: &'a Job, key: &str) -> Result<&'a Job> {
    tree.subtree().into_iter().find(|job| job.key == key).with_context(|| format!("no job {key} in the tree"))
}

/// The only item of a list.
pub(crate) fn only(page: Page<Item>) -> Result<Item> {
    match <[Item; 1]>::try_from(page.data) {
        Ok([item]) => Ok(item),
        Err(items) => bail!("expected one item, found {}", items.len()),
    }
}

/// The problem of a call that must fail with this code.
pub(crate) fn refused<T>(answer: client::Result<T>, code: Code, what: &str) -> Result<Problem> {
    match answer {
        Err(Error::Problem(problem)) if problem.code == code => Ok(*problem),
        Err(other) => bail!("{what}: expected {}, but: {other}", code.as_str()),
        Ok(_) => bail!("{what}: expected {}, but it was done", code.as_str()),
    }
}

/// A running worker. Dropping it kills it at once.
pub(crate) struct RunningWorker {
    drain: Drain,
    work: JoinHandle<client::Result<Summary>>,
}

impl RunningWorker {
    /// Starts a worker.
    pub(crate) fn start<H, F>(worker: Worker, handler: H) -> Self
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Document, Unfinished>> + Send + 'static,
    {
        Self::start_until(worker, Drain::new(), handler)
    }

    /// Starts a worker with a drain that others can begin as well.
    pub(crate) fn start_until<H, F>(worker: Worker, drain: Drain, handler: H) -> Self
    where
        H: Fn(Task) -> F + Send + Sync + 'static,
        F: Future<Output = Result<Document, Unfinished>> + Send + 'static,
    {
        let work = tokio::spawn(worker.run_until(drain.clone(), handler));
        Self { drain, work }
    }

    /// Drains the worker.
    pub(crate) async fn stop(self) -> Result<Summary> {
        self.drain.begin();
        self.wait().await
    }

    /// Waits until the worker has stopped.
    pub(crate) async fn wait(mut self) -> Result<Summary> {
        within("a worker leaves", async { Ok((&mut self.work).await??) }).await
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.drain.force();
    }
}
