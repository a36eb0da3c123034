//! Who is asking, and what they may do.

use std::net::IpAddr;

use domain::{Code, Problem, job::OwnerKind};
use uuid::Uuid;

/// What a person may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Own uploads and jobs.
    User,
    /// Sees all, retries, cancels, bulk.
    Support,
    /// Job types, people, services, tokens, pause, delete.
    Admin,
}

impl Role {
    pub const ALL: [Role; 3] = [Self::User, Self::Support, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Support => "support",
            Self::Admin => "admin",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|r| r.as_str() == word)
    }
}

/// What a service's token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    JobsRead,
    JobsWrite,
    Work,
    /// Reads `/metrics` and nothing else.
    Metrics,
    Admin,
}

impl Scope {
    pub const ALL: [Scope; 5] = [Self::JobsRead, Self::JobsWrite, Self::Work, Self::Metrics, Self::Admin];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::JobsRead => "jobs:read",
            Self::JobsWrite => "jobs:write",
            Self::Work => "work",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|s| s.as_str() == word)
    }
}

/// An authenticated caller: a person by session, or a service by token.
#[derive(Clone, Debug)]
pub struct Caller {
    pub owner_id: Uuid,
    pub kind: OwnerKind,
    pub name: String,
    /// Persons only.
    pub role: Option<Role>,
    /// Services only.
    pub scopes: Vec<Scope>,
    /// The session or token used: what an assignment is bound to.
    pub credential_id: Uuid,
    /// Where a token's `work` is narrowed: the names of the types.
    pub work_types: Option<Vec<String>>,
    /// Somebody else chose the person's password.
    pub must_change_password: bool,
    /// Persons only: the role requires a second factor that the session does not have, so all it may do is add one.
    pub enrolls: bool,
    /// Persons only: the value of the proxy's header that the session stands for.
    pub proxy_user: Option<String>,
    /// Client's address; set for each request and not remembered.
    pub address: Option<IpAddr>,
}

impl Caller {
    /// Whether other owners' jobs are visible: support, admins, and services with `admin`.
    pub fn sees_all(&self) -> bool {
        self.role >= Some(Role::Support) || self.scopes.contains(&Scope::Admin)
    }

    /// Whether job types, people, services and tokens may be changed.
    pub fn is_admin(&self) -> bool {
        self.role == Some(Role::Admin) || self.scopes.contains(&Scope::Admin)
    }

    /// The owner whose jobs are visible; `None` is everybody's.
    pub fn visible_owner(&self) -> Option<Uuid> {
        (!self.sees_all()).then_some(self.owner_id)
    }

    /// Refuses callers who may not do this: 403 `forbidden`.
    ///
    /// People read and write; `admin` and `metrics` belong to admins, and nobody signed in ever has `work`. Services
    /// have the scopes of their token; `admin` includes the others, except `work`, which a token must name.
    pub fn require(&self, scope: Scope) -> Result<(), Problem> {
        let allowed = match (self.role, scope) {
            (Some(_), Scope::Work) => false,
            (Some(role), Scope::Admin | Scope::Metrics) => role == Role::Admin,
            (Some(_), Scope::JobsRead | Scope::JobsWrite) => true,
            (None, Scope::Work) => self.scopes.contains(&Scope::Work),
            (None, _) => self.scopes.contains(&scope) || self.scopes.contains(&Scope::Admin),
        };
        if allowed {
            Ok(())
        } else {
            let detail = match scope {
                Scope::Work => "Only a service token with the scope work may work on items.".to_owned(),
                other => format!("This needs the scope {}.", other.as_str()),
            };
            Err(Problem::new(Code::Forbidden, detail))
        }
    }
}
