//! Rows of a file as typed in the form of a new import: which cells were changed, and which rows are left out.
//!
//! A row with fields carries its texts in the file (`row-51`), so that unchanged cells are no edits. Names of columns
//! are carried too: the file may meanwhile be read in another way, and edits of columns that it still has stay.

use std::collections::{BTreeMap, BTreeSet};

use domain::import::row_edit::RowEdit;

/// Fields of the rows, as received.
#[derive(Debug, Default)]
pub(super) struct TypedRows {
    /// Names of the columns by their place; empty without a header.
    columns: BTreeMap<usize, String>,
    /// Texts in the file; `None` for a cell without a field.
    in_file: BTreeMap<i64, Vec<Option<String>>>,
    typed: BTreeMap<(i64, usize), String>,
    left_out: BTreeSet<i64>,
    /// Rows with too many or too few cells that are accepted.
    filled: BTreeSet<i64>,
    /// Edits of rows that were not shown.
    hidden_edits: Vec<RowEdit>,
    /// Sheet of the rows.
    sheet: String,
}

impl TypedRows {
    /// Takes a field, or returns it if it is not one of the rows.
    pub(super) fn take(&mut self, name: &str, value: String) -> Option<String> {
        match name {
            "edits" => self.hidden_edits = serde_json::from_str(&value).unwrap_or_default(),
            "edited-sheet" => self.sheet = value,
            _ => return self.take_numbered(name, value),
        }
        None
    }

    fn take_numbered(&mut self, name: &str, value: String) -> Option<String> {
        let Some((part, rest)) = name.split_once('-') else { return Some(value) };
        let line = rest.parse::<i64>().ok().filter(|&line| line > 0);
        match (part, line) {
            ("column", _) => drop(rest.parse().ok().map(|place| self.columns.insert(place, value))),
            ("row", Some(line)) => {
                self.in_file.insert(line, serde_json::from_str(&value).unwrap_or_default());
            }
            ("out", Some(line)) => drop(self.left_out.insert(line)),
            ("fill", Some(line)) => drop(self.filled.insert(line)),
            ("cell", _) => {
                let place =
                    rest.split_once('-').and_then(|(line, place)| Some((line.parse().ok()?, place.parse().ok()?)));
                if let Some(place) = place {
                    self.typed.insert(place, value);
                }
            }
            _ => return Some(value),
        }
        None
    }

    /// Edits of the rows. `sheet`: the one that is read now; rows of another one are not meant.
    pub(super) fn edits(self, sheet: &str) -> Vec<RowEdit> {
        if self.sheet != sheet {
            return Vec::new();
        }
        let mut edits: BTreeMap<i64, RowEdit> = self.hidden_edits.iter().map(|edit| (edit.row, edit.clone())).collect();
        for (&row, in_file) in &self.in_file {
            let cells = self.changed(row, in_file);
            if cells.is_empty() {
                edits.remove(&row);
            } else {
                edits.insert(row, RowEdit { row, cells, leave_out: false });
            }
        }
        for &row in &self.left_out {
            edits.insert(row, RowEdit { row, leave_out: true, ..RowEdit::default() });
        }
        edits.into_values().collect()
    }

    fn changed(&self, row: i64, in_file: &[Option<String>]) -> BTreeMap<String, String> {
        let mut cells = BTreeMap::new();
        for (&(_, place), typed) in self.typed.range((row, 0)..=(row, usize::MAX)) {
            let typed = with_line_feeds(typed);
            // A row with too few cells has none here.
            let before = in_file.get(place).map_or(Some(""), Option::as_deref);
            if before.is_some_and(|before| with_line_feeds(before) != typed) {
                cells.insert(self.name(place), typed);
            }
        }
        if cells.is_empty() && self.filled.contains(&row) {
            // An edit of any cell gives the row as many cells as there are columns.
            let same = in_file.iter().enumerate().find_map(|(place, text)| Some((place, text.clone()?)));
            let (place, text) = same.unwrap_or_default();
            cells.insert(self.name(place), text);
        }
        cells
    }

    fn name(&self, place: usize) -> String {
        self.columns.get(&place).cloned().unwrap_or_else(|| (place + 1).to_string())
    }
}

/// Browsers send all line ends as CR LF.
fn with_line_feeds(text: &str) -> String {
    text.replace("\r\n", "\n").replace('\r', "\n")
}

/// Keeps edits of columns that the file has. `columns`: their names; without a header `None`.
pub(super) fn keep_known(edits: &mut Vec<RowEdit>, columns: Option<&[String]>, width: usize) {
    let is_known = |name: &String| match columns {
        Some(columns) => columns.contains(name),
        None => name.parse::<usize>().is_ok_and(|number| (1..=width).contains(&number)),
    };
    for edit in &mut *edits {
        edit.cells.retain(|name, _| is_known(name));
    }
    edits.retain(|edit| edit.leave_out || !edit.cells.is_empty());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn typed(fields: &[(&str, &str)]) -> TypedRows {
        let mut rows = TypedRows::default();
        for (name, value) in fields {
            assert_eq!(rows.take(name, (*value).to_owned()), None, "{name}");
        }
        rows
    }

    fn brief(edits: &[RowEdit]) -> Vec<String> {
        edits.iter().map(|edit| format!("{} {:?} {}", edit.row, edit.cells, edit.leave_out)).collect()
    }

    #[test]
    fn only_changed_cells_are_edits() {
        let rows = typed(&[
            ("column-0", "id"),
            ("column-1", "sum"),
            ("row-2", r#"["1","x\ny"]"#),
            ("cell-2-0", "1"),
            ("cell-2-1", "x\r\ny"),
            ("row-3", r#"["2",null]"#),
            ("cell-3-0", "7"),
            ("row-4", r#"["3"]"#),
            ("cell-4-1", ""),
            ("fill-4", "yes"),
            ("row-5", r#"["4","5"]"#),
            ("cell-5-1", "6"),
            ("out-5", "yes"),
            ("edits", r#"[{"row":3,"cells":{"sum":"0"}},{"row":99,"leave_out":true}]"#),
        ]);
        let expected = ["3 {\"id\": \"7\"} false", "4 {\"id\": \"3\"} false", "5 {} true", "99 {} true"];
        assert_eq!(brief(&rows.edits("")), expected);
        assert_eq!(TypedRows::default().take("to-3", "x".to_owned()), Some("x".to_owned()));
        assert_eq!(typed(&[("out-5", "yes"), ("edited-sheet", "March")]).edits("April"), []);
    }

    #[test]
    fn edits_of_columns_that_the_file_does_not_have_are_dropped() {
        let mut edits = typed(&[("row-2", r#"["1","2"]"#), ("cell-2-0", "3"), ("cell-2-1", "4")]).edits("");
        keep_known(&mut edits, None, 1);
        assert_eq!(brief(&edits), ["2 {\"1\": \"3\"} false"]);
        keep_known(&mut edits, Some(&["sum".to_owned()]), 1);
        assert_eq!(edits, []);
    }
}
