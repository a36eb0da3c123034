//! The pages: requests in, HTML documents out.
//!
//! A page reads and writes through the same use-cases as `/api/v1`, with the same types, and hands them
//! to a function of `app` that draws them. Here are only the routes, what surrounds every page, and the
//! headers of an HTML answer; the content security policy among them, with a nonce per answer.

use app::{
    document::document,
    frame::{Assets, Frame, Page, Person, Theme},
    pages,
};
use axum::{
    Router,
    extract::{FromRequestParts, OriginalUri},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header, request::Parts},
    middleware::from_fn_with_state,
    response::{IntoResponse, Redirect, Response},
    routing::{get, post},
};
use domain::{Code, Problem, Time};
use time::OffsetDateTime;

use super::{assets, layers::RequestId};
use crate::{
    App,
    auth::{Caller, MaybeCaller, Role, new_secret},
    error::Error,
};

mod account; // one's own account
mod asked; // what the address of a list asks for
mod audit; // who did what
mod bulk; // deeds over many
mod correct; // failed rows, corrected
mod deliveries; // callbacks of complete trees
mod factors; // second factors
mod form; // what was typed
mod imports; // uploads and what became of them
mod items; // items, failures first
mod jobs; // jobs
mod oidc; // providers of identities
mod people; // accounts
mod services; // services and tokens
mod shares; // links to one tree
mod sign_in; // in and out
mod step_up; // asks again who one is
mod theme; // the choice of colours
mod watch; // what is going on, for staff

/// Every page. What has no route here and nowhere else is a page, too: the one that says so.
pub fn router(app: &App) -> Router<App> {
    Router::new()
        .route("/", get(watch::start))
        .route("/sign-in", get(sign_in::show).post(sign_in::begin))
        .route("/sign-in/oidc/{provider}", get(oidc::depart))
        .route("/sign-in/oidc/{provider}/callback", get(oidc::arrive))
        .route("/sign-in/{token}", get(sign_in::confirm).post(sign_in::redeem))
        .route("/sign-out", post(sign_in::end))
        .route("/theme", post(theme::choose))
        .route("/imports", get(imports::list).post(imports::create))
        .route("/imports/new", get(imports::new))
        .route("/imports/{id}", get(imports::show))
        .route("/imports/{id}/correct", get(correct::show).post(correct::retry))
        .route("/imports/{id}/share", post(shares::create))
        .route("/shares/{id}/revoke", post(shares::revoke))
        .route("/s/{token}", get(shares::show))
        .route("/sample.csv", get(imports::sample))
        .merge(guarded(app))
        .route("/step-up", get(step_up::show).post(step_up::confirm))
        .route("/sign-in/second-step", post(sign_in::second_step).get(sign_in::start_over))
        .route("/account/totp/confirm", post(factors::confirm_totp).get(to_account))
        .route("/account/passkeys/{id}/rename", post(factors::rename_passkey))
        .route(ACCOUNT, get(account::show))
        .route("/account/password", post(account::set_password))
        .route("/account/sessions/end", post(account::end_others))
        .route("/account/sessions/{id}/end", post(account::end_session))
        .route("/people/{id}/sessions/end", post(people::end_sessions))
        .route("/people/{id}/sessions/{session}/end", post(people::end_session))
        .route("/audit", get(audit::show))
        .route("/jobs", get(jobs::list))
        .route("/jobs/{id}", get(jobs::show))
        .route("/jobs/{id}/cancel", post(jobs::cancel).get(back))
        .route("/jobs/{id}/replay", post(jobs::replay).get(back))
        .route("/jobs/{id}/pin", post(jobs::pin).get(back))
        .route("/jobs/{id}/unpin", post(jobs::unpin).get(back))
        .route("/jobs/{id}/delete", post(jobs::delete).get(back))
        .route("/deliveries", get(deliveries::list))
        .route("/deliveries/{id}", get(deliveries::show))
        .route("/deliveries/{id}/resend", post(deliveries::resend).get(back))
        .route("/dead", get(items::dead))
        .route("/items", get(items::list))
        .route("/items/{id}", get(items::show))
        .route("/items/{id}/retry", post(items::retry).get(back))
        .route("/items/{id}/cancel", post(items::cancel).get(back))
        .route("/items/{id}/replay", post(items::replay).get(back))
        .route("/bulk", get(bulk::list).post(bulk::preview))
        .route("/bulk/new", get(bulk::new))
        .route("/bulk/{id}", get(bulk::show))
        .route("/bulk/{id}/start", post(bulk::start).get(back))
        .route("/bulk/{id}/cancel", post(bulk::cancel).get(back))
        .route("/workers", get(watch::workers))
        .route("/types", get(watch::types))
        .route("/types/{name}/pause", post(watch::pause).get(back))
        .route("/types/{name}/resume", post(watch::resume).get(back))
        .route("/shortcuts", get(watch::shortcuts))
        .fallback(nothing)
}

