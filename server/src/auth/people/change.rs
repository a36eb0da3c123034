//! Changes of a person by an admin: role, address, name at the proxy, and disabled state.
//!
//! All changes are one transaction with an audit entry each. Permissions are checked by the caller.

use domain::{Code, Problem};
use uuid::Uuid;

use super::audit_row;
use crate::auth::proxy_header;
use engine::{
    access::caller::{Caller, Role},
    error::{Error, Result},
    store::{
        Tx,
        access::{
            federated_accounts,
            people::{self as store, PersonRow},
        },
        notify::audit as log,
        tree::share_links,
    },
};

/// Fields to change; `None` keeps the current value.
pub(super) struct Change {
    pub(super) role: Option<Role>,
    pub(super) disabled: Option<bool>,
    pub(super) email: Option<String>,
    pub(super) proxy_user: Option<String>,
}

impl Change {
    pub(super) async fn apply(self, tx: &mut Tx, by: &Caller, id: Uuid, reason: Option<String>) -> Result<PersonRow> {
        let none = || Error::from(Problem::not_found("person"));
        let takes_away = self.disabled == Some(true) || self.role.is_some();
        // Lock all admins first: concurrent changes that remove an admin wait here and then count again.
        let admins = if takes_away { store::lock_admins(tx).await? } else { Vec::new() };
        let before = store::find(&mut **tx, id).await?.ok_or_else(none)?;
        let loses = self.disabled == Some(true) || self.role.is_some_and(|role| role != Role::Admin);
        if loses && admins == [id] {
            return Err(Error::refuse(Code::LastAdmin, "This is the last admin. Make somebody else an admin first."));
        }
        store::update(tx, id, self.role.map(Role::as_str), self.disabled, self.email.as_deref()).await?;
        let mut after = store::find(&mut **tx, id).await?.ok_or_else(none)?;
        if before.role != after.role {
            let detail = format!("{} → {}", before.role, after.role);
            log::record(tx, &audit_row(by, "user.role", id, reason.clone(), Some(detail))).await?;
            if after.role == Role::User.as_str() {
                share_links::revoke_for_others(tx, id).await?;
            }
        }
        if before.email != after.email {
            let (from, to) = (before.email.as_deref().unwrap_or("none"), after.email.as_deref().unwrap_or("none"));
            // Links may have gone to the old address, and sessions may belong to its reader. The session of the request
            // continues.
            store::void_links(tx, id).await?;
            federated_accounts::remove_proxy_email(tx, id, from).await?;
            let ended = store::end_sessions(tx, id, None, Some(by.credential_id)).await?;
            let detail = format!("{from} → {to}; sessions ended: {ended}");
            log::record(tx, &audit_row(by, "user.email", id, reason.clone(), Some(detail))).await?;
        }
        if before.disabled != after.disabled {
            let action = if after.disabled { "user.disable" } else { "user.enable" };
            log::record(tx, &audit_row(by, action, id, reason.clone(), None)).await?;
        }
        if after.disabled {
            store::end_sessions(tx, id, None, None).await?;
            store::void_links(tx, id).await?;
            share_links::revoke_all_of(tx, id).await?;
        }
        let mut changed = before.role != after.role || before.disabled != after.disabled || before.email != after.email;
        if let Some(value) = &self.proxy_user {
            changed |= proxy_header::assign(tx, by, id, value, reason).await?;
            after.proxy_user = (!value.is_empty()).then(|| value.clone());
        }
        if changed {
            store::count_change(tx).await?;
        }
        Ok(after)
    }
}
