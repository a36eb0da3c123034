//! `treeline items` and `treeline item`: lists items, and shows one with its attempts.

use std::fmt::Write as _;

use client::{Client, ItemFilter};
use domain::{
    Item, ItemState,
    id::Uuid,
    item::{Attempt, WaitingFor},
};
use serde::Serialize;

use super::{Exit, jobs::PAGE, show};

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    /// Items of this job.
    #[arg(long, value_name = "ID", value_parser = super::object_id)]
    job: Option<Uuid>,
    /// Items of this tree.
    #[arg(long, value_name = "ID", value_parser = super::object_id)]
    root: Option<Uuid>,
    /// Items of this job type.
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// available, running, retryable, scheduled, blocked, waiting_for_event, succeeded, dead, cancelled, expired; several
    /// with commas.
    #[arg(long, value_name = "STATE", value_delimiter = ',', value_parser = super::items::state)]
    state: Vec<ItemState>,
    /// Fingerprint of an error group.
    #[arg(long, value_name = "FINGERPRINT")]
    error: Option<String>,
    /// Line of the record in the uploaded file.
    #[arg(long, value_name = "N")]
    row: Option<i64>,
    /// Text in payload or error; needs --job, --root, or states other than succeeded.
    #[arg(long)]
    q: Option<String>,
    /// Worker that holds the item, or that ended it.
    #[arg(long, value_name = "NAME")]
    worker: Option<String>,
    #[arg(long, value_name = "KEY")]
    dedupe_key: Option<String>,
    #[arg(long, value_name = "KEY")]
    serialize_key: Option<String>,
    /// Last step that the item has reached.
    #[arg(long, value_name = "STEP")]
    step: Option<String>,
    /// Maximum number.
    #[arg(long, default_value_t = 50, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

pub(super) fn state(text: &str) -> Result<ItemState, String> {
    let is = |state: &ItemState| state.as_str() == text;
    ItemState::ALL.into_iter().find(is).ok_or_else(|| {
        let states: Vec<_> = ItemState::ALL.iter().map(|state| state.as_str()).collect();
        format!("expected one of {}", states.join(", "))
    })
}

pub(super) async fn list(client: &Client, options: Options, json: bool) -> anyhow::Result<Exit> {
    let mut remaining = options.limit;
    let mut filter = ItemFilter {
        job: options.job,
        root: options.root,
        job_type: options.job_type,
        states: options.state,
        error: options.error,
        row: options.row,
        q: options.q,
        worker: options.worker,
        dedupe_key: options.dedupe_key,
        serialize_key: options.serialize_key,
        step: options.step,
        ..ItemFilter::default()
    };
    let mut items = Vec::new();
    while remaining > 0 {
        filter.limit = Some(remaining.min(PAGE));
        let mut page = client.items(&filter).await?;
        remaining = remaining.saturating_sub(page.data.len() as u32);
        if json {
            page.data.iter().for_each(show::json);
        } else {
            items.append(&mut page.data);
        }
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    if !json {
        show::list(&items, false, ["ID", "TYPE", "STATE", "ATTEMPTS", "PLACE", "DETAIL"], row);
    }
    Ok(Exit::Done)
}

fn row(item: &Item) -> [String; 6] {
    let place = item.row.map_or_else(|| format!("item {}", item.seq), |row| format!("row {row}"));
    [
        item.id.to_string(),
        item.job_type.clone(),
        item.state.as_str().to_owned(),
        item.attempts.to_string(),
        place,
        detail(item),
    ]
}

/// The message that matters in the item's state.
fn detail(item: &Item) -> String {
    match item.state {
        ItemState::Running => {
            let message = item.progress.as_ref().and_then(|progress| progress.message.clone());
            message.or_else(|| item.assignment.as_ref().map(|holder| holder.worker_id.clone())).unwrap_or_default()
        }
        ItemState::Succeeded => String::new(),
        _ => {
            let error = item.last_error.as_ref().map(|error| error.message.clone());
            error.or_else(|| item.waiting_for.as_ref().map(waiting)).unwrap_or_default()
        }
    }
}

fn waiting(waiting: &WaitingFor) -> String {
    waiting.detail.clone().unwrap_or_else(|| waiting.reason.replace('_', " "))
}

/// Output of `item --json`.
#[derive(Serialize)]
struct ItemOutput<'a> {
    item: &'a Item,
    attempts: &'a [Attempt],
}

pub(super) async fn show(client: &Client, id: Uuid, json: bool) -> anyhow::Result<Exit> {
    let item = client.item(id).await?;
    let attempts = client.attempts(id).await?.data;
    if json {
        show::json(&ItemOutput { item: &item, attempts: &attempts });
    } else {
        show::print_line(describe(client, &item, &attempts).trim_end());
    }
    Ok(Exit::Done)
}

fn describe(client: &Client, item: &Item, attempts: &[Attempt]) -> String {
    let mut text = String::new();
    let place = item.row.map_or_else(|| format!("item {}", item.seq), |row| format!("row {row}"));
    let _ = writeln!(text, "{place}  ({})  {}  {}", item.job_type, item.state.as_str(), show::plain(&detail(item)));
    let _ = writeln!(text, "job {}", item.job_id);
    let _ = writeln!(text, "created {}", item.created_at);
    if let Some(payload) = &item.payload {
        let _ = writeln!(text, "payload {}", show::plain(payload.text()));
    }
    if let Some(result) = &item.result {
        let _ = writeln!(text, "result {}", show::plain(result.text()));
    }
    for attempt in attempts {
        let _ = writeln!(text, "  {}", attempt_line(attempt));
    }
    let _ = writeln!(text, "{}", client.page(&["items", &item.id.to_string()]));
    text
}

/// `attempt 2  lease_lost  3.014 s  by worker-7  the lease ended`
fn attempt_line(attempt: &Attempt) -> String {
    let mut line = format!("attempt {}", attempt.attempt);
    let _ = write!(line, "  {}", attempt.ended_as.map_or("running", |ended| ended.as_str()));
    if let (Some(start), Some(end)) = (attempt.started_at, attempt.ended_at) {
        let _ = write!(line, "  {:.3} s", end.seconds_since(start));
    }
    if let Some(worker) = &attempt.worker_id {
        let _ = write!(line, "  by {}", show::plain(worker));
    }
    if let Some(error) = &attempt.error {
        let _ = write!(line, "  {}", show::plain(&error.message));
    }
    line
}
