//! `TREELINE_BOOTSTRAP_TOKEN`: an admin token of the service `bootstrap`, set in the environment.
//!
//! It has a row like any token, so that assignments and delegated work can be bound to it. The row alone admits no request:
//! a server accepts only the bootstrap token it was started with. Schedules, exports, and bulk operations that it began
//! end when its row is revoked, an hour after the last server with it stopped: servers that restart in turn must not end
//! each other's work.

use sqlx::PgPool;
use uuid::Uuid;

use crate::App;

use engine::{
    access::caller::Scope,
    error::Result,
    secrets::{Hash, hash_of},
    settings::Secret,
    store::{
        access::{identity, people},
        notify::audit::{self, AuditRow},
        tree::share_links,
    },
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

/// Records that a server with its bootstrap token runs.
pub(crate) async fn keep_bootstrap_token(app: &App) -> Result<()> {
    if let Some(hash) = &app.auth.bootstrap {
        identity::touch_token_with(&app.pool, hash).await?;
    }
    Ok(())
}

/// Revokes bootstrap tokens that no server was started with in the last hour. Returns their number.
pub(crate) async fn revoke_old_bootstrap_tokens(app: &App) -> Result<usize> {
    keep_bootstrap_token(app).await?;
    let mut tx = engine::store::begin(&app.pool).await?;
    let revoked = identity::revoke_unused_tokens(&mut tx, BOOTSTRAP_SERVICE).await?;
    for token in &revoked {
        share_links::revoke_of_token(&mut tx, token.id).await?;
        let row = AuditRow { owner_id: Some(token.owner_id), ..AuditRow::by_nobody("token.revoke", None) };
        audit::record(&mut tx, &row.with_detail("TREELINE_BOOTSTRAP_TOKEN of an earlier start")).await?;
    }
    if !revoked.is_empty() {
        people::count_change(&mut tx).await?;
    }
    engine::store::commit(tx).await?;
    Ok(revoked.len())
}
