//! Uploaded files: stored for their owner, looked into before anything runs, removed.
//!
//! Used by the API and by the form of the pages alike. Knows nothing of HTTP; how a file is cut into
//! rows is in `split`, where its bytes are in `files`.

use bytes::Bytes;
use domain::{
    Code, Problem,
    api::JobUpload,
    upload::{Preview, PreviewRow, Upload, UploadFormat},
};
use futures::Stream;
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    App,
    auth::{Caller, Scope},
    error::{Error, Result},
    files::{Files, ReceiveError},
    sheet,
    split::{self, Head, HeadError, Reader, Rules, Want},
    store::uploads::{self, NewUpload},
};

/// Rows of a preview.
const PREVIEW_ROWS: usize = 20;

/// Receives a file for a caller. `format`: absent, the one that the file's name suggests. Whatever goes
/// wrong, nothing of half a file remains.
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
    let limit = app.config.upload_limit.bytes() as u64;
    let arrived = app.files.receive(source, limit).await.map_err(|error| match error {
        ReceiveError::TooLarge => Error::refuse(Code::TooLarge, format!("A file may have at most {limit} bytes.")),
        ReceiveError::Sender(error) => {
            let detail = format!("the whole file; the upload broke off: {error}");
            Problem::invalid_body([("/file".to_owned(), format!("expected {detail}"))]).into()
        }
        ReceiveError::Store(error) => Error::Files(error),
    })?;
    let filename = clean_filename(filename);
    let new = NewUpload {
        id: arrived.id,
        owner_id: caller.owner_id,
        format: format.unwrap_or_else(|| UploadFormat::of_filename(&filename)),
        filename,
        bytes: arrived.bytes as i64,
        sha256: arrived.sha256.clone(),
    };
    let refused = not_a_text(&arrived.start);
    let (pool, files) = (app.pool.clone(), app.files.clone());
    // A task of its own: a client that goes away now leaves either the whole upload or nothing.
    let kept = tokio::spawn(async move {
        let kept = match refused {
            Some(problem) => Err(problem.into()),
            None => keep(&pool, &files, &arrived, &new).await,
        };
        if kept.is_err() {
            files.forget(&arrived).await?;
        }
        kept
    });
    kept.await.map_err(|e| Error::Broken(e.to_string()))?
}

/// The row is written first and becomes visible last: between them the file is put into its place.
async fn keep(pool: &PgPool, files: &Files, arrived: &crate::files::Arrived, new: &NewUpload) -> Result<Upload> {
    let mut tx = pool.begin().await?;
    let upload = uploads::insert(&mut tx, new).await?;
    files.keep(arrived).await?;
    match tx.commit().await {
        Ok(()) => Ok(upload),
        Err(error) => {
            // The commit may have happened all the same; then the file is found missing and the upload
            // reads as gone, which the caller, who got an error, expects.
            files.remove(arrived.id).await?;
            Err(error.into())
        }
    }
}

/// Files that are no text, told by their first bytes. They would become one dead row per line.
fn not_a_text(start: &[u8]) -> Option<Problem> {
    let what = match start {
        [b'P', b'K', 3 | 5, ..] => "a ZIP archive or an XLSX workbook",
        [0xD0, 0xCF, 0x11, 0xE0, ..] => "an XLS workbook",
        [0x1F, 0x8B, ..] => "a GZIP archive",
        [b'%', b'P', b'D', b'F', ..] => "a PDF",
        [0x89, b'P', b'N', b'G', ..] | [0xFF, 0xD8, 0xFF, ..] | [b'G', b'I', b'F', b'8', ..] => "an image",
        _ => return None,
    };
    let detail = format!("The file is {what}. Expected CSV or NDJSON; a spreadsheet can be saved as CSV.");
    Some(Problem::new(Code::UnsupportedMediaType, detail))
}

/// The last part of a path, without control characters, 1 to 200 characters.
fn clean_filename(name: &str) -> String {
    let last = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let clean: String = last.chars().filter(|c| !c.is_control()).collect();
    let clean = clean.trim();
    if clean.is_empty() || clean.chars().all(|c| c == '.') {
        return "upload".to_owned();
    }
    let length = clean.chars().count();
    // The end says what kind of file it is.
    clean.chars().skip(length.saturating_sub(200)).collect()
}

/// A file that the caller may see. Another's is `not_found`.
pub async fn find(pool: &PgPool, caller: &Caller, id: Uuid) -> Result<Upload> {
    caller.require(Scope::JobsRead)?;
    Ok(uploads::find(pool, id, caller.visible_owner()).await?.ok_or_else(|| Problem::not_found("upload"))?)
}

/// Removes a file that no job was made of (409 `upload_in_use`).
pub async fn delete(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    caller.require(Scope::JobsWrite)?;
    let upload = uploads::find(&app.pool, id, caller.visible_owner()).await?;
    let upload = upload.ok_or_else(|| Problem::not_found("upload"))?;
    if !uploads::delete_unused(&app.pool, upload.id).await? {
        return Err(Error::refuse(Code::UploadInUse, "A job was made of this file; it goes with the job."));
    }
    Ok(app.files.remove(upload.id).await?)
}

