//! Rows of a list of failures that was uploaded again.

use domain::Document;

use super::{
    super::{record_cutter::Cut, returned::Shape},
    Fault, FaultKind, RowMaker,
};

/// What a list of failures says of a row.
#[derive(Debug, Default)]
pub(super) struct Returned {
    /// Row in the file of the import that failed.
    pub(super) line: Option<i64>,
    /// True if parts of the row could not be read.
    is_unreadable: bool,
}

impl Returned {
    /// From the cells `_line`, `_code`, and `_problem`.
    pub(super) fn of(cells: &[String]) -> Self {
        let cell = |place: usize| cells.get(place).map(String::as_str).unwrap_or_default();
        Self {
            line: cell(0).parse().ok().filter(|&line| line > 0),
            is_unreadable: cell(1) == FaultKind::BadEncoding.as_str(),
        }
    }
}

impl RowMaker {
    /// Fault of a row in which nobody has replaced what could not be read.
    pub(super) fn unreadable_fault(&self, cut: &Cut, returned: &Returned, cells: &[String]) -> Option<Fault> {
        let unreadable = cells.iter().position(|cell| returned.is_unreadable && cell.contains('\u{FFFD}'))?;
        let found = "a character that could not be read".to_owned();
        Some(self.fault(cut, FaultKind::BadEncoding, unreadable, "text".to_owned(), found))
    }

    /// Fault of a payload that is not JSON, in a list of such payloads.
    pub(super) fn json_fault(&self, cut: &Cut, cells: &[String]) -> Option<Fault> {
        if self.shape != Shape::Json {
            return None;
        }
        let cell = cells.first().map(|text| text.trim()).unwrap_or_default();
        let error = Document::parse(cell.to_owned()).err()?;
        Some(self.fault(cut, FaultKind::InvalidJson, 0, "one JSON value".to_owned(), error.message.to_owned()))
    }
}

/// Payload of a cell that has JSON; other text is kept as a string.
pub(super) fn json_payload(cell: Option<&String>) -> String {
    let cell = cell.map(|text| text.trim()).unwrap_or_default();
    Document::parse(cell.to_owned()).unwrap_or_else(|_| Document::of(&cell)).text().to_owned()
}
