//! `treeline types`: lists job types, and manages one.

use client::Client;
use domain::{JobType, item::MaxFailures, job_type::JobTypeSpec};

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
    /// Stop handing out items of a type; running ones finish.
    Pause { name: String },
    /// Hand out items of a type again.
    Resume { name: String },
    /// Delete a type that no job uses.
    Delete { name: String },
}

pub(super) async fn run(client: &Client, options: Options, json: bool) -> anyhow::Result<Exit> {
    match options.command.unwrap_or(Command::List) {
        Command::List => {
            let types = client.job_types().await?.data;
            show::list(&types, json, ["NAME", "EXECUTOR", "CONCURRENCY", "MAX FAILURES", "STATE"], row);
        }
        Command::Show { name } => show::json(&client.job_type(&name).await?),
        Command::Apply { file } => {
            let spec: JobTypeSpec = input::body(&file)?;
            changed(&client.put_job_type(&spec).await?, json);
        }
        Command::Pause { name } => changed(&client.pause_job_type(&name).await?, json),
        Command::Resume { name } => changed(&client.resume_job_type(&name).await?, json),
        Command::Delete { name } => client.delete_job_type(&name).await?,
    }
    Ok(Exit::Done)
}

fn changed(job_type: &JobType, json: bool) {
    show::list(std::slice::from_ref(job_type), json, ["NAME", "EXECUTOR", "CONCURRENCY", "MAX FAILURES", "STATE"], row);
}

fn row(of: &JobType) -> [String; 5] {
    let executor = match (of.executor.url.as_deref(), of.executor.name) {
        (Some(url), _) => format!("push to {url}"),
        (None, Some(_)) => "built in".to_owned(),
        (None, None) => "workers".to_owned(),
    };
    [
        of.name.clone(),
        executor,
        of.concurrency.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string()),
        match of.max_failures {
            MaxFailures::AtMost(limit) => limit.to_string(),
            MaxFailures::Unlimited => "no limit".to_owned(),
        },
        if of.paused { "paused" } else { "active" }.to_owned(),
    ]
}
