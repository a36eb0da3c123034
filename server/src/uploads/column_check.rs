//! Check of a file's columns and first rows against a schema, in sentences for the author of the file.
//!
//! Each problem of a column is reported once, not once per row: the missing or unknown column, or the first line with
//! an invalid cell.

use domain::{
    Document,
    import::upload::{ColumnCheck, ColumnFinding, FindingKind},
};

use engine::schema::{Schema, display_value};

/// Maximum number of reported findings.
const MOST: usize = 30;

/// Check in progress.
pub(super) struct Check<'a> {
    schema: &'a Schema,
    /// Column names of a table.
    columns: Option<&'a [String]>,
    is_table: bool,
    expected: Vec<String>,
    rows: i64,
    findings: Vec<ColumnFinding>,
    /// Invalid cells: column, expectation, and number of further ones.
    cells: Vec<Cell>,
}

struct Cell {
    column: Option<String>,
    expected: String,
    found: String,
    line: i64,
    more: i64,
}

impl<'a> Check<'a> {
    /// Starts a check with the column names, if there are any.
    pub(super) fn new(schema: &'a Schema, columns: Option<&'a [String]>, is_table: bool) -> Self {
        let (expected, required) = schema.names();
        let mut findings = Vec::new();
        let mut find = |column: &str, kind, message| {
            findings.push(ColumnFinding { column: Some(column.to_owned()), kind, message, row: None });
        };
        if let Some(columns) = columns {
            for name in required.iter().filter(|name| !columns.contains(name)) {
                find(name, FindingKind::Missing, format!("Column {name} is missing; every row needs it."));
            }
            for name in columns.iter().filter(|name| !expected.is_empty() && !expected.contains(name)) {
                find(name, FindingKind::Unknown, format!("Column {name} is not among those that are expected."));
            }
        }
        Self { schema, columns, is_table, expected, rows: 0, findings, cells: Vec::new() }
    }

    /// Checks one more row.
    pub(super) fn look(&mut self, line: i64, payload: &Document) {
        self.rows += 1;
        for (pointer, expected) in self.schema.faults(payload) {
            let column = self.column(&pointer);
            if self.findings.iter().any(|finding| finding.column.is_some() && finding.column == column) {
                continue;
            }
            let expected = expected.strip_prefix("expected ").unwrap_or(&expected).to_owned();
            if let Some(known) = self.cells.iter_mut().find(|cell| cell.column == column && cell.expected == expected) {
                known.more += i64::from(known.line != line);
            } else if self.cells.len() < MOST {
                let found = display_value(payload, &pointer);
                self.cells.push(Cell { column, expected, found, line, more: 0 });
            }
        }
    }

    /// Column of a pointer.
    fn column(&self, pointer: &str) -> Option<String> {
        let first = pointer.split('/').nth(1)?.replace("~1", "/").replace("~0", "~");
        match first.parse::<usize>() {
            Ok(place) if self.is_table && self.columns.is_none() => Some((place + 1).to_string()),
            _ => Some(first),
        }
    }

    /// Returns the findings.
    pub(super) fn end(self, job_type: &str) -> ColumnCheck {
        let what = if self.is_table { "Column" } else { "Field" };
        let rows = self.rows;
        let cells = self.cells.into_iter().map(|cell| {
            let Cell { column, expected, found, line, more } = cell;
            let place = column.as_ref().map_or_else(|| "The row".to_owned(), |name| format!("{what} {name}"));
            let more = match more {
                0 => String::new(),
                1 => format!(", and one more like it in the first {rows} rows"),
                more => format!(", and {more} more like it in the first {rows} rows"),
            };
            let message = format!("{place}: expected {expected}, found {found} in line {line}{more}.");
            ColumnFinding { column, kind: FindingKind::Mismatch, message, row: Some(line) }
        });
        let mut findings = self.findings;
        findings.extend(cells);
        findings.truncate(MOST);
        ColumnCheck { job_type: job_type.to_owned(), expected: self.expected, rows, findings }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(schema: &str, columns: Option<&[&str]>, rows: &[&str]) -> Vec<String> {
        let schema = Schema::compile(schema).expect("schema");
        let columns: Option<Vec<String>> = columns.map(|all| all.iter().map(|&name| name.to_owned()).collect());
        let mut check = Check::new(&schema, columns.as_deref(), true);
        for (line, row) in (2..).zip(rows) {
            check.look(line, &Document::parse((*row).to_owned()).expect("a payload"));
        }
        check.end("a").findings.into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn a_column_is_reported_once() {
        let schema = r#"{"type":"object","required":["id","amount"],"additionalProperties":false,
            "properties":{"id":{"type":"integer"},"amount":{"type":"number"}}}"#;
        assert_eq!(messages(schema, Some(&["id", "amount"]), &[r#"{"id":1,"amount":2}"#]), [""; 0]);
        assert_eq!(
            messages(schema, Some(&["id", "amuont"]), &[r#"{"id":"x","amuont":"2"}"#, r#"{"id":"y","amuont":"2"}"#]),
            [
                "Column amount is missing; every row needs it.",
                "Column amuont is not among those that are expected.",
                "Column id: expected a whole number, found \"x\" in line 2, and one more like it in the first 2 rows.",
            ]
        );
        assert_eq!(
            messages(schema, Some(&["id", "amount"]), &[r#"{"id":1,"amount":2}"#, r#"{"id":1,"amount":"12 CHF"}"#]),
            ["Column amount: expected a number, found \"12 CHF\" in line 3."]
        );
        assert_eq!(messages(schema, None, &["[1,2]"]), ["The row: expected an object, found an array in line 2."]);
        let array = r#"{"prefixItems":[{"type":"integer"}]}"#;
        assert_eq!(messages(array, None, &[r#"["x"]"#]), ["Column 1: expected a whole number, found \"x\" in line 2."]);
    }
}
