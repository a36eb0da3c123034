//! HTTP handlers for signing in and out, and for the caller's identity.
//!
//! They do for programs what the sign-in pages do for people. Links and sessions are implemented in `auth`; nothing
//! here reads a secret.

use axum::{
    Json as Answer,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header},
    response::{AppendHeaders, IntoResponse, Response},
};
use domain::{
    Code, Problem,
    api::Me,
    identity::{access::SignIn, factors::PasskeyOptions},
};
use uuid::Uuid;

use crate::http::extract::Json;
use crate::{
    App,
    auth::{
        ClientAddress,
        factors::passkeys,
        people,
        second_stage::{self, SecondFactor},
        sessions::{self, Cookies, Visitor},
        sign_in_links,
    },
    http::error::{Error, Result},
};
use engine::access::caller::Caller;

/// Sign in
///
/// Takes an email address and password, a one-time link, which is used up, or a passkey, and sets the session cookie. A
/// person with a second factor also sends `code` or `recovery_code`, or gets 401 `mfa_required` and sends it with the
/// `state` of that response. For programs and tests; people use the page `/sign-in`. Repeated failures get slower
/// responses, then 429.
#[utoipa::path(post, path = "/session", tag = "people", security(()), request_body = SignIn,
    responses((status = 204, description = "Signed in; the cookie is set"),
              (status = 401, description = "`unauthenticated`: the address or the password is wrong; `mfa_required`: a \
               second factor is missing or wrong",
               body = domain::Problem, content_type = "application/problem+json"),
              (status = 410, description = "`link_used`: the link is unknown, used or expired", body = domain::Problem,
               content_type = "application/problem+json"),
              (status = 429, description = "`too_many_requests`: too many failed attempts",
               body = domain::Problem, content_type = "application/problem+json")))]
pub async fn create_session(
    State(app): State<App>,
    address: ClientAddress,
    headers: HeaderMap,
    Json(body): Json<SignIn>,
) -> Result<Response> {
    let visitor = Visitor::of(&app, &headers, address);
    let second = SecondFactor { code: body.code, recovery_code: body.recovery_code };
    let cookies = match (body.link, body.email, body.password, body.state, body.passkey) {
        (Some(link), None, None, None, None) => {
            let token = link.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
            sign_in_links::redeem(&app, token, &second, &visitor).await?
        }
        (None, Some(email), Some(password), None, None) => {
            people::sign_in(&app, &email, password, &second, &visitor).await?
        }
        (None, None, None, Some(state), None) => second_stage::resume(&app, &state, &second, &visitor).await?,
        (None, None, None, None, Some(passkey)) => second_stage::begin_with_passkey(&app, &passkey, &visitor).await?,
        _ => {
            let detail = "expected one of: `email` and `password`, `link`, `state`, `passkey`".to_owned();
            return Err(Problem::invalid_body([(String::new(), detail)]).into());
        }
    };
    Ok((StatusCode::NO_CONTENT, with_cookies(cookies)).into_response())
}

/// Start signing in with a passkey
///
/// Options for `navigator.credentials.get`, valid for five minutes. `POST /session` takes the `state` and the result.
#[utoipa::path(post, path = "/session/passkey/options", tag = "people", security(()),
    responses((status = 200, body = PasskeyOptions),
              (status = 422, description = "Browsers allow no passkeys at the server's address", body = domain::Problem,
               content_type = "application/problem+json")))]
pub async fn start_passkey_sign_in(State(app): State<App>) -> Result<Answer<PasskeyOptions>> {
    Ok(Answer(passkeys::start_authentication(&app)?))
}

/// Sign out
///
/// Ends the session of the cookie and clears the cookie. A token has no session (403).
#[utoipa::path(delete, path = "/session", tag = "people",
    responses((status = 204, description = "Signed out; the cookie is cleared")))]
pub async fn delete_session(State(app): State<App>, caller: Caller, headers: HeaderMap) -> Result<Response> {
    if caller.role.is_none() {
        return Err(Error::refuse(Code::Forbidden, "A token has no session. Revoke it with DELETE /tokens/{id}."));
    }
    let cookie = sessions::end(&app, &headers, caller.address).await?;
    Ok((StatusCode::NO_CONTENT, signed_out(cookie)).into_response())
}

/// `Set-Cookie` headers.
pub fn with_cookies(cookies: Cookies) -> AppendHeaders<Vec<(HeaderName, HeaderValue)>> {
    AppendHeaders(cookies.into_iter().map(|cookie| (header::SET_COOKIE, cookie)).collect())
}

/// Headers of a response that signs out: the browser deletes the session cookie and its cache.
pub fn signed_out(cookie: HeaderValue) -> [(HeaderName, HeaderValue); 2] {
    let clear_site_data = HeaderName::from_static("clear-site-data");
    [(header::SET_COOKIE, cookie), (clear_site_data, HeaderValue::from_static("\"cache\", \"storage\""))]
}

/// Headers of a response that ended a session: if it is the session of the request, those of [`signed_out`].
pub fn after_end(app: &App, caller: &Caller, session_id: Uuid) -> Option<[(HeaderName, HeaderValue); 2]> {
    (caller.credential_id == session_id).then(|| signed_out(app.auth.cookie().clear()))
}

/// Get the caller's identity
///
/// The name, and the role of a person or the scopes of a token.
#[utoipa::path(get, path = "/me", tag = "people", responses((status = 200, body = Me)))]
pub async fn get_me(caller: Caller) -> Answer<Me> {
    Answer(Me {
        kind: caller.kind,
        name: caller.name,
        role: caller.role.map(|role| role.as_str().to_owned()),
        scopes: caller.scopes.iter().map(|scope| scope.as_str().to_owned()).collect(),
        must_change_password: caller.must_change_password,
    })
}
