//! `/imports`: a reader's own uploads; the form that starts one; one import as it goes.
//!
//! The form posts either the file itself (no WASM) or the id of a file that the page has sent before.
//! Either way a file is stored first and a job is made of it then; on refusal the same page comes back
//! with what was typed, the stored file included.

use app::{
    frame::Page,
    pages::{self, import::Around, share::SharePanel},
    upload::{Corrects, ImportForm, Seen, preview::brief},
};
use axum::{
    extract::{RawQuery, Request, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use domain::{
    Document, Job, Problem,
    api::{JobUpload, NewJob},
    upload::{Preview, Upload},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Signed, address, jobs::type_names, pairs, see_other, status, with_cookie};
use crate::{
    App,
    auth::{Caller, Role, Scope},
    error::{Error, Result},
    http::{
        cursor::Paged,
        extract::Path,
        multipart::Form,
        uploads::{hold_piece, impatient},
    },
    jobs::JobFilter,
    uploads,
};

/// Uploads on a page.
const ROWS: i64 = 30;

/// Links that the page of an import looks at.
const SHARES: i64 = 200;

/// The most bytes of a field that is not the file.
const FIELD: usize = 1_000;

/// The type that is chosen unless the reader chooses another.
const USUAL_TYPE: &str = "import";

/// What everybody can try.
const SAMPLE: &str = include_str!("sample.csv");

#[derive(Clone, Debug, Default, Serialize)]
struct ImportList {
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Paged for ImportList {
    const LIST: &'static str = "page of imports";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        Some(ROWS)
    }
}

/// `GET /imports`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let cursor = pairs(query.as_deref()).find(|(name, _)| name == "cursor").map(|(_, value)| value);
    let drawn = draw_list(&app, &signed.caller, ImportList { cursor }).await;
    signed.answer(drawn)
}

async fn draw_list(app: &App, caller: &Caller, list: ImportList) -> Result<impl FnOnce() -> Page + use<>> {
    let filter = JobFilter { root: Some(true), uploaded_by: Some(caller.owner_id), ..JobFilter::default() };
    let (jobs, next) = app.engine.list_jobs(caller, &filter, list.place::<i64>()?, list.rows()?).await?;
    let page = list.page(jobs, next);
    let shown = pages::imports::Imports {
        jobs: page.data,
        next: page.next_cursor.map(|cursor| address("/imports", &[("cursor", &cursor)])),
        first: list.cursor.is_none(),
    };
    Ok(move || pages::imports::page(&shown))
}

/// `GET /imports/new`
///
/// `?again={id}`: to upload the corrected rows of that import.
pub(super) async fn new(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let again = pairs(query.as_deref()).find(|(name, _)| name == "again").map(|(_, value)| value);
    let drawn = begun_form(&app, &signed.caller, again).await;
    signed.answer(drawn.map(|form| move || pages::new_import::page(form, None)))
}

async fn begun_form(app: &App, caller: &Caller, again: Option<String>) -> Result<ImportForm> {
    let mut form = empty_form(app).await?;
    if let Some(id) = again {
        let (first, job_type) = first_import(app, caller, &id).await?;
        form.job_type = job_type;
        form.corrects = Some(first);
    }
    Ok(form)
}

/// The import whose rows are corrected, and its type. What one does not see, one does not correct.
async fn first_import(app: &App, caller: &Caller, id: &str) -> Result<(Corrects, String)> {
    let id = Uuid::parse_str(id).map_err(|_| Problem::not_found("import"))?;
    let job = app.engine.job(caller, id, false).await?;
    Ok((named(&job), job.job_type))
}

async fn empty_form(app: &App) -> Result<ImportForm> {
    Ok(ImportForm {
        job_types: type_names(app).await?,
        job_type: USUAL_TYPE.to_owned(),
        header: true,
        delimiter: String::new(),
        upload: None,
        preview: None,
        checked: String::new(),
        corrects: None,
        limit_bytes: app.config.upload_limit.bytes() as i64,
        xlsx_limit_bytes: app.files.workbook_limit() as i64,
    })
}

/// `POST /imports`
pub(super) async fn create(State(app): State<App>, signed: Signed, request: Request) -> Response {
    let mut form = match empty_form(&app).await {
        Ok(form) => form,
        Err(error) => return signed.visit.trouble(error),
    };
    let received = receive(&app, &signed.caller, request, &mut form).await;
    if received.is_ok()
        && let Some(found) = first_look(&app, &signed.caller, &form).await
    {
        form.preview = Some(brief(found));
        return signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::new_import::page(form, None));
    }
    let made = match received {
        Ok(()) => make_job(&app, &signed.caller, &form).await,
        Err(error) => Err(error),
    };
    match made {
        Ok(id) => see_other(&format!("/imports/{id}")),
        Err(Error::Problem(problem)) if problem.status < 500 => {
            let problem = refusal(&problem);
            signed.visit.page(status(&problem), move || pages::new_import::page(form, Some(&problem)))
        }
        Err(error) => signed.visit.trouble(error),
    }
}

/// The first rows, where something does not fit and the reader has not seen it yet.
async fn first_look(app: &App, caller: &Caller, form: &ImportForm) -> Option<Preview> {
    let upload = form.upload.as_ref().filter(|upload| form.checked != Seen(upload.id, &form.job_type).to_string())?;
    let preview = uploads::preview(app, caller, &reading(form, upload), Some(&form.job_type)).await.ok()?;
    let found = preview.check.as_ref().is_some_and(|check| !check.findings.is_empty());
    found.then_some(preview)
}

