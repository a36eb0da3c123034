//! Rows of a converted workbook sheet: the row number, a tab, and a JSON array of the cells. Cells keep their types.

use domain::Document;
use serde_json::value::RawValue;

use super::{
    super::cut::{Cut, Whole},
    Fault, FaultKind, RECORD_LIMIT, Raw, Row, RowMaker, SHOWN_EXTRA, mapped_object, shown,
};

/// Row number in the sheet.
pub(in super::super) fn number(raw: &[u8]) -> u64 {
    let digits = raw.split(|&byte| byte == b'\t').next().unwrap_or_default();
    std::str::from_utf8(digits).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Cells as JSON; empty for a row that was too long to be converted completely.
fn cells(raw: &[u8]) -> Vec<&RawValue> {
    let at = raw.iter().position(|&byte| byte == b'\t').map_or(raw.len(), |tab| tab + 1);
    serde_json::from_slice(&raw[at..]).unwrap_or_default()
}

/// Number of cells in a row.
pub(in super::super) fn fields(raw: &[u8]) -> usize {
    cells(raw).len()
}

/// Column names of a header.
pub(in super::super) fn header(raw: &[u8]) -> Vec<String> {
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
        let line = number(&cut.raw);
        let mut found = cells(&cut.raw);
        let extra = found.split_off(found.len().min(width));
        let fault = |kind, column, expected: String, found: String| {
            let mut fault = self.fault(cut, kind, column, expected, found);
            fault.line = line as i64;
            Some(fault)
        };
        let mut number = line as i64;
        let mut values: Vec<String> = found.iter().map(|cell| cell.get().to_owned()).collect();
        values.resize(width, "null".to_owned());
        if self.is_returned {
            let given = found.get(self.head.data_width()).and_then(|cell| text(cell).parse().ok());
            number = given.filter(|&line| line > 0).unwrap_or(number);
            values.truncate(self.head.data_width());
            values.iter_mut().for_each(unescape);
        }
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
            Some(Fault { line: line as i64, ..fault })
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
                let texts: Vec<String> = found.into_iter().take(values.len()).map(text).collect();
                let texts = shown(&texts, texts.len());
                match &self.mapped {
                    Some(mapped) => mapped_object(mapped, |at| texts.get(at).map(|text| Raw::Text(text))),
                    None => self
                        .object_of(&texts.iter().map(|text| Document::of(text).text().to_owned()).collect::<Vec<_>>()),
                }
            }
        };
        Row { begin: cut.begin, end: cut.end, line: line as i64, number, payload: Document::trusted(payload), fault }
    }
}

/// Reverts the spreadsheet escaping in a text cell.
fn unescape(json: &mut String) {
    if json.starts_with("\"'")
        && let Ok(mut text) = serde_json::from_str::<String>(json)
    {
        crate::sheet::unescape(&mut text);
        Document::of(&text).text().clone_into(json);
    }
}
