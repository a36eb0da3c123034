//! Signing in by password or by a one-time link, and out.
//!
//! Opening a link only shows a button, so that a mail scanner or a preview cannot use it up.

use app::pages::sign_in as page;
use axum::{
    extract::{Path, RawQuery, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use domain::{Code, Problem};

use super::{Visit, form::Fields, pairs, see_other, status, theme::own_path};
use crate::{
    App,
    auth::{
        ClientAddress, links, people,
        sessions::{self, Visitor},
    },
    error::Error,
    http::session::{signed_out, with_cookies},
};

/// `GET /sign-in`
pub(super) async fn show(visit: Visit, RawQuery(query): RawQuery) -> Response {
    let mut form = page::SignIn::default();
    for (name, value) in pairs(query.as_deref()) {
        match name.as_str() {
            "ended" => form.ended = true,
            "back" => own_path(&value).clone_into(&mut form.back),
            _ => {}
        }
    }
    visit.page(StatusCode::OK, || page::page(&form))
}

/// `POST /sign-in`
pub(super) async fn begin(
    State(app): State<App>,
    visit: Visit,
    address: ClientAddress,
    headers: HeaderMap,
    fields: Fields,
) -> Response {
    let (email, password) = (fields.trimmed("email"), fields.text("password").to_owned());
    let signed_in = people::sign_in(&app, &email, password, &Visitor::of(&app, &headers, address)).await;
    let back = fields.trimmed("back");
    match signed_in {
        Ok(cookies) => (with_cookies(cookies), see_other(own_path(&back))).into_response(),
        Err(Error::Problem(problem)) if matches!(problem.status, 401 | 422 | 429) => {
            let form = page::SignIn { ended: false, email, back, problem: Some((*problem).clone()) };
            let status =
                if problem.code == Code::TooManyRequests { status(&problem) } else { StatusCode::UNPROCESSABLE_ENTITY };
            let mut response = visit.page(status, || page::page(&form));
            if let Some(seconds) = problem.retry_after_seconds {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
        Err(error) => visit.trouble(error),
    }
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
    address: ClientAddress,
    headers: HeaderMap,
) -> Response {
    match links::redeem(&app, &token, &Visitor::of(&app, &headers, address)).await {
        Ok(cookies) => (with_cookies(cookies), see_other("/")).into_response(),
        Err(Error::Problem(problem)) if problem.code == Code::LinkUsed => refused(&visit, &problem),
        Err(error) => visit.trouble(error),
    }
}

/// `POST /sign-out`
pub(super) async fn end(
    State(app): State<App>,
    visit: Visit,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
) -> Response {
    match sessions::end(&app, &headers, address).await {
        Ok(cookie) => (signed_out(cookie), see_other("/sign-in?ended=1")).into_response(),
        Err(error) => visit.trouble(error),
    }
}

fn refused(visit: &Visit, problem: &Problem) -> Response {
    visit.page(status(problem), page::refused)
}
