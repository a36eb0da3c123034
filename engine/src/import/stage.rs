//! Conversion of workbooks to lines: at the first use, stored beside the workbook.

use domain::{Code, Problem};
use sqlx::PgPool;

use super::upload_head::Reading;
use crate::{
    error::{Error, Result},
    import::{
        files::{Arrived, Files},
        split::Staged,
        workbook::{self, WorkbookError},
    },
    store::import::uploads,
    task::in_task,
};

/// Key of errors that concern the whole workbook, whichever sheet is requested.
const WHOLE: &str = "";

/// Returns the lines of a sheet, by default the first. An unreadable workbook is `invalid_body`; this is determined
/// once and stored with its upload.
pub async fn stage(pool: &PgPool, files: &Files, reading: Reading<'_>) -> Result<Staged> {
    let Reading { upload, sheet, for_owner, quotas } = reading;
    let name = sheet.unwrap_or_default();
    if let Some((object_id, bytes)) = uploads::find_converted_sheet(pool, upload.id, name).await? {
        return Ok(Staged { object_id, bytes: bytes as u64 });
    }
    let bytes = upload.bytes as u64;
    if bytes > files.workbook_limit() {
        let detail = format!("A workbook may have at most {} bytes.", files.workbook_limit());
        return Err(Error::refuse(Code::TooLarge, detail));
    }
    if let Some(known) = known_refusal(pool, upload.id, sheet).await? {
        return Err(refusal(known));
    }
    let (pool, files, upload_id, quotas) = (pool.clone(), files.clone(), upload.id, quotas.clone());
    let sheet = sheet.map(str::to_owned);
    // A separate task: the conversion is stored even if the client disconnects.
    in_task("converting a workbook", async move {
        let name = sheet.clone().unwrap_or_default();
        let _turn = workbook::take_turn(for_owner).await;
        // Converted while other requests of this owner had their turn.
        if let Some((object_id, bytes)) = uploads::find_converted_sheet(&pool, upload_id, &name).await? {
            return Ok(Staged { object_id, bytes: bytes as u64 });
        }
        if let Some(known) = known_refusal(&pool, upload_id, sheet.as_deref()).await? {
            return Err(refusal(known));
        }
        let left = quotas.bytes_left(for_owner, 1).await?;
        match workbook::convert(&files, upload_id, bytes, sheet.clone(), left).await {
            Ok((lines, sheets)) => {
                uploads::set_sheets(&pool, upload_id, &sheets).await?;
                keep(&pool, &files, upload_id, &name, &lines).await
            }
            Err(error) => {
                match &error {
                    WorkbookError::Unreadable(reason) => {
                        uploads::insert_unreadable(&pool, upload_id, WHOLE, reason).await?;
                    }
                    WorkbookError::UnreadableSheet(reason, sheets) => {
                        uploads::set_sheets(&pool, upload_id, sheets).await?;
                        let one = sheet.as_deref().or(sheets.first().map(String::as_str)).unwrap_or(WHOLE);
                        uploads::insert_unreadable(&pool, upload_id, one, reason).await?;
                    }
                    WorkbookError::NoSheet(sheets) => uploads::set_sheets(&pool, upload_id, sheets).await?,
                    WorkbookError::OverQuota => return Err(quotas.too_many_bytes(left).into()),
                    WorkbookError::Files(_) | WorkbookError::Disk(_) => {}
                }
                Err(refusal(error))
            }
        }
    })
    .await
}

/// Stored reason why a sheet cannot be read, if any.
async fn known_refusal(pool: &PgPool, upload_id: uuid::Uuid, sheet: Option<&str>) -> Result<Option<WorkbookError>> {
    let opened = uploads::workbook_facts(pool, upload_id, sheet.unwrap_or_default()).await?;
    if let Some(reason) = opened.unreadable {
        return Ok(Some(WorkbookError::Unreadable(reason)));
    }
    let Some(sheets) = opened.sheets else { return Ok(None) };
    let exists = sheet.map_or(!sheets.is_empty(), |wanted| sheets.iter().any(|sheet| sheet == wanted));
    Ok((!exists).then_some(WorkbookError::NoSheet(sheets)))
}

/// Writes the row after the lines are in place.
async fn keep(pool: &PgPool, files: &Files, upload_id: uuid::Uuid, sheet: &str, lines: &Arrived) -> Result<Staged> {
    files.keep(lines).await?;
    let is_first = {
        let mut connection = pool.acquire().await?;
        uploads::insert_converted_sheet(&mut connection, upload_id, sheet, lines.id, lines.bytes as i64).await?
    };
    if is_first {
        return Ok(Staged { object_id: lines.id, bytes: lines.bytes });
    }
    files.remove(lines.id).await?;
    let first = uploads::find_converted_sheet(pool, upload_id, sheet).await?;
    let (object_id, bytes) = first.ok_or_else(|| Problem::not_found("upload"))?;
    Ok(Staged { object_id, bytes: bytes as u64 })
}

fn refusal(error: WorkbookError) -> Error {
    let invalid = |pointer: &str, detail| Problem::invalid_body([(pointer.to_owned(), detail)]).into();
    match error {
        WorkbookError::Unreadable(what) | WorkbookError::UnreadableSheet(what, _) => {
            invalid("/upload/id", format!("expected an Excel workbook that can be read; it {what}"))
        }
        WorkbookError::NoSheet(names) if names.is_empty() => {
            invalid("/upload/id", "expected an Excel workbook with a sheet; it has none".to_owned())
        }
        WorkbookError::NoSheet(names) => {
            let names: Vec<String> = names.iter().take(20).map(|name| format!("{name:?}")).collect();
            invalid("/upload/sheet", format!("expected the name of a sheet: {}", names.join(", ")))
        }
        WorkbookError::Files(object_store::Error::NotFound { .. }) => Problem::not_found("upload").into(),
        WorkbookError::Files(error) => error.into(),
        WorkbookError::OverQuota => Problem::new(Code::QuotaExceeded, "The rows of the sheet would not fit.").into(),
        WorkbookError::Disk(error) => Error::Broken(format!("a workbook on its way through the disk: {error}")),
    }
}
