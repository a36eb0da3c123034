//! Rows of a tree as a file: results, failures, or items; NDJSON for programs, CSV for people.
//!
//! Rows are read page by page as the client consumes them, so memory is bounded and no transaction stays open. Used by
//! the streams of the API and the executor `export`. A stream that cannot continue ends with an error, so that a client
//! does not take it for complete.

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use bytes::Bytes;
use domain::{
    Document, ItemState, Problem, Time,
    api::{FailureLine, ResultLine},
    import::export::{ExportFormat, ExportWhat, ItemLine},
    item::ItemError,
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream};
use uuid::Uuid;

use crate::App;
use engine::{
    access::caller::Caller,
    after_failed,
    error::{Error, Result},
    import::{
        sheet,
        split::{FAILURE_COLUMNS, Head},
    },
    store::import::{
        exports::{self, ExportedItem},
        results::{self, FailureRow, ListedJob, ResultRow},
    },
};

/// Export that is ready to be read.
pub struct Export {
    /// Suggested file name.
    pub filename: String,
    cursor: ExportCursor,
    begin: Vec<u8>,
}

impl Export {
    /// Opens the rows of a job and its descendants, as visible to the caller, after the item `after`, the last one
    /// received.
    pub async fn open(
        app: &App,
        caller: &Caller,
        id: Uuid,
        what: ExportWhat,
        format: ExportFormat,
        after: Option<Uuid>,
    ) -> Result<Self> {
        let job = app.engine.job(caller, id, false).await?;
        let jobs = results::jobs(&app.pool, job.root_id).await?;
        let jobs = with_descendants(jobs, id);
        let table = Table::of(&jobs);
        let jobs = if what == ExportWhat::Results { final_stage(jobs) } else { jobs };
        let (mut at, mut seq) = (0, 0);
        if let Some(after) = after {
            let unknown = || Problem::parameter("after", "expected the id of an item of this tree");
            let (job_key, place) = results::position(&app.pool, after).await?.ok_or_else(unknown)?;
            at = jobs.iter().position(|job| job.job_key == job_key).ok_or_else(unknown)?;
            seq = place;
        }
        let name = job.name.unwrap_or(job.key);
        let stem = name.rsplit_once('.').map_or(name.as_str(), |(stem, _)| stem);
        let filename = format!("{stem}-{}.{}", what.as_str(), format.as_str());
        let writer = Writer { what, format, table };
        let begin = if after.is_none() { writer.header()? } else { Vec::new() };
        let cursor = ExportCursor { app: app.clone(), jobs, at, seq, writer, written: Arc::default() };
        Ok(Self { filename, cursor, begin })
    }

    /// Counter of written rows; grows while the pages are read.
    pub fn written(&self) -> Arc<AtomicI64> {
        Arc::clone(&self.cursor.written)
    }

    /// Current number of rows.
    pub async fn total(&self) -> Result<i64> {
        let job_keys: Vec<i64> = self.cursor.jobs.iter().map(|job| job.job_key).collect();
        let totals = exports::totals(&self.cursor.app.pool, &job_keys).await?;
        Ok(match self.cursor.writer.what {
            ExportWhat::Results => totals.succeeded,
            ExportWhat::Failures => totals.failed,
            ExportWhat::Items => totals.all,
        })
    }

    /// Returns the bytes. Reads the first page at once, so that an error can still become a response status.
    pub async fn pages(self) -> Result<impl Stream<Item = Result<Bytes>> + Send + Unpin> {
        let pages = stream::try_unfold(self.cursor, |mut cursor| async move {
            Ok::<_, Error>(cursor.next_page().await?.map(|page| (page, cursor)))
        });
        let mut pages = Box::pin(pages);
        let first = pages.try_next().await?.unwrap_or_default();
        Ok(stream::iter([Ok(Bytes::from(self.begin)), Ok(first)]).chain(pages))
    }
}

/// Returns the job and its descendants, in order.
fn with_descendants(jobs: Vec<ListedJob>, id: Uuid) -> Vec<ListedJob> {
    let mut inside = HashSet::from([id]);
    jobs.into_iter()
        .filter(|job| {
            let is_inside = job.job_id == id || job.parent_id.is_some_and(|parent| inside.contains(&parent));
            is_inside && (inside.insert(job.job_id) || job.job_id == id)
        })
        .collect()
}

