//! Output of a tree in the terminal: progress bar, live lines, and their texts.
//!
//! Names, messages and errors are untrusted, so control characters never reach the terminal.

use std::{
    collections::HashMap,
    io::{ErrorKind, IsTerminal, Write as _},
};

use client::{Client, Watch, WatchEvent};
use domain::{Item, Job, JobStatus, dispatch::progress::grouped, id::Uuid};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use super::Exit;

/// Prints one document on one line.
pub(super) fn json(document: &impl Serialize) {
    let line = serde_json::to_string(document).unwrap_or_default();
    print_line(&line);
}

/// Prints each document on a line of its own, or else a table.
pub(super) fn list<T: Serialize, const N: usize>(
    documents: &[T],
    as_json: bool,
    columns: [&str; N],
    row: impl Fn(&T) -> [String; N],
) {
    if as_json {
        documents.iter().for_each(json);
    } else if documents.is_empty() {
        eprintln!("None.");
    } else {
        table(columns, &documents.iter().map(row).collect::<Vec<_>>());
    }
}

/// Prints rows below a header, in columns of equal width.
fn table<const N: usize>(columns: [&str; N], rows: &[[String; N]]) {
    let rows: Vec<[String; N]> = rows.iter().map(|row| row.each_ref().map(|cell| plain(cell))).collect();
    let widths: [usize; N] = std::array::from_fn(|n| {
        let cells = rows.iter().map(|row| row[n].chars().count());
        cells.chain([columns[n].len()]).max().unwrap_or_default()
    });
    let print_row = |cells: [&str; N]| {
        let cells = cells.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}"));
        print_line(cells.collect::<Vec<_>>().join("  ").trim_end());
    };
    print_row(columns);
    for row in &rows {
        print_row(row.each_ref().map(String::as_str));
    }
}

/// Prints a line to standard output.
pub(super) fn print_line(line: &str) {
    print(format!("{line}\n").as_bytes());
}

/// Writes to standard output. A closed pipe (`| head`) ends the program without an error, a full disk with one.
pub(super) fn print(bytes: &[u8]) {
    let mut output = std::io::stdout().lock();
    match output.write_all(bytes).and_then(|()| output.flush()) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(error) => {
            eprintln!("treeline: standard output cannot be written: {error}");
            std::process::exit(1);
        }
    }
}

/// One line without control characters.
pub(super) fn plain(text: &str) -> String {
    let shown = |c: char| match c {
        '\n' => ' ',
        c if c.is_control() => '\u{fffd}',
        c => c,
    };
    text.chars().map(shown).collect()
}

/// `1,204 of 5,000 · 3 failed · 1 canceled · 8 running`
pub(super) fn counts(job: &Job) -> String {
    let counts = &job.tree.counts;
    let whole = counts.total().max(job.expected_count.unwrap_or(0));
    let mut text = format!("{} of {}", grouped(counts.finished()), grouped(whole));
    let failed = counts.unsuccessful() - counts.cancelled;
    for (count, word) in [(failed, "failed"), (counts.cancelled, "canceled"), (counts.running, "running")] {
        if count > 0 {
            text = format!("{text} · {} {word}", grouped(count));
        }
    }
    text
}

/// ` 41%  1,204 of 5,000 · 3 failed · 8 running`; with the job's message while it is not running.
pub(super) fn line(job: &Job) -> String {
    let percent = job.percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent}%"));
    let line = format!("{percent:>4}  {}", counts(job));
    if job.tree.status == JobStatus::Running { line } else { format!("{line}  {}", plain(&job.message)) }
}

