//! Workbooks as lines: converted when somebody first looks at one, and kept beside it.

use domain::{Code, Problem, upload::Upload};
use sqlx::PgPool;

use crate::{
    error::{Error, Result},
    files::{Arrived, Files},
    split::Staged,
    store::uploads,
    task::in_task,
    workbook::{self, WorkbookError},
};

/// The lines of a sheet; absent, of the first one. A workbook that cannot be read is `invalid_body`.
pub(super) async fn stage(pool: &PgPool, files: &Files, upload: &Upload, sheet: Option<&str>) -> Result<Staged> {
    let name = sheet.unwrap_or_default();
    if let Some((object_id, bytes)) = uploads::find_staged(pool, upload.id, name).await? {
        return Ok(Staged { object_id, bytes: bytes as u64 });
    }
    let bytes = upload.bytes as u64;
    if bytes > files.workbook_limit() {
        let detail = format!("A workbook may have at most {} bytes.", files.workbook_limit());
        return Err(Error::refuse(Code::TooLarge, detail));
    }
    let (pool, files, upload_id) = (pool.clone(), files.clone(), upload.id);
    let sheet = sheet.map(str::to_owned);
    // A task of its own: whoever asked and went away, what has been converted is kept.
    in_task("converting a workbook", async move {
        let name = sheet.clone().unwrap_or_default();
        let lines = workbook::convert(&files, upload_id, bytes, sheet).await.map_err(refusal)?;
        keep(&pool, &files, upload_id, &name, &lines).await
    })
    .await
}

/// The row becomes visible when the lines are in their place.
async fn keep(pool: &PgPool, files: &Files, upload_id: uuid::Uuid, sheet: &str, lines: &Arrived) -> Result<Staged> {
    files.keep(lines).await?;
    let is_first = {
        let mut connection = pool.acquire().await?;
        uploads::insert_staged(&mut connection, upload_id, sheet, lines.id, lines.bytes as i64).await?
    };
    if is_first {
        return Ok(Staged { object_id: lines.id, bytes: lines.bytes });
    }
    files.remove(lines.id).await?;
    let first = uploads::find_staged(pool, upload_id, sheet).await?;
    let (object_id, bytes) = first.ok_or_else(|| Problem::not_found("upload"))?;
    Ok(Staged { object_id, bytes: bytes as u64 })
}

fn refusal(error: WorkbookError) -> Error {
    let invalid = |pointer: &str, detail| Problem::invalid_body([(pointer.to_owned(), detail)]).into();
    match error {
        WorkbookError::Unreadable(what) => {
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
        WorkbookError::Disk(error) => Error::Broken(format!("a workbook on its way through the disk: {error}")),
    }
}
