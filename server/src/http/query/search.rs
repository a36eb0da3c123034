//! `GET /search`: one search over everything that the caller may see.

use axum::{Json as Answer, extract::State};
use domain::api::SearchResults;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::callers::Reader;
use crate::http::extract::Query;
use crate::{App, http::error::Result};

/// Query parameters of a search.
#[derive(Clone, Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Search {
    /// 1 to 255 characters: an id, the beginning of a key, or a part of a name, or of an error
    q: String,
}

/// Search everything that has an id, a name or a key
///
/// Ids must match as a whole, dedupe, serialize and idempotency keys from their beginning; names, files, workers, errors
/// and the reasons of bulk operations match in part. Returns at most ten results of each kind that the caller may see:
/// those found by the beginning of a key in the order of the keys, others newest first. Names, keys and metadata are
/// searched in the newest 20,000 jobs, files in the newest 5,000.
#[utoipa::path(get, path = "/search", tag = "watch", params(Search), responses((status = 200, body = SearchResults)))]
pub async fn search(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(search): Query<Search>,
) -> Result<Answer<SearchResults>> {
    Ok(Answer(app.engine.search(&caller, &search.q).await?))
}
