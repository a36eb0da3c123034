//! Work that the server does on behalf of its requester: with the rights of the requester's credential, never more.
//!
//! A job stores the credential that requested it. Adding to it or retrying its items is a request too: the rights of a
//! job are those of the last requester and only shrink. The executor decides how to use them.

use uuid::Uuid;

use domain::{Code, job::OwnerKind, job_type::Builtin};

use crate::{
    Core, Engine,
    access::{
        caller::{Caller, Role, Scope},
        rights::rights_of,
    },
    error::{Error, Result},
    store::{access::credentials::CredentialKind, import::exports, tree::definitions::JobInfo},
};

impl Core {
    /// Records a request in these jobs, unless they act on no one's behalf. Runs first, in a separate commit: if the
    /// request fails afterwards, rights have shrunk and none have grown.
    pub(crate) async fn record_requester<'a>(
        &self,
        caller: &Caller,
        jobs: impl IntoIterator<Item = &'a JobInfo>,
    ) -> Result<()> {
        let acts_for_requester = |job: &&JobInfo| {
            self.types.by_id(job.type_id).is_some_and(|info| info.executor.name == Some(Builtin::Export))
        };
        let mut job_keys: Vec<i64> = jobs.into_iter().filter(acts_for_requester).map(|job| job.job_key).collect();
        job_keys.sort_unstable();
        job_keys.dedup();
        if !job_keys.is_empty() {
            exports::change_requester(&self.pools.read, &job_keys, caller.credential_id, caller.sees_all()).await?;
        }
        Ok(())
    }
}

impl Engine {
    /// Returns the caller on whose behalf a job is processed, limited to the credential's current rights and those at
    /// the time of the request. The owner is the job's. Returns 401 if the credential is no longer valid.
    pub async fn requester(&self, job_id: Uuid, owner_id: Uuid) -> Result<Requester> {
        let pool = &self.0.core.pools.read;
        let requester = exports::requester(pool, job_id).await?;
        let unknown = || Error::refuse(Code::Unauthenticated, "It is not known who asked for this. Start it again.");
        let (by, saw_all) =
            requester.and_then(|requester| Some((requester.by?, requester.sees_all))).ok_or_else(unknown)?;
        let rights = rights_of(pool, by).await?;
        let sees_all = saw_all && rights.sees_all();
        // `admin` includes the other scopes; limited to the owner's work, only reading remains here.
        let limited = |scope| if scope == Scope::Admin && !sees_all { Scope::JobsRead } else { scope };
        let scopes = rights.scopes.iter().copied().map(limited).collect();
        let is_person = matches!(rights.kind, CredentialKind::Session | CredentialKind::Account);
        Ok(Requester {
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
pub struct Requester {
    pub caller: Caller,
    /// True if the credential could see all owners' work at the time of the request and no longer can.
    pub was_reduced: bool,
}
