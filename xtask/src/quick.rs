//! Checks of a small change, in two minutes: format, layout and documents, unit tests of the changed crates, and a few
//! scenarios if the change can reach them.
//!
//! A change is what differs from the last commit; without any, the last commit itself. `cargo xtask test` is what decides.

use std::{collections::BTreeSet, process::Command};

use anyhow::{Context, Result, ensure};

use crate::{
    paths,
    paths::TEST_POSTGRES,
    setup::{self, Need},
    step::{self, cargo},
    test::postgres,
};

/// Tests of the server that only read files, compiled without the server.
const FILE_TESTS: [&str; 4] = ["architecture", "docs", "module_cycles", "promises"];
/// Crates with unit tests that need no browser, by their folders.
const CRATES: [&str; 6] = ["app", "client", "domain", "engine", "examples", "server"];
/// Folders whose changes can break a scenario.
const BELOW_SCENARIOS: [&str; 8] =
    [".sqlx", "client", "Cargo.lock", "domain", "engine", "examples", "migrations", "server"];
/// Scenarios that together use most of the engine.
const SCENARIOS: [&str; 3] = ["payroll_feeds", "a_refund_is_made_once", "an_import_returns"];

pub(crate) fn run() -> Result<()> {
    let changed = changed_folders()?;
    println!("    changed: {}", changed.iter().map(String::as_str).collect::<Vec<_>>().join(", "));
    step::run("check the format", cargo(["fmt", "--all", "--check"]))?;
    for name in FILE_TESTS {
        file_test(name)?;
    }
    for name in CRATES.into_iter().filter(|name| changed.contains(*name)) {
        let mut tests = cargo(["test", "--package", name, "--quiet", "--lib"]);
        match name {
            // Texts of pages come from the server's half of the crate.
            "app" => tests.args(["--features", "ssr"]),
            "client" => tests.arg("--bins"),
            _ => &mut tests,
        };
        tests.env_remove("DATABASE_URL");
        step::run(&format!("unit tests of {name}"), tests)?;
    }
    if BELOW_SCENARIOS.iter().any(|folder| changed.contains(*folder)) {
        scenarios()?;
    }
    Ok(())
}

/// First folders, or files at the root, of everything that has changed.
fn changed_folders() -> Result<BTreeSet<String>> {
    let mut files = git(&["diff", "--name-only", "HEAD"])?;
    files.push_str(&git(&["ls-files", "--others", "--exclude-standard"])?);
    if files.trim().is_empty() {
        files = git(&["diff", "--name-only", "HEAD~1", "HEAD"])?;
    }
    Ok(files.lines().map(|file| file.split('/').next().unwrap_or(file).to_owned()).collect())
}

fn git(arguments: &[&str]) -> Result<String> {
    let output = Command::new("git").args(arguments).output().context("running git")?;
    ensure!(output.status.success(), "git {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Compiles and runs a test that depends only on the standard library.
fn file_test(name: &str) -> Result<()> {
    let server = paths::root().join("server");
    let folder = paths::target()?.join("quick");
    std::fs::create_dir_all(&folder)?;
    let program = folder.join(name);
    let mut compile = Command::new("rustc");
    compile.args(["--test", "--edition", "2024", "-o"]).arg(&program);
    compile.arg(server.join("tests").join(format!("{name}.rs"))).env("CARGO_MANIFEST_DIR", &server);
    step::run(&format!("compile {name}"), compile)?;
    let mut test = Command::new(program);
    test.arg("--quiet").current_dir(&server);
    step::run(&format!("test {name}"), test)
}

fn scenarios() -> Result<()> {
    // A database that is there is used; the value keeps one that is started here.
    let (url, _started) = if let Ok(url) = std::env::var(TEST_POSTGRES) {
        (url, None)
    } else {
        setup::all(Need::Postgres)?;
        let started = postgres()?;
        (started.url().to_owned(), Some(started))
    };
    let mut tests = cargo(["test", "--package", "examples", "--test", "scenarios", "--quiet", "--"]);
    tests.args(SCENARIOS).env(TEST_POSTGRES, url).env_remove("DATABASE_URL");
    step::run("some scenarios", tests)
}
