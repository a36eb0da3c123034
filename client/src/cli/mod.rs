//! The commands of `treeline`, and what they share: options and the log.
//!
//! Results go to standard output, everything else to standard error, so that `--json` can be piped.
//! The commands use only the library.

mod actions;
mod alerts;
mod child;
mod contexts;
mod exit;
mod input;
mod item_logs;
mod items;
mod jobs;
mod login;
mod logs;
mod output;
mod schedules;
mod search;
mod show;
mod tokens;
mod types;
mod upload;
mod work;

use std::{ffi::OsString, io::IsTerminal as _, path::PathBuf, time::Duration};

use clap::{Args as Options, CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use client::{Client, PageQuery};
use domain::{api::Page, id::Uuid, import::upload::UploadFormat};
use tracing_subscriber::EnvFilter;

pub(crate) use exit::Exit;

/// Time for which the command line retries calls.
const RETRY_TIMEOUT: Duration = Duration::from_secs(10);

/// Submit work to Treeline, watch it, and process it.
#[derive(Debug, Parser)]
#[command(name = "treeline", version, propagate_version = true)]
pub(crate) struct Args {
    /// Address of Treeline; by default that of the context, or http://127.0.0.1:3000 if there is none.
    #[arg(long, global = true, env = "TREELINE_URL")]
    url: Option<String>,
    /// The API token; by default that of the context.
    #[arg(long, global = true, env = "TREELINE_TOKEN", hide_env_values = true)]
    token: Option<String>,
    /// Name of a server that was added by `treeline login`; by default the one in use.
    #[arg(long, global = true, env = "TREELINE_CONTEXT", value_name = "NAME")]
    context: Option<String>,
    /// Print JSON; one document per line for lists and live output.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run a command for each item of a type. The command gets the payload on standard input, writes a JSON result to
    /// standard output, and may write lines `progress 3/10 text` to file descriptor 3. A non-zero exit code fails the
    /// item with the end of standard error as the message; 65 fails it without retries.
    Work(WorkOptions),
    /// Upload a file and create a job with its rows.
    Upload(UploadOptions),
    /// List trees, newest first.
    Jobs(JobsOptions),
    /// Show a job with everything below it.
    Job {
        #[arg(value_parser = object_id)]
        id: Uuid,
        /// Show a progress bar until it is complete; exit 3 if partial, 4 if failed or canceled.
        #[arg(long)]
        watch: bool,
    },
    /// Print the changes of a job, line by line, until it is complete.
    Tail {
        #[arg(value_parser = object_id)]
        id: Uuid,
    },
    /// List items: the newest job first, its items in the order in which they were added.
    Items(items::Options),
    /// Show an item with its payload, attempts and last error.
    Item {
        #[arg(value_parser = object_id)]
        id: Uuid,
    },
    /// Print the log of an item's newest attempt that has one.
    Logs(item_logs::Options),
    /// Retry an item, all failed items of a tree, or those of one child job.
    Retry(actions::RetryOptions),
    /// Cancel an item, or a job with everything below it.
    Cancel(actions::CancelOptions),
    /// Replay a complete tree, or an item, as a new tree.
    Replay(actions::ReplayOptions),
    /// Send an item the event that it waits for, such as an approval.
    Event(actions::EventOptions),
    /// Find jobs, items, errors, files, workers, job types, schedules, saved views, bulk operations, people and services.
    Search { text: String },
    /// List job types, or manage one.
    Types(types::Options),
    /// List API tokens, or create and revoke one.
    Tokens(tokens::Options),
    /// List schedules, or manage one.
    Schedules(schedules::Options),
    /// List open alerts, newest first.
    Alerts,
    /// List alert channels, or manage one.
    AlertChannels(alerts::ChannelOptions),
    /// Check a token, read from standard input, and store it with its server as a context.
    Login(login::Options),
    /// List the stored servers, or choose the one in use.
    Context(login::ContextOptions),
    /// Print the completion script of a shell: `source <(treeline completion bash)`.
    Completion { shell: Shell },
}

#[derive(Debug, Options)]
struct WorkOptions {
    /// Job type to work on; may be given more than once.
    #[arg(long = "type", required = true, value_name = "TYPE")]
    types: Vec<String>,
    /// Number of items at once.
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    concurrency: u16,
    /// Name of the worker, shown next to its items; by default made from host and process.
    #[arg(long, value_name = "NAME")]
    worker_id: Option<String>,
    /// Time for which running items may continue after the first signal; then they are stopped and released, or fail if they
    /// are delivered at most once.
    #[arg(long, default_value_t = 30.0, value_name = "SECONDS", value_parser = seconds)]
    drain_seconds: f64,
    /// Time between SIGTERM and SIGKILL to a command's process group.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS", value_parser = seconds)]
    grace_seconds: f64,
    /// RabbitMQ for wake-ups, such as amqp://user:password@host:5672; the worker polls the server as well.
    #[cfg(feature = "rabbitmq")]
    #[arg(long, env = "AMQP_URL", hide_env_values = true, value_name = "URL")]
    amqp: Option<String>,
    /// The command and its arguments, after `--`.
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

#[derive(Debug, Options)]
struct UploadOptions {
    file: PathBuf,
    /// Job type of the rows.
    #[arg(long = "type", default_value = "import", value_name = "TYPE")]
    job_type: String,
    /// Display name of the job; by default the name of the file.
    #[arg(long)]
    name: Option<String>,
    /// Show a progress bar until the job is complete; exit 3 if partial, 4 if failed or canceled.
    #[arg(long)]
    watch: bool,
    /// Format of the file (csv, ndjson, json, lines, xlsx, none); by default it is detected.
    #[arg(long, value_parser = format)]
    format: Option<UploadFormat>,
    /// Table: the first record is data, not a header.
    #[arg(long)]
    no_header: bool,
    /// Table: line of the header row; by default the first row.
    #[arg(long, value_name = "N", conflicts_with = "no_header")]
    header_row: Option<i64>,
    /// CSV: the delimiter, one character or `tab`; by default detected from the first lines.
    #[arg(long, value_name = "D", value_parser = delimiter)]
    delimiter: Option<String>,
    /// Text: the encoding, such as windows-1252; by default detected from the first lines.
    #[arg(long, value_name = "NAME")]
    encoding: Option<String>,
    /// XLSX: the sheet; by default the first that is not hidden.
    #[arg(long, value_name = "NAME")]
    sheet: Option<String>,
}

#[derive(Debug, Options)]
struct JobsOptions {
    /// waiting, running, cancelling or completed
    #[arg(long)]
    status: Option<String>,
    /// succeeded, partial, failed or cancelled
    #[arg(long)]
    outcome: Option<String>,
    /// Jobs of this type.
    #[arg(long = "type", value_name = "TYPE")]
    job_type: Option<String>,
    /// Text in name, key or metadata.
    #[arg(long)]
    q: Option<String>,
    /// Maximum number.
    #[arg(long, default_value_t = 20, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
}

/// Sets up the log on standard error, filtered by `RUST_LOG`.
pub(crate) fn log(args: &Args) {
    let default_filter =
        if matches!(args.command, Command::Work(_)) { "client=info,treeline=info,lapin=off,warn" } else { "error" };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default_filter));
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal());
    log.init();
}

