//! One's own account: where one is signed in, and one's password.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use domain::{
    account::{NewPassword, Session, SessionsEnded},
    api::Page,
};
use uuid::Uuid;

use super::{
    access::PlainList,
    extract::{Json, Path, Query},
    people::page_of_sessions,
    session::with_cookies,
};
use crate::{
    App,
    auth::{Caller, people, sessions},
    error::Result,
};

/// List where one is signed in, newest first; the one that asks is `current`
///
/// A session is a browser, or a program, that signed in as this person.
#[utoipa::path(get, path = "/me/sessions", tag = "people", params(PlainList),
    responses((status = 200, body = Page<Session>)))]
pub async fn list_sessions(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Session>>> {
    page_of_sessions(&app, &caller, caller.owner_id, &query).await
}

/// End every session of one's own but the one that asks
///
/// The session that asks goes on.
#[utoipa::path(delete, path = "/me/sessions", tag = "people", responses((status = 200, body = SessionsEnded)))]
pub async fn end_other_sessions(State(app): State<App>, caller: Caller) -> Result<Answer<SessionsEnded>> {
    Ok(Answer(SessionsEnded { ended: sessions::end_some(&app, &caller, caller.owner_id, None).await? }))
}

/// End one session of one's own
///
/// Also the one that asks: that is signing out.
#[utoipa::path(delete, path = "/me/sessions/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Ended, or was so before")))]
pub async fn end_session(State(app): State<App>, caller: Caller, Path(id): Path<Uuid>) -> Result<StatusCode> {
    sessions::end_some(&app, &caller, caller.owner_id, Some(id)).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Set one's own password, and end one's other sessions
///
/// The current password is asked for, unless the person has none or signed in by a one-time link within the
/// hour.
#[utoipa::path(post, path = "/me/password", tag = "people", request_body = NewPassword,
    responses((status = 204, description = "It holds from now on; the cookie carries a new secret of the session")))]
pub async fn set_password(State(app): State<App>, caller: Caller, Json(body): Json<NewPassword>) -> Result<Response> {
    let cookies = people::set_password(&app, &caller, body).await?;
    Ok((StatusCode::NO_CONTENT, with_cookies(cookies)).into_response())
}
