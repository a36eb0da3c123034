//! HTTP handlers for waits of items: a worker begins one, a program or a person sends the event (`waiting-for-events`).

use axum::{Json as Answer, extract::State};
use domain::{
    Item,
    api::Ended,
    dispatch::assignment::AssignmentId,
    event_wait::{EventBody, WaitBody},
};
use uuid::Uuid;

use crate::http::{
    enqueue::idempotency::Key,
    extract::{Json, Path},
    operator::replay::keyed,
};
use crate::{
    App,
    http::{
        callers::{Worker, Writer},
        error::Result,
    },
};
use engine::EndingKind;

/// End an assignment to wait for an event
///
/// The item is `waiting_for_event` and holds no lease, until `POST /items/{id}/events` or the answer of a person to the
/// `form` makes it available again. Its next claims carry the event. The attempt ends as `waiting` and counts no failure.
/// When `timeout_seconds` are over, the item is available again with an event that is `timed_out`.
#[utoipa::path(post, path = "/assignments/{id}/wait", tag = "assignments", params(("id" = String, Path)),
    request_body = WaitBody, responses((status = 200, body = Ended)))]
pub async fn wait_assignment(
    State(app): State<App>,
    Worker(caller): Worker,
    Path(id): Path<AssignmentId>,
    Json(body): Json<WaitBody>,
) -> Result<Answer<Ended>> {
    Ok(Answer(app.engine.end(&caller, id, EndingKind::Wait(body)).await?))
}

/// Send the event that an item waits for
///
/// Only the first event of a wait counts: a second one, or one for an item that does not wait, is 409 `not_waiting`, and
/// one of another name 409 `other_event`. If the wait has a form, `data` must fit it. A repeat with the same
/// `Idempotency-Key` has no effect. `reason` is stored in the audit log; none is required.
#[utoipa::path(post, path = "/items/{id}/events", tag = "items",
    params(("id" = Uuid, Path), ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 characters")),
    request_body = EventBody, responses((status = 200, body = Item)))]
pub async fn send_event(
    State(app): State<App>,
    Writer(caller): Writer,
    Path(id): Path<Uuid>,
    key: Key,
    Json(body): Json<EventBody>,
) -> Result<Answer<Item>> {
    let key = keyed(key, &caller, "POST /items/{id}/events", id, &body)?;
    app.engine.send_event(&caller, id, body, key).await?;
    Ok(Answer(app.engine.changed_item(&caller, id).await?))
}
