//! Page that confirms the caller's identity again, and then continues the refused action.
//!
//! A form that is refused with `step_up_required` is stored, sealed, in the page. After the proof the browser sends it
//! to the same URL again (307), so this works without JavaScript and without server-side storage. Typed values,
//! including passwords, are never readable in the page.

use app::pages::identity::step_up as page;
use axum::{
    body::Body,
    extract::{FromRequestParts as _, RawQuery, Request, State},
    http::{HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::{IntoResponse as _, Redirect, Response},
};
use domain::{Code, identity::factors::StepUp};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::http::ui::{
    Signed, Visit,
    form::{Fields, in_the_form},
    pairs, see_other,
    theme::local_path,
};
use crate::{
    App,
    auth::{envelope, step_up},
    http::extract,
};
use engine::error::Error;

/// Marker in the extensions of a response: the action needs a recent sign-in. Lists the possible methods.
#[derive(Clone, Debug)]
pub(crate) struct StepUpNeeded(pub(crate) Vec<String>);

/// Maximum size of a form stored in the page, in bytes: a job type with a long schema.
const MAX_PENDING_BYTES: usize = 512 * 1024;

/// Maximum size of such a form when it is sealed, in bytes: as JSON and in Base64.
const MAX_SEALED_BYTES: usize = 3 * MAX_PENDING_BYTES;

/// Time for which a stored form is valid, in minutes.
const PENDING_MINUTES: i64 = 10;

const PURPOSE: &str = "form kept during step-up";

/// Form that was sent and refused.
#[derive(Serialize, Deserialize)]
struct PendingForm {
    session_id: Uuid,
    path: String,
    body: String,
}

/// Middleware for sensitive forms: if a form is refused until the person proves their identity, the response is the
/// page for the proof.
pub(crate) async fn challenge(State(app): State<App>, request: Request, next: Next) -> Response {
    if *request.method() != Method::POST {
        return next.run(request).await;
    }
    let (mut parts, body) = request.into_parts();
    let visit = match Visit::from_request_parts(&mut parts, &app).await {
        Ok(visit) => visit,
        Err(response) => return response,
    };
    let Some(session_id) = visit.caller.as_ref().map(|caller| caller.credential_id) else {
        return next.run(Request::from_parts(parts, body)).await;
    };
    let again = parts.clone();
    let bytes = match extract::body(Request::from_parts(parts, body), app.config.body_limit.bytes()).await {
        Ok(bytes) => bytes,
        Err(error) => return visit.error_page(error),
    };
    let path = again.uri.path().to_owned();
    let pending_form =
        form_urlencoded::parse(&bytes).find(|(name, _)| name == "kept").map(|(_, value)| value.into_owned());
    let opened: Option<PendingForm> =
        pending_form.and_then(|pending_form| envelope::open_up_to(&app, PURPOSE, &pending_form, MAX_SEALED_BYTES));
    let text = match opened {
        Some(pending_form) if pending_form.session_id == session_id && pending_form.path == path => pending_form.body,
        _ => String::from_utf8_lossy(&bytes).into_owned(),
    };
    let mut request = Request::from_parts(again, Body::from(text.clone()));
    request.headers_mut().insert(header::CONTENT_LENGTH, HeaderValue::from(text.len()));
    let response = next.run(request).await;
    let Some(StepUpNeeded(methods)) = response.extensions().get::<StepUpNeeded>().cloned() else { return response };
    if text.len() > MAX_PENDING_BYTES {
        return response;
    }
    let pending_form = envelope::seal(&app, PURPOSE, PENDING_MINUTES, &PendingForm { session_id, path, body: text });
    let form = page::StepUp { methods, pending_form, providers: providers(&app), ..page::StepUp::default() };
    visit.page(StatusCode::FORBIDDEN, move || page::page(&form))
}

/// `GET /step-up`
pub(crate) async fn show(State(app): State<App>, signed: Signed, RawQuery(query): RawQuery) -> Response {
    let back = pairs(query.as_deref()).find(|(name, _)| name == "back").map(|(_, value)| value).unwrap_or_default();
    match step_up::methods(&app, &signed.caller).await {
        Ok(methods) => {
            let form = page::StepUp {
                methods,
                back: local_path(&back).to_owned(),
                providers: providers(&app),
                ..page::StepUp::default()
            };
            signed.visit.page(StatusCode::OK, move || page::page(&form))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /step-up`
pub(crate) async fn confirm(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    let caller = &signed.caller;
    let given = |name: &str| Some(fields.text(name).to_owned()).filter(|text| !text.is_empty());
    let proved = if fields.ticked("confirmed") {
        // A passkey proved it just before, through the API.
        step_up::require(&app, caller).await
    } else {
        let code = given("code");
        let recovery_code = given("recovery_code").filter(|_| code.is_none());
        let given = StepUp { password: given("password"), code, recovery_code, passkey: None };
        step_up::perform(&app, caller, given).await
    };
    let (pending_form, back) = (fields.text("kept").to_owned(), local_path(fields.text("back")).to_owned());
    let problem = match proved.map_err(in_the_form) {
        Ok(()) => return resume(&app, &pending_form, &back),
        Err(Ok(problem)) => Some(problem),
        Err(Err(Error::Problem(problem))) if problem.code == Code::StepUpRequired => None,
        Err(Err(error)) => return signed.visit.error_page(error),
    };
    match step_up::methods(&app, caller).await {
        Ok(methods) => {
            let form = page::StepUp { methods, pending_form, back, providers: providers(&app), problem };
            signed.visit.page(StatusCode::UNPROCESSABLE_ENTITY, move || page::page(&form))
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// Redirects to the stored action, or back to the page.
fn resume(app: &App, pending_form: &str, back: &str) -> Response {
    match envelope::open_up_to::<PendingForm>(app, PURPOSE, pending_form, MAX_SEALED_BYTES) {
        // The browser sends this form there (307), and the middleware opens the stored one.
        Some(pending_form) => Redirect::temporary(&pending_form.path).into_response(),
        None => see_other(local_path(back)),
    }
}

/// Identity providers, for people who have neither a password nor a second factor here.
fn providers(app: &App) -> Vec<(String, String)> {
    let all = &app.config.identity.oidc_providers.0;
    all.iter().map(|provider| (provider.name.clone(), provider.label.clone())).collect()
}
