//! Bodies that create trees and add items.

use serde::{Deserialize, Serialize};

use crate::{
    Document, Time, bounded,
    debounce::Debounce,
    id::Uuid,
    import::{mapping::Mapping, row_edit::RowEdit, upload::UploadFormat},
    item::MaxFailures,
    job_type::SigningSecret,
};

/// Item to add. An absent payload is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewItem {
    pub payload: Option<Document>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    /// Priority, −100 to 100, higher first; absent: that of the job.
    pub priority: Option<i16>,
    pub run_after: Option<Time>,
    pub expires_at: Option<Time>,
    pub metadata: Option<Document>,
    /// Debounce; not allowed with `dedupe_key` or `run_after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Debounce>,
}

/// File that a job is created from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobUpload {
    pub id: Uuid,
    /// Format of the file. Absent: that of the upload.
    #[serde(default)]
    pub format: Option<UploadFormat>,
    /// Table: true if the first record contains the column names. Absent: true.
    #[serde(default)]
    pub header: Option<bool>,
    /// Table with a header: line of the record with the column names, from 1; everything above it is skipped. In a
    /// workbook, the number of the row in its sheet. Absent: the first record.
    #[serde(default)]
    pub header_row: Option<i64>,
    /// CSV: delimiter, one character. Absent: detected from the first lines.
    #[serde(default)]
    pub delimiter: Option<String>,
    /// Text: label of the WHATWG Encoding Standard, such as `windows-1252` or `utf-8`. A UTF-16 byte order mark always
    /// takes precedence. Absent: detected from the byte order mark and the first lines.
    #[serde(default)]
    pub encoding: Option<String>,
    /// XLSX: name of the sheet. Absent: the first one that is not hidden.
    #[serde(default)]
    pub sheet: Option<String>,
}

/// Receiver of the callback of a complete tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OnCompleted {
    pub url: String,
    /// Signing secret, instead of the owner's key; a list of two while receivers switch to a new secret, then both
    /// sign.
    #[serde(default)]
    pub secret: Option<SigningSecret>,
}

/// Body of `POST /jobs`: a tree. Only `type` is required; `key` defaults to the type (then `type-2` …).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewJob {
    #[serde(rename = "type")]
    pub job_type: String,
    #[serde(default)]
    pub id: Option<Uuid>,
    #[serde(default)]
    pub key: Option<String>,
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default, deserialize_with = "bounded::list")]
    pub items: Vec<NewItem>,
    #[serde(default)]
    pub sealed: bool,
    #[serde(default)]
    pub dedupe_key: Option<String>,
    #[serde(default)]
    pub max_failures: Option<MaxFailures>,
    #[serde(default)]
    pub final_stage: bool,
    #[serde(default)]
    pub metadata: Option<Document>,
    #[serde(default)]
    pub initiated_by: Option<String>,
    #[serde(default)]
    pub expected_count: Option<i64>,
    #[serde(default)]
    pub run_after: Option<Time>,
    #[serde(default)]
    pub expires_at: Option<Time>,
    #[serde(default)]
    pub priority: Option<i16>,
    #[serde(default)]
    pub on_completed: Option<OnCompleted>,
    #[serde(default)]
    pub upload: Option<JobUpload>,
    /// Columns of the upload that become properties of the payload. Absent: all, under their names in the file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mapping: Option<Mapping>,
    /// Rows of the upload to change or omit, at most 1,000.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "bounded::list")]
    pub edits: Vec<RowEdit>,
    #[serde(default, deserialize_with = "bounded::list")]
    pub after: Vec<String>,
    #[serde(default)]
    pub after_outcome: Option<String>,
    #[serde(default)]
    pub feed: Option<Document>,
    #[serde(default, deserialize_with = "bounded::list")]
    #[cfg_attr(feature = "openapi", schema(no_recursion))]
    pub children: Vec<NewJob>,
}

impl NewJob {
    /// A job of the given type with every default.
    pub fn of(job_type: &str) -> Self {
        Self {
            job_type: job_type.to_owned(),
            id: None,
            key: None,
            name: None,
            items: Vec::new(),
            sealed: false,
            dedupe_key: None,
            max_failures: None,
            final_stage: false,
            metadata: None,
            initiated_by: None,
            expected_count: None,
            run_after: None,
            expires_at: None,
            priority: None,
            on_completed: None,
            upload: None,
            mapping: None,
            edits: Vec::new(),
            after: Vec::new(),
            after_outcome: None,
            feed: None,
            children: Vec::new(),
        }
    }
}

/// Response of `POST /jobs/{id}/items`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Added {
    pub accepted: i64,
    pub duplicates: i64,
    /// Number of items that replaced the payload of a waiting item with the same debounce key, and are not added
    /// themselves.
    #[serde(default)]
    pub merged: i64,
    pub sealed: bool,
}

/// Body of `POST /items/{id}/retry` (`manual-retry`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetryBody {
    /// Payload, instead of the current one; the original stays readable.
    pub payload: Option<Document>,
    /// New expiry, required if the item has expired.
    pub expires_at: Option<Time>,
    /// True to discard the steps that the item has reached.
    pub restart: bool,
    /// Reason, required for another owner's work; stored in the audit log.
    pub reason: Option<String>,
}

/// `POST /jobs/{id}/cancel`, `POST /items/{id}/cancel` and other deeds that only take a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasonBody {
    /// Reason, required for another owner's work; stored in the audit log.
    pub reason: Option<String>,
}
