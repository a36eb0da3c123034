//! Import: a table with bad rows is uploaded; valid rows become results, and the bad ones a table of failures.
//!
//! Every row is an item. Rows that cannot be read or do not match the schema become failures that name their line.
//! The table of failures is corrected and uploaded again; its rows keep their line numbers. The file is
//! `examples/import/bird-strikes.csv` with 10,000 rows, of which this example spoils five.

use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, ensure};
use client::{Client, RowFormat, WatchEvent};
use domain::{
    Document, Job, Outcome,
    api::{JobUpload, NewJob},
    dispatch::progress::grouped,
    id::Uuid,
    job_type::{Builtin, Executor, JobTypeSpec},
};
use serde_json::json;

use crate::scenario::{prepare, print_line, within};

const BIRDS: &str = "bird-strikes";
/// The sample file in this repository.
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/import/bird-strikes.csv");
const ROWS: i64 = 10_000;
/// The column of the costs, from 0.
const COST: usize = 12;

/// Spoiled lines, the damage, and the kind of the resulting failure. Line 1 is the header.
const SPOILED: [(i64, Spoil, &str); 5] = [
    (3, Spoil::CellLost, "too_few_fields"),
    (57, Spoil::NotText, "bad_encoding"),
    (100, Spoil::CellMore, "too_many_fields"),
    (512, Spoil::Unfit, "invalid_row"),
    (2_000, Spoil::OpenQuote, "open_quote"),
];

#[derive(Clone, Copy)]
enum Spoil {
    CellLost,
    CellMore,
    NotText,
    /// A word where the schema wants a number.
    Unfit,
    OpenQuote,
}

/// Result of the example.
#[derive(Debug)]
pub struct Report {
    pub root: Uuid,
    /// Rows that succeeded at once.
    pub good: i64,
    /// The lines of those that did not.
    pub bad: Vec<i64>,
    /// The downloaded table of failures.
    pub failures: PathBuf,
    /// The tree of the corrected rows.
    pub mended: Uuid,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (good, bad) = (grouped(self.good), self.bad.len());
        write!(
            f,
            "{good} rows went through, {bad} came home in {}, were mended, and went through",
            self.failures.display()
        )
    }
}

/// Runs the example.
pub async fn run(client: &Client) -> Result<Report> {
    let cost = json!({"type": "integer", "minimum": 0});
    let schema = json!({"properties": {"Cost Other": cost, "Cost Repair": cost, "Cost Total $": cost}});
    let spec = JobTypeSpec {
        payload_schema: Some(Document::of(&schema)),
        executor: Executor::builtin(Builtin::Validate),
        ..JobTypeSpec::named(BIRDS)
    };
    prepare(client, &[spec]).await?;
    let sample = fs::read(SAMPLE).with_context(|| format!("reading {SAMPLE}"))?;
    let folder = tempfile::Builder::new().prefix("treeline-import-").tempdir()?.keep();

    let spoiled = folder.join("bird-strikes.csv");
    fs::write(&spoiled, spoil(&sample))?;
    let done = upload(client, &spoiled).await?;
    let root = done.id;
    let bad: Vec<i64> = SPOILED.iter().map(|(line, ..)| *line).collect();
    let good = ROWS - bad.len() as i64;
    ensure!(done.tree.outcome == Some(Outcome::Partial) && done.counts.succeeded == good, "{:?}", done.counts);
    ensure!(done.message == format!("Job complete, {} of {} failed", bad.len(), grouped(ROWS)), "{}", done.message);

    explained(client, root).await?;
    for group in client.error_groups(root).await?.data {
        print_line(format_args!("{} × {}", group.count, group.message));
    }
    let lines = result_lines(client, root).await?;
    ensure!(lines.len() as i64 == good && lines.is_sorted(), "the results are the good rows, in order");
    ensure!(!lines.iter().any(|line| bad.contains(line)), "no bad row among the results");

    let failures = folder.join("failures.csv");
    download_failures(client, root, &failures).await?;
    print_line(format_args!("the failures are in {}", failures.display()));
    let mended = folder.join("mended.csv");
    fs::write(&mended, mend(&failures, &sample)?)?;
    let again = upload(client, &mended).await?;
    ensure!(again.tree.outcome == Some(Outcome::Succeeded), "mended, they fit: {:?}", again.tree);
    let lines = result_lines(client, again.id).await?;
    ensure!(lines == bad, "they keep the lines they had: {lines:?}");
    Ok(Report { root, good, bad, failures, mended: again.id })
}

/// Uploads a file, makes a job of its rows, and watches it to its end.
async fn upload(client: &Client, file: &Path) -> Result<Job> {
    let upload = client.upload(file, |_| {}).await?;
    let source = JobUpload {
        id: upload.id,
        format: None,
        header: None,
        header_row: None,
        delimiter: None,
        encoding: None,
        sheet: None,
    };
    let new = NewJob { name: Some(upload.filename.clone()), upload: Some(source), ..NewJob::of(BIRDS) };
    let id = client.create_job(&new).await?.id;
    print_line(format_args!("{} uploaded: {}", upload.filename, client.page(&["imports", &id.to_string()])));
    within("the import completes", watched(client, id)).await
}

