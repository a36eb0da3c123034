//! `/imports/new`: first a file is uploaded, then its rows are reviewed and the import is started.
//!
//! Both steps are forms that work without JavaScript. The second is drawn by the server alone; where a choice changes how
//! the file is read, its sections are fetched again (`scripts/review.js`). A file that is too large to be checked at once
//! is shown with its first rows, and its check is requested afterwards. The server checks everything once more when the
//! import starts.

mod columns; // columns and the properties that they become
mod files; // several stored files
mod grid; // the rows of a checked file
mod options; // how the file is read
mod preview; // the first rows
pub mod templates; // files to start from

use std::fmt;

use domain::{
    Problem,
    id::Uuid,
    import::{
        file_check::FileCheck,
        row_edit::RowEdit,
        settings::MappingSuggestion,
        upload::{Preview, Upload},
    },
};
use leptos::prelude::*;

use crate::{
    components::{breadcrumbs::breadcrumbs, state::icon},
    frame::{NavSection, Page},
    speech::{in_words, upload_refusals},
    t, t_view,
    upload::{UploadForm, size},
};

pub use columns::{Choice, MOST_COLUMNS, suggested};
pub use grid::{FIRST_ROWS, LAST_ROWS, RowFilter};
pub use options::{DELIMITERS, ENCODINGS};
pub use preview::brief;

/// Content of the pages: the choices, and the input before a refusal.
#[derive(Clone, Debug, Default)]
pub struct ImportForm {
    /// Names of the job types that a file can start.
    pub job_types: Vec<String>,
    /// Those of them with a template.
    pub templates: Vec<String>,
    pub job_type: String,
    pub header: bool,
    /// Line of the row with the column names, as typed; empty for the first row.
    pub header_row: String,
    /// Sheet of a workbook; empty for the first.
    pub sheet: String,
    /// One of [`DELIMITERS`], empty for "detect".
    pub delimiter: String,
    /// One of [`ENCODINGS`], empty for "detect".
    pub encoding: String,
    /// Name of the import; empty for the name of the file.
    pub name: String,
    /// The stored file.
    pub upload: Option<Upload>,
    /// Its first rows.
    pub preview: Option<Preview>,
    /// Result of the check of all its rows with the edits; absent if it was not checked or cannot be.
    pub check: Option<FileCheck>,
    /// Rows that the reader changed or left out.
    pub edits: Vec<RowEdit>,
    /// Rows to show; absent: those with a problem, if there are any.
    pub rows: Option<RowFilter>,
    /// Suggested properties of its columns; absent if the type names none, or the file no columns.
    pub suggestion: Option<MappingSuggestion>,
    /// Choices for its columns.
    pub choices: Vec<Choice>,
    /// [`ImportForm::reading`] for which the choices were made.
    pub matched: String,
    /// Settings with which the reader has seen the first rows: a [`Seen`].
    pub checked: String,
    /// Idempotency key: a repeated click leads to the same import.
    pub key: String,
    /// The import whose failed rows this file corrects.
    pub corrects: Option<Corrects>,
    /// Several files that were stored at once; each is reviewed by itself.
    pub uploads: Vec<Upload>,
    /// Files beside them that were refused: name, and reason.
    pub refused_files: Vec<(String, String)>,
    /// Largest file, in bytes.
    pub limit_bytes: i64,
    /// Largest workbook, in bytes.
    pub xlsx_limit_bytes: i64,
}

impl ImportForm {
    /// Type and way of reading on which the choices for the columns depend, in one word.
    pub fn reading(&self) -> String {
        let Self { job_type, delimiter, encoding, header, header_row, sheet, .. } = self;
        format!("{job_type}:{delimiter}:{encoding}:{header}:{header_row}:{sheet}")
    }
}

/// An import whose failed rows are corrected.
#[derive(Clone, Debug)]
pub struct Corrects {
    pub id: Uuid,
    pub name: String,
}

/// A file and the type that it was held against.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a>(pub Uuid, pub &'a str);

impl fmt::Display for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.0, self.1)
    }
}

/// The steps of an import. Steps between these two belong here.
fn step_names() -> [&'static str; 2] {
    [t!("import-step-upload"), t!("import-step-review")]
}

