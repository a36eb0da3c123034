//! API clients: lints the description, generates clients in four ways, runs them against a server, checks the SDKs, and
//! fuzzes the server.
//!
//! Files of each client are in testing/clients, with versions pinned by lock files. The description comes from the
//! server program (`treeline-server openapi`), and the server is a real one with its own database.

use std::{
    io::{BufRead as _, BufReader, Read as _},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result, ensure};

use crate::{
    paths,
    postgres::throwaway::Throwaway,
    programs,
    rabbit::Rabbit,
    setup,
    step::{self, cargo},
};

/// Duration of the hostile run in seconds. Its requests are random, so it is a separate command and not part of builds.
const HOSTILE_SECONDS: u32 = 60;

/// Token of the server under test, with all permissions.
const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// Folder of the generated clients and of the API documents that they are generated from.
fn folder() -> PathBuf {
    paths::root().join("testing").join("clients")
}

/// Runs linters, generated clients and tus clients.
pub(crate) fn test(postgres: &Throwaway) -> Result<()> {
    prepare()?;
    npm("lint the API's description", "lint")?;
    npm("generate clients for TypeScript", "generate")?;
    npm("compile clients for TypeScript", "check")?;
    let python = python()?;
    let generated = folder().join("generated").join("python");
    step::run("generate a client for Python", {
        let mut command = Command::new(python.with_file_name("openapi-python-client"));
        command.arg("generate").arg("--path").arg(folder().join("generated").join("openapi.json"));
        command.arg("--output-path").arg(generated.join("treeline_api"));
        command.args(["--meta", "none", "--overwrite"]);
        command
    })?;
    step::run("build a client for Rust", {
        let mut command = cargo(["build", "--locked", "--manifest-path"]);
        command.arg(folder().join("rust").join("Cargo.toml")).env("CARGO_TARGET_DIR", rust_target()?);
        command
    })?;

    let server = Server::start(postgres, "treeline_clients")?;
    step::show("run the clients for TypeScript and tus", {
        let mut command = Command::new("npm");
        command.args(["run", "--silent", "test"]).current_dir(folder());
        server.named_to(command)
    })?;
    step::show("run the client for Python", {
        let mut command = Command::new(&python);
        command.arg(folder().join("python").join("program.py")).arg(&generated);
        server.named_to(command)
    })?;
    step::show(
        "run the client for Rust",
        server.named_to(Command::new(rust_target()?.join("debug").join("generated-client"))),
    )?;
    drop(server);
    let [for_python, for_typescript] = step::time("start a private RabbitMQ for each SDK", || {
        Ok([Rabbit::start("python")?, Rabbit::start("typescript")?])
    })?;
    // At the same time, because their tests wait more than they compute.
    step::both(|| python_sdk(postgres, &for_python, &python), || typescript_sdk(postgres, &for_typescript))
}

/// Checks sdk/typescript: generated types, compiled and published files, and scenarios and examples against a server of its own.
fn typescript_sdk(postgres: &Throwaway, rabbit: &Rabbit) -> Result<()> {
    let package = paths::root().join("sdk").join("typescript");
    setup::npm_parts_of(&package)?;
    let command = |program: &str| {
        let mut command = Command::new(program);
        command.current_dir(&package);
        command
    };
    let mut generated = command("node");
    generated.arg("scripts/generate.mjs").arg(folder().join("generated").join("openapi.json")).arg("--check");
    step::run("check the generated file of sdk/typescript", generated)?;
    for (what, script) in [("compile sdk/typescript", "build"), ("check the published files of sdk/typescript", "lint")]
    {
        let mut npm = command("npm");
        npm.args(["run", "--silent", script]);
        step::run(what, npm)?;
    }
    let mut tests = command("npm");
    tests.args(["run", "--silent", "test"]).env("TREELINE_SERVER_BIN", program()?).env("AMQP_URL", &rabbit.url);
    tests.env("DATABASE_URL", fresh_database(postgres, "treeline_sdk_typescript")?);
    step::show("test sdk/typescript", tests)
}

/// Checks sdk/python: generated files, types, scenarios and examples against a server of its own, and the published files.
fn python_sdk(postgres: &Throwaway, rabbit: &Rabbit, python: &Path) -> Result<()> {
    let package = paths::root().join("sdk").join("python");
    let run = |what: &str, arguments: &[&str]| {
        let mut command = Command::new(python);
        command.args(arguments).current_dir(&package).env("PYTHONPATH", package.join("src"));
        command.env("PYTHONDONTWRITEBYTECODE", "1");
        step::run(what, command)
    };
    let description = folder().join("generated").join("openapi.json");
    let description = description.to_str().context("the path of the description is not UTF-8")?;
    run("check the generated files of sdk/python", &["scripts/generate.py", description, "--check"])?;
    run("check the types of sdk/python", &["-m", "mypy"])?;
    let mut tests = Command::new(python);
    tests.args(["-m", "pytest", "-p", "no:cacheprovider"]).current_dir(&package).env("PYTHONDONTWRITEBYTECODE", "1");
    tests.env("PYTHONPATH", package.join("src")).env("TREELINE_SERVER_BIN", program()?).env("AMQP_URL", &rabbit.url);
    tests.env("DATABASE_URL", fresh_database(postgres, "treeline_sdk")?);
    step::show("test sdk/python", tests)?;
    let dist = paths::target()?.join("sdk-python");
    if dist.exists() {
        std::fs::remove_dir_all(&dist)?;
    }
    let to = dist.to_str().context("the path of the target folder is not UTF-8")?;
    run("build sdk/python", &["-m", "build", "--no-isolation", "--outdir", to])?;
    let built = paths::files_below(&dist);
    let built: Vec<&str> = built.iter().filter_map(|file| file.to_str()).collect();
    run("check the published files of sdk/python", &[&["-m", "twine", "check", "--strict"], &built[..]].concat())
}

