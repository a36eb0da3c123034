//! HTTP handlers for alert channels (`alert-channels`).

use axum::{Json as Answer, extract::State, http::StatusCode, response::Response};
use domain::{
    api::Page,
    notify::{
        alert_channel::{AlertChannel, AlertChannelPatch, NewAlertChannel},
        delivery::CallbackDelivery,
    },
};
use uuid::Uuid;

use crate::http::{
    callers::{Admin, Staff},
    enqueue::idempotency::{self, Key, ResponseStorage, Text, once},
    extract::{Json, Path, Query},
    query::{
        cursor::Paged as _,
        plain_list::{PlainList, plain_list},
    },
};
use crate::{App, alert_channels, http::error::Result};

plain_list!(AlertChannels, PlainList, "alert channels");

/// Create an alert channel
///
/// Admins only. Each alert that matches the rule is sent once when it is raised, and once when it is cleared. URLs must
/// be public or allowed by `TREELINE_CALLBACK_ALLOW`; others are 422 `url_not_allowed`. Secrets are sealed and never
/// returned.
#[utoipa::path(post, path = "/alert-channels", tag = "watch", request_body = NewAlertChannel,
    params(("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    responses((status = 201, body = AlertChannel)))]
pub async fn create_alert_channel(
    State(app): State<App>,
    Admin(caller): Admin,
    key: Key,
    Text { value: body, text }: Text<NewAlertChannel>,
) -> Result<Response> {
    let (name, fingerprint, inner) = (key.name(&caller), idempotency::fingerprint(&text), app.clone());
    let make = |response_slot| async move { alert_channels::create(&inner, &caller, body, response_slot).await };
    once(&app, name, ResponseStorage::Plain, "POST /alert-channels", fingerprint, make).await.map(idempotency::answer)
}

/// List alert channels
///
/// Staff only. Newest first.
#[utoipa::path(get, path = "/alert-channels", tag = "watch", params(PlainList),
    responses((status = 200, body = Page<AlertChannel>)))]
pub async fn list_alert_channels(
    State(app): State<App>,
    Staff(caller): Staff,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<AlertChannel>>> {
    let list = AlertChannels(&query);
    let found = alert_channels::list(&app, &caller, query.sort.part(list.place()?, list.rows_to_read()?)).await?;
    Ok(Answer(list.page_of(found, |channel| channel.id)?))
}

/// Get an alert channel
///
/// Staff only. Without its secrets.
#[utoipa::path(get, path = "/alert-channels/{id}", tag = "watch", params(("id" = Uuid, Path)),
    responses((status = 200, body = AlertChannel)))]
pub async fn get_alert_channel(
    State(app): State<App>,
    Staff(caller): Staff,
    Path(id): Path<Uuid>,
) -> Result<Answer<AlertChannel>> {
    Ok(Answer(alert_channels::find(&app, &caller, id).await?))
}

/// Update an alert channel
///
/// Admins only. Changes the given fields; `null` removes `secret` and `quiet_hours`. Pending messages go to the new
/// receiver.
#[utoipa::path(patch, path = "/alert-channels/{id}", tag = "watch", request_body = AlertChannelPatch,
    params(("id" = Uuid, Path)), responses((status = 200, body = AlertChannel)))]
pub async fn patch_alert_channel(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
    Json(patch): Json<AlertChannelPatch>,
) -> Result<Answer<AlertChannel>> {
    Ok(Answer(alert_channels::change(&app, &caller, id, patch).await?))
}

/// Delete an alert channel
///
/// Admins only. Its deliveries are kept for 30 days; pending messages are no longer sent.
#[utoipa::path(delete, path = "/alert-channels/{id}", tag = "watch", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Deleted")))]
pub async fn delete_alert_channel(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
) -> Result<StatusCode> {
    alert_channels::delete(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Send a test message
///
/// Admins only. Sends one message to each receiver, regardless of the rule, the quiet hours and `paused`. Its
/// deliveries show the result.
#[utoipa::path(post, path = "/alert-channels/{id}/test", tag = "watch", params(("id" = Uuid, Path)),
    responses((status = 202, body = Page<CallbackDelivery>)))]
pub async fn test_alert_channel(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
) -> Result<(StatusCode, Answer<Page<CallbackDelivery>>)> {
    let deliveries = alert_channels::test(&app, &caller, id).await?;
    Ok((StatusCode::ACCEPTED, Answer(Page { data: deliveries, next_cursor: None })))
}
