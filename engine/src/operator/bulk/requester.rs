//! Authority of an operation: its requester's, for as long as the credential still has the rights it had then.

use std::sync::Arc;

use domain::{Code, Problem};
use uuid::Uuid;

use crate::{
    Core,
    access::{
        caller::{Caller, Role, Scope},
        rights::rights_of,
    },
    error::{Error, Result},
    store::operator::bulk::{self, BulkRow},
};

use super::{kind_of, release_trees};

/// Caller with the rights recorded in the operation, if the credential still has them. Otherwise stops the operation
/// and returns `None`.
pub(super) async fn requester(core: &Arc<Core>, row: &BulkRow) -> Result<Option<Caller>> {
    let pool = &core.pools.read;
    let rights = match row.requested_by {
        Some(by) => rights_of(pool, by).await,
        None => Err(Error::refuse(Code::Unauthenticated, "It is not known which credential asked for this.")),
    };
    let role = row.role.as_deref().and_then(Role::parse);
    let mut scopes = if role.is_some() { Vec::new() } else { vec![Scope::JobsRead, Scope::JobsWrite] };
    if row.admin {
        scopes.push(Scope::Admin);
    }
    let caller = |credential_id| Caller {
        owner_id: row.actor_id,
        kind: kind_of(&row.actor_kind),
        name: row.actor_name.clone(),
        role,
        scopes,
        credential_id,
        work_types: None,
        must_change_password: false,
        enrolls: false,
        proxy_user: None,
        address: None,
    };
    let caller = rights.and_then(|rights| {
        let caller = caller(row.requested_by.unwrap_or_default());
        rights.cover(&caller)?;
        Ok(caller)
    });
    match caller {
        Ok(caller) => Ok(Some(caller)),
        Err(Error::Problem(why)) => {
            stop(core, row.id, &why).await?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// Stops an operation that cannot go on; its page says why.
pub(super) async fn stop(core: &Arc<Core>, bulk_id: Uuid, why: &Problem) -> Result<()> {
    tracing::warn!(%bulk_id, why = why.detail, "bulk operation stopped");
    if bulk::stop(&core.pools.read, bulk_id, &why.detail).await? {
        release_trees(core, bulk_id).await?;
    }
    Ok(())
}
