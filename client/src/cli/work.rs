//! `treeline work`: a worker whose handler is a command.

use std::{
    ffi::OsStr,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, bail};
use client::{Client, Document, Summary, Task, Unfinished, Worker};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{
    Exit, WorkOptions,
    child::{self, CommandLine, OutputHandlers},
    logs::Logs,
    show,
};

/// Open files for each running command: its four pipes, its process, a connection for its log, and some spare.
const FILES_PER_COMMAND: u64 = 8;
/// Open files besides those of commands.
const OTHER_FILES: u64 = 256;

pub(super) async fn work(client: Client, options: WorkOptions, json: bool) -> anyhow::Result<Exit> {
    let mut words = options.command.into_iter();
    let program = words.next().context("a command is expected after --")?;
    // A typo should cost this message, not an attempt of every item.
    if !is_runnable(&program) {
        bail!("{}: no such command", program.display());
    }
    let command = Arc::new(CommandLine { program, args: words.collect() });
    raise_open_file_limit(options.concurrency);

    let mut worker = Worker::new(client, &options.types)
        .concurrency(options.concurrency.into())
        .drain_limit(Duration::from_secs_f64(options.drain_seconds))
        .stop_grace(Duration::from_secs_f64(options.grace_seconds));
    if let Some(id) = options.worker_id {
        worker = worker.worker_id(id);
    }
    #[cfg(feature = "rabbitmq")]
    if let Some(url) = &options.amqp {
        worker = worker.rabbitmq(url)?;
    }
    tracing::info!(
        worker = worker.id(),
        types = options.types.join(","),
        slots = options.concurrency,
        "worker started"
    );

    let (drain, is_forced) = drain()?;
    let summary = worker.run_until(drain, move |task| handle(Arc::clone(&command), task)).await?;
    report(&summary, json);
    Ok(match summary.unreported {
        _ if is_forced.load(Ordering::Relaxed) => Exit::Interrupted,
        0 => Exit::Done,
        _ => Exit::Error,
    })
}

/// Raises the soft limit on open files if it is too low for this many commands. They inherit it, so it is raised no
/// further than necessary: restoring it in a child takes unsafe code.
fn raise_open_file_limit(concurrency: u16) {
    let limit = getrlimit(Resource::Nofile);
    let needed = OTHER_FILES + FILES_PER_COMMAND * u64::from(concurrency);
    if let Some(raised) = raised(limit, needed)
        && let Err(error) = setrlimit(Resource::Nofile, raised)
    {
        tracing::warn!(%error, "limit on open files not raised");
    }
    if let Some(hard_limit) = limit.maximum.filter(|&files| files < needed) {
        tracing::warn!(
            hard_limit,
            needed,
            "limit on open files is low; items of commands that cannot start are released"
        );
    }
}

/// The limits with a soft limit of this many files, at most the hard limit; `None` if it is high enough.
fn raised(limit: Rlimit, needed: u64) -> Option<Rlimit> {
    let soft = limit.maximum.map_or(needed, |most| most.min(needed));
    limit.current.is_some_and(|current| current < soft).then_some(Rlimit { current: Some(soft), ..limit })
}

async fn handle(command: Arc<CommandLine>, task: Task) -> Result<Document, Unfinished> {
    let item = task.item();
    let mut environment = vec![
        ("TREELINE_ITEM_ID", item.id.to_string()),
        ("TREELINE_JOB_ID", item.job_id.to_string()),
        ("TREELINE_TYPE", item.job_type.clone()),
        ("TREELINE_ATTEMPT", task.attempt().to_string()),
    ];
    if let Some(row) = item.row {
        environment.push(("TREELINE_ROW", row.to_string()));
    }
    if let Some(traceparent) = task.traceparent() {
        environment.push(("TRACEPARENT", traceparent));
    }
    let logs = Logs::default();
    let handlers = OutputHandlers { progress: |progress| task.progress(progress), line: |line: &str| logs.add(line) };
    let command = child::run(&command, environment, item.payload.text(), handlers, task.stopped());
    let log = |lines| {
        let task = task.clone();
        async move { task.log(lines).await.map(drop) }
    };
    logs.send_during(log, || task.is_stopped(), command).await
}

/// A drain on signals that logs its steps.
fn drain() -> anyhow::Result<(client::Drain, Arc<AtomicBool>)> {
    let drain = client::Drain::on_signals().context("signals cannot be listened to")?;
    let is_forced = Arc::new(AtomicBool::new(false));
    let (observer, forced) = (drain.clone(), Arc::clone(&is_forced));
    tokio::spawn(async move {
        observer.begun().await;
        tracing::info!("draining; a second signal drops all running items");
        observer.forced().await;
        forced.store(true, Ordering::Relaxed);
    });
    Ok((drain, is_forced))
}

fn report(summary: &Summary, json: bool) {
    if json {
        show::json(summary);
    } else {
        let Summary { succeeded, failed, released, closed, unreported, unreadable } = *summary;
        tracing::info!(succeeded, failed, released, closed, unreported, unreadable, "worker stopped");
    }
}

fn is_runnable(program: &OsStr) -> bool {
    let is_file = |path: PathBuf| {
        std::fs::metadata(path).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    if Path::new(program).components().count() > 1 || Path::new(program).is_absolute() {
        return is_file(program.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_file(folder.join(program)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_on_open_files_is_raised_as_far_as_necessary() {
        let of = |current, maximum| raised(Rlimit { current, maximum }, 2_000).map(|raised| raised.current);
        assert_eq!(of(Some(1_024), Some(524_288)), Some(Some(2_000)));
        assert_eq!(of(Some(1_024), None), Some(Some(2_000)));
        assert_eq!(of(Some(1_024), Some(1_500)), Some(Some(1_500)), "the hard limit");
        assert_eq!(of(Some(1_500), Some(1_500)), None);
        assert_eq!(of(Some(4_096), Some(524_288)), None, "never lowered");
        assert_eq!(of(None, None), None);
    }

    #[test]
    fn a_command_is_looked_for_before_anything_is_claimed() {
        assert!(is_runnable(OsStr::new("sh")));
        assert!(is_runnable(OsStr::new("/bin/sh")));
        assert!(!is_runnable(OsStr::new("no-such-command")));
        assert!(!is_runnable(OsStr::new(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"))), "not executable");
        assert!(!is_runnable(OsStr::new("/bin")), "a folder");
    }
}
