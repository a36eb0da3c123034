//! Quick fixes: cells changed as proposed, one or all of a column, and rows of a column with a problem left out.

use domain::import::{
    file_check::{CheckedRow, FileCheck},
    row_edit::{LONGEST_EDITED_CELL, MOST_ROW_EDITS, RowEdit},
};

/// Fix of one row or of all rows with a problem in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QuickFix {
    what: What,
    /// Index of the column with the problem.
    column: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    /// The cell of this line.
    Line(i64),
    /// All cells with a proposal.
    All,
    /// Leaves out all rows without a proposal.
    LeaveOut,
}

impl QuickFix {
    /// Reads `51-1` (line and column), `all-1`, or `out-1`.
    pub(super) fn parse(value: &str) -> Option<Self> {
        let (what, column) = value.split_once('-')?;
        let what = match what {
            "all" => What::All,
            "out" => What::LeaveOut,
            line => What::Line(line.parse().ok()?),
        };
        Some(Self { what, column: column.parse().ok()? })
    }

    /// Adds the edits that the rows of a check need.
    pub(super) fn apply(self, check: &FileCheck, edits: &mut Vec<RowEdit>) {
        for row in check.listed.iter().filter(|row| self.concerns(row)) {
            let at = edits.iter().position(|edit| edit.row == row.row);
            if at.is_none() && edits.len() >= MOST_ROW_EDITS {
                break;
            }
            let mut edit = at.map_or_else(RowEdit::default, |at| edits.remove(at));
            edit.row = row.row;
            if self.what == What::LeaveOut {
                edit = RowEdit { row: row.row, leave_out: true, ..RowEdit::default() };
            } else if let Some(text) = &row.suggestion {
                let name = check.columns.get(self.column).cloned().unwrap_or_else(|| (self.column + 1).to_string());
                edit.cells.insert(name, text.chars().take(LONGEST_EDITED_CELL).collect());
            }
            edits.push(edit);
        }
        edits.sort_by_key(|edit| edit.row);
    }

    fn concerns(self, row: &CheckedRow) -> bool {
        let is_here = row.problem.is_some() && row.column == i64::try_from(self.column + 1).ok();
        is_here
            && match self.what {
                What::Line(line) => row.row == line && row.suggestion.is_some(),
                What::All => row.suggestion.is_some(),
                What::LeaveOut => row.suggestion.is_none(),
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(row: i64, suggestion: Option<&str>) -> CheckedRow {
        CheckedRow {
            row,
            cells: vec!["a".to_owned(), "b".to_owned()],
            cells_in_file: None,
            suggestion: suggestion.map(str::to_owned),
            problem: Some("wrong".to_owned()),
            column: Some(2),
            needs_file: false,
            edited: false,
            left_out: false,
        }
    }

    #[test]
    fn a_fix_concerns_one_row_or_all_of_a_column() {
        let listed = vec![row(2, Some("x")), row(3, None), row(4, Some("y"))];
        let columns = vec!["id".to_owned(), "sum".to_owned()];
        let check = FileCheck { rows: 9, failed: 3, left_out: 0, columns, listed, is_cut: false };
        let edits = |fix: &str| {
            let mut edits =
                vec![RowEdit { row: 4, cells: [("id".to_owned(), "7".to_owned())].into(), leave_out: false }];
            QuickFix::parse(fix).expect(fix).apply(&check, &mut edits);
            edits.iter().map(|edit| format!("{} {:?} {}", edit.row, edit.cells, edit.leave_out)).collect::<Vec<_>>()
        };
        let unchanged = "4 {\"id\": \"7\"} false";
        assert_eq!(edits("2-1"), ["2 {\"sum\": \"x\"} false", unchanged]);
        assert_eq!(edits("all-1"), ["2 {\"sum\": \"x\"} false", "4 {\"id\": \"7\", \"sum\": \"y\"} false"]);
        assert_eq!(edits("out-1"), ["3 {} true", unchanged]);
        assert_eq!(edits("all-0"), [unchanged]);
        assert_eq!(QuickFix::parse("all"), None);
    }
}
