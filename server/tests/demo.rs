//! `treeline-server --demo`: a server on an empty data directory fills itself, once.

use std::{
    io::{BufRead as _, BufReader},
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Stdio},
};

/// Running server; it is killed when the value is dropped.
struct Server {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Server {
    fn start(data_dir: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_treeline-server"));
        for variable in ["DATABASE_URL", "AMQP_URL", "TREELINE_BOOTSTRAP_TOKEN", "TREELINE_PUBLIC_URL"] {
            command.env_remove(variable);
        }
        command.arg("--demo").env("TREELINE_LISTEN", "127.0.0.1:0").env("TREELINE_DATA_DIR", data_dir);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().expect("the server program");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        Self { child, lines }
    }

    /// The next line that begins with these words.
    fn line(&mut self, beginning: &str) -> String {
        let mut lines = self.lines.by_ref().map(|line| line.expect("text"));
        lines.find(|line| line.starts_with(beginning)).expect("the server ended before it printed that")
    }

    fn stop(mut self) {
        let signal = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(signal.success());
        assert!(self.child.wait().expect("it ends").success());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn demo_server_fills_itself_once_and_waits_for_its_first_admin() {
    let folder = tempfile::Builder::new().prefix("treeline-demo-").tempdir().expect("a temporary folder");
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).expect("permissions");
    let mut server = Server::start(folder.path());
    server.line("Sign in: ");
    let created = server.line("Demo data: ");
    assert_eq!(created, "Demo data: created people: 5, services: 3, schedules: 1, trees: 20");
    server.stop();

    let mut server = Server::start(folder.path());
    server.line("Sign in: ");
    let created = server.line("Demo data: ");
    assert_eq!(created, "Demo data: created people: 0, services: 0, schedules: 0, trees: 0");
    server.stop();
}