/// Pages with forms that ask for a recent sign-in.
fn guarded(app: &App) -> Router<App> {
    Router::new()
        .route("/account/totp", get(factors::show_totp).post(factors::start_totp))
        .route("/account/providers/{provider}", post(oidc::connect).get(to_account))
        .route("/account/totp/remove", post(factors::remove_totp).get(to_account))
        .route("/account/recovery-codes", post(factors::renew_codes).get(to_account))
        .route("/account/passkeys/{id}/remove", post(factors::remove_passkey).get(to_account))
        .route("/people", get(people::list).post(people::create))
        .route("/people/{id}", get(people::show).post(people::change))
        .route("/people/{id}/disable", post(people::disable))
        .route("/people/{id}/enable", post(people::enable))
        .route("/people/{id}/sign-in-link", post(people::make_link))
        .route("/people/{id}/reset-factors", post(people::reset_factors))
        .route("/services", get(services::show).post(services::create))
        .route("/services/tokens", post(services::create_token))
        .route("/services/{id}/disable", post(services::disable))
        .route("/services/{id}/enable", post(services::enable))
        .route("/tokens/{id}/revoke", post(services::revoke_token))
        .route("/types/{name}", get(watch::show_type).post(watch::change))
        .route_layer(from_fn_with_state(app.clone(), step_up::ask))
}

/// The address of a form of the account page, loaded again.
async fn to_account(_: Signed) -> Response {
    see_other("/account")
}

/// The address of a form that was refused, loaded again: the page that the form is on, with the form open.
async fn back(_: Signed, uri: Uri) -> Response {
    let (page, deed) = uri.path().rsplit_once('/').unwrap_or(("/", ""));
    see_other(&address(page, &[("open", deed)]))
}

async fn nothing(visit: Visit, uri: Uri) -> Response {
    visit.trouble(Error::refuse(Code::NotFound, format!("There is nothing at {}.", uri.path())))
}

/// A request for a page: who asks, if anybody, and how they like it.
pub struct Visit {
    caller: Option<Caller>,
    address: String,
    request_id: Option<String>,
    theme: Theme,
    offset_minutes: Option<i32>,
    refresh_seconds: Option<u16>,
}

impl FromRequestParts<App> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let caller = MaybeCaller::from_request_parts(parts, app).await;
        let address = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0);
        let refresh =
            pairs(address.query()).find(|(name, _)| name == "refresh").and_then(|(_, value)| value.parse().ok());
        let visit = Self {
            caller: None,
            address: address.path_and_query().map_or("/", |address| address.as_str()).to_owned(),
            request_id: parts.extensions.get::<RequestId>().map(|id| id.0.clone()),
            theme: cookie(&parts.headers, theme::COOKIE).and_then(Theme::parse).unwrap_or_default(),
            offset_minutes: cookie(&parts.headers, "treeline_offset")
                .and_then(|minutes| minutes.parse().ok())
                .filter(|minutes: &i32| minutes.abs() <= 14 * 60),
            refresh_seconds: refresh.filter(|seconds| (5..=600).contains(seconds)),
        };
        match caller {
            Ok(MaybeCaller(caller)) => Ok(Self { caller, ..visit }),
            Err(error) => Err(visit.trouble(error)),
        }
    }
}

/// One's own account.
const ACCOUNT: &str = "/account";

/// A request of somebody who is signed in. Strangers are sent to the page that says how.
pub struct Signed {
    visit: Visit,
    caller: Caller,
}

