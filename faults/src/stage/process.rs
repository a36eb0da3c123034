//! Servers and workers as processes: start, kill, terminate, pause and resume.
//!
//! They end with this process, however it ends: a shell knows their ids and kills them when its input closes.

use std::{
    fs::File,
    io::Write as _,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

/// Kills the started processes when this process is gone.
#[derive(Clone)]
pub(crate) struct Guard(Arc<Mutex<std::process::Child>>);

impl Guard {
    pub(crate) fn new() -> Result<Self> {
        let shell = std::process::Command::new("sh")
            .args(["-c", "while read -r id; do ids=\"$ids $id\"; done; kill -s KILL $ids 2> /dev/null"])
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Self(Arc::new(Mutex::new(shell))))
    }

    fn knows(&self, id: u32) -> Result<()> {
        let mut shell = self.0.lock().map_err(|_| anyhow::anyhow!("the guard broke"))?;
        Ok(writeln!(shell.stdin.as_mut().context("the guard's input")?, "{id}")?)
    }
}

/// A program, its arguments and environment, and the process that runs it, if any.
pub(crate) struct Process {
    program: PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    log: PathBuf,
    child: Option<Child>,
    guard: Guard,
    /// Number of starts.
    pub(crate) starts: usize,
}

impl Process {
    pub(crate) fn new(program: &Path, log: PathBuf, guard: &Guard) -> Self {
        Self {
            program: program.to_owned(),
            arguments: Vec::new(),
            environment: Vec::new(),
            log,
            child: None,
            guard: guard.clone(),
            starts: 0,
        }
    }

    /// Sets the arguments.
    #[must_use]
    pub(crate) fn arguments(mut self, arguments: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Sets an environment variable for the next start. The last value counts.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.environment.push((name.to_owned(), value.to_owned()));
    }

    /// Removes an environment variable.
    pub(crate) fn unset(&mut self, name: &str) {
        self.environment.retain(|(known, _)| known != name);
    }

    /// Starts it; its output is appended to its log.
    pub(crate) fn start(&mut self) -> Result<()> {
        ensure!(self.child.is_none(), "it runs already");
        let log = File::options().create(true).append(true).open(&self.log)?;
        let child = Command::new(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| self.program.display().to_string())?;
        self.guard.knows(child.id().context("a process id")?)?;
        self.child = Some(child);
        self.starts += 1;
        Ok(())
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        let id = self.child.as_ref().and_then(Child::id).context("it does not run")?;
        Ok(kill_process(Pid::from_raw(id as i32).context("a process id")?, signal)?)
    }

    /// `kill -9`; returns when it has exited.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        if let Some(mut child) = self.child.take() {
            child.kill().await?;
        }
        Ok(())
    }

    /// Kills it and starts it again.
    pub(crate) async fn again(&mut self) -> Result<()> {
        self.kill().await?;
        self.start()
    }

    /// Sends SIGTERM and returns its exit status. After a minute it is killed, which is an error.
    pub(crate) async fn terminate(&mut self) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let mut child = self.child.take().context("it does not run")?;
        match tokio::time::timeout(Duration::from_mins(1), child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("{} does not stop within a minute", self.program.display()),
        }
    }

    /// Pauses it (SIGSTOP).
    pub(crate) fn pause(&self) -> Result<()> {
        self.signal(Signal::STOP)
    }

    /// Resumes it (SIGCONT).
    pub(crate) fn resume(&self) -> Result<()> {
        self.signal(Signal::CONT)
    }

    /// Its exit status, if it has ended by itself.
    pub(crate) fn look(&mut self) -> Result<Option<ExitStatus>> {
        let Some(child) = &mut self.child else { return Ok(None) };
        let ended = child.try_wait()?;
        if ended.is_some() {
            self.child = None;
        }
        Ok(ended)
    }

    /// Its process id while it runs.
    pub(crate) fn id(&self) -> Option<u32> {
        self.child.as_ref().and_then(Child::id)
    }

    pub(crate) fn is_running(&self) -> bool {
        self.child.is_some()
    }

    pub(crate) fn log(&self) -> &Path {
        &self.log
    }
}

/// True if it aborted itself, as a crash point does.
pub(crate) fn is_abort(status: ExitStatus) -> bool {
    status.signal() == Some(Signal::ABORT.as_raw())
}

/// A server and its port, which stays the same over restarts.
pub(crate) struct Server {
    pub(crate) process: Process,
    pub(crate) port: u16,
}

impl Server {
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Starts it and waits until it is ready.
    pub(crate) async fn start(&mut self) -> Result<()> {
        self.process.start()?;
        self.serves(Duration::from_mins(1)).await
    }

    /// Kills it and starts it again; returns when it is ready.
    pub(crate) async fn again(&mut self) -> Result<()> {
        self.process.kill().await?;
        self.start().await
    }

    /// Waits until `/readyz` succeeds.
    pub(crate) async fn serves(&mut self, patience: Duration) -> Result<()> {
        let began = Instant::now();
        let ready = format!("{}/readyz", self.url());
        let client = reqwest::Client::new();
        loop {
            let answer = client.get(&ready).timeout(Duration::from_secs(2)).send().await;
            if answer.is_ok_and(|answer| answer.status().is_success()) {
                return Ok(());
            }
            if let Some(status) = self.process.look()? {
                bail!("a server ended: {status}; its log is {}", self.process.log().display());
            }
            ensure!(began.elapsed() < patience, "a server is not ready after {patience:?}");
            tokio::time::sleep(Duration::from_millis(25)).await;
        }
    }
}
