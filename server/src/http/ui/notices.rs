//! Forms of notices: settings, reading all, and watching a job.

use axum::{extract::State, response::Response};
use domain::{job_type::SigningSecret, notice::NoticeSettingsPatch};
use uuid::Uuid;

use super::{Signed, form::Fields, see_other};
use crate::http::ui::identity::account;
use crate::{
    App,
    http::extract::{Path, TriedPath},
    notices,
};
use engine::error::Error;

/// `POST /account/notices`
pub(super) async fn change(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    let typed_url = fields.trimmed("webhook_url");
    let secret = Some(fields.text("webhook_secret")).filter(|text| !text.is_empty());
    let patch = NoticeSettingsPatch {
        in_page: Some(fields.ticked("in_page")),
        browser: Some(fields.ticked("browser")),
        email: Some(fields.ticked("email")),
        webhook_url: if typed_url.is_empty() {
            fields.ticked("remove_webhook").then_some(None)
        } else {
            Some(Some(typed_url.clone()))
        },
        webhook_secret: secret.map(|text| Some(SigningSecret::One(text.to_owned()))),
    };
    match notices::change(&app, &signed.caller, patch).await {
        Ok(_) => see_other("/account?done=notices#notices"),
        Err(error) => account::refused_url(&app, &signed, error, &typed_url).await,
    }
}

/// `POST /notices/read`
pub(super) async fn read(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    match app.engine.read_notices(&signed.caller, None).await {
        Ok(()) => see_other(super::theme::local_path(fields.text("back"))),
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /jobs/{id}/watch`
pub(super) async fn watch(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    set(&app, &signed, id, true).await
}

/// `POST /jobs/{id}/unwatch`
pub(super) async fn unwatch(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    set(&app, &signed, id, false).await
}

async fn set(app: &App, signed: &Signed, id: TriedPath<Uuid>, watching: bool) -> Response {
    let done = async {
        let Path(id) = id?;
        app.engine.watch_job(&signed.caller, id, watching).await?;
        Ok::<_, Error>(id)
    };
    match done.await {
        Ok(id) => see_other(&format!("/jobs/{id}?did={}", if watching { "watched" } else { "unwatched" })),
        Err(error) => signed.visit.error_page(error),
    }
}
