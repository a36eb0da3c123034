//! Records with a single value: JSON, or a line of text.

use domain::{Document, import::upload::UploadFormat};

use super::{
    super::{
        RECORD_LIMIT,
        cells::read_text,
        record_cutter::{Cut, Whole},
    },
    CellTexts, Fault, FaultKind, Row, RowMaker, SHOWN_CELL, SHOWN_ROW, shorten,
};

impl RowMaker {
    pub(super) fn json_row(&self, cut: &Cut) -> Row {
        let (text, unreadable) = read_text(&cut.raw, self.head.encoding);
        let trimmed = text.trim_matches([' ', '\t', '\r', '\n']);
        let fault = |kind, column, expected: &str, found: String| {
            let fault = self.fault(cut, kind, column, expected.to_owned(), found);
            (Document::of(&trimmed), Some(fault))
        };
        let limit = self.rules.payload_limit;
        let (payload, fault) = if let Some((kind, column, expected, found)) = self.not_whole(cut) {
            fault(kind, column, expected, found)
        } else if let Some(what) = unreadable {
            fault(FaultKind::BadEncoding, text.find('\u{FFFD}').unwrap_or(0), "text", what.to_owned())
        } else if trimmed.len() > limit {
            fault(FaultKind::TooLarge, limit, &format!("a value of at most {limit} bytes"), trimmed.len().to_string())
        } else {
            match Document::parse(trimmed.to_owned()) {
                Ok(payload) => (payload, None),
                Err(error) => {
                    let before = text.len() - text.trim_start_matches([' ', '\t', '\r', '\n']).len();
                    let column = before + error.at.saturating_sub(1);
                    fault(FaultKind::InvalidJson, column, "one JSON value", error.message.to_owned())
                }
            }
        };
        let is_part = fault.as_ref().is_some_and(|fault| self.is_part(fault, payload.text()));
        let payload = if is_part { Document::of(&shorten(trimmed, SHOWN_ROW)) } else { payload };
        self.value_row(cut, payload, fault)
    }

    /// Builds a row from a line as a string, without its line end.
    pub(super) fn text_row(&self, cut: &Cut) -> Row {
        let (text, unreadable) = read_text(&cut.raw, self.head.encoding);
        let line = text.strip_suffix('\r').unwrap_or(&text);
        let payload = Document::of(&line);
        let limit = self.rules.payload_limit;
        let fault = if let Some((kind, column, expected, found)) = self.not_whole(cut) {
            Some(self.fault(cut, kind, column, expected.to_owned(), found))
        } else if let Some(what) = unreadable {
            let column = text.find('\u{FFFD}').unwrap_or(0);
            Some(self.fault(cut, FaultKind::BadEncoding, column, "text".to_owned(), what.to_owned()))
        } else {
            let found = payload.text().len();
            let expected = || format!("a line of at most {limit} bytes");
            (found > limit).then(|| self.fault(cut, FaultKind::TooLarge, limit, expected(), found.to_string()))
        };
        let is_part = fault.as_ref().is_some_and(|fault| self.is_part(fault, payload.text()));
        let payload = if is_part { Document::of(&shorten(line, SHOWN_ROW)) } else { payload };
        self.value_row(cut, payload, fault)
    }

    /// Error of an incomplete record: kind, column from 0, expected, found.
    fn not_whole(&self, cut: &Cut) -> Option<(FaultKind, usize, &'static str, String)> {
        let is_array = self.head.format == UploadFormat::Json;
        Some(match cut.whole {
            Whole::Yes | Whole::OpenQuote => return None,
            Whole::TooLong => {
                let expected = if is_array { "the value to end" } else { "the line to end" };
                (FaultKind::TooLarge, RECORD_LIMIT, expected, format!("more than {RECORD_LIMIT} bytes"))
            }
            Whole::Broken => {
                let found = "that the next one begins before its end".to_owned();
                (FaultKind::InvalidJson, 0, "one JSON value", found)
            }
            Whole::Unended if cut.raw.is_empty() => {
                (FaultKind::InvalidJson, 0, "the array to end with ]", "the end of the file".to_owned())
            }
            Whole::Unended => {
                let found = "none in all the rest of the file, so nothing more could be read".to_owned();
                (FaultKind::InvalidJson, 0, "the end of a JSON value", found)
            }
            Whole::Trailing => (FaultKind::InvalidJson, 0, "nothing behind the array", "more".to_owned()),
        })
    }

    fn value_row(&self, cut: &Cut, payload: Document, fault: Option<Fault>) -> Row {
        let cells = match self.cell_texts {
            CellTexts::None => Vec::new(),
            CellTexts::Short => vec![shorten(payload.text(), SHOWN_CELL)],
            CellTexts::Whole => vec![payload.text().to_owned()],
        };
        Row { cells, ..self.row(cut, payload, fault) }
    }
}
