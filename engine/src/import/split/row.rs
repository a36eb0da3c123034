//! Payloads of records, and errors of unusable ones.
//!
//! An unusable row stores what could be read of it, so that a person can recognize it; the fault names the line, the
//! column and what was expected.

mod edited; // rows that a person changed
mod mapped; // payloads by a column mapping
mod returned; // rows of a list of failures that came back
mod value; // JSON values and lines
pub(super) mod workbook_row; // rows of a workbook

use std::fmt::Write as _;

use domain::{Document, import::upload::UploadFormat};
use serde::Serialize;

pub use edited::CellEdits;
use mapped::{MappedCell, Raw, mapped_cells, mapped_object};
use returned::{Returned, json_payload};

use super::{
    Head, Place, RECORD_LIMIT, Rules,
    cells::{Cells, read_cells},
    record_cutter::{Cut, Whole},
    returned::Shape,
};

/// Bytes of a cell that is shown or of a row that is too large to be stored, and number of surplus cells stored.
const SHOWN_CELL: usize = 4 << 10;
const SHOWN_EXTRA: usize = 20;
/// Bytes of a whole row that is shown or too large to be stored.
const SHOWN_ROW: usize = 32 << 10;

/// Kind of a cell by schema. Cells are untyped: a cell becomes a number or boolean with the same text only if the
/// schema requires one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CellKind {
    #[default]
    Text,
    Number,
    Boolean,
    NumberOrBoolean,
    /// Text, because the schema refuses numbers and booleans.
    OnlyText,
}

/// Expectations of a column by schema.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColumnRule {
    pub kind: CellKind,
    /// True if the property is optional and cannot be `null`.
    pub omits_null: bool,
    /// True if the property is optional and cannot be empty text.
    pub omits_blank: bool,
}

impl ColumnRule {
    /// Returns true if an empty cell, as JSON, is left out of the payload: the schema refuses it, and nothing else.
    pub fn omits(self, json: &str) -> bool {
        match json {
            "null" => self.omits_null,
            r#""""# => self.omits_blank,
            _ => false,
        }
    }
}

/// Cells of rows that are kept as text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum CellTexts {
    #[default]
    None,
    /// Shortened, for people.
    Short,
    /// Whole, for a file that is read by the same mapping.
    Whole,
}

/// Reason why a row is unusable. The names are stable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FaultKind {
    InvalidRow,
    TooManyFields,
    TooFewFields,
    BadEncoding,
    TooLarge,
    OpenQuote,
    InvalidJson,
}

impl FaultKind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::InvalidRow => "invalid_row",
            Self::TooManyFields => "too_many_fields",
            Self::TooFewFields => "too_few_fields",
            Self::BadEncoding => "bad_encoding",
            Self::TooLarge => "too_large",
            Self::OpenQuote => "open_quote",
            Self::InvalidJson => "invalid_json",
        }
    }
}

/// Error of a row, and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    /// Line of the file, from 1.
    pub line: i64,
    /// Column of the table, or byte in a line of NDJSON; from 1.
    pub column: usize,
    /// Name of the column, if it has one.
    pub name: Option<String>,
    pub expected: String,
    pub found: String,
    /// Cells beyond the last column, at most 20.
    pub extra: Vec<String>,
}

impl Fault {
    /// For example `Line 17, column 4 (amount): expected a number, found "twelve".`
    pub fn message(&self) -> String {
        let mut text = format!("Line {}, column {}", self.line, self.column);
        if let Some(name) = &self.name {
            let _ = write!(text, " ({})", shorten(name, 100));
        }
        let _ = write!(text, ": expected {}, found {}.", self.expected, self.found);
        text
    }

    /// The error for programs: `{line, column, name, expected, found, extra?}`.
    pub fn detail(&self) -> Document {
        #[derive(Serialize)]
        struct Detail<'a> {
            line: i64,
            column: usize,
            #[serde(skip_serializing_if = "Option::is_none")]
            name: Option<&'a str>,
            expected: &'a str,
            found: &'a str,
            #[serde(skip_serializing_if = "<[String]>::is_empty")]
            extra: &'a [String],
        }
        let Self { line, column, name, expected, found, extra, .. } = self;
        Document::of(&Detail { line: *line, column: *column, name: name.as_deref(), expected, found, extra })
    }
}

