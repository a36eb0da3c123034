//! `/jobs` and `/jobs/{id}`: the API's views as pages, with the actions on a job.

use app::{
    components::action_form::RefusedAction,
    frame::Page,
    pages::{
        self,
        job::{Actions, Content, JobView, Summary, Window},
    },
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{Job, Time, item::StepCount, job::OwnerKind, query::filter::lists::List, saved_view::ViewList};
use uuid::Uuid;

use super::{
    Signed,
    form::{Fields, in_the_form, new_key},
    job_views,
    list_request::{ListRequest, now},
    pairs, see_other, views,
};
use crate::{
    App,
    http::{
        extract::{Path, TriedPath},
        operator::replay::keyed,
        query::cursor::Paged as _,
        tree::jobs::JobList,
    },
};
use engine::{access::caller::Caller, error::Result, store::notify::deliveries::DeliveryQuery};

/// Maximum number of callbacks on the page of a job, newest first.
const CALLBACKS: i64 = 10;

/// `GET /jobs`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if let Some(opening) = views::opening(&app, &signed.caller, ViewList::Jobs, query.as_deref()).await {
        return opening;
    }
    let mut request = ListRequest::read(List::Jobs, "/jobs", query.as_deref());
    if let Err(error) = views::add_menu(&app, &signed.caller, &mut request.list_filter).await {
        return signed.visit.error_page(error);
    }
    let mut page_data = pages::jobs::Jobs {
        list_filter: request.list_filter.clone(),
        job_types: Vec::new(),
        jobs: Vec::new(),
        next: None,
        first: request.cursor.is_none(),
        flash: request.flash.clone(),
        live_query: None,
    };
    let mut status = request.status();
    if let Err(error) = find(&app, &signed.caller, &request, &mut page_data).await {
        status = match request.fault(error) {
            Ok(status) => status,
            Err(error) => return signed.visit.error_page(error),
        };
        page_data.list_filter = request.list_filter;
    }
    signed.visit.page(status, move || pages::jobs::page(&page_data))
}

async fn find(app: &App, caller: &Caller, request: &ListRequest, page_data: &mut pages::jobs::Jobs) -> Result<()> {
    page_data.job_types = type_names(app);
    if request.list_filter.fault.is_some() {
        return Ok(());
    }
    let as_of = now();
    // Whole trees, unless the filter is about jobs within them.
    let (filter, oldest_first) =
        JobList::read_ordered(&request.api((!request.list_filter.is_within()).then_some(("root", "true"))))?;
    let pages = request.pages();
    let (jobs, next) =
        app.engine.list_jobs(caller, &filter, oldest_first, pages.place::<i64>()?, pages.rows()?).await?;
    let page = pages.page(jobs, next);
    page_data.next = request.next(page.next_cursor);
    page_data.jobs = page.data;
    if page_data.jobs.iter().all(|job| job.parent_id.is_none()) && filter.root != Some(false) {
        let (parameters, cursor) = (request.query.clone(), request.cursor.clone());
        page_data.live_query = Some(pages::jobs::LiveQuery { parameters, as_of, cursor });
    }
    Ok(())
}

/// Names of all job types for lists.
pub(super) fn type_names(app: &App) -> Vec<String> {
    app.engine.types().all().iter().take(1_000).map(|job_type| job_type.name.clone()).collect()
}

/// Returns true if the job is probably the caller's own. The server checks again.
pub(super) fn is_own_job(caller: &Caller, job: &Job) -> bool {
    job.owner.kind == caller.kind && job.owner.name == caller.name
}

/// Query of a job's page.
#[derive(Clone, Debug, Default)]
struct JobQuery {
    view: JobView,
    window: Window,
    cursor: Option<String>,
    flash: Option<String>,
    open: Option<String>,
}

impl JobQuery {
    fn read(query: Option<&str>) -> Self {
        let mut read = Self::default();
        for (name, word) in pairs(query) {
            match name.as_str() {
                "view" => read.view = JobView::read(&word),
                "from" => read.window.from = Time::parse(&word),
                "to" => read.window.to = Time::parse(&word),
                "cursor" => read.cursor = Some(word),
                "did" => read.flash = Some(word),
                "open" => read.open = Some(word),
                _ => {}
            }
        }
        read
    }
}

/// `GET /jobs/{id}`
pub(super) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: TriedPath<Uuid>,
) -> Response {
    let query = JobQuery::read(query.as_deref());
    let actions = Actions { flash: query.flash.clone(), open: query.open.clone(), ..Actions::default() };
    let rendered = match id {
        Ok(Path(id)) => draw(&app, &signed.caller, id, &query, actions).await,
        Err(error) => Err(error.into()),
    };
    signed.answer(rendered)
}

