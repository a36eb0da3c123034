//! Links that show one tree to whoever has them, over HTTP.

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{
    Document,
    api::Page,
    audit::ReasonBody,
    share::{Share, ShareBody, ShareMade},
};
use serde::Serialize;
use uuid::Uuid;

use super::{
    access::{PlainList, plain_list},
    cursor::{Paged, cut},
    extract::{JsonOrDefault, Path, Query, Reason, ReasonParameter},
    idempotency::{self, Keep, Key, once},
};
use crate::{
    App,
    auth::{Caller, look_for_changes},
    error::Result,
};

plain_list!(Shares, PlainList, "shares");
plain_list!(AllShares, PlainList, "all shares");

/// Make a link that shows a tree to whoever has it: the answer holds it, once
///
/// Read-only: progress, counts, problems and downloads of this tree, live, and nothing else. It ends at
/// `expires_at`, goes with its tree, when it is revoked, and when its owner or maker is disabled. Only whole trees are shared: 409 `not_root` names the root.
#[utoipa::path(post, path = "/jobs/{id}/share", tag = "jobs",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = Option<ShareBody>, responses((status = 201, body = ShareMade)))]
pub async fn share_job(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    key: Key,
    JsonOrDefault(body): JsonOrDefault<ShareBody>,
) -> Result<Response> {
    // Whoever may not share the tree any more gets no answer of before.
    app.engine.may_share(&caller, id).await?;
    let fingerprint = idempotency::fingerprint(Document::of(&body).text());
    let (name, inner) = (key.name(&caller), app.clone());
    let call = format!("POST /jobs/{id}/share");
    let make =
        move |keeping| async move { inner.engine.share(&caller, id, &body, inner.public_url.as_str(), keeping).await };
    once(&app, name, Keep::Sealed, &call, fingerprint, make).await.map(idempotency::answer)
}

/// List the links to a tree, newest first, revoked ones too
///
/// A link is shown without its secret part, which was in the answer that made it.
#[utoipa::path(get, path = "/jobs/{id}/shares", tag = "jobs", params(("id" = Uuid, Path), PlainList),
    responses((status = 200, body = Page<Share>)))]
pub async fn list_shares(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Share>>> {
    let list = Shares(&query);
    let (limit, before) = (list.rows()?, list.place::<Uuid>()?);
    let (data, next) =
        cut(app.engine.shares(&caller, id, query.sort.part(before, limit + 1)).await?, limit, |share| share.id);
    Ok(Answer(list.page(data, next)))
}

/// List all links
///
/// Those to all trees that the caller sees, newest first: own ones; to staff, everybody's.
#[utoipa::path(get, path = "/shares", tag = "jobs", params(PlainList),
    responses((status = 200, body = Page<Share>)))]
pub async fn list_all_shares(
    State(app): State<App>,
    caller: Caller,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Share>>> {
    let list = AllShares(&query);
    let (limit, before) = (list.rows()?, list.place::<Uuid>()?);
    let (data, next) =
        cut(app.engine.all_shares(&caller, query.sort.part(before, limit + 1)).await?, limit, |share| share.id);
    Ok(Answer(list.page(data, next)))
}

/// Revoke a link
///
/// It opens nothing any more, and pages that it opened end. Again is no change.
#[utoipa::path(delete, path = "/shares/{id}", tag = "jobs", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Revoked, or was so before")))]
pub async fn delete_share(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<StatusCode> {
    app.engine.revoke_share(&caller, id, reason.as_deref()).await?;
    look_for_changes(&app).await?;
    Ok(StatusCode::NO_CONTENT)
}
