//! Check of all rows of a stored file against the job type, as its job would read them.
//!
//! Reads the file once, with bounded memory, and stores nothing. It ends when the client disconnects.

use std::{borrow::Cow, collections::VecDeque, sync::Arc};

use domain::{
    Document, Problem,
    api::JobUpload,
    import::{
        file_check::{CheckedRow, FileCheck, FileCheckBody, MOST_LISTED_ROWS},
        mapping::Mapping,
        row_edit::RowEdit,
        upload::UploadFormat,
    },
};
use tokio::sync::{Semaphore, SemaphorePermit};
use uuid::Uuid;

use super::{cell_fixes::Fixes, find, preview::known_type, reading, row_problems::misfit};
use crate::App;
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    fit_head,
    import::{
        files::ByteStream,
        split::{ColumnRule, Fault, FaultKind, Head, Reader, Row, Rules},
        turns::{Turn, Turns},
        upload_head::{inspect, want},
    },
    schema::{Schema, compiled},
};

/// Checks that run at the same time in this process, one for each owner; others wait.
const MOST_AT_ONCE: usize = 4;

/// Rows between two pauses, in which other requests continue.
const STRETCH: i64 = 100;

/// Maximum bytes of the cells that are listed.
const LISTED_BYTES: usize = 4 << 20;

static OWNER_TURNS: Turns = Turns::new();
static TURNS: Semaphore = Semaphore::const_new(MOST_AT_ONCE);

/// Rows that are listed besides those with a problem or an edit.
#[derive(Clone, Copy, Debug, Default)]
pub struct Beside {
    pub first: i64,
    pub last: usize,
    /// Proposes texts for cells with a problem.
    pub suggests: bool,
}

/// Checks every row.
///
/// # Errors
///
/// As the creation of a job: `unknown_job_type`, `invalid_body`, `mapping_incomplete`, `bad_header`, `no_rows`.
pub async fn check_rows(
    app: &App,
    caller: &Caller,
    id: Uuid,
    body: FileCheckBody,
    beside: Beside,
) -> Result<FileCheck> {
    let mut scan = Scan::open(app, caller, id, body).await?;
    let columns = scan.head.data_columns().map(<[String]>::to_vec).unwrap_or_default();
    let mut check = FileCheck { rows: 0, failed: 0, left_out: 0, columns, listed: Vec::new(), is_cut: false };
    if scan.head.format == UploadFormat::None {
        return Ok(FileCheck { rows: 1, ..check });
    }
    let is_table = scan.head.format.is_table();
    let mut listed_bytes = 0;
    let mut last = VecDeque::new();
    while let Some(row) = scan.next().await? {
        check.rows += 1;
        check.left_out += i64::from(row.is_left_out);
        check.failed += i64::from(row.fault.is_some());
        let is_special = row.is_left_out || row.is_edited || row.fault.is_some();
        if is_special || check.rows <= beside.first {
            listed_bytes += row.cells.iter().map(String::len).sum::<usize>();
            if check.listed.len() < MOST_LISTED_ROWS && listed_bytes <= LISTED_BYTES {
                let suggestion = if beside.suggests { scan.suggestion(&row) } else { None };
                check.listed.push(CheckedRow { suggestion, ..listed(row, is_table) });
            } else {
                check.is_cut |= is_special;
            }
        } else if beside.last > 0 {
            if last.len() >= beside.last {
                last.pop_front();
            }
            last.push_back(row);
        }
    }
    check.listed.extend(last.into_iter().map(|row| listed(row, is_table)));
    check.listed.sort_by_key(|row| row.row);
    Ok(check)
}