async fn draw(
    app: &App,
    caller: &Caller,
    id: Uuid,
    query: &JobQuery,
    actions: Actions,
) -> Result<impl FnOnce() -> Page + use<>> {
    let job = app.engine.job(caller, id, true).await?;
    let content = content(app, caller, &job, query).await?;
    let watching = if caller.role.is_some() && job.parent_id.is_none() {
        app.engine.read_notices_of(caller, id).await?;
        Some(app.engine.job_watch(caller, id).await?.watching)
    } else {
        None
    };
    let own = is_own_job(caller, &job);
    let (staff, admin) = (caller.sees_all(), caller.is_admin());
    let root = match job.parent_id {
        Some(_) => app.engine.job(caller, job.root_id, false).await.ok(),
        None => None,
    };
    let root = root.map(|root| root.name.unwrap_or(root.key));
    let actions = Actions { own, staff, root, admin, watching, key: new_key(), ..actions };
    Ok(move || pages::job::page(&job, &content, &actions))
}

/// Content of a view; each reads only what it shows.
async fn content(app: &App, caller: &Caller, job: &Job, query: &JobQuery) -> Result<Content> {
    Ok(match query.view {
        JobView::Summary => Content::Summary(Box::new(summary(app, caller, job).await?)),
        JobView::Graph => Content::Graph,
        JobView::Timeline => Content::Timeline(query.window),
        JobView::Results => Content::Results(job_views::results(app, caller, job, query.cursor.clone()).await?),
        JobView::Activity => Content::Activity(job_views::activity(app, caller, job, query.cursor.clone()).await?),
    })
}

async fn summary(app: &App, caller: &Caller, job: &Job) -> Result<Summary> {
    let query = DeliveryQuery { limit: CALLBACKS, ..DeliveryQuery::default() };
    let (groups, in_flight, waiting, event_waits, steps, callbacks, history) = futures::try_join!(
        app.engine.error_groups(caller, job.id),
        app.engine.items_in_flight(caller, job.id),
        app.engine.waiting_by_type(caller, job.id),
        job_views::event_waits(app, caller, job),
        steps(app, caller, job.id),
        app.engine.job_deliveries(caller, job.id, query),
        job_views::history(app, job),
    )?;
    Ok(Summary { groups, in_flight, waiting, event_waits, steps, callbacks, history })
}

/// Items by step; none if they cannot be counted in time. The page is more important.
async fn steps(app: &App, caller: &Caller, id: Uuid) -> Result<Vec<StepCount>> {
    let counts = app.engine.job_steps(caller, id).await;
    let counts = counts.inspect_err(|error| tracing::warn!(%error, job = %id, "counting the items by step failed"));
    Ok(counts.map(|counts| counts.steps).unwrap_or_default())
}

/// Action on a job by a form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum JobAction {
    Cancel,
    Replay,
    Pin,
    Unpin,
    Delete,
}

impl JobAction {
    const fn word(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Replay => "replay",
            Self::Pin => "pin",
            Self::Unpin => "unpin",
            Self::Delete => "delete",
        }
    }
}

/// `POST /jobs/{id}/cancel`
pub(super) async fn cancel(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, JobAction::Cancel).await
}

/// `POST /jobs/{id}/replay`
pub(super) async fn replay(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, JobAction::Replay).await
}

/// `POST /jobs/{id}/pin`
pub(super) async fn pin(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, JobAction::Pin).await
}

/// `POST /jobs/{id}/unpin`
pub(super) async fn unpin(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, JobAction::Unpin).await
}

/// `POST /jobs/{id}/delete`
pub(super) async fn delete(app: State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, signed, id, fields, JobAction::Delete).await
}

/// Performs the action and redirects to its outcome, or shows the page again with the refusal in its form.
async fn submit(app: &App, signed: Signed, id: TriedPath<Uuid>, fields: Fields, action: JobAction) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let refused = match perform(app, &signed.caller, id, &fields, action).await {
        Ok(to) => return see_other(&to),
        Err(error) => in_the_form(error),
    };
    let problem = match refused {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    let refused = RefusedAction { action: action.word(), problem, reason: fields.text("reason").to_owned() };
    let actions = Actions { refused: Some(refused), ..Actions::default() };
    match draw(app, &signed.caller, id, &JobQuery::default(), actions).await {
        Ok(draw) => signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw),
        Err(error) => signed.visit.error_page(error),
    }
}

async fn perform(app: &App, caller: &Caller, id: Uuid, fields: &Fields, action: JobAction) -> Result<String> {
    let (engine, reason) = (&app.engine, fields.given("reason"));
    Ok(match action {
        JobAction::Cancel => {
            engine.cancel_job(caller, id, reason).await?;
            format!("/jobs/{id}?did=cancelled")
        }
        JobAction::Replay => {
            let key = keyed(fields.key(), caller, "POST /jobs/{id}/replay", id, &reason);
            let key = key.map_err(|error| error.0)?;
            let made = engine.replay_tree(caller, id, reason, key).await?;
            format!("/jobs/{made}?did=replayed")
        }
        JobAction::Pin => {
            engine.pin(caller, id, true, reason).await?;
            format!("/jobs/{id}?did=pinned")
        }
        JobAction::Unpin => {
            engine.pin(caller, id, false, reason).await?;
            format!("/jobs/{id}?did=unpinned")
        }
        JobAction::Delete => {
            engine.delete_tree(caller, id, reason).await?;
            let home = if caller.kind == OwnerKind::User && !caller.sees_all() { "/imports" } else { "/jobs" };
            format!("{home}?did=deleted")
        }
    })
}
