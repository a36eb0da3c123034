//! `/imports/new`: the two steps that start an import.
//!
//! First a file is stored, by a form without scripts or by the page that sends it in pieces. Then its rows are reviewed:
//! they are checked, changed and left out, and a job is created from them when the reader confirms. A refusal shows the
//! same page with the typed values and the stored file.

mod inspect; // rows and columns of the file
mod quick_fix; // cells changed as proposed
mod receive; // the form
mod typed_rows; // rows of the file as typed

use app::pages::{
    self,
    import::new_import::{Corrects, ImportForm, RowFilter, Seen, suggested},
};
use axum::{
    extract::{RawQuery, Request, State},
    http::{StatusCode, header},
    response::{IntoResponse as _, Response},
};
use domain::{
    Code, Document, JobType, Problem,
    api::NewJob,
    dispatch::traceparent::Traceparent,
    import::{settings::ImportSettings, upload::Upload},
    job_type::Builtin,
};
use uuid::Uuid;

use self::{
    inspect::{Check, check_body, inspect, reading, suggestion},
    receive::{Wish, choose, receive},
};
use super::imports::named;
use crate::http::ui::{
    Signed, address,
    form::{new_key, sent_before},
    pairs, see_other, status,
};
use crate::{
    App,
    audit::{self, AuditedRead, Object},
    http::{enqueue::idempotency::fingerprint, import::file_check::problem_file, trace::Trace},
    import_template::ImportTemplate,
    job_types, uploads,
};
use engine::{
    Creation,
    access::caller::{Caller, Role},
    error::{Error, Result},
    store::page_range::NamedPageRange,
    task::heavy,
};

/// Maximum number of files that are uploaded with one form.
const MOST_FILES: usize = 50;

/// Default job type.
const USUAL_TYPE: &str = "import";

/// Sample file that everybody can try, and its name.
const SAMPLE: &str = include_str!("sample.csv");
const SAMPLE_NAME: &str = "treeline-sample.csv";

/// `GET /imports/new`
///
/// `?again={id}`: uploads the corrected rows of that import. `?upload_id={id}`: the second step with the stored file.
/// `?uploads={id},{id}`: several stored files, each with a link to its second step.
pub(crate) async fn new(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let rendered = begun_form(&app, &signed.caller, query.as_deref()).await;
    signed.answer(rendered.map(|form| move || pages::import::new_import::page(&form, None)))
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
            "header_row" => form.header_row = value,
            "sheet" => form.sheet = value,
            "rows" => form.rows = RowFilter::parse(&value),
            "name" => form.name = value,
            "uploads" => {
                for id in value.split(',').take(MOST_FILES) {
                    form.uploads.push(stored(app, caller, id).await?);
                }
            }
            "matched" => form.matched = value,
            _ => changes.push((name, value)),
        }
    }
    if let Some(typed) = typed {
        form.job_type = typed;
    }
    if form.upload.is_none() {
        form.templates = with_templates(app, caller).await?;
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
        inspect(app, caller, &mut form, &upload, Check::AtOnce).await?;
    }
    Ok(form)
}

/// `POST /imports/new`: the first step without scripts. Stores the file and continues with the second step.
pub(crate) async fn upload(State(app): State<App>, signed: Signed, request: Request) -> Response {
    let mut form = match empty_form(&app, &signed.caller).await {
        Ok(form) => form,
        Err(error) => return signed.visit.error_page(error),
    };
    let received = receive(&app, &signed.caller, request, &mut form).await;
    if received.is_ok() && form.uploads.len() + form.refused_files.len() > 1 {
        return several(&signed, form);
    }
    match received.and_then(|_| chosen(&form).map(|upload| upload.id)) {
        Ok(id) => see_other(&second_step(id, form.corrects.as_ref())),
        Err(error) => refused(&signed, ImportForm { upload: None, uploads: Vec::new(), ..form }, error),
    }
}

