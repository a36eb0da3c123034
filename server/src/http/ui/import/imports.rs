//! `/imports`: a reader's imports; one import, live, with its actions.

use app::{
    components::action_form::RefusedAction,
    frame::Page,
    pages::{
        self,
        identity::share::SharePanel,
        import::{
            new_import::Corrects,
            progress::{Actions, ImportContext},
        },
    },
};
use axum::{
    extract::{RawQuery, State},
    http::{HeaderMap, StatusCode},
    response::Response,
};
use domain::Job;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::http::ui::{
    Signed, address,
    form::{Fields, in_the_form},
    jobs::is_own_job,
    pairs, see_other, with_cookie,
};
use crate::{
    App,
    http::{
        extract::{Path, TriedPath},
        query::cursor::{Paged as _, paged},
    },
};
use engine::{
    JobFilter,
    access::caller::{Caller, Role, Scope},
    error::{Error, Result},
    store::page_range::PageRange,
};

/// Number of uploads on a page.
const ROWS: i64 = 30;

/// Maximum number of share links on the page of an import.
const SHARES: i64 = 200;

#[derive(Clone, Debug, Default, Serialize)]
struct ImportList {
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(ImportList, "page of imports", |_| Some(ROWS));

/// `GET /imports`
pub(crate) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let word = |wanted: &str| pairs(query.as_deref()).find(|(name, _)| name == wanted).map(|(_, value)| value);
    let deleted = word("did").as_deref() == Some("deleted");
    let rendered = draw_list(&app, &signed.caller, ImportList { cursor: word("cursor") }, deleted).await;
    signed.answer(rendered)
}

async fn draw_list(
    app: &App,
    caller: &Caller,
    list: ImportList,
    deleted: bool,
) -> Result<impl FnOnce() -> Page + use<>> {
    let filter = JobFilter { root: Some(true), uploaded_by: Some(caller.owner_id), ..JobFilter::default() };
    let (jobs, next) = app.engine.list_jobs(caller, &filter, false, list.place::<i64>()?, list.rows()?).await?;
    let page = list.page(jobs, next);
    let page_data = pages::import::imports::Imports {
        jobs: page.data,
        next: page.next_cursor.map(|cursor| address("/imports", &[("cursor", &cursor)])),
        first: list.cursor.is_none(),
        deleted,
        may_upload: caller.require(Scope::JobsWrite).is_ok(),
        limit_bytes: app.config.upload_limit.bytes() as i64,
        xlsx_limit_bytes: app.files.workbook_limit() as i64,
    };
    Ok(move || pages::import::imports::page(&page_data))
}

/// `GET /imports/{id}`
pub(crate) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: TriedPath<Uuid>,
    headers: HeaderMap,
) -> Response {
    let made = app.auth.cookie().read_once(&headers);
    let word = |wanted: &str| pairs(query.as_deref()).find(|(name, _)| name == wanted).map(|(_, word)| word);
    let actions = Actions { flash: word("did"), open: word("open"), ..Actions::default() };
    let panel = SharePanel { created: made.clone(), ..SharePanel::default() };
    let rendered = draw(&app, &signed.caller, id, panel, actions).await;
    let path = signed.visit.address.split('?').next().unwrap_or("/").to_owned();
    let response = signed.answer(rendered);
    if made.is_some() { with_cookie(response, app.auth.cookie().clear_once(&path)) } else { response }
}

/// `POST /imports/{id}/cancel`
pub(crate) async fn cancel(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let Path(id) = match id {
        Ok(id) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    match app.engine.cancel_job(&signed.caller, id, fields.given("reason")).await {
        Ok(()) => see_other(&format!("/imports/{id}?did=canceled")),
        Err(error) => refused(&app, signed, id, &fields, "cancel", error).await,
    }
}

/// `POST /imports/{id}/delete`
pub(crate) async fn delete(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let Path(id) = match id {
        Ok(id) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    match app.engine.delete_tree(&signed.caller, id, fields.given("reason")).await {
        Ok(()) => see_other("/imports?did=deleted"),
        Err(error) => refused(&app, signed, id, &fields, "delete", error).await,
    }
}

/// Shows the page of an import again, with the refusal in the form of the action.
async fn refused(app: &App, signed: Signed, id: Uuid, fields: &Fields, action: &'static str, error: Error) -> Response {
    let problem = match in_the_form(error) {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    let refused = RefusedAction { action, problem, reason: fields.text("reason").to_owned() };
    let actions = Actions { refused: Some(refused), ..Actions::default() };
    match draw(app, &signed.caller, Ok(Path(id)), SharePanel::default(), actions).await {
        Ok(draw) => signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw),
        Err(error) => signed.visit.error_page(error),
    }
}

/// Page of an import, with its panel of share links, as far as it is given, and the forms of its header.
pub(crate) async fn draw(
    app: &App,
    caller: &Caller,
    id: TriedPath<Uuid>,
    panel: SharePanel,
    actions: Actions,
) -> Result<impl FnOnce() -> Page + use<>> {
    let Path(id) = id?;
    let job = app.engine.job(caller, id, true).await?;
    if caller.role.is_some() && job.parent_id.is_none() {
        app.engine.read_notices_of(caller, id).await?;
    }
    let groups = app.engine.error_groups(caller, id).await?;
    let waiting = app.engine.waiting_by_type(caller, id).await?;
    let staff = caller.role >= Some(Role::Support);
    let own = is_own_job(caller, &job);
    let may_change = caller.require(Scope::JobsWrite).is_ok();
    let panel = if job.parent_id.is_none() && may_change {
        let shares = app.engine.shares(caller, id, PageRange::newest(None, SHARES)).await?;
        let shares = shares.into_iter().filter(|share| share.open).collect();
        Some(SharePanel { shares, needs_reason: !own, ..panel })
    } else {
        None
    };
    let actions = Actions { may_delete: may_change && (own || caller.is_admin()), needs_reason: !own, ..actions };
    let corrects = match corrected_import(&job) {
        Some(first) => app.engine.job(caller, first, false).await.ok().map(|first| named(&first)),
        None => None,
    };
    let corrected_by = if job.tree.counts.unsuccessful() > 0 || job.completion > 1 {
        corrections_of(app, caller, &job).await?
    } else {
        Vec::new()
    };
    Ok(move || {
        let panel = panel.map(|panel| pages::identity::share::panel(&job, &panel));
        let context = ImportContext { own, waiting, panel, may_change, actions, corrects, corrected_by };
        pages::import::progress::page_with(&job, &groups, staff, context)
    })
}

/// Import whose failed rows this one corrects, according to its metadata, which its creator may have set to
/// anything.
fn corrected_import(job: &Job) -> Option<Uuid> {
    #[derive(Deserialize)]
    struct CorrectionMetadata {
        corrects: Uuid,
    }
    serde_json::from_str::<CorrectionMetadata>(job.metadata.text()).ok().map(|metadata| metadata.corrects)
}

pub(crate) fn named(job: &Job) -> Corrects {
    Corrects { id: job.id, name: pages::import::progress::name(job) }
}

/// Imports that correct rows of this one and that the caller may see.
async fn corrections_of(app: &App, caller: &Caller, job: &Job) -> Result<Vec<Corrects>> {
    let filter = JobFilter {
        root: Some(true),
        owner: Some(job.owner.name.clone()),
        metadata: vec![("corrects".to_owned(), job.id.to_string())],
        created_after: Some(job.created_at),
        ..JobFilter::default()
    };
    let (jobs, _) = app.engine.list_jobs(caller, &filter, false, None, 20).await?;
    Ok(jobs.iter().map(named).collect())
}
