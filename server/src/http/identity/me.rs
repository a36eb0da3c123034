//! HTTP handlers for the caller's own account: sessions and password.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use domain::{
    api::Page,
    identity::account::{NewPassword, Session, SessionsEnded},
};
use uuid::Uuid;

use super::{
    people::page_of_sessions,
    session::{after_end, with_cookies},
};
use crate::http::{
    callers::Person,
    extract::{Json, Path, Query},
    query::plain_list::PlainList,
};
use crate::{
    App,
    auth::{people, sessions},
    http::error::Result,
};

/// List the caller's sessions
///
/// Newest first; the session of this request is `current`. A session is a browser or a program that signed in.
#[utoipa::path(get, path = "/me/sessions", tag = "people", params(PlainList),
    responses((status = 200, body = Page<Session>)))]
pub async fn list_sessions(
    State(app): State<App>,
    Person(caller): Person,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Session>>> {
    page_of_sessions(&app, &caller, caller.owner_id, &query).await
}

/// End all other sessions of the caller
///
/// The session of this request continues.
#[utoipa::path(delete, path = "/me/sessions", tag = "people", responses((status = 200, body = SessionsEnded)))]
pub async fn end_other_sessions(State(app): State<App>, Person(caller): Person) -> Result<Answer<SessionsEnded>> {
    Ok(Answer(SessionsEnded { ended: sessions::end_some(&app, &caller, caller.owner_id, None).await? }))
}

/// End one session of the caller
///
/// Ending the session of this request signs out and clears the cookie.
#[utoipa::path(delete, path = "/me/sessions/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Ended, or it had already ended")))]
pub async fn end_session(State(app): State<App>, Person(caller): Person, Path(id): Path<Uuid>) -> Result<Response> {
    sessions::end_some(&app, &caller, caller.owner_id, Some(id)).await?;
    Ok((after_end(&app, &caller, id), StatusCode::NO_CONTENT).into_response())
}

/// Set the caller's password
///
/// Ends the caller's other sessions. Requires the current password, unless the caller has none or signed in with a
/// one-time link within the hour.
#[utoipa::path(post, path = "/me/password", tag = "people", request_body = NewPassword,
    responses((status = 204, description = "Changed; the cookie has a new session secret")))]
pub async fn set_password(
    State(app): State<App>,
    Person(caller): Person,
    Json(body): Json<NewPassword>,
) -> Result<Response> {
    let cookies = people::set_password(&app, &caller, body).await?;
    Ok((StatusCode::NO_CONTENT, with_cookies(cookies)).into_response())
}