pub(crate) async fn run(args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Completion { shell } => return Ok(complete(shell)),
        Command::Login(options) => return login::login(args.url.as_deref(), options, args.json).await,
        Command::Context(options) => return login::context(options, args.json),
        _ => {}
    }
    let server = contexts::Server::chosen(args.url, args.token, args.context.as_deref())?;
    let client = Client::new(&server.url, server.token.as_deref())?.with_retry_timeout(RETRY_TIMEOUT);
    perform(args.command, client, args.json).await.map_err(|error| {
        let cannot_connect = error
            .downcast_ref()
            .is_some_and(|error| matches!(error, client::Error::Transport { cause, .. } if cause.is_connect()));
        if cannot_connect {
            let hint = "--url, TREELINE_URL, or `treeline login` names another one";
            error.context(format!("no server answers at {}; {hint}", server.url))
        } else {
            error
        }
    })
}

async fn perform(command: Command, client: Client, json: bool) -> anyhow::Result<Exit> {
    match command {
        Command::Work(options) => work::work(client, options, json).await,
        Command::Upload(options) => upload::upload(&client, options, json).await,
        Command::Jobs(options) => jobs::list(&client, options, json).await,
        Command::Job { id, watch: false } => jobs::show(&client, id, json).await,
        Command::Job { id, watch: true } => show::bar(&client, id, json).await,
        Command::Tail { id } => show::tail(&client, id, json).await,
        Command::Items(options) => items::list(&client, options, json).await,
        Command::Item { id } => items::show(&client, id, json).await,
        Command::Logs(options) => item_logs::print(&client, &options, json).await,
        Command::Retry(options) => actions::retry(&client, options, json).await,
        Command::Cancel(options) => actions::cancel(&client, &options, json).await,
        Command::Replay(options) => actions::replay(&client, options, json).await,
        Command::Event(options) => actions::event(&client, options, json).await,
        Command::Search { text } => search::search(&client, &text, json).await,
        Command::Types(options) => types::run(&client, options, json).await,
        Command::Tokens(options) => tokens::run(&client, options, json).await,
        Command::Schedules(options) => schedules::run(&client, options, json).await,
        Command::Alerts => alerts::list(&client, json).await,
        Command::AlertChannels(options) => alerts::channels(&client, options, json).await,
        Command::Login(_) | Command::Context(_) | Command::Completion { .. } => Ok(Exit::Done),
    }
}

