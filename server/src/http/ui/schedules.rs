//! `/schedules`, `/schedules/new` and `/schedules/{id}`: schedules with their runs, and their forms.

use std::collections::HashMap;

use app::{
    components::action_form::RefusedAction,
    frame::Page,
    pages::schedules::{self as page, SchedulePageData, Schedules, Typed},
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{
    Code, Document, Job, Problem,
    api::{CatchUp, NewJob, NewSchedule, Overlap, Schedule, SchedulePatch},
    dispatch::traceparent::Traceparent,
};
use serde::Serialize;
use uuid::Uuid;

use super::{
    Signed, address,
    form::{Fields, in_the_form, new_key},
    jobs::type_names,
    pairs, see_other,
};
use crate::{
    App,
    http::{
        enqueue::idempotency::fingerprint,
        extract::{Path, TriedPath},
        query::cursor::{Paged as _, cut, paged},
        trace::Trace,
        tree::schedules::{create_once, run_once},
    },
};
use engine::{
    JobFilter,
    access::caller::Caller,
    error::{Error, Result},
    store::page_range::PageRange,
};

/// Number of rows on a page of schedules, and of runs.
const ROWS: i64 = 50;
const RUNS: i64 = 20;

/// Expression of a new schedule: every night.
const NIGHTLY: &str = "0 2 * * *";

/// A page of the list, or of the runs of one schedule.
#[derive(Clone, Debug, Default, Serialize)]
struct Pages {
    of: Option<Uuid>,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(Pages, "page of schedules", |_| Some(ROWS));

fn word(query: Option<&str>, wanted: &str) -> Option<String> {
    pairs(query).find(|(name, _)| name == wanted).map(|(_, word)| word)
}

/// `GET /schedules`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let pages = Pages { of: None, cursor: word(query.as_deref(), "cursor") };
    match find(&app, &signed.caller, &pages).await {
        Ok(page_data) => {
            let page_data = Schedules { flash: word(query.as_deref(), "did"), ..page_data };
            signed.visit.page(StatusCode::OK, move || page::list_page(&page_data))
        }
        Err(Error::Problem(problem)) if problem.status == 400 => {
            let page_data = Schedules { problem: Some(problem.detail), ..Schedules::default() };
            signed.visit.page(StatusCode::BAD_REQUEST, move || page::list_page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

async fn find(app: &App, caller: &Caller, pages: &Pages) -> Result<Schedules> {
    let found = app.engine.schedules(caller, PageRange::newest(pages.place::<Uuid>()?, ROWS + 1)).await?;
    let found = pages.page_of(found, |one| one.id)?;
    let ids = found.data.iter().filter_map(|one| one.last_run.as_ref()?.job_id).collect();
    let jobs = stored_roots(app, caller, ids).await?;
    let next = found.next_cursor.map(|cursor| address("/schedules", &[("cursor", &cursor)]));
    Ok(Schedules { all: found.data, jobs, next, first: pages.cursor.is_none(), ..Schedules::default() })
}

/// Root jobs with these ids, at most one page of them, that are still stored.
async fn stored_roots(app: &App, caller: &Caller, ids: Vec<Uuid>) -> Result<HashMap<Uuid, Job>> {
    if ids.is_empty() {
        return Ok(HashMap::new());
    }
    let filter = JobFilter { ids, ..JobFilter::default() };
    let (jobs, _) = app.engine.list_jobs(caller, &filter, false, None, ROWS).await?;
    Ok(jobs.into_iter().map(|job| (job.id, job)).collect())
}

/// `GET /schedules/new`
pub(super) async fn new(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let cron = word(query.as_deref(), "cron").unwrap_or_else(|| NIGHTLY.to_owned());
    let types = type_names(&app);
    let typed = Typed { key: new_key(), ..Typed::new(types.first().map_or("", String::as_str), &cron) };
    signed.visit.page(StatusCode::OK, move || page::new_page(&typed))
}

/// `POST /schedules`
pub(super) async fn create(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    let typed = typed(&fields);
    if let Some(cron) = fields.given("pattern") {
        let typed = Typed { cron: cron.to_owned(), key: new_key(), ..typed };
        return signed.visit.page(StatusCode::OK, move || page::new_page(&typed));
    }
    let created = async {
        let (job, text) = job_of(&typed.job)?;
        let new = NewSchedule {
            name: typed.name.clone(),
            cron: typed.cron.clone(),
            time_zone: Some(typed.time_zone.clone()),
            job,
            overlap: Some(policy(Overlap::parse, "overlap", &typed.overlap)?),
            catch_up: Some(policy(CatchUp::parse, "catch_up", &typed.catch_up)?),
            catch_up_window_seconds: Some(seconds(&typed.catch_up_window_seconds)?),
            starts_at: None,
            ends_at: None,
            paused: false,
        };
        let fingerprint = fingerprint(Document::of(&new).text());
        let created = create_once(&app, signed.caller.clone(), fields.key(), new, text, fingerprint).await;
        let (_, made) = created.map_err(|refused| refused.0)?;
        Ok(serde_json::from_str::<Schedule>(&made).map_err(|error| Error::Broken(error.to_string()))?.id)
    };
    let problem = match created.await {
        Ok(id) => return see_other(&address(&format!("/schedules/{id}"), &[("did", "created")])),
        Err(error) => match in_the_form(error) {
            Ok(problem) => problem,
            Err(error) => return signed.visit.error_page(error),
        },
    };
    let typed = Typed { problem: Some(problem), key: new_key(), ..typed };
    signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::new_page(&typed))
}

/// Fields of the form, as typed.
fn typed(fields: &Fields) -> Typed {
    Typed {
        name: fields.trimmed("name"),
        cron: fields.trimmed("cron"),
        time_zone: fields.trimmed("time_zone"),
        job: fields.lines("job").unwrap_or_default(),
        overlap: fields.trimmed("overlap"),
        catch_up: fields.trimmed("catch_up"),
        catch_up_window_seconds: fields.trimmed("catch_up_window_seconds"),
        reason: fields.text("reason").to_owned(),
        problem: None,
        key: String::new(),
        seen: String::new(),
    }
}

/// The job of a form, with its text.
fn job_of(typed: &str) -> Result<(NewJob, String), Problem> {
    let text = typed.trim().to_owned();
    let fault = |detail: String| Problem::invalid_body([("/job".to_owned(), detail)]);
    let job =
        domain::strict_json::from_str(&text).map_err(|error| fault(format!("expected a job as JSON: {error}")))?;
    Ok((job, text))
}

fn policy<T>(parse: impl Fn(&str) -> Option<T>, field: &str, typed: &str) -> Result<T, Problem> {
    parse(typed).ok_or_else(|| Problem::invalid_body([(format!("/{field}"), "expected one of the choices".to_owned())]))
}

fn seconds(typed: &str) -> Result<i64, Problem> {
    let fault =
        || Problem::invalid_body([("/catch_up_window_seconds".to_owned(), "expected a whole number".to_owned())]);
    typed.parse().map_err(|_| fault())
}

/// `GET /schedules/{id}`
pub(super) async fn show(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    id: TriedPath<Uuid>,
) -> Response {
    let rendered = async {
        let pages = Pages { of: Some(id?.0), cursor: word(query.as_deref(), "cursor") };
        let page_data = read(&app, &signed.caller, &pages).await?;
        let word = |wanted| word(query.as_deref(), wanted);
        Ok(draw(SchedulePageData { flash: word("did"), open: word("open"), ..page_data }))
    };
    signed.answer(rendered.await)
}

fn draw(page_data: SchedulePageData) -> impl FnOnce() -> Page + use<> {
    move || page::page(&page_data)
}

async fn read(app: &App, caller: &Caller, pages: &Pages) -> Result<SchedulePageData> {
    let id = pages.of.unwrap_or_default();
    let one = app.engine.schedule(caller, id).await?;
    let found = app.engine.schedule_runs(caller, id, PageRange::newest(pages.place::<i64>()?, RUNS + 1)).await?;
    let (runs, next) = cut(found, RUNS, |run| run.seq);
    let jobs = stored_roots(app, caller, runs.iter().filter_map(|run| run.job_id).collect()).await?;
    let found = pages.page(runs, next);
    let older = found.next_cursor.map(|cursor| address(&format!("/schedules/{id}"), &[("cursor", &cursor)]));
    let others = one.owner.kind != caller.kind || one.owner.name != caller.name;
    let typed = stored(&one);
    Ok(SchedulePageData {
        one,
        runs: found.data,
        jobs,
        older,
        others,
        typed,
        refused: None,
        flash: None,
        open: None,
        key: new_key(),
    })
}

/// Fields of a stored schedule.
fn stored(one: &Schedule) -> Typed {
    Typed {
        name: one.name.clone(),
        cron: one.cron.clone(),
        time_zone: one.time_zone.clone(),
        job: one.job.text().to_owned(),
        overlap: one.overlap.as_str().to_owned(),
        catch_up: one.catch_up.as_str().to_owned(),
        catch_up_window_seconds: one.catch_up_window_seconds.to_string(),
        reason: String::new(),
        problem: None,
        key: String::new(),
        seen: one.updated_at.to_string(),
    }
}

/// `POST /schedules/{id}`
pub(super) async fn change(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let typed = typed(&fields);
    let changed = async {
        let stored = app.engine.schedule(&signed.caller, id).await?;
        if fields.given("seen").is_some_and(|seen| seen != stored.updated_at.to_string()) {
            let detail = "It has changed since this page was opened. Compare your entries with it, then save again.";
            return Err(Error::refuse(Code::PreconditionFailed, detail));
        }
        let job = fields.edited("job", Some(&stored.job))?.map(|job: Document| job_of(job.text())).transpose()?;
        let (job, text) = job.unzip();
        let patch = SchedulePatch {
            name: Some(typed.name.clone()),
            cron: Some(typed.cron.clone()),
            time_zone: Some(typed.time_zone.clone()),
            job,
            overlap: Some(policy(Overlap::parse, "overlap", &typed.overlap)?),
            catch_up: Some(policy(CatchUp::parse, "catch_up", &typed.catch_up)?),
            catch_up_window_seconds: Some(seconds(&typed.catch_up_window_seconds)?),
            reason: fields.given("reason").map(str::to_owned),
            ..SchedulePatch::default()
        };
        app.engine.patch_schedule(&signed.caller, id, patch, text).await
    };
    match changed.await {
        Ok(_) => see_other(&address(&format!("/schedules/{id}"), &[("did", "changed")])),
        Err(error) => {
            refused(&app, &signed, id, error, |page_data, problem| SchedulePageData {
                typed: Typed { problem: Some(problem), seen: page_data.typed.seen, ..typed },
                ..page_data
            })
            .await
        }
    }
}

/// Page of a schedule with the problem of a form.
async fn refused(
    app: &App,
    signed: &Signed,
    id: Uuid,
    error: Error,
    put_in: impl FnOnce(SchedulePageData, Problem) -> SchedulePageData,
) -> Response {
    let problem = match in_the_form(error) {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    match read(app, &signed.caller, &Pages { of: Some(id), cursor: None }).await {
        Ok(page_data) => signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, draw(put_in(page_data, problem))),
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /schedules/{id}/run`
pub(super) async fn run(
    State(app): State<App>,
    signed: Signed,
    Trace(traceparent): Trace,
    id: TriedPath<Uuid>,
    fields: Fields,
) -> Response {
    submit(&app, &signed, id, &fields, ScheduleAction::Run(traceparent)).await
}

/// `POST /schedules/{id}/pause`
pub(super) async fn pause(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, &signed, id, &fields, ScheduleAction::Pause).await
}

/// `POST /schedules/{id}/resume`
pub(super) async fn resume(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, &signed, id, &fields, ScheduleAction::Resume).await
}

/// `POST /schedules/{id}/delete`
pub(super) async fn delete(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>, fields: Fields) -> Response {
    submit(&app, &signed, id, &fields, ScheduleAction::Delete).await
}

/// Action on a schedule by a form.
#[derive(Clone, Copy, Debug)]
enum ScheduleAction {
    /// With the trace context of the request.
    Run(Option<Traceparent>),
    Pause,
    Resume,
    Delete,
}

impl ScheduleAction {
    /// Name of the form, and word of its notice.
    const fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::Run(_) => ("run", "started"),
            Self::Pause => ("pause", "paused"),
            Self::Resume => ("resume", "resumed"),
            Self::Delete => ("delete", "deleted"),
        }
    }
}

async fn submit(app: &App, signed: &Signed, id: TriedPath<Uuid>, fields: &Fields, action: ScheduleAction) -> Response {
    let id = match id {
        Ok(Path(id)) => id,
        Err(error) => return signed.visit.error_page(error),
    };
    let (caller, reason) = (&signed.caller, fields.given("reason").map(str::to_owned));
    let done = match action {
        ScheduleAction::Run(trace) => {
            let run = run_once(app, caller.clone(), fields.key(), id, reason, trace).await;
            run.map(drop).map_err(|refused| refused.0)
        }
        ScheduleAction::Pause => app.engine.pause_schedule(caller, id, true, reason).await.map(drop),
        ScheduleAction::Resume => app.engine.pause_schedule(caller, id, false, reason).await.map(drop),
        ScheduleAction::Delete => app.engine.delete_schedule(caller, id, reason).await,
    };
    let (name, flash) = action.words();
    match (done, action) {
        (Ok(()), ScheduleAction::Delete) => see_other("/schedules?did=schedule-deleted"),
        (Ok(()), _) => see_other(&address(&format!("/schedules/{id}"), &[("did", flash)])),
        (Err(error), _) => {
            let reason = fields.text("reason").to_owned();
            refused(app, signed, id, error, |page_data, problem| SchedulePageData {
                refused: Some(RefusedAction { action: name, problem, reason }),
                ..page_data
            })
            .await
        }
    }
}
