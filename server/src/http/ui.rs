//! HTML pages: requests in, documents out.
//!
//! A page reads and writes through the same use cases as `/api/v1`, with the same types, and passes them to a function
//! of `app`. `routes` is the table of all pages, `render` renders them; here are the caller and the frame of a page.

use app::{
    frame::{Assets, Frame, Page, Person, Theme},
    pages,
    speech::Speech,
};
use axum::{
    Extension,
    extract::{FromRequestParts, OriginalUri},
    http::{HeaderMap, HeaderValue, Method, StatusCode, header, request::Parts},
    response::{IntoResponse, Redirect, Response},
};
use domain::{Code, Problem, Time, notice::NoticeList};
use time::OffsetDateTime;
use tokio::time::Duration;

use super::{assets, layers::RequestId};
use crate::{App, http::callers::MaybeCaller};
use engine::{
    access::caller::{Caller, Role},
    error::{Error, Result},
    secrets::new_secret,
};

mod alert_channels; // receivers of alerts
mod audit; // audit log
mod dead_item_count; // number of dead items in the sidebar
mod deliveries; // callbacks of complete trees
mod error_groups; // states of error groups
mod form; // form fields
pub mod identity; // people, services, sign-in
pub mod import; // imports and corrections
mod job_views; // views of a job: results, activity, history
mod jobs; // job pages
mod list_request; // list queries in the URL
mod menu; // menu and keyboard shortcuts as pages
mod notices; // notices of the person, and watches
pub mod operator; // items, edits, bulk operations
pub mod reference; // documentation, and reference of the API
mod render; // rendering with leptos_axum
mod routes; // table of pages and forms
mod schedules; // schedules and their runs
mod search; // search page
mod start_job; // jobs started by form
mod theme; // theme and sidebar
mod types; // job types and their forms
mod views; // saved views

pub use dead_item_count::DeadItemCount;
pub use routes::{addresses, router};

/// Time after which a page goes without the newest notices and the person's language.
const NOTICES_TIMEOUT: Duration = Duration::from_millis(250);

/// Request for a page: the caller, if signed in, and their display preferences.
pub struct Visit {
    caller: Option<Caller>,
    /// Time before anything is read for the page.
    requested_at: Time,
    address: String,
    request_id: Option<String>,
    theme: Theme,
    collapsed: bool,
    offset_minutes: Option<i32>,
    refresh_seconds: Option<u16>,
    environment: Option<String>,
    /// Number of dead items of all owners, for staff.
    dead: Option<i64>,
    /// Newest notices of the person.
    notices: Option<NoticeList>,
    speech: Speech,
    /// Tag and own name of each language.
    languages: Vec<(&'static str, &'static str)>,
    /// Language that the person chose.
    language: Option<String>,
}

impl FromRequestParts<App> for Visit {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let requested_at = Time(OffsetDateTime::now_utc());
        let caller = MaybeCaller::from_request_parts(parts, app).await;
        let address = parts.extensions.get::<OriginalUri>().map_or(&parts.uri, |uri| &uri.0);
        let refresh =
            pairs(address.query()).find(|(name, _)| name == "refresh").and_then(|(_, value)| value.parse().ok());
        let visit = Self {
            caller: None,
            requested_at,
            address: address.path_and_query().map_or("/", |address| address.as_str()).to_owned(),
            request_id: parts.extensions.get::<RequestId>().map(|id| id.0.clone()),
            theme: cookie(&parts.headers, theme::COOKIE).and_then(Theme::parse).unwrap_or_default(),
            collapsed: cookie(&parts.headers, theme::SIDEBAR.0) == Some(theme::SIDEBAR.1),
            offset_minutes: cookie(&parts.headers, "treeline_offset")
                .and_then(|minutes| minutes.parse().ok())
                .filter(|minutes: &i32| minutes.abs() <= 14 * 60),
            refresh_seconds: refresh.filter(|seconds| (5..=600).contains(seconds)),
            environment: app.config.environment.clone(),
            dead: None,
            notices: None,
            speech: identity::language::speech(app, &parts.headers, None),
            languages: app.languages.choices(),
            language: None,
        };
        match caller {
            Ok(MaybeCaller(caller)) => {
                let staff = caller.as_ref().is_some_and(|caller| person(caller).staff);
                let dead = if staff && parts.method == Method::GET {
                    app.dead_item_count.dead(&app.engine).await
                } else {
                    None
                };
                let (notices, language) = match &caller {
                    Some(caller) => {
                        tokio::join!(newest_notices(app, caller), identity::language::of_person(app, caller))
                    }
                    None => (None, None),
                };
                let speech = identity::language::speech(app, &parts.headers, language.as_deref());
                Ok(Self { caller, dead, notices, speech, language, ..visit })
            }
            Err(error) => Err(visit.error_page(error)),
        }
    }
}

/// Newest notices of a person. `None` if the database does not respond in time: the page shows the error, not the bell.
async fn newest_notices(app: &App, caller: &Caller) -> Option<NoticeList> {
    caller.role?;
    tokio::time::timeout(NOTICES_TIMEOUT, app.engine.notice_list(caller)).await.ok()?.ok()
}

