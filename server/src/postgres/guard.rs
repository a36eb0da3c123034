//! Cleanup of a private PostgreSQL that must not outlive its process.
//!
//! A small shell waits on a pipe that this process holds. When the process ends in any way, including kill -9, the pipe
//! closes, and the shell stops the cluster and deletes its folder. Standard library only: `xtask` compiles this file too.

use std::{
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::programs::{Doing, Programs, Result, as_account};

/// Running shell. Dropping it stops the cluster and waits until its folder is deleted.
#[derive(Debug)]
pub struct Guard(Child);

impl Guard {
    /// Guards the folder `home`, whose `cluster` need not exist yet. The shell has its own process group, so that Ctrl-C
    /// does not reach it.
    pub fn start(programs: &Programs, home: &Path) -> Result<Self> {
        let mut command = Command::new("sh");
        as_account(&mut command, programs.account.as_ref());
        let script =
            "cat >/dev/null; \"$1/pg_ctl\" stop --mode=immediate --wait --pgdata \"$2/cluster\"; rm -rf \"$2\"";
        command
            .args(["-c", script, "sh"])
            .arg(&programs.bin)
            .arg(home)
            .current_dir("/")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map(Self)
            .doing(|| "starting a shell".into())
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}
