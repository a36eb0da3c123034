//! Work that the server does on behalf of its requester: with the rights of the requester's credential, never more.
//!
//! A job stores the credential that requested it. Adding to it or retrying its items is a request too: the rights of a
//! job are those of the last requester and only shrink. The executor decides how to use them.

use uuid::Uuid;

use domain::{Code, job::OwnerKind, job_type::Builtin};

use crate::{
    auth::{Caller, Role, Scope, rights_of},
    error::{Error, Result},
    store::{contracts::JobInfo, credentials::CredentialKind, exports},
};

use super::{Core, Engine};

impl Core {
    /// Records a request in these jobs, unless they act on no one's behalf. Runs first, in a separate commit: if the
    /// request fails afterwards, rights have shrunk and none have grown.
    pub(super) async fn ask_in<'a>(&self, caller: &Caller, jobs: impl IntoIterator<Item = &'a JobInfo>) -> Result<()> {
        let acts = |job: &&JobInfo| {
            self.types.by_id(job.type_id).is_some_and(|info| info.executor.name == Some(Builtin::Export))
        };
        let mut gates: Vec<i64> = jobs.into_iter().filter(acts).map(|job| job.gate_id).collect();
        gates.sort_unstable();
        gates.dedup();
        if !gates.is_empty() {
            exports::ask_again(&self.pools.read, &gates, caller.credential_id, caller.sees_all()).await?;
        }
        Ok(())
    }
}

impl Engine {
    /// Returns the caller on whose behalf a job is processed, limited to the credential's current rights and those at
    /// the time of the request. The owner is the job's. Returns 401 if the credential is no longer valid.
    pub async fn asker(&self, job_id: Uuid, owner_id: Uuid) -> Result<Asker> {
        let pool = &self.0.core.pools.read;
        let asked = exports::asked(pool, job_id).await?;
        let unknown = || Error::refuse(Code::Unauthenticated, "It is not known who asked for this. Start it again.");
        let (by, saw_all) = asked.and_then(|asked| Some((asked.by?, asked.sees_all))).ok_or_else(unknown)?;
        let rights = rights_of(pool, by).await?;
        let sees_all = saw_all && rights.sees_all();
        // `admin` includes the other scopes; limited to the owner's work, only reading remains here.
        let own = |scope| if scope == Scope::Admin && !sees_all { Scope::JobsRead } else { scope };
        let scopes = rights.scopes.iter().copied().map(own).collect();
        let is_person = rights.kind == CredentialKind::Session;
        Ok(Asker {
            caller: Caller {
                owner_id,
                kind: if is_person { OwnerKind::User } else { OwnerKind::Service },
                name: "export".to_owned(),
                role: if sees_all { rights.role } else { rights.role.map(|_| Role::User) },
                scopes,
                credential_id: by,
                work_types: None,
                must_change_password: false,
                enrolls: false,
                proxy_user: None,
                address: None,
            },
            was_reduced: saw_all && !sees_all,
        })
    }
}

/// Requester on whose behalf work is done.
pub struct Asker {
    pub caller: Caller,
    /// True if the credential could see all owners' work at the time of the request and no longer can.
    pub was_reduced: bool,
}
