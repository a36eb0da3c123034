//! One's own second factors, stepping up a session, and resetting the factors of somebody else.

use axum::{Json as Answer, extract::State, http::StatusCode};
use domain::{
    audit::ReasonBody,
    factors::{
        Connections, Factors, NewPasskey, Passkey, PasskeyMade, PasskeyOptions, PasskeyPatch, RecoveryCodes, StepUp,
        TotpConfirm, TotpPatch, TotpStarted,
    },
};
use uuid::Uuid;

use super::extract::{Json, JsonOrDefault, Path};
use crate::{
    App,
    auth::{
        Caller,
        factors::{self, passkeys, recovery, totp},
        oidc, step_up,
    },
    error::Result,
};

/// List one's own second factors
///
/// Says if the role requires one, since when there is an authenticator app, the passkeys, and how many recovery codes are left.
#[utoipa::path(get, path = "/me/factors", tag = "people", responses((status = 200, body = Factors)))]
pub async fn get_factors(State(app): State<App>, caller: Caller) -> Result<Answer<Factors>> {
    factors::list(&app, &caller).await.map(Answer)
}

/// Begin to set up an authenticator app
///
/// Like everything that changes factors it needs a recent sign-in: 403 `step_up_required`. 409 `duplicate` where there
/// is an authenticator app already.
#[utoipa::path(post, path = "/me/totp", tag = "people", responses((status = 201, body = TotpStarted)))]
pub async fn start_totp(State(app): State<App>, caller: Caller) -> Result<(StatusCode, Answer<TotpStarted>)> {
    Ok((StatusCode::CREATED, Answer(totp::start(&app, &caller).await?)))
}

/// Remove one's own authenticator app
///
/// Without any factor left, signing in takes the first factor alone, and recovery codes stop working.
#[utoipa::path(delete, path = "/me/totp", tag = "people",
    responses((status = 204, description = "Removed, or there was none")))]
pub async fn delete_totp(State(app): State<App>, caller: Caller) -> Result<StatusCode> {
    totp::remove(&app, &caller).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Rename one's own authenticator app
///
/// The name is for the person alone; the app does not learn of it.
#[utoipa::path(patch, path = "/me/totp", tag = "people", request_body = TotpPatch,
    responses((status = 204, description = "Renamed")))]
pub async fn patch_totp(State(app): State<App>, caller: Caller, Json(body): Json<TotpPatch>) -> Result<StatusCode> {
    totp::rename(&app, &caller, &body.name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// List the providers that one's own account is connected with
///
/// Whoever has a session connects one on the account page, at the provider itself.
#[utoipa::path(get, path = "/me/connections", tag = "people", responses((status = 200, body = Connections)))]
pub async fn list_connections(State(app): State<App>, caller: Caller) -> Result<Answer<Connections>> {
    oidc::list(&app, &caller).await.map(Answer)
}

/// Disconnect one's own account from a provider
///
/// Needs a recent sign-in: 403 `step_up_required`. 409 `last_sign_in_method` where nothing else signs the person in.
#[utoipa::path(delete, path = "/me/connections/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Disconnected, or there was no such connection")))]
pub async fn delete_connection(State(app): State<App>, caller: Caller, Path(id): Path<Uuid>) -> Result<StatusCode> {
    oidc::disconnect(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Confirm an authenticator app with its first code
///
/// With the first factor, one's other sessions end and recovery codes are made.
#[utoipa::path(post, path = "/me/totp/confirm", tag = "people", request_body = TotpConfirm,
    responses((status = 200, body = RecoveryCodes)))]
pub async fn confirm_totp(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<TotpConfirm>,
) -> Result<Answer<RecoveryCodes>> {
    totp::confirm(&app, &caller, &body.code).await.map(Answer)
}

/// Make new recovery codes; the old ones stop working
///
/// Ten codes, shown in this answer alone. 422 without a second factor that they could stand in for.
#[utoipa::path(post, path = "/me/recovery-codes", tag = "people", responses((status = 201, body = RecoveryCodes)))]
pub async fn create_recovery_codes(
    State(app): State<App>,
    caller: Caller,
) -> Result<(StatusCode, Answer<RecoveryCodes>)> {
    Ok((StatusCode::CREATED, Answer(recovery::renew(&app, &caller).await?)))
}

/// Begin to register a passkey: options for `navigator.credentials.create`
///
/// Good for five minutes and for this session. 422 where the server is reached by an address instead of a name.
#[utoipa::path(post, path = "/me/passkeys/options", tag = "people", responses((status = 200, body = PasskeyOptions)))]
pub async fn start_passkey(State(app): State<App>, caller: Caller) -> Result<Answer<PasskeyOptions>> {
    passkeys::start_registration(&app, &caller).await.map(Answer)
}

/// Register the passkey that the browser made
///
/// With the first factor, one's other sessions end and recovery codes are made. 409 `duplicate` where it is known already.
#[utoipa::path(post, path = "/me/passkeys", tag = "people", request_body = NewPasskey,
    responses((status = 201, body = PasskeyMade)))]
pub async fn create_passkey(
    State(app): State<App>,
    caller: Caller,
    Json(body): Json<NewPasskey>,
) -> Result<(StatusCode, Answer<PasskeyMade>)> {
    Ok((StatusCode::CREATED, Answer(passkeys::finish_registration(&app, &caller, body).await?)))
}

/// Rename one of one's own passkeys
///
/// The name is for the person alone; the device does not learn of it.
#[utoipa::path(patch, path = "/me/passkeys/{id}", tag = "people", params(("id" = Uuid, Path)),
    request_body = PasskeyPatch, responses((status = 200, body = Passkey)))]
pub async fn patch_passkey(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    Json(body): Json<PasskeyPatch>,
) -> Result<Answer<Passkey>> {
    passkeys::rename(&app, &caller, id, &body.name).await.map(Answer)
}

/// Remove one of one's own passkeys
///
/// It signs nobody in any more, though the device may still offer it. 409 `last_sign_in_method` where nothing else signs the
/// person in.
#[utoipa::path(delete, path = "/me/passkeys/{id}", tag = "people", params(("id" = Uuid, Path)),
    responses((status = 204, description = "Removed, or there was none")))]
pub async fn delete_passkey(State(app): State<App>, caller: Caller, Path(id): Path<Uuid>) -> Result<StatusCode> {
    passkeys::remove(&app, &caller, id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Prove again who one is: for ten minutes, `step_up_required` is not answered
///
/// Takes exactly one proof. Whoever has a second factor proves that one; others their password.
#[utoipa::path(post, path = "/me/step-up", tag = "people", request_body = StepUp,
    responses((status = 204, description = "The session counts as recent"),
              (status = 422, description = "`invalid_body`: the proof is wrong", body = domain::Problem,
               content_type = "application/problem+json")))]
pub async fn create_step_up(State(app): State<App>, caller: Caller, Json(body): Json<StepUp>) -> Result<StatusCode> {
    step_up::perform(&app, &caller, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Remove every second factor of a person who has lost theirs
///
/// Their sessions and links end; at the next sign-in the first factor is enough, or a new factor has to be set up where
/// the role requires one.
#[utoipa::path(delete, path = "/users/{id}/factors", tag = "people", params(("id" = Uuid, Path)),
    request_body = Option<ReasonBody>, responses((status = 204, description = "Removed")))]
pub async fn reset_factors(
    State(app): State<App>,
    caller: Caller,
    Path(id): Path<Uuid>,
    JsonOrDefault(body): JsonOrDefault<ReasonBody>,
) -> Result<StatusCode> {
    factors::reset(&app, &caller, id, body.reason.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}
