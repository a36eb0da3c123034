//! `/workers`, and the page of one worker, for staff.

use app::{
    components::chart::{History, Range},
    pages::{
        self,
        worker::{LastError, WorkerPageData},
    },
};
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use time::OffsetDateTime;
use uuid::Uuid;

use super::activity_charts::{in_points, range};
use crate::http::ui::{Signed, list_request::Pages, pairs, staff};
use crate::{
    App,
    http::extract::{Path, TriedPath},
    http::query::cursor::Paged as _,
};
use engine::{Span, access::caller::Caller, error::Result, store::page_range::NamedOrder};

/// `GET /workers`
pub(crate) async fn workers(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let pages = Pages::plain("/workers", query.as_deref());
    let found = async {
        staff(&signed.caller)?;
        let (after, rows) = (pages.place()?, pages.rows_to_read()?);
        let found = app.engine.workers(&signed.caller, NamedOrder::ByName, after, rows).await?;
        let page = pages.page_of(found, |(place, _)| place.clone())?;
        let workers: Vec<_> = page.data.into_iter().map(|((.., credential), worker)| (credential, worker)).collect();
        let next = page.next_cursor.map(|cursor| crate::http::ui::address("/workers", &[("cursor", &cursor)]));
        let first = pages.first();
        Ok(move || pages::overview::workers_page(&workers, next.as_ref(), first))
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
