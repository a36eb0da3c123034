//! Callers by the hash of their credential, from the cache or the database.

use domain::job::OwnerKind;
use sqlx::PgPool;

use super::{BOOTSTRAP_SERVICE, sessions};
use crate::App;
use engine::{
    access::caller::{Caller, Role, Scope},
    error::Result,
    secrets::Hash,
    store::access::identity::{self, TokenOwner},
    task::unless_silent,
};

/// Finds the caller of a token, cached.
pub(crate) async fn by_token(app: &App, hash: Hash) -> Result<Option<Caller>> {
    let Some((caller, is_due)) = app.auth.cached_caller(&hash) else {
        return look_up(app, &app.pools.credentials, hash).await;
    };
    if is_due {
        let again = app.clone();
        in_background(app, "token refresh", async move {
            // Uses the heartbeat pool: authenticated callers must get through under any load.
            look_up(&again, &again.pools.heartbeats, hash).await.map(drop)
        });
    }
    Ok(Some(caller))
}

async fn look_up(app: &App, pool: &PgPool, hash: Hash) -> Result<Option<Caller>> {
    let seen = *app.auth.changes.borrow();
    // The row of an earlier start's bootstrap token is revoked only later; it differs from this server's token.
    let is_accepted = |token: &TokenOwner| token.owner_name != BOOTSTRAP_SERVICE || app.auth.bootstrap == Some(hash);
    let found = app.pools.reachability.unless_refused(identity::find_token(pool, &hash)).await?;
    let Some(token) = found.filter(is_accepted) else {
        app.auth.forget(&hash);
        return Ok(None);
    };
    let caller = Caller {
        owner_id: token.owner_id,
        kind: OwnerKind::Service,
        name: token.owner_name,
        role: None,
        scopes: token.scopes.iter().filter_map(|word| Scope::parse(word)).collect(),
        credential_id: token.id,
        work_types: token.work_types,
        must_change_password: false,
        enrolls: false,
        proxy_user: None,
        address: None,
    };
    app.auth.cache_caller(hash, caller.clone(), seen);
    let pool = app.pool.clone();
    in_background(
        app,
        "recording a token's last use",
        async move { Ok(identity::touch_token(&pool, token.id).await?) },
    );
    Ok(Some(caller))
}

/// Finds the caller of a session, cached.
pub(crate) async fn by_session(app: &App, hash: Hash) -> Result<Option<Caller>> {
    if let Some((caller, _)) = app.auth.cached_caller(&hash) {
        return Ok(Some(caller));
    }
    let seen = *app.auth.changes.borrow();
    let found = identity::find_session(&app.pools.credentials, &hash);
    let Some(session) = app.pools.reachability.unless_refused(found).await? else {
        app.auth.forget(&hash);
        return Ok(None);
    };
    let role = session.role.as_deref().and_then(Role::parse);
    let caller = Caller {
        owner_id: session.owner_id,
        kind: OwnerKind::User,
        name: session.owner_name,
        role,
        scopes: Vec::new(),
        credential_id: session.id,
        work_types: None,
        must_change_password: session.must_change_password,
        enrolls: !session.mfa && role.is_some_and(|role| app.config.identity.requires_mfa(role)),
        proxy_user: session.proxy_user,
        address: None,
    };
    app.auth.cache_caller(hash, caller.clone(), seen);
    let pool = app.pool.clone();
    in_background(app, "recording a session's last use", async move {
        Ok(identity::touch_session(&pool, session.id, sessions::IDLE_DAYS).await?)
    });
    Ok(Some(caller))
}

/// Starts work that no request waits for, and that may fail.
fn in_background(app: &App, what: &'static str, work: impl Future<Output = Result<()>> + Send + 'static) {
    let work = unless_silent(work);
    app.tasks.spawn(async move {
        if let Err(error) = work.await.flatten() {
            tracing::debug!(%error, "{what} failed");
        }
    });
}
