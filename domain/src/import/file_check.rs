//! Check of all rows of a stored file before a job is created from it: `POST /uploads/{id}/check`.

use serde::{Deserialize, Serialize};

use crate::{
    bounded,
    import::{mapping::Mapping, row_edit::RowEdit, upload::UploadFormat},
};

/// Maximum number of rows that a check lists.
pub const MOST_LISTED_ROWS: usize = 1_000;

/// Job type and options for reading the file; the fields have the same names as in `POST /jobs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileCheckBody {
    #[serde(rename = "type")]
    pub job_type: String,
    #[serde(default)]
    pub format: Option<UploadFormat>,
    #[serde(default)]
    pub header: Option<bool>,
    #[serde(default)]
    pub header_row: Option<i64>,
    #[serde(default)]
    pub delimiter: Option<String>,
    #[serde(default)]
    pub encoding: Option<String>,
    #[serde(default)]
    pub sheet: Option<String>,
    #[serde(default)]
    pub mapping: Option<Mapping>,
    #[serde(default, deserialize_with = "bounded::list")]
    pub edits: Vec<RowEdit>,
}

/// Result of the check of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FileCheck {
    /// Number of rows in the file, all of which were read.
    pub rows: i64,
    /// Number of rows that would fail.
    pub failed: i64,
    /// Number of rows that the edits omit.
    pub left_out: i64,
    /// Names of the columns of a table with a header, as in the file.
    pub columns: Vec<String>,
    /// Rows that would fail and rows with edits, in the order of the file, at most 1,000.
    pub listed: Vec<CheckedRow>,
    /// True if there are more such rows than `listed` contains.
    pub is_cut: bool,
}

/// One row of a checked file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckedRow {
    /// First line of the row in the file, from 1; in a workbook, its number in the sheet.
    pub row: i64,
    /// Cells of a table row by column, after the edits; cells beyond the last column come last.
    pub cells: Vec<String>,
    /// Texts of an edited row as they are in the file. Only for pages.
    #[serde(skip)]
    pub cells_in_file: Option<Vec<String>>,
    /// Text that would fit in the cell with the problem. Only for pages.
    #[serde(skip)]
    pub suggestion: Option<String>,
    /// Reason why the row would fail; null if it would not.
    pub problem: Option<String>,
    /// Number of the column with the problem, from 1; null for a file that is not a table, or without a problem.
    pub column: Option<i64>,
    /// True if the problem cannot be solved by editing cells, such as a quote that is never closed.
    pub needs_file: bool,
    /// True if the row has edits.
    pub edited: bool,
    /// True if the edits omit the row.
    pub left_out: bool,
}
