//! Results of `GET /search`: whatever has an id, a name, or a key, each with the reason for the match.

use serde::{Deserialize, Serialize};

/// Kind of thing that a search finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum SearchKind {
    Jobs,
    Items,
    /// Groups of dead letters whose error has the text.
    Errors,
    /// Files, and jobs that were made of a file with such a name.
    Uploads,
    Workers,
    JobTypes,
    Schedules,
    /// Saved views.
    Views,
    BulkOperations,
    People,
    Services,
}

/// A thing that a search has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchHit {
    /// The id, or the fingerprint of a group of errors, the name of a worker or a type; of a file that was found by its
    /// name, the id of the job that was made of it, if there is one.
    pub id: String,
    /// Display name.
    pub title: String,
    /// Matching field: `id`, `name`, `key`, `dedupe_key`, `serialize_key`, `idempotency_key`, `filename`, `message`, `email`,
    /// `reason` or `text` (name, key or metadata).
    pub matched: String,
    /// More about it, such as the type and the state.
    pub detail: Option<String>,
    /// The page that shows it. For an export, and a file of someone else that no job was made of: the download of its
    /// content.
    pub path: String,
}

/// Things of one kind that a search has found, at most ten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchGroup {
    pub kind: SearchKind,
    pub hits: Vec<SearchHit>,
}

/// `GET /search`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchResults {
    /// Searched text.
    pub q: String,
    /// Only kinds of which something was found.
    pub groups: Vec<SearchGroup>,
}
