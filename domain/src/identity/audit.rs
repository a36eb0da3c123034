//! Entries of the audit log: actor, action, owner, and reason. The log outlives the trees it names.

use serde::{Deserialize, Serialize};

use crate::{
    Time,
    id::Uuid,
    identity::owner::{Owner, OwnerKind},
};

/// The longest reason, in characters.
pub const LONGEST_REASON: usize = 2_000;

/// The longest detail that the server writes, in bytes.
pub const LONGEST_DETAIL: usize = 8_000;

/// Reason of an action: `{"reason": "…"}`. Required for another owner's work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasonBody {
    pub reason: Option<String>,
}

/// Entry of `GET /audit`. The objects that it names may have been deleted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    pub id: Uuid,
    pub at: Time,
    /// Actor, with their name at that time.
    pub actor: Actor,
    /// Action, such as `job.delete`.
    pub action: String,
    /// Owner of the work.
    pub owner: Option<Owner>,
    pub root_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
    pub reason: Option<String>,
    /// Further details as text.
    pub detail: Option<String>,
    /// Network address of the client.
    pub address: Option<String>,
    /// Id of the session or token that was used.
    pub credential_id: Option<Uuid>,
    /// Bulk operation that this action started or stopped. Its effects on single items have no entries of their own.
    pub operation_id: Option<Uuid>,
}

/// Actor of an action, with their name at that time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Actor {
    pub kind: ActorKind,
    /// Name; empty if the actor is not known.
    pub name: String,
}

/// Kind of an actor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ActorKind {
    User,
    Service,
    /// Someone at the command line of the server.
    Operator,
    /// Someone without a credential, such as whoever tried to sign in.
    Nobody,
}

impl ActorKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::Service => "service",
            Self::Operator => "operator",
            Self::Nobody => "nobody",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        [Self::User, Self::Service, Self::Operator, Self::Nobody].into_iter().find(|kind| kind.as_str() == word)
    }
}

impl From<OwnerKind> for ActorKind {
    fn from(kind: OwnerKind) -> Self {
        match kind {
            OwnerKind::User => Self::User,
            OwnerKind::Service => Self::Service,
        }
    }
}
