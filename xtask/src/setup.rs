//! Required tools of the machine. Installs only what is missing, or prints exactly what to install.
//!
//! Installing system packages requires `apt-get` and root (or `sudo` without a password); rustup and npm require
//! neither. A second run only checks, in well under a second.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{
    paths,
    postgres::programs::{Error, Programs},
    step, supply,
};

/// Purpose of the setup, which determines the tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// The WASM target and npm packages.
    Site,
    /// PostgreSQL programs.
    Postgres,
    /// The two above.
    Run,
    /// PostgreSQL programs, RabbitMQ, nginx, and a library that fakes the clock.
    Faults,
    /// PostgreSQL programs, etcd, HAProxy, and Python.
    Pair,
    /// All of these but the last, a browser, and cargo tools.
    Everything,
}

pub(crate) fn all(need: Need) -> Result<()> {
    step::time("setup", || {
        if !matches!(need, Need::Postgres | Need::Faults | Need::Pair) {
            wasm_target()?;
            npm_parts()?;
        }
        if need != Need::Site {
            postgres()?;
        }
        if need == Need::Everything {
            cargo_tools()?;
            supply::install()?;
            smtp_server()?;
            if chromium().is_none() {
                let elsewhere = "any Chromium or Chrome; TREELINE_CHROMIUM may name it";
                // Not every release has the small one.
                debian("Chromium", &[HEADLESS], elsewhere).or_else(|_| debian("Chromium", &["chromium"], elsewhere))?;
                ensure!(chromium().is_some(), "chromium was installed but is not to be found");
            }
        }
        if matches!(need, Need::Faults | Need::Everything) {
            rabbitmq()?;
            nginx()?;
            faketime()?;
        }
        if need == Need::Everything {
            promtool()?;
        }
        if need == Need::Pair {
            etcd()?;
            haproxy()?;
            python(system_python())?;
        }
        Ok(())
    })
}

/// Chromium without its windows, which takes two thirds of the processor time.
const HEADLESS: &str = "chromium-headless-shell";

/// Finds the browser of the tests.
pub(crate) fn chromium() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TREELINE_CHROMIUM") {
        return Some(named.into());
    }
    let application = PathBuf::from("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome");
    [HEADLESS, "chromium", "chromium-browser", "google-chrome", "google-chrome-stable"]
        .into_iter()
        .find_map(on_path)
        .or_else(|| application.exists().then_some(application))
}

fn on_path(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

fn wasm_target() -> Result<()> {
    let installed = || sysroot().is_ok_and(|root| root.join("lib/rustlib/wasm32-unknown-unknown/lib").exists());
    if installed() {
        return Ok(());
    }
    if on_path("rustup").is_some() {
        let _ = step::run("rustup target add wasm32-unknown-unknown", {
            let mut command = Command::new("rustup");
            command.args(["target", "add", "wasm32-unknown-unknown"]);
            command
        });
    }
    ensure!(
        installed(),
        "Rust cannot compile for the browser here. Install the target: rustup target add wasm32-unknown-unknown \
         (with Debian's own Rust: apt-get install libstd-rust-dev-wasm32)"
    );
    Ok(())
}

fn cargo_tools() -> Result<()> {
    for (program, component) in [("cargo-clippy", "clippy"), ("cargo-fmt", "rustfmt")] {
        if sysroot()?.join("bin").join(program).exists() || on_path(program).is_some() {
            continue;
        }
        let mut command = Command::new("rustup");
        command.args(["component", "add", component]);
        step::run(&format!("rustup component add {component}"), command)?;
    }
    Ok(())
}

fn sysroot() -> Result<PathBuf> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output().context("running rustc")?;
    Ok(String::from_utf8(output.stdout)?.trim().into())
}

