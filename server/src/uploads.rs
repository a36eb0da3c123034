//! Uploaded files: stored for their owner, inspected before use, deleted.
//!
//! Used by the API and by the form of the pages. Independent of HTTP; `split` cuts files into rows, `files` stores
//! their bytes.

mod cell_fixes; // texts that would fit
mod column_check; // columns against a schema
mod full_check; // all rows
pub mod partial; // resumable uploads
mod preview; // first rows
mod problem_list; // rows with problems as CSV
mod row_problems; // rows against a schema
mod suggestion; // suggested column mappings
mod sweep; // deletion of unused files

use bytes::Bytes;
use domain::{
    Code, Problem,
    api::JobUpload,
    import::upload::{Upload, UploadFormat},
};
use futures::{Stream, StreamExt as _};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    App,
    auth::{Ongoing, still_valid},
};
use engine::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    import::{
        files::{Arrived, Files, ReceiveError},
        upload_head::Reading,
    },
    notify::audit,
    store::{
        access::quotas::Usage,
        import::uploads::{self, NewUpload},
        notify::audit as log,
    },
    task::in_task,
};

pub use full_check::{Beside, check_rows};
pub use preview::preview;
pub use problem_list::problem_list;
pub(crate) use row_problems::misfit;
pub use suggestion::suggest;
pub use sweep::{sweep, sweep_orphans};

/// How a caller reads a file.
fn reading<'a>(app: &'a App, caller: &Caller, upload: &'a Upload, wanted: &'a JobUpload) -> Reading<'a> {
    Reading { upload, sheet: wanted.sheet.as_deref(), for_owner: caller.owner_id, quotas: &app.quotas }
}

/// Receives a file for a caller. `format`: by default detected from its name and first bytes. On any error, no partial
/// file remains.
pub async fn store<S, E>(
    app: &App,
    caller: &Caller,
    filename: &str,
    format: Option<UploadFormat>,
    source: S,
) -> Result<Upload>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
    E: std::fmt::Display,
{
    caller.require(Scope::JobsWrite)?;
    let filename = clean_filename(filename);
    let (limit, is_named_workbook) = limit_of(app, &filename, format);
    let mut ongoing = Ongoing::of(app, caller);
    let source = source.take_until(Box::pin(async move { ongoing.ended().await }));
    let left = app.quotas.bytes_left(caller.owner_id, 0).await?;
    let arrived = app.files.receive(source, limit.min(left)).await.map_err(|error| match error {
        ReceiveError::TooLarge if left < limit => app.quotas.too_many_bytes(left).into(),
        ReceiveError::TooLarge => too_large(limit, is_named_workbook),
        ReceiveError::NoRoom => no_room(),
        ReceiveError::Sender(error) => {
            let detail = format!("the whole file; the upload broke off: {error}");
            Problem::invalid_body([("/file".to_owned(), format!("expected {detail}"))]).into()
        }
        ReceiveError::Store(error) => Error::Files(error),
    })?;
    let format = format.unwrap_or_else(|| UploadFormat::detect(&filename, &arrived.start));
    let new = NewUpload {
        id: arrived.id,
        owner_id: caller.owner_id,
        format,
        filename,
        bytes: arrived.bytes as i64,
        sha256: arrived.sha256.clone(),
        made_by: None,
    };
    let (app, caller) = (app.clone(), caller.clone());
    // A separate task: a client disconnect leaves either the whole upload or nothing.
    in_task("keeping a file", async move {
        let stored = keep_admitted(&app, &caller, &arrived, &new).await;
        if stored.is_err() {
            app.files.forget(&arrived).await?;
        }
        stored
    })
    .await
}

/// Keeps a received file if its content, its size, and the caller's credential still allow it.
async fn keep_admitted(app: &App, caller: &Caller, arrived: &Arrived, new: &NewUpload) -> Result<Upload> {
    // A credential that became invalid also ended the file at that point.
    still_valid(app, caller).await?;
    if let Some(refused) = refusal_of(app, new.format, arrived) {
        return Err(refused);
    }
    let _taken = app.quotas.take(caller.owner_id, Usage { bytes: new.bytes, ..Usage::default() }).await?;
    keep(&app.pool, &app.files, arrived, new).await
}

/// Refuses a file by its announced size before it is received: the quota of the owner, the space on the disk.
pub async fn admit(app: &App, caller: &Caller, bytes: u64) -> Result<()> {
    let left = app.quotas.bytes_left(caller.owner_id, bytes).await?;
    if bytes > left {
        return Err(app.quotas.too_many_bytes(left).into());
    }
    if app.files.has_room(bytes) { Ok(()) } else { Err(no_room()) }
}

fn no_room() -> Error {
    Error::refuse(Code::InsufficientStorage, "The disk is nearly full. Nothing was stored; an admin has to make room.")
}

/// Maximum bytes of a file, and true if that is because its name says workbook.
fn limit_of(app: &App, filename: &str, format: Option<UploadFormat>) -> (u64, bool) {
    let limit = app.config.upload_limit.bytes() as u64;
    let is_workbook = format.unwrap_or_else(|| UploadFormat::detect(filename, b"")) == UploadFormat::Xlsx;
    (if is_workbook { limit.min(app.files.workbook_limit()) } else { limit }, is_workbook)
}