/// Row of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Start of its record and of the next one.
    pub begin: Place,
    pub end: Place,
    /// First line of its record in the file; in a workbook, the row number of its sheet.
    pub line: i64,
    /// Row number: the line, or the value of `_line` in a list of failures.
    pub number: i64,
    /// Partial if there is a fault.
    pub payload: Document,
    pub fault: Option<Fault>,
    /// Texts by column, then those beyond the last column (at most 20, shortened); of other formats than tables, the row
    /// as one text. Empty unless the reader keeps them.
    pub cells: Vec<String>,
    /// Like `cells`, of an edited row before the edits.
    pub cells_in_file: Option<Vec<String>>,
    /// True if cells of the row were edited.
    pub is_edited: bool,
    /// True if the row was left out by an edit: it does not become an item.
    pub is_left_out: bool,
}

/// Converts records to rows.
#[derive(Debug)]
pub(super) struct RowMaker {
    head: Head,
    delimiter: u8,
    rules: Rules,
    /// Column names as JSON strings.
    keys: Vec<String>,
    is_returned: bool,
    shape: Shape,
    /// Columns of the payload, with a mapping.
    mapped: Option<Vec<MappedCell>>,
    pub(super) cell_texts: CellTexts,
}

impl RowMaker {
    pub(super) fn new(head: Head, rules: Rules) -> Self {
        let names = head.data_columns().unwrap_or_default();
        let keys = names.iter().map(|name| Document::of(name).text().to_owned()).collect();
        let delimiter = head.delimiter.and_then(|c| u8::try_from(c).ok()).unwrap_or(b',');
        let (is_returned, shape) = (head.is_returned(), head.shape());
        let mapped = mapped_cells(&head, &rules.column_rules);
        Self { head, delimiter, rules, keys, is_returned, shape, mapped, cell_texts: CellTexts::None }
    }

    pub(super) fn make(&self, cut: &Cut) -> Row {
        match self.head.format {
            UploadFormat::Csv => self.table_row(cut),
            UploadFormat::Xlsx => self.sheet_row(cut),
            UploadFormat::Ndjson | UploadFormat::Json => self.json_row(cut),
            UploadFormat::Lines | UploadFormat::None => self.text_row(cut),
        }
    }

    fn table_row(&self, cut: &Cut) -> Row {
        let most = self.head.width + SHOWN_EXTRA;
        let mut cells = read_cells(&cut.raw, self.head.encoding, self.delimiter, most);
        let line = cut.begin.line as i64;
        let fault = self.table_fault(cut, &cells);
        let extra = cells.texts.split_off(cells.texts.len().min(self.head.width));
        let returned = self.take_failure_columns(&mut cells.texts);
        let fault = fault.map(|fault| Fault { extra: shown(&extra, SHOWN_EXTRA), ..fault });
        let fault = fault.or_else(|| self.unreadable_fault(cut, &returned, &cells.texts));
        let edits = self.edits_of(line);
        let in_file = edits
            .filter(|_| self.cell_texts != CellTexts::None)
            .map(|_| self.listed_cells(&cells.texts, fault.as_ref()));
        let fault = match edits {
            Some(edits) => edits.apply(&mut cells.texts, self.head.data_width(), fault),
            None => fault,
        };
        let raw = |source: usize| cells.texts.get(source).map(|text| Raw::Text(text));
        let fault = fault.or_else(|| self.conversion_fault(cut, raw)).or_else(|| self.json_fault(cut, &cells.texts));
        let payload = self.payload(&cells.texts);
        let fault = fault.or_else(|| {
            let largest = (0..cells.texts.len()).max_by_key(|&place| cells.texts[place].len()).unwrap_or(0);
            self.size_fault(cut, largest, payload.len())
        });
        let is_part = fault.as_ref().is_some_and(|fault| self.is_part(fault, &payload));
        let payload = if is_part { self.payload(&shown(&cells.texts, cells.texts.len())) } else { payload };
        let listed = self.listed_cells(&cells.texts, fault.as_ref());
        let number = returned.line.unwrap_or(line);
        let row = Row { line, number, cells: listed, ..self.row(cut, Document::trusted(payload), fault) };
        Row { is_edited: edits.is_some(), cells_in_file: in_file, ..row }
    }

