//! The server of an earlier revision, for the rehearsal of an upgrade: built in a temporary worktree.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

use crate::{
    paths,
    postgres::throwaway::Throwaway,
    prepare,
    step::{self, cargo},
};

/// Builds the server of this revision; by default, of the newest one before the newest migration. Returns its program;
/// `None` if there is no migration after the baseline, so that there is nothing to upgrade from.
pub(super) fn build(from: Option<&str>) -> Result<Option<PathBuf>> {
    let from = match from {
        Some(revision) => Some(revision.to_owned()),
        None => before_newest_migration()?,
    };
    let Some(from) = from else { return Ok(None) };
    let revision = git(&["rev-parse", "--verify", "--end-of-options", &format!("{from}^{{commit}}")])?;
    println!("The old server is that of {}", git(&["log", "-1", "--format=%h (%cs) %s", &revision])?);
    let folder = paths::target()?.join("old-server").join("source");
    let path = folder.to_str().context("a folder with a readable name")?;
    if folder.exists() {
        // Of a run that was interrupted.
        git(&["worktree", "remove", "--force", path])?;
    }
    git(&["worktree", "add", "--detach", path, &revision])?;
    let built = build_in(&folder);
    git(&["worktree", "remove", "--force", path])?;
    built.map(Some)
}

/// The revision before the one that added the newest migration.
fn before_newest_migration() -> Result<Option<String>> {
    let migrations = paths::files_below(&paths::root().join("migrations"));
    if migrations.len() < 2 {
        return Ok(None);
    }
    let newest = migrations.last().context("a migration")?;
    let newest = newest.to_str().context("a migration with a readable name")?;
    let added = git(&["log", "-1", "--diff-filter=A", "--format=%H", "--", newest])?;
    ensure!(!added.is_empty(), "{newest} is not committed: name a revision with --from");
    Ok(Some(format!("{added}^")))
}

fn build_in(folder: &Path) -> Result<PathBuf> {
    // No page is opened, so the site is not built.
    fs::create_dir_all(folder.join("site"))?;
    fs::write(folder.join("site").join("hash"), "none\n")?;
    // Not beside the build of the working copy: for cargo, both are the same packages, and the newer build of one would
    // count as that of the other.
    let target = paths::target()?.join("old-server");
    // Its statements are checked against its schema: between two releases, `.sqlx` may lack some.
    let postgres = Throwaway::start()?;
    let url = step::time("apply the old migrations", || prepare::migrated(&postgres, folder))?;
    let mut build = cargo(["build", "--package", "server", "--bin", "treeline-server"]);
    build.current_dir(folder).env("CARGO_TARGET_DIR", &target).env("SQLX_OFFLINE", "false").env("DATABASE_URL", url);
    step::run("build the old server", build)?;
    Ok(target.join("debug").join("treeline-server"))
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).current_dir(paths::root()).output().context("running git")?;
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}