/// How the file is to be read.
fn reading(form: &ImportForm, upload: &Upload) -> JobUpload {
    JobUpload {
        id: upload.id,
        format: None,
        header: Some(form.header),
        delimiter: (!form.delimiter.is_empty()).then(|| form.delimiter.clone()),
        sheet: None,
    }
}

/// A refusal as the page shows it: 422 whatever the API would have said, and words for people.
fn refusal(problem: &Problem) -> Problem {
    Problem { status: 422, ..problem.clone() }
}

/// Reads the form into `form`, storing a file on the way.
async fn receive(app: &App, caller: &Caller, request: Request, form: &mut ImportForm) -> Result<()> {
    hold_piece(app, &request)?;
    let mut body = Form::open(request).await?;
    // A box that is not ticked is not sent.
    form.header = false;
    while let Some(field) = body.next().await? {
        let name = field.name().to_owned();
        if name == "file" {
            // A browser sends the field without a name where no file was chosen.
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
            "header" => form.header = value == "yes",
            "checked" => form.checked = value,
            "corrects" => form.corrects = Some(first_import(app, caller, &value).await?.0),
            "upload_id" => form.upload = Some(stored(app, caller, &value).await?),
            _ => {}
        }
    }
    Ok(())
}

async fn stored(app: &App, caller: &Caller, id: &str) -> Result<Upload> {
    let gone = || {
        Problem::invalid_body([("/upload_id".to_owned(), "the file is no longer stored; choose it again".to_owned())])
    };
    let id = Uuid::parse_str(id).map_err(|_| gone())?;
    uploads::find(&app.pool, caller, id).await
}

async fn make_job(app: &App, caller: &Caller, form: &ImportForm) -> Result<Uuid> {
    let upload = form
        .upload
        .as_ref()
        .ok_or_else(|| Problem::invalid_body([("/file".to_owned(), "choose a file first".to_owned())]))?;
    let new = NewJob {
        name: Some(upload.filename.clone()),
        upload: Some(reading(form, upload)),
        metadata: form.corrects.as_ref().map(|first| Document::of(&serde_json::json!({"corrects": first.id}))),
        ..NewJob::of(&form.job_type)
    };
    app.engine.create_job(caller, new).await
}

/// `GET /imports/{id}`
pub(super) async fn show(
    State(app): State<App>,
    signed: Signed,
    id: Result<Path<Uuid>>,
    headers: HeaderMap,
) -> Response {
    let made = app.auth.cookie().read_once(&headers);
    let drawn = draw(&app, &signed.caller, id, SharePanel { made: made.clone(), ..SharePanel::default() }).await;
    let path = signed.visit.address.split('?').next().unwrap_or("/").to_owned();
    let response = signed.answer(drawn);
    if made.is_some() { with_cookie(response, app.auth.cookie().clear_once(&path)) } else { response }
}

/// The page of an import, with its panel of links as far as it is given.
pub(super) async fn draw(
    app: &App,
    caller: &Caller,
    id: Result<Path<Uuid>>,
    panel: SharePanel,
) -> Result<impl FnOnce() -> Page + use<>> {
    let Path(id) = id?;
    let job = app.engine.job(caller, id, true).await?;
    let groups = app.engine.error_groups(caller, id).await?;
    let held = app.engine.held(caller, id).await?;
    let staff = caller.role >= Some(Role::Support);
    let panel = if job.parent_id.is_none() && caller.require(Scope::JobsWrite).is_ok() {
        let needs_reason = (caller.kind, &caller.name) != (job.owner.kind, &job.owner.name);
        let shares = app.engine.shares(caller, id, None, SHARES).await?;
        let shares = shares.into_iter().filter(|share| share.open).collect();
        Some(SharePanel { shares, needs_reason, ..panel })
    } else {
        None
    };
    let corrects = match corrected(&job) {
        Some(first) => app.engine.job(caller, first, false).await.ok().map(|first| named(&first)),
        None => None,
    };
    let corrected_by = if job.tree.counts.unsuccessful() > 0 || job.completion > 1 {
        corrections_of(app, caller, &job).await?
    } else {
        Vec::new()
    };
    Ok(move || {
        let may_correct = panel.is_some();
        let panel = panel.map(|panel| pages::share::panel(&job, &panel));
        let around = Around { held, panel, may_correct, corrects, corrected_by };
        pages::import::page_with(&job, &groups, staff, around)
    })
}

/// The import whose failed rows this one corrects, as its metadata says. Whoever made it may have written
/// anything there.
fn corrected(job: &Job) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct Known {
        corrects: Uuid,
    }
    serde_json::from_str::<Known>(job.metadata.text()).ok().map(|known| known.corrects)
}

fn named(job: &Job) -> Corrects {
    Corrects { id: job.id, name: pages::import::name(job) }
}

/// The imports that correct rows of this one, of those that the caller sees.
async fn corrections_of(app: &App, caller: &Caller, job: &Job) -> Result<Vec<Corrects>> {
    let filter = JobFilter {
        root: Some(true),
        owner: Some(job.owner.name.clone()),
        metadata: vec![("corrects".to_owned(), job.id.to_string())],
        created_after: Some(job.created_at),
        ..JobFilter::default()
    };
    let (jobs, _) = app.engine.list_jobs(caller, &filter, None, 20).await?;
    Ok(jobs.iter().map(named).collect())
}

/// `GET /sample.csv`
pub(super) async fn sample() -> Response {
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"treeline-sample.csv\""),
    ];
    (headers, SAMPLE).into_response()
}
