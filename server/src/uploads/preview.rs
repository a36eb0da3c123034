//! First rows of a stored file, as a job would read them, and their validation against the job type.
//!
//! Informative only: every row is validated again when it is added. Reads only the start of the file.

use std::{borrow::Cow, sync::Arc};

use domain::{
    Code, JobType, Problem,
    api::JobUpload,
    import::{
        mapping::Mapping,
        upload::{Preview, PreviewRow, UploadFormat},
    },
};

use super::{column_check, find, reading};
use crate::{App, job_types};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    import::{
        split::{self, Reader, Row, Rules, Want},
        stage::stage,
        table_cells,
        upload_head::{Reading, inspect, want},
    },
    schema::{Schema, compiled},
    store::import::uploads,
};

/// Rows of a preview.
const PREVIEW_ROWS: usize = 20;

/// Rows that are validated, or read to guess a notation.
pub(super) const CHECK_ROWS: usize = 200;

/// Returns the first rows of a file; with `job_type`, as a job of this type would read them, and their validation
/// against its schema (422 `unknown_job_type`). With `mapping`, the columns are those of the payload (422 `invalid_body`
/// if the file does not have the mapped ones).
pub async fn preview(
    app: &App,
    caller: &Caller,
    wanted: &JobUpload,
    job_type: Option<&str>,
    mapping: Option<Mapping>,
) -> Result<Preview> {
    let upload = find(&app.pool, caller, wanted.id).await?;
    let want = want(&upload, wanted)?;
    let schema = match job_type {
        Some(name) => schema_of(app, name).await?,
        None => None,
    };
    let empty = |problem| Preview {
        format: want.format,
        delimiter: want.delimiter.map(String::from),
        encoding: want.encoding.unwrap_or(split::Encoding::Utf8).name(),
        columns: Vec::new(),
        suggested_header_row: None,
        sheets: Vec::new(),
        rows: Vec::new(),
        problem,
        check: None,
    };
    if want.format == UploadFormat::None {
        let payload = split::whole_file_payload(upload.id);
        let row = PreviewRow { row: 1, cells: Vec::new(), payload: Some(payload), problem: None };
        return Ok(Preview { rows: vec![row], ..empty(None) });
    }
    let reading = reading(app, caller, &upload, wanted);
    let inspected = inspect(&app.pool, &app.files, reading, want).await?;
    let sheets = match want.format {
        UploadFormat::Xlsx => uploads::workbook_facts(&app.pool, upload.id, "").await?.sheets.unwrap_or_default(),
        _ => Vec::new(),
    };
    let head = match inspected {
        Ok(head) => head,
        Err(problem) => {
            let suggested_header_row = match problem.code {
                Code::BadHeader => below_title(app, reading, want).await?,
                _ => None,
            };
            let problem = Some(format!("{}: {}", problem.code.as_str(), problem.detail));
            return Ok(Preview { suggested_header_row, sheets, ..empty(problem) });
        }
    };
    let unknown = |_| Problem::invalid_body([("/mapping".to_owned(), "expected columns of the file".to_owned())]);
    let head = match mapping {
        Some(mapping) => head.with_mapping(mapping).map_err(unknown)?,
        None => head,
    };
    let columns = head.payload_columns().map(Cow::into_owned);
    let columns = columns.as_deref();
    let (object_id, bytes) = head.source(upload.id, upload.bytes as u64);
    let source = app.files.read(object_id, head.first.offset, bytes).await?;
    let column_rules = schema.as_ref().map_or_else(Vec::new, |s| s.column_rules(columns, head.payload_width()));
    let rules = Rules { column_rules, payload_limit: app.config.payload_limit.bytes() };
    let mut reader = Reader::new(source, head.clone(), head.first, rules);
    let most = if schema.is_some() { CHECK_ROWS } else { PREVIEW_ROWS };
    let is_table = head.format.is_table();
    let mut check = schema.as_ref().map(|schema| column_check::Check::new(schema, columns, is_table));
    let mut rows = Vec::new();
    for _ in 0..most {
        let Some(row) = reader.next().await? else { break };
        if let (None, Some(check)) = (&row.fault, &mut check) {
            check.look(row.line, &row.payload);
        }
        if rows.len() < PREVIEW_ROWS {
            rows.push(PreviewRow {
                row: row.number,
                cells: if is_table { cells(&row, columns) } else { Vec::new() },
                payload: (!is_table).then_some(row.payload),
                problem: row.fault.map(|fault| fault.message()),
            });
        }
    }
    // A title makes a table of one column, whose rows have more cells.
    let is_title = rows.iter().any(|row: &PreviewRow| row.cells.len() > head.data_width());
    let suggested_header_row = if is_title || head.width == 1 { below_title(app, reading, want).await? } else { None };
    Ok(Preview {
        suggested_header_row,
        sheets,
        format: head.format,
        delimiter: head.delimiter.map(String::from),
        encoding: head.encoding.name(),
        columns: columns.map(<[String]>::to_vec).unwrap_or_default(),
        rows,
        problem: None,
        check: check.zip(job_type).map(|(check, name)| check.end(name)),
    })
}

/// Row that seems to name the columns, if it is not the first one and none was chosen.
async fn below_title(app: &App, reading: Reading<'_>, want: Want) -> Result<Option<i64>> {
    if !want.header || want.header_row.is_some() {
        return Ok(None);
    }
    let upload = reading.upload;
    let (object_id, bytes) = match want.format {
        UploadFormat::Xlsx => {
            let staged = stage(&app.pool, &app.files, reading).await?;
            (staged.object_id, staged.bytes)
        }
        _ => (upload.id, upload.bytes as u64),
    };
    let source = app.files.read(object_id, 0, bytes).await?;
    Ok(split::find_header(source, want).await?)
}

/// Cells of a table row; surplus cells come last.
fn cells(row: &Row, columns: Option<&[String]>) -> Vec<String> {
    let mut cells = table_cells::texts(&row.payload, columns);
    if let Some(fault) = &row.fault {
        cells.extend(fault.extra.iter().cloned());
    }
    cells
}

/// Schema of a type, if it has one.
async fn schema_of(app: &App, name: &str) -> Result<Option<Arc<Schema>>> {
    let found = known_type(app, name).await?;
    Ok(found.payload_schema.and_then(|text| compiled(text.text()).ok()))
}

/// Type of this name (422 `unknown_job_type`).
pub(super) async fn known_type(app: &App, name: &str) -> Result<JobType> {
    let unknown = |error| match error {
        Error::Problem(problem) if problem.code == Code::NotFound => {
            Error::refuse(Code::UnknownJobType, "There is no job type of this name.")
        }
        error => error,
    };
    job_types::get(app, name).await.map_err(unknown)
}
