//! Current rights of a credential, for work that outlasts its request or acts on behalf of a requester.

use std::time::SystemTime;

use domain::{Code, Problem};
use sqlx::PgPool;
use uuid::Uuid;

use crate::{
    access::caller::{Caller, Role, Scope},
    error::{Error, Result},
    store::access::credentials::{self, CredentialKind, CredentialRow},
};

/// Current rights of a token, session, link, or account.
#[derive(Clone, Debug)]
pub struct Rights {
    pub kind: CredentialKind,
    /// Persons only.
    pub role: Option<Role>,
    /// Services only.
    pub scopes: Vec<Scope>,
    pub expires_at: Option<SystemTime>,
}

impl Rights {
    /// Returns the rights of a credential, or the reason why it has none: 401.
    pub fn of(row: Option<CredentialRow>) -> Result<Self, Problem> {
        let none = |detail: &str| Err(Problem::new(Code::Unauthenticated, detail));
        let Some(row) = row else { return none("The token or session does not exist any more.") };
        let (token, share) = (row.kind == CredentialKind::Token, row.kind == CredentialKind::Share);
        match row {
            CredentialRow { disabled: true, .. } if share => none("The link's owner or maker was disabled."),
            CredentialRow { disabled: true, .. } if token => none("The service was disabled."),
            CredentialRow { disabled: true, .. } => none("The account was disabled."),
            CredentialRow { ended: true, .. } if share => none("The link was revoked."),
            CredentialRow { ended: true, .. } if token => none("The token was revoked."),
            CredentialRow { ended: true, .. } => none("The session has ended."),
            CredentialRow { expired: true, .. } if share => none("The link has expired."),
            CredentialRow { expired: true, .. } if token => none("The token has expired."),
            CredentialRow { expired: true, .. } => none("The session has expired."),
            row => Ok(Self {
                kind: row.kind,
                role: row.role.as_deref().and_then(Role::parse),
                scopes: row.scopes.iter().filter_map(|word| Scope::parse(word)).collect(),
                expires_at: row.expires_at.map(SystemTime::from),
            }),
        }
    }

    /// Returns true if other owners' jobs are visible.
    pub fn sees_all(&self) -> bool {
        self.role >= Some(Role::Support) || self.scopes.contains(&Scope::Admin)
    }

    /// 403 unless the caller's rights are still all granted.
    pub fn cover(&self, caller: &Caller) -> Result<(), Problem> {
        let admin = self.scopes.contains(&Scope::Admin);
        let scopes = |scope: &Scope| self.scopes.contains(scope) || (admin && *scope != Scope::Work);
        let scopes = caller.scopes.iter().all(scopes);
        if self.kind == CredentialKind::Share || (self.role >= caller.role && scopes) {
            Ok(())
        } else {
            Err(Problem::new(Code::Forbidden, "The credential's rights were reduced meanwhile."))
        }
    }
}

/// Reads the rights of a credential from the database. 401 with the reason if it is no longer valid.
pub async fn rights_of(pool: &PgPool, credential_id: Uuid) -> Result<Rights> {
    Ok(Rights::of(credentials::by_ids(pool, &[credential_id]).await?.pop())?)
}

/// Long-running work under a credential.
pub trait Ongoing: Send {
    /// Checks that the credential still has all its rights: 401 or 403 otherwise.
    fn check(&self) -> impl Future<Output = Result<()>> + Send;

    /// Resolves with the refusal when the credential becomes invalid.
    fn ended(&mut self) -> impl Future<Output = Error> + Send;
}
