//! Development server: builds, runs, watches the sources, and restarts what has changed.
//!
//! Files are compared by their modification times, twice a second: no library is needed for that, and a few hundred files
//! take a millisecond. If a build fails, the running server stays.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, SystemTime},
};

use anyhow::{Context, Result, bail};

use crate::{
    paths,
    setup::{self, Need},
    site,
    step::{self, cargo},
};

/// Pause between two looks at the files.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Sources of the site. Those of the pages belong to the server as well.
const SITE: [&str; 4] = ["app", "domain", "frontend", "style"];
/// Sources of the server.
const SERVER: [&str; 7] = [".sqlx", "app", "client", "domain", "engine", "migrations", "server"];

type Times = BTreeMap<PathBuf, SystemTime>;

/// Runs until the server ends, for example by Ctrl-C.
pub(crate) fn run(arguments: &[String]) -> Result<()> {
    setup::all(Need::Run)?;
    site::build(site::Kind::Quick)?;
    build_server()?;
    let (mut of_site, mut of_server) = (times(&SITE), times(&SERVER));
    let mut server = Server::start(arguments)?;
    loop {
        thread::sleep(LOOK_EVERY);
        if let Some(status) = server.0.try_wait()? {
            if status.success() {
                return Ok(());
            }
            bail!("the server ended with {status}");
        }
        let (site_now, server_now) = (times(&SITE), times(&SERVER));
        // A look later the same: whoever writes files has finished.
        thread::sleep(LOOK_EVERY);
        if (site_now != times(&SITE)) || (server_now != times(&SERVER)) {
            continue;
        }
        let is_site = std::mem::replace(&mut of_site, site_now.clone()) != site_now;
        let is_server = std::mem::replace(&mut of_server, server_now.clone()) != server_now;
        if let Err(error) = rebuild(is_site, is_server) {
            println!("    {error:#}; the server before the change keeps running");
        } else if is_site || is_server {
            server.stop()?;
            server = Server::start(arguments)?;
            println!("    restarted; reload the page");
        }
    }
}

fn rebuild(is_site: bool, is_server: bool) -> Result<()> {
    if is_site {
        site::build(site::Kind::Quick)?;
    }
    if is_server { build_server() } else { Ok(()) }
}

fn build_server() -> Result<()> {
    step::run("build the server", cargo(["build", "--package", "server", "--bin", "treeline-server"]))
}

/// Modification times of all files below folders of the workspace.
fn times(folders: &[&str]) -> Times {
    let files = folders.iter().flat_map(|folder| paths::files_below(&paths::root().join(folder)));
    let time = |file: PathBuf| modified(&file).map(|at| (file, at));
    files.filter_map(time).collect()
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).ok()?.modified().ok()
}

/// Running server; it is stopped when the value is dropped.
struct Server(Child);

impl Server {
    fn start(arguments: &[String]) -> Result<Self> {
        let program = paths::target()?.join("debug").join("treeline-server");
        Ok(Self(Command::new(program).args(arguments).spawn().context("starting treeline-server")?))
    }

    /// Stops it as an operator does, so that it finishes its requests.
    fn stop(&mut self) -> Result<()> {
        if let Some(process) = rustix::process::Pid::from_raw(self.0.id().cast_signed()) {
            rustix::process::kill_process(process, rustix::process::Signal::TERM)?;
        }
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
