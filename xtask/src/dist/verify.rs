//! Checks that the files of a release work: each is installed in a clean root and used, as `docs/installing.md` says.
//!
//! Apart from `cargo xtask test`: it downloads Debian packages and starts containers. Every script has a total limit,
//! after which everything it started is killed.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result, ensure};

use super::{Dist, VERSION, oci};
use crate::{paths, setup, step};

/// Limit of a script, in seconds.
const LIMIT: &str = "600";

/// Checks everything.
pub(crate) fn all(dist: &Dist, binaries: &Path) -> Result<()> {
    setup::containers()?;
    same_twice(dist, binaries)?;
    chart(dist)?;
    for name in ["treeline", "treeline-standalone"] {
        oci::check_archive(&dist.image_archive(name), &format!("{name}:{VERSION}"))?;
    }
    script(dist, "deb.sh")?;
    script(dist, "images.sh")
}

/// Makes everything again from the same programs; the checksums must be the same.
fn same_twice(dist: &Dist, binaries: &Path) -> Result<()> {
    let again = Dist::new(paths::target()?.join("dist-again"), binaries)?;
    again.make()?;
    let sums = |dist: &Dist| fs::read_to_string(dist.folder.join("SHA256SUMS"));
    let (first, second) = (sums(dist)?, sums(&again)?);
    ensure!(first == second, "the same programs gave different files:\n{first}\n{second}");
    fs::remove_dir_all(&again.folder)?;
    println!("    the same programs gave the same files");
    Ok(())
}

/// Lints and renders the chart, and checks the Compose file.
fn chart(dist: &Dist) -> Result<()> {
    setup::python("python3")?;
    let requirements = paths::root().join("packaging/verify/requirements.txt");
    let wanted = fs::read_to_string(&requirements)?;
    let python = paths::target()?.join("dist-python");
    let mark = python.join("installed-from");
    if !fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        let mut create = Command::new("python3");
        create.args(["-m", "venv", "--clear"]).arg(&python);
        step::run("create a Python environment", create)?;
        let mut install = Command::new(python.join("bin/pip"));
        install.args(["install", "--quiet", "--requirement"]).arg(&requirements);
        step::run("install Helm and the schemas", install)?;
        fs::write(&mark, wanted)?;
    }
    let mut check = Command::new(python.join("bin/python"));
    check.arg(paths::root().join("packaging/verify/chart.py"));
    let chart =
        paths::files_below(&dist.folder).into_iter().find(|file| file.extension().is_some_and(|end| end == "tgz"));
    check.arg(chart.context("there is no chart")?).arg(dist.folder.join("compose.yaml"));
    step::show("check the chart and the Compose file", check)
}

/// Runs a script of `packaging/verify` in a mount namespace of its own.
fn script(dist: &Dist, name: &str) -> Result<()> {
    let work = paths::target()?.join("dist-verify");
    fs::create_dir_all(&work)?;
    let mut command =
        setup::as_root(&["timeout", "--kill-after=30", LIMIT, "unshare", "--mount", "--propagation=private"]);
    command.arg(paths::root().join("packaging/verify").join(name)).arg(&dist.folder).arg(&work);
    step::show(&format!("verify/{name}"), command)
}
