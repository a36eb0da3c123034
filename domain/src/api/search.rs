//! Results of `GET /search`: whatever has an id, a name, or a key, each with the reason for the match.

use serde::{Deserialize, Serialize};

/// Kind of a search result.
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

/// Search result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchHit {
    /// Id, or the fingerprint of an error group, the name of a worker or a type; for a file that was found by its name,
    /// the id of the job that was created from it, if there is one.
    pub id: String,
    /// Display name.
    pub title: String,
    /// Matching field: `id`, `name`, `key`, `dedupe_key`, `serialize_key`, `idempotency_key`, `filename`, `message`, `email`,
    /// `reason` or `text` (name, key or metadata).
    pub matched: String,
    /// Further details, such as the type and the state.
    pub detail: Option<String>,
    /// Path of the page that shows it. For an export, and for another owner's file without a job, the download of its
    /// content.
    pub path: String,
}

/// Search results of one kind, at most ten.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchGroup {
    pub kind: SearchKind,
    pub hits: Vec<SearchHit>,
}

/// Response of `GET /search`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SearchResults {
    /// Searched text.
    pub q: String,
    /// Results by kind; kinds without results are omitted.
    pub groups: Vec<SearchGroup>,
}
