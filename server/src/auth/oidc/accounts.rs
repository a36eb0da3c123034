//! Accounts of identity providers' subjects: linked by issuer and subject only.
//!
//! An email address links an account only if the provider has verified it and the provider's settings allow that.
//! Mapped roles follow the provider's groups at every sign-in, but the last admin remains one.

use std::net::IpAddr;

use domain::{
    Code,
    identity::account::{email_problem, name_problem},
};
use uuid::Uuid;

use super::{Identity, refused};
use crate::{
    App,
    auth::{look_for_changes, people::audit_row, second_stage},
    config::identity::Provider,
};
use engine::{
    access::caller::{Caller, Role},
    error::{Error, Result},
    store::{
        Tx,
        access::{
            federated_accounts::{self as store, NewPerson},
            people,
        },
        notify::audit as log,
        tree::share_links,
    },
    task::in_task,
};

/// Returns the account of a subject; the first sign-in creates it. 401 if the provider's settings forbid new accounts.
pub(super) async fn find_or_create(
    app: &App,
    provider: &Provider,
    identity: &Identity,
    address: Option<IpAddr>,
) -> Result<Uuid> {
    let (pool, provider, identity) = (app.pool.clone(), provider.clone(), identity.clone());
    let owner_id = in_task("signing in by a provider", async move {
        let mut tx = engine::store::begin(&pool).await?;
        let wanted = provider.role_of(&identity.groups);
        if wanted == Some(None) {
            return Err(refused("Your groups at the provider give you no access here. Ask an admin."));
        }
        let owner_id = match store::find_link(&mut tx, &identity.issuer, &identity.subject).await? {
            Some(owner_id) => owner_id,
            None => first_time(&mut tx, &provider, &identity, address).await?,
        };
        if let Some(Some(role)) = wanted {
            set_role(&mut tx, &provider, owner_id, role, address).await?;
        }
        engine::store::commit(tx).await?;
        Ok(owner_id)
    })
    .await?;
    look_for_changes(app).await?;
    Ok(owner_id)
}

/// Links a subject to the caller's account. 409 `duplicate` if it is already linked to an account.
pub(super) async fn link(app: &App, provider: &Provider, caller: &Caller, identity: &Identity) -> Result<()> {
    let (pool, by, identity) = (app.pool.clone(), caller.clone(), identity.clone());
    let detail = format!("{}: {}", provider.name, identity.subject);
    in_task("linking a provider's account", async move {
        let mut tx = engine::store::begin(&pool).await?;
        match store::find_link(&mut tx, &identity.issuer, &identity.subject).await? {
            Some(owner_id) if owner_id == by.owner_id => return Ok(()),
            Some(_) => {
                return Err(Error::refuse(
                    Code::Duplicate,
                    "This account of the provider belongs to somebody else here.",
                ));
            }
            None => store::insert_link(&mut tx, &identity.issuer, &identity.subject, by.owner_id).await?,
        }
        log::record(&mut tx, &audit_row(&by, "user.link_provider", by.owner_id, None, Some(detail))).await?;
        Ok(engine::store::commit(tx).await?)
    })
    .await
}

async fn first_time(tx: &mut Tx, provider: &Provider, identity: &Identity, address: Option<IpAddr>) -> Result<Uuid> {
    let verified = identity.email.as_deref().filter(|email| identity.email_verified && email_problem(email).is_none());
    let existing = match identity.email.as_deref() {
        Some(email) => store::find_by_email(tx, email).await?,
        None => None,
    };
    let detail = format!("{}: {}", provider.name, identity.subject);
    if let Some(store::Addressee { id: owner_id, name, .. }) = existing {
        if verified.is_none() || !provider.links_verified_email {
            return Err(refused(
                "An account here has this email address, and it is not connected with the provider. Sign in to it another \
                 way and connect it on your account page.",
            ));
        }
        store::insert_link(tx, &identity.issuer, &identity.subject, owner_id).await?;
        let by = second_stage::caller(owner_id, name, address);
        let detail = format!("{detail}, by the verified email address");
        log::record(tx, &audit_row(&by, "user.link_provider", owner_id, None, Some(detail))).await?;
        return Ok(owner_id);
    }
    let role = match provider.role_of(&identity.groups) {
        None => provider.default_role.0,
        Some(role) => role,
    };
    let role = role.ok_or_else(|| refused("There is no account for you here. Ask an admin."))?;
    // Most providers let people choose their names. A name that looks like an email address could be mistaken for it.
    let name = identity.name.as_deref().filter(|name| !name.contains('@'));
    let names = [name, verified, Some(identity.subject.as_str())];
    let name = names.into_iter().flatten().find(|name| name_problem(name).is_none()).unwrap_or("Somebody");
    let new = NewPerson { name, email: verified, email_by_provider: true, role: role.as_str() };
    let owner_id = create(tx, new).await?;
    store::insert_link(tx, &identity.issuer, &identity.subject, owner_id).await?;
    let by = second_stage::caller(owner_id, name.to_owned(), address);
    let detail = format!("{}, by the provider {detail}", role.as_str());
    log::record(tx, &audit_row(&by, "user.create", owner_id, None, Some(detail))).await?;
    Ok(owner_id)
}

/// Creates an account with this name, or with a similar one if it is taken.
pub(in crate::auth) async fn create(tx: &mut Tx, new: NewPerson<'_>) -> Result<Uuid> {
    let id = Uuid::now_v7();
    for n in 1..=50 {
        let short: String = new.name.chars().take(90).collect();
        let name = if n == 1 { new.name.to_owned() } else { format!("{short} ({n})") };
        if store::insert_person(tx, id, NewPerson { name: &name, ..new }).await? {
            return Ok(id);
        }
    }
    Err(refused("There are too many accounts of your name. Ask an admin."))
}

/// Sets the role that follows from the provider's groups.
async fn set_role(tx: &mut Tx, provider: &Provider, owner_id: Uuid, role: Role, address: Option<IpAddr>) -> Result<()> {
    let admins = people::lock_admins(tx).await?;
    let Some(person) = people::find(&mut **tx, owner_id).await? else { return Ok(()) };
    if person.role == role.as_str() {
        return Ok(());
    }
    if role != Role::Admin && admins == [owner_id] {
        tracing::warn!(%owner_id, provider = provider.name, "role change by the provider skipped: last admin");
        return Ok(());
    }
    people::update(tx, owner_id, Some(role.as_str()), None, None).await?;
    if role == Role::User {
        share_links::revoke_for_others(tx, owner_id).await?;
    }
    let by = second_stage::caller(owner_id, person.name, address);
    let detail = format!("{} → {}, by groups of {}", person.role, role.as_str(), provider.name);
    log::record(tx, &audit_row(&by, "user.role", owner_id, None, Some(detail))).await?;
    Ok(people::count_change(tx).await?)
}