/// Rows of a file, each with the fault that its job would find.
pub(super) struct Scan {
    pub(super) head: Head,
    reader: Reader<ByteStream>,
    schema: Option<Arc<Schema>>,
    column_rules: Vec<ColumnRule>,
    /// Names of the properties of a payload.
    names: Vec<String>,
    rows: i64,
    owner_id: Uuid,
    /// `None` while a client takes what was read.
    turn: Option<(Turn, SemaphorePermit<'static>)>,
}

impl Scan {
    /// Waits for a turn and opens a file. See [`check_rows`] for its errors.
    pub(super) async fn open(app: &App, caller: &Caller, id: Uuid, body: FileCheckBody) -> Result<Self> {
        let upload = find(&app.pool, caller, id).await?;
        let wrong = problems(&body);
        if !wrong.is_empty() {
            return Err(Problem::invalid_body(wrong).into());
        }
        let found = known_type(app, &body.job_type).await?;
        let FileCheckBody { format, header, header_row, delimiter, encoding, sheet, mapping, edits, .. } = body;
        let wanted = JobUpload { id, format, header, header_row, delimiter, encoding, sheet };
        let want = want(&upload, &wanted)?;
        let reading = reading(app, caller, &upload, &wanted);
        let head = inspect(&app.pool, &app.files, reading, want).await?.map_err(Error::Problem)?;
        let schema = found.payload_schema.as_ref().map(Document::text);
        let head = fit_head(head, mapping, &edits, schema, "")?;

        let owner_id = caller.owner_id;
        let turn = Some(take_turn(owner_id).await?);
        let schema = schema.and_then(|text| compiled(text).ok());
        let names = head.payload_columns().map(Cow::into_owned);
        let column_rules =
            schema.as_ref().map_or_else(Vec::new, |s| s.column_rules(names.as_deref(), head.payload_width()));
        let rules = Rules { column_rules: column_rules.clone(), payload_limit: app.config.payload_limit.bytes() };
        let (object_id, bytes) = head.source(upload.id, upload.bytes as u64);
        let source = app.files.read(object_id, head.first.offset, bytes).await?;
        let reader = Reader::new(source, head.clone(), head.first, rules).with_cells();
        Ok(Self { head, reader, schema, column_rules, names: names.unwrap_or_default(), rows: 0, owner_id, turn })
    }

    /// Keeps the cells of rows for a file.
    pub(super) fn with_whole_cells(self) -> Self {
        Self { reader: self.reader.with_whole_cells(), ..self }
    }

    /// Lets another check read until the next row is asked for.
    pub(super) fn pause(&mut self) {
        self.turn = None;
    }

    /// Reads the next row; other requests continue now and then.
    pub(super) async fn next(&mut self) -> Result<Option<Row>> {
        if self.turn.is_none() {
            self.turn = Some(take_turn(self.owner_id).await?);
        }
        let Some(mut row) = self.reader.next().await? else { return Ok(None) };
        if row.is_left_out {
            row.fault = None;
        } else if let (None, Some(schema)) = (&row.fault, &self.schema) {
            row.fault = misfit(schema, &row, &self.head);
        }
        self.rows += 1;
        if self.rows % STRETCH == 0 {
            tokio::task::yield_now().await;
        }
        Ok(Some(row))
    }

    /// Text that would fit in the cell with the fault of a row.
    fn suggestion(&self, row: &Row) -> Option<String> {
        Fixes::new(&self.head, self.schema.as_deref(), &self.column_rules, &self.names).of(row)
    }
}

async fn take_turn(owner_id: Uuid) -> Result<(Turn, SemaphorePermit<'static>)> {
    let of_owner = OWNER_TURNS.take(owner_id).await;
    Ok((of_owner, TURNS.acquire().await.map_err(|error| Error::Broken(error.to_string()))?))
}

fn problems(body: &FileCheckBody) -> Vec<(String, String)> {
    let of = |name: &str, found: Vec<(String, String)>| {
        found.into_iter().map(|(inner, detail)| (format!("/{name}{inner}"), detail)).collect::<Vec<_>>()
    };
    let mapping = body.mapping.as_ref().map(Mapping::problems).unwrap_or_default();
    [of("mapping", mapping), of("edits", RowEdit::problems(&body.edits))].concat()
}

fn listed(row: Row, is_table: bool) -> CheckedRow {
    let fault = row.fault.as_ref();
    CheckedRow {
        row: row.line,
        cells: row.cells,
        cells_in_file: row.cells_in_file,
        suggestion: None,
        problem: fault.map(Fault::message),
        column: fault.filter(|_| is_table).map(|fault| fault.column as i64),
        // A cell that should be JSON can be edited, other JSON cannot.
        needs_file: fault
            .is_some_and(|fault| fault.kind.needs_file() && !(is_table && fault.kind == FaultKind::InvalidJson)),
        edited: row.is_edited,
        left_out: row.is_left_out,
    }
}