/// Path of the caller's own account.
const ACCOUNT: &str = "/account";

/// Request of a signed-in caller. Others are redirected to the sign-in page.
pub struct Signed {
    visit: Visit,
    caller: Caller,
}

impl FromRequestParts<App> for Signed {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Response> {
        let visit = Visit::from_request_parts(parts, app).await?;
        match visit.caller.clone() {
            Some(caller) => Ok(Self { visit, caller }),
            // After signing in, the reader returns to the requested page.
            None if parts.method == Method::GET && visit.address != "/" => {
                Err(see_other(&address("/sign-in", &[("back", &visit.address)])))
            }
            None => Err(see_other("/sign-in")),
        }
    }
}

/// Refuses callers who do not see everybody's work.
fn staff(caller: &Caller) -> Result<()> {
    if caller.sees_all() {
        return Ok(());
    }
    Err(Error::refuse(Code::Forbidden, "This page is for support staff: it shows everybody's work."))
}

/// Caller as shown in the page frame.
fn person(caller: &Caller) -> Person {
    Person {
        name: caller.name.clone(),
        staff: caller.role >= Some(Role::Support) || caller.role.is_none(),
        admin: caller.is_admin(),
    }
}

impl Visit {
    /// Response with a page.
    fn page(&self, status: StatusCode, draw: impl FnOnce() -> Page + Send + 'static) -> Response {
        let nonce = new_secret("");
        let frame = Frame {
            assets: Assets {
                script: assets::url("treeline.js"),
                wasm: assets::url("treeline_bg.wasm"),
                page_script: assets::url("page.js"),
                style: assets::url("treeline.css"),
                imports_style: assets::url("imports.css"),
                documentation_style: assets::url("documentation.css"),
                font: assets::url("fonts/sans.woff2"),
            },
            theme: self.theme,
            speech: self.speech,
            languages: self.languages.clone(),
            collapsed: self.collapsed,
            now: Time(OffsetDateTime::now_utc()),
            requested_at: self.requested_at,
            offset_minutes: self.offset_minutes,
            person: self.caller.as_ref().map(person),
            address: self.address.clone(),
            refresh_seconds: self.refresh_seconds,
            environment: self.environment.clone(),
            dead: self.dead,
            notices: self.notices.clone(),
            nonce,
        };
        let headers = render::headers(&frame.nonce);
        (status, headers, Extension(render::Filled::new(frame, draw))).into_response()
    }

    /// Error page, with the status of the problem.
    fn error_page(&self, error: impl Into<Error>) -> Response {
        let problem = Problem { request_id: self.request_id.clone(), ..error.into().into_problem() };
        if problem.code == Code::Unauthenticated {
            return Redirect::to("/sign-in").into_response();
        }
        // An admin knows their password: they must choose their own before they see anything.
        if problem.code == Code::PasswordChangeRequired {
            return see_other(ACCOUNT);
        }
        if problem.code == Code::MfaEnrollmentRequired {
            return Redirect::to("/account#factors").into_response();
        }
        let (code, wait, methods) = (problem.code, problem.retry_after_seconds, problem.methods.clone());
        let mut response = self.page(status(&problem), move || pages::error_page::page(&problem));
        if code == Code::StepUpRequired {
            response.extensions_mut().insert(identity::step_up::StepUpNeeded(methods));
        }
        if let Some(seconds) = wait {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

impl Signed {
    /// Response with a page, or with the error page.
    fn answer(&self, rendered: engine::error::Result<impl FnOnce() -> Page + Send + 'static>) -> Response {
        match rendered {
            Ok(draw) => self.visit.page(StatusCode::OK, draw),
            Err(error) => self.visit.error_page(error),
        }
    }

    /// Refuses callers below the role with 403 and an error page.
    fn require(&self, least: Role) -> Result<(), Box<Response>> {
        let allowed = self.caller.is_admin() || self.caller.role >= Some(least);
        let who = if least == Role::Admin { "admins" } else { "support and admins" };
        if allowed {
            return Ok(());
        }
        Err(Box::new(
            self.visit.error_page(Error::refuse(Code::Forbidden, format!("This page is for {who}. Ask one of them."))),
        ))
    }
}

/// Adds a cookie to a response.
fn with_cookie(mut response: Response, cookie: HeaderValue) -> Response {
    response.headers_mut().append(header::SET_COOKIE, cookie);
    response
}

fn status(problem: &Problem) -> StatusCode {
    StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// Redirect (303) after an action.
fn see_other(to: &str) -> Response {
    Redirect::to(to).into_response()
}

/// Parameters of a query, in order. Empty ones are omitted, because forms send every field.
fn pairs(query: Option<&str>) -> impl Iterator<Item = (String, String)> {
    form_urlencoded::parse(query.unwrap_or_default().as_bytes())
        .into_owned()
        .filter(|(_, value)| !value.is_empty() && !value.contains('\0'))
}

/// URL with a query.
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