/// The step at which the form is.
pub fn page(form: &ImportForm, problem: Option<&Problem>) -> Page {
    let heading = match (&form.upload, &form.corrects) {
        (None, None) if has_files(form) => t!("import-review-files"),
        (None, None) => t!("imports-new"),
        (None, Some(_)) => t!("import-upload-corrected"),
        (Some(_), None) => t!("import-review"),
        (Some(_), Some(_)) => t!("import-review-corrected"),
    };
    let refused = problem.map(|problem| notice(title(problem), &detail(problem, form)));
    let body = match &form.upload {
        None if has_files(form) => files::section(&form.uploads, &form.refused_files),
        None => upload(form),
        Some(upload) => review(form, upload, problem),
    };
    let task = if form.corrects.is_some() { t!("import-upload-corrected") } else { t!("imports-new") };
    breadcrumbs(&[("/imports", t!("nav-imports"))], task);
    let content = view! {
        <div class=if form.upload.is_some() { "stack gap-4" } else { "narrow" }>
            <div class="page-head">
                <h1>{heading}</h1>
                {form.upload.is_some().then(|| advice(form))}
            </div>
            {steps(usize::from(form.upload.is_some() || has_files(form)), &first_step(form))}
            {refused}
            {form.corrects.as_ref().map(corrects)}
            {body}
        </div>
    }
    .into_any();
    let title = if problem.is_some() { t!("import-not-started-title", heading = heading) } else { heading.to_owned() };
    Page {
        title,
        nav_section: NavSection::Imports,
        content,
        is_live: form.upload.is_none() && !has_files(form),
        is_translated: true,
    }
}

const fn has_files(form: &ImportForm) -> bool {
    !form.uploads.is_empty() || !form.refused_files.is_empty()
}

/// Address of the first step, for an import of its own or for corrected rows.
fn first_step(form: &ImportForm) -> String {
    let again = |first: &Corrects| format!("/imports/new?again={}", first.id);
    form.corrects.as_ref().map_or_else(|| "/imports/new".to_owned(), again)
}

fn steps(at: usize, first_step: &str) -> impl IntoView + use<> {
    let steps = step_names()
        .into_iter()
        .enumerate()
        .map(|(place, word)| {
            if place < at {
                view! {
                    <li class="is-done">
                        <a href=first_step.to_owned()>{word}</a>
                    </li>
                }
                .into_any()
            } else {
                view! {
                    <li aria-current=(place == at).then_some("step")>
                        <span>{word}</span>
                    </li>
                }
                .into_any()
            }
        })
        .collect_view();
    view! {
        <ol class="steps" aria-label=t!("import-steps")>
            {steps}
        </ol>
    }
}

fn corrects(first: &Corrects) -> AnyView {
    view! {
        <p class="note-line">
            {icon("info")}
            <span>
                {t_view!(
                    "import-corrects",
                    import = view! { <a href=format!("/imports/{}", first.id)>{first.name.clone()}</a> },
                )}
            </span>
        </p>
    }
    .into_any()
}

/// The first step.
fn upload(form: &ImportForm) -> AnyView {
    let again = form.corrects.as_ref().map(|first| first.id.to_string());
    view! {
        {crate::pages::import::progress::woods()}
        <UploadForm limit_bytes=form.limit_bytes xlsx_limit_bytes=form.xlsx_limit_bytes again refusals=upload_refusals() />
        {form.corrects.is_none().then(sample)}
        {form.corrects.is_none().then(|| templates::section(&form.templates))}
    }
    .into_any()
}

/// The way for whoever has no file at hand: the sample as if it had been uploaded.
pub(crate) fn sample() -> AnyView {
    view! {
        <form class="row-wrap sample" method="post" action="/imports/sample">
            <span class="small soft">{t!("import-sample")}</span>
            <button class="btn btn-sm" type="submit" id="sample">
                {t!("import-sample-try")}
            </button>
            <a class="small" href="/sample.csv" download="treeline-sample.csv">
                {t!("import-sample-download")}
            </a>
        </form>
    }
    .into_any()
}

/// What is to be done, below the heading.
fn advice(form: &ImportForm) -> AnyView {
    let words = form.check.as_ref().map(grid::advice);
    view! {
        <p class="sub" id="advice" data-refresh="">
            {words.unwrap_or_else(|| t!("import-advice").to_owned())}
        </p>
    }
    .into_any()
}