    /// Fault of a payload that is too large, by its largest cell.
    fn size_fault(&self, cut: &Cut, largest: usize, found: usize) -> Option<Fault> {
        let limit = self.rules.payload_limit;
        let expected = format!("a row of at most {limit} bytes");
        (found > limit).then(|| self.fault(cut, FaultKind::TooLarge, largest, expected, found.to_string()))
    }

    /// Returns true if only a part of an unusable row is stored: its end is not known, or it is too large.
    fn is_part(&self, fault: &Fault, payload: &str) -> bool {
        matches!(fault.kind, FaultKind::OpenQuote | FaultKind::TooLarge) || payload.len() > self.rules.payload_limit
    }

    /// Cells as they are kept, with those beyond the last column.
    fn listed_cells(&self, cells: &[String], fault: Option<&Fault>) -> Vec<String> {
        let mut listed = match self.cell_texts {
            CellTexts::None => return Vec::new(),
            CellTexts::Short => shown(cells, cells.len()),
            CellTexts::Whole => cells.to_vec(),
        };
        listed.extend(fault.into_iter().flat_map(|fault| fault.extra.iter().cloned()));
        listed
    }

    /// Row of a record, with its line as its number.
    fn row(&self, cut: &Cut, payload: Document, fault: Option<Fault>) -> Row {
        let line = cut.begin.line as i64;
        let is_left_out = self.is_left_out(line);
        let Cut { begin, end, .. } = *cut;
        let (cells, cells_in_file, is_edited) = (Vec::new(), None, false);
        Row { begin, end, line, number: line, payload, fault, cells, cells_in_file, is_edited, is_left_out }
    }

    /// Edited cells of the row at a line.
    fn edits_of(&self, line: i64) -> Option<&CellEdits> {
        self.head.edits.get(&line).filter(|edits| !edits.cells.is_empty())
    }

    fn is_left_out(&self, line: i64) -> bool {
        self.head.edits.get(&line).is_some_and(|edits| edits.leave_out)
    }

    fn table_fault(&self, cut: &Cut, cells: &Cells) -> Option<Fault> {
        let width = self.head.width;
        let last = cells.texts.len().saturating_sub(1);
        let fault = |kind, column, expected: &str, found: String| {
            Some(self.fault(cut, kind, column, expected.to_owned(), found))
        };
        match cut.whole {
            Whole::OpenQuote => {
                return fault(
                    FaultKind::OpenQuote,
                    last,
                    "a closing quote",
                    format!("none before the row has to end (at the latest after {RECORD_LIMIT} bytes)"),
                );
            }
            Whole::TooLong => {
                let column = cut.fields.saturating_sub(1);
                return fault(
                    FaultKind::TooLarge,
                    column,
                    "the line to end",
                    format!("more than {RECORD_LIMIT} bytes"),
                );
            }
            Whole::Yes | Whole::Broken | Whole::Unended | Whole::Trailing => {}
        }
        if let Some((column, what)) = cells.unreadable {
            return fault(FaultKind::BadEncoding, column, "text", what.to_owned());
        }
        if let Some(column) = cells.tail {
            return fault(
                FaultKind::InvalidRow,
                column,
                "the end of the cell behind its closing quote",
                "more text".to_owned(),
            );
        }
        let fields = |n: usize| format!("{n} field{}", if n == 1 { "" } else { "s" });
        // A spreadsheet fills up each row of a list in which one has surplus cells.
        let is_filled_up = self.is_returned && cells.texts.len() == cut.fields;
        if is_filled_up && cells.texts.iter().skip(width).all(String::is_empty) && cut.fields > width {
            return None;
        }
        match cut.fields {
            n if n > width => fault(FaultKind::TooManyFields, width, &fields(width), n.to_string()),
            n if n < width => fault(FaultKind::TooFewFields, n, &fields(width), n.to_string()),
            _ => None,
        }
    }

    fn fault(&self, cut: &Cut, kind: FaultKind, column: usize, expected: String, found: String) -> Fault {
        Fault {
            kind,
            line: cut.begin.line as i64,
            column: column + 1,
            name: self.head.columns.as_ref().and_then(|names| names.get(column)).cloned(),
            expected,
            found,
            extra: Vec::new(),
        }
    }

