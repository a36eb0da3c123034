//! Import of files into items, one batch at a time.
//!
//! Each tick takes the file that has waited longest, so that files advance together. Rows and the new position in the
//! file are one commit, guarded by the old position: with a crash at any point, or two servers on the same file, every
//! row is added once. No transaction is open while a file is read.

use std::time::Duration;

use domain::{
    Document,
    api::WorkError,
    import::upload::UploadFormat,
    job_type::{Executor, ExecutorKind},
};

use super::driver::{IDLE, Tasks};
use crate::{App, uploads::misfit};
use engine::{
    SplitBatch, SplitRow,
    error::{Error, Result},
    import::split::{Head, Place, Reader, Rules},
    schema::compiled,
    store::import::uploads::{self, OpenImport},
};

/// Maximum rows and payload bytes of a batch.
const BATCH_ROWS: usize = 1_000;
const BATCH_BYTES: usize = 4 << 20;

/// Starts the import of files.
pub(super) fn spawn(tasks: &Tasks<'_>) {
    let tick = |app: App| async move { Ok(if tick(&app).await? { Duration::ZERO } else { IDLE }) };
    tasks.on_wake("import", tick, |app| async move { app.engine.split_requested().await });
}

/// Imports one batch of one file. False if no file is open.
async fn tick(app: &App) -> Result<bool> {
    let Some(split) = uploads::take_import(&app.pool).await? else { return Ok(false) };
    let batch = match read_batch(app, &split).await {
        Err(Error::Files(object_store::Error::NotFound { .. })) => missing_file(&split),
        other => other?,
    };
    if !app.engine.add_split_batch(batch).await? {
        // Another server was first, or the job accepts no more items.
        uploads::close_imports(&app.pool).await?;
    }
    // Soon, because readers of a complete job expect it; the sweep repeats what fails.
    if let Err(error) = app.engine.match_corrections_of(split.job_id).await {
        tracing::debug!(%error, "matching corrected rows failed");
    }
    Ok(true)
}

async fn read_batch(app: &App, split: &OpenImport) -> Result<SplitBatch> {
    let head: Head = serde_json::from_str(&split.head)
        .map_err(|e| Error::Broken(format!("the head of the file of job {}: {e}", split.job_id)))?;
    let schema = split.payload_schema.as_deref().and_then(|text| compiled(text).ok());
    let column_rules = schema
        .as_ref()
        .map_or_else(Vec::new, |s| s.column_rules(head.payload_columns().as_deref(), head.payload_width()));
    if head.format == UploadFormat::None {
        return Ok(whole_file(split));
    }
    let place = Place { offset: split.byte_offset as u64, line: split.line as u64 };
    let (object_id, bytes) = head.source(split.upload_id, split.bytes as u64);
    let source = app.files.read(object_id, place.offset, bytes).await?;
    let table = head.clone();
    let rules = Rules { column_rules, payload_limit: app.config.payload_limit.bytes() };
    let mut reader = Reader::new(source, head, place, rules);
    // Built-in executors check the schema themselves.
    let executor: Executor = serde_json::from_str(&split.executor).unwrap_or_default();
    let schema = schema.filter(|_| executor.kind != ExecutorKind::Builtin);

    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut done = false;
    while (rows.len() < BATCH_ROWS && bytes < BATCH_BYTES) || !reader.may_stop() {
        let Some(mut row) = reader.next().await? else {
            done = true;
            break;
        };
        if row.is_left_out {
            continue;
        }
        bytes += row.payload.text().len();
        if let (None, Some(schema)) = (&row.fault, &schema) {
            row.fault = misfit(schema, &row, &table);
        }
        rows.push(SplitRow {
            line: row.number,
            payload: row.payload,
            problem: row.fault.as_ref().map(|fault| WorkError {
                message: fault.message(),
                kind: Some(fault.kind.as_str().to_owned()),
                detail: Some(fault.detail()),
            }),
        });
    }
    let end = reader.place();
    Ok(SplitBatch {
        job_id: split.job_id,
        from: split.byte_offset,
        to: end.offset as i64,
        line: end.line as i64,
        rows,
        done,
        expected: None,
    })
}

/// The single item of a file that is not split.
fn whole_file(split: &OpenImport) -> SplitBatch {
    let payload = engine::import::split::whole_file_payload(split.upload_id);
    SplitBatch {
        job_id: split.job_id,
        from: split.byte_offset,
        to: split.bytes,
        line: split.line,
        rows: vec![SplitRow { line: split.line, payload, problem: None }],
        done: true,
        expected: None,
    }
}

/// Handles a missing file: the job ends with one dead row that says so.
fn missing_file(split: &OpenImport) -> SplitBatch {
    tracing::error!(upload = %split.upload_id, job = %split.job_id, "uploaded file missing");
    let message = format!("Line {}: expected the rest of the file, found that the file is gone.", split.line);
    SplitBatch {
        job_id: split.job_id,
        from: split.byte_offset,
        to: split.bytes,
        line: split.line,
        rows: vec![SplitRow {
            line: split.line,
            payload: Document::null(),
            problem: Some(WorkError { message, kind: Some("upload_gone".to_owned()), detail: None }),
        }],
        done: true,
        expected: None,
    }
}