/// Reason to refuse a received file, if any.
fn refusal_of(app: &App, format: UploadFormat, arrived: &Arrived) -> Option<Error> {
    let workbook_limit = app.files.workbook_limit();
    if format == UploadFormat::Xlsx && arrived.bytes > workbook_limit {
        return Some(too_large(workbook_limit, true));
    }
    not_of(format, &arrived.start).map(Error::from)
}

fn too_large(limit: u64, is_workbook: bool) -> Error {
    let what = if is_workbook { "A workbook" } else { "A file" };
    Error::refuse(Code::TooLarge, format!("{what} may have at most {limit} bytes."))
}

/// Moves the file into place and then writes its row, so that no transaction waits for a disk or a network. A file
/// without a row is an orphan and is deleted.
pub async fn keep(pool: &PgPool, files: &Files, arrived: &Arrived, new: &NewUpload) -> Result<Upload> {
    files.keep(arrived).await?;
    let row = async {
        let mut tx = engine::store::begin(pool).await?;
        let upload = uploads::insert(&mut tx, new).await?;
        engine::store::commit(tx).await?;
        Ok(upload)
    };
    let stored: Result<Upload> = row.await;
    if stored.is_err() {
        // The commit may have succeeded; then the file is missing and the upload reads as deleted, which matches the
        // error that the caller got.
        files.remove(arrived.id).await?;
    }
    stored
}

/// Refuses files whose first bytes contradict their format: they would become one dead row per line. Says what to do.
fn not_of(format: UploadFormat, start: &[u8]) -> Option<Problem> {
    const SAVE: &str = "Save or export the table as CSV or Excel (XLSX) in the program that it comes from";
    const UNPACK: &str = "Unpack it";
    /// Name and beginning of the first part.
    const OPEN_DOCUMENT: &[u8] = b"mimetypeapplication/vnd.oasis.opendocument.";
    let (what, advice) = match (format, start) {
        (UploadFormat::None, _) => return None,
        (UploadFormat::Xlsx, [b'P', b'K', 3, 4, ..]) if may_be_a_workbook(start) || begins_with_xml(start) => {
            return None;
        }
        (_, [b'P', b'K', 3, 4, ..]) if may_be_a_workbook(start) => {
            ("an Excel workbook with another ending", "Change its name so that it ends in .xlsx")
        }
        (_, [b'P', b'K', 3, 4, ..]) if start.get(30..).is_some_and(|part| part.starts_with(OPEN_DOCUMENT)) => {
            ("an OpenDocument file", SAVE)
        }
        (_, [b'P', b'K', 3 | 5, ..]) => ("a ZIP archive that is no Excel workbook", UNPACK),
        (_, [0xD0, 0xCF, 0x11, 0xE0, ..]) => (
            "an old Excel workbook (XLS), or one that is protected by a password",
            "Open it in Excel, save it as XLSX without a password",
        ),
        (_, [0x1F, 0x8B, ..]) => ("a GZIP archive", UNPACK),
        (_, [b'%', b'P', b'D', b'F', ..]) => ("a PDF, which has no rows to read", SAVE),
        (_, [0x89, b'P', b'N', b'G', ..] | [0xFF, 0xD8, 0xFF, ..] | [b'G', b'I', b'F', b'8', ..]) => ("an image", SAVE),
        (UploadFormat::Xlsx, _) => ("no Excel workbook, although it is called one", SAVE),
        _ => return None,
    };
    let detail = format!("The file is {what}. {advice}, and upload that.");
    Some(Problem::new(Code::UnsupportedMediaType, detail))
}

/// Returns true if the first part of an archive has a name that only Office documents have. Some programs write names with
/// backslashes.
fn may_be_a_workbook(start: &[u8]) -> bool {
    let name = first_part(start);
    let folder = name.split(|byte| matches!(byte, b'/' | b'\\')).next().filter(|folder| folder.len() < name.len());
    name == b"[Content_Types].xml"
        || folder.is_some_and(|f| [&b"_rels"[..], b"xl", b"docProps", b"customXml"].contains(&f))
}

/// Returns true if the first part of an archive is XML: a workbook may have its parts in any folder.
fn begins_with_xml(start: &[u8]) -> bool {
    let name = first_part(start).to_ascii_lowercase();
    name.ends_with(b".xml") || name.ends_with(b".rels")
}

/// Name of the first part of an archive.
fn first_part(start: &[u8]) -> &[u8] {
    let length = start.get(26..28).map_or(0, |bytes| usize::from(u16::from_le_bytes([bytes[0], bytes[1]])));
    start.get(30..30 + length).unwrap_or_default()
}

/// Bidirectional control characters: with them a name may appear to have a different ending.
const TURNING: [char; 12] = [
    '\u{61c}', '\u{200e}', '\u{200f}', '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}',
    '\u{2067}', '\u{2068}', '\u{2069}',
];