/// Creates a database, in place of one of this name, and returns its URL.
fn fresh_database(postgres: &Throwaway, database: &str) -> Result<String> {
    let admin = postgres.url();
    for statement in [format!("drop database if exists {database} with (force)"), format!("create database {database}")]
    {
        let output = Command::new(postgres.bin().join("psql"))
            .args([admin, "--quiet", "--set", "ON_ERROR_STOP=1", "--command", &statement])
            .output()
            .context("running psql")?;
        ensure!(output.status.success(), "psql: {}", String::from_utf8_lossy(&output.stderr));
    }
    let (base, _) = admin.rsplit_once('/').context("the URL of PostgreSQL names no database")?;
    Ok(format!("{base}/{database}"))
}

/// Sends malformed requests to every operation: each response must match the description.
pub(crate) fn hostile(postgres: &Throwaway, seconds: Option<u32>) -> Result<()> {
    prepare()?;
    let python = python()?;
    let server = Server::start(postgres, "treeline_hostile")?;
    let mut command = Command::new(python);
    command.arg(folder().join("hostile").join("run.py")).arg(folder().join("generated").join("openapi.json"));
    command.arg(seconds.unwrap_or(HOSTILE_SECONDS).to_string());
    step::show("try to break the API", server.named_to(command))
}

/// Builds the server program, writes its description to files, and installs npm packages.
fn prepare() -> Result<()> {
    programs::build()?;
    setup::npm_parts_of(&folder())?;
    let generated = folder().join("generated");
    std::fs::create_dir_all(&generated)?;
    for (file, arguments) in [("openapi.json", &["openapi"][..]), ("openapi-3.0.json", &["openapi", "--3.0"])] {
        let output = Command::new(program()?).args(arguments).output().context("running treeline-server openapi")?;
        ensure!(output.status.success(), "treeline-server openapi: {}", String::from_utf8_lossy(&output.stderr));
        let file = generated.join(file);
        // An unchanged file keeps its modification time, so that nothing derived from it is rebuilt.
        if std::fs::read(&file).ok().as_ref() != Some(&output.stdout) {
            std::fs::write(&file, output.stdout)?;
        }
    }
    Ok(())
}

fn program() -> Result<PathBuf> {
    Ok(paths::target()?.join("debug").join("treeline-server"))
}

fn rust_target() -> Result<PathBuf> {
    Ok(paths::target()?.join("clients"))
}

fn npm(what: &str, script: &str) -> Result<()> {
    let mut command = Command::new("npm");
    command.args(["run", "--silent", script]).current_dir(folder());
    step::run(what, command)
}

/// Python with the packages of testing/clients/python/requirements.txt, in a folder next to the build.
fn python() -> Result<PathBuf> {
    setup::python_environment("clients-python", "python3", &folder().join("python").join("requirements.txt"))
        .map(|home| home.join("bin").join("python"))
}

/// Running server with its own database; it ends when the value is dropped.
struct Server {
    url: String,
    child: Child,
}

impl Server {
    fn start(postgres: &Throwaway, database: &str) -> Result<Self> {
        let url = fresh_database(postgres, database)?;
        let data = paths::target()?.join("clients-data").join(database);
        if data.exists() {
            std::fs::remove_dir_all(&data)?;
        }
        std::fs::create_dir_all(&data)?;
        let log = std::fs::File::create(data.join("server.log"))?;
        let mut child = Command::new(program()?)
            .env("DATABASE_URL", url)
            .env("TREELINE_LISTEN", "127.0.0.1:0")
            .env("TREELINE_DATA_DIR", &data)
            .env("TREELINE_BOOTSTRAP_TOKEN", TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .context("starting treeline-server")?;
        let mut output = BufReader::new(child.stdout.take().context("the server has no output")?);
        let mut line = String::new();
        let url = loop {
            line.clear();
            if output.read_line(&mut line)? == 0 {
                let _ = child.wait();
                let log = std::fs::read_to_string(data.join("server.log")).unwrap_or_default();
                anyhow::bail!("the server did not start: {log}");
            }
            if let Some(url) = line.trim().strip_prefix("Treeline is listening on ") {
                break url.to_owned();
            }
        };
        // Drain the rest of its output, so that it never blocks on a full pipe.
        std::thread::spawn(move || output.read_to_end(&mut Vec::new()));
        Ok(Self { url, child })
    }

    /// Adds the server's address to the environment of a program.
    fn named_to(&self, mut command: Command) -> Command {
        command.env("TREELINE_URL", &self.url).env("TREELINE_TOKEN", TOKEN).env("CI", "true");
        command
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
