//! Services and their tokens: made, listed, revoked by admins (spec §8).
//!
//! A token belongs to a service for ever; a new token of the same service keeps the owner, so keys
//! can be changed while work is under way.

use domain::{
    Code, Problem,
    access::{NewService, NewToken, Service, Token, TokenMade},
    id::is_name,
};
use uuid::Uuid;

use super::{BOOTSTRAP_SERVICE, Caller, Hash, Scope, hash_of, new_secret};
use crate::{
    App,
    error::{Error, Result},
    store::identity::{self, ServiceRow, TokenRow},
};

/// What every token begins with, so that scanners for leaked secrets can know one.
const TOKEN_PREFIX: &str = "trl_";

/// Makes a service. 409 `duplicate` when the name is taken.
pub async fn create_service(app: &App, caller: &Caller, new: NewService) -> Result<Service> {
    caller.require(Scope::Admin)?;
    if !is_name(&new.name) {
        return Err(fault("/name", "expected [a-z0-9][a-z0-9._-]{0,99}"));
    }
    if let Some(made) = identity::insert_service(&app.pool, Uuid::now_v7(), &new.name).await? {
        tracing::info!(service = new.name, by = caller.name, "service made");
        return Ok(made.into());
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
pub async fn create_token(app: &App, caller: &Caller, new: NewToken) -> Result<TokenMade> {
    caller.require(Scope::Admin)?;
    let faults = faults_of(&new);
    if !faults.is_empty() {
        return Err(Problem::invalid_body(faults).into());
    }
    let Some(service) = identity::find_service(&app.pool, &new.service).await? else {
        return Err(fault("/service", "expected the name of a service; POST /services makes one"));
    };
    let (id, secret) = (Uuid::now_v7(), new_secret(TOKEN_PREFIX));
    let created_at = identity::insert_token(
        &app.pool,
        id,
        service.id,
        &new.name,
        &hash_of(&secret),
        &new.scopes,
        new.types.as_deref(),
    )
    .await?;
    tracing::info!(service = service.name, token = %id, by = caller.name, "token made");
    let token = Token {
        id,
        service: service.name,
        name: new.name,
        scopes: new.scopes,
        types: new.types,
        created_at: created_at.into(),
        last_used_at: None,
        revoked_at: None,
    };
    Ok(TokenMade { token, secret })
}

/// Tokens, newest first, revoked ones too, older than `before`.
pub async fn list_tokens(app: &App, caller: &Caller, before: Option<Uuid>, limit: i64) -> Result<Vec<Token>> {
    caller.require(Scope::Admin)?;
    Ok(identity::list_tokens(&app.pool, before, limit).await?.into_iter().map(Into::into).collect())
}

/// Revokes a token: at once here, within ten seconds on other servers. Again changes nothing.
pub async fn revoke_token(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    caller.require(Scope::Admin)?;
    let hash = identity::revoke_token(&app.pool, id).await?.ok_or_else(|| Problem::not_found("token"))?;
    if let Ok(hash) = Hash::try_from(hash) {
        app.auth.forget(&hash);
    }
    tracing::info!(token = %id, by = caller.name, "token revoked");
    Ok(())
}

fn faults_of(new: &NewToken) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    let mut say = |pointer: String, detail: &str| faults.push((pointer, detail.to_owned()));
    if new.service == BOOTSTRAP_SERVICE {
        say("/service".into(), "expected another service: this one has the token of TREELINE_BOOTSTRAP_TOKEN alone");
    }
    if new.name.is_empty() || new.name.chars().count() > 100 {
        say("/name".into(), "expected 1 to 100 characters");
    }
    if new.scopes.is_empty() {
        say("/scopes".into(), "expected at least one of jobs:read, jobs:write, work, admin");
    }
    for (place, word) in new.scopes.iter().enumerate() {
        if Scope::parse(word).is_none() {
            say(format!("/scopes/{place}"), "expected jobs:read, jobs:write, work or admin");
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
