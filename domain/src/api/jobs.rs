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

/// An item to be added. An absent payload is `null`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewItem {
    pub payload: Option<Document>,
    pub dedupe_key: Option<String>,
    pub serialize_key: Option<String>,
    /// −100 to 100, higher first; absent: the job's.
    pub priority: Option<i16>,
    pub run_after: Option<Time>,
    pub expires_at: Option<Time>,
    pub metadata: Option<Document>,
    /// Not together with `dedupe_key` or `run_after`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub debounce: Option<Debounce>,
}

/// The file a job is filled from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobUpload {
    pub id: Uuid,
    /// Absent: the upload's own.
    #[serde(default)]
    pub format: Option<UploadFormat>,
    /// A table: whether the first record names the columns. Absent: true.
    #[serde(default)]
    pub header: Option<bool>,
    /// A table with a header: the line of the record that names the columns, from 1; what is above it is skipped. Of a
    /// workbook the number of the row in its sheet. Absent: the first record.
    #[serde(default)]
    pub header_row: Option<i64>,
    /// CSV: one character. Absent: found from the first lines.
    #[serde(default)]
    pub delimiter: Option<String>,
    /// Text: a label of the WHATWG Encoding Standard, such as `windows-1252` or `utf-8`. A byte order mark of UTF-16 is
    /// right in any case. Absent: found from the mark and the first lines.
    #[serde(default)]
    pub encoding: Option<String>,
    /// XLSX: the name of the sheet. Absent: the first one.
    #[serde(default)]
    pub sheet: Option<String>,
}

/// Receiver of the callback of a complete tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OnCompleted {
    pub url: String,
    /// Signs instead of the owner's key; a list of two while receivers change over, then both sign.
    #[serde(default)]
    pub secret: Option<SigningSecret>,
}

/// `POST /jobs`: a tree. Only `type` is required; `key` defaults to the type (then `type-2` …).
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
    /// Rows of the upload with changed cells, or that are left out. At most 1,000.
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

/// Answer to adding items.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Added {
    pub accepted: i64,
    pub duplicates: i64,
    /// Items that replaced the payload of a waiting item with the same debounce key, and are no items of their own.
    #[serde(default)]
    pub merged: i64,
    pub sealed: bool,
}

/// `POST /items/{id}/retry` (`manual-retry`).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RetryBody {
    /// Instead of the payload as it is; the original stays readable.
    pub payload: Option<Document>,
    /// Required where the item's time is up.
    pub expires_at: Option<Time>,
    /// Forget the steps it has reached.
    pub restart: bool,
    /// Required on someone else's work; kept in the audit log.
    pub reason: Option<String>,
}

/// `POST /jobs/{id}/cancel`, `POST /items/{id}/cancel` and other deeds that only take a reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ReasonBody {
    /// Required on someone else's work; kept in the audit log.
    pub reason: Option<String>,
}
