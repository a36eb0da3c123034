//! HTTP handlers for saved views (`saved-views`).

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{
    api::Page,
    identity::audit::ReasonBody,
    saved_view::{NewSavedView, SavedView, SavedViewPatch, ViewList},
};
use serde::{Deserialize, Serialize};
use utoipa::IntoParams;
use uuid::Uuid;

use crate::http::{
    callers::{Reader, Writer},
    enqueue::idempotency::{self, Key, ResponseStorage, Text, once},
    extract::{Json, Path, Query, Reason, ReasonParameter},
    query::{cursor::Paged, sort::ByAge},
};
use crate::{App, http::error::Result};

/// Filters of the list of views.
#[derive(Clone, Debug, Default, Serialize, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Views {
    /// Views of this list
    list: Option<ViewList>,
    /// `-created_at` (default): newest first; `created_at`: oldest first
    #[serde(default)]
    #[param(value_type = Option<String>)]
    sort: ByAge,
    /// Maximum number of rows on the page, 1 to 1,000; default 50
    #[serde(skip_serializing)]
    limit: Option<i64>,
    /// `next_cursor` of the previous page
    #[serde(skip_serializing)]
    cursor: Option<String>,
}

impl Paged for Views {
    const LIST: &'static str = "saved views";
    fn cursor(&self) -> Option<&str> {
        self.cursor.as_deref()
    }
    fn limit(&self) -> Option<i64> {
        self.limit
    }
}

/// Save a view
///
/// A view is the filter and the order of a list under a name. The pages offer the caller's own views and those that staff
/// share; they open a list with the view that is the caller's default. 409 `duplicate` if the caller has a view of this
/// name.
#[utoipa::path(post, path = "/views", tag = "views", request_body = NewSavedView,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = SavedView)))]
pub async fn create_view(
    State(app): State<App>,
    Writer(caller): Writer,
    key: Key,
    Text { value: new, text }: Text<NewSavedView>,
) -> Result<Response> {
    let (name, inner) = (key.name(&caller), app.clone());
    let make = move |response_slot| async move { inner.engine.create_view(&caller, new, response_slot).await };
    let fingerprint = idempotency::fingerprint(&text);
    once(&app, name, ResponseStorage::Plain, "POST /views", fingerprint, make).await.map(idempotency::answer)
}

/// List saved views
///
/// Newest first: the caller's own views, and those that are shared.
#[utoipa::path(get, path = "/views", tag = "views", params(Views),
    responses((status = 200, body = Page<SavedView>)))]
pub async fn list_views(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(query): Query<Views>,
) -> Result<Answer<Page<SavedView>>> {
    let part = query.sort.part(query.place::<Uuid>()?, query.rows_to_read()?);
    let found = app.engine.views(&caller, query.list, part).await?;
    Ok(Answer(query.page_of(found, |view| view.id)?))
}

/// Get a saved view
///
/// A view of the caller, or a shared one.
#[utoipa::path(get, path = "/views/{id}", tag = "views", params(("id" = Uuid, Path)),
    responses((status = 200, body = SavedView)))]
pub async fn get_view(
    State(app): State<App>,
    Reader(caller): Reader,
    Path(id): Path<Uuid>,
) -> Result<Answer<SavedView>> {
    Ok(Answer(app.engine.view(&caller, id).await?))
}

/// Update a saved view
///
/// Changes the given fields; `null` clears `sort`. `is_default` belongs to the caller, also on a view that somebody else
/// shares. The other fields are for the owner of the view, and with a `reason` for admins; only staff share a view.
#[utoipa::path(patch, path = "/views/{id}", tag = "views", request_body = SavedViewPatch,
    params(("id" = Uuid, Path)), responses((status = 200, body = SavedView)))]
pub async fn patch_view(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Json(patch): Json<SavedViewPatch>,
) -> Result<Answer<SavedView>> {
    Ok(Answer(app.engine.patch_view(&caller, id, patch).await?))
}

/// Delete a saved view
///
/// An admin deletes a shared view of somebody else with a `reason`, as a parameter or in the body.
#[utoipa::path(delete, path = "/views/{id}", tag = "views", params(("id" = Uuid, Path), ReasonParameter),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Deleted")))]
pub async fn delete_view(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    Reason(reason): Reason,
) -> Result<StatusCode> {
    app.engine.delete_view(&caller, id, reason).await?;
    Ok(StatusCode::NO_CONTENT)
}
