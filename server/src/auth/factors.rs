//! Second factors of a person, and the effect of adding or removing one on their sessions.
//!
//! The kinds are the submodules: authenticator apps ([`totp`]), passkeys, recovery codes. A person with at least one
//! confirmed factor needs it at every sign-in. Adding or removing a factor requires a recent authentication, is
//! audited, and is never done on behalf of someone else; admins can only remove all factors.

pub mod passkeys;
pub mod recovery;
pub mod totp;

use domain::{Code, Problem, Time, identity::factors::Factors};
use sqlx::PgPool;
use uuid::Uuid;

use super::{look_for_changes, people::audit_row, step_up};
use crate::App;
use engine::access::caller::{Caller, Role, Scope};
use engine::{
    error::{Error, Result},
    notify::audit::reason_for,
    store::{
        Tx,
        access::{
            factors::{self as store, FactorSummary, PersonForFactors},
            federated_accounts, people as accounts,
        },
        notify::audit::{self as log, AuditRow},
    },
    task::in_task,
};

/// Returns the factors of the caller. 403 for tokens.
pub async fn list(app: &App, caller: &Caller) -> Result<Factors> {
    let role = person(caller)?;
    let summary = store::summary(&app.pool, caller.owner_id).await?;
    let passkeys = store::list_passkeys(&app.pool, caller.owner_id).await?;
    Ok(Factors {
        required: app.config.identity.requires_mfa(role),
        totp_since: summary.totp_since.map(Time),
        totp_name: summary.totp_name,
        passkeys: passkeys.into_iter().map(Into::into).collect(),
        recovery_codes_left: summary.recovery_codes,
    })
}

/// Removes all factors of a person who has lost them and ends their sessions. Returns the number of factors removed.
pub async fn reset(app: &App, caller: &Caller, owner_id: Uuid, reason: Option<&str>) -> Result<u64> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    if caller.owner_id == owner_id {
        return Err(Error::refuse(Code::Forbidden, "Remove your own factors one by one, on your account page."));
    }
    let reason = reason_for(caller, caller.owner_id, reason)?;
    let row = audit_row(caller, "user.factors_reset", owner_id, reason, None);
    let pool = app.pool.clone();
    let removed = in_task("resetting factors", async move {
        let mut tx = engine::store::begin(&pool).await?;
        store::lock_person(&mut tx, owner_id).await?.ok_or_else(|| Problem::not_found("person"))?;
        let removed = store::remove_all(&mut tx, owner_id).await?;
        accounts::end_sessions(&mut tx, owner_id, None, None).await?;
        accounts::void_links(&mut tx, owner_id).await?;
        log::record(&mut tx, &row).await?;
        accounts::count_change(&mut tx).await?;
        engine::store::commit(tx).await?;
        Ok(removed)
    })
    .await?;
    look_for_changes(app).await?;
    Ok(removed)
}

/// Resets factors from the command line of the server.
pub async fn reset_by_command(pool: &PgPool, owner_id: Uuid) -> Result<u64> {
    let mut tx = engine::store::begin(pool).await?;
    store::lock_person(&mut tx, owner_id).await?.ok_or_else(|| Problem::not_found("person"))?;
    let removed = store::remove_all(&mut tx, owner_id).await?;
    accounts::end_sessions(&mut tx, owner_id, None, None).await?;
    accounts::void_links(&mut tx, owner_id).await?;
    log::record(&mut tx, &AuditRow::by_operator("user.factors_reset", Some(owner_id), None)).await?;
    accounts::count_change(&mut tx).await?;
    engine::store::commit(tx).await?;
    Ok(removed)
}

/// Role of a caller who is a person; 403 for tokens.
pub(super) fn person(caller: &Caller) -> Result<Role> {
    caller.role.ok_or_else(|| Error::refuse(Code::Forbidden, "A token has no second factors."))
}

/// Refuses the removal of the last way to sign in; called after the removal, in its transaction: 409
/// `last_sign_in_method`. One-time links do not count; a proxy that signs people in does.
pub(super) async fn require_way_in(app: &App, tx: &mut Tx, owner_id: Uuid) -> Result<()> {
    let methods = federated_accounts::sign_in_methods(tx, owner_id).await?;
    let settings = &app.config.identity;
    let is_known = |issuer: &String| settings.oidc_providers.0.iter().any(|provider| provider.issuer == *issuer);
    let by_passkey = methods.passkeys > 0 && passkeys::are_possible(&app.public_url);
    if methods.password
        || by_passkey
        || methods.issuers.iter().any(is_known)
        || (methods.proxy && settings.auth_header.is_some())
    {
        return Ok(());
    }
    Err(Error::refuse(
        Code::LastSignInMethod,
        "You could not sign in without it. Set a password, add a passkey, or connect a provider first.",
    ))
}

/// Locks the caller's account; 401 if it no longer exists.
pub(super) async fn lock(tx: &mut Tx, owner_id: Uuid) -> Result<PersonForFactors> {
    let gone = || Error::refuse(Code::Unauthenticated, "The session has ended. Sign in again.");
    store::lock_person(tx, owner_id).await?.ok_or_else(gone)
}

/// Applies the effects of a new factor in its transaction: the session is stepped up. With the first factor, other
/// sessions and open links of the person end and new recovery codes are returned.
pub(super) async fn added(tx: &mut Tx, caller: &Caller, before: &FactorSummary) -> Result<Vec<String>> {
    store::step_up_session(tx, caller.credential_id, true).await?;
    let codes = if before.any() {
        Vec::new()
    } else {
        accounts::end_sessions(tx, caller.owner_id, None, Some(caller.credential_id)).await?;
        accounts::void_links(tx, caller.owner_id).await?;
        recovery::replace(tx, caller.owner_id).await?
    };
    accounts::count_change(tx).await?;
    Ok(codes)
}

/// Applies the effects of a removed factor in its transaction: without any factor, sessions no longer count as
/// two-factor sessions and recovery codes are deleted.
pub(super) async fn removed(tx: &mut Tx, owner_id: Uuid) -> Result<()> {
    if !store::summary(&mut **tx, owner_id).await?.any() {
        store::set_sessions_mfa(tx, owner_id, false).await?;
        store::remove_recovery_codes(tx, owner_id).await?;
    }
    Ok(accounts::count_change(tx).await?)
}