/// Continues with the list of several stored files; with those that were refused, it is shown at once.
fn several(signed: &Signed, form: ImportForm) -> Response {
    let form = ImportForm { upload: None, ..form };
    if !form.refused_files.is_empty() {
        return signed
            .visit
            .page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::import::new_import::page(&form, None));
    }
    let ids: Vec<String> = form.uploads.iter().map(|upload| upload.id.to_string()).collect();
    see_other(&address("/imports/new", &[("uploads", &ids.join(","))]))
}

/// `POST /imports/sample`: uploads the sample for the reader.
pub(crate) async fn try_sample(State(app): State<App>, signed: Signed) -> Response {
    let source = futures::stream::iter([Ok::<_, String>(SAMPLE.into())]);
    match uploads::store(&app, &signed.caller, SAMPLE_NAME, None, source).await {
        Ok(upload) => see_other(&second_step(upload.id, None)),
        Err(error) => match empty_form(&app, &signed.caller).await {
            Ok(form) => refused(&signed, form, error),
            Err(error) => signed.visit.error_page(error),
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
            let mut form = form;
            if problem.code == Code::IdempotencyKeyReused {
                form.key = new_key();
            }
            let problem = refusal(&sent_before(*problem));
            signed.visit.page(status(&problem), move || pages::import::new_import::page(&form, Some(&problem)))
        }
        error => signed.visit.error_page(error),
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
        job_types: started_with_files(app, caller).await?.into_iter().map(|it| it.name).collect(),
        job_type: USUAL_TYPE.to_owned(),
        header: true,
        key: new_key(),
        limit_bytes: app.config.upload_limit.bytes() as i64,
        xlsx_limit_bytes: app.files.workbook_limit() as i64,
        ..ImportForm::default()
    })
}

/// Names of the job types that a file can start and that have a template.
async fn with_templates(app: &App, caller: &Caller) -> Result<Vec<String>> {
    let types = started_with_files(app, caller).await?;
    let named = |it: JobType| ImportTemplate::of(&it).map(|_| it.name);
    Ok(heavy(|| types.into_iter().filter_map(named).collect()))
}

/// Job types that a person may start with a file. Types that Treeline executes itself are not among them.
async fn started_with_files(app: &App, caller: &Caller) -> Result<Vec<JobType>> {
    let types = job_types::list(app, &NamedPageRange::by_name(1_000)).await?;
    let own = |builtin| matches!(builtin, Some(Builtin::Export | Builtin::Echo));
    let role = caller.role.map(Role::as_str);
    let open = |import: Option<&ImportSettings>| import.is_none_or(|import| import.admits(role));
    let offered = types.into_iter().filter(|it| !own(it.executor.name) && open(it.import.as_ref()));
    Ok(offered.collect())
}

/// `POST /imports`
pub(crate) async fn create(
    State(app): State<App>,
    signed: Signed,
    Trace(traceparent): Trace,
    request: Request,
) -> Response {
    let mut form = match empty_form(&app, &signed.caller).await {
        Ok(form) => form,
        Err(error) => return signed.visit.error_page(error),
    };
    let received = receive(&app, &signed.caller, request, &mut form).await;
    let received = match received {
        Ok(Wish::Start) => Ok(()),
        Ok(Wish::Problems) => return problems(&app, &signed, form).await,
        Ok(wish) => return reviewed(&app, &signed, form, wish).await,
        Err(error) => Err(error),
    };
    if received.is_ok() && has_changes(&app, &signed.caller, &mut form).await {
        return signed
            .visit
            .page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::import::new_import::page(&form, None));
    }
    let made = match received {
        Ok(()) => make_job(&app, &signed.caller, &mut form, traceparent).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(id) => see_other(&format!("/imports/{id}")),
        Err(error) => {
            if let Some(upload) = form.upload.clone() {
                // The refusal is shown, with or without the rows.
                let _ = inspect(&app, &signed.caller, &mut form, &upload, Check::Whole).await;
            }
            refused(&signed, form, error)
        }
    }
}

