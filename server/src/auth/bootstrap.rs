//! `TREELINE_BOOTSTRAP_TOKEN`: an admin token of the service `bootstrap`, set in the environment.
//!
//! It has a row like any token, so that assignments can be bound to it. The row alone grants nothing: a server accepts
//! only the bootstrap token it was started with.

use sqlx::PgPool;
use uuid::Uuid;

use engine::{
    access::caller::Scope,
    secrets::{Hash, hash_of},
    settings::Secret,
    store::access::identity,
};

/// Service that the bootstrap token belongs to. No other token can be created for it.
pub const BOOTSTRAP_SERVICE: &str = "bootstrap";

/// Creates the row of the token if it is missing. Returns its hash.
pub async fn ensure_bootstrap_token(pool: &PgPool, token: &Secret) -> sqlx::Result<Hash> {
    let hash = hash_of(token.reveal());
    identity::insert_service(pool, Uuid::now_v7(), BOOTSTRAP_SERVICE).await?;
    let Some(service) = identity::find_service(pool, BOOTSTRAP_SERVICE).await? else {
        return Err(sqlx::Error::RowNotFound);
    };
    let scopes: Vec<String> = Scope::ALL.iter().map(|scope| scope.as_str().to_owned()).collect();
    identity::ensure_token(pool, Uuid::now_v7(), service.id, "TREELINE_BOOTSTRAP_TOKEN", &hash, &scopes).await?;
    Ok(hash)
}
