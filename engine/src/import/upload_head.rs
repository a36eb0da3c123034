//! Head of an uploaded file: format, encoding, header, and the columns of its rows.

use domain::{
    Problem,
    api::JobUpload,
    import::upload::{Upload, UploadFormat},
};
use sqlx::PgPool;
use uuid::Uuid;

use super::{
    files::Files,
    split::{self, Encoding, Head, HeadError, Want},
    stage,
};
use crate::{
    access::caller::Caller,
    error::{Error, Result},
    quotas::Quotas,
    store::import::uploads,
};

/// Reads the head of a file to create a job from it. Refuses files that cannot be split (`no_rows`, `bad_header`,
/// `invalid_body`) and other owners' files (`not_found`).
pub async fn read_head(
    pool: &PgPool,
    files: &Files,
    quotas: &Quotas,
    caller: &Caller,
    wanted: &JobUpload,
) -> Result<Head> {
    let upload = uploads::find(pool, wanted.id, caller.visible_owner()).await?;
    let upload = upload.ok_or_else(|| Problem::not_found("upload"))?;
    let want = want(&upload, wanted)?;
    let reading = Reading { upload: &upload, sheet: wanted.sheet.as_deref(), for_owner: caller.owner_id, quotas };
    inspect(pool, files, reading, want).await?.map_err(Error::Problem)
}

/// Error text for an unknown encoding label.
pub const UNKNOWN_ENCODING: &str = "expected an encoding such as utf-8, utf-16le, windows-1252 or iso-8859-15";

/// Error text for a row that cannot be the header.
pub const UNKNOWN_HEADER_ROW: &str = "expected the line of a row, from 1 to 1000";

/// Rows that can name the columns.
pub const HEADER_ROWS: std::ops::RangeInclusive<i64> = 1..=1_000;

/// Maximum characters of a sheet name.
pub const LONGEST_SHEET: usize = 31;

/// Converts the requested way of reading to what the reader wants. 422 `invalid_body` names the field.
pub fn want(upload: &Upload, wanted: &JobUpload) -> Result<Want> {
    let delimiter = match &wanted.delimiter {
        None => None,
        Some(text) => Some(Want::delimiter(text).ok_or_else(|| {
            let expected = "expected one ASCII character that is not a quote, a letter, a digit or an end of line";
            Problem::invalid_body([("/upload/delimiter".to_owned(), expected.to_owned())])
        })?),
    };
    let encoding = match &wanted.encoding {
        None => None,
        Some(label) => Some(
            Encoding::of_label(label)
                .ok_or_else(|| Problem::invalid_body([("/upload/encoding".to_owned(), UNKNOWN_ENCODING.to_owned())]))?,
        ),
    };
    if wanted.sheet.as_ref().is_some_and(|sheet| sheet.chars().count() > LONGEST_SHEET) {
        let expected = format!("expected the name of a sheet: at most {LONGEST_SHEET} characters");
        return Err(Problem::invalid_body([("/upload/sheet".to_owned(), expected)]).into());
    }
    if wanted.header_row.is_some_and(|row| !HEADER_ROWS.contains(&row)) {
        let expected = UNKNOWN_HEADER_ROW.to_owned();
        return Err(Problem::invalid_body([("/upload/header_row".to_owned(), expected)]).into());
    }
    let (format, header) = (wanted.format.unwrap_or(upload.format), wanted.header.unwrap_or(true));
    Ok(Want { format, header, header_row: wanted.header_row, delimiter, encoding })
}

/// Inspection of a file.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    pub upload: &'a Upload,
    pub sheet: Option<&'a str>,
    /// Owner whose turn is used: one workbook conversion per owner at a time, within what the owner may still store.
    pub for_owner: Uuid,
    pub quotas: &'a Quotas,
}

/// Reads the head of a file. The inner error is a refusal of its content.
pub async fn inspect(
    pool: &PgPool,
    files: &Files,
    reading: Reading<'_>,
    want: Want,
) -> Result<Result<Head, Box<Problem>>> {
    let upload = reading.upload;
    if want.format == UploadFormat::None {
        return Ok(Ok(Head::whole_file()));
    }
    let mut staged = None;
    if want.format == UploadFormat::Xlsx {
        match stage::stage(pool, files, reading).await {
            Ok(lines) => staged = Some(lines),
            Err(Error::Problem(problem)) if problem.status == 422 => return Ok(Err(problem)),
            Err(error) => return Err(error),
        }
    }
    let (object_id, bytes) = staged.map_or((upload.id, upload.bytes as u64), |s| (s.object_id, s.bytes));
    let source = files.read(object_id, 0, bytes).await.map_err(|error| match error {
        object_store::Error::NotFound { .. } => Problem::not_found("upload").into(),
        error => Error::Files(error),
    })?;
    match split::inspect(source, bytes, want).await {
        Ok(head) => Ok(Ok(Head { staged, ..head })),
        Err(HeadError::Refused(problem)) => Ok(Err(problem)),
        Err(HeadError::Read(error)) => Err(error.into()),
    }
}
