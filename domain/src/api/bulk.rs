//! Bodies of bulk operations and of replays (`manual-retry`, `replay`).

use serde::{Deserialize, Serialize};

use crate::{
    Document, Time,
    document::{edit::Edit, pointer::Pointer},
    id::Uuid,
    job::Owner,
};

/// Action of a bulk operation on each of its members.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BulkAction {
    Retry,
    Cancel,
    Delete,
}

impl BulkAction {
    pub const ALL: [Self; 3] = [Self::Retry, Self::Cancel, Self::Delete];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Cancel => "cancel",
            Self::Delete => "delete",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == word)
    }
}

/// Kind of the members of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BulkTarget {
    Items,
    Jobs,
}

impl BulkTarget {
    pub const ALL: [Self; 2] = [Self::Items, Self::Jobs];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Items => "items",
            Self::Jobs => "jobs",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|target| target.as_str() == word)
    }
}

/// State of a bulk operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum BulkState {
    /// The server is still searching for items or jobs; `total` grows.
    Counting,
    /// A dry run has ended: `total` is exact, and nothing was changed.
    Ready,
    /// The action is applied to one item or job after another.
    Running,
    /// Each item or job was counted once, as changed or as skipped.
    Completed,
    /// The operation changes nothing more, and releases what it has reserved.
    Cancelling,
    /// The operation was stopped; what it had already changed stays changed.
    Cancelled,
}

impl BulkState {
    pub const ALL: [Self; 6] =
        [Self::Counting, Self::Ready, Self::Running, Self::Completed, Self::Cancelling, Self::Cancelled];

    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Counting => "counting",
            Self::Ready => "ready",
            Self::Running => "running",
            Self::Completed => "completed",
            Self::Cancelling => "cancelling",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// One edit of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PayloadEdit {
    pub op: EditOp,
    /// JSON Pointer; `-` as the last token sets a value at the end of an array.
    pub path: String,
    /// With `set`: the new value, which may be null.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub value: Option<Document>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum EditOp {
    Set,
    Remove,
}

/// Keeps an explicit `null` apart from an absent field.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Document>, D::Error> {
    Document::deserialize(deserializer).map(Some)
}

impl PayloadEdit {
    /// The edit, or which field is wrong and what was expected there.
    pub fn read(&self) -> Result<Edit, (&'static str, &'static str)> {
        let short = crate::limits::is_text(&self.path, 0, crate::limits::LONGEST_POINTER);
        let pointer =
            Pointer::parse(&self.path).filter(|_| short).ok_or(("path", "expected a JSON Pointer, such as /a/b"))?;
        match (self.op, &self.value) {
            (EditOp::Set, Some(value)) => Ok(Edit::Set(pointer, value.clone())),
            (EditOp::Set, None) => Err(("value", "expected the value to be set; null is one")),
            (EditOp::Remove, None) if pointer.tokens().is_empty() => {
                Err(("path", "expected a place within the payload"))
            }
            (EditOp::Remove, None) => Ok(Edit::Remove(pointer)),
            (EditOp::Remove, Some(_)) => Err(("value", "expected none, as something is removed")),
        }
    }
}

/// Body of `POST /bulk-operations`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewBulk {
    /// Action: items are retried or canceled; jobs are canceled or deleted.
    pub action: BulkAction,
    pub target: BulkTarget,
    /// Object with at least one of the filters of `GET /items` or `GET /jobs`.
    pub filter: Document,
    /// With `retry`: changes of each payload.
    #[serde(default, deserialize_with = "crate::bounded::list")]
    pub payload_edit: Vec<PayloadEdit>,
    /// Reason, required for another owner's work; stored in the audit log.
    #[serde(default)]
    pub reason: Option<String>,
    /// Maximum number of members per second, over all servers; null: no limit.
    #[serde(default)]
    pub rate_per_second: Option<f64>,
    /// True to only count the members and return a sample of them.
    #[serde(default)]
    pub dry_run: bool,
}

/// A bulk operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkOperation {
    pub id: Uuid,
    pub action: BulkAction,
    pub target: BulkTarget,
    pub filter: Document,
    pub payload_edit: Vec<PayloadEdit>,
    pub reason: Option<String>,
    pub rate_per_second: Option<f64>,
    pub dry_run: bool,
    pub state: BulkState,
    /// Reason why the server stopped the operation: the credential that requested it is no longer valid.
    pub stopped_reason: Option<String>,
    /// Number of members; grows while the state is `counting`.
    pub total: i64,
    /// Number of members that were processed.
    pub processed: i64,
    /// Members that could not be processed, by reason.
    pub skipped: Vec<BulkSkipped>,
    /// Number of members that failed because of a server error; the server log has the details.
    pub errored: i64,
    /// Sample of the members, as they were when they were selected.
    pub sample: Vec<BulkSample>,
    /// Person or service that requested the operation.
    pub owner: Owner,
    pub created_at: Time,
    pub updated_at: Time,
    /// Time at which the operation became ready, completed or canceled.
    pub finished_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkSkipped {
    /// Problem code, or `edit_does_not_fit` or `payload_invalid`.
    pub reason: String,
    pub count: i64,
}

/// Member of a bulk operation, as it was when it was selected.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct BulkSample {
    /// Id of the item or job.
    pub id: Uuid,
    pub job_id: Uuid,
    pub root_id: Uuid,
    #[serde(rename = "type")]
    pub job_type: String,
    /// State of the item, or status of the job.
    pub state: String,
    /// Last error of the item, or status message of the job.
    pub message: Option<String>,
}

/// Body of `POST /items/{id}/replay` (`replay`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReplayBody {
    /// Payload, instead of the current one.
    pub payload: Option<Document>,
    /// Expiry, instead of the item's own.
    pub expires_at: Option<Time>,
    /// Reason, required for another owner's work; stored in the audit log.
    pub reason: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_payload_edit_is_explained() {
        let read = |text: &str| serde_json::from_str::<PayloadEdit>(text).expect(text).read().map_err(|fault| fault.0);
        assert!(read(r#"{"op":"set","path":"/a","value":null}"#).is_ok());
        assert!(read(r#"{"op":"remove","path":"/a"}"#).is_ok());
        assert_eq!(read(r#"{"op":"set","path":"/a"}"#), Err("value"));
        assert_eq!(read(r#"{"op":"set","path":"a","value":1}"#), Err("path"));
        assert_eq!(read(r#"{"op":"remove","path":""}"#), Err("path"));
        assert_eq!(read(r#"{"op":"remove","path":"/a","value":1}"#), Err("value"));
    }
}
