//! Connections of the caller's own account with providers: listing and removal.
//!
//! `accounts` creates them at sign-in. Removal requires a recent sign-in, like every change of sign-in methods, and
//! never removes the last way to sign in.

use domain::{
    Time,
    identity::factors::{Connection, Connections},
};
use uuid::Uuid;

use crate::{
    App,
    auth::{
        factors::{lock, person, require_way_in},
        people::audit_row,
        step_up,
    },
};
use engine::{
    access::caller::Caller,
    error::Result,
    store::{access::federated_accounts as store, notify::audit as log},
    task::in_task,
};

/// Lists the caller's connections. 403 for tokens.
pub async fn list(app: &App, caller: &Caller) -> Result<Connections> {
    person(caller)?;
    let rows = store::list_links(&app.pool, caller.owner_id).await?;
    let providers = &app.config.identity.oidc_providers.0;
    let data = rows.into_iter().map(|row| {
        let provider = providers.iter().find(|provider| provider.issuer == row.issuer);
        Connection {
            id: row.id,
            provider: provider.map(|provider| provider.name.clone()),
            label: provider.map_or(row.issuer, |provider| provider.label.clone()),
            subject: row.subject,
            created_at: Time(row.created_at),
            last_used_at: Time(row.last_used_at),
        }
    });
    Ok(Connections { data: data.collect() })
}

/// Removes one of the caller's connections; idempotent. 409 `last_sign_in_method` if it is the last way to sign in.
pub async fn disconnect(app: &App, caller: &Caller, id: Uuid) -> Result<()> {
    person(caller)?;
    step_up::require(app, caller).await?;
    let (app, by) = (app.clone(), caller.clone());
    in_task("disconnecting a provider", async move {
        let mut tx = engine::store::begin(&app.pool).await?;
        lock(&mut tx, by.owner_id).await?;
        if let Some((issuer, subject)) = store::remove_link(&mut tx, by.owner_id, id).await? {
            let providers = &app.config.identity.oidc_providers.0;
            // A provider that is no longer configured signs nobody in.
            if providers.iter().any(|provider| provider.issuer == issuer) {
                require_way_in(&app, &mut tx, by.owner_id).await?;
            }
            let detail = format!("{issuer}: {subject}");
            log::record(&mut tx, &audit_row(&by, "user.unlink_provider", by.owner_id, None, Some(detail))).await?;
        }
        Ok(engine::store::commit(tx).await?)
    })
    .await
}
