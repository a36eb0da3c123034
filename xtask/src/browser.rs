//! Browser tests: Chromium against the real server program, driven by Node's test runner.
//!
//! Their settings are passed in the environment; `end2end/harness.mjs` reads them.

use std::{path::Path, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    paths,
    paths::TEST_POSTGRES,
    postgres::throwaway::Throwaway,
    setup,
    step::{self, cargo},
};

/// Yes if tests leave pictures of pages in `end2end/screenshots` for review.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pictures {
    Yes,
    No,
}

/// Files whose tests expect a change to be seen within seconds: one runs at a time.
const TIMED: [&str; 7] = ["callbacks", "failures", "job", "lists", "notices", "stream", "topics"];

/// Runs the test files whose names contain the filter. The programs must have been built.
pub(crate) fn test(postgres: &Throwaway, filter: Option<&str>, pictures: Pictures) -> Result<()> {
    run(postgres, "test in the browser", 1, pictures, |name| name.contains(filter.unwrap_or_default()))
}

/// Runs the files that may run beside each other, two at a time.
pub(crate) fn test_untimed(postgres: &Throwaway) -> Result<()> {
    run(postgres, "test in the browser", 2, Pictures::No, |name| !TIMED.contains(&name))
}

/// Runs the others, one at a time.
pub(crate) fn test_timed(postgres: &Throwaway) -> Result<()> {
    run(postgres, "test in the browser what has its time", 1, Pictures::No, |name| TIMED.contains(&name))
}

/// Runs test files by their names, without `.test.mjs`.
fn run(
    postgres: &Throwaway,
    step: &str,
    at_once: usize,
    pictures: Pictures,
    chosen: impl Fn(&str) -> bool,
) -> Result<()> {
    let built = paths::target()?.join("debug");
    let chromium = setup::chromium().context("Chromium is missing; run: cargo xtask setup")?;

    let folder = paths::end2end().join("tests");
    let files: Vec<_> = paths::files_below(&folder)
        .into_iter()
        .filter(|file| {
            let name = file.strip_prefix(&folder).unwrap_or(file).to_string_lossy().into_owned();
            name.strip_suffix(".test.mjs").is_some_and(&chosen)
        })
        .collect();
    ensure!(!files.is_empty(), "no test file in end2end/tests has that in its name");
    migrate_template(postgres, &built)?;

    let mut node = Command::new("node");
    node.args(["--test", "--test-reporter=spec", &format!("--test-concurrency={at_once}")])
        .args(files)
        .current_dir(paths::end2end())
        .env(TEST_POSTGRES, postgres.url())
        .env("TREELINE_TEST_TEMPLATE", TEMPLATE)
        .env("TREELINE_PSQL", postgres.bin().join("psql"))
        .env("TREELINE_SERVER_BIN", built.join("treeline-server"))
        .env("TREELINE_CLIENT_BIN", built.join("treeline"))
        .env("TREELINE_CHROMIUM", chromium)
        .env_remove("DATABASE_URL");
    if pictures == Pictures::Yes {
        node.env("TREELINE_SCREENSHOTS", "1");
    }
    step::show(step, node)
}

/// Database with the schema of today, which each test copies.
const TEMPLATE: &str = "treeline_e2e_template";

fn migrate_template(postgres: &Throwaway, built: &Path) -> Result<()> {
    let mut create = Command::new(postgres.bin().join("psql"));
    let statements = [format!("drop database if exists {TEMPLATE}"), format!("create database {TEMPLATE}")];
    create.args(["-Xq", "-d", postgres.url(), "-c", &statements[0], "-c", &statements[1]]);
    step::run("create a database for the tests to copy", create)?;
    let server = postgres.url().strip_suffix("/postgres").context("the URL of a database")?;
    let mut migrate = Command::new(built.join("treeline-server"));
    migrate.arg("migrate").env("DATABASE_URL", format!("{server}/{TEMPLATE}"));
    step::run("migrate it", migrate)
}

/// Renders every page in its states and takes the pictures of docs/gallery; with a folder of prototypes, also those of
/// docs/gallery/pairs.
pub(crate) fn gallery(design: Option<&Path>) -> Result<()> {
    let pages = paths::target()?.join("gallery");
    let mut draw = cargo(["run", "--package", "app", "--features", "ssr", "--example", "gallery", "--"]);
    draw.arg(&pages);
    step::run("draw the pages", draw)?;
    let chromium = setup::chromium().context("Chromium is missing; run: cargo xtask setup")?;
    let (site, pictures) = (paths::root().join("site"), paths::root().join("docs").join("gallery"));
    let node = |script: &str, folders: &[&Path]| {
        let mut node = Command::new("node");
        node.arg(paths::end2end().join(script)).args(folders).env("TREELINE_CHROMIUM", &chromium);
        node
    };
    step::run("take the pictures", node("gallery.mjs", &[&pages, &site, &pictures]))?;
    let Some(design) = design else { return Ok(()) };
    step::run("draw the pairs", node("pairs.mjs", &[&pages, &site, design, &pictures.join("pairs")]))
}
