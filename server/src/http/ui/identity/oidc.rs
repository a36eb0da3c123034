//! Redirects to and from an OpenID Connect provider, and connecting one to an account.

use axum::{
    extract::{Path, RawQuery, State},
    http::{HeaderMap, HeaderValue},
    response::{IntoResponse as _, Response},
};
use domain::{Code, Problem};
use uuid::Uuid;

use super::{factors, sign_in};
use crate::http::ui::{Signed, Visit, cookie, pairs, see_other, status, theme::local_path, with_cookie};
use crate::{
    App,
    auth::{
        ClientAddress,
        oidc::{self, CallbackOutcome},
        sessions::Visitor,
    },
    http::{extract, identity::session::with_cookies},
};
use engine::error::Error;

/// `GET /sign-in/oidc/{provider}`
pub(crate) async fn start_authorization(
    State(app): State<App>,
    visit: Visit,
    Path(provider): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let (mut back, mut fresh) = ("/".to_owned(), false);
    for (name, value) in pairs(query.as_deref()) {
        match name.as_str() {
            "back" => local_path(&value).clone_into(&mut back),
            "fresh" => fresh = true,
            _ => {}
        }
    }
    match oidc::start_authorization(&app, &provider, &back, fresh, None).await {
        Ok(redirect) => with_cookie(see_other(&redirect.url), state_cookie(&app, &redirect.cookie)),
        Err(error) => refused(&visit, error),
    }
}

/// `POST /account/providers/{provider}`
pub(crate) async fn connect(State(app): State<App>, signed: Signed, Path(provider): Path<String>) -> Response {
    match oidc::start_authorization(&app, &provider, "/account", false, Some(&signed.caller)).await {
        // After a form, browsers that check `form-action` only follow redirects to this site, so the link is on a page.
        Ok(redirect) => {
            let page = signed.visit.page(axum::http::StatusCode::OK, move || {
                app::pages::identity::factors::leave(&provider, &redirect.url)
            });
            with_cookie(page, state_cookie(&app, &redirect.cookie))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /account/connections/{id}/remove`
pub(crate) async fn disconnect(State(app): State<App>, signed: Signed, id: extract::TriedPath<Uuid>) -> Response {
    let removed = async { oidc::disconnect(&app, &signed.caller, id?.0).await };
    factors::done(&app, &signed, removed.await, "provider-removed").await
}

/// `GET /sign-in/oidc/{provider}/callback`
pub(crate) async fn handle_callback(
    State(app): State<App>,
    visit: Visit,
    address: ClientAddress,
    Path(provider): Path<String>,
    RawQuery(query): RawQuery,
    headers: HeaderMap,
) -> Response {
    let sign_in_state = cookie(&headers, state_cookie_name(&app));
    let query = query.unwrap_or_default();
    let caller = visit.caller.as_ref();
    let outcome =
        oidc::handle_callback(&app, &provider, &query, sign_in_state, caller, &Visitor::of(&app, &headers, address))
            .await;
    let back = oidc::destination(&app, sign_in_state).unwrap_or_default();
    let response = match outcome {
        Ok(CallbackOutcome::SignedIn(cookies, back)) => {
            (with_cookies(cookies), see_other(local_path(&back))).into_response()
        }
        Ok(CallbackOutcome::Linked) => see_other("/account?done=provider"),
        Err(Error::Problem(problem)) if problem.code == Code::MfaRequired => {
            sign_in::ask_second(&visit, &problem, &back)
        }
        Err(error) => refused(&visit, error),
    };
    with_cookie(response, clear_state_cookie(&app))
}

/// Error page with a link back to the sign-in page.
fn refused(visit: &Visit, error: Error) -> Response {
    match error {
        Error::Problem(problem) if problem.code == Code::Unauthenticated => {
            visit.page(status(&problem), move || app::pages::identity::sign_in::provider_refused(&problem))
        }
        Error::Problem(problem) if problem.code == Code::Duplicate => visit
            .page(status(&problem), move || app::pages::identity::sign_in::provider_refused(&Problem { ..*problem })),
        error => visit.error_page(error),
    }
}

fn state_cookie_name(app: &App) -> &'static str {
    if app.public_url.is_secure() { "__Host-treeline_oidc" } else { "treeline_oidc" }
}

/// Cookie of a sign-in in progress. `Lax`, because the provider redirects back here. `__Host-` binds it to this host.
fn state_cookie(app: &App, value: &str) -> HeaderValue {
    state_cookie_line(app, value, 600)
}

fn clear_state_cookie(app: &App) -> HeaderValue {
    state_cookie_line(app, "", 0)
}

fn state_cookie_line(app: &App, value: &str, seconds: u32) -> HeaderValue {
    let secure = if app.public_url.is_secure() { "; Secure" } else { "" };
    let name = state_cookie_name(app);
    let line = format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
    // A sealed text is base64url with colons.
    HeaderValue::try_from(line).unwrap_or_else(|_| HeaderValue::from_static(""))
}