/// Draws the bar of a tree until it is complete. If standard error is not a terminal, it prints a line for each new
/// percent instead.
pub(super) async fn bar(client: &Client, id: Uuid, as_json: bool) -> anyhow::Result<Exit> {
    // A watch reconnects for ever: without a server, this call fails.
    client.job(id).await?;
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {msg}") {
        bar.set_style(style);
    }
    let is_terminal = std::io::stderr().is_terminal();
    let (mut last_percent, mut is_connected) = (None, true);
    let mut watch = client.watch(id);
    loop {
        let event = watch.next().await?;
        let Some(job) = watch.job() else {
            if let WatchEvent::Removed = event {
                return Ok(removed(&bar));
            }
            show_disconnected(&bar, &event, is_connected && !is_terminal);
            is_connected = false;
            continue;
        };
        let counts = &job.tree.counts;
        bar.set_length(counts.total().max(job.expected_count.unwrap_or(0)).max(1) as u64);
        bar.set_position(counts.finished() as u64);
        bar.set_message(line(job));
        match event {
            WatchEvent::Completed => {
                if job.tree.status == JobStatus::Completed && counts.total() == 0 {
                    bar.set_position(1);
                }
                bar.finish_and_clear();
                if as_json {
                    json(job);
                } else {
                    print_line(&line(job));
                }
                return Ok(Exit::of(job.tree.outcome));
            }
            WatchEvent::Removed => return Ok(removed(&bar)),
            WatchEvent::Disconnected(_) => {
                show_disconnected(&bar, &event, is_connected && !is_terminal);
                is_connected = false;
                continue;
            }
            _ if !is_terminal && last_percent != Some(job.percent) => {
                last_percent = Some(job.percent);
                eprintln!("{}", line(job));
            }
            _ => {}
        }
        is_connected = true;
    }
}

fn show_disconnected(bar: &ProgressBar, event: &WatchEvent, with_line: bool) {
    if let WatchEvent::Disconnected(error) = event {
        if with_line {
            eprintln!("treeline: reconnecting: {error}");
        }
        tracing::debug!(%error, "reconnecting");
        bar.set_message("reconnecting…");
    }
}

fn removed(bar: &ProgressBar) -> Exit {
    bar.finish_and_clear();
    eprintln!("treeline: the job was removed");
    Exit::Error
}

/// Output of `tail --json` for each change.
#[derive(Serialize)]
struct TailLine<'a> {
    job: Option<&'a Job>,
    items: &'a [Item],
}

/// Prints the changes of a tree, one line each, until it is complete.
pub(super) async fn tail(client: &Client, id: Uuid, as_json: bool) -> anyhow::Result<Exit> {
    client.job(id).await?;
    let mut watch = client.watch(id);
    let mut printed = Printed::default();
    loop {
        let event = watch.next().await?;
        match &event {
            WatchEvent::Disconnected(error) => eprintln!("treeline: reconnecting: {error}"),
            WatchEvent::Removed => {
                eprintln!("treeline: the job was removed");
                return Ok(Exit::Error);
            }
            WatchEvent::Changed | WatchEvent::Completed if as_json => {
                json(&TailLine { job: watch.job(), items: watch.in_flight() });
            }
            _ => printed.new_lines(&watch).iter().for_each(|line| print_line(line)),
        }
        if let (WatchEvent::Completed, Some(job)) = (&event, watch.job()) {
            return Ok(Exit::of(job.tree.outcome));
        }
    }
}

/// Last printed state of the tree and of each running item.
#[derive(Default)]
struct Printed {
    tree: String,
    items: HashMap<Uuid, String>,
}

impl Printed {
    fn new_lines(&mut self, watch: &Watch) -> Vec<String> {
        let mut lines = Vec::new();
        let in_flight = watch.in_flight();
        self.items.retain(|id, _| in_flight.iter().any(|item| item.id == *id));
        for item in in_flight {
            let line = item_line(item);
            if self.items.get(&item.id) != Some(&line) {
                lines.push(line.clone());
                self.items.insert(item.id, line);
            }
        }
        if let Some(job) = watch.job() {
            let line = line(job);
            if self.tree != line {
                lines.push(line.clone());
                self.tree = line;
            }
        }
        lines
    }
}

/// `      row 12  attempt 2  3/10 reading`
fn item_line(item: &Item) -> String {
    let place = item.row.map_or_else(|| format!("item {}", item.seq), |row| format!("row {row}"));
    let mut line = format!("      {place}");
    if item.attempts > 1 {
        line = format!("{line}  attempt {}", item.attempts);
    }
    let Some(progress) = &item.progress else { return line };
    match (progress.done, progress.total) {
        (Some(done), Some(total)) => line = format!("{line}  {}/{}", grouped(done), grouped(total)),
        (Some(done), None) => line = format!("{line}  {}", grouped(done)),
        _ => {}
    }
    if let Some(message) = &progress.message {
        line = format!("{line}  {}", plain(message));
    }
    line
}
