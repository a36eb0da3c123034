//! Exports: rows of a tree written to a file, and the lines they are made of.

use serde::{Deserialize, Serialize};

use crate::{Document, ItemState, id::Uuid, item::ItemError};

/// Rows that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExportWhat {
    /// Results of the final stage (`final-stage`).
    Results,
    /// Items that did not succeed.
    Failures,
    /// Every item of the job and the jobs below it, as it is now.
    Items,
}

impl ExportWhat {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Results => "results",
            Self::Failures => "failures",
            Self::Items => "items",
        }
    }
}

/// Format of the rows: a JSON value on each line, or a table as text or as a workbook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExportFormat {
    #[default]
    Ndjson,
    Csv,
    Xlsx,
}

impl ExportFormat {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ndjson => "ndjson",
            Self::Csv => "csv",
            Self::Xlsx => "xlsx",
        }
    }
}

/// Format of an export, and how a CSV file is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportLayout {
    pub format: ExportFormat,
    /// Character between columns of CSV; by default that of the imported file, else a comma.
    pub delimiter: Option<char>,
    /// True for a byte order mark, by which Excel knows that CSV is UTF-8; by default as in the imported file.
    pub bom: Option<bool>,
}

/// The payload of an item whose executor is `export`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExportOrder {
    pub job_id: Uuid,
    pub what: ExportWhat,
    #[serde(default)]
    pub format: ExportFormat,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delimiter: Option<char>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bom: Option<bool>,
}

impl ExportOrder {
    pub const fn layout(&self) -> ExportLayout {
        ExportLayout { format: self.format, delimiter: self.delimiter, bom: self.bom }
    }
}

/// Its result: the file is an upload of the item's owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exported {
    pub upload_id: Uuid,
    pub rows: i64,
    pub bytes: i64,
}

/// One item of an export of items.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ItemLine {
    pub item_id: Uuid,
    pub job_id: Uuid,
    pub row: Option<i64>,
    pub payload: Document,
    pub state: ItemState,
    pub attempts: i32,
    pub result: Option<Document>,
    pub error: Option<ItemError>,
}
