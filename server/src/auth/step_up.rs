//! Step-up: sensitive actions require a person to authenticate again if the last time is more than ten minutes ago.
//!
//! Applies to tokens, services, roles, people, job types and own factors. Services are exempt: a token has no session
//! and nothing else to prove. A person with a second factor must use it, because it proves more than a password.

use domain::{Code, Problem, identity::factors::StepUp};

use super::{
    Key, Queue,
    factors::{self, passkeys::Proof},
    look_for_changes,
    people::audit_row,
    second_stage::{Factor, SecondFactor, verify},
    throttle,
};
use crate::App;
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    store::{
        access::{factors as store, people as accounts},
        notify::audit as log,
    },
    task::in_task,
};

/// Seconds for which an authentication counts as recent.
pub const RECENT_SECONDS: i32 = 600;

/// 403 `step_up_required` with the accepted methods, unless the person authenticated recently.
pub async fn require(app: &App, caller: &Caller) -> Result<()> {
    if caller.role.is_none() {
        return Ok(());
    }
    let strength = store::session_strength(&app.pool, caller.credential_id, RECENT_SECONDS).await?;
    let strength = strength.ok_or_else(ended)?;
    let factors = store::summary(&app.pool, caller.owner_id).await?;
    if strength.recent && (strength.mfa || !factors.any()) {
        return Ok(());
    }
    let methods = methods(app, caller).await?;
    let detail = if methods.is_empty() {
        "This asks for a recent sign-in. Sign out and sign in again, then retry."
    } else {
        "This asks for a recent sign-in. Confirm that it is you with POST /me/step-up, then retry."
    };
    Err(Problem { methods, ..Problem::new(Code::StepUpRequired, detail) }.into())
}

/// Methods by which the caller can authenticate again. Empty if only a new sign-in helps.
pub async fn methods(app: &App, caller: &Caller) -> Result<Vec<String>> {
    let factors = store::summary(&app.pool, caller.owner_id).await?;
    if factors.any() {
        return Ok(factors.methods());
    }
    let person = store::find_candidate(&app.pool, caller.owner_id).await?.ok_or_else(ended)?;
    Ok(person.password_hash.map(|_| "password".to_owned()).into_iter().collect())
}

/// Authenticates the caller again; the session then counts as recent. 422 at the failing field.
pub async fn perform(app: &App, caller: &Caller, given: StepUp) -> Result<()> {
    factors::person(caller)?;
    let summary = store::summary(&app.pool, caller.owner_id).await?;
    let (mfa, how) = match given {
        StepUp { password: Some(password), code: None, recovery_code: None, passkey: None } => {
            if summary.any() {
                return Err(fault(
                    "/password",
                    "you have a second factor: expected `code`, `recovery_code` or `passkey`",
                ));
            }
            check_password(app, caller, password).await?;
            (false, "by password")
        }
        StepUp { password: None, code: None, recovery_code: None, passkey: Some(passkey) } => {
            let proof = factors::passkeys::authenticate(app, &passkey).await?;
            if proof.owner_id != caller.owner_id {
                return Err(fault("/passkey", "this passkey is not yours"));
            }
            return record(app, caller, true, Some(proof), "by passkey").await;
        }
        StepUp { password: None, code, recovery_code, passkey: None } if code.is_some() != recovery_code.is_some() => {
            // Counted for this session only: sessions do not block each other.
            let keys = match code {
                Some(_) => Key::of_code_in(caller.credential_id),
                None => Key::of_device_or_session(&format!("recovery codes {}", caller.credential_id)),
            };
            let how = match verify(app, caller.owner_id, &SecondFactor { code, recovery_code }, keys).await? {
                Factor::AuthenticatorApp => "by authenticator app",
                Factor::RecoveryCode => "by a recovery code",
            };
            (true, how)
        }
        _ => return Err(fault("", "expected exactly one of `password`, `code`, `recovery_code` and `passkey`")),
    };
    record(app, caller, mfa, None, how).await
}

/// Records that the caller has just authenticated.
async fn record(app: &App, caller: &Caller, mfa: bool, proof: Option<Proof>, how: &str) -> Result<()> {
    let (pool, session) = (app.pool.clone(), caller.credential_id);
    let row = audit_row(caller, "session.step_up", caller.owner_id, None, Some(how.to_owned()));
    let is_open = in_task("stepping up a session", async move {
        let mut tx = engine::store::begin(&pool).await?;
        if let Some(proof) = proof {
            proof.record(&mut tx).await?;
        }
        let is_open = store::step_up_session(&mut tx, session, mfa).await?;
        log::record(&mut tx, &row).await?;
        if mfa {
            // Every server caches the session's permissions.
            accounts::count_change(&mut tx).await?;
        }
        engine::store::commit(tx).await?;
        Ok(is_open)
    })
    .await?;
    look_for_changes(app).await?;
    if is_open { Ok(()) } else { Err(ended()) }
}

async fn check_password(app: &App, caller: &Caller, password: String) -> Result<()> {
    let person = store::find_candidate(&app.pool, caller.owner_id).await?.ok_or_else(ended)?;
    let attempt = throttle::begin(app, Key::of_device_or_session(&format!("step-up {}", caller.credential_id))).await?;
    if !app.auth.passwords.fits(password, person.password_hash, Queue::KnownDevice).await? {
        attempt.failed(app).await?;
        return Err(fault("/password", "this is not your password"));
    }
    attempt.succeeded(app).await
}

fn fault(pointer: &str, detail: &str) -> Error {
    Problem::invalid_body([(pointer.to_owned(), detail.to_owned())]).into()
}

fn ended() -> Error {
    Error::refuse(Code::Unauthenticated, "The session has ended. Sign in again.")
}
