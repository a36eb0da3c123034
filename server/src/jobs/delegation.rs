//! Work that the server does in the name of whoever asked for it: with the rights of their credential, never with
//! more.
//!
//! A job carries the credential that asked for it. Whoever adds to it, or gives items of it back, asks as well: the
//! rights of a job are those of the last who asked, and only shrink. What is done with them is the executor's.

use uuid::Uuid;

use domain::{Code, job::OwnerKind, job_type::Builtin};

use crate::{
    auth::{Caller, Role, Scope, rights_of},
    error::{Error, Result},
    store::{contracts::JobInfo, credentials::CredentialKind, exports},
};

use super::{Core, Engine};

impl Core {
    /// Somebody asks for something in these jobs. Those that act for nobody are left alone. Before anything is
    /// done, in a commit of its own: where that fails afterwards, rights have shrunk and nothing has grown.
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
    /// In whose name a job is worked on, with what that credential may see now and at most what it saw when it asked.
    /// The owner is the job's. 401 where the credential is not good any more.
    pub async fn asker(&self, job_id: Uuid, owner_id: Uuid) -> Result<Asker> {
        let pool = &self.0.core.pools.read;
        let asked = exports::asked(pool, job_id).await?;
        let unknown = || Error::refuse(Code::Unauthenticated, "It is not known who asked for this. Start it again.");
        let (by, saw_all) = asked.and_then(|asked| Some((asked.by?, asked.sees_all))).ok_or_else(unknown)?;
        let rights = rights_of(pool, by).await?;
        let sees_all = saw_all && rights.sees_all();
        // `admin` includes the other scopes; narrowed to one's own work, reading is what is left of it here.
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

/// In whose name work is done.
pub struct Asker {
    pub caller: Caller,
    /// True if the credential saw everybody's work when it asked, and no longer does.
    pub was_reduced: bool,
}