fn npm_parts() -> Result<()> {
    let node = Command::new("node").arg("--version").output();
    let major = node.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.trim().strip_prefix('v')?.split('.').next()?.parse::<u32>().ok()
    });
    ensure!(
        major.is_some_and(|major| major >= 20) && on_path("npm").is_some(),
        "Node 20 or newer with npm is needed (it brings wasm-opt, the style bundler and the fonts). Install it from \
         https://nodejs.org or your system's packages"
    );

    npm_parts_of(&paths::end2end())
}

/// Installs the packages of a folder's lock file, once.
pub(crate) fn npm_parts_of(folder: &Path) -> Result<()> {
    let lock = std::fs::read_to_string(folder.join("package-lock.json"))?;
    let mark = folder.join("node_modules").join(".installed-from");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == lock) {
        return Ok(());
    }
    let mut command = Command::new("npm");
    command.args(["ci", "--no-audit", "--no-fund"]).current_dir(folder);
    step::run("npm ci", command)?;
    Ok(std::fs::write(mark, lock)?)
}

/// Python for programs that run under another account, which may be unable to enter the home folder of a Python on the
/// path.
pub(crate) fn system_python() -> &'static str {
    let system = "/usr/bin/python3";
    if Path::new(system).exists() { system } else { "python3" }
}

/// Installs Python with `venv`, which Debian packages separately.
pub(crate) fn python(program: &str) -> Result<()> {
    let is_there = || {
        let mut look = Command::new(program);
        look.args(["-c", "import ensurepip, venv, sys; sys.exit(sys.version_info < (3, 11))"]);
        look.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
    };
    if !is_there() {
        debian("Python 3.11 or newer with venv", &["python3", "python3-venv"], "dnf install python3")?;
        ensure!(is_there(), "Python was installed but is older than 3.11, or has no venv");
    }
    Ok(())
}

/// Folder next to the build with this Python and the packages of a list, and no others.
pub(crate) fn python_environment(name: &str, program: &str, requirements: &Path) -> Result<PathBuf> {
    let home = paths::target()?.join(name);
    let wanted = std::fs::read_to_string(requirements)?;
    let mark = home.join(".installed-from");
    if std::fs::read_to_string(&mark).is_ok_and(|installed| installed == wanted) {
        return Ok(home);
    }
    python(program)?;
    let mut make = Command::new(program);
    make.args(["-m", "venv", "--clear"]).arg(&home);
    step::run("make a folder for Python", make)?;
    let mut install = Command::new(home.join("bin").join("python"));
    install
        .args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r"])
        .arg(requirements);
    step::run("pip install", install)?;
    std::fs::write(mark, wanted)?;
    Ok(home)
}

fn postgres() -> Result<()> {
    match Programs::newest() {
        Ok(_) => return Ok(()),
        Err(Error::NotInstalled) => {}
        Err(other) => return Err(other.into()),
    }
    // Debian's package would create an unused cluster.
    let settings = Path::new("/etc/postgresql-common/createcluster.conf");
    if !settings.exists() && can_install() {
        let script = "mkdir -p /etc/postgresql-common && echo 'create_main_cluster = false' > /etc/postgresql-common/createcluster.conf";
        let _ = as_root(&["sh", "-c", script]).stdout(Stdio::null()).stderr(Stdio::null()).status();
    }
    debian("PostgreSQL 15 or newer", &["postgresql"], "dnf install postgresql-server, or brew install postgresql@17")?;
    Programs::newest()?;
    Ok(())
}

/// Installs RabbitMQ. The tests start their own nodes; a node that the package starts for the machine is left alone.
fn rabbitmq() -> Result<()> {
    let is_there =
        || Path::new("/usr/lib/rabbitmq/bin/rabbitmq-server").exists() || on_path("rabbitmq-server").is_some();
    if !is_there() {
        debian("RabbitMQ", &["rabbitmq-server"], "dnf install rabbitmq-server, or brew install rabbitmq")?;
        ensure!(is_there(), "rabbitmq-server was installed but is not to be found");
    }
    Ok(())
}

