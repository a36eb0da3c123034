//! Services and their tokens: creation, lists, revocation by admins.
//!
//! A token belongs to one service forever; a new token of the same service keeps the owner, so keys can be rotated
//! while work is running. Creation and revocation are audited.

use domain::{
    Code, Problem, Time,
    id::is_name,
    identity::access::{NewService, NewToken, Service, ServicePatch, Token, TokenMade},
    limits,
};
use time::OffsetDateTime;
use uuid::Uuid;

use super::{BOOTSTRAP_SERVICE, look_for_changes, people::audit_row, step_up};
use crate::App;
use engine::{
    access::caller::{Caller, Scope},
    error::{Error, Result},
    notify::audit::reason_for,
    secrets::{hash_of, new_secret},
    store::{
        access::{identity, identity_lists, people::count_change},
        notify::audit as log,
        page_range::{NamedPageRange, PageRange},
        tree::share_links,
    },
    stored_response::ResponseSlot,
    task::in_task,
};

/// Prefix of every token, by which secret scanners recognize one.
const TOKEN_PREFIX: &str = "trl_";

/// Creates a service. 409 `duplicate` if the name is taken.
pub async fn create_service(
    app: &App,
    caller: &Caller,
    new: NewService,
    response_slot: ResponseSlot,
) -> Result<Service> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    if !is_name(&new.name) {
        return Err(fault("/name", "expected [a-z0-9][a-z0-9._-]{0,99}"));
    }
    let (pool, id, by, name) = (app.pool.clone(), Uuid::now_v7(), caller.clone(), new.name.clone());
    let created = in_task("making a service", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let created = identity::insert_service(&mut *tx, id, &name).await?.map(Service::from);
        if let Some(created) = &created {
            log::record(&mut tx, &audit_row(&by, "service.create", id, None, Some(name))).await?;
            response_slot.store(&mut tx, created).await?;
        }
        engine::store::commit(tx).await?;
        Ok(created)
    })
    .await?;
    if let Some(created) = created {
        tracing::info!(service = new.name, by = caller.name, "service created");
        return Ok(created);
    }
    let there = identity::find_service(&app.pool, &new.name).await?.map(|service| service.id);
    Err(Problem { id: there, ..Problem::new(Code::Duplicate, "A service of this name exists.") }.into())
}

/// Returns a page of the list of services.
pub async fn list_services(app: &App, caller: &Caller, part: &NamedPageRange) -> Result<Vec<Service>> {
    caller.require(Scope::Admin)?;
    Ok(identity_lists::list_services(&app.pool, part).await?.into_iter().map(Into::into).collect())
}

/// Returns one service.
pub async fn find_service(app: &App, caller: &Caller, id: Uuid) -> Result<Service> {
    caller.require(Scope::Admin)?;
    let found = identity::get_service(&app.pool, id).await?;
    Ok(found.ok_or_else(|| Problem::not_found("service"))?.into())
}

/// Disables or enables a service: at once on this server, within a second on others. Its work and tokens remain; while
/// it is disabled, its tokens are refused.
pub async fn change_service(app: &App, caller: &Caller, id: Uuid, patch: ServicePatch) -> Result<Service> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let reason = reason_for(caller, caller.owner_id, patch.reason.as_deref())?;
    let (pool, by) = (app.pool.clone(), caller.clone());
    let changed = in_task("changing a service", async move {
        let none = || Error::from(Problem::not_found("service"));
        let mut tx = engine::store::begin(&pool).await?;
        let before = identity::get_service(&mut *tx, id).await?.ok_or_else(none)?;
        if let Some(disabled) = patch.disabled {
            if disabled && before.name == BOOTSTRAP_SERVICE {
                let expected =
                    "expected another service: this one goes when TREELINE_BOOTSTRAP_TOKEN is not set any more";
                return Err(fault("/disabled", expected));
            }
            if identity::set_service_disabled(&mut tx, id, disabled).await? {
                let action = if disabled { "service.disable" } else { "service.enable" };
                log::record(&mut tx, &audit_row(&by, action, id, reason, Some(before.name))).await?;
                count_change(&mut tx).await?;
            }
        }
        let after = identity::get_service(&mut *tx, id).await?.ok_or_else(none)?;
        engine::store::commit(tx).await?;
        Ok(after)
    })
    .await?;
    look_for_changes(app).await?;
    tracing::info!(service = changed.name, disabled = changed.disabled, by = caller.name, "service changed");
    Ok(changed.into())
}

