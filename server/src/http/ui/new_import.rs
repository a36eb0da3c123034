//! `/imports/new`: the two steps that start an import.
//!
//! First a file is stored, by a form without scripts or by the page that sends it in pieces. Then its first rows are
//! shown, and a job is created from it when the reader confirms. A refusal shows the same page with the typed values
//! and the stored file.

use app::pages::{
    self,
    new_import::{Choice, Corrects, ImportForm, MOST_COLUMNS, Seen, brief, suggested},
};
use axum::{
    extract::{RawQuery, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use domain::{
    Code, Document, Problem,
    api::{JobUpload, NewJob},
    import::{ImportSettings, MappingSuggestion},
    job_type::Builtin,
    mapping::Mapping,
    upload::{Preview, Upload},
};
use uuid::Uuid;

use super::{Signed, address, imports::named, pairs, see_other, status};
use crate::{
    App,
    auth::{Caller, Role},
    error::{Error, Result},
    http::{
        multipart::Form,
        uploads::{hold_piece, impatient},
    },
    job_types,
    store::part::NamedPart,
    uploads,
};

/// Maximum size of a field other than the file, in bytes.
const FIELD: usize = 1_000;

/// Maximum number of files that can be reported as omitted.
const MOST_LEFT: u32 = 10_000;

/// Default job type.
const USUAL_TYPE: &str = "import";

/// Sample file that everybody can try, and its name.
const SAMPLE: &str = include_str!("sample.csv");
const SAMPLE_NAME: &str = "treeline-sample.csv";

/// `GET /imports/new`
///
/// `?again={id}`: uploads the corrected rows of that import. `?upload_id={id}`: the second step with the stored file.
pub(super) async fn new(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let drawn = begun_form(&app, &signed.caller, query.as_deref()).await;
    signed.answer(drawn.map(|form| move || pages::new_import::page(&form, None)))
}

async fn begun_form(app: &App, caller: &Caller, query: Option<&str>) -> Result<ImportForm> {
    let mut form = empty_form(app, caller).await?;
    let mut typed = None;
    let mut changes = Vec::new();
    for (name, value) in pairs(query) {
        match name.as_str() {
            "again" | "corrects" if !value.is_empty() => {
                let (first, job_type) = first_import(app, caller, &value).await?;
                form.job_type = job_type;
                form.corrects = Some(first);
            }
            "upload_id" => form.upload = Some(stored(app, caller, &value).await?),
            "type" => typed = Some(value),
            "delimiter" => form.delimiter = value,
            "encoding" => form.encoding = value,
            "header" => form.header = value == "yes",
            "name" => form.name = value,
            "left" => form.left = value.parse().unwrap_or(0).min(MOST_LEFT),
            "matched" => form.matched = value,
            _ => changes.push((name, value)),
        }
    }
    if let Some(typed) = typed {
        form.job_type = typed;
    }
    if let Some(upload) = form.upload.clone() {
        form.suggestion = suggestion(app, caller, &form, &upload).await?;
        if let Some(suggestion) = &form.suggestion {
            form.choices = suggested(suggestion);
            let is_same = form.matched == form.reading();
            for (name, value) in changes.into_iter().filter(|_| is_same) {
                choose(&mut form.choices, &name, value);
            }
            form.choices.truncate(suggestion.columns.len());
        }
        inspect(app, caller, &mut form, &upload).await?;
    }
    Ok(form)
}

/// Reads the first rows of the file and what its columns could become, and checks the rows as they are matched.
async fn inspect(app: &App, caller: &Caller, form: &mut ImportForm, upload: &Upload) -> Result<()> {
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
async fn suggestion(
    app: &App,
    caller: &Caller,
    form: &ImportForm,
    upload: &Upload,
) -> Result<Option<MappingSuggestion>> {
    // Corrected rows have the names of the properties already.
    if form.corrects.is_some() || !form.header || !form.job_types.contains(&form.job_type) {
        return Ok(None);
    }
    match uploads::suggest(app, caller, &reading(form, upload), &form.job_type).await {
        Ok(found) => {
            let fits = !found.properties.is_empty() && (1..=MOST_COLUMNS).contains(&found.columns.len());
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

/// `POST /imports/new`: the first step without scripts. Stores the file and continues with the second step.
pub(super) async fn upload(State(app): State<App>, signed: Signed, request: Request) -> Response {
    let mut form = match empty_form(&app, &signed.caller).await {
        Ok(form) => form,
        Err(error) => return signed.visit.trouble(error),
    };
    let received = receive(&app, &signed.caller, request, &mut form).await;
    match received.and_then(|()| chosen(&form).map(|upload| upload.id)) {
        Ok(id) => see_other(&second_step(id, form.corrects.as_ref())),
        Err(error) => refused(&signed, ImportForm { upload: None, ..form }, error),
    }
}

/// `POST /imports/sample`: uploads the sample for the reader.
pub(super) async fn try_sample(State(app): State<App>, signed: Signed) -> Response {
    let source = futures::stream::iter([Ok::<_, String>(SAMPLE.into())]);
    match uploads::store(&app, &signed.caller, SAMPLE_NAME, None, source).await {
        Ok(upload) => see_other(&second_step(upload.id, None)),
        Err(error) => match empty_form(&app, &signed.caller).await {
            Ok(form) => refused(&signed, form, error),
            Err(error) => signed.visit.trouble(error),
        },
    }
}

fn second_step(upload: Uuid, corrects: Option<&Corrects>) -> String {
    let (upload, corrects) = (upload.to_string(), corrects.map(|first| first.id.to_string()).unwrap_or_default());
    address("/imports/new", &[("upload_id", &upload), ("corrects", &corrects)])
}

/// Page with the typed values and the reason of the refusal.
fn refused(signed: &Signed, form: ImportForm, error: Error) -> Response {
    match error {
        Error::Problem(problem) if problem.status < 500 => {
            let problem = refusal(&problem);
            signed.visit.page(status(&problem), move || pages::new_import::page(&form, Some(&problem)))
        }
        error => signed.visit.trouble(error),
    }
}

/// Import whose rows are corrected, and its type. The caller must be able to see it.
async fn first_import(app: &App, caller: &Caller, id: &str) -> Result<(Corrects, String)> {
    let id = Uuid::parse_str(id).map_err(|_| Problem::not_found("import"))?;
    let job = app.engine.job(caller, id, false).await?;
    Ok((named(&job), job.job_type))
}

async fn empty_form(app: &App, caller: &Caller) -> Result<ImportForm> {
    Ok(ImportForm {
        job_types: started_with_files(app, caller).await?,
        job_type: USUAL_TYPE.to_owned(),
        header: true,
        limit_bytes: app.config.upload_limit.bytes() as i64,
        xlsx_limit_bytes: app.files.workbook_limit() as i64,
        ..ImportForm::default()
    })
}

/// Names of the job types that a person may start with a file. Types that Treeline executes itself are not among them.
async fn started_with_files(app: &App, caller: &Caller) -> Result<Vec<String>> {
    let types = job_types::list(app, &NamedPart::by_name(1_000)).await?;
    let own = |builtin| matches!(builtin, Some(Builtin::Export | Builtin::Echo));
    let role = caller.role.map(Role::as_str);
    let open = |import: Option<&ImportSettings>| import.is_none_or(|import| import.admits(role));
    let offered = types.into_iter().filter(|it| !own(it.executor.name) && open(it.import.as_ref()));
    Ok(offered.map(|it| it.name).collect())
}

/// `POST /imports`
pub(super) async fn create(State(app): State<App>, signed: Signed, request: Request) -> Response {
    let mut form = match empty_form(&app, &signed.caller).await {
        Ok(form) => form,
        Err(error) => return signed.visit.trouble(error),
    };
    let received = receive(&app, &signed.caller, request, &mut form).await;
    if received.is_ok() && has_news(&app, &signed.caller, &mut form).await {
        return signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::new_import::page(&form, None));
    }
    let made = match received {
        Ok(()) => make_job(&app, &signed.caller, &mut form).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(id) => see_other(&format!("/imports/{id}")),
        Err(error) => {
            if let Some(upload) = form.upload.clone() {
                // The refusal is shown, with or without the rows.
                let _ = inspect(&app, &signed.caller, &mut form, &upload).await;
            }
            refused(&signed, form, error)
        }
    }
}

/// Returns true if something does not fit and the reader has not seen it yet.
async fn has_news(app: &App, caller: &Caller, form: &mut ImportForm) -> bool {
    let Some(upload) = form.upload.clone() else { return false };
    // Without scripts the type can change after the columns were matched: they are matched anew.
    let other = !form.choices.is_empty() && !form.matched.is_empty() && form.matched != form.reading();
    if other {
        form.suggestion = suggestion(app, caller, form, &upload).await.ok().flatten();
        form.choices = form.suggestion.as_ref().map(suggested).unwrap_or_default();
    }
    let checked = !other && form.checked == Seen(upload.id, &form.job_type).to_string();
    if checked || inspect(app, caller, form, &upload).await.is_err() {
        return false;
    }
    let check = form.preview.as_ref().and_then(|preview| preview.check.as_ref());
    other || check.is_some_and(|check| !check.findings.is_empty())
}

/// Options for reading the file.
fn reading(form: &ImportForm, upload: &Upload) -> JobUpload {
    JobUpload {
        id: upload.id,
        format: None,
        header: Some(form.header),
        header_row: None,
        delimiter: (!form.delimiter.is_empty()).then(|| form.delimiter.clone()),
        encoding: (!form.encoding.is_empty()).then(|| form.encoding.clone()),
        sheet: None,
    }
}

/// Refusal as the page shows it, always with status 422.
fn refusal(problem: &Problem) -> Problem {
    Problem { status: 422, ..problem.clone() }
}

/// Reads the request into `form` and stores its file.
async fn receive(app: &App, caller: &Caller, request: Request, form: &mut ImportForm) -> Result<()> {
    hold_piece(app, &request)?;
    let mut body = Form::open(request).await?;
    // An unchecked checkbox is not sent.
    form.header = false;
    while let Some(field) = body.next().await? {
        let name = field.name().to_owned();
        if name == "file" {
            // Browsers send the field with an empty file name if no file was chosen.
            if let Some(filename) = field.file_name().filter(|name| !name.is_empty()).map(str::to_owned) {
                let source = Box::pin(impatient(field.into_file()));
                form.upload = Some(uploads::store(app, caller, &filename, None, source).await?);
            }
            continue;
        }
        let value = field.into_text(FIELD).await?;
        match name.as_str() {
            "type" => form.job_type = value,
            "delimiter" => form.delimiter = value,
            "encoding" => form.encoding = value,
            "header" => form.header = value == "yes",
            "checked" => form.checked = value,
            "matched" => form.matched = value,
            "name" => form.name = value,
            "corrects" => form.corrects = Some(first_import(app, caller, &value).await?.0),
            "upload_id" => form.upload = Some(stored(app, caller, &value).await?),
            other => choose(&mut form.choices, other, value),
        }
    }
    Ok(())
}

/// Puts in a field of one column: `from-0`, `to-0`, or `as-0`.
fn choose(choices: &mut Vec<Choice>, field: &str, value: String) {
    let Some((part, place)) = field.split_once('-') else { return };
    let Some(place) = place.parse().ok().filter(|&place: &usize| place < MOST_COLUMNS) else { return };
    if !matches!(part, "from" | "to" | "as") {
        return;
    }
    if choices.len() <= place {
        choices.resize_with(place + 1, Choice::default);
    }
    match part {
        "from" => choices[place].from = value,
        "to" => choices[place].to = value,
        _ => choices[place].kind = value,
    }
}

async fn stored(app: &App, caller: &Caller, id: &str) -> Result<Upload> {
    let gone = || {
        Problem::invalid_body([("/upload_id".to_owned(), "the file is no longer stored; choose it again".to_owned())])
    };
    let id = Uuid::parse_str(id).map_err(|_| gone())?;
    uploads::find(&app.pool, caller, id).await
}

/// File of the form.
fn chosen(form: &ImportForm) -> Result<&Upload> {
    let missing = || Problem::invalid_body([("/file".to_owned(), "choose a file first".to_owned())]);
    Ok(form.upload.as_ref().ok_or_else(missing)?)
}

async fn make_job(app: &App, caller: &Caller, form: &mut ImportForm) -> Result<Uuid> {
    let upload = chosen(form)?.clone();
    if !form.choices.is_empty() && form.suggestion.is_none() {
        form.suggestion = suggestion(app, caller, form, &upload).await?;
    }
    if !form.job_types.contains(&form.job_type) {
        return Err(Error::refuse(
            Code::UnknownJobType,
            "No file can be imported with this job type. Choose another one.",
        ));
    }
    let name = if form.name.trim().is_empty() { &upload.filename } else { &form.name };
    let new = NewJob {
        name: Some(name.clone()),
        upload: Some(reading(form, &upload)),
        mapping: if form.choices.is_empty() { None } else { form.mapping() },
        metadata: form.corrects.as_ref().map(|first| Document::of(&serde_json::json!({"corrects": first.id}))),
        ..NewJob::of(&form.job_type)
    };
    app.engine.create_job(caller, new).await
}

/// `GET /sample.csv`
pub(super) async fn sample() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"treeline-sample.csv\""),
    ];
    (headers, SAMPLE).into_response()
}