/// The page of the second step with what was typed in it; nothing is created.
async fn reviewed(app: &App, signed: &Signed, mut form: ImportForm, wish: Wish) -> Response {
    let page_data = async {
        let upload = chosen(&form)?.clone();
        form.suggestion = suggestion(app, &signed.caller, &form, &upload).await?;
        // Choices were made for other columns, or for none.
        if form.matched != form.reading() || form.choices.is_empty() {
            form.choices = form.suggestion.as_ref().map(suggested).unwrap_or_default();
        }
        let extent = if wish == Wish::Show { Check::AtOnce } else { Check::Whole };
        inspect(app, &signed.caller, &mut form, &upload, extent).await?;
        if let (Wish::Fix(fix), Some(check)) = (wish, &form.check) {
            fix.apply(check, &mut form.edits);
            inspect(app, &signed.caller, &mut form, &upload, extent).await?;
        }
        Ok(())
    };
    match page_data.await {
        Ok(()) => signed.visit.page(StatusCode::OK, move || pages::import::new_import::page(&form, None)),
        Err(error) => refused(signed, form, error),
    }
}

/// The rows with a problem as a file.
async fn problems(app: &App, signed: &Signed, form: ImportForm) -> Response {
    let file = async {
        let upload = chosen(&form)?.clone();
        let body = check_body(app, &signed.caller, &form, &upload).await?;
        problem_file(app, &signed.caller, upload.id, body).await
    };
    match file.await {
        Ok(response) => response,
        Err(error) => refused(signed, form, error.into()),
    }
}

/// Returns true if something does not fit and the reader has not seen it yet.
async fn has_changes(app: &App, caller: &Caller, form: &mut ImportForm) -> bool {
    let Some(upload) = form.upload.clone() else { return false };
    // Without scripts the type can change after the columns were matched: they are matched anew.
    let other = !form.choices.is_empty() && !form.matched.is_empty() && form.matched != form.reading();
    if other {
        form.suggestion = suggestion(app, caller, form, &upload).await.ok().flatten();
        form.choices = form.suggestion.as_ref().map(suggested).unwrap_or_default();
    }
    let checked = !other && form.checked == Seen(upload.id, &form.job_type).to_string();
    if checked || inspect(app, caller, form, &upload, Check::AtOnce).await.is_err() {
        return false;
    }
    let check = form.preview.as_ref().and_then(|preview| preview.check.as_ref());
    other || check.is_some_and(|check| !check.findings.is_empty())
}

/// Refusal as the page shows it, always with status 422.
fn refusal(problem: &Problem) -> Problem {
    Problem { status: 422, ..problem.clone() }
}

/// Stored file of a form. Its rows are shown, so that staff who choose another owner's file are in the audit log.
async fn stored(app: &App, caller: &Caller, id: &str) -> Result<Upload> {
    let gone = || {
        Problem::invalid_body([("/upload_id".to_owned(), "the file is no longer stored; choose it again".to_owned())])
    };
    let id = Uuid::parse_str(id).map_err(|_| gone())?;
    let upload = uploads::find(&app.pool, caller, id).await?;
    if caller.sees_all() {
        let read = AuditedRead { action: "upload.read", object: Object::Upload(id) };
        audit::record_read(app, caller, read).await?;
    }
    Ok(upload)
}

/// File of the form.
fn chosen(form: &ImportForm) -> Result<&Upload> {
    let missing = || Problem::invalid_body([("/file".to_owned(), "choose a file first".to_owned())]);
    Ok(form.upload.as_ref().ok_or_else(missing)?)
}

async fn make_job(app: &App, caller: &Caller, form: &mut ImportForm, traceparent: Option<Traceparent>) -> Result<Uuid> {
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
        edits: form.edits.clone(),
        metadata: form.corrects.as_ref().map(|first| Document::of(&serde_json::json!({"corrects": first.id}))),
        ..NewJob::of(&form.job_type)
    };
    let key = Some((form.key.clone(), fingerprint(Document::of(&new).text())));
    let creation = Creation { new, key, body_hash: None, may_need_key: true, traceparent };
    Ok(app.engine.create_tree(caller, creation).await?.0.root_id())
}

/// `GET /sample.csv`
pub(crate) async fn sample() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"treeline-sample.csv\""),
    ];
    (headers, SAMPLE).into_response()
}
