//! Rows with edits: cells that a person changed before the import, and rows that are left out.

use std::collections::BTreeMap;

use domain::import::{row_edit::RowEdit, upload::UploadFormat};
use serde::{Deserialize, Serialize};

use super::{Fault, FaultKind, Head};

/// Edit of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CellEdits {
    /// New texts by the index of their column in the file.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) cells: BTreeMap<usize, String>,
    #[serde(default)]
    pub(super) leave_out: bool,
}

impl Head {
    /// Sets the edits of rows.
    ///
    /// # Errors
    ///
    /// Columns that the file does not have: JSON Pointer into the edits, and expectation.
    pub fn with_edits(mut self, edits: &[RowEdit]) -> Result<Self, Vec<(String, String)>> {
        let mut wrong = Vec::new();
        for (place, edit) in edits.iter().enumerate() {
            let mut cells = BTreeMap::new();
            // Elements of an array may share a line.
            if matches!(self.format, UploadFormat::Json | UploadFormat::None) {
                let expected = "expected edits only for CSV, a workbook, NDJSON, and lines of text";
                wrong.push((format!("/{place}/row"), expected.to_owned()));
                continue;
            }
            if !edit.cells.is_empty() && !self.format.is_table() {
                wrong.push((format!("/{place}/cells"), "expected only for CSV or a workbook".to_owned()));
                continue;
            }
            for (name, text) in &edit.cells {
                if let Some(column) = self.column_of(name) {
                    cells.insert(column, text.clone());
                } else {
                    let name = name.replace('~', "~0").replace('/', "~1");
                    let expected = "expected the name of a column of the file";
                    wrong.push((format!("/{place}/cells/{name:.100}"), expected.to_owned()));
                }
            }
            self.edits.insert(edit.row, CellEdits { cells, leave_out: edit.leave_out });
        }
        if wrong.is_empty() { Ok(self) } else { Err(wrong) }
    }

    /// Index of a column by its name; in a table without a header, by its number from 1.
    fn column_of(&self, name: &str) -> Option<usize> {
        match self.data_columns() {
            Some(names) => names.iter().position(|one| one == name),
            None => name.parse::<usize>().ok()?.checked_sub(1).filter(|&column| column < self.data_width()),
        }
    }
}

impl CellEdits {
    /// Replaces cells of a row, which then has `width` cells. Returns the fault that is left.
    pub(super) fn apply(&self, cells: &mut Vec<String>, width: usize, fault: Option<Fault>) -> Option<Fault> {
        if fault.as_ref().is_some_and(|fault| fault.kind.needs_file()) {
            return fault;
        }
        cells.resize(width, String::new());
        for (&column, text) in &self.cells {
            cells[column].clone_from(text);
        }
        // What could not be read was replaced by this character.
        let fault = fault.filter(|fault| fault.kind == FaultKind::BadEncoding)?;
        let unreadable = cells.iter().position(|cell| cell.contains('\u{FFFD}'))?;
        Some(Fault { column: unreadable + 1, name: None, ..fault })
    }
}

impl FaultKind {
    /// Returns true if other cells do not make the row usable, because its end is not known.
    pub const fn needs_file(self) -> bool {
        matches!(self, Self::OpenQuote | Self::TooLarge | Self::InvalidJson)
    }
}
