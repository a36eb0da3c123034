//! `treeline jobs` and `treeline job`: lists trees, and shows one job.

use std::fmt::Write as _;

use client::{Client, JobFilter};
use domain::{Job, JobStatus, id::Uuid};

use super::{Exit, JobsOptions, show};

/// Maximum number of jobs on one page of the API.
pub(super) const PAGE: u32 = 1_000;

pub(super) async fn list(client: &Client, options: JobsOptions, json: bool) -> anyhow::Result<Exit> {
    let mut remaining = options.limit;
    let mut filter = JobFilter {
        status: options.status,
        outcome: options.outcome,
        job_type: options.job_type,
        q: options.q,
        root: Some(true),
        ..JobFilter::default()
    };
    let mut is_first = true;
    while remaining > 0 {
        filter.limit = Some(remaining.min(PAGE));
        let page = client.jobs(&filter).await?;
        remaining = remaining.saturating_sub(page.data.len() as u32);
        for job in &page.data {
            if json {
                show::json(job);
                continue;
            }
            if std::mem::take(&mut is_first) {
                show::print_line(&format!("{:<36}  {:<20}  {:<10}  {:>4}  NAME", "ID", "TYPE", "STATE", ""));
            }
            show::print_line(&row(job));
        }
        filter.cursor = page.next_cursor;
        if filter.cursor.is_none() {
            break;
        }
    }
    if is_first && !json {
        eprintln!("No jobs.");
    }
    Ok(Exit::Done)
}

fn row(job: &Job) -> String {
    let percent = job.percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent}%"));
    let name = show::plain(job.name.as_deref().unwrap_or(&job.key));
    format!("{}  {:<20}  {:<10}  {percent:>4}  {name}  {}", job.id, job.job_type, state(job), show::counts(job))
}

fn state(job: &Job) -> &'static str {
    match (job.tree.status, job.tree.outcome) {
        (JobStatus::Completed, Some(outcome)) => outcome.as_str(),
        (status, _) => status.as_str(),
    }
}

pub(super) async fn show(client: &Client, id: Uuid, json: bool) -> anyhow::Result<Exit> {
    let job = client.job(id).await?;
    if json {
        show::json(&job);
    } else {
        show::print_line(describe(client, &job).trim_end());
    }
    Ok(Exit::Done)
}

fn describe(client: &Client, job: &Job) -> String {
    let mut text = String::new();
    let name = show::plain(job.name.as_deref().unwrap_or(&job.key));
    let _ = writeln!(text, "{name}  ({})", job.job_type);
    let _ = writeln!(text, "{}", show::line(job));
    let _ = writeln!(text, "created {}", job.created_at);
    if let Some(at) = job.completed_at {
        let _ = writeln!(text, "complete {at}");
    }
    if let Some(open) = &job.open_because {
        let _ = writeln!(text, "open because of {}: {}", open.reason, show::plain(&open.detail));
    }
    let _ = writeln!(text, "{}", client.page(&["jobs", &job.id.to_string()]));
    below(&mut text, job, 1);
    text
}

fn below(text: &mut String, job: &Job, depth: usize) {
    for child in job.children.iter().flatten() {
        let indent = "  ".repeat(depth);
        let _ = writeln!(text, "{indent}{}  ({})  {}", child.key, child.job_type, show::line(child));
        below(text, child, depth + 1);
    }
}