/// What the head of a file says, for a job to be made of it. Refuses files that cannot be split
/// (`no_rows`, `bad_header`) and those of others (`not_found`).
pub async fn read_head(pool: &PgPool, files: &Files, caller: &Caller, wanted: &JobUpload) -> Result<Head> {
    let upload = uploads::find(pool, wanted.id, caller.visible_owner()).await?;
    let upload = upload.ok_or_else(|| Problem::not_found("upload"))?;
    let want = want(&upload, wanted)?;
    inspect(files, &upload, want).await?.map_err(Error::Problem)
}

fn want(upload: &Upload, wanted: &JobUpload) -> Result<Want> {
    let delimiter = match &wanted.delimiter {
        None => None,
        Some(text) => Some(Want::delimiter(text).ok_or_else(|| {
            let expected = "expected one ASCII character that is not a quote, a letter, a digit or an end of line";
            Problem::invalid_body([("/upload/delimiter".to_owned(), expected.to_owned())])
        })?),
    };
    Ok(Want { format: wanted.format.unwrap_or(upload.format), header: wanted.header.unwrap_or(true), delimiter })
}

async fn inspect(files: &Files, upload: &Upload, want: Want) -> Result<Result<Head, Box<Problem>>> {
    let bytes = upload.bytes as u64;
    match split::inspect(files.read(upload.id, 0, bytes).await?, bytes, want).await {
        Ok(head) => Ok(Ok(head)),
        Err(HeadError::Refused(problem)) => Ok(Err(problem)),
        Err(HeadError::Read(error)) => Err(error.into()),
    }
}

/// The first rows of a file as they would be read.
pub async fn preview(app: &App, caller: &Caller, wanted: &JobUpload) -> Result<Preview> {
    let upload = find(&app.pool, caller, wanted.id).await?;
    let want = want(&upload, wanted)?;
    let head = match inspect(&app.files, &upload, want).await? {
        Ok(head) => head,
        Err(problem) => {
            return Ok(Preview {
                format: want.format,
                delimiter: want.delimiter.map(String::from),
                encoding: split::Encoding::Utf8.as_str().to_owned(),
                columns: Vec::new(),
                rows: Vec::new(),
                problem: Some(format!("{}: {}", problem.code.as_str(), problem.detail)),
            });
        }
    };
    let source = app.files.read(upload.id, head.first.offset, upload.bytes as u64).await?;
    let rules = Rules { kinds: Vec::new(), payload_limit: app.config.payload_limit.bytes() };
    let mut reader = Reader::new(source, head.clone(), head.first, rules);
    let mut rows = Vec::new();
    while rows.len() < PREVIEW_ROWS
        && let Some(row) = reader.next().await?
    {
        let is_table = head.format == UploadFormat::Csv;
        rows.push(PreviewRow {
            row: row.number,
            cells: if is_table { sheet::cells(&row.payload, head.data_columns()) } else { Vec::new() },
            payload: (!is_table).then_some(row.payload),
            problem: row.fault.map(|fault| fault.message()),
        });
    }
    Ok(Preview {
        format: head.format,
        delimiter: head.delimiter.map(String::from),
        encoding: head.encoding.as_str().to_owned(),
        columns: head.data_columns().map(<[String]>::to_vec).unwrap_or_default(),
        rows,
        problem: None,
    })
}

/// Removes files that no job was made of for a day, and files that a crash between disk and database
/// has left without an owner. Returns how many.
pub async fn sweep(pool: &PgPool, files: &Files) -> Result<usize> {
    let unused = uploads::forget_unused(pool).await?;
    for &id in &unused {
        files.remove(id).await?;
    }
    let old = files.list_older(std::time::Duration::from_hours(1)).await?;
    let mut orphans = 0;
    for ids in old.chunks(1_000) {
        let known = uploads::known(pool, ids).await?;
        for id in ids.iter().filter(|id| !known.contains(id)) {
            files.remove(*id).await?;
            orphans += 1;
        }
    }
    Ok(unused.len() + orphans)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hostile_name_is_only_a_name() {
        for (given, kept) in [
            ("a.csv", "a.csv"),
            ("../../etc/passwd", "passwd"),
            ("C:\\temp\\a.csv", "a.csv"),
            ("a\0\r\nb.csv", "ab.csv"),
            ("..", "upload"),
            ("", "upload"),
            ("dir/", "upload"),
        ] {
            assert_eq!(clean_filename(given), kept);
        }
        let long = format!("{}.csv", "é".repeat(5_000));
        assert!(clean_filename(&long).ends_with("é.csv"));
        assert_eq!(clean_filename(&long).chars().count(), 200);
    }
}
