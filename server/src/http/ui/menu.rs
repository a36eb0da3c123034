//! `/menu`: navigation of narrow screens; `/shortcuts`: keyboard shortcuts.

use app::pages;
use axum::{http::StatusCode, response::Response};

use crate::http::ui::Signed;

/// `GET /menu`
pub(crate) async fn menu(signed: Signed) -> Response {
    let person = crate::http::ui::person(&signed.caller);
    signed.visit.page(StatusCode::OK, move || pages::menu::page(&person))
}

/// `GET /shortcuts`
pub(crate) async fn shortcuts(signed: Signed) -> Response {
    signed.visit.page(StatusCode::OK, pages::shortcuts::page)
}
