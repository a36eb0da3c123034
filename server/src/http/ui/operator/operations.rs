//! `/`, `/workers` and `/types`: current activity, for staff. The statistics are those of the API; people without the
//! role are redirected to their uploads, or get an error page.

use app::{
    components::chart::{History, Range},
    pages::{
        self,
        overview::Overview,
        types::{JobTypePageData, Typed, TypedKeyLimit, TypedRate},
        worker::{LastError, WorkerPageData},
    },
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{Code, Document, Problem, Time, api::Activity};
use serde_json::value::RawValue;
use time::OffsetDateTime;
use uuid::Uuid;

use crate::http::ui::{
    Signed,
    form::{Fields, in_the_form},
    list_request::Pages,
    pairs, see_other,
};
use crate::{
    App,
    http::{
        extract::{Path, TriedPath},
        query::{
            cursor::{Paged as _, cut},
            stats,
        },
    },
    import_template::ImportTemplate,
    job_types,
};
use engine::{
    Span, WorkerPosition,
    access::caller::Caller,
    error::{Error, Result},
    store::{
        notify::alerts::AlertQuery,
        pagination::{NamedOrder, NamedPageRange, PageRange},
    },
};

/// Number of alerts on the overview, and maximum number of workers.
const ALERTS: i64 = 20;
const WORKERS: i64 = 1_000;

fn staff(caller: &Caller) -> Result<()> {
    if caller.sees_all() {
        return Ok(());
    }
    Err(Error::refuse(Code::Forbidden, "This page is for support staff: it shows everybody's work."))
}

/// `GET /`
pub(crate) async fn start(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    if !signed.caller.sees_all() {
        return see_other("/imports");
    }
    let rendered = overview(&app, &signed.caller, range(query.as_deref())).await;
    signed.answer(rendered.map(|overview| move || pages::overview::page(&overview)))
}

/// Range of a page's charts, from its query.
fn range(query: Option<&str>) -> Range {
    pairs(query).find(|(name, _)| name == "range").map(|(_, word)| Range::read(&word)).unwrap_or_default()
}

/// Activity of one type, or of all types, for charts.
async fn history(app: &App, caller: &Caller, type_name: Option<&str>, range: Range) -> Result<History> {
    let span = Span::last(range.step(), range.points(), OffsetDateTime::now_utc());
    let points = app.engine.activity(caller, type_name, span).await?;
    Ok(in_points(range, points))
}

fn in_points(range: Range, points: Vec<(OffsetDateTime, Activity)>) -> History {
    History { range, points: points.into_iter().map(|(at, activity)| (Time(at), activity)).collect(), until: None }
}

async fn overview(app: &App, caller: &Caller, range: Range) -> Result<Overview> {
    let query = AlertQuery { owner_id: None, kind: None, all: false, part: PageRange::newest(None, ALERTS) };
    let workers = app.engine.workers(caller, NamedOrder::ByName, None, WORKERS + 1).await?;
    let (workers, more) = cut(workers, WORKERS, |_| ());
    Ok(Overview {
        stats: stats::stats(app, caller).await?,
        alerts: app.engine.alerts(caller, query).await?,
        workers: workers.into_iter().map(|(_, worker)| worker).collect(),
        more_workers: more.is_some(),
        history: history(app, caller, None, range).await?,
    })
}

/// `GET /workers`
pub(crate) async fn workers(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let pages = Pages::plain("/workers", query.as_deref());
    let found = async {
        staff(&signed.caller)?;
        let (limit, after) = (pages.rows()?, pages.place::<WorkerPosition>()?);
        let found = app.engine.workers(&signed.caller, NamedOrder::ByName, after, limit + 1).await?;
        let (found, next) = cut(found, limit, |(place, _)| place.clone());
        let page = pages.page(found.into_iter().map(|((.., credential), worker)| (credential, worker)).collect(), next);
        let next = page.next_cursor.map(|cursor| crate::http::ui::address("/workers", &[("cursor", &cursor)]));
        let first = pages.first();
        Ok(move || pages::overview::workers_page(&page.data, next.as_ref(), first))
    };
    signed.answer(found.await)
}

/// `GET /workers/{credential}`: the name of the worker is the query parameter `name`.
pub(crate) async fn show_worker(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    credential: TriedPath<Uuid>,
) -> Response {
    let name = pairs(query.as_deref()).find(|(name, _)| name == "name").map(|(_, name)| name).unwrap_or_default();
    let found = async {
        staff(&signed.caller)?;
        let Path(credential_id) = credential?;
        worker_page_data(&app, &signed.caller, credential_id, &name, range(query.as_deref())).await
    };
    signed.answer(found.await.map(|page_data| move || pages::worker::page(&page_data)))
}

async fn worker_page_data(
    app: &App,
    caller: &Caller,
    credential_id: Uuid,
    name: &str,
    range: Range,
) -> Result<WorkerPageData> {
    // A worker has no history of months.
    let range = if range == Range::Month { Range::Day } else { range };
    let now = OffsetDateTime::now_utc();
    let worker = app.engine.worker(caller, credential_id, name).await?;
    let history = async |range: Range| -> Result<History> {
        let span = Span::last(range.step(), range.points(), now);
        Ok(in_points(range, app.engine.worker_activity(caller, credential_id, name, span).await?))
    };
    let errors = worker.errors.into_iter().map(|error| LastError {
        item_id: error.item_id,
        ended_at: error.ended_at,
        ended_as: error.ended_as,
        message: error.message,
    });
    Ok(WorkerPageData {
        credential_id,
        errors: errors.collect(),
        worker: worker.worker,
        first_seen_at: worker.first_seen_at,
        claimed: worker.claimed,
        history: history(range).await?,
        last_hour: history(Range::Hour).await?,
    })
}

/// `GET /types`
pub(crate) async fn types(State(app): State<App>, signed: Signed) -> Response {
    let found = async {
        staff(&signed.caller)?;
        let types = job_types::list(&app, &NamedPageRange::by_name(1_000)).await?;
        let types: Vec<_> = types.into_iter().map(|found| job_types::visible_to(&signed.caller, found)).collect();
        Ok(move || pages::types::list_page(&types))
    };
    signed.answer(found.await)
}

/// `GET /types/{name}`
pub(crate) async fn show_type(
    State(app): State<App>,
    signed: Signed,
    RawQuery(query): RawQuery,
    name: TriedPath<String>,
) -> Response {
    let flash = pairs(query.as_deref()).find(|(name, _)| name == "did").map(|(_, flash)| flash);
    let found = async {
        staff(&signed.caller)?;
        let Path(name) = name?;
        page_data(&app, &signed.caller, &name, range(query.as_deref())).await
    };
    signed.answer(found.await.map(|page_data| move || pages::types::page(&JobTypePageData { flash, ..page_data })))
}

async fn page_data(app: &App, caller: &Caller, name: &str, range: Range) -> Result<JobTypePageData> {
    let job_type = job_types::visible_to(caller, job_types::get(app, name).await?);
    let history = history(app, caller, Some(name), range).await?;
    Ok(JobTypePageData {
        history,
        typed: Typed::of(&job_type),
        has_template: ImportTemplate::of(&job_type).is_some(),
        job_type,
        admin: caller.is_admin(),
        flash: None,
        problem: None,
    })
}

/// `POST /types/{name}/pause`
pub(crate) async fn pause(State(app): State<App>, signed: Signed, name: TriedPath<String>) -> Response {
    paused(&app, &signed, name, true).await
}

/// `POST /types/{name}/resume`
pub(crate) async fn resume(State(app): State<App>, signed: Signed, name: TriedPath<String>) -> Response {
    paused(&app, &signed, name, false).await
}

async fn paused(app: &App, signed: &Signed, name: TriedPath<String>, wanted: bool) -> Response {
    let done = async {
        admin(&signed.caller)?;
        let Path(name) = name?;
        job_types::set_paused(app, &signed.caller, &name, wanted).await
    };
    let word = if wanted { "paused" } else { "resumed" };
    match done.await {
        Ok(it) => see_other(&format!("/types/{}?did={word}", it.name)),
        Err(error) => signed.visit.error_page(error),
    }
}

fn admin(caller: &Caller) -> Result<()> {
    if caller.is_admin() {
        return Ok(());
    }
    Err(Error::refuse(Code::Forbidden, "Only admins change job types."))
}

/// `POST /types/{name}`: changes limits and backoff.
pub(crate) async fn change(
    State(app): State<App>,
    signed: Signed,
    name: TriedPath<String>,
    fields: Fields,
) -> Response {
    let name = match admin(&signed.caller).map_err(crate::http::error::Error::from).and(name) {
        Ok(Path(name)) => name,
        Err(error) => return signed.visit.error_page(error),
    };
    let refused = match changed(&app, &signed.caller, &name, &fields).await {
        Ok(()) => return see_other(&format!("/types/{name}?did=changed")),
        Err(error) => in_the_form(error),
    };
    let problem = match refused {
        Ok(problem) => problem,
        Err(error) => return signed.visit.error_page(error),
    };
    match page_data(&app, &signed.caller, &name, Range::default()).await {
        Ok(page_data) => {
            let text = |name: &str| fields.text(name).to_owned();
            let typed = Typed {
                concurrency: text("concurrency"),
                rate: TypedRate {
                    count: text("rate_count"),
                    per_seconds: text("rate_seconds"),
                    burst: text("rate_burst"),
                    key: text("rate_key"),
                },
                key_limit: TypedKeyLimit { key: text("key_limit_key"), limit: text("key_limit") },
                min_seconds: text("min_seconds"),
                max_seconds: text("max_seconds"),
                factor: text("factor"),
                jitter: fields.ticked("jitter"),
            };
            let page_data = JobTypePageData { typed, problem: Some(problem), ..page_data };
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || pages::types::page(&page_data))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

async fn changed(app: &App, caller: &Caller, name: &str, fields: &Fields) -> Result<()> {
    let version = fields.given("version").and_then(|version| version.parse().ok());
    let mut faults = Vec::new();
    // Valid numbers are passed on as typed; others are reported at their fields.
    let mut number = |field: &str, pointer: &str, optional: bool| {
        let typed = fields.given(field);
        let number = typed.filter(|typed| typed.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
        let read = match (typed, number.and_then(|typed| Document::parse(typed.to_owned()).ok())) {
            (None, _) if optional => return "null".to_owned(),
            (_, read) => read,
        };
        read.map_or_else(
            || {
                let detail = if optional { "expected a number, or nothing" } else { "expected a number" };
                faults.push((pointer.to_owned(), detail.to_owned()));
                "null".to_owned()
            },
            |read| read.text().to_owned(),
        )
    };
    let concurrency = number("concurrency", "/concurrency", true);
    let text =
        |field: &str| fields.given(field).map_or_else(|| "null".to_owned(), |key| Document::of(&key).text().to_owned());
    // A form without these fields leaves them alone; empty ones remove the limit.
    let rate_limit = fields.lines("rate_count").is_some().then(|| {
        let given =
            ["rate_count", "rate_seconds", "rate_burst", "rate_key"].iter().any(|name| fields.given(name).is_some());
        if !given {
            return "null".to_owned();
        }
        format!(
            r#"{{"count":{},"per_seconds":{},"burst":{},"key":{}}}"#,
            number("rate_count", "/rate_limit/count", false),
            number("rate_seconds", "/rate_limit/per_seconds", false),
            number("rate_burst", "/rate_limit/burst", true),
            text("rate_key"),
        )
    });
    let concurrency_by = fields.lines("key_limit").is_some().then(|| {
        if fields.given("key_limit").is_none() && fields.given("key_limit_key").is_none() {
            return "null".to_owned();
        }
        let key = fields.given("key_limit_key").unwrap_or_default();
        let limit = number("key_limit", "/concurrency_by/limit", false);
        format!(r#"{{"key":{},"limit":{limit}}}"#, Document::of(&key).text())
    });
    let backoff = format!(
        r#"{{"min_seconds":{},"max_seconds":{},"factor":{},"jitter":{}}}"#,
        number("min_seconds", "/backoff/min_seconds", false),
        number("max_seconds", "/backoff/max_seconds", true),
        number("factor", "/backoff/factor", false),
        fields.ticked("jitter"),
    );
    if !faults.is_empty() {
        return Err(Problem::invalid_body(faults).into());
    }
    let raw = |text: String| RawValue::from_string(text).map_err(|e| Error::Broken(e.to_string()));
    let mut changes: job_types::Fields =
        [("concurrency".to_owned(), raw(concurrency)?), ("backoff".to_owned(), raw(backoff)?)].into();
    for (field, value) in [("rate_limit", rate_limit), ("concurrency_by", concurrency_by)] {
        if let Some(value) = value {
            changes.insert(field.to_owned(), raw(value)?);
        }
    }
    job_types::patch(app, caller, name, &changes, version).await?;
    Ok(())
}

/// `GET /menu`
pub(crate) async fn menu(signed: Signed) -> Response {
    let person = crate::http::ui::person(&signed.caller);
    signed.visit.page(StatusCode::OK, move || pages::menu::page(&person))
}

/// `GET /shortcuts`
pub(crate) async fn shortcuts(signed: Signed) -> Response {
    signed.visit.page(StatusCode::OK, pages::shortcuts::page)
}