/// Last part of a path, without control and bidirectional characters, 1 to 200 characters.
pub(crate) fn clean_filename(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last.chars().filter(|c| !c.is_control() && !TURNING.contains(c)).collect();
    let clean = clean.trim();
    if clean.is_empty() || clean.chars().all(|c| c == '.') {
        return "upload".to_owned();
    }
    let length = clean.chars().count();
    // The extension tells the kind of file.
    clean.chars().skip(length.saturating_sub(200)).collect()
}

/// Finds a file that the caller may see: an own one, any for staff, and that of an item assigned to it.
/// Others are `not_found`.
pub async fn find(pool: &PgPool, caller: &Caller, id: Uuid) -> Result<Upload> {
    let not_found = || Problem::not_found("upload");
    if let Err(forbidden) = caller.require(Scope::JobsRead) {
        caller.require(Scope::Work).map_err(|_| forbidden)?;
        return Ok(uploads::find_for_worker(pool, id, caller.credential_id).await?.ok_or_else(not_found)?);
    }
    match uploads::find(pool, id, caller.visible_owner()).await? {
        Some(found) => Ok(found),
        None => Ok(uploads::find_for_worker(pool, id, caller.credential_id).await?.ok_or_else(not_found)?),
    }
}

/// Deletes a file that no job uses (409 `upload_in_use`). Owners delete their own, admins any, with a reason for
/// another owner's.
pub async fn delete(app: &App, caller: &Caller, id: Uuid, reason: Option<&str>) -> Result<()> {
    caller.require(Scope::JobsWrite)?;
    let owner_id = uploads::owner(&app.pool, id).await?;
    let visible = |owner_id: &Uuid| caller.visible_owner().is_none_or(|visible| visible == *owner_id);
    let owner_id = owner_id.filter(visible).ok_or_else(|| Problem::not_found("upload"))?;
    let upload = uploads::find(&app.pool, id, None).await?.ok_or_else(|| Problem::not_found("upload"))?;
    if !caller.is_admin() && caller.owner_id != owner_id {
        return Err(Error::refuse(Code::Forbidden, "Only its owner and admins may delete an upload."));
    }
    let reason = audit::reason_for(caller, owner_id, reason)?;
    let row = audit::row(caller, "upload.delete", owner_id, reason.as_deref());
    let row = row.map(|row| row.with_detail(format!("upload {id}: {}", upload.filename)));
    let pool = app.pool.clone();
    let objects = in_task("removing a file", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let objects = uploads::delete_unused(&mut *tx, id).await?;
        if let Some(row) = row.filter(|_| !objects.is_empty()) {
            log::record(&mut tx, &row).await?;
        }
        engine::store::commit(tx).await?;
        Ok(objects)
    })
    .await?;
    if objects.is_empty() {
        return Err(Error::refuse(Code::UploadInUse, "A job was made of this file; it goes with the job."));
    }
    remove(&app.files, &objects).await
}

/// Deletes objects whose rows are gone.
async fn remove(files: &Files, objects: &[Uuid]) -> Result<()> {
    for &object in objects {
        files.remove(object).await?;
    }
    Ok(())
}

/// Deletes the file of an export whose outcome was refused, unless a job was created from it.
pub async fn delete_exported(pool: &PgPool, files: &Files, id: Uuid) -> Result<()> {
    remove(files, &uploads::delete_exported(pool, id).await?).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_is_known_by_its_first_part() {
        let archive = |name: &str| {
            let length = u16::try_from(name.len()).expect("short").to_le_bytes();
            [b"PK\x03\x04".as_slice(), &[0; 22], &length, &[0; 2], name.as_bytes(), b"content"].concat()
        };
        for (name, as_workbook, as_table) in [
            ("[Content_Types].xml", true, "another ending"),
            ("xl/workbook.xml", true, "another ending"),
            ("docProps\\app.xml", true, "another ending"),
            ("sheet1.xml", true, "a ZIP archive"),
            ("xl", false, "a ZIP archive"),
            ("notes.txt", false, "a ZIP archive"),
            ("", false, "a ZIP archive"),
        ] {
            let start = archive(name);
            assert_eq!(not_of(UploadFormat::Xlsx, &start).is_none(), as_workbook, "{name}");
            let refused = not_of(UploadFormat::Csv, &start).expect("refused").detail;
            assert!(refused.contains(as_table), "{name}: {refused}");
        }
        assert!(not_of(UploadFormat::Xlsx, &archive("sheet1.xml")[..35]).is_some(), "cut off");
    }

    #[test]
    fn a_hostile_name_is_only_a_name() {
        for (given, stored) in [
            ("a.csv", "a.csv"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.csv", "a.csv"),
            ("a\0\r\nb.csv", "ab.csv"),
            ("\u{202e}vsc.exe", "vsc.exe"),
            ("..", "upload"),
            ("", "upload"),
            ("dir/", "upload"),
        ] {
            assert_eq!(clean_filename(given), stored);
        }
        let long = format!("{}.csv", "é".repeat(5_000));
        assert!(clean_filename(&long).ends_with("é.csv"));
        assert_eq!(clean_filename(&long).chars().count(), 200);
    }
}
