//! Rows of a converted workbook sheet: the row number, a tab, and a JSON array of the cells. Cells keep their types.

use domain::Document;
use serde_json::value::RawValue;

use super::{
    super::record_cutter::{Cut, Whole},
    CellKind, Fault, FaultKind, RECORD_LIMIT, Raw, Row, RowMaker, SHOWN_EXTRA, cells_for_people, json_of,
    mapped_object, shown,
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
    let mut names: Vec<String> = cells(raw).into_iter().map(text).collect();
    while names.last().is_some_and(|name| name.trim().is_empty()) {
        names.pop();
    }
    names
}

/// Cell as text: non-strings as JSON, an empty cell as an empty string.
fn text(cell: &RawValue) -> String {
    match cell.get() {
        "null" => String::new(),
        json => serde_json::from_str(json).unwrap_or_else(|_| json.to_owned()),
    }
}

impl RowMaker {
    pub(super) fn sheet_row(&self, cut: &Cut) -> Row {
        let width = self.head.width;
        let line = number(&cut.raw) as i64;
        let mut found = cells(&cut.raw);
        let extra = found.split_off(found.len().min(width));
        let fault = |kind, column, expected: String, found: String| {
            let mut fault = self.fault(cut, kind, column, expected, found);
            fault.line = line;
            Some(fault)
        };
        let mut number = line;
        let mut values: Vec<String> = found.iter().map(|cell| cell.get().to_owned()).collect();
        values.resize(width, "null".to_owned());
        if self.is_returned {
            let given = found.get(self.head.data_width()).and_then(|cell| text(cell).parse().ok());
            number = given.filter(|&line| line > 0).unwrap_or(number);
            values.truncate(self.head.data_width());
            values.iter_mut().for_each(unescape);
        }
        let edits = self.edits_of(line).filter(|_| cut.whole != Whole::TooLong);
        let in_file = edits.filter(|_| self.keeps_cells).map(|_| {
            let surplus = extra.iter().copied().take(SHOWN_EXTRA).map(text);
            let all: Vec<String> = texts(&values).into_iter().chain(surplus).collect();
            cells_for_people(&all, None)
        });
        for (&column, text) in edits.into_iter().flat_map(|edits| &edits.cells) {
            values[column] = self.edited(column, text, &values[column]);
        }
        let extra = if edits.is_some() { Vec::new() } else { extra };
        let raw = |source: usize| values.get(source).map(|json| Raw::Json(json));
        let payload = match &self.mapped {
            Some(mapped) => mapped_object(mapped, raw),
            None => self.object_of(&values),
        };
        let limit = self.rules.payload_limit;
        let mut fault = if cut.whole == Whole::TooLong {
            fault(FaultKind::TooLarge, 0, "the row to end".to_owned(), format!("more than {RECORD_LIMIT} bytes"))
        } else if !extra.is_empty() {
            let expected = format!("{width} field{}", if width == 1 { "" } else { "s" });
            fault(FaultKind::TooManyFields, width, expected, (width + extra.len()).to_string())
        } else if let Some(fault) = self.conversion_fault(cut, raw) {
            Some(Fault { line, ..fault })
        } else if payload.len() > limit {
            let largest = (0..values.len()).max_by_key(|&place| values[place].len()).unwrap_or(0);
            let expected = format!("a row of at most {limit} bytes");
            fault(FaultKind::TooLarge, largest, expected, payload.len().to_string())
        } else {
            None
        };
        let payload = match &mut fault {
            None => payload,
            Some(fault) => {
                fault.extra = shown(&extra.into_iter().map(text).collect::<Vec<_>>(), SHOWN_EXTRA);
                let texts = texts(&values[..found.len().min(values.len())]);
                let texts = shown(&texts, texts.len());
                match &self.mapped {
                    Some(mapped) => mapped_object(mapped, |at| texts.get(at).map(|text| Raw::Text(text))),
                    None => self
                        .object_of(&texts.iter().map(|text| Document::of(text).text().to_owned()).collect::<Vec<_>>()),
                }
            }
        };
        let cells_for_people =
            if self.keeps_cells { cells_for_people(&texts(&values), fault.as_ref()) } else { Vec::new() };
        let row = Row { line, number, cells: cells_for_people, ..self.row(cut, Document::trusted(payload), fault) };
        Row { is_edited: edits.is_some(), cells_in_file: in_file, is_left_out: self.is_left_out(line), ..row }
    }

    /// Edited cell as JSON: a number if the schema requires one or the cell held one. A mapping converts it itself.
    fn edited(&self, column: usize, text: &str, before: &str) -> String {
        if self.mapped.is_some() {
            return Document::of(&text).text().to_owned();
        }
        if text.is_empty() {
            return "null".to_owned();
        }
        let kind = self.rules.kinds.get(column).copied().unwrap_or_default();
        let is_number = before.starts_with(|c: char| c == '-' || c.is_ascii_digit());
        json_of(text, if kind == CellKind::Text && is_number { CellKind::Number } else { kind })
    }
}

fn texts(values: &[String]) -> Vec<String> {
    values.iter().map(|json| serde_json::from_str(json).map_or_else(|_| json.clone(), text)).collect()
}

/// Reverts the spreadsheet escaping in a text cell.
fn unescape(json: &mut String) {
    if json.starts_with("\"'")
        && let Ok(mut text) = serde_json::from_str::<String>(json)
    {
        crate::import::sheet::unescape(&mut text);
        Document::of(&text).text().clone_into(json);
    }
}
