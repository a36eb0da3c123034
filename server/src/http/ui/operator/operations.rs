//! `/` and `/workers`: current activity, for staff. The statistics are those of the API; people without the
//! role are redirected to their uploads, or get an error page.

use app::{
    components::chart::{History, Range},
    pages::{
        self,
        overview::Overview,
        worker::{LastError, WorkerPageData},
    },
};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{Code, Time, api::Activity};
use time::OffsetDateTime;
use uuid::Uuid;

use crate::http::ui::{Signed, list_request::Pages, pairs, see_other};
use crate::{
    App,
    http::extract::{Path, TriedPath},
    http::query::{
        cursor::{Paged as _, cut},
        stats,
    },
};
use engine::{
    Span, WorkerPosition,
    access::caller::Caller,
    error::{Error, Result},
    store::{
        notify::alerts::AlertQuery,
        pagination::{NamedOrder, PageRange},
    },
};

/// Number of alerts on the overview, and maximum number of workers.
const ALERTS: i64 = 20;
const WORKERS: i64 = 1_000;

/// Refuses callers who do not see everybody's work.
pub(crate) fn staff(caller: &Caller) -> Result<()> {
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
pub(crate) fn range(query: Option<&str>) -> Range {
    pairs(query).find(|(name, _)| name == "range").map(|(_, word)| Range::read(&word)).unwrap_or_default()
}

/// Activity of one type, or of all types, for charts.
pub(crate) async fn history(app: &App, caller: &Caller, type_name: Option<&str>, range: Range) -> Result<History> {
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

/// `GET /menu`
pub(crate) async fn menu(signed: Signed) -> Response {
    let person = crate::http::ui::person(&signed.caller);
    signed.visit.page(StatusCode::OK, move || pages::menu::page(&person))
}

/// `GET /shortcuts`
pub(crate) async fn shortcuts(signed: Signed) -> Response {
    signed.visit.page(StatusCode::OK, pages::shortcuts::page)
}
