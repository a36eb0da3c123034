//! Payloads as table cells, and escaping of cells that a spreadsheet would execute.
//!
//! A cell that starts with `=`, `+`, `-`, `@`, their full-width forms, a tab or a carriage return gets a leading
//! apostrophe, unless it is a plain number. The same applies inside a cell after every character at which a spreadsheet
//! of another locale might split it. To make this reversible, text that starts with apostrophes followed by such a
//! character gets one more. Unescaping removes one wherever escaping would add one.

use std::{borrow::Cow, collections::HashMap};

use domain::Document;
use serde_json::value::RawValue;

/// Characters that start a formula. Spreadsheets treat the full-width forms alike.
const SIGNS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Cell separators of all locales: a spreadsheet uses its locale, not the file, and if it splits at a different
/// character than the file does, quotes within a line do not hold a cell together.
const SEPARATORS: [char; 6] = [',', ';', '\t', '|', '\n', '\r'];

/// Returns true if a spreadsheet might execute the cell, or if it looks like an escaped cell.
fn is_active(cell: &str) -> bool {
    let behind = cell.trim_start_matches('\'');
    (behind.starts_with(SIGNS) || behind.starts_with(['\t', '\r'])) && !is_plain_number(cell)
}

/// Returns true if the text after a separator might be executed: quotes may precede the sign; plain numbers are
/// harmless.
fn is_active_within(rest: &str) -> bool {
    let behind = rest.trim_start_matches(['\'', '"']);
    behind.starts_with(SIGNS) && !rest.chars().all(|c| c.is_ascii_digit() || "+-.,;| \t\r\neE[]{}".contains(c))
}

/// Returns true for `-12`, `+1.5`, `-3e8`, and `-1.234,5`: a spreadsheet only displays them.
fn is_plain_number(cell: &str) -> bool {
    let digits = cell.strip_prefix(['+', '-']).unwrap_or(cell);
    digits.starts_with(|c: char| c.is_ascii_digit())
        && (digits.parse::<f64>().is_ok() || digits.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',')))
}

/// Returns true if the text at this offset of a cell would be executed; `rest` is the cell from there.
fn is_active_at(cell: &str, at: usize, rest: &str) -> bool {
    if at == 0 { is_active(rest) } else { cell[..at].ends_with(SEPARATORS) && is_active_within(rest) }
}

/// Offsets in a cell at which a spreadsheet might start a cell.
fn beginnings(cell: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(cell.match_indices(SEPARATORS).map(|(at, separator)| at + separator.len()))
}

/// Escapes a cell for a file that a spreadsheet opens.
pub fn escape(cell: &str) -> Cow<'_, str> {
    let active: Vec<usize> = beginnings(cell).filter(|&at| is_active_at(cell, at, &cell[at..])).collect();
    if active.is_empty() {
        return cell.into();
    }
    let mut escaped = String::with_capacity(cell.len() + active.len());
    let mut from = 0;
    for at in active {
        escaped.push_str(&cell[from..at]);
        escaped.push('\'');
        from = at;
    }
    escaped.push_str(&cell[from..]);
    escaped.into()
}

/// Reverts [`escape`].
pub fn unescape(cell: &mut String) {
    let added = |at: &usize| cell[*at..].strip_prefix('\'').is_some_and(|rest| is_active_at(cell, *at, rest));
    let places: Vec<usize> = beginnings(cell).filter(added).collect();
    for at in places.into_iter().rev() {
        cell.remove(at);
    }
}

/// Escapes a cell for a workbook that comes back: only text that [`unescape`] would change, since a workbook executes
/// no text.
pub fn escape_in_workbook(cell: &str) -> Cow<'_, str> {
    let mut back = cell.to_owned();
    unescape(&mut back);
    if back == cell { cell.into() } else { escape(cell) }
}

/// Cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    pub text: String,
    /// True for a JSON number.
    pub is_number: bool,
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, is_number: false }
    }
}

