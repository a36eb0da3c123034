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
    /// Why the list may have only a part of the row.
    part: Option<FaultKind>,
}

impl Returned {
    /// From the cells `_line`, `_code`, and `_problem`.
    pub(super) fn of(cells: &[String]) -> Self {
        let cell = |place: usize| cells.get(place).map(String::as_str).unwrap_or_default();
        // A worker may use the same codes for its own errors.
        let is_of_file = cell(2).starts_with("Line ");
        let parts = [FaultKind::TooLarge, FaultKind::OpenQuote, FaultKind::BadEncoding];
        Self {
            line: cell(0).parse().ok().filter(|&line| line > 0),
            part: parts.into_iter().find(|kind| is_of_file && kind.as_str() == cell(1)),
        }
    }
}

impl RowMaker {
    /// Fault of a row of which the list has only a part and that nobody has completed: `_code` still says so, or what
    /// could not be read is still missing.
    pub(super) fn partial_fault(&self, cut: &Cut, returned: &Returned, cells: &[String]) -> Option<Fault> {
        if returned.part? == FaultKind::BadEncoding {
            let unreadable = cells.iter().position(|cell| cell.contains('\u{FFFD}'))?;
            let found = "a character that could not be read".to_owned();
            return Some(self.fault(cut, FaultKind::BadEncoding, unreadable, "text".to_owned(), found));
        }
        let expected = "an empty cell once the row is completed, because the list has only a part of it".to_owned();
        let found = returned.part?.as_str().to_owned();
        Some(self.fault(cut, FaultKind::InvalidRow, self.head.data_width() + 1, expected, found))
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
