//! HTTP handlers for share links, which show one tree to anyone who has the link.

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{
    Document,
    api::Page,
    identity::audit::ReasonBody,
    tree::share_link::{Share, ShareBody, ShareMade},
};
use uuid::Uuid;

use crate::http::{
    callers::{BulkWriter, Reader, Writer},
    enqueue::idempotency::{self, Key, ResponseStorage, once},
    extract::{JsonOrDefault, Path, Query, Reason, ReasonParameter},
    query::{
        cursor::{Of, Paged as _},
        plain_list::{PlainList, plain_list},
    },
};
use crate::{App, auth::look_for_changes, http::error::Result};

plain_list!(Shares, PlainList, "shares");
plain_list!(AllShares, PlainList, "all shares");

/// Create a share link of a tree
///
/// The link is only in this response. It shows live progress, counts, problems and downloads of this tree. It ends at
/// `expires_at`, with its tree, if revoked, or if owner or creator is disabled. 409 `not_root` names the root to share.
#[utoipa::path(post, path = "/jobs/{id}/share", tag = "jobs",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = Option<ShareBody>, responses((status = 201, body = ShareMade)))]
pub async fn share_job(
    State(app): State<App>,
    BulkWriter(caller): BulkWriter,
    Path(id): Path<Uuid>,
    key: Key,
    JsonOrDefault(body): JsonOrDefault<ShareBody>,
) -> Result<Response> {
    // A caller who may no longer share the tree gets no stored response.
    app.engine.may_share(&caller, id).await?;
    let fingerprint = idempotency::fingerprint(Document::of(&body).text());
    let (name, inner) = (key.name(&caller), app.clone());
    let call = format!("POST /jobs/{id}/share");
    let make = move |response_slot| async move {
        inner.engine.share(&caller, id, &body, inner.public_url.as_str(), response_slot).await
    };
    once(&app, name, ResponseStorage::Sealed, &call, fingerprint, make).await.map(idempotency::answer)
}

/// List the share links of a tree
///
/// Newest first, including revoked ones. Links are shown without their secret part.
#[utoipa::path(get, path = "/jobs/{id}/shares", tag = "jobs", params(("id" = Uuid, Path), PlainList),
    responses((status = 200, body = Page<Share>)))]
pub async fn list_shares(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Share>>> {
    let query = Shares(&query);
    let list = Of(id, &query);
    let found = app.engine.shares(&caller, id, query.0.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |share| share.id)?))
}

/// List all share links
///
/// Links to all trees that the caller may see, newest first: own trees, or all trees for staff.
#[utoipa::path(get, path = "/shares", tag = "jobs", params(PlainList),
    responses((status = 200, body = Page<Share>)))]
pub async fn list_all_shares(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Share>>> {
    let list = AllShares(&query);
    let found = app.engine.all_shares(&caller, query.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |share| share.id)?))
}

/// Revoke a share link
///
/// The link no longer works, and pages that were opened with it stop updating. Repeating the call has no effect.
#[utoipa::path(delete, path = "/shares/{id}", tag = "jobs", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Revoked, or it was already revoked")))]
pub async fn delete_share(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<StatusCode> {
    app.engine.revoke_share(&caller, id, reason.as_deref()).await?;
    look_for_changes(&app).await?;
    Ok(StatusCode::NO_CONTENT)
}
