//! Steps: one line each, with the duration; the output of a failing program is printed completely.
//!
//! During a long step, a terminal shows the program's latest line; a build log gets a progress line every half minute.

use std::{
    io::{BufRead, BufReader, IsTerminal, Read, Write, stdout},
    process::{Command, Stdio},
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow, bail};

const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// Profile of Cargo for packages and benchmarks.
pub(crate) const OPTIMIZED: &str = "optimized";

/// Cargo command that uses the committed `.sqlx` instead of a database.
pub(crate) fn cargo<const N: usize>(arguments: [&str; N]) -> Command {
    let mut command = Command::new("cargo");
    command.args(arguments).env("SQLX_OFFLINE", "true");
    command
}

/// Runs a function and prints its duration.
pub(crate) fn time<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let began = Instant::now();
    let done = work();
    line(name, began, done.is_ok());
    done.with_context(|| name.to_owned())
}

/// Runs two functions at the same time, and returns when both have ended.
pub(crate) fn both(one: impl FnOnce() -> Result<()> + Send, other: impl FnOnce() -> Result<()>) -> Result<()> {
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        one.join().map_err(|_| anyhow!("a step panicked"))??;
        other
    })
}

/// Runs a program; prints its output only if it fails.
pub(crate) fn run(name: &str, command: Command) -> Result<()> {
    follow(name, command, false)
}

/// Runs a program with visible output, such as tests.
pub(crate) fn show(name: &str, command: Command) -> Result<()> {
    println!("==> {name} …");
    follow(name, command, true)
}

fn line(name: &str, began: Instant, well: bool) {
    let seconds = began.elapsed().as_secs_f32();
    let clear = if stdout().is_terminal() { "\r\x1b[K" } else { "" };
    println!("{clear}==> {name} … {seconds:.1} s{}", if well { "" } else { "  FAILED" });
}

fn follow(name: &str, mut command: Command, shown: bool) -> Result<()> {
    let began = Instant::now();
    let program = command.get_program().to_string_lossy().into_owned();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("{name}: starting {program}"))?;
    let (sender, lines) = channel();
    let readers = [
        child.stdout.take().map(|stream| reader(stream, sender.clone())),
        child.stderr.take().map(|stream| reader(stream, sender)),
    ];

    let mut output = String::new();
    let mut last = String::new();
    loop {
        match lines.recv_timeout(SIGN_OF_LIFE) {
            Ok(line) if shown => println!("{line}"),
            Ok(line) => {
                output.push_str(&line);
                output.push('\n');
                last = line;
                if stdout().is_terminal() {
                    let short: String = last.trim().chars().take(90).collect();
                    print!("\r\x1b[K    {name}: {:.0} s  {short}", began.elapsed().as_secs_f32());
                    stdout().flush()?;
                }
            }
            Err(RecvTimeoutError::Timeout) if !stdout().is_terminal() => {
                println!("    {name}: {:.0} s  {}", began.elapsed().as_secs_f32(), last.trim());
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    for reader in readers.into_iter().flatten() {
        let _ = reader.join();
    }
    let status = child.wait()?;
    line(name, began, status.success());
    if !status.success() {
        print!("{output}");
        bail!("{name}: {program} ended with {status}");
    }
    Ok(())
}

fn reader(stream: impl Read + Send + 'static, lines: Sender<String>) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        while matches!(stream.read_until(b'\n', &mut bytes), Ok(n) if n > 0) {
            let line = String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']).to_owned();
            if lines.send(line).is_err() {
                return;
            }
            bytes.clear();
        }
    })
}
