//! `GET /workers`: workers that claim items, and the items that they hold.

use axum::{Json as Answer, extract::State};
use domain::api::{Page, Worker};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;

use crate::http::{
    extract::Query,
    query::{
        cursor::{Paged, cut},
        sort::OfWorkers,
    },
};
use crate::{App, http::error::Result};
use engine::{WorkerPosition, access::caller::Caller};

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

impl Paged for WorkerList {
    const LIST: &'static str = "workers";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        self.limit
    }
}

/// List workers
///
/// Workers seen within a day, newest first; a service sees its own. Identified by `worker_id` and the token's service.
#[utoipa::path(get, path = "/workers", tag = "watch", params(WorkerList),
    responses((status = 200, body = Page<Worker>)))]
pub async fn list_workers(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<WorkerList>,
) -> Result<Answer<Page<Worker>>> {
    let (limit, after) = (query.rows()?, query.place::<WorkerPosition>()?);
    let found = app.engine.workers(&caller, query.sort.into(), after, limit + 1).await?;
    let (found, next) = cut(found, limit, |(place, _)| place.clone());
    Ok(Answer(query.page(found.into_iter().map(|(_, worker)| worker).collect(), next)))
}