/// The second step.
fn review(form: &ImportForm, upload: &Upload, problem: Option<&Problem>) -> AnyView {
    let seen = form.preview.as_ref().and_then(|preview| preview.check.as_ref());
    let seen = seen.map(|check| Seen(upload.id, &check.job_type).to_string());
    let readable = form.preview.as_ref().is_some_and(|preview| preview.problem.is_none());
    let rows = match (&form.check, &form.preview) {
        (Some(check), _) => grid::section(check, form),
        (None, Some(preview)) => view! {
            {grid::hidden_edits(&form.edits, form)}
            {readable.then(preview::unchecked)}
            {preview::table(preview, form.header)}
        }
        .into_any(),
        (None, None) => grid::hidden_edits(&form.edits, form),
    };
    // Of checked rows there is a button in their section.
    let plain = form.check.is_none().then(|| {
        view! {
            <button class="btn btn-lg only-plain" type="submit" name="do" value="check" formnovalidate>
                {t!("import-show-again")}
            </button>
        }
    });
    let start = match (&form.check, &form.preview) {
        (Some(check), _) => grid::start(check),
        (None, Some(preview)) => preview::start(preview),
        (None, None) => t!("import-start").to_owned(),
    };
    view! {
        <form class="stack gap-4" method="post" action="/imports" data-upload="stored" data-review="">
            // The first button is the one that the Enter key presses.
            <button class="vh" type="submit" name="do" value="check" tabindex="-1" aria-hidden="true">
                {t!("import-check-again")}
            </button>
            <input type="hidden" name="upload_id" value=upload.id.to_string() />
            <input type="hidden" name="key" value=form.key.clone() />
            {form.corrects.as_ref().map(|first| view! { <input type="hidden" name="corrects" value=first.id.to_string() /> })}
            <section class="card file-card">
                <span class="file-icon">{icon("file-text")}</span>
                <span class="two grow">
                    <strong class="clip">{upload.filename.clone()}</strong>
                    <span id="file-facts" data-refresh="">
                        {t!("import-uploaded", size = &size(upload.bytes))}
                        {form.preview.as_ref().map(|preview| preview::facts(preview, &form.sheet))}
                    </span>
                </span>
                <a class="btn btn-sm" href=first_step(form)>
                    {icon("upload")}
                    {t!("import-replace")}
                </a>
            </section>
            {options::section(form, upload, problem)}
            <div class="stack gap-4" id="first-rows" data-refresh="">
                {seen.map(|seen| view! { <input type="hidden" name="checked" value=seen /> })}
                {form.preview.as_ref().and_then(preview::below_title)}
                {form.suggestion.as_ref().map(|suggestion| columns::section(suggestion, form))}
                {form.preview.as_ref().and_then(|preview| preview::columns_that_do_not_fit(preview, form))}
                {rows}
            </div>
            <div class="wiz-foot">
                <a class="btn btn-lg" href="/imports">
                    {t!("live-upload-cancel")}
                </a>
                {plain}
                <span class="soft small grow" id="counts" data-refresh="">
                    {form.check.as_ref().map(grid::summary)}
                </span>
                <span id="start-line" data-refresh="">
                    <button class="btn btn-primary btn-lg" id="start" type="submit" disabled=!readable && form.preview.is_some()>
                        {icon("play")}
                        {start}
                    </button>
                </span>
            </div>
        </form>
    }
    .into_any()
}

/// A refusal above the form. Takes the focus when the page opens.
fn notice(title: &str, detail: &str) -> AnyView {
    view! {
        <div class="notice notice-bad" role="alert" tabindex="-1" id="refusal">
            {icon("dead")}
            <div>
                <strong>{title.to_owned()}</strong>
                <p>{detail.to_owned()}</p>
            </div>
        </div>
    }
    .into_any()
}

/// Title of a problem, for the owner of the file.
fn title(problem: &Problem) -> &'static str {
    use domain::Code;
    match problem.code {
        Code::NoRows => t!("import-no-rows"),
        Code::BadHeader => t!("import-bad-header"),
        Code::TooLarge => t!("import-too-large"),
        Code::UnsupportedMediaType => t!("import-unsupported"),
        _ => t!("import-not-started"),
    }
}

/// Advice for the owner of the file.
fn detail(problem: &Problem, form: &ImportForm) -> String {
    match problem.code {
        domain::Code::TooLarge => {
            // The server's sentence names which limit it is.
            let is_workbook = problem.detail.starts_with("A workbook");
            let limit = if is_workbook { form.xlsx_limit_bytes } else { form.limit_bytes };
            t!("import-larger", limit = &size(limit))
        }
        _ => in_words(&problem.detail),
    }
}
