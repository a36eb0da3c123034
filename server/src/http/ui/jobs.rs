//! `/jobs`, `/jobs/{id}` and `/items/{id}`: the views of the API, drawn.

use app::{frame::Page, pages};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};
use domain::{JobStatus, Outcome, Problem};
use serde::Serialize;
use uuid::Uuid;

use super::{Signed, address, pairs};
use crate::{
    App,
    auth::Caller,
    error::{Error, Result},
    http::{cursor::Paged, extract::Path},
    job_types,
    jobs::JobFilter,
};

/// Jobs on a page.
const ROWS: i64 = 50;

/// The filter as typed; what a cursor belongs to.
#[derive(Clone, Debug, Default, Serialize)]
struct JobList {
    status: String,
    outcome: String,
    job_type: String,
    q: String,
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Paged for JobList {
    const LIST: &'static str = "page of jobs";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        Some(ROWS)
    }
}

impl JobList {
    /// Parameters that are not known are passed over: the address may carry those of other pages.
    fn read(query: Option<&str>) -> Self {
        let mut list = Self::default();
        for (name, value) in pairs(query) {
            match name.as_str() {
                "status" => list.status = value,
                "outcome" => list.outcome = value,
                "type" => list.job_type = value,
                "q" => list.q = value,
                "cursor" => list.cursor = Some(value),
                _ => {}
            }
        }
        list
    }

    fn filter(&self) -> Result<JobFilter> {
        let given = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let status = given(&self.status)
            .map(|word| {
                JobStatus::parse(&word).ok_or_else(|| Problem::parameter("status", "expected a status of a job"))
            })
            .transpose()?;
        let outcome = given(&self.outcome)
            .map(|word| {
                Outcome::parse(&word).ok_or_else(|| Problem::parameter("outcome", "expected an outcome of a job"))
            })
            .transpose()?;
        Ok(JobFilter {
            root: Some(true),
            status,
            outcome,
            job_type: given(&self.job_type),
            q: given(&self.q),
            ..JobFilter::default()
        })
    }
}

/// `GET /jobs`
pub(super) async fn list(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let list = JobList::read(query.as_deref());
    let mut shown = pages::jobs::Jobs {
        filter: pages::jobs::Filter {
            status: list.status.clone(),
            outcome: list.outcome.clone(),
            job_type: list.job_type.clone(),
            q: list.q.clone(),
        },
        first: list.cursor.is_none(),
        ..Default::default()
    };
    match find(&app, &signed.caller, &list, &mut shown).await {
        Ok(()) => signed.visit.page(StatusCode::OK, || pages::jobs::page(&shown)),
        // A bad filter is answered by the same page, with what was typed.
        Err(Error::Problem(problem)) if problem.status == 400 => {
            shown.problem = Some(problem.detail);
            signed.visit.page(StatusCode::BAD_REQUEST, || pages::jobs::page(&shown))
        }
        Err(error) => signed.visit.trouble(error),
    }
}

async fn find(app: &App, caller: &Caller, list: &JobList, shown: &mut pages::jobs::Jobs) -> Result<()> {
    shown.job_types = type_names(app).await?;
    let (filter, after) = (list.filter()?, list.place::<i64>()?);
    let (jobs, next) = app.engine.list_jobs(caller, &filter, after, list.rows()?).await?;
    let page = list.page(jobs, next);
    shown.next = page.next_cursor.map(|cursor| {
        let JobList { status, outcome, job_type, q, .. } = list;
        address("/jobs", &[("status", status), ("outcome", outcome), ("type", job_type), ("q", q), ("cursor", &cursor)])
    });
    shown.jobs = page.data;
    Ok(())
}

/// The names of all job types that a list can hold.
pub(super) async fn type_names(app: &App) -> Result<Vec<String>> {
    Ok(job_types::list(app, "", 1_000).await?.into_iter().map(|it| it.name).collect())
}

/// `GET /jobs/{id}`
pub(super) async fn show(State(app): State<App>, signed: Signed, id: Result<Path<Uuid>>) -> Response {
    let drawn = draw_job(&app, &signed.caller, id).await;
    signed.answer(drawn)
}

async fn draw_job(app: &App, caller: &Caller, id: Result<Path<Uuid>>) -> Result<impl FnOnce() -> Page + use<>> {
    let Path(id) = id?;
    let job = app.engine.job(caller, id, true).await?;
    let groups = app.engine.error_groups(caller, id).await?;
    let in_flight = app.engine.items_in_flight(caller, id).await?;
    Ok(move || pages::job::page(&job, &groups, &in_flight))
}

/// `GET /items/{id}`
pub(super) async fn show_item(State(app): State<App>, signed: Signed, id: Result<Path<Uuid>>) -> Response {
    let drawn = draw_item(&app, &signed.caller, id).await;
    signed.answer(drawn)
}

async fn draw_item(app: &App, caller: &Caller, id: Result<Path<Uuid>>) -> Result<impl FnOnce() -> Page + use<>> {
    let Path(id) = id?;
    let item = app.engine.item(caller, id).await?;
    let mut attempts = app.engine.attempts(caller, id).await?;
    attempts.reverse();
    Ok(move || pages::item::page(&item, &attempts))
}
