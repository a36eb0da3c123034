//! Payloads as cells of a table, and cells that a spreadsheet would execute made harmless.
//!
//! A cell that begins with `=`, `+`, `-`, `@`, a tab or a carriage return gets an apostrophe in front,
//! unless it is a plain number. So that this can be undone, a cell that begins with apostrophes and
//! then one of those gets one more. Undoing takes one apostrophe off where one would have been put.

use std::collections::HashMap;

use domain::Document;
use serde_json::value::RawValue;

/// Whether a spreadsheet might run the cell, or could not be told from one that was made harmless.
fn is_active(cell: &str) -> bool {
    let behind = cell.trim_start_matches('\'');
    behind.starts_with(['=', '+', '-', '@', '\t', '\r']) && !is_plain_number(cell)
}

/// `-12`, `+1.5`, `-3e8`: nothing a spreadsheet would do more with than show.
fn is_plain_number(cell: &str) -> bool {
    let digits = cell.strip_prefix(['+', '-']).unwrap_or(cell);
    digits.starts_with(|c: char| c.is_ascii_digit()) && digits.parse::<f64>().is_ok()
}

/// The cell as it may stand in a file that a spreadsheet opens.
pub fn escape(cell: &str) -> std::borrow::Cow<'_, str> {
    if is_active(cell) { format!("'{cell}").into() } else { cell.into() }
}

/// Takes back what [`escape`] did.
pub fn unescape(cell: &mut String) {
    if cell.strip_prefix('\'').is_some_and(is_active) {
        cell.remove(0);
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
        for cell in ["=1+1", "+a", "-a", "@x", "\tx", "\rx", "'=1", "''-a", "-1+1", "+", "-", "'-5", "-1e5x"] {
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
    fn a_payload_is_the_cells_it_came_from() {
        let payload = Document::trusted(r#"{"b":1.10,"a":"x\ny","c":null,"d":{"e":[1]}}"#.to_owned());
        let columns = ["a", "b", "c", "d", "e"].map(str::to_owned);
        assert_eq!(cells(&payload, Some(&columns)), ["x\ny", "1.10", "", r#"{"e":[1]}"#, ""]);
        assert_eq!(cells(&Document::trusted(r#"["1",true]"#.to_owned()), None), ["1", "true"]);
        assert_eq!(cells(&Document::trusted(r#""{oops""#.to_owned()), Some(&columns)), ["{oops"]);
    }
}
