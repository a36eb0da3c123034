//! `/search`: the search of the API as a page.

use app::pages::search::{Search, page};
use axum::{
    extract::{RawQuery, State},
    http::StatusCode,
    response::Response,
};

use super::{Signed, pairs};
use crate::App;
use engine::error::Error;

/// `GET /search`
pub(super) async fn show(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let q = pairs(query.as_deref()).find(|(name, _)| name == "q").map(|(_, words)| words).unwrap_or_default();
    let mut page_data = Search { q, ..Search::default() };
    let mut status = StatusCode::OK;
    if !page_data.q.trim().is_empty() {
        match app.engine.search(&signed.caller, &page_data.q).await {
            Ok(results) => page_data.results = Some(results),
            Err(Error::Problem(problem)) if problem.status == 400 => {
                status = StatusCode::BAD_REQUEST;
                page_data.fault = Some(problem.detail.clone());
            }
            Err(error) => return signed.visit.error_page(error),
        }
    }
    signed.visit.page(status, move || page(&page_data))
}
