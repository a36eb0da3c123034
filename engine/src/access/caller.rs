//! Authenticated callers and their permissions.

use std::net::IpAddr;

use domain::{Code, Problem, job::OwnerKind};
use uuid::Uuid;

/// Role of a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// Access to own uploads and jobs.
    User,
    /// Access to all work; may retry, cancel, and run bulk actions.
    Support,
    /// Manages job types, people, services, and tokens; may pause and delete.
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

/// Scope of a service token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    JobsRead,
    JobsWrite,
    Work,
    /// Access to `/metrics` only.
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
    /// Session or token that was used: assignments are bound to it.
    pub credential_id: Uuid,
    /// Names of the types that the token's `work` scope is limited to; `None` if it is not limited.
    pub work_types: Option<Vec<String>>,
    /// True if someone else chose the person's password.
    pub must_change_password: bool,
    /// Persons only: true if the role requires a second factor that the session lacks, so it may only add one.
    pub enrolls: bool,
    /// Persons only: value of the proxy header that the session was created for.
    pub proxy_user: Option<String>,
    /// Client address; set for each request and not cached.
    pub address: Option<IpAddr>,
}

impl Caller {
    /// Returns true if jobs of other owners are visible: for support, admins, and services with `admin`.
    pub fn sees_all(&self) -> bool {
        self.role >= Some(Role::Support) || self.scopes.contains(&Scope::Admin)
    }

    /// Returns true if the caller may change job types, people, services and tokens.
    pub fn is_admin(&self) -> bool {
        self.role == Some(Role::Admin) || self.scopes.contains(&Scope::Admin)
    }

    /// Returns true for the holder of a share link, who is neither a person nor a service.
    pub fn is_share(&self) -> bool {
        self.kind == OwnerKind::User && self.role.is_none()
    }

    /// Owner whose jobs are visible; `None` means all owners.
    pub fn visible_owner(&self) -> Option<Uuid> {
        (!self.sees_all()).then_some(self.owner_id)
    }

    /// Refuses callers without this scope: 403 `forbidden`.
    ///
    /// People read and write; `admin` and `metrics` require the admin role, and no session has `work`. Services have
    /// the scopes of their token; `admin` includes all others except `work`, which a token must name.
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