/// `final-stage`: the jobs marked as final stage; if there are none, those without children.
fn final_stage(jobs: Vec<ListedJob>) -> Vec<ListedJob> {
    let marked = jobs.iter().any(|job| job.final_stage);
    let parents: HashSet<Uuid> = jobs.iter().filter_map(|job| job.parent_id).collect();
    jobs.into_iter().filter(|job| if marked { job.final_stage } else { !parents.contains(&job.job_id) }).collect()
}

/// Cursor through the items of several jobs.
struct ExportCursor {
    app: App,
    jobs: Vec<ListedJob>,
    /// Index of the current job, and the last item read from it.
    at: usize,
    seq: i64,
    writer: Writer,
    written: Arc<AtomicI64>,
}

impl ExportCursor {
    /// Returns the next non-empty page; `None` at the end.
    async fn next_page(&mut self) -> Result<Option<Bytes>> {
        while let Some(job) = self.jobs.get(self.at) {
            let (pool, job_key) = (&self.app.pool, job.job_key);
            let mut text = Vec::new();
            let last = match self.writer.what {
                ExportWhat::Results => {
                    let rows = results::results(pool, job_key, self.seq).await?;
                    for row in &rows {
                        let written = self.writer.result(&mut text, job.job_id, row)?;
                        self.written.fetch_add(i64::from(written), Ordering::Relaxed);
                    }
                    rows.last().map(|row| row.seq)
                }
                ExportWhat::Failures => {
                    let mut rows = results::failures(pool, job_key, self.seq).await?;
                    for row in &mut rows {
                        if row.by_after {
                            let why = after_failed();
                            (row.error_message, row.error_kind) = (Some(why.message), why.kind);
                        }
                        self.writer.failure(&mut text, job.job_id, row)?;
                    }
                    self.written.fetch_add(rows.len() as i64, Ordering::Relaxed);
                    rows.last().map(|row| row.seq)
                }
                ExportWhat::Items => {
                    let rows = exports::items(pool, job_key, self.seq).await?;
                    for row in &rows {
                        self.writer.item(&mut text, job.job_id, row)?;
                    }
                    self.written.fetch_add(rows.len() as i64, Ordering::Relaxed);
                    rows.last().map(|row| row.seq)
                }
            };
            (self.at, self.seq) = last.map_or((self.at + 1, 0), |seq| (self.at, seq));
            if !text.is_empty() {
                return Ok(Some(text.into()));
            }
        }
        Ok(None)
    }
}

/// Columns and format of the imported table, if there was one, so that an export looks like the import.
#[derive(Debug, Default)]
struct Table {
    columns: Option<Vec<String>>,
    /// Number of columns, if they have no names.
    width: usize,
    delimiter: u8,
    mark: bool,
}

impl Table {
    fn of(jobs: &[ListedJob]) -> Self {
        let heads = jobs.iter().filter_map(|job| serde_json::from_str::<Head>(job.head.as_deref()?).ok());
        let Some(head) = heads.into_iter().find(|head| head.width > 0) else {
            return Self { delimiter: b',', ..Self::default() };
        };
        Self {
            columns: head.payload_columns().map(Cow::into_owned),
            width: head.payload_width(),
            delimiter: head.delimiter.and_then(|c| u8::try_from(c).ok()).unwrap_or(b','),
            mark: head.mark,
        }
    }

    fn names(&self) -> Vec<String> {
        match &self.columns {
            Some(columns) => columns.clone(),
            None if self.width > 0 => (1..=self.width).map(|n| format!("column_{n}")).collect(),
            None => vec!["payload".to_owned()],
        }
    }

    /// Cells of a payload, one per column name.
    fn cells(&self, payload: &Document) -> Vec<String> {
        if self.columns.is_none() && self.width == 0 {
            return vec![payload.text().to_owned()];
        }
        let mut cells = sheet::cells(payload, self.columns.as_deref());
        cells.resize(self.columns.as_ref().map_or(self.width, Vec::len), String::new());
        cells
    }
}

struct Writer {
    what: ExportWhat,
    format: ExportFormat,
    table: Table,
}

