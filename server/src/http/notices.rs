//! HTTP handlers for notices, their settings, and watches (`notices`).

use axum::{Json as Answer, extract::State, http::StatusCode};
use domain::{
    Problem,
    api::Page,
    notice::{JobWatch, MOST_READ_IDS, Notice, NoticeSettings, NoticeSettingsPatch, ReadNotices},
};
use uuid::Uuid;

use super::extract::{Json, JsonOrDefault, Path, Query};
use crate::http::callers::Person;
use crate::http::query::{
    cursor::Paged,
    plain_list::{PlainList, plain_list},
};
use crate::{App, http::error::Result, notices};

plain_list!(Notices, PlainList, "notices");

/// List the caller's notices
///
/// People only. Newest first: notices of the last 30 days about watched trees that completed or need attention. Trees
/// that the caller may no longer see are omitted.
#[utoipa::path(get, path = "/me/notices", tag = "watch", params(PlainList),
    responses((status = 200, body = Page<Notice>)))]
pub async fn list_notices(
    State(app): State<App>,
    Person(caller): Person,
    Query(query): Query<PlainList>,
) -> Result<Answer<Page<Notice>>> {
    let list = Notices(&query);
    let part = query.sort.part(list.place::<Uuid>()?, list.rows_to_read()?);
    let found = app.engine.notices(&caller, part).await?;
    Ok(Answer(list.page_of(found, |notice| notice.id)?))
}

/// Mark notices as read
///
/// People only. Marks the notices with the given ids, else all. Repeating the call has no effect.
#[utoipa::path(post, path = "/me/notices/read", tag = "watch", request_body = Option<ReadNotices>,
    responses((status = 204, description = "Marked as read")))]
pub async fn read_notices(
    State(app): State<App>,
    Person(caller): Person,
    JsonOrDefault(body): JsonOrDefault<ReadNotices>,
) -> Result<StatusCode> {
    if body.ids.as_ref().is_some_and(|ids| ids.len() > MOST_READ_IDS) {
        let detail = format!("expected at most {MOST_READ_IDS} ids");
        return Err(engine::error::Error::from(Problem::invalid_body([("/ids".to_owned(), detail)])).into());
    }
    app.engine.read_notices(&caller, body.ids.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Get the caller's notice settings
///
/// People only.
#[utoipa::path(get, path = "/me/notice-settings", tag = "watch", responses((status = 200, body = NoticeSettings)))]
pub async fn get_notice_settings(State(app): State<App>, Person(caller): Person) -> Result<Answer<NoticeSettings>> {
    Ok(Answer(notices::settings(&app, &caller).await?))
}

/// Update the caller's notice settings
///
/// People only. Changes the given fields; `null` removes `webhook_url` and `webhook_secret`. URLs must be public or
/// allowed by `TREELINE_CALLBACK_ALLOW`; others are 422 `url_not_allowed`. The change also applies to pending notices.
#[utoipa::path(patch, path = "/me/notice-settings", tag = "watch", request_body = NoticeSettingsPatch,
    responses((status = 200, body = NoticeSettings)))]
pub async fn patch_notice_settings(
    State(app): State<App>,
    Person(caller): Person,
    Json(patch): Json<NoticeSettingsPatch>,
) -> Result<Answer<NoticeSettings>> {
    Ok(Answer(notices::change(&app, &caller, patch).await?))
}

/// Get whether the caller watches a tree
///
/// People only.
#[utoipa::path(get, path = "/jobs/{id}/watch", tag = "watch", params(("id" = Uuid, Path)),
    responses((status = 200, body = JobWatch)))]
pub async fn get_job_watch(
    State(app): State<App>,
    Person(caller): Person,
    Path(id): Path<Uuid>,
) -> Result<Answer<JobWatch>> {
    Ok(Answer(app.engine.job_watch(&caller, id).await?))
}

/// Watch a tree
///
/// People only. The caller gets a notice each time the tree completes, and one when it needs attention first. A person who
/// starts an import watches it. Repeating the call has no effect.
#[utoipa::path(post, path = "/jobs/{id}/watch", tag = "watch", params(("id" = Uuid, Path)),
    responses((status = 200, body = JobWatch)))]
pub async fn start_job_watch(
    State(app): State<App>,
    Person(caller): Person,
    Path(id): Path<Uuid>,
) -> Result<Answer<JobWatch>> {
    Ok(Answer(app.engine.watch_job(&caller, id, true).await?))
}

/// Stop watching a tree
///
/// People only. Repeating the call has no effect.
#[utoipa::path(delete, path = "/jobs/{id}/watch", tag = "watch", params(("id" = Uuid, Path)),
    responses((status = 200, body = JobWatch)))]
pub async fn stop_job_watch(
    State(app): State<App>,
    Person(caller): Person,
    Path(id): Path<Uuid>,
) -> Result<Answer<JobWatch>> {
    Ok(Answer(app.engine.watch_job(&caller, id, false).await?))
}
