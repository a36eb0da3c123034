//! SMTP server for the tests: the program aiosmtpd on a free port, which stores mail in a folder of its own.

use std::{
    net::TcpListener,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tempfile::TempDir;
use tokio::{
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};

use super::until;

/// SMTP server, running or not.
pub(crate) struct SmtpServer {
    pub(crate) port: u16,
    folder: TempDir,
    running: Option<Child>,
}

impl SmtpServer {
    /// Chooses a port without starting the program.
    pub(crate) fn stopped() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        Self { port, folder: TempDir::new().expect("a folder"), running: None }
    }

    /// Starts the program with these arguments; returns when it accepts connections.
    pub(crate) async fn start(&mut self, arguments: &[&str]) {
        let child = Command::new(program())
            .args(["--nosetuid", "--smtputf8", "--listen", &format!("127.0.0.1:{}", self.port)])
            .args(arguments)
            .args(["--class", "aiosmtpd.handlers.Mailbox"])
            .arg(self.mailbox())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .expect("aiosmtpd is there: cargo xtask setup installs it");
        self.running = Some(child);
        until(async || TcpStream::connect(("127.0.0.1", self.port)).await.is_ok()).await;
    }

    /// Folder for files of a test.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn mailbox(&self) -> PathBuf {
        self.folder.path().join("mail")
    }

    /// Messages that have arrived, with CR LF read as LF.
    pub(crate) fn messages(&self) -> Vec<String> {
        let Ok(files) = std::fs::read_dir(self.mailbox().join("new")) else { return Vec::new() };
        let text = |file: std::fs::DirEntry| std::fs::read_to_string(file.path()).ok();
        files.filter_map(Result::ok).filter_map(text).map(|text| text.replace("\r\n", "\n")).collect()
    }

    /// Waits for this number of messages.
    pub(crate) async fn wait_for(&self, number: usize) -> Vec<String> {
        let waiting = async {
            while self.messages().len() < number {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(Duration::from_secs(30), waiting).await.expect("mail arrives within half a minute");
        self.messages()
    }
}

/// Path of the program.
fn program() -> PathBuf {
    let named = std::env::var_os("TREELINE_AIOSMTPD").map(PathBuf::from);
    named.unwrap_or_else(|| PathBuf::from("aiosmtpd"))
}

/// Value of a header of a message, with its lines joined.
pub(crate) fn header(message: &str, name: &str) -> String {
    let head = head(message);
    let mut lines = head.lines().skip_while(|line| !line.starts_with(&format!("{name}:")));
    let first = lines.next().unwrap_or_else(|| panic!("{name} in {message}"));
    let more = lines.take_while(|line| line.starts_with([' ', '\t'])).map(str::trim);
    let parts = std::iter::once(first[name.len() + 1..].trim()).chain(more);
    parts.filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Headers of a message.
pub(crate) fn head(message: &str) -> &str {
    message.split("\n\n").next().unwrap_or_default()
}