/// Creates a token. Its secret is returned once and never stored.
pub async fn create_token(app: &App, caller: &Caller, new: NewToken, response_slot: ResponseSlot) -> Result<TokenMade> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let faults = faults_of(&new);
    if !faults.is_empty() {
        return Err(Problem::invalid_body(faults).into());
    }
    let Some(service) = identity::find_service(&app.pool, &new.service).await? else {
        return Err(fault("/service", "expected the name of a service; POST /services makes one"));
    };
    let (id, secret) = (Uuid::now_v7(), new_secret(TOKEN_PREFIX));
    let (pool, hash) = (app.pool.clone(), hash_of(&secret));
    let row =
        audit_row(caller, "token.create", service.id, None, Some(format!("{}: {}", new.name, new.scopes.join(" "))));
    let created = in_task("making a token", async move {
        let NewToken { service: of, name, scopes, types, expires_at } = new;
        let mut tx = engine::store::begin(&pool).await?;
        // Microseconds, the precision of the database.
        let end = expires_at.and_then(|at| at.0.replace_nanosecond(at.0.nanosecond() / 1_000 * 1_000).ok());
        let expires_at = end.map(Time);
        let created = identity::insert_token(&mut *tx, id, service.id, &name, &hash, &scopes, types.as_deref(), end);
        let created_at = created.await?.into();
        let (last_used_at, revoked_at) = (None, None);
        let token = Token { id, service: of, name, scopes, types, created_at, last_used_at, expires_at, revoked_at };
        let created = TokenMade { token, secret };
        log::record(&mut tx, &row).await?;
        response_slot.store(&mut tx, &created).await?;
        engine::store::commit(tx).await?;
        Ok(created)
    })
    .await?;
    tracing::info!(service = created.token.service, token = %id, by = caller.name, "token created");
    Ok(created)
}

/// Returns a page of the list of tokens, including revoked ones.
pub async fn list_tokens(app: &App, caller: &Caller, part: PageRange) -> Result<Vec<Token>> {
    caller.require(Scope::Admin)?;
    Ok(identity_lists::list_tokens(&app.pool, part).await?.into_iter().map(Into::into).collect())
}

/// Revokes a token: at once on this server, within a second on others. Idempotent.
pub async fn revoke_token(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let (pool, by) = (app.pool.clone(), caller.clone());
    in_task("revoking a token", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let token = identity::revoke_token(&mut *tx, id).await?.ok_or_else(|| Problem::not_found("token"))?;
        // Also of a token that a server from before migration 0011 has revoked.
        share_links::revoke_of_token(&mut tx, id).await?;
        if token.was_open {
            log::record(&mut tx, &audit_row(&by, "token.revoke", token.owner_id, None, Some(token.name))).await?;
            count_change(&mut tx).await?;
        }
        engine::store::commit(tx).await?;
        Ok(())
    })
    .await?;
    look_for_changes(app).await?;
    tracing::info!(token = %id, by = caller.name, "token revoked");
    Ok(())
}

fn faults_of(new: &NewToken) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let mut add_fault = |pointer: String, detail: &str| faults.push((pointer, detail.to_owned()));
    if new.service == BOOTSTRAP_SERVICE {
        add_fault(
            "/service".into(),
            "expected another service: this one has the token of TREELINE_BOOTSTRAP_TOKEN alone",
        );
    }
    if !limits::is_text(&new.name, 1, limits::LONGEST_TOKEN_NAME) {
        add_fault("/name".into(), "expected 1 to 100 characters");
    }
    if new.scopes.is_empty() {
        add_fault("/scopes".into(), "expected at least one of jobs:read, jobs:write, work, metrics, admin");
    }
    for (place, word) in new.scopes.iter().enumerate() {
        if Scope::parse(word).is_none() {
            add_fault(format!("/scopes/{place}"), "expected jobs:read, jobs:write, work, metrics or admin");
        }
    }
    // Catches typing errors; the database clock decides.
    if new.expires_at.is_some_and(|at| at.0 <= OffsetDateTime::now_utc()) {
        add_fault("/expires_at".into(), "expected a time that is ahead");
    }
    for (place, name) in new.types.iter().flatten().enumerate() {
        if !is_name(name) {
            add_fault(format!("/types/{place}"), "expected the name of a job type");
        }
    }
    faults
}

fn fault(pointer: &str, detail: &str) -> Error {
    Problem::invalid_body([(pointer.to_owned(), detail.to_owned())]).into()
}
