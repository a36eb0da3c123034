//! Cache of checked statements, `.sqlx/`: every `query!` of the server against the migrations.
//!
//! A throwaway database gets the migrations; the server is compiled against it while sqlx's macros write their results
//! to a folder, which becomes `.sqlx/`. The schema is created by psql, not by the server, so this works even if the
//! server does not compile yet.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    paths,
    postgres::throwaway::Throwaway,
    step::{self, cargo},
};

/// Replaces `.sqlx/`.
pub(crate) fn write(postgres: &Throwaway) -> Result<()> {
    let _alone = paths::lock("sqlx-prepare")?;
    let fresh = compile_statements(postgres)?;
    let committed = paths::root().join(".sqlx");
    let (old, new) = (cached(&committed)?, cached(&fresh)?);
    std::fs::create_dir_all(&committed)?;
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        std::fs::remove_file(committed.join(name))?;
    }
    for (name, content) in new.iter().filter(|(name, content)| old.get(*name) != Some(content)) {
        std::fs::write(committed.join(name), content)?;
    }
    println!("    {} statements in .sqlx/", new.len());
    std::fs::write(mark()?, inputs()?)?;
    Ok(())
}

/// Fails if `.sqlx/` differs from the output of [`write`]. Skipped if its inputs are unchanged since the last
/// successful check.
pub(crate) fn check(postgres: &Throwaway) -> Result<()> {
    if std::fs::read_to_string(mark()?).is_ok_and(|checked| inputs().is_ok_and(|inputs| checked == inputs)) {
        return Ok(());
    }
    let _alone = paths::lock("sqlx-prepare")?;
    let (old, new) = (cached(&paths::root().join(".sqlx"))?, cached(&compile_statements(postgres)?)?);
    let mut differences = Vec::new();
    differences.extend(new.iter().filter(|(n, _)| !old.contains_key(*n)).map(|(_, c)| ("missing", c)));
    differences.extend(old.iter().filter(|(n, _)| !new.contains_key(*n)).map(|(_, c)| ("not used any more", c)));
    differences.extend(new.iter().filter(|(n, c)| old.get(*n).is_some_and(|o| o != *c)).map(|(_, c)| ("changed", c)));
    for (what, content) in &differences {
        let statement: serde_json::Value = serde_json::from_str(content)?;
        println!("--- {what} in .sqlx/:\n{}", statement["query"].as_str().unwrap_or(content));
    }
    ensure!(differences.is_empty(), "{} statements differ from .sqlx/; run: cargo xtask prepare", differences.len());
    std::fs::write(mark()?, inputs()?)?;
    Ok(())
}

/// Compiles the server against a fresh schema; returns the folder of sqlx's results.
fn compile_statements(postgres: &Throwaway) -> Result<PathBuf> {
    let url = step::time("apply the migrations", || migrated(postgres, paths::root()))?;
    let folder = paths::target()?.join("sqlx-prepare");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;

    // The macros write only when they run, and cargo runs them only for a source that is newer than its last build. The
    // modification time is restored afterwards, so that other builds of the same source stay fresh.
    let source = File::options().append(true).open(paths::root().join("engine/src/lib.rs"))?;
    let written_at = source.metadata()?.modified()?;
    source.set_modified(std::time::SystemTime::now())?;
    let mut compile = cargo(["check", "--package", "engine", "--all-targets"]);
    compile.env("SQLX_OFFLINE", "false").env("SQLX_OFFLINE_DIR", &folder).env("DATABASE_URL", &url);
    let compiled = step::run("check every statement", compile);
    source.set_modified(written_at)?;
    compiled.map(|()| folder)
}

/// Creates a database with the schema of the `migrations/` of this checkout; returns its URL.
pub(crate) fn migrated(postgres: &Throwaway, checkout: &Path) -> Result<String> {
    let psql = |url: &str| {
        let mut command = Command::new(postgres.bin().join("psql"));
        command.args(["--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname"]).arg(url);
        command
    };
    let run = |mut command: Command| -> Result<()> {
        let output = command.output().context("running psql")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    };
    let mut create = psql(postgres.url());
    create.args(["--command", "drop database if exists statements", "--command", "create database statements"]);
    run(create)?;

    let (base, _) = postgres.url().rsplit_once('/').context("a URL without a database")?;
    let url = format!("{base}/statements");
    for file in paths::files_below(&checkout.join("migrations")) {
        if file.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let mut apply = psql(&url);
        if !std::fs::read_to_string(&file)?.starts_with("-- no-transaction") {
            apply.arg("--single-transaction");
        }
        apply.arg("--file").arg(&file);
        run(apply).with_context(|| file.display().to_string())?;
    }
    Ok(url)
}

/// Statements of a folder, by file name.
fn cached(folder: &Path) -> Result<BTreeMap<String, String>> {
    let mut all = BTreeMap::new();
    for file in paths::files_below(folder) {
        let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
            bail!("{} has no name", file.display())
        };
        if name.starts_with("query-") {
            all.insert(name.to_owned(), std::fs::read_to_string(&file)?);
        }
    }
    Ok(all)
}

fn mark() -> Result<PathBuf> {
    Ok(paths::target()?.join("sqlx-prepared"))
}

/// Fingerprint of everything that `.sqlx/` depends on, and of itself.
fn inputs() -> Result<String> {
    let root = paths::root();
    let mut files = vec![root.join("Cargo.lock"), root.join("engine/Cargo.toml")];
    for folder in ["engine/src", "migrations", ".sqlx"] {
        files.extend(paths::files_below(&root.join(folder)));
    }
    paths::fingerprint(&files, root)
}