impl Writer {
    fn header(&self) -> Result<Vec<u8>> {
        let mut text = Vec::new();
        if self.format == ExportFormat::Csv {
            if self.table.mark {
                text.extend("\u{FEFF}".bytes());
            }
            let mut names = self.table.names();
            match self.what {
                ExportWhat::Results => {
                    names.insert(0, "_line".to_owned());
                    names.push("_result".to_owned());
                }
                ExportWhat::Items => {
                    names.insert(0, "_line".to_owned());
                    names.extend(["_state", "_result", "_code", "_problem"].map(str::to_owned));
                }
                ExportWhat::Failures => names.extend(FAILURE_COLUMNS.map(str::to_owned)),
            }
            self.record(&mut text, &names)?;
        }
        Ok(text)
    }

    /// False if there is no result yet.
    fn result(&self, text: &mut Vec<u8>, job_id: Uuid, row: &ResultRow) -> Result<bool> {
        let (Some(payload), Some(result)) = (&row.payload, &row.result) else { return Ok(false) };
        let payload = Document::trusted(payload.clone());
        if self.format == ExportFormat::Ndjson {
            let result = Document::trusted(result.clone());
            line(text, &ResultLine { item_id: row.item_id, job_id, row: row.row, payload, result })?;
            return Ok(true);
        }
        let mut cells = self.table.cells(&payload);
        cells.insert(0, row.row.map_or_else(String::new, |row| row.to_string()));
        // `validate` returns the payload, which is already in the columns.
        cells.push(if result == payload.text() { String::new() } else { result.clone() });
        self.record(text, &cells)?;
        Ok(true)
    }

    fn failure(&self, text: &mut Vec<u8>, job_id: Uuid, row: &FailureRow) -> Result<()> {
        let state = ItemState::from_code(row.state).unwrap_or(ItemState::Dead);
        let payload = Document::trusted(row.payload.clone());
        if self.format == ExportFormat::Ndjson {
            let error = row.error_message.as_ref().map(|message| ItemError {
                message: message.clone(),
                kind: row.error_kind.clone(),
                detail: row.error_detail.clone().map(Document::trusted),
                at: Time(row.ended_at),
            });
            let (item_id, attempts) = (row.item_id, row.attempts);
            return line(text, &FailureLine { item_id, job_id, row: row.row, payload, state, attempts, error });
        }
        let mut cells = self.table.cells(&payload);
        cells.push(row.row.map_or_else(String::new, |row| row.to_string()));
        cells.push(row.error_kind.clone().unwrap_or_else(|| state.as_str().to_owned()));
        cells.push(row.error_message.clone().unwrap_or_default());
        self.record(text, &cells)
    }

    fn item(&self, text: &mut Vec<u8>, job_id: Uuid, row: &ExportedItem) -> Result<()> {
        let state = ItemState::from_code(row.state).unwrap_or(ItemState::Available);
        let payload = Document::trusted(row.payload.clone());
        if self.format == ExportFormat::Ndjson {
            let error = row.error_message.as_ref().zip(row.ended_at).map(|(message, ended_at)| ItemError {
                message: message.clone(),
                kind: row.error_kind.clone(),
                detail: row.error_detail.clone().map(Document::trusted),
                at: Time(ended_at),
            });
            let result = row.result.clone().map(Document::trusted);
            let (item_id, attempts) = (row.item_id, row.attempts);
            return line(text, &ItemLine { item_id, job_id, row: row.row, payload, state, attempts, result, error });
        }
        let mut cells = self.table.cells(&payload);
        cells.insert(0, row.row.map_or_else(String::new, |row| row.to_string()));
        cells.push(state.as_str().to_owned());
        cells.push(row.result.clone().filter(|result| result != payload.text()).unwrap_or_default());
        cells.push(row.error_kind.clone().unwrap_or_default());
        cells.push(row.error_message.clone().unwrap_or_default());
        self.record(text, &cells)
    }

    fn record(&self, text: &mut Vec<u8>, cells: &[String]) -> Result<()> {
        let mut writer = csv::WriterBuilder::new().delimiter(self.table.delimiter).from_writer(text);
        writer
            .write_record(cells.iter().map(|cell| sheet::escape(cell).into_owned()))
            .and_then(|()| Ok(writer.flush()?))
            .map_err(|e| Error::Broken(e.to_string()))
    }
}

fn line(text: &mut Vec<u8>, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(&mut *text, value).map_err(|e| Error::Broken(e.to_string()))?;
    text.push(b'\n');
    Ok(())
}
