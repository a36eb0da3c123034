//! HTTP handlers for replays of trees and items. They are separate from the other actions because they create an
//! object: they respond with 201 and take an Idempotency-Key.

use axum::{
    Json as Answer,
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};
use domain::{
    Job,
    api::{ReasonBody, ReplayBody},
};
use serde::Serialize;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::http::{
    callers::Writer,
    enqueue::idempotency::{Key, fingerprint},
    extract::{JsonOrDefault, Path},
};
use crate::{
    App,
    http::error::{Error, Result},
};
use engine::{KeyedCall, access::caller::Caller};

/// Replay a complete tree
///
/// Creates a new tree with the same definition and the items that were added from outside, each with its latest
/// payload. `run_after` and steps are dropped; `expires_at`, serialize keys and `on_completed` are kept; dedupe keys of
/// jobs move to the new tree. The items of a large tree are added after the response.
#[utoipa::path(post, path = "/jobs/{id}/replay", tag = "jobs",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = Option<ReasonBody>,
    responses((status = 201, description = "The new tree", body = Job,
               headers(("Location" = String), ("ETag" = String)))))]
pub async fn replay_job(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    key: Key,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<Response> {
    let key = keyed(key, &caller, "POST /jobs/{id}/replay", id, &body)?;
    let created = app.engine.replay_tree(&caller, id, body.reason.as_deref(), key).await?;
    created_response(&app, created).await
}

/// Replay a final item as a new tree
///
/// Succeeded items can be replayed too. Type, contract, payload, metadata, keys and priority are copied; `payload` and
/// `expires_at` can be replaced. `replay_of` names the root of the item's tree. 409 `item_not_final`.
#[utoipa::path(post, path = "/items/{id}/replay", tag = "items",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = Option<ReplayBody>,
    responses((status = 201, description = "The new tree", body = Job,
               headers(("Location" = String), ("ETag" = String)))))]
pub async fn replay_item(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    key: Key,
    JsonOrDefault(body): JsonOrDefault<ReplayBody>,
) -> Result<Response> {
    app.engine.check_payload_size(body.payload.as_ref())?;
    let key = keyed(key, &caller, "POST /items/{id}/replay", id, &body)?;
    let created = app.engine.replay_item(&caller, id, body, key).await?;
    created_response(&app, created).await
}

/// Idempotency key with the call that it identifies: the source and the body.
pub(crate) fn keyed(
    key: Key,
    caller: &Caller,
    call: &'static str,
    id: Uuid,
    body: &impl Serialize,
) -> Result<Option<KeyedCall>> {
    let Some(name) = key.name(caller) else { return Ok(None) };
    let text = serde_json::to_string(body).map_err(|e| Error(engine::error::Error::Broken(e.to_string())))?;
    let call_fingerprint = Sha256::new().chain_update(id).chain_update(fingerprint(&text)).finalize().into();
    Ok(Some(KeyedCall { name, call, fingerprint: call_fingerprint }))
}

async fn created_response(app: &App, id: Uuid) -> Result<Response> {
    let job = app.engine.read_tree(id, id).await?;
    let headers = [(header::LOCATION, format!("/api/v1/jobs/{id}")), (header::ETAG, format!("\"{}\"", job.version))];
    Ok((StatusCode::CREATED, headers, Answer(job)).into_response())
}
