//! `/docs`, the documentation. Public: it has nothing of this server.

use app::pages;
use axum::{
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use domain::Code;

use crate::{documentation, http::ui::Visit};
use engine::error::Error;

/// `GET /docs`
pub(crate) async fn first(visit: Visit) -> Response {
    page(&visit, "")
}

/// `GET /docs/{*page}`
pub(crate) async fn show(visit: Visit, Path(path): Path<String>) -> Response {
    page(&visit, &path)
}

fn page(visit: &Visit, path: &str) -> Response {
    let Some(document) = documentation::document(path) else { return unknown(visit) };
    let address = if path.is_empty() { "/docs".to_owned() } else { format!("/docs/{path}") };
    // The title of the first page is the name of the product, with which the title of every page ends.
    let title = if path.is_empty() { "Documentation" } else { document.title.as_str() };
    visit.page(StatusCode::OK, move || {
        pages::documentation::page(title, &document.html, documentation::contents(), &address)
    })
}

fn unknown(visit: &Visit) -> Response {
    visit.error_page(Error::refuse(Code::NotFound, "The documentation has no such page."))
}

/// `GET /docs/benchmarks/{name}`: a chart.
pub(crate) async fn chart(visit: Visit, Path(name): Path<String>) -> Response {
    match documentation::chart(&name) {
        Some(chart) => ([(header::CONTENT_TYPE, HeaderValue::from_static("image/svg+xml"))], chart).into_response(),
        None => unknown(&visit),
    }
}
