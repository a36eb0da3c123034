//! Server program in its own process.

use std::process::Stdio;

use sqlx::ConnectOptions as _;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, ChildStdout, Command},
};

use super::{Api, Server, TOKEN, tcp_proxy::TcpProxy};

/// Running server process; killed on drop.
pub(crate) struct Program {
    pub(crate) api: Api,
    pub(crate) process: u32,
    child: Child,
    /// Kept open: a program that cannot print its output ends.
    _out: BufReader<ChildStdout>,
}

impl Program {
    /// Kills it with SIGKILL.
    pub(crate) async fn kill(mut self) {
        self.child.kill().await.expect("it is killed");
    }

    /// Asks it to stop like a service manager, and waits for its end.
    pub(crate) async fn terminate(mut self) {
        let process = rustix::process::Pid::from_raw(self.process as i32).expect("a process");
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it runs");
        let status = self.child.wait().await.expect("it ends");
        assert!(status.success(), "{status}");
    }
}

/// Peak memory of a process, in KiB.
pub(crate) fn peak_kib(process: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("the process runs");
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).expect("its peak");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse().ok()).expect("a number")
}

impl Server {
    /// Starts another server on the same database and files, in its own process.
    pub(crate) async fn spawn_program(&self) -> Program {
        self.spawn_program_with(&[]).await
    }

    /// Environment of a program on the same database and files, at a free port.
    pub(crate) fn at_same_database<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        command
            .env("DATABASE_URL", self.shared.database.url())
            .env("TREELINE_DATA_DIR", self.shared.data_dir.path())
            .env("TREELINE_LISTEN", "127.0.0.1:0")
            .env("TREELINE_BOOTSTRAP_TOKEN", TOKEN)
            .env("TREELINE_PUSH_ALLOW", "127.0.0.1")
    }

    /// Starts it with the wire to the database in between.
    pub(crate) async fn spawn_program_behind_proxy(&self) -> (Program, TcpProxy) {
        let database = &self.shared.database;
        let proxy = TcpProxy::forward_to(database.address().await).await;
        let url = database.admin.clone().host("127.0.0.1").port(proxy.port).database(&database.name).to_url_lossy();
        (self.spawn_program_with(&[("DATABASE_URL", url.as_str())]).await, proxy)
    }

    /// Starts it with additional environment variables.
    pub(crate) async fn spawn_program_with(&self, environment: &[(&str, &str)]) -> Program {
        self.spawn_program_logging_to(Stdio::inherit(), environment).await
    }

    /// Starts it with additional environment variables; its log goes to `log`.
    pub(crate) async fn spawn_program_logging_to(&self, log: Stdio, environment: &[(&str, &str)]) -> Program {
        let mut child = self
            .at_same_database(&mut Command::new(env!("CARGO_BIN_EXE_treeline-server")))
            .envs(environment.iter().copied())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .expect("the program runs");
        let mut out = BufReader::new(child.stdout.take().expect("its output"));
        let mut line = String::new();
        out.read_line(&mut line).await.expect("a line");
        let url = line.trim().rsplit(' ').next().expect("where it listens");
        let api = Api::new(url).with_token(TOKEN);
        Program { api, process: child.id().expect("a running process"), child, _out: out }
    }
}