    /// Removes `_line`, `_code` and `_problem` from a returned row.
    fn take_failure_columns(&self, cells: &mut Vec<String>) -> Returned {
        if !self.is_returned {
            return Returned::default();
        }
        let returned = Returned::of(&cells.split_off(cells.len().min(self.head.data_width())));
        for cell in cells {
            crate::import::table_cells::unescape(cell);
        }
        returned
    }

    /// Builds an object by column name, or an array, from cells.
    fn payload(&self, cells: &[String]) -> String {
        if let Some(mapped) = &self.mapped {
            return mapped_object(mapped, |source| cells.get(source).map(|text| Raw::Text(text)));
        }
        if self.shape == Shape::Json {
            return json_payload(cells.first());
        }
        let values = cells.iter().enumerate().map(|(place, cell)| json_of(cell, self.rules.column(place).kind));
        self.object_of(&values.collect::<Vec<_>>())
    }

    /// Builds an object by column name, or an array, from JSON values.
    fn object_of(&self, values: &[String]) -> String {
        let named = self.shape == Shape::Object;
        let mut json = String::with_capacity(values.iter().map(|value| value.len() + 16).sum());
        json.push(if named { '{' } else { '[' });
        for (place, value) in values.iter().enumerate() {
            if named && self.rules.column(place).omits(value) {
                continue;
            }
            if json.len() > 1 {
                json.push(',');
            }
            if let Some(key) = self.keys.get(place) {
                json.push_str(key);
                json.push(':');
            }
            json.push_str(value);
        }
        json.push(if named { '}' } else { ']' });
        json
    }
}

/// First cells, shortened individually and in total.
fn shown(cells: &[String], most: usize) -> Vec<String> {
    let mut left = SHOWN_ROW;
    let mut cells_for_people = Vec::new();
    for cell in cells.iter().take(most) {
        if left == 0 {
            break;
        }
        let cell = shorten(cell, SHOWN_CELL.min(left));
        left -= cell.len().min(left);
        cells_for_people.push(cell);
    }
    cells_for_people
}

/// Shortens a text to about `most` bytes, with an ellipsis.
fn shorten(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}…", &text[..end])
}

/// Converts a cell to JSON: a string, or the same text as a number or boolean if the schema requires one.
pub fn json_of(cell: &str, kind: CellKind) -> String {
    if takes_as_it_is(cell, kind) { cell.to_owned() } else { Document::of(&cell).text().to_owned() }
}

/// Returns true if the cell's text is already the JSON value that the schema requires.
fn takes_as_it_is(cell: &str, kind: CellKind) -> bool {
    let number = matches!(kind, CellKind::Number | CellKind::NumberOrBoolean) && is_json_number(cell);
    let boolean = matches!(kind, CellKind::Boolean | CellKind::NumberOrBoolean) && matches!(cell, "true" | "false");
    number || boolean
}

/// Returns true if a text is a JSON number.
pub(super) fn is_json_number(text: &str) -> bool {
    fn digits(text: &str) -> Option<&str> {
        let rest = text.trim_start_matches(|c: char| c.is_ascii_digit());
        (rest.len() < text.len()).then_some(rest)
    }
    let rest = text.strip_prefix('-').unwrap_or(text);
    let Some(mut rest) = rest.strip_prefix('0').or_else(|| digits(rest)) else { return false };
    if let Some(fraction) = rest.strip_prefix('.') {
        let Some(behind) = digits(fraction) else { return false };
        rest = behind;
    }
    if let Some(exponent) = rest.strip_prefix(['e', 'E']) {
        let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
        let Some(behind) = digits(exponent) else { return false };
        rest = behind;
    }
    rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_json_calls_a_number_is_one() {
        for text in ["0", "-1", "12.50", "1e400", "9007199254740993", "1.0E-7"] {
            assert!(is_json_number(text), "{text}");
            serde_json::from_str::<&serde_json::value::RawValue>(text).expect(text);
        }
        for text in ["", "-", "01", "+1", "1.", ".5", "1e", "NaN", "1 ", "0x1", "1,5", "٣"] {
            assert!(!is_json_number(text), "{text}");
        }
    }
}
