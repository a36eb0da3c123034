//! `treeline retry`, `cancel` and `replay`: the id decides if an item or a job is meant. `retry` takes all failed items of a
//! tree, or those of one child job; `cancel` includes everything below the job; `replay` takes a whole tree.
//! `treeline event` sends an item the event that it waits for.

use std::io::IsTerminal as _;

use client::{Client, Events};
use domain::{
    Code, Document, Item, ItemState, Job,
    api::{BulkAction, BulkOperation, BulkState, BulkTarget, NewBulk, ReplayBody, RetryBody},
    dispatch::progress::grouped,
    event_wait::EventBody,
    id::Uuid,
    query::topic::Topic,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::json;

use super::{Exit, input, items, show};

#[derive(Debug, clap::Args)]
pub(super) struct RetryOptions {
    /// ID of an item or a job.
    #[arg(value_parser = super::object_id)]
    id: Uuid,
    /// Item: another payload, as JSON, @FILE, or @- for standard input.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Item: forget the steps it has reached.
    #[arg(long)]
    restart: bool,
    /// Job: states of the items that are retried: dead, expired, cancelled; several with commas; by default dead.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = items::state)]
    state: Vec<ItemState>,
    /// Job: fingerprint of the error group whose items are retried; by default all.
    #[arg(long, value_name = "FINGERPRINT")]
    error: Option<String>,
    /// Job: maximum number of items a second; by default as fast as it goes.
    #[arg(long, value_name = "N")]
    rate: Option<f64>,
    /// Job: only count the items.
    #[arg(long)]
    dry_run: bool,
    /// Required on someone else's work; stored in the audit log.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct CancelOptions {
    /// ID of an item or a job.
    #[arg(value_parser = super::object_id)]
    id: Uuid,
    /// Required on someone else's work; stored in the audit log.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct ReplayOptions {
    /// ID of a complete tree or an item.
    #[arg(value_parser = super::object_id)]
    id: Uuid,
    /// Item: another payload, as JSON, @FILE, or @- for standard input.
    #[arg(long, value_name = "JSON")]
    payload: Option<String>,
    /// Required on someone else's work; stored in the audit log.
    #[arg(long)]
    reason: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct EventOptions {
    /// ID of an item that is waiting_for_event.
    #[arg(value_parser = super::object_id)]
    id: Uuid,
    /// Name of the event.
    name: String,
    /// Data for the next attempt, as JSON, @FILE, or @- for standard input; must fit the form if the item has one.
    #[arg(long, value_name = "JSON")]
    data: Option<String>,
    /// Stored in the audit log.
    #[arg(long)]
    reason: Option<String>,
}

/// Subject of an action.
enum Subject {
    Job(Box<Job>),
    Item(Box<Item>),
}

impl Subject {
    async fn of(client: &Client, id: Uuid) -> client::Result<Self> {
        match client.job(id).await {
            Ok(job) => Ok(Self::Job(Box::new(job))),
            Err(no_job) if no_job.code() == Some(Code::NotFound) => match client.item(id).await {
                Ok(item) => Ok(Self::Item(Box::new(item))),
                Err(no_item) if no_item.code() == Some(Code::NotFound) => Err(no_job),
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        }
    }
}

impl RetryOptions {
    /// First option that applies to jobs only, if one is given.
    fn for_a_job(&self) -> Option<&'static str> {
        let given = [
            ("--dry-run", self.dry_run),
            ("--rate", self.rate.is_some()),
            ("--error", self.error.is_some()),
            ("--state", !self.state.is_empty()),
        ];
        given.into_iter().find_map(|(name, is_given)| is_given.then_some(name))
    }
}

pub(super) async fn retry(client: &Client, options: RetryOptions, json: bool) -> anyhow::Result<Exit> {
    match (Subject::of(client, options.id).await?, options.for_a_job()) {
        (Subject::Item(_), Some(name)) => anyhow::bail!("{name} is for a job, and {} is an item", options.id),
        (Subject::Item(item), None) => {
            let payload = options.payload.as_deref().map(|text| input::document("payload", text)).transpose()?;
            let body = RetryBody { payload, restart: options.restart, reason: options.reason, ..RetryBody::default() };
            item_line(&client.retry_item(item.id, &body).await?, json);
            Ok(Exit::Done)
        }
        (Subject::Job(_), _) if options.payload.is_some() || options.restart => {
            anyhow::bail!("--payload and --restart are for one item, and {} is a job", options.id)
        }
        (Subject::Job(job), _) => retry_job(client, &job, options, json).await,
    }
}

/// Retries items of a job as a bulk operation.
async fn retry_job(client: &Client, job: &Job, options: RetryOptions, json: bool) -> anyhow::Result<Exit> {
    let states = if options.state.is_empty() { vec![ItemState::Dead] } else { options.state };
    let states: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    let place = if job.parent_id.is_none() { "root" } else { "job" };
    let mut filter = json!({ place: job.id, "state": states.join(",") });
    if let Some(error) = &options.error {
        filter["error"] = json!(error);
    }
    let new = NewBulk {
        action: BulkAction::Retry,
        target: BulkTarget::Items,
        filter: Document::of(&filter),
        payload_edit: Vec::new(),
        reason: options.reason,
        rate_per_second: options.rate,
        dry_run: options.dry_run,
    };
    // Opened first, so that no change is missed.
    let events = client.topics(&[Topic::Operations]).await.ok();
    let operation = client.create_bulk(&new).await?;
    let operation = finish(client, operation, events).await?;
    if json {
        show::json(&operation);
    } else {
        show::print_line(&summary(&operation));
    }
    let is_clean = operation.errored == 0 && operation.state != BulkState::Cancelled;
    Ok(if is_clean { Exit::Done } else { Exit::Partial })
}

/// Draws a bulk operation until it has ended.
async fn finish(client: &Client, mut now: BulkOperation, mut events: Option<Events>) -> client::Result<BulkOperation> {
    let bar = if std::io::stderr().is_terminal() { ProgressBar::new(0) } else { ProgressBar::hidden() };
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos} of {len} items") {
        bar.set_style(style);
    }
    loop {
        let handled = now.processed + now.errored + now.skipped.iter().map(|skipped| skipped.count).sum::<i64>();
        bar.set_length(now.total as u64);
        bar.set_position(handled as u64);
        if now.finished_at.is_some() {
            bar.finish_and_clear();
            return Ok(now);
        }
        if !matches!(next(&mut events).await, Some(())) {
            // A server with too many streams, or one that stops, refuses them or ends each of them at once.
            tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            events = client.topics(&[Topic::Operations]).await.ok();
        }
        now = client.bulk(now.id).await?;
    }
}

