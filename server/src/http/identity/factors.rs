//! HTTP handlers for second factors, for step-up authentication, and for resetting another person's factors.

use axum::{Json as Answer, extract::State, http::StatusCode};
use domain::identity::{
    audit::ReasonBody,
    factors::{
        Connections, Factors, NewPasskey, Passkey, PasskeyMade, PasskeyOptions, PasskeyPatch, RecoveryCodes, StepUp,
        TotpConfirm, TotpPatch, TotpStarted,
    },
};
use uuid::Uuid;

use crate::http::callers::{Admin, Person};
use crate::http::extract::{Json, JsonOrDefault, Path};
use crate::{
    App,
    auth::{
        factors::{self, passkeys, recovery, totp},
        oidc, step_up,
    },
    http::error::Result,
};

/// List the caller's second factors
///
/// With the authenticator app, the passkeys, the number of recovery codes left, and if the role requires a factor.
#[utoipa::path(get, path = "/me/factors", tag = "people", responses((status = 200, body = Factors)))]
pub async fn get_factors(State(app): State<App>, Person(caller): Person) -> Result<Answer<Factors>> {
    Ok(Answer(factors::list(&app, &caller).await?))
}

/// Start setting up an authenticator app
///
/// Needs a recent sign-in like every change of factors: 403 `step_up_required`. 409 `duplicate` if an authenticator app
/// exists already.
#[utoipa::path(post, path = "/me/totp", tag = "people", responses((status = 201, body = TotpStarted)))]
pub async fn start_totp(State(app): State<App>, Person(caller): Person) -> Result<(StatusCode, Answer<TotpStarted>)> {
    Ok((StatusCode::CREATED, Answer(totp::start(&app, &caller).await?)))
}

/// Remove the caller's authenticator app
///
/// If no second factor is left, the first factor alone signs in and the recovery codes stop working.
#[utoipa::path(delete, path = "/me/totp", tag = "people",
    responses((status = 204, description = "Removed, or it did not exist")))]
pub async fn delete_totp(State(app): State<App>, Person(caller): Person) -> Result<StatusCode> {
    totp::remove(&app, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Rename the caller's authenticator app
///
/// The name is only shown in the account; the app itself does not change.
#[utoipa::path(patch, path = "/me/totp", tag = "people", request_body = TotpPatch,
    responses((status = 204, description = "Renamed")))]
pub async fn patch_totp(
    State(app): State<App>,
    Person(caller): Person,
    Json(body): Json<TotpPatch>,
) -> Result<StatusCode> {
    totp::rename(&app, &caller, &body.name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the identity providers connected to the caller's account
///
/// A provider is connected on the account page, with a sign-in at the provider.
#[utoipa::path(get, path = "/me/connections", tag = "people", responses((status = 200, body = Connections)))]
pub async fn list_connections(State(app): State<App>, Person(caller): Person) -> Result<Answer<Connections>> {
    Ok(Answer(oidc::list(&app, &caller).await?))
}

/// Disconnect the caller's account from a provider
///
/// Needs a recent sign-in: 403 `step_up_required`. 409 `last_sign_in_method` if it is the only way to sign in.
#[utoipa::path(delete, path = "/me/connections/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Disconnected, or there was no such connection")))]
pub async fn delete_connection(
    State(app): State<App>,
    Person(caller): Person,
    Path(id): Path<Uuid>,
) -> Result<StatusCode> {
    oidc::disconnect(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Confirm an authenticator app with its first code
///
/// If it is the first second factor, the caller's other sessions end and recovery codes are created.
#[utoipa::path(post, path = "/me/totp/confirm", tag = "people", request_body = TotpConfirm,
    responses((status = 200, body = RecoveryCodes)))]
pub async fn confirm_totp(
    State(app): State<App>,
    Person(caller): Person,
    Json(body): Json<TotpConfirm>,
) -> Result<Answer<RecoveryCodes>> {
    Ok(Answer(totp::confirm(&app, &caller, &body.code).await?))
}

/// Create new recovery codes
///
/// The old codes stop working. Ten codes, shown only in this response. 422 without a second factor to replace.
#[utoipa::path(post, path = "/me/recovery-codes", tag = "people", responses((status = 201, body = RecoveryCodes)))]
pub async fn create_recovery_codes(
    State(app): State<App>,
    Person(caller): Person,
) -> Result<(StatusCode, Answer<RecoveryCodes>)> {
    Ok((StatusCode::CREATED, Answer(recovery::renew(&app, &caller).await?)))
}

/// Start registering a passkey
///
/// Options for `navigator.credentials.create`, valid for five minutes in this session. 422 at an IP address as host.
#[utoipa::path(post, path = "/me/passkeys/options", tag = "people", responses((status = 200, body = PasskeyOptions)))]
pub async fn start_passkey(State(app): State<App>, Person(caller): Person) -> Result<Answer<PasskeyOptions>> {
    Ok(Answer(passkeys::start_registration(&app, &caller).await?))
}

/// Register a passkey created by the browser
///
/// The first second factor ends the caller's other sessions and adds recovery codes. 409 `duplicate` if registered.
#[utoipa::path(post, path = "/me/passkeys", tag = "people", request_body = NewPasskey,
    responses((status = 201, body = PasskeyMade)))]
pub async fn create_passkey(
    State(app): State<App>,
    Person(caller): Person,
    Json(body): Json<NewPasskey>,
) -> Result<(StatusCode, Answer<PasskeyMade>)> {
    Ok((StatusCode::CREATED, Answer(passkeys::finish_registration(&app, &caller, body).await?)))
}

/// Rename one of the caller's passkeys
///
/// The name is only shown in the account; the device does not receive it.
#[utoipa::path(patch, path = "/me/passkeys/{id}", tag = "people", params(("id" = Uuid, Path)),
    request_body = PasskeyPatch, responses((status = 200, body = Passkey)))]
pub async fn patch_passkey(
    State(app): State<App>,
    Person(caller): Person,
    Path(id): Path<Uuid>,
    Json(body): Json<PasskeyPatch>,
) -> Result<Answer<Passkey>> {
    Ok(Answer(passkeys::rename(&app, &caller, id, &body.name).await?))
}

/// Remove one of the caller's passkeys
///
/// The passkey can no longer sign in, although the device may still offer it. 409 `last_sign_in_method` if it is the
/// only way to sign in.
#[utoipa::path(delete, path = "/me/passkeys/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Removed, or it did not exist")))]
pub async fn delete_passkey(
    State(app): State<App>,
    Person(caller): Person,
    Path(id): Path<Uuid>,
) -> Result<StatusCode> {
    passkeys::remove(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Confirm the caller's identity again
///
/// Prevents `step_up_required` for ten minutes. Takes one proof: a second factor if there is one, else the password.
#[utoipa::path(post, path = "/me/step-up", tag = "people", request_body = StepUp,
    responses((status = 204, description = "The session counts as recent"),
              (status = 422, description = "`invalid_body`: the proof is wrong", body = domain::Problem,
               content_type = "application/problem+json")))]
pub async fn create_step_up(
    State(app): State<App>,
    Person(caller): Person,
    Json(body): Json<StepUp>,
) -> Result<StatusCode> {
    step_up::perform(&app, &caller, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove every second factor of a person who lost theirs
///
/// Their sessions and sign-in links end. At the next sign-in the first factor is enough, or a new factor must be set up
/// if the role requires one.
#[utoipa::path(delete, path = "/users/{id}/factors", tag = "people", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Removed")))]
pub async fn reset_factors(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<StatusCode> {
    factors::reset(&app, &caller, id, body.reason.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}
