//! Rows of a tree as a file: results, failures, or items; NDJSON for programs, CSV and XLSX for people.
//!
//! Rows are read page by page as the client consumes them, so memory is bounded and no transaction stays open. A
//! workbook is written to a temporary file first. Used by the streams of the API and the executor `export`. A stream
//! that cannot continue ends with an error, so that a client does not take it for complete.

mod rows; // rows as lines, records, or cells
mod workbook; // XLSX

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use bytes::Bytes;
use domain::{
    Problem,
    import::export::{ExportFormat, ExportLayout, ExportWhat},
};
use futures::{Stream, StreamExt as _, TryStreamExt as _, stream, stream::BoxStream};
use tokio::sync::Semaphore;
use tokio_util::io::ReaderStream;
use uuid::Uuid;

use crate::App;
use engine::{
    access::caller::Caller,
    after_failed,
    error::{Error, Result},
    import::split::Want,
    store::import::{
        exports,
        results::{self, ListedJob},
    },
    task::{in_task, unless_silent},
};
pub(crate) use rows::in_file;
use rows::{Page, Table, Writer};
use workbook::Workbook;

/// Bytes of a workbook that are read at a time.
const PIECE: usize = 64 * 1024;

/// Workbooks that are written at once; each takes room on the disk of temporary files.
static WORKBOOKS: Semaphore = Semaphore::const_new(4);

/// Export that is ready to be read.
pub struct Export {
    /// Suggested file name.
    pub filename: String,
    cursor: ExportCursor,
    begin: Page,
}

impl Export {
    /// Opens the rows of a job and its descendants, as visible to the caller, after the item `after`, the last one
    /// received.
    pub async fn open(
        app: &App,
        caller: &Caller,
        id: Uuid,
        what: ExportWhat,
        layout: ExportLayout,
        after: Option<Uuid>,
    ) -> Result<Self> {
        check(layout, after)?;
        let job = app.engine.job(caller, id, false).await?;
        let jobs = results::jobs(&app.pool, job.root_id).await?;
        let jobs = with_descendants(jobs, id);
        let table = Table::of(&jobs, layout);
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
        let filename = format!("{stem}-{}.{}", what.as_str(), layout.format.as_str());
        let writer = Writer { what, format: layout.format, table };
        let begin = if after.is_none() { writer.header()? } else { Page::default() };
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

    /// Returns the bytes. Reads the first page at once, of a workbook everything, so that an error can still become a
    /// response status.
    pub async fn pages(self) -> Result<BoxStream<'static, Result<Bytes>>> {
        if self.cursor.writer.format == ExportFormat::Xlsx {
            return Ok(self.workbook().await?.boxed());
        }
        let pages = stream::try_unfold(self.cursor, |mut cursor| async move {
            let page = unless_silent(cursor.next_page()).await.flatten()?;
            Ok::<_, Error>(page.map(|page| (page.text.into(), cursor)))
        });
        let mut pages = Box::pin(pages);
        let first: Bytes = pages.try_next().await?.unwrap_or_default();
        Ok(stream::iter([Ok(self.begin.text.into()), Ok(first)]).chain(pages).boxed())
    }

    /// Writes the workbook to a temporary file, which is deleted when the stream is dropped.
    async fn workbook(mut self) -> Result<impl Stream<Item = Result<Bytes>> + Send> {
        let _turn = WORKBOOKS.acquire().await.map_err(|error| Error::Broken(error.to_string()))?;
        let mut workbook = Workbook::new(self.begin.records.into_iter().flatten().collect());
        while let Some(page) = self.cursor.next_page().await? {
            workbook = blocking(move || workbook.write(&page.records).map(|()| workbook)).await?;
        }
        let file = blocking(move || workbook.finish()).await?;
        let pieces = ReaderStream::with_capacity(tokio::fs::File::from_std(file), PIECE);
        Ok(pieces.map_err(|error| Error::Broken(format!("a workbook cannot be read: {error}"))))
    }
}

/// Runs a part of a workbook's writing where it blocks nobody.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    tokio::task::spawn_blocking(work).await.map_err(|error| Error::Broken(error.to_string()))?
}

/// Checks that the parameters fit the format.
fn check(layout: ExportLayout, after: Option<Uuid>) -> Result<()> {
    let is_csv = layout.format == ExportFormat::Csv;
    if let Some(delimiter) = layout.delimiter {
        if !is_csv {
            return Err(Problem::parameter("delimiter", "expected only with format=csv").into());
        }
        if Want::delimiter(&delimiter.to_string()).is_none() {
            let expected = "expected one ASCII character that is no quote, letter, digit, '-', '.' or line end";
            return Err(Problem::parameter("delimiter", expected).into());
        }
    }
    if layout.bom.is_some() && !is_csv {
        return Err(Problem::parameter("bom", "expected only with format=csv").into());
    }
    if after.is_some() && layout.format == ExportFormat::Xlsx {
        return Err(Problem::parameter("after", "expected only with format=ndjson or csv: a workbook is whole").into());
    }
    Ok(())
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
    async fn next_page(&mut self) -> Result<Option<Page>> {
        while let Some(job) = self.jobs.get(self.at) {
            let (pool, job_key) = (&self.app.pool, job.job_key);
            let mut page = Page::default();
            let last = match self.writer.what {
                ExportWhat::Results => {
                    // In a task: a download that is given up must leave no transaction open.
                    let (pool, seq) = (pool.clone(), self.seq);
                    let read = async move { Ok(results::results(&pool, job_key, seq).await?) };
                    let rows = in_task("reading results", read).await?;
                    for row in &rows {
                        let written = self.writer.result(&mut page, job.job_id, row)?;
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
                        self.writer.failure(&mut page, job.job_id, row)?;
                    }
                    self.written.fetch_add(rows.len() as i64, Ordering::Relaxed);
                    rows.last().map(|row| row.seq)
                }
                ExportWhat::Items => {
                    let rows = exports::items(pool, job_key, self.seq).await?;
                    for row in &rows {
                        self.writer.item(&mut page, job.job_id, row)?;
                    }
                    self.written.fetch_add(rows.len() as i64, Ordering::Relaxed);
                    rows.last().map(|row| row.seq)
                }
            };
            (self.at, self.seq) = last.map_or((self.at + 1, 0), |seq| (self.at, seq));
            if !page.is_empty() {
                return Ok(Some(page));
            }
        }
        Ok(None)
    }
}
