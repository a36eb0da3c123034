//! HTTP handlers for services and their tokens, for admins.

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{
    api::Page,
    identity::access::{NewService, NewToken, Service, ServicePatch, Token, TokenMade},
};
use uuid::Uuid;

use crate::http::{
    callers::Admin,
    enqueue::idempotency::{self, Key, ResponseStorage, Text, once},
    extract::{Json, Path, Query},
    query::{
        cursor::Paged as _,
        plain_list::{NamedList, PlainList, plain_list},
    },
};
use crate::{
    App,
    auth::{step_up, tokens},
    http::error::Result,
};

plain_list!(Services, NamedList, "services");
plain_list!(Tokens, PlainList, "tokens");

/// Create a service
///
/// Admins only. A service owns the jobs that its tokens create.
#[utoipa::path(post, path = "/services", tag = "people", request_body = NewService,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = Service)))]
pub async fn create_service(
    State(app): State<App>,
    Admin(caller): Admin,
    key: Key,
    Text { value: body, text }: Text<NewService>,
) -> Result<Response> {
    let (name, fingerprint, inner) = (key.name(&caller), idempotency::fingerprint(&text), app.clone());
    let make = |response_slot| async move { tokens::create_service(&inner, &caller, body, response_slot).await };
    once(&app, name, ResponseStorage::Plain, "POST /services", fingerprint, make).await.map(idempotency::answer)
}

/// List services
///
/// Admins only. Newest first.
#[utoipa::path(get, path = "/services", tag = "people", params(NamedList),
    responses((status = 200, body = Page<Service>)))]
pub async fn list_services(
    State(app): State<App>,
    Admin(caller): Admin,
    Query(query): Query<NamedList>,
) -> Result<Answer<Page<Service>>> {
    let list = Services(&query);
    let found = tokens::list_services(&app, &caller, &query.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |service| (service.created_at, service.name.clone()))?))
}

/// Get a service
///
/// Includes the time at which it was disabled, if it is disabled. Admins only.
#[utoipa::path(get, path = "/services/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 200, body = Service)))]
pub async fn get_service(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
) -> Result<Answer<Service>> {
    Ok(Answer(tokens::find_service(&app, &caller, id).await?))
}

/// Enable or disable a service
///
/// While a service is disabled, every request with its tokens is refused within a second. Admins only.
#[utoipa::path(patch, path = "/services/{id}", tag = "people", params(("id" = Uuid, Path)),
    request_body = ServicePatch, responses((status = 200, body = Service)))]
pub async fn patch_service(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
    Json(patch): Json<ServicePatch>,
) -> Result<Answer<Service>> {
    Ok(Answer(tokens::change_service(&app, &caller, id, patch).await?))
}

/// Create a token
///
/// Admins only. The response contains the secret, which is not shown again. Clients send it as
/// `Authorization: Bearer …`. The scope `work` can be restricted to job types.
#[utoipa::path(post, path = "/tokens", tag = "people", request_body = NewToken,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = TokenMade)))]
pub async fn create_token(
    State(app): State<App>,
    Admin(caller): Admin,
    key: Key,
    Text { value: body, text }: Text<NewToken>,
) -> Result<Response> {
    // Before the answer of an earlier call, which has the secret.
    step_up::require(&app, &caller).await?;
    let (name, fingerprint, inner) = (key.name(&caller), idempotency::fingerprint(&text), app.clone());
    let make = |response_slot| async move { tokens::create_token(&inner, &caller, body, response_slot).await };
    once(&app, name, ResponseStorage::Sealed, "POST /tokens", fingerprint, make).await.map(idempotency::answer)
}

/// List tokens
///
/// Newest first. Admins only. Secrets are not shown; revoked tokens stay listed.
#[utoipa::path(get, path = "/tokens", tag = "people", params(PlainList),
    responses((status = 200, body = Page<Token>)))]
pub async fn list_tokens(
    State(app): State<App>,
    Admin(caller): Admin,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Token>>> {
    let list = Tokens(&query);
    let found = tokens::list_tokens(&app, &caller, query.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |token| token.id)?))
}

/// Revoke a token
///
/// Takes effect at once on this server and within a second on others. Open requests with the token end. Idempotent.
#[utoipa::path(delete, path = "/tokens/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Revoked, or it was already revoked")))]
pub async fn delete_token(State(app): State<App>, Admin(caller): Admin, Path(id): Path<Uuid>) -> Result<StatusCode> {
    tokens::revoke_token(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}