impl FromRequestParts<App> for Signed {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let visit = Visit::from_request_parts(parts, app).await?;
        match visit.caller.clone() {
            // Somebody else knows their password: they choose one of their own before they see anything.
            Some(caller) if caller.must_change_password && !visit.address.starts_with(ACCOUNT) => {
                Err(see_other(ACCOUNT))
            }
            Some(caller) => Ok(Self { visit, caller }),
            // Where somebody wanted to look is where they go when they are in.
            None if parts.method == Method::GET && visit.address != "/" => {
                Err(see_other(&address("/sign-in", &[("back", &visit.address)])))
            }
            None => Err(see_other("/sign-in")),
        }
    }
}

impl Visit {
    /// A page as an answer.
    fn page(&self, status: StatusCode, draw: impl FnOnce() -> Page) -> Response {
        let nonce = new_secret("");
        let frame = Frame {
            assets: Assets {
                script: assets::url("treeline.js"),
                wasm: assets::url("treeline_bg.wasm"),
                style: assets::url("treeline.css"),
                font: assets::url("fonts/sans.woff2"),
            },
            theme: self.theme,
            now: Time(OffsetDateTime::now_utc()),
            offset_minutes: self.offset_minutes,
            person: self.caller.as_ref().map(|caller| Person {
                name: caller.name.clone(),
                staff: caller.role >= Some(Role::Support) || caller.role.is_none(),
                admin: caller.is_admin(),
            }),
            address: self.address.clone(),
            refresh_seconds: self.refresh_seconds,
            nonce,
        };
        let html = document(&frame, draw);
        let policy = format!(
            "default-src 'none'; script-src 'nonce-{}' 'strict-dynamic' 'wasm-unsafe-eval'; style-src 'self'; \
             font-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; \
             object-src 'none'; frame-ancestors 'none'",
            frame.nonce
        );
        let mut response = (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response();
        // A nonce is base64url, so the policy is always a header.
        if let Ok(policy) = HeaderValue::try_from(policy) {
            response.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        // The page depends on who asks and on the cookies of taste.
        response.headers_mut().insert(header::VARY, HeaderValue::from_static("cookie"));
        response
    }

    /// A page for what went wrong, with the status of the problem.
    fn trouble(&self, error: Error) -> Response {
        let problem = Problem { request_id: self.request_id.clone(), ..error.into_problem() };
        if problem.code == Code::Unauthenticated {
            return Redirect::to("/sign-in").into_response();
        }
        if problem.code == Code::MfaEnrollmentRequired {
            return Redirect::to("/account#factors").into_response();
        }
        let mut response = self.page(status(&problem), || pages::trouble::page(&problem));
        if problem.code == Code::StepUpRequired {
            response.extensions_mut().insert(step_up::StepUpNeeded(problem.methods.clone()));
        }
        if let Some(seconds) = problem.retry_after_seconds {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl Signed {
    /// A page, or the page about what went wrong.
    fn answer(&self, drawn: crate::error::Result<impl FnOnce() -> Page>) -> Response {
        match drawn {
            Ok(draw) => self.visit.page(StatusCode::OK, draw),
            Err(error) => self.visit.trouble(error),
        }
    }

    /// Refuses everybody but admins, or but staff: 403, with the page that says so.
    fn require(&self, least: Role) -> Result<(), Box<Response>> {
        let allowed = self.caller.is_admin() || self.caller.role >= Some(least);
        let who = if least == Role::Admin { "admins" } else { "support and admins" };
        if allowed {
            return Ok(());
        }
        Err(Box::new(
            self.visit.trouble(Error::refuse(Code::Forbidden, format!("This page is for {who}. Ask one of them."))),
        ))
    }
}

/// A response with one more cookie.
fn with_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response
}

fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// See other: where the reader goes after an action.
fn see_other(to: &str) -> Response {
    Redirect::to(to).into_response()
}

/// The parameters of a query, in order. Empty ones are left out, as forms send every field.
fn pairs(query: Option<&str>) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .into_owned()
        .filter(|(_, value)| !value.is_empty() && !value.contains('\0'))
}

/// An address with a query.
fn address(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        query.append_pair(name, value);
    }
    let query = query.finish();
    if query.is_empty() { path.to_owned() } else { format!("{path}?{query}") }
}

fn cookie<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == wanted).then_some(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_leaves_out_what_is_empty() {
        assert_eq!(address("/jobs", &[("status", ""), ("q", "a b&c")]), "/jobs?q=a+b%26c");
        assert_eq!(address("/jobs", &[("status", "")]), "/jobs");
    }
}
