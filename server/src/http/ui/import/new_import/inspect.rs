//! What the page of a new import shows of a file: its first rows, its columns, and the check of all its rows.

use std::time::Duration;

use app::pages::import::new_import::{FIRST_ROWS, ImportForm, LAST_ROWS, MOST_COLUMNS, brief, suggested};
use domain::{
    api::JobUpload,
    import::{
        file_check::{FileCheck, FileCheckBody},
        mapping::Mapping,
        settings::MappingSuggestion,
        upload::{Preview, Upload},
    },
};

use super::typed_rows::keep_known;
use crate::{
    App, corrections,
    uploads::{self, Beside},
};
use engine::{
    access::caller::Caller,
    error::{Error, Result},
};

/// Largest file that is checked before the page is shown, in bytes, and time that its check may take. Larger files are
/// shown with their first rows, and checked on request.
const CHECKED_AT_ONCE: i64 = 256 << 10;
const AT_ONCE: Duration = Duration::from_millis(200);

/// How much of a file is checked for a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// All of it.
    Whole,
    /// All of it if that takes no time to speak of.
    AtOnce,
}

/// Reads the first rows of the file and what its columns could become, and checks the rows as they are matched.
pub(super) async fn inspect(
    app: &App,
    caller: &Caller,
    form: &mut ImportForm,
    upload: &Upload,
    extent: Check,
) -> Result<()> {
    read_first_rows(app, caller, form, upload).await?;
    let Some(preview) = form.preview.as_ref().filter(|preview| preview.problem.is_none()) else { return Ok(()) };
    let columns = (!preview.columns.is_empty()).then_some(preview.columns.as_slice());
    let width = preview.rows.iter().map(|row| row.cells.len()).max().unwrap_or(0);
    keep_known(&mut form.edits, columns, width);
    form.check = match extent {
        Check::Whole => check_rows(app, caller, form, upload).await?,
        Check::AtOnce if upload.bytes <= CHECKED_AT_ONCE => {
            tokio::time::timeout(AT_ONCE, check_rows(app, caller, form, upload)).await.unwrap_or(Ok(None))?
        }
        Check::AtOnce => None,
    };
    Ok(())
}

/// Checks all rows with the edits. `None` if the job would be refused for another reason than its rows.
async fn check_rows(app: &App, caller: &Caller, form: &ImportForm, upload: &Upload) -> Result<Option<FileCheck>> {
    if !form.job_types.contains(&form.job_type) {
        return Ok(None);
    }
    let body = body_of(form, upload);
    let beside = Beside { first: FIRST_ROWS, last: LAST_ROWS, suggests: true };
    match uploads::check_rows(app, caller, upload.id, body, beside).await {
        Ok(check) => Ok(Some(check)),
        Err(Error::Problem(problem)) if problem.status == 422 => Ok(None),
        Err(error) => Err(error),
    }
}

fn body_of(form: &ImportForm, upload: &Upload) -> FileCheckBody {
    let JobUpload { format, header, header_row, delimiter, encoding, sheet, .. } = reading(form, upload);
    FileCheckBody {
        job_type: form.job_type.clone(),
        format,
        header,
        header_row,
        delimiter,
        encoding,
        sheet,
        mapping: if form.choices.is_empty() { None } else { form.mapping() },
        edits: form.edits.clone(),
    }
}

/// The check that the form describes.
pub(super) async fn check_body(
    app: &App,
    caller: &Caller,
    form: &ImportForm,
    upload: &Upload,
) -> Result<FileCheckBody> {
    let mut form = form.clone();
    form.suggestion = suggestion(app, caller, &form, upload).await?;
    // Choices were made for another way of reading.
    if form.matched != form.reading() {
        form.choices = form.suggestion.as_ref().map(suggested).unwrap_or_default();
    }
    Ok(body_of(&form, upload))
}

async fn read_first_rows(app: &App, caller: &Caller, form: &mut ImportForm, upload: &Upload) -> Result<()> {
    form.preview = look(app, caller, form, upload, None).await?.map(brief);
    if form.suggestion.is_none() {
        form.suggestion = suggestion(app, caller, form, upload).await?;
    }
    let columns = form.suggestion.as_ref().map_or(0, |suggestion| suggestion.columns.len());
    let mapping = if form.choices.len() == columns { form.mapping() } else { None };
    let Some(mapping) = mapping else { return Ok(()) };
    let matched = look(app, caller, form, upload, Some(mapping)).await?;
    if let (Some(preview), Some(matched)) = (&mut form.preview, matched) {
        for (row, matched) in preview.rows.iter_mut().zip(matched.rows) {
            row.problem = matched.problem;
        }
        preview.check = matched.check;
    }
    Ok(())
}

/// Suggested properties of the columns. `None` if the type names none, or the file has no header or too many columns.
/// Corrected rows have the columns of their import and keep its mapping.
pub(super) async fn suggestion(
    app: &App,
    caller: &Caller,
    form: &ImportForm,
    upload: &Upload,
) -> Result<Option<MappingSuggestion>> {
    if !form.header || !form.job_types.contains(&form.job_type) {
        return Ok(None);
    }
    let of_import = match &form.corrects {
        Some(first) => {
            let mapping = corrections::mapping(app, caller, first.id).await?;
            // Without a mapping, the columns have the names of the properties already.
            let Some(mapping) = mapping else { return Ok(None) };
            Some(mapping)
        }
        None => None,
    };
    let has_names = of_import.is_some();
    match uploads::suggest(app, caller, &reading(form, upload), &form.job_type, of_import).await {
        Ok(found) => {
            let has_names = has_names || !found.properties.is_empty();
            let fits = has_names && (1..=MOST_COLUMNS).contains(&found.columns.len());
            Ok(fits.then_some(found))
        }
        Err(Error::Problem(problem)) if problem.status == 422 => Ok(None),
        Err(error) => Err(error),
    }
}

/// First rows, read according to the form. `None` if the type cannot be chosen.
async fn look(
    app: &App,
    caller: &Caller,
    form: &ImportForm,
    upload: &Upload,
    mapping: Option<Mapping>,
) -> Result<Option<Preview>> {
    let known = form.job_types.contains(&form.job_type).then_some(form.job_type.as_str());
    match uploads::preview(app, caller, &reading(form, upload), known, mapping).await {
        Ok(preview) => Ok(Some(preview)),
        Err(Error::Problem(problem)) if problem.status == 422 => Ok(None),
        Err(error) => Err(error),
    }
}

/// Options for reading the file.
pub(super) fn reading(form: &ImportForm, upload: &Upload) -> JobUpload {
    JobUpload {
        id: upload.id,
        format: None,
        header: Some(form.header),
        // Refused where it is used, unless it is a number.
        header_row: Some(form.header_row.trim())
            .filter(|row| form.header && !row.is_empty())
            .map(|row| row.parse().unwrap_or(0)),
        delimiter: (!form.delimiter.is_empty()).then(|| form.delimiter.clone()),
        encoding: (!form.encoding.is_empty()).then(|| form.encoding.clone()),
        sheet: (!form.sheet.is_empty()).then(|| form.sheet.clone()),
    }
}