async fn next(events: &mut Option<Events>) -> Option<()> {
    events.as_mut()?.next_frame().await.ok()?.map(|_| ())
}

fn summary(operation: &BulkOperation) -> String {
    if operation.dry_run {
        return format!("{} items would be retried", grouped(operation.total));
    }
    let mut text = format!("{} of {} items retried", grouped(operation.processed), grouped(operation.total));
    for skipped in &operation.skipped {
        text = format!("{text} · {} skipped: {}", grouped(skipped.count), skipped.reason.replace('_', " "));
    }
    if operation.errored > 0 {
        text = format!("{text} · {} failed at the server", grouped(operation.errored));
    }
    match &operation.stopped_reason {
        Some(reason) => format!("{text} · stopped: {}", show::plain(reason)),
        None => text,
    }
}

pub(super) async fn cancel(client: &Client, options: &CancelOptions, json: bool) -> anyhow::Result<Exit> {
    let reason = options.reason.as_deref();
    match Subject::of(client, options.id).await? {
        Subject::Item(item) => item_line(&client.cancel_item(item.id, reason).await?, json),
        Subject::Job(job) => job_line(client, &client.cancel_job(job.id, reason).await?, json),
    }
    Ok(Exit::Done)
}

pub(super) async fn replay(client: &Client, options: ReplayOptions, json: bool) -> anyhow::Result<Exit> {
    let new = match Subject::of(client, options.id).await? {
        Subject::Item(item) => {
            let payload = options.payload.as_deref().map(|text| input::document("payload", text)).transpose()?;
            let body = ReplayBody { payload, reason: options.reason, ..ReplayBody::default() };
            client.replay_item(item.id, &body).await?
        }
        Subject::Job(_) if options.payload.is_some() => {
            anyhow::bail!("--payload is for one item, and {} is a job", options.id)
        }
        Subject::Job(job) => client.replay_job(job.id, options.reason.as_deref()).await?,
    };
    job_line(client, &new, json);
    Ok(Exit::Done)
}

pub(super) async fn event(client: &Client, options: EventOptions, json: bool) -> anyhow::Result<Exit> {
    let data = options.data.as_deref().map(|text| input::document("data", text)).transpose()?;
    let body = EventBody { name: options.name, data, reason: options.reason };
    item_line(&client.send_event(options.id, &body).await?, json);
    Ok(Exit::Done)
}

fn item_line(item: &Item, json: bool) {
    if json {
        show::json(item);
    } else {
        show::print_line(&format!("{}  {}", item.id, item.state.as_str()));
    }
}

fn job_line(client: &Client, job: &Job, json: bool) {
    if json {
        show::json(job);
    } else {
        show::print_line(&format!("{}  {}", job.id, show::line(job).trim()));
        show::print_line(&client.page(&["jobs", &job.id.to_string()]));
    }
}
