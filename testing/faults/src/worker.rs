//! A worker in a separate process, which can be killed and paused.
//!
//! By default it uses the worker loop of the crate `client`. A stubborn worker ignores its lease: it reports its result
//! however late it is, and records the response.

use std::{path::PathBuf, time::Duration};

use anyhow::Result;
use client::{Client, Document, Task, Unfinished, Worker};
use domain::{
    api::{Assignment, Claim, ResultBody},
    id::Uuid,
};
use serde::{Deserialize, Serialize};

use crate::ledger::{Ledger, WorkEvent};

/// The steps of the type `steps`.
pub(crate) const STEPS: [&str; 3] = ["fetched", "worked", "stored"];

/// Arguments of a worker process; `fixture` writes them.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Arguments {
    #[arg(long)]
    pub(crate) url: String,
    #[arg(long)]
    pub(crate) token: String,
    #[arg(long)]
    pub(crate) ledger: PathBuf,
    #[arg(long)]
    pub(crate) types: Vec<String>,
    #[arg(long)]
    pub(crate) slots: usize,
    /// Approximate duration of an item in milliseconds.
    #[arg(long)]
    pub(crate) work_ms: u64,
    #[arg(long)]
    pub(crate) stubborn: bool,
    #[arg(long)]
    pub(crate) amqp: Option<String>,
}

/// Payload of an item.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Payload {
    pub(crate) n: u64,
    /// Number of failures before it succeeds.
    #[serde(default)]
    pub(crate) fails: i32,
    /// True if it kills its worker.
    #[serde(default)]
    pub(crate) poison: bool,
}

/// Result of an item, with the assignment that produced it.
#[derive(Serialize)]
struct Done {
    by: Uuid,
    n: u64,
}

pub(crate) async fn run(arguments: Arguments) -> Result<()> {
    let client = Client::new(&arguments.url, Some(&arguments.token))?;
    let ledger = Ledger::open(&arguments.ledger)?;
    if arguments.stubborn {
        let client = client.with_retry_timeout(Duration::ZERO);
        let slots = (0..arguments.slots).map(|_| stubborn(client.clone(), ledger.clone(), arguments.clone()));
        futures::future::join_all(slots).await;
        return Ok(());
    }
    let mut worker = Worker::new(client, arguments.types.clone()).concurrency(arguments.slots);
    if let Some(amqp) = &arguments.amqp {
        worker = worker.rabbitmq(amqp)?;
    }
    let work_ms = arguments.work_ms;
    worker.run(move |task| work(task, ledger.clone(), work_ms)).await?;
    Ok(())
}

async fn work(task: Task, ledger: Ledger, work_ms: u64) -> Result<Document, Unfinished> {
    let item = task.item();
    let (id, assignment) = (item.id, task.assignment_id());
    let step = item.step.as_ref().map(|step| step.name.clone());
    let attempt = task.attempt();
    ledger.write(id, assignment, WorkEvent::Start { attempt, job_type: item.job_type.clone(), step: step.clone() });
    // Rows of files have another payload.
    let payload: Payload = serde_json::from_str(item.payload.text()).unwrap_or_default();
    if payload.poison {
        std::process::abort();
    }
    let stopped = || Err(Unfinished::released());
    if item.job_type == "steps" {
        let reached = step.and_then(|name| STEPS.iter().position(|step| *step == name)).map_or(0, |at| at + 1);
        for name in &STEPS[reached..] {
            tokio::select! {
                () = pause(payload.n, work_ms / 3) => {}
                () = task.stopped() => return stopped(),
            }
            match task.step(*name, Some(Document::of(&payload.n))).await {
                Ok(_) => ledger.write(id, assignment, WorkEvent::Step { name: (*name).to_owned() }),
                Err(_) => return stopped(),
            }
        }
    } else {
        tokio::select! {
            () = pause(payload.n, work_ms) => {}
            () = task.stopped() => return stopped(),
        }
    }
    let well = item.failures >= payload.fails;
    ledger.write(id, assignment, WorkEvent::Finish { well });
    if well {
        Ok(Document::of(&Done { by: assignment, n: payload.n }))
    } else {
        Err(Unfinished::failed("asked to fail").kind("asked"))
    }
}

/// Pauses for 0.5 to 1.5 times the duration.
async fn pause(n: u64, work_ms: u64) {
    let thousandths = 500 + n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000;
    tokio::time::sleep(Duration::from_micros(work_ms * thousandths)).await;
}

/// Claims one item, works, and reports the result, in an endless loop.
async fn stubborn(client: Client, ledger: Ledger, arguments: Arguments) {
    loop {
        let claim = Claim {
            worker_id: format!("stubborn-{}", std::process::id()),
            types: arguments.types.clone(),
            item_ids: None,
            max: Some(1),
            wait_seconds: Some(1),
            claim_id: Some(Uuid::now_v7()),
        };
        // Repeat the same claim until it is answered, so that no assignment is lost with a response.
        if let Ok(claimed) = until_answered(async || client.claim(&claim).await).await {
            for assignment in claimed.assignments {
                hand_in(&client, &ledger, &assignment, arguments.work_ms).await;
            }
        }
    }
}

/// Retries ten times per second, because leases are short here and not renewed.
async fn until_answered<T>(call: impl AsyncFn() -> client::Result<T>) -> client::Result<T> {
    loop {
        match call().await {
            Err(error) if error.is_transient() => tokio::time::sleep(Duration::from_millis(100)).await,
            answer => return answer,
        }
    }
}

async fn hand_in(client: &Client, ledger: &Ledger, assignment: &Assignment, work_ms: u64) {
    let item = &assignment.item;
    let step = item.step.as_ref().map(|step| step.name.clone());
    let event = WorkEvent::Start { attempt: assignment.attempt, job_type: item.job_type.clone(), step };
    ledger.write(item.id, assignment.id, event);
    let payload: Payload = serde_json::from_str(item.payload.text()).unwrap_or_default();
    pause(payload.n, work_ms).await;
    ledger.write(item.id, assignment.id, WorkEvent::Finish { well: true });
    let body = ResultBody { result: Some(Document::of(&Done { by: assignment.id, n: payload.n })) };
    let status = match until_answered(async || client.result(assignment.id, &body).await).await {
        Ok(_) => 200,
        Err(error) => error.status().unwrap_or(0),
    };
    ledger.write(item.id, assignment.id, WorkEvent::Answer { status, well: true });
}
