//! `GET /search`: one search over everything that the caller may see.

use axum::{Json as Answer, extract::State};
use domain::api::SearchResults;
use serde::Deserialize;
use utoipa::IntoParams;

use super::extract::Query;
use crate::{App, auth::Caller, error::Result};

/// What is looked for.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Search {
    /// 1 to 255 characters: an id, a name, a key, a part of a file's name, of a worker's, or of an error
    q: String,
}

/// Search jobs, items, errors, files, workers and job types
///
/// Ids, dedupe, serialize and idempotency keys must be whole; of names, files, workers and errors a part will do. Callers find
/// what they may see, at most ten of each kind, the newest first: names, keys and metadata among the newest 20,000 jobs, files
/// among the newest 5,000.
#[utoipa::path(get, path = "/search", tag = "watch", params(Search), responses((status = 200, body = SearchResults)))]
pub async fn search(
    State(app): State<App>,
    caller: Caller,
    Query(search): Query<Search>,
) -> Result<Answer<SearchResults>> {
    Ok(Answer(app.engine.search(&caller, &search.q).await?))
}
