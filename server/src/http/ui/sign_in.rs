//! Signing in by a one-time link, and out.
//!
//! Opening the link only shows a button, so that a mail scanner or a preview cannot use it up.

use std::net::SocketAddr;

use app::pages::sign_in as page;
use axum::{
    Extension,
    extract::{ConnectInfo, Path, RawQuery, State},
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use domain::{Code, Problem};

use super::{Visit, pairs, see_other, status};
use crate::{
    App,
    auth::{links, sessions},
    error::Error,
    http::session::{address, user_agent},
};

/// `GET /sign-in`
pub(super) async fn show(visit: Visit, RawQuery(query): RawQuery) -> Response {
    let ended = pairs(query.as_deref()).any(|(name, _)| name == "ended");
    visit.page(StatusCode::OK, || page::page(ended))
}

/// `GET /sign-in/{token}`
pub(super) async fn confirm(State(app): State<App>, visit: Visit, Path(token): Path<String>) -> Response {
    match links::is_open(&app, &token).await {
        Ok(true) => visit.page(StatusCode::OK, || page::confirm(&token)),
        Ok(false) => refused(&visit, &Problem::new(Code::LinkUsed, "It was used already, or it is too old.")),
        Err(error) => visit.trouble(error),
    }
}

/// `POST /sign-in/{token}`
pub(super) async fn redeem(
    State(app): State<App>,
    visit: Visit,
    Path(token): Path<String>,
    peer: Option<Extension<ConnectInfo<SocketAddr>>>,
    headers: HeaderMap,
) -> Response {
    match links::redeem(&app, &token, user_agent(&headers), address(peer)).await {
        Ok(cookie) => ([(header::SET_COOKIE, cookie)], see_other("/")).into_response(),
        Err(Error::Problem(problem)) if problem.code == Code::LinkUsed => refused(&visit, &problem),
        Err(error) => visit.trouble(error),
    }
}

/// `POST /sign-out`
pub(super) async fn end(State(app): State<App>, visit: Visit, headers: HeaderMap) -> Response {
    match sessions::end(&app, &headers).await {
        Ok(cookie) => ([(header::SET_COOKIE, cookie)], see_other("/sign-in?ended=1")).into_response(),
        Err(error) => visit.trouble(error),
    }
}

fn refused(visit: &Visit, problem: &Problem) -> Response {
    visit.page(status(problem), page::refused)
}
