//! Edits of the rows of a file before they become items: `edits` of a job, and of the check of its file.

use std::collections::{BTreeMap, HashSet};

use serde::{Deserialize, Serialize};

use crate::{import::mapping::LONGEST_COLUMN, limits::is_text};

/// Maximum number of edited rows of a file.
pub const MOST_ROW_EDITS: usize = 1_000;

/// Maximum characters of an edited cell.
pub const LONGEST_EDITED_CELL: usize = 10_000;

/// Maximum bytes of all edited cells together.
pub const LARGEST_ROW_EDITS: usize = 1 << 20;

/// Row with changed cells, or row to omit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RowEdit {
    /// First line of the row in the file, from 1; in a workbook, its number in the sheet. A number without a row has no
    /// effect.
    pub row: i64,
    /// New cells by column name in the header; without a header, by column number from 1. Only for tables.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cells: BTreeMap<String, String>,
    /// True if the row does not become an item.
    #[serde(default)]
    pub leave_out: bool,
}

impl RowEdit {
    /// Returns the faults of edits: JSON Pointer into the list, and expectation.
    pub fn problems(edits: &[Self]) -> Vec<(String, String)> {
        if edits.len() > MOST_ROW_EDITS {
            return vec![(String::new(), format!("expected at most {MOST_ROW_EDITS} rows"))];
        }
        let bytes: usize = edits.iter().flat_map(|edit| edit.cells.values()).map(String::len).sum();
        if bytes > LARGEST_ROW_EDITS {
            return vec![(String::new(), format!("expected at most {LARGEST_ROW_EDITS} bytes of cells"))];
        }
        let mut problems_found = Vec::new();
        let mut seen = HashSet::new();
        for (place, edit) in edits.iter().enumerate() {
            if edit.row < 1 || !seen.insert(edit.row) {
                problems_found
                    .push((format!("/{place}/row"), "expected the line of a row, from 1, each once".to_owned()));
            }
            if edit.leave_out != edit.cells.is_empty() {
                problems_found.push((format!("/{place}/cells"), "expected either cells, or leave_out true".to_owned()));
            }
            for (name, text) in &edit.cells {
                // A pointer to a name of any length is no help.
                let pointer = format!("/{place}/cells/{:.100}", name.replace('~', "~0").replace('/', "~1"));
                if !is_text(name, 1, LONGEST_COLUMN) {
                    problems_found.push((pointer, "expected the name of a column".to_owned()));
                } else if !is_text(text, 0, LONGEST_EDITED_CELL) {
                    let expected = format!("expected at most {LONGEST_EDITED_CELL} characters, none of them NUL");
                    problems_found.push((pointer, expected));
                }
            }
        }
        problems_found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_problem_is_named() {
        let edits = |text: &str| serde_json::from_str::<Vec<RowEdit>>(text).expect(text);
        let good = edits(r#"[{"row":2,"cells":{"Betrag":"1,50"}},{"row":3,"leave_out":true}]"#);
        assert_eq!(RowEdit::problems(&good), []);
        let bad = edits(
            r#"[{"row":0,"leave_out":true},{"row":2},{"row":2,"cells":{"a/b":"x\u0000"}},
                {"row":4,"cells":{"":"x"}},{"row":5,"cells":{"a":"x"},"leave_out":true}]"#,
        );
        let pointers: Vec<String> = RowEdit::problems(&bad).into_iter().map(|(pointer, _)| pointer).collect();
        assert_eq!(pointers, ["/0/row", "/1/cells", "/2/row", "/2/cells/a~1b", "/3/cells/", "/4/cells"]);
        let many = (1..=1_001).map(|row| RowEdit { row, leave_out: true, ..RowEdit::default() }).collect::<Vec<_>>();
        assert_eq!(RowEdit::problems(&many)[0].1, "expected at most 1000 rows");
    }
}
