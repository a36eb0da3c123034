//! `treeline types`: lists job types, and manages one.

use client::Client;
use domain::{Document, JobType, item::MaxFailures, job_type::JobTypeSpec};

use super::{Exit, input, show};

#[derive(Debug, clap::Args)]
pub(super) struct Options {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// List job types; the default.
    List,
    /// Print a job type as JSON.
    Show { name: String },
    /// Create a job type, or make it what a JSON file says; `-` reads standard input.
    Apply { file: String },
    /// Change the fields that a JSON file names, such as `rate_limit` or `concurrency_by`; `-` reads standard input, and null
    /// removes a limit.
    Edit { name: String, file: String },
    /// Stop handing out items of a type; running ones finish.
    Pause { name: String },
    /// Hand out items of a type again.
    Resume { name: String },
    /// Delete a type that no job uses.
    Delete { name: String },
}

pub(super) async fn run(client: &Client, options: Options, json: bool) -> anyhow::Result<Exit> {
    match options.command.unwrap_or(Command::List) {
        Command::List => print(&client.job_types().await?.data, json),
        Command::Show { name } => show::json(&client.job_type(&name).await?),
        Command::Apply { file } => {
            let spec: JobTypeSpec = input::body(&file)?;
            print(&[client.put_job_type(&spec).await?], json);
        }
        Command::Edit { name, file } => {
            let fields: Document = input::body(&file)?;
            print(&[client.patch_job_type(&name, &fields, None).await?], json);
        }
        Command::Pause { name } => print(&[client.pause_job_type(&name).await?], json),
        Command::Resume { name } => print(&[client.resume_job_type(&name).await?], json),
        Command::Delete { name } => client.delete_job_type(&name).await?,
    }
    Ok(Exit::Done)
}

fn print(types: &[JobType], json: bool) {
    show::list(types, json, ["NAME", "EXECUTOR", "CONCURRENCY", "RATE LIMIT", "MAX FAILURES", "STATE"], row);
}

fn row(of: &JobType) -> [String; 6] {
    let executor = match (of.executor.url.as_deref(), of.executor.name) {
        (Some(url), _) => format!("push to {url}"),
        (None, Some(_)) => "built in".to_owned(),
        (None, None) => "workers".to_owned(),
    };
    [
        of.name.clone(),
        executor,
        concurrency(of),
        rate_limit(of),
        match of.max_failures {
            MaxFailures::AtMost(limit) => limit.to_string(),
            MaxFailures::Unlimited => "no limit".to_owned(),
        },
        if of.paused { "paused" } else { "active" }.to_owned(),
    ]
}

/// `8, 2 by /customer/id`
fn concurrency(of: &JobType) -> String {
    let whole = of.concurrency.map(|limit| limit.to_string());
    let by_key = of.concurrency_by.as_ref().map(|by| format!("{} by {}", by.limit, by.key));
    let limits: Vec<String> = whole.into_iter().chain(by_key).collect();
    if limits.is_empty() { "no limit".to_owned() } else { limits.join(", ") }
}

/// `100 in 60 s by /customer/id`
fn rate_limit(of: &JobType) -> String {
    let Some(limit) = &of.rate_limit else { return "no limit".to_owned() };
    let key = limit.key.as_ref().map(|key| format!(" by {key}")).unwrap_or_default();
    format!("{} in {} s{key}", limit.count, limit.per_seconds)
}
