//! `GET /workers`: workers that claim items, and the items that they hold.

use axum::{Json as Answer, extract::State};
use domain::api::{Page, Worker};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::http::{
    callers::ReaderOrWorker,
    extract::Query,
    query::{
        cursor::{Paged as _, paged},
        sort::OfWorkers,
    },
};
use crate::{App, http::error::Result};

/// Query parameters of the list of workers.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct WorkerList {
    /// `-created_at` (default): most recently first seen first; `created_at`: the reverse; `worker_id` and
    /// `-worker_id`: by name
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: OfWorkers,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

paged!(WorkerList, "workers");

/// List workers
///
/// Workers seen within a day, newest first; a service sees its own. Identified by `worker_id` and the token's service.
#[utoipa::path(get, path = "/workers", tag = "watch", params(WorkerList),
    responses((status = 200, body = Page<Worker>)))]
pub async fn list_workers(
    State(app): State<App>,
    ReaderOrWorker(caller): ReaderOrWorker,
    Query(query): Query<WorkerList>,
) -> Result<Answer<Page<Worker>>> {
    let found = app.engine.workers(&caller, query.sort.into(), query.place()?, query.rows_to_read()?).await?;
    let Page { data, next_cursor } = query.page_of(found, |(place, _)| place.clone())?;
    Ok(Answer(Page { data: data.into_iter().map(|(_, worker)| worker).collect(), next_cursor }))
}
