//! Payloads as cells of a table, and cells that a spreadsheet would execute made harmless.
//!
//! A cell that begins with `=`, `+`, `-`, `@`, their full-width forms, a tab or a carriage return gets an
//! apostrophe in front, unless it is a plain number. The same within a cell, behind every character by which a
//! spreadsheet of another locale might split it: there a new cell would begin. So that this can be undone, what begins
//! with apostrophes and then one of those gets one more. Undoing takes one off wherever one would have been put.

use std::{borrow::Cow, collections::HashMap};

use domain::Document;
use serde_json::value::RawValue;

/// Characters that begin a formula. Spreadsheets treat the full-width forms alike.
const SIGNS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];

/// Separators of cells in some locale: a spreadsheet goes by its locale, not by the file, and where it splits at
/// another character than the file does, quotes within a line do not hold a cell together.
const SEPARATORS: [char; 6] = [',', ';', '\t', '|', '\n', '\r'];

/// Whether a spreadsheet might run the cell, or could not be told from one that was made harmless.
fn is_active(cell: &str) -> bool {
    let behind = cell.trim_start_matches('\'');
    (behind.starts_with(SIGNS) || behind.starts_with(['\t', '\r'])) && !is_plain_number(cell)
}

/// The same of what stands behind a separator: quotes may have come before the sign, and what consists of numbers
/// alone does nothing.
fn is_active_within(rest: &str) -> bool {
    let behind = rest.trim_start_matches(['\'', '"']);
    behind.starts_with(SIGNS) && !rest.chars().all(|c| c.is_ascii_digit() || "+-.,;| \t\r\neE[]{}".contains(c))
}

/// `-12`, `+1.5`, `-3e8`: nothing a spreadsheet would do more with than show.
fn is_plain_number(cell: &str) -> bool {
    let digits = cell.strip_prefix(['+', '-']).unwrap_or(cell);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok()
}

/// Returns true if the text at this place of a cell would run; `rest` is the cell from there.
fn is_active_at(cell: &str, at: usize, rest: &str) -> bool {
    if at == 0 { is_active(rest) } else { cell[..at].ends_with(SEPARATORS) && is_active_within(rest) }
}

/// Places in a cell at which a cell might begin.
fn beginnings(cell: &str) -> impl Iterator<Item = usize> {
    std::iter::once(0).chain(cell.match_indices(SEPARATORS).map(|(at, separator)| at + separator.len()))
}

/// The cell as it may stand in a file that a spreadsheet opens.
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

/// Takes back what [`escape`] did.
pub fn unescape(cell: &mut String) {
    let added = |at: &usize| cell[*at..].strip_prefix('\'').is_some_and(|rest| is_active_at(cell, *at, rest));
    let places: Vec<usize> = beginnings(cell).filter(added).collect();
    for at in places.into_iter().rev() {
        cell.remove(at);
    }
}

/// The payload of a row as the cells it came from: a value for each column by name, or the elements of
/// an array. What is no text shows as JSON, `null` and what is missing as nothing.
pub fn cells(payload: &Document, columns: Option<&[String]>) -> Vec<String> {
    let text = payload.text();
    if let (Some(columns), Ok(fields)) = (columns, serde_json::from_str::<HashMap<String, &RawValue>>(text)) {
        return columns.iter().map(|name| fields.get(name).map_or_else(String::new, |value| cell(value))).collect();
    }
    match serde_json::from_str::<Vec<&RawValue>>(text) {
        Ok(elements) => elements.into_iter().map(cell).collect(),
        Err(_) => vec![serde_json::from_str(text).unwrap_or_else(|_| text.to_owned())],
    }
}

fn cell(value: &RawValue) -> String {
    match value.get() {
        "null" => String::new(),
        text => serde_json::from_str(text).unwrap_or_else(|_| text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_run_is_harmless_and_comes_back() {
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
        for cell in ["", "a", "-5", "+1.5", "-3e8", "'tis", "''", "12", "'5"] {
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
        assert_eq!(cells(&payload, Some(&columns)), ["x\ny", "1.10", "", r#"{"e":[1]}"#, ""]);
        assert_eq!(cells(&Document::trusted(r#"["1",true]"#.to_owned()), None), ["1", "true"]);
        assert_eq!(cells(&Document::trusted(r#""{oops""#.to_owned()), Some(&columns)), ["{oops"]);
    }
}
