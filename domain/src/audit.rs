//! Who did what to whose work, and why (spec §8): the log that outlives the trees it speaks of.

use serde::{Deserialize, Serialize};

use crate::{Time, id::Uuid, job::Owner};

/// The longest reason, in characters.
pub const LONGEST_REASON: usize = 2_000;

/// Why somebody does something: `{"reason": "…"}`. Required on somebody else's work.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasonBody {
    pub reason: Option<String>,
}

/// One line of `GET /audit`. What it names may be gone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuditEntry {
    pub id: Uuid,
    pub at: Time,
    /// Who did it, under the name of that time.
    pub actor: Owner,
    /// What was done, such as `job.delete`.
    pub action: String,
    /// Whose work it was.
    pub owner: Option<Owner>,
    pub root_id: Option<Uuid>,
    pub job_id: Option<Uuid>,
    pub item_id: Option<Uuid>,
    pub reason: Option<String>,
    /// What else is worth knowing, in words.
    pub detail: Option<String>,
}
