//! Private RabbitMQ for the tests of the SDKs, on free ports, with its data in the target folder.
//!
//! The server's tests have one of their own, with virtual hosts and faults; this one only runs.

use std::{
    net::{TcpListener, TcpStream},
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};

use crate::paths;

/// Longest start of a node.
const START_TIMEOUT: Duration = Duration::from_mins(2);
/// Pause between two looks at a port; the node tells nobody that it is there.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Arguments of Erlang: listens on this machine only, has two schedulers, and does not spin while it waits.
const ERLANG: &str = "-kernel inet_dist_use_interface {127,0,0,1} +S 2:2 +P 65536 \
    +sbwt none +sbwtdcpu none +sbwtdio none";

/// Running node; it is killed when the value is dropped.
pub(crate) struct Rabbit {
    pub(crate) url: String,
    child: Child,
}

impl Rabbit {
    /// Starts a node with its data in `rabbitmq-<name>` of the target folder.
    pub(crate) fn start(name: &str) -> Result<Self> {
        let folder = paths::target()?.join(format!("rabbitmq-{name}"));
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        for part in ["home", "log", "data"] {
            std::fs::create_dir_all(folder.join(part))?;
        }
        let (port, names, distribution) = (free_port()?, free_port()?, free_port()?);
        std::fs::write(folder.join("plugins"), "[].")?;
        let settings = format!("listeners.tcp.1 = 127.0.0.1:{port}\ndisk_free_limit.absolute = 1MB\n");
        std::fs::write(folder.join("rabbitmq.conf"), settings)?;
        let mut command = Command::new("sh");
        command
            .args(["-c", "epmd -port \"$ERL_EPMD_PORT\" -address 127.0.0.1 & exec \"$0\" -noinput"])
            .arg(program())
            .env("HOME", folder.join("home"))
            .env("ERL_EPMD_PORT", names.to_string())
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("RABBITMQ_NODENAME", format!("treeline-{port}@localhost"))
            .env("RABBITMQ_DIST_PORT", distribution.to_string())
            .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
            .env("RABBITMQ_LOG_BASE", folder.join("log"))
            .env("RABBITMQ_PID_FILE", folder.join("pid"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("plugins"))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", ERLANG)
            // The script then becomes the node, instead of watching it.
            .env("RABBITMQ_ALLOW_INPUT", "1")
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(folder.join("out"))?)
            .stderr(std::fs::File::create(folder.join("errors"))?)
            .process_group(0);
        let child = command.spawn().context("starting RabbitMQ")?;
        let mut node = Self { url: format!("amqp://guest:guest@127.0.0.1:{port}"), child };
        node.wait_for(port, &folder)?;
        Ok(node)
    }

    fn wait_for(&mut self, port: u16, folder: &Path) -> Result<()> {
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                let errors = std::fs::read_to_string(folder.join("errors")).unwrap_or_default();
                bail!("RabbitMQ ended with {status}: {errors}");
            }
            if began.elapsed() > START_TIMEOUT {
                bail!("RabbitMQ did not start within two minutes; its log is in {}", folder.join("log").display());
            }
            thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }
}

impl Drop for Rabbit {
    fn drop(&mut self) {
        if let Some(group) = rustix::process::Pid::from_raw(self.child.id().cast_signed()) {
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
        }
        let _ = self.child.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// The node's program; Debian's wrapper on the path would switch the user.
fn program() -> PathBuf {
    let of_debian = PathBuf::from("/usr/lib/rabbitmq/bin/rabbitmq-server");
    if of_debian.exists() { of_debian } else { PathBuf::from("rabbitmq-server") }
}
