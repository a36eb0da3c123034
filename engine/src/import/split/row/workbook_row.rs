//! Rows of a converted workbook sheet: the row number, a tab, and a JSON array of the cells. Cells keep their types; an
//! error is `{"error": "#N/A"}`.

use domain::{Document, import::mapping::Conversion};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{
    super::{
        convert::convert_json,
        record_cutter::{Cut, Whole},
        returned::Shape,
    },
    CellKind, CellTexts, Fault, FaultKind, RECORD_LIMIT, Raw, Returned, Row, RowMaker, SHOWN_CELL, SHOWN_EXTRA,
    SHOWN_ROW, json_of, json_payload, mapped_object, shorten, shown,
};

/// Row number in the sheet.
pub(crate) fn number(raw: &[u8]) -> u64 {
    let digits = raw.split(|&byte| byte == b'\t').next().unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Cells as JSON; empty for a row that was too long to be converted completely.
fn cells(raw: &[u8]) -> Vec<&RawValue> {
    let at = raw.iter().position(|&byte| byte == b'\t').map_or(raw.len(), |tab| tab + 1);
    serde_json::from_slice(&raw[at..]).unwrap_or_default()
}

/// Number of cells in a row.
pub(crate) fn fields(raw: &[u8]) -> usize {
    cells(raw).len()
}

/// Column names of a header.
pub(crate) fn header(raw: &[u8]) -> Vec<String> {
    let mut names: Vec<String> = cells(raw).into_iter().map(|cell| text_of(cell.get())).collect();
    while names.last().is_some_and(|name| name.trim().is_empty()) {
        names.pop();
    }
    names
}

/// Cell as text: numbers and booleans as JSON, an empty cell as an empty string, an error by its name.
pub(super) fn text_of(json: &str) -> String {
    match json {
        "null" => String::new(),
        json => error_of(json).or_else(|| serde_json::from_str(json).ok()).unwrap_or_else(|| json.to_owned()),
    }
}

/// Name of the error in a cell, if there is one.
fn error_of(json: &str) -> Option<String> {
    #[derive(Deserialize)]
    struct ErrorCell {
        error: String,
    }
    if !json.starts_with('{') {
        return None;
    }
    serde_json::from_str(json).ok().map(|cell: ErrorCell| cell.error)
}

impl RowMaker {
    pub(super) fn sheet_row(&self, cut: &Cut) -> Row {
        let width = self.head.width;
        let line = number(&cut.raw) as i64;
        let mut found = cells(&cut.raw);
        let extra = found.split_off(found.len().min(width));
        let extra: Vec<String> = extra.into_iter().map(|cell| text_of(cell.get())).collect();
        let mut values: Vec<String> = found.iter().map(|cell| cell.get().to_owned()).collect();
        values.resize(width, "null".to_owned());
        let mut returned = Returned::default();
        if self.is_returned {
            returned = Returned::of(&texts(&values.split_off(self.head.data_width())));
            values.iter_mut().for_each(unescape);
        }
        let edits = self.edits_of(line).filter(|_| cut.whole != Whole::TooLong);
        let in_file = edits.filter(|_| self.cell_texts != CellTexts::None).map(|_| {
            let surplus = extra.iter().take(SHOWN_EXTRA).cloned();
            self.listed_cells(&self.listed_texts(&values).into_iter().chain(surplus).collect::<Vec<_>>(), None)
        });
        if let Some(edits) = edits {
            let mut shown = texts(&values);
            self.write_notations(&values, &mut shown);
            for (&column, text) in &edits.cells {
                // What is sent as it was shown keeps its type.
                if *text != shown[column] || error_of(&values[column]).is_some() {
                    values[column] = self.edited(column, text, &values[column]);
                }
            }
        }
        let fault = match edits {
            None => self.sheet_fault(cut, &extra).or_else(|| self.unreadable_fault(cut, &returned, &texts(&values))),
            Some(_) => None,
        };
        let fault = fault.or_else(|| self.error_fault(cut, &values));
        for value in &mut values {
            if let Some(error) = error_of(value) {
                Document::of(&error).text().clone_into(value);
            }
        }
        let fault = fault.or_else(|| self.conversion_fault(cut, |at| values.get(at).map(|json| Raw::Json(json))));
        let fault = fault.or_else(|| self.json_fault(cut, &texts(&values)));
        let payload = self.sheet_payload(&values);
        let fault = fault.or_else(|| {
            let largest = (0..values.len()).max_by_key(|&place| values[place].len()).unwrap_or(0);
            self.size_fault(cut, largest, payload.len())
        });
        let is_part = fault.as_ref().is_some_and(|fault| self.is_part(fault, &payload));
        let payload =
            if is_part { self.sheet_payload(&shortened(&values[..found.len().min(values.len())])) } else { payload };
        let listed = self.listed_cells(&self.listed_texts(&values), fault.as_ref());
        let number = returned.line.unwrap_or(line);
        let fault = fault.map(|fault| Fault { line, ..fault });
        let row = Row { line, number, cells: listed, ..self.row(cut, Document::trusted(payload), fault) };
        Row { is_edited: edits.is_some(), cells_in_file: in_file, is_left_out: self.is_left_out(line), ..row }
    }

    /// Fault of a row that is too long or has too many cells.
    fn sheet_fault(&self, cut: &Cut, extra: &[String]) -> Option<Fault> {
        let width = self.head.width;
        if cut.whole == Whole::TooLong {
            let found = format!("more than {RECORD_LIMIT} bytes");
            return Some(self.fault(cut, FaultKind::TooLarge, 0, "the row to end".to_owned(), found));
        }
        if extra.is_empty() {
            return None;
        }
        let expected = format!("{width} field{}", if width == 1 { "" } else { "s" });
        let found = (width + extra.len()).to_string();
        let fault = self.fault(cut, FaultKind::TooManyFields, width, expected, found);
        Some(Fault { extra: shown(extra, SHOWN_EXTRA), ..fault })
    }

    /// Fault of the first cell with an error in a column that is used.
    fn error_fault(&self, cut: &Cut, values: &[String]) -> Option<Fault> {
        let mut errors = values.iter().enumerate().filter_map(|(at, value)| Some((at, error_of(value)?)));
        let (column, error) = errors.find(|(at, _)| self.is_used(*at))?;
        let found = format!("the error {}", shorten(&error, 100));
        Some(self.fault(cut, FaultKind::InvalidRow, column, "a value".to_owned(), found))
    }

    fn sheet_payload(&self, values: &[String]) -> String {
        match &self.mapped {
            Some(mapped) => mapped_object(mapped, |at| values.get(at).map(|json| Raw::Json(json))),
            None if self.shape == Shape::Json => json_payload(texts(values).first()),
            None => {
                let of_kind = |(column, json): (usize, &String)| {
                    let kind = self.rules.column(column).kind;
                    convert_json(json, Conversion::Text, kind).unwrap_or_else(|| json.clone())
                };
                self.object_of(&values.iter().enumerate().map(of_kind).collect::<Vec<_>>())
            }
        }
    }

    /// Cells as text, as they are kept.
    fn listed_texts(&self, values: &[String]) -> Vec<String> {
        let mut texts = texts(values);
        if self.cell_texts != CellTexts::None {
            self.write_notations(values, &mut texts);
        }
        texts
    }

    /// Edited cell as JSON: a number if the schema requires one or the cell held one. A mapping converts it itself.
    fn edited(&self, column: usize, text: &str, before: &str) -> String {
        if self.mapped.is_some() {
            return Document::of(&text).text().to_owned();
        }
        if text.is_empty() {
            return "null".to_owned();
        }
        let kind = self.rules.column(column).kind;
        let is_number = before.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        json_of(text, if kind == CellKind::Text && is_number { CellKind::Number } else { kind })
    }
}

fn texts(values: &[String]) -> Vec<String> {
    values.iter().map(|json| text_of(json)).collect()
}

/// Cells with long texts shortened, individually and in total.
fn shortened(values: &[String]) -> Vec<String> {
    let mut left = SHOWN_ROW;
    let mut shortened = Vec::new();
    for json in values {
        let most = SHOWN_CELL.min(left);
        let is_long = json.starts_with('"') && json.len() > most;
        let json = if is_long { Document::of(&shorten(&text_of(json), most)).text().to_owned() } else { json.clone() };
        left -= json.len().min(left);
        shortened.push(json);
    }
    shortened
}

/// Reverts the spreadsheet escaping in a text cell.
fn unescape(json: &mut String) {
    if json.starts_with('"')
        && let Ok(mut text) = serde_json::from_str::<String>(json)
    {
        crate::import::table_cells::unescape(&mut text);
        Document::of(&text).text().clone_into(json);
    }
}