/// Prints the completion script of a shell.
fn complete(shell: Shell) -> Exit {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "treeline", &mut script);
    show::print(&script);
    Exit::Done
}

/// Reads all pages of a list.
async fn all<T>(mut page: impl AsyncFnMut(&PageQuery) -> client::Result<Page<T>>) -> client::Result<Vec<T>> {
    let mut query = PageQuery { limit: Some(jobs::PAGE), cursor: None };
    let mut rows = Vec::new();
    loop {
        let mut next = page(&query).await?;
        rows.append(&mut next.data);
        match next.next_cursor {
            Some(cursor) => query.cursor = Some(cursor),
            None => return Ok(rows),
        }
    }
}

fn object_id(text: &str) -> Result<Uuid, String> {
    text.parse().map_err(|_| "expected an ID (UUID)".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds from 0 to 86400".to_owned()),
    }
}

fn format(text: &str) -> Result<UploadFormat, String> {
    UploadFormat::parse(text).ok_or_else(|| "expected csv, ndjson, json, lines, xlsx or none".to_owned())
}

fn delimiter(text: &str) -> Result<String, String> {
    match text {
        "tab" | "\\t" => Ok("\t".to_owned()),
        _ if text.chars().count() == 1 => Ok(text.to_owned()),
        _ => Err("expected one character or `tab`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Args::command().debug_assert();
    }

    #[test]
    fn a_command_with_options_of_its_own_is_left_alone() {
        let line = ["treeline", "work", "--type", "a", "--concurrency", "300", "--", "sh", "-c", "--json"];
        let args = Args::try_parse_from(line).expect("parses");
        assert!(!args.json);
        let Command::Work(work) = args.command else { panic!("work") };
        assert_eq!((work.concurrency, work.command.len()), (300, 3));
    }

    #[test]
    fn an_id_that_is_none_is_refused_in_words() {
        let id = Uuid::nil().to_string();
        for line in [
            &["job"][..],
            &["items", "--job"],
            &["logs"],
            &["cancel"],
            &["tokens", "revoke"],
            &["schedules", "show"],
            &["alert-channels", "test"],
        ] {
            let line = std::iter::once("treeline").chain(line.iter().copied());
            let refused = Args::try_parse_from(line.clone().chain(["abc"])).expect_err("no ID").to_string();
            assert!(refused.contains("expected an ID (UUID)"), "{refused}");
            Args::try_parse_from(line.chain([id.as_str()])).expect("an ID");
        }
    }

    #[test]
    fn every_shell_gets_a_completion_script() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "treeline", &mut script);
            let script = String::from_utf8(script).expect("text");
            assert!(script.contains("schedules") && script.contains("completion"), "{shell}");
        }
    }

    #[test]
    fn a_delimiter_is_one_character() {
        assert_eq!(delimiter("tab").as_deref(), Ok("\t"));
        assert_eq!(delimiter(";").as_deref(), Ok(";"));
        assert!(delimiter(";;").is_err());
    }
}
