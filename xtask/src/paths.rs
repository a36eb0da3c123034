//! Paths, so that no other module repeats one.

use std::{
    fs::File,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use anyhow::{Context, Result, ensure};

/// Variable with the admin URL of the tests' PostgreSQL, in which each test creates its own database.
pub(crate) const TEST_POSTGRES: &str = "TREELINE_TEST_POSTGRES";

/// Root of the workspace in which Cargo runs this program. Copies of the repository that share a target directory share
/// the program, too.
pub(crate) fn root() -> &'static Path {
    static ROOT: OnceLock<PathBuf> = OnceLock::new();
    ROOT.get_or_init(|| {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        Path::new(&package).parent().unwrap_or(Path::new(".")).to_owned()
    })
}

/// Cargo's target directory, including custom locations.
pub(crate) fn target() -> Result<&'static Path> {
    static TARGET: OnceLock<PathBuf> = OnceLock::new();
    if let Some(target) = TARGET.get() {
        return Ok(target);
    }
    let output =
        Command::new("cargo").args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    let target = metadata["target_directory"].as_str().context("cargo metadata names no target directory")?;
    Ok(TARGET.get_or_init(|| target.into()))
}

/// Waits for other commands on this machine with the same lock, and blocks others while held.
pub(crate) fn lock(what: &str) -> Result<File> {
    let path = target()?.join(format!("{what}.lock"));
    let lock = File::options().create(true).truncate(false).write(true).open(&path)?;
    lock.lock().with_context(|| format!("locking {}", path.display()))?;
    Ok(lock)
}

/// Folder of the npm packages.
pub(crate) fn end2end() -> PathBuf {
    root().join("end2end")
}

/// Path of a program installed by npm.
pub(crate) fn npm_program(name: &str) -> PathBuf {
    end2end().join("node_modules").join(".bin").join(name)
}

/// Lists all files below a folder, sorted; empty if there is no folder.
pub(crate) fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.path().is_dir() {
                folders.push(entry.path());
            } else {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// Fingerprint of files, names and contents, as 16 hexadecimal digits.
pub(crate) fn fingerprint(files: &[PathBuf], base: &Path) -> Result<String> {
    use sha2::{Digest, Sha256};
    use std::fmt::Write;
    let mut all = Sha256::new();
    for file in files {
        let name = file.strip_prefix(base).unwrap_or(file).to_string_lossy().into_owned();
        let content = std::fs::read(file).with_context(|| format!("reading {}", file.display()))?;
        all.update(name.len().to_be_bytes());
        all.update(name);
        all.update(content.len().to_be_bytes());
        all.update(content);
    }
    Ok(all.finalize().iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    }))
}
