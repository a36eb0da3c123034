//! Services and their tokens: made, listed, revoked by admins (spec §8).
//!
//! A token belongs to a service for ever; a new token of the same service keeps the owner, so keys
//! can be changed while work is under way. Who made and revoked which is in the audit log.

use domain::{
    Code, Problem,
    access::{NewService, NewToken, Service, Token, TokenMade},
    id::is_name,
    limits,
};
use uuid::Uuid;

use super::{BOOTSTRAP_SERVICE, Caller, Scope, hash_of, look_for_changes, new_secret, people::deed, step_up};
use crate::{
    App,
    error::{Error, Result},
    kept::Keeping,
    store::{
        audit as log,
        identity::{self, ServiceRow, TokenRow},
        people::count_change,
    },
    task::in_task,
};

/// What every token begins with, so that scanners for leaked secrets can know one.
const TOKEN_PREFIX: &str = "trl_";

/// Makes a service. 409 `duplicate` when the name is taken.
pub async fn create_service(app: &App, caller: &Caller, new: NewService, keeping: Keeping) -> Result<Service> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    if !is_name(&new.name) {
        return Err(fault("/name", "expected [a-z0-9][a-z0-9._-]{0,99}"));
    }
    let (pool, id, by, name) = (app.pool.clone(), Uuid::now_v7(), caller.clone(), new.name.clone());
    let made = in_task("making a service", async move {
        let mut tx = pool.begin().await?;
        let made = identity::insert_service(&mut *tx, id, &name).await?.map(Service::from);
        if let Some(made) = &made {
            log::record(&mut tx, &deed(&by, "service.create", id, None, Some(name))).await?;
            keeping.keep(&mut tx, made).await?;
        }
        crate::store::commit(tx).await?;
        Ok(made)
    })
    .await?;
    if let Some(made) = made {
        tracing::info!(service = new.name, by = caller.name, "service made");
        return Ok(made);
    }
    let there = identity::find_service(&app.pool, &new.name).await?.map(|service| service.id);
    Err(Problem { id: there, ..Problem::new(Code::Duplicate, "A service of this name exists.") }.into())
}

/// Services in order of their names, behind `after`.
pub async fn list_services(app: &App, caller: &Caller, after: &str, limit: i64) -> Result<Vec<Service>> {
    caller.require(Scope::Admin)?;
    Ok(identity::list_services(&app.pool, after, limit).await?.into_iter().map(Into::into).collect())
}

/// Makes a token. Its secret is in the answer and nowhere else.
pub async fn create_token(app: &App, caller: &Caller, new: NewToken, keeping: Keeping) -> Result<TokenMade> {
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
    let row = deed(caller, "token.create", service.id, None, Some(format!("{}: {}", new.name, new.scopes.join(" "))));
    let made = in_task("making a token", async move {
        let NewToken { service: of, name, scopes, types } = new;
        let mut tx = pool.begin().await?;
        let created_at =
            identity::insert_token(&mut *tx, id, service.id, &name, &hash, &scopes, types.as_deref()).await?.into();
        let (last_used_at, revoked_at) = (None, None);
        let token = Token { id, service: of, name, scopes, types, created_at, last_used_at, revoked_at };
        let made = TokenMade { token, secret };
        log::record(&mut tx, &row).await?;
        keeping.keep(&mut tx, &made).await?;
        crate::store::commit(tx).await?;
        Ok(made)
    })
    .await?;
    tracing::info!(service = made.token.service, token = %id, by = caller.name, "token made");
    Ok(made)
}

/// Tokens, newest first, revoked ones too, older than `before`.
pub async fn list_tokens(app: &App, caller: &Caller, before: Option<Uuid>, limit: i64) -> Result<Vec<Token>> {
    caller.require(Scope::Admin)?;
    Ok(identity::list_tokens(&app.pool, before, limit).await?.into_iter().map(Into::into).collect())
}

/// Revokes a token: at once here, within a second on other servers. Again changes nothing.
pub async fn revoke_token(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    caller.require(Scope::Admin)?;
    step_up::require(app, caller).await?;
    let (pool, by) = (app.pool.clone(), caller.clone());
    in_task("revoking a token", async move {
        let mut tx = pool.begin().await?;
        let token = identity::revoke_token(&mut *tx, id).await?.ok_or_else(|| Problem::not_found("token"))?;
        if token.was_open {
            log::record(&mut tx, &deed(&by, "token.revoke", token.owner_id, None, Some(token.name))).await?;
            count_change(&mut tx).await?;
        }
        crate::store::commit(tx).await?;
        Ok(())
    })
    .await?;
    look_for_changes(app).await?;
    tracing::info!(token = %id, by = caller.name, "token revoked");
    Ok(())
}

fn faults_of(new: &NewToken) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let mut say = |pointer: String, detail: &str| faults.push((pointer, detail.to_owned()));
    if new.service == BOOTSTRAP_SERVICE {
        say("/service".into(), "expected another service: this one has the token of TREELINE_BOOTSTRAP_TOKEN alone");
    }
    if !limits::is_text(&new.name, 1, limits::LONGEST_TOKEN_NAME) {
        say("/name".into(), "expected 1 to 100 characters");
    }
    if new.scopes.is_empty() {
        say("/scopes".into(), "expected at least one of jobs:read, jobs:write, work, metrics, admin");
    }
    for (place, word) in new.scopes.iter().enumerate() {
        if Scope::parse(word).is_none() {
            say(format!("/scopes/{place}"), "expected jobs:read, jobs:write, work, metrics or admin");
        }
    }
    for (place, name) in new.types.iter().flatten().enumerate() {
        if !is_name(name) {
            say(format!("/types/{place}"), "expected the name of a job type");
        }
    }
    faults
}

fn fault(pointer: &str, detail: &str) -> Error {
    Problem::invalid_body([(pointer.to_owned(), detail.to_owned())]).into()
}

impl From<ServiceRow> for Service {
    fn from(row: ServiceRow) -> Self {
        Self { id: row.id, name: row.name, created_at: row.created_at.into() }
    }
}

impl From<TokenRow> for Token {
    fn from(row: TokenRow) -> Self {
        Self {
            id: row.id,
            service: row.service,
            name: row.name,
            scopes: row.scopes,
            types: row.work_types,
            created_at: row.created_at.into(),
            last_used_at: row.last_used_at.map(Into::into),
            revoked_at: row.revoked_at.map(Into::into),
        }
    }
}