/// Returns the cells of a payload: a value for each column by name, or the elements of an array. Non-strings are shown
/// as JSON, `null` and missing values as empty.
pub fn cells(payload: &Document, columns: Option<&[String]>) -> Vec<Cell> {
    let text = payload.text();
    if let (Some(columns), Ok(fields)) = (columns, serde_json::from_str::<HashMap<String, &RawValue>>(text)) {
        return columns.iter().map(|name| fields.get(name).map_or_else(Cell::default, |value| cell(value))).collect();
    }
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(elements) => elements.into_iter().map(cell).collect(),
        Err(_) => vec![serde_json::from_str::<String>(text).unwrap_or_else(|_| text.to_owned()).into()],
    }
}

/// Returns the texts of [`cells`].
pub fn texts(payload: &Document, columns: Option<&[String]>) -> Vec<String> {
    cells(payload, columns).into_iter().map(|cell| cell.text).collect()
}

fn cell(value: &RawValue) -> Cell {
    match value.get() {
        "null" => Cell::default(),
        text => Cell {
            text: serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()),
            is_number: text.starts_with(|first: char| first == '-' || first.is_ascii_digit()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_escaped_and_comes_back_unchanged() {
        for cell in [
            "=1+1", "+a", "-a", "@x", "\tx", "\rx", "'=1", "''-a", "-1+1", "+", "-", "'-5", "-1e5x", "＝1", "＋1+1",
            "－a", "＠x",
        ] {
            let escaped = escape(cell);
            assert!(escaped.starts_with('\''), "{cell:?}");
            let mut back = escaped.into_owned();
            unescape(&mut back);
            assert_eq!(back, cell);
        }
        for cell in ["", "a", "-5", "+1.5", "-3e8", "-12,5", "-1.234,50", "'tis", "''", "12", "'5"] {
            assert_eq!(escape(cell), cell);
            let mut back = cell.to_owned();
            unescape(&mut back);
            assert_eq!(back, cell);
        }
    }

    #[test]
    fn a_cell_that_another_locale_splits_is_harmless_and_comes_back() {
        for (cell, escaped) in [
            ("x;=HYPERLINK(\"http://e\")", "x;'=HYPERLINK(\"http://e\")"),
            ("x,=1", "x,'=1"),
            ("x\t+a|b", "x\t'+a|b"),
            ("x;\"=1\"", "x;'\"=1\""),
            ("x\n=1;@y", "x\n'=1;'@y"),
            ("x\r\n-a", "x\r\n'-a"),
            ("x;＝1", "x;'＝1"),
            ("=a;=b", "'=a;'=b"),
            ("x;'=1", "x;''=1"),
            ("\t=1", "'\t'=1"),
            ("-5,=1", "'-5,'=1"),
            ("[1,-5,\"a\"]", "[1,'-5,\"a\"]"),
        ] {
            assert_eq!(escape(cell), escaped);
            let mut back = escaped.to_owned();
            unescape(&mut back);
            assert_eq!(back, cell);
        }
        for cell in ["a;b", "[1,-5,3]", "{\"a\":-5,\"b\":2}", "a, -b", "5;-3", "a;'b", "a,-5"] {
            assert_eq!(escape(cell), cell);
            let mut back = cell.to_owned();
            unescape(&mut back);
            assert_eq!(back, cell);
        }
    }

    proptest::proptest! {
        #[test]
        fn whatever_a_cell_is_it_comes_back(cell in "[=+@,;|\t\r\n'\"a1e.＝-]{0,12}") {
            let mut back = escape(&cell).into_owned();
            for at in beginnings(&back) {
                proptest::prop_assert!(!is_active_at(&back, at, &back[at..]) || back[at..].starts_with('\''));
            }
            unescape(&mut back);
            proptest::prop_assert_eq!(back, cell);
        }
    }

    #[test]
    fn a_payload_is_the_cells_it_came_from() {
        let payload = Document::trusted(r#"{"b":1.10,"a":"x\ny","c":null,"d":{"e":[1]}}"#.to_owned());
        let columns = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(texts(&payload, Some(&columns)), ["x\ny", "1.10", "", r#"{"e":[1]}"#, ""]);
        assert_eq!(texts(&Document::trusted(r#"["1",true]"#.to_owned()), None), ["1", "true"]);
        assert_eq!(texts(&Document::trusted(r#""{oops""#.to_owned()), Some(&columns)), ["{oops"]);
    }
}
