//! Second factors on `/account`: setting up an authenticator app, recovery codes, names of passkeys.
//!
//! Codes are only shown in the response to the form that creates them.

use app::pages::identity::factors as page;
use axum::{extract::State, http::StatusCode, response::Response};
use domain::Code;
use uuid::Uuid;

use super::account;
use crate::http::ui::{
    Signed,
    form::{Fields, in_the_form},
    see_other,
};
use crate::{
    App,
    auth::factors::{passkeys, recovery, totp},
    http::extract::TriedPath,
};
use engine::error::{Error, Result};

/// `POST /account/totp`
pub(crate) async fn start_totp(State(app): State<App>, signed: Signed) -> Response {
    match totp::start(&app, &signed.caller).await {
        Ok(_) => see_other("/account/totp"),
        Err(error) => signed.visit.error_page(error),
    }
}

/// `GET /account/totp`
pub(crate) async fn show_totp(State(app): State<App>, signed: Signed) -> Response {
    draw_totp(&app, &signed, None).await
}

async fn draw_totp(app: &App, signed: &Signed, problem: Option<domain::Problem>) -> Response {
    let status = if problem.is_some() { StatusCode::UNPROCESSABLE_ENTITY } else { StatusCode::OK };
    match totp::pending(app, &signed.caller).await {
        Ok(Some(started)) => signed.visit.page(status, move || page::totp(&started, problem.as_ref())),
        Ok(None) => see_other("/account"),
        Err(Error::Problem(problem)) if problem.code == Code::StepUpRequired => {
            see_other("/step-up?back=/account/totp")
        }
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /account/totp/confirm`
pub(crate) async fn confirm_totp(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    match totp::confirm(&app, &signed.caller, fields.text("code")).await {
        Ok(made) if made.recovery_codes.is_empty() => see_other("/account?done=totp"),
        Ok(made) => signed.visit.page(StatusCode::OK, move || page::recovery_codes(&made.recovery_codes)),
        Err(error) => match in_the_form(error) {
            Ok(problem) => draw_totp(&app, &signed, Some(problem)).await,
            Err(error) => signed.visit.error_page(error),
        },
    }
}

/// `POST /account/totp/remove`
pub(crate) async fn remove_totp(State(app): State<App>, signed: Signed) -> Response {
    done(&app, &signed, totp::remove(&app, &signed.caller).await, "totp-removed").await
}

/// `POST /account/recovery-codes`
pub(crate) async fn renew_codes(State(app): State<App>, signed: Signed) -> Response {
    match recovery::renew(&app, &signed.caller).await {
        Ok(made) => signed.visit.page(StatusCode::OK, move || page::recovery_codes(&made.recovery_codes)),
        Err(error) => signed.visit.error_page(error),
    }
}

/// `POST /account/passkeys/{id}/rename`
pub(crate) async fn rename_passkey(
    State(app): State<App>,
    signed: Signed,
    id: TriedPath<Uuid>,
    fields: Fields,
) -> Response {
    let renamed = async {
        passkeys::rename(&app, &signed.caller, id?.0, fields.text("name")).await?;
        Ok::<_, Error>(())
    };
    done(&app, &signed, renamed.await, "passkey-renamed").await
}

/// `POST /account/passkeys/{id}/remove`
pub(crate) async fn remove_passkey(State(app): State<App>, signed: Signed, id: TriedPath<Uuid>) -> Response {
    let removed = async { passkeys::remove(&app, &signed.caller, id?.0).await };
    done(&app, &signed, removed.await, "passkey-removed").await
}

/// `POST /account/totp/rename`
pub(crate) async fn rename_totp(State(app): State<App>, signed: Signed, fields: Fields) -> Response {
    done(&app, &signed, totp::rename(&app, &signed.caller, fields.text("name")).await, "totp-renamed").await
}

/// Account page, with the notice of success or with the refusal.
pub(crate) async fn done(app: &App, signed: &Signed, result: Result<()>, notice: &str) -> Response {
    match result {
        Ok(()) => see_other(&format!("/account?done={notice}")),
        Err(error) => account::refused(app, signed, error).await,
    }
}
