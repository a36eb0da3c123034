//! Lists of failures that were exported, corrected, and uploaded again.

use super::{FaultKind, Head};

/// Last columns of an exported list of failures. When it is uploaded again, they are removed: `row` is then the value
/// of `_line`, and cells are unescaped.
pub const FAILURE_COLUMNS: [&str; 3] = ["_line", "_code", "_problem"];

/// Column of a list of failures whose payloads are not rows of a table: the payload as JSON.
const PAYLOAD_COLUMN: &str = "_payload";

/// Columns before [`FAILURE_COLUMNS`] in a list of failures without names of columns. `width`: number of cells of an
/// array, or 0 for a payload as JSON. When the list is uploaded again, its rows have the same shape.
pub fn nameless_columns(width: usize) -> Vec<String> {
    if width == 0 { vec![PAYLOAD_COLUMN.to_owned()] } else { (1..=width).map(|n| format!("_{n}")).collect() }
}

/// Cell behind the last column of a row of which the list has only a part, so that the row has too many cells until
/// somebody has completed it.
const INCOMPLETE: &str = "Incomplete: empty this cell once the row is whole";

/// Cells behind the last column of a list: the surplus ones of a row, or that it is incomplete. `message`: of its error,
/// because workers may use the same codes.
pub fn surplus_cells(code: &str, message: &str, surplus: Vec<String>) -> Vec<String> {
    let is_part = [FaultKind::OpenQuote, FaultKind::TooLarge].iter().any(|kind| kind.as_str() == code);
    if is_part && message.starts_with("Line ") { vec![INCOMPLETE.to_owned()] } else { surplus }
}

/// Names of the columns of a file without the empty ones that a spreadsheet adds behind a list of failures in which a row
/// has surplus cells.
pub(super) fn without_padding(mut columns: Vec<String>) -> Vec<String> {
    let named = columns.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
    if columns[..named].ends_with(&FAILURE_COLUMNS.map(String::from)) {
        columns.truncate(named);
    }
    columns
}

/// Cell of a payload in such a list: the payload as JSON, or the text that was no JSON.
pub fn payload_cell(payload: &str, code: &str) -> String {
    let text = if code == FaultKind::InvalidJson.as_str() { serde_json::from_str(payload).ok() } else { None };
    text.unwrap_or_else(|| payload.to_owned())
}

/// Shape of the payloads of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// Object by column name.
    Object,
    Array,
    /// The value that the only cell has as JSON.
    Json,
}

impl Head {
    /// Returns true if the file is an exported list of failures.
    pub fn is_returned(&self) -> bool {
        self.columns.as_ref().is_some_and(|columns| {
            columns.len() > FAILURE_COLUMNS.len() && columns.ends_with(&FAILURE_COLUMNS.map(String::from))
        })
    }

    pub(super) fn shape(&self) -> Shape {
        let Some(columns) = &self.columns else { return Shape::Array };
        let names = &columns[..self.data_width()];
        match names {
            _ if !self.is_returned() => Shape::Object,
            [only] if only == PAYLOAD_COLUMN => Shape::Json,
            _ if nameless_columns(names.len()) == names => Shape::Array,
            _ => Shape::Object,
        }
    }

    /// Number of cells of a row.
    pub fn data_width(&self) -> usize {
        if self.is_returned() { self.width - FAILURE_COLUMNS.len() } else { self.width }
    }

    /// Names of the columns, if the properties of a payload have them.
    pub fn data_columns(&self) -> Option<&[String]> {
        let names = self.columns.as_ref().map(|columns| &columns[..self.data_width()]);
        names.filter(|_| self.shape() == Shape::Object)
    }
}
