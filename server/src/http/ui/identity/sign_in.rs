//! Signing in with a password or a one-time link, and signing out.
//!
//! Opening a link only shows a button, so that a mail scanner or a link preview does not use it up.

use app::pages::identity::sign_in as page;
use axum::{
    extract::{Path, Request, State},
    http::{HeaderMap, HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use domain::{Code, Problem};

use crate::http::ui::{Visit, form::Fields, pairs, see_other, status, theme::local_path};
use crate::{
    App,
    auth::{
        ClientAddress,
        factors::passkeys,
        people,
        proxy_header::{self, ProxyUser},
        second_stage::{self, SecondFactor},
        sessions::{self, Visitor},
        sign_in_links,
    },
    http::identity::session::{signed_out, with_cookies},
};
use engine::error::Error;

/// `GET /sign-in`
pub(crate) async fn show(State(app): State<App>, visit: Visit, address: ClientAddress, request: Request) -> Response {
    let (parts, _) = request.into_parts();
    let query = parts.uri.query().map(str::to_owned);
    let mut form = empty(&app);
    for (name, value) in pairs(query.as_deref()) {
        match name.as_str() {
            "ended" => form.ended = true,
            "back" => local_path(&value).clone_into(&mut form.back),
            _ => {}
        }
    }
    // Signing out redirects here, while the proxy still names the person.
    if let (ProxyUser(Some(user)), false) = (ProxyUser::of(&app, &parts), form.ended) {
        return match proxy_header::sign_in(&app, &user, &Visitor::of(&app, &parts.headers, address)).await {
            Ok(cookies) => (with_cookies(cookies), see_other(local_path(&form.back))).into_response(),
            Err(Error::Problem(problem)) if problem.code == Code::MfaRequired => {
                ask_second(&visit, &problem, &form.back)
            }
            Err(Error::Problem(problem)) if problem.code == Code::Unauthenticated => {
                visit.page(status(&problem), move || page::provider_refused(&problem))
            }
            Err(error) => visit.error_page(error),
        };
    }
    visit.page(StatusCode::OK, move || page::page(&form))
}

/// Empty form with the sign-in methods that this server offers.
fn empty(app: &App) -> page::SignIn {
    let providers = &app.config.identity.oidc_providers.0;
    page::SignIn {
        passkeys: passkeys::are_possible(&app.public_url),
        providers: providers.iter().map(|provider| (provider.name.clone(), provider.label.clone())).collect(),
        ..page::SignIn::default()
    }
}

/// `POST /sign-in`
pub(crate) async fn begin(
    State(app): State<App>,
    visit: Visit,
    address: ClientAddress,
    headers: HeaderMap,
    fields: Fields,
) -> Response {
    let (email, password) = (fields.trimmed("email"), fields.text("password").to_owned());
    let visitor = Visitor::of(&app, &headers, address);
    let signed_in = people::sign_in(&app, &email, password, &SecondFactor::default(), &visitor).await;
    let back = local_path(&fields.trimmed("back")).to_owned();
    match signed_in {
        Ok(cookies) => (with_cookies(cookies), see_other(local_path(&back))).into_response(),
        Err(Error::Problem(problem)) if problem.code == Code::MfaRequired => ask_second(&visit, &problem, &back),
        Err(Error::Problem(problem)) if matches!(problem.status, 401 | 422 | 429) => {
            let form = page::SignIn { email, back, problem: Some((*problem).clone()), ..empty(&app) };
            let status =
                if problem.code == Code::TooManyRequests { status(&problem) } else { StatusCode::UNPROCESSABLE_ENTITY };
            let mut response = visit.page(status, move || page::page(&form));
            if let Some(seconds) = problem.retry_after_seconds {
                response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
            }
            response
        }
        Err(error) => visit.error_page(error),
    }
}

/// `GET /sign-in/{token}`
pub(crate) async fn confirm(State(app): State<App>, visit: Visit, Path(token): Path<String>) -> Response {
    match sign_in_links::is_open(&app, &token).await {
        Ok(true) => visit.page(StatusCode::OK, move || page::confirm(&token)),
        Ok(false) => refused(
            &visit,
            &Problem::new(Code::LinkUsed, "This sign-in link was used or has expired. Ask an admin for a new one."),
        ),
        Err(error) => visit.error_page(error),
    }
}

/// `POST /sign-in/{token}`
pub(crate) async fn redeem(
    State(app): State<App>,
    visit: Visit,
    Path(token): Path<String>,
    address: ClientAddress,
    headers: HeaderMap,
) -> Response {
    match sign_in_links::redeem(&app, &token, &SecondFactor::default(), &Visitor::of(&app, &headers, address)).await {
        Ok(cookies) => (with_cookies(cookies), see_other("/")).into_response(),
        Err(Error::Problem(problem)) if problem.code == Code::MfaRequired => ask_second(&visit, &problem, "/"),
        Err(Error::Problem(problem)) if problem.code == Code::LinkUsed => refused(&visit, &problem),
        Err(error) => visit.error_page(error),
    }
}

/// Page of the second step, which contains the sealed proof of the first one.
pub(crate) fn ask_second(visit: &Visit, problem: &Problem, back: &str) -> Response {
    let form = page::SecondStep {
        state: problem.state.clone().unwrap_or_default(),
        methods: problem.methods.clone(),
        back: local_path(back).to_owned(),
        problem: Some(problem.clone()),
    };
    let status = if problem.errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    visit.page(status, move || page::second_step(&form))
}

/// `POST /sign-in/second-step`
pub(crate) async fn second_step(
    State(app): State<App>,
    visit: Visit,
    address: ClientAddress,
    headers: HeaderMap,
    fields: Fields,
) -> Response {
    let given = |name: &str| fields.given(name).map(str::to_owned);
    let code = given("code");
    let recovery_code = given("recovery_code").filter(|_| code.is_none());
    // A form with neither code is a wrong code, not a first request.
    let code = if code.is_none() && recovery_code.is_none() { Some(String::new()) } else { code };
    let (state, back) = (fields.text("state"), fields.text("back"));
    let second = SecondFactor { code, recovery_code };
    match second_stage::resume(&app, state, &second, &Visitor::of(&app, &headers, address)).await {
        Ok(cookies) => (with_cookies(cookies), see_other(local_path(back))).into_response(),
        Err(Error::Problem(problem)) if problem.code == Code::MfaRequired => ask_second(&visit, &problem, back),
        Err(Error::Problem(problem)) if problem.code == Code::LinkUsed => refused(&visit, &problem),
        Err(error) => visit.error_page(error),
    }
}

/// `GET /sign-in/second-step`: the page was reloaded without its form.
pub(crate) async fn start_over() -> Response {
    see_other("/sign-in")
}

/// `POST /sign-out`
pub(crate) async fn end(
    State(app): State<App>,
    visit: Visit,
    ClientAddress(address): ClientAddress,
    headers: HeaderMap,
) -> Response {
    match sessions::end(&app, &headers, address).await {
        Ok(cookie) => (signed_out(cookie), see_other("/sign-in?ended=1")).into_response(),
        Err(error) => visit.error_page(error),
    }
}

fn refused(visit: &Visit, problem: &Problem) -> Response {
    visit.page(status(problem), page::refused)
}