/// Installs aiosmtpd, the mail server of the tests. They start their own.
fn smtp_server() -> Result<()> {
    let is_there = || std::env::var_os("TREELINE_AIOSMTPD").is_some() || on_path("aiosmtpd").is_some();
    if !is_there() {
        debian("aiosmtpd", &["python3-aiosmtpd"], "pipx install aiosmtpd")?;
        ensure!(is_there(), "aiosmtpd was installed but is not to be found");
    }
    Ok(())
}

/// Installs nginx, as a proxy for event streams. Debian may start an unused instance for the machine.
fn nginx() -> Result<()> {
    if on_path("nginx").is_none() && !Path::new("/usr/sbin/nginx").exists() {
        debian("nginx", &["nginx"], "dnf install nginx, or brew install nginx")?;
    }
    Ok(())
}

fn etcd() -> Result<()> {
    if on_path("etcd").is_none() {
        debian("etcd", &["etcd-server"], "dnf install etcd, or brew install etcd")?;
    }
    Ok(())
}

fn haproxy() -> Result<()> {
    if on_path("haproxy").is_none() && !Path::new("/usr/sbin/haproxy").exists() {
        debian("HAProxy", &["haproxy"], "dnf install haproxy, or brew install haproxy")?;
    }
    Ok(())
}

/// Installs libfaketime, which changes the clock of a single process.
fn faketime() -> Result<()> {
    if on_path("faketime").is_none() {
        debian("libfaketime", &["faketime"], "dnf install libfaketime, or brew install libfaketime")?;
    }
    Ok(())
}

/// Installs promtool, which checks metrics and alert rules.
fn promtool() -> Result<()> {
    if on_path("promtool").is_none() {
        debian("promtool", &["prometheus"], "brew install prometheus, or https://prometheus.io/download")?;
    }
    Ok(())
}

/// Installs what makes the files of a release.
pub(crate) fn packaging() -> Result<()> {
    let programs = ["dpkg", "strip", "mmdebstrap", "buildah"];
    if programs.iter().any(|program| on_path(program).is_none()) {
        debian(
            "a tool that makes packages",
            &["binutils", "mmdebstrap", "buildah"],
            "only Debian and Ubuntu have all",
        )?;
    }
    supply::cargo_deb()?;
    Ok(())
}

/// Installs what runs the files of a release in clean roots.
pub(crate) fn containers() -> Result<()> {
    let programs = ["podman", "crun", "slirp4netns", "newuidmap", "lintian", "curl", "jq"];
    if programs.iter().any(|program| on_path(program).is_none()) {
        let packages = ["podman", "crun", "slirp4netns", "uidmap", "lintian", "curl", "jq", "catatonit"];
        debian("a tool that runs containers", &packages, "only Debian and Ubuntu have all")?;
    }
    Ok(())
}

/// Installs Debian packages, or prints what to install.
fn debian(what: &str, packages: &[&str], elsewhere: &str) -> Result<()> {
    let list = packages.join(" ");
    if !can_install() {
        bail!(
            "{what} is missing. Install it: sudo apt-get install {list} (elsewhere: {elsewhere}); then run this again"
        );
    }
    let mut update = as_root(&["apt-get", "update"]);
    update.env("DEBIAN_FRONTEND", "noninteractive");
    step::run("apt-get update", update)?;
    let mut install = as_root(&["apt-get", "install", "--yes", "--no-install-recommends"]);
    install.args(packages).env("DEBIAN_FRONTEND", "noninteractive");
    step::run(&format!("apt-get install {list}"), install)
}

fn can_install() -> bool {
    on_path("apt-get").is_some() && (is_root() || sudo_asks_nothing())
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

fn sudo_asks_nothing() -> bool {
    let mut sudo = Command::new("sudo");
    sudo.args(["-n", "true"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    sudo.status().is_ok_and(|status| status.success())
}

/// Command as root, by `sudo` if need be.
pub(crate) fn as_root(words: &[&str]) -> Command {
    if is_root() {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]);
        command
    } else {
        let mut command = Command::new("sudo");
        command.args(["-n", "--preserve-env=DEBIAN_FRONTEND"]).args(words);
        command
    }
}