async fn watched(client: &Client, id: Uuid) -> Result<Job> {
    let mut watch = client.watch(id);
    let mut last_message = String::new();
    loop {
        let event = watch.next().await?;
        let Some(job) = watch.job() else { continue };
        let complete = matches!(event, WatchEvent::Completed);
        ensure!(complete == (job.percent == Some(100)), "100% is the end and nothing else: {:?}", job.percent);
        if job.message != last_message {
            last_message.clone_from(&job.message);
            print_line(format_args!("{}: {last_message}", job.name.as_deref().unwrap_or_default()));
        }
        if complete {
            return Ok(job.clone());
        }
        ensure!(!matches!(event, WatchEvent::Removed), "the import was removed under our eyes");
    }
}

/// Checks that each failure exists, names its line and has the expected kind.
async fn explained(client: &Client, root: Uuid) -> Result<()> {
    let mut lines = client.failures(root, None).await?;
    let mut found = BTreeMap::new();
    while let Some(line) = lines.next().await? {
        let error = line.error.with_context(|| format!("row {:?} does not say why", line.row))?;
        let row = line.row.context("a failure without a line")?;
        ensure!(error.message.starts_with(&format!("Line {row}")), "row {row} names its line: {}", error.message);
        found.insert(row, error.kind.unwrap_or_default());
    }
    let expected: BTreeMap<i64, String> = SPOILED.iter().map(|&(line, _, kind)| (line, kind.to_owned())).collect();
    ensure!(found == expected, "the failures: {found:?}, expected {expected:?}");
    Ok(())
}

/// The lines of the rows that succeeded.
async fn result_lines(client: &Client, root: Uuid) -> Result<Vec<i64>> {
    let mut results = client.results(root, None).await?;
    let mut lines = Vec::new();
    while let Some(result) = results.next().await? {
        lines.push(result.row.context("a result without a line")?);
    }
    Ok(lines)
}

/// Downloads the table of failures to a file.
async fn download_failures(client: &Client, root: Uuid, file: &Path) -> Result<()> {
    let mut download = client.failures_file(root, RowFormat::Csv).await?;
    let mut bytes = Vec::new();
    while let Some(chunk) = download.chunk().await? {
        bytes.extend_from_slice(&chunk);
    }
    Ok(fs::write(file, bytes)?)
}

/// The table with five rows spoiled. It has no quotes, so its lines are its rows.
fn spoil(sample: &[u8]) -> Vec<u8> {
    let mut spoiled = Vec::with_capacity(sample.len() + 64);
    for (line, text) in (1..).zip(sample.split_inclusive(|&byte| byte == b'\n')) {
        let row = text.trim_ascii_end();
        match SPOILED.iter().find(|(at, ..)| *at == line).map(|(_, how, _)| how) {
            None => {
                spoiled.extend_from_slice(text);
                continue;
            }
            Some(Spoil::CellLost) => {
                let comma = row.iter().rposition(|&byte| byte == b',').unwrap_or(row.len());
                spoiled.extend_from_slice(&row[..comma]);
            }
            Some(Spoil::CellMore) => spoiled.extend([row, b",surplus"].concat()),
            Some(Spoil::NotText) => spoiled.extend([b"\xff\xfe", row].concat()),
            Some(Spoil::Unfit) => {
                let mut cells: Vec<&[u8]> = row.split(|&byte| byte == b',').collect();
                cells[COST] = b"a lot";
                spoiled.extend(cells.join(&b','));
            }
            Some(Spoil::OpenQuote) => spoiled.extend([b"\"", row].concat()),
        }
        spoiled.extend_from_slice(b"\r\n");
    }
    spoiled
}

/// Corrects the table of failures like a person would: fixes the cells, and keeps the three columns with the errors.
fn mend(failures: &Path, sample: &[u8]) -> Result<Vec<u8>> {
    let original: Vec<&[u8]> = sample.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end).collect();
    let mut table = csv::ReaderBuilder::new().flexible(true).from_path(failures)?;
    let header = table.headers()?.clone();
    let at = |name: &str| header.iter().position(|column| column == name).with_context(|| format!("a column {name}"));
    let places = [at("_line")?, at("_code")?, at("_problem")?];
    let mut mended = csv::Writer::from_writer(Vec::new());
    mended.write_record(&header)?;
    for row in table.records() {
        let row = row?;
        let line: usize = row.get(places[0]).unwrap_or_default().parse().context("_line is a number")?;
        let cells = original.get(line - 1).context("a line of the file")?.split(|&byte| byte == b',');
        let rest = places.iter().map(|&place| row.get(place).unwrap_or_default().as_bytes());
        mended.write_record(cells.chain(rest))?;
    }
    Ok(mended.into_inner()?)
}
