//! Runs one command for one item: payload in, result out, progress on fd 3. When it must stop, its whole process group
//! is killed.
//!
//! Independent of Treeline's API: it turns a process into a result or a failure, and is tested with real processes.
//! `command-fds` provides the pipe on fd 3, because that needs unsafe code.

use std::{
    ffi::OsString,
    os::unix::process::{CommandExt, ExitStatusExt},
    process::{Command, ExitStatus, Stdio},
    time::Duration,
};

use client::Unfinished;
use command_fds::{CommandFdExt, FdMapping};
use domain::{Document, item::ItemProgress};
use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    process::{Child, ChildStdin},
    time::{Instant, sleep_until},
};

use super::output::{Lines, Tail, progress};

/// Maximum size of a result in bytes. The server's own limit is lower or equal.
const MAX_RESULT: usize = 10 * 1024 * 1024;
/// Time for which background processes of a command may hold its output open.
const LINGER: Duration = Duration::from_secs(2);
/// Time for which a command that could not be started holds its slot, so that the worker does not claim and release the
/// whole queue. Its item is released for as long.
const START_PAUSE: Duration = Duration::from_secs(1);
/// EX_DATAERR of sysexits.h: the input is invalid, so a retry cannot help.
const EX_DATAERR: i32 = 65;

/// A command line.
#[derive(Clone, Debug)]
pub(super) struct CommandLine {
    pub(super) program: OsString,
    pub(super) args: Vec<OsString>,
}

/// Process group of one command. Killed when dropped.
struct ProcessGroup(Option<Pid>);

impl ProcessGroup {
    fn of(child: &Child) -> Self {
        Self(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)))
    }

    /// Sends a signal. An error means that no process is left.
    fn signal(&self, signal: Signal) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
    }
}

/// Handlers for the output of a command while it runs.
pub(super) struct OutputHandlers<P, L> {
    /// Progress from file descriptor 3.
    pub(super) progress: P,
    /// Lines of standard error.
    pub(super) line: L,
}

/// Output of a command.
#[derive(Default)]
struct Output {
    result: Vec<u8>,
    errors: Tail,
}

/// Runs the command to its end, or to the end of the future: then its process group is killed.
///
/// When `stopped` resolves, the group gets SIGTERM. If the command then still exits with a result, the result counts;
/// otherwise it was stopped before it was done. A command that cannot start now, because files, processes, or memory
/// have run out, is released after a pause.
pub(super) async fn run(
    command: &CommandLine,
    environment: Vec<(&'static str, String)>,
    payload: &str,
    handlers: OutputHandlers<impl Fn(ItemProgress), impl Fn(&str)>,
    stopped: impl Future<Output = ()>,
) -> Result<Document, Unfinished> {
    let program = command.program.display();
    let (mut child, fd3) = match start(command, environment) {
        Ok(started) => started,
        Err(error) if is_exhausted(&error) => {
            tracing::warn!(%program, %error, "command cannot start now; releasing its item");
            let _ = tokio::time::timeout(START_PAUSE, stopped).await;
            return Err(Unfinished::released().retry_after(START_PAUSE));
        }
        Err(error) => {
            let message = format!("The command {program} could not be started: {error}");
            return Err(Unfinished::failed(message).kind("not_started"));
        }
    };
    let mut group = ProcessGroup::of(&child);
    let mut output = Output::default();
    let (status, is_stopped) = {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let Output { result, errors } = &mut output;
        let mut lines = Lines::default();
        let pipes = async {
            tokio::join!(
                write_payload(stdin, payload),
                read_pipe(stdout, |bytes| {
                    result.extend_from_slice(bytes);
                    if result.len() > MAX_RESULT {
                        group.signal(Signal::KILL);
                        result.truncate(MAX_RESULT + 1);
                    }
                }),
                async {
                    read_pipe(stderr, |bytes| {
                        errors.feed(bytes);
                        lines.feed(bytes, &handlers.line);
                    })
                    .await;
                    lines.end(&handlers.line);
                },
                read_progress(fd3, &handlers.progress),
            )
        };
        wait_for_exit(&mut child, &group, pipes, stopped).await
    };
    // All its processes have ended, and the number of the group may be reused.
    group.0 = None;
    let status = status.map_err(|error| Unfinished::failed(format!("The command was lost: {error}")).kind("lost"))?;
    if is_stopped && (!status.success() || output.result.is_empty()) {
        return Err(Unfinished::stopped());
    }
    outcome_of(status, &output)
}

/// Waits for the process and for its pipes. A command has ended when its process has; background processes that hold
/// its output open for longer than [`LINGER`] are killed.
async fn wait_for_exit<T>(
    child: &mut Child,
    group: &ProcessGroup,
    pipes: impl Future<Output = T>,
    stopped: impl Future<Output = ()>,
) -> (std::io::Result<ExitStatus>, bool) {
    tokio::pin!(pipes, stopped);
    let (mut status, mut pipes_open, mut is_stopped, mut pipe_deadline) = (None, true, false, Instant::now());
    loop {
        tokio::select! {
            _ = &mut pipes, if pipes_open => pipes_open = false,
            ended = child.wait(), if status.is_none() => {
                status = Some(ended);
                pipe_deadline = Instant::now() + LINGER;
            }
            () = &mut stopped, if !is_stopped && status.is_none() => {
                is_stopped = true;
                group.signal(Signal::TERM);
            }
            () = sleep_until(pipe_deadline), if status.is_some() && pipes_open => {
                group.signal(Signal::KILL);
                // A process that left the group cannot be killed; stop waiting for it.
                let _ = tokio::time::timeout(LINGER, &mut pipes).await;
                pipes_open = false;
            }
        }
        match status {
            Some(status) if !pipes_open => return (status, is_stopped),
            other => status = other,
        }
    }
}

fn start(command: &CommandLine, environment: Vec<(&'static str, String)>) -> std::io::Result<(Child, pipe::Receiver)> {
    let (read, write) = std::io::pipe()?;
    let read = pipe::Receiver::from_owned_fd(read.into())?;
    let mut process = prepare(command, environment);
    process.fd_mappings(vec![FdMapping { parent_fd: write.into(), child_fd: 3 }]).map_err(std::io::Error::other)?;
    // Our own copy of the writing end closes with the temporary command, or fd 3 would never end.
    let child = tokio::process::Command::from(process).spawn()?;
    Ok((child, read))
}

/// True if a command could not be started because this process or the machine has no files, processes, or memory left.
fn is_exhausted(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE | Errno::AGAIN | Errno::NOMEM))
}

