//! HTTP handlers for accounts, for admins: create, list, change, sign-in links, sessions.

use axum::{
    Json as Answer,
    extract::State,
    http::StatusCode,
    response::{IntoResponse as _, Response},
};
use domain::{
    Document,
    api::Page,
    identity::{
        account::{LinkMade, NewUser, Session, SessionsEnded, User, UserMade, UserPatch},
        audit::ReasonBody,
    },
};
use uuid::Uuid;

use super::session::after_end;
use crate::http::{
    callers::Admin,
    enqueue::idempotency::{self, Key, ResponseStorage, Text, once},
    extract::{Json, JsonOrDefault, Path, Query},
    query::{
        cursor::{Of, Paged as _},
        plain_list::{NamedList, PlainList, plain_list},
    },
};
use crate::{
    App,
    auth::{people, sessions, step_up},
    http::error::Result,
};
use engine::access::caller::Caller;

plain_list!(Users, NamedList, "users");
plain_list!(Sessions, PlainList, "sessions");

/// Create a person
///
/// With an initial password or a one-time sign-in link. Admins only. A name or address in use is 409 `duplicate`.
#[utoipa::path(post, path = "/users", tag = "people", request_body = NewUser,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = UserMade)))]
pub async fn create_user(
    State(app): State<App>,
    Admin(caller): Admin,
    key: Key,
    Text { value: body, text }: Text<NewUser>,
) -> Result<Response> {
    // Before the answer of an earlier call, which may have a link.
    step_up::require(&app, &caller).await?;
    let (name, fingerprint, inner) =
        (key.name(&caller), idempotency::fingerprint_without(&text, "password"), app.clone());
    let make = |response_slot| async move { people::create(&inner, &caller, body, response_slot).await };
    once(&app, name, ResponseStorage::Sealed, "POST /users", fingerprint, make).await.map(idempotency::answer)
}

/// List people
///
/// Admins only. Newest first.
#[utoipa::path(get, path = "/users", tag = "people", params(NamedList),
    responses((status = 200, body = Page<User>)))]
pub async fn list_users(
    State(app): State<App>,
    Admin(caller): Admin,
    Query(query): Query<NamedList>,
) -> Result<Answer<Page<User>>> {
    let list = Users(&query);
    let found = people::list(&app, &caller, &query.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |user| (user.created_at, user.name.clone()))?))
}

/// Get a person
///
/// Admins only, except for the caller's own account.
#[utoipa::path(get, path = "/users/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 200, body = User)))]
pub async fn get_user(State(app): State<App>, Admin(caller): Admin, Path(id): Path<Uuid>) -> Result<Answer<User>> {
    Ok(Answer(people::find(&app, &caller, id).await?))
}

/// Change a person's role or address, or disable them
///
/// Permissions end at once on this server and within a second on others: disabling ends every session and link. The
/// last admin must stay an admin: 409 `last_admin`.
#[utoipa::path(patch, path = "/users/{id}", tag = "people", params(("id" = Uuid, Path)), request_body = UserPatch,
    responses((status = 200, body = User)))]
pub async fn patch_user(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
    Json(patch): Json<UserPatch>,
) -> Result<Answer<User>> {
    Ok(Answer(people::change(&app, &caller, id, patch).await?))
}

/// Create a one-time sign-in link
///
/// For a person who forgot the password, for example. Admins only. The link works once, within an hour.
#[utoipa::path(post, path = "/users/{id}/sign-in-link", tag = "people",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = Option<ReasonBody>, responses((status = 201, body = LinkMade)))]
pub async fn create_sign_in_link(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
    key: Key,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Response> {
    step_up::require(&app, &caller).await?;
    let fingerprint = idempotency::fingerprint(Document::of(&body).text());
    let (name, inner) = (key.name(&caller), app.clone());
    let call = format!("POST /users/{id}/sign-in-link");
    let make = move |response_slot| async move {
        people::make_link(&inner, &caller, id, body.reason.as_deref(), response_slot).await
    };
    once(&app, name, ResponseStorage::Sealed, &call, fingerprint, make).await.map(idempotency::answer)
}

/// List the sessions of a person
///
/// Newest first. Admins only, except for the caller's own account.
#[utoipa::path(get, path = "/users/{id}/sessions", tag = "people", params(("id" = Uuid, Path), PlainList),
    responses((status = 200, body = Page<Session>)))]
pub async fn list_user_sessions(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Session>>> {
    page_of_sessions(&app, &caller, id, &query).await
}

/// End all sessions of a person
///
/// For the caller's own account, all but the current one. Admins only. Their open requests end within a second.
#[utoipa::path(delete, path = "/users/{id}/sessions", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 200, body = SessionsEnded)))]
pub async fn end_user_sessions(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
) -> Result<Answer<SessionsEnded>> {
    Ok(Answer(SessionsEnded { ended: sessions::end_some(&app, &caller, id, None).await? }))
}

/// End one session of a person
///
/// Admins only. Open requests of the session end within a second.
#[utoipa::path(delete, path = "/users/{id}/sessions/{session_id}", tag = "people",
    params(("id" = Uuid, Path), ("session_id" = Uuid, Path)),
    responses((status = 204, description = "Ended, or it had already ended")))]
pub async fn end_user_session(
    State(app): State<App>,
    Admin(caller): Admin,
    Path((id, session)): Path<(Uuid, Uuid)>,
) -> Result<Response> {
    sessions::end_some(&app, &caller, id, Some(session)).await?;
    Ok((after_end(&app, &caller, session), StatusCode::NO_CONTENT).into_response())
}

/// Page of a person's sessions.
pub(crate) async fn page_of_sessions(
    app: &App,
    caller: &Caller,
    id: Uuid,
    query: &PlainList,
) -> Result<Answer<Page<Session>>> {
    let query = Sessions(query);
    let list = Of(id, &query);
    let found = sessions::list(app, caller, id, query.0.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |session| session.id)?))
}