fn prepare(command: &CommandLine, environment: Vec<(&'static str, String)>) -> Command {
    let mut process = Command::new(&command.program);
    process
        .args(&command.args)
        // The command must not get the token, which gives access to all items, nor the password of the broker.
        .env_remove("TREELINE_TOKEN")
        .env_remove("AMQP_URL")
        // That of the worker's own start, if it has one, is not the item's.
        .env_remove("TRACEPARENT")
        .envs(environment)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0);
    process
}

/// Writes the payload. A closed pipe is no error, because a command may ignore its payload.
async fn write_payload(stdin: Option<ChildStdin>, payload: &str) {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(payload.as_bytes()).await;
    }
}

async fn read_pipe(pipe: Option<impl AsyncRead + Unpin>, mut each: impl FnMut(&[u8])) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = Vec::with_capacity(4096);
    while let Ok(1..) = pipe.read_buf(&mut buffer).await {
        each(&buffer);
        buffer.clear();
    }
}

async fn read_progress(fd3: pipe::Receiver, report: &impl Fn(ItemProgress)) {
    let mut lines = Lines::default();
    let mut line = |line: &str| {
        if let Some(progress) = progress(line) {
            report(progress);
        }
    };
    read_pipe(Some(fd3), |bytes| lines.feed(bytes, &mut line)).await;
    lines.end(line);
}

fn outcome_of(status: ExitStatus, output: &Output) -> Result<Document, Unfinished> {
    let bad = |what: String| Err(Unfinished::failed(what).kind("bad_output"));
    if output.result.len() > MAX_RESULT {
        return bad("The command wrote more than 10 MiB to its standard output.".to_owned());
    }
    if !status.success() {
        let (kind, what) = match (status.code(), status.signal()) {
            (Some(code), _) => (format!("exit_{code}"), format!("ended with exit code {code}")),
            (None, Some(signal)) => (format!("signal_{signal}"), format!("was ended by signal {signal}")),
            (None, None) => ("exit_unknown".to_owned(), "ended in an unknown way".to_owned()),
        };
        let mut message = output.errors.text();
        if message.is_empty() {
            message = format!("The command {what} and said nothing on standard error.");
        }
        let failure = Unfinished::failed(message).kind(kind);
        return Err(if status.code() == Some(EX_DATAERR) { failure.not_retryable() } else { failure });
    }
    let Ok(text) = std::str::from_utf8(&output.result) else {
        return bad("The command's standard output is not UTF-8.".to_owned());
    };
    let text = text.trim();
    match text {
        "" => Ok(Document::empty_object()),
        "null" => bad("The command's result is null; expected JSON, or nothing for {}.".to_owned()),
        _ => Document::parse(text.to_owned()).or_else(|error| {
            let begin: String = text.chars().take(80).collect();
            bad(format!("The command's standard output is not JSON ({error}): {begin}"))
        }),
    }
}

#[cfg(test)]
mod tests;
