//! Finds the boundaries of records, byte by byte, in arbitrary chunks of the file.
//!
//! An unclosed quote would swallow the rest of the file. So a record that is not closed within [`RECORD_LIMIT`] costs
//! only its first line, and cutting continues at the next line. The same applies to a record over several lines with
//! misplaced quotes, or with the wrong number of fields and a line inside that is a row: a forgotten quote inverts
//! everything after it. Nothing is decoded here; an ASCII byte is itself in UTF-8, valid or not.

use super::{
    Encoding, Place, RECORD_LIMIT,
    scan::{Scan, State, holds_a_row},
    units::{CR, LF, Unit, Utf8, Utf16Be, Utf16Le, count_lines},
};

/// Bytes of a line that is too long that are stored for display.
pub(super) const SHOWN: usize = 16 << 10;

/// Grammar of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Grammar {
    /// Lines, except line ends inside quotes. `width`: expected number of fields, once known.
    Csv { delimiter: u8, width: Option<usize> },
    /// Lines.
    Lines,
}

/// Record, or the error found in its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) begin: Place,
    /// After the record and its line end.
    pub(super) end: Place,
    /// Without the line end.
    pub(super) raw: Vec<u8>,
    /// CSV: number of fields, up to the limit if there is one.
    pub(super) fields: usize,
    pub(super) whole: Whole,
}

/// Completeness of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Whole {
    Yes,
    /// A quote is open at the end of `raw`, the record's first line.
    OpenQuote,
    /// Longer than the limit; `raw` is its start.
    TooLong,
    /// Array element that contains the start of the next one.
    Broken,
    /// The file ended inside the array; `raw` is the remainder.
    Unended,
    /// Data follows the end of the array.
    Trailing,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// More input or the end is needed.
    Starved,
    Record(Cut),
    End,
}

/// Result of an abandoned record: every line end between `from` and `to` was inside quotes, so a later record that is
/// inside quotes at one of them is in `state` at `to` and can skip the scan. Without this, a file of open quotes would
/// cost a megabyte of scanning per line. Offsets in the file.
#[derive(Clone, Copy, Debug)]
struct Memo {
    from: u64,
    to: u64,
    state: State,
    misplaced_at: Option<u64>,
}

/// Splits bytes into records.
#[derive(Debug)]
pub(super) struct Cutter {
    encoding: Encoding,
    grammar: Grammar,
    buffer: Vec<u8>,
    /// Start of the current record in `buffer` and in the file.
    begin: usize,
    place: Place,
    ended: bool,
    scan: Scan,
    memo: Option<Memo>,
    /// Line that is too long and is being skipped: its start.
    passing: Option<Cut>,
}

impl Cutter {
    /// Starts at `place`.
    pub(super) fn new(encoding: Encoding, grammar: Grammar, place: Place) -> Self {
        Self {
            encoding,
            grammar,
            buffer: Vec::new(),
            begin: 0,
            place,
            ended: false,
            scan: Scan::FRESH,
            memo: None,
            passing: None,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        // Move the remainder to the front once it is the smaller part.
        if self.begin > self.buffer.len() / 2 {
            self.buffer.drain(..self.begin);
            self.begin = 0;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// Marks the end of the input.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// Sets the expected number of fields, once the first record is known.
    pub(super) fn expect_width(&mut self, fields: usize) {
        if let Grammar::Csv { width, .. } = &mut self.grammar {
            *width = Some(fields);
        }
    }

    /// Start of the next record.
    pub(super) fn place(&self) -> Place {
        self.place
    }

    pub(super) fn step(&mut self) -> Step {
        match self.encoding {
            Encoding::Utf8 | Encoding::Legacy(_) => self.step_in::<Utf8>(),
            Encoding::Utf16Le => self.step_in::<Utf16Le>(),
            Encoding::Utf16Be => self.step_in::<Utf16Be>(),
        }
    }

    fn step_in<U: Unit>(&mut self) -> Step {
        loop {
            if self.passing.is_some() {
                return self.pass_over::<U>();
            }
            let found = match self.grammar {
                Grammar::Csv { delimiter, .. } => self.scan_csv::<U>(u16::from(delimiter)),
                Grammar::Lines => self.scan_line::<U>(),
            };
            match found {
                Found::Starved => return Step::Starved,
                Found::End { length, newline } => {
                    if let Some(step) = self.close(length, newline) {
                        return step;
                    }
                }
                Found::Limit => {
                    if self.scan.newline_at.is_some() {
                        return self.give_up::<U>();
                    }
                    let shown = self.rest()[..SHOWN].to_vec();
                    let fields = self.scan.fields;
                    let (begin, end) = (self.place, self.place);
                    self.passing = Some(Cut { begin, end, raw: shown, fields, whole: Whole::TooLong });
                    self.advance(self.scan.at, 0);
                }
                Found::OpenAtEnd => {
                    if self.scan.newline_at.is_some() {
                        return self.give_up::<U>();
                    }
                    let length = self.rest().len();
                    return self.take(length, 0, Whole::OpenQuote);
                }
                Found::ForgottenQuote => return self.give_up::<U>(),
            }
        }
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }

    /// Next unit of the current record, if available.
    fn peek<U: Unit>(&self, at: usize) -> Option<u16> {
        let unit = self.rest().get(at..at + U::BYTES)?;
        Some(U::read(unit))
    }

    /// Length of the line end at `at`; `None` if more bytes are needed.
    fn newline<U: Unit>(&self, at: usize, unit: u16) -> Option<usize> {
        if unit == LF {
            return Some(U::BYTES);
        }
        match self.peek::<U>(at + U::BYTES) {
            Some(LF) => Some(2 * U::BYTES),
            Some(_) => Some(U::BYTES),
            None => self.ended.then_some(U::BYTES),
        }
    }

    fn scan_csv<U: Unit>(&mut self, delimiter: u16) -> Found {
        let Grammar::Csv { width, .. } = self.grammar else { return Found::Starved };
        let mut scan = self.scan;
        let found = loop {
            if scan.at > RECORD_LIMIT {
                break Found::Limit;
            }
            let Some(unit) = self.peek::<U>(scan.at) else {
                break match scan.state {
                    _ if !self.ended => Found::Starved,
                    State::Quoted => Found::OpenAtEnd,
                    _ => Found::End { length: self.rest().len(), newline: 0 },
                };
            };
            let is_newline = unit == LF || unit == CR;
            if is_newline && scan.state == State::Quoted {
                scan.newline_at.get_or_insert(scan.at);
                if self.jump(&mut scan) {
                    continue;
                }
            } else if is_newline {
                let Some(newline) = self.newline::<U>(scan.at, unit) else { break Found::Starved };
                if scan.newline_at.is_some() {
                    if scan.misplaced_at.is_some() {
                        break Found::ForgottenQuote;
                    }
                    // The record is complete after all: scan again to count its fields.
                    if scan.jumped {
                        scan = Scan { may_jump: false, ..Scan::FRESH };
                        continue;
                    }
                    if width.is_some_and(|width| width != scan.fields)
                        && holds_a_row::<U>(&self.rest()[..scan.at], delimiter, width)
                    {
                        break Found::ForgottenQuote;
                    }
                }
                break Found::End { length: scan.at, newline };
            } else {
                if self.encoding.begins_two_bytes(unit) {
                    match self.peek::<U>(scan.at + U::BYTES) {
                        None if !self.ended => break Found::Starved,
                        // The second byte of a character can equal a delimiter, or the first byte of another character.
                        Some(0x40..=0x7E | 0x80..=0xFE) => scan.at += U::BYTES,
                        _ => {}
                    }
                }
                scan.read(unit, delimiter);
            }
            scan.at += U::BYTES;
        };
        self.scan = scan;
        found
    }

    /// At a line end inside quotes: continues from where an earlier record has already scanned.
    fn jump(&self, scan: &mut Scan) -> bool {
        let here = self.place.offset + scan.at as u64;
        let Some(memo) = self.memo else { return false };
        if !scan.may_jump || here < memo.from || here >= memo.to {
            return false;
        }
        scan.at = (memo.to - self.place.offset) as usize;
        scan.state = memo.state;
        if let Some(misplaced_at) = memo.misplaced_at.filter(|&at| at > here) {
            scan.misplaced_at = Some((misplaced_at - self.place.offset) as usize);
        }
        scan.jumped = true;
        scan.may_jump = false;
        true
    }

    fn scan_line<U: Unit>(&mut self) -> Found {
        let mut at = self.scan.at;
        let found = loop {
            if at > RECORD_LIMIT {
                break Found::Limit;
            }
            match self.peek::<U>(at) {
                Some(LF) => break Found::End { length: at, newline: U::BYTES },
                Some(_) => at += U::BYTES,
                None if self.ended => break Found::End { length: self.rest().len(), newline: 0 },
                None => break Found::Starved,
            }
        };
        self.scan.at = at;
        found
    }

    /// Ends the current record. `None` for a blank line: continue.
    fn close(&mut self, length: usize, newline: usize) -> Option<Step> {
        if length == 0 && newline == 0 {
            return Some(Step::End);
        }
        if self.is_blank(length) {
            self.advance(length + newline, 1);
            return None;
        }
        Some(self.take(length, newline, Whole::Yes))
    }

    /// Returns true for only spaces in a format whose rows have more than one field.
    fn is_blank(&self, length: usize) -> bool {
        let may_be_spaces = match self.grammar {
            Grammar::Csv { width, .. } => self.scan.fields == 1 && width != Some(1),
            Grammar::Lines => true,
        };
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\r' | 0);
        let is_zero = |byte: &u8| *byte == 0;
        let raw = &self.rest()[..length];
        match self.encoding {
            Encoding::Utf8 | Encoding::Legacy(_) => {
                raw.is_empty() || (may_be_spaces && raw.iter().all(|b| is_space(b) && !is_zero(b)))
            }
            // Spaces are a zero and an ASCII byte; two zeros are NUL, which is not blank.
            Encoding::Utf16Le | Encoding::Utf16Be => {
                raw.is_empty()
                    || (may_be_spaces
                        && raw.iter().all(is_space)
                        && raw.chunks(2).all(|unit| unit.iter().filter(|b| is_zero(b)).count() == 1))
            }
        }
    }

    /// Handles an unclosed quote: the record costs only its first line.
    fn give_up<U: Unit>(&mut self) -> Step {
        let first = self.scan.newline_at.unwrap_or(0);
        let unit = self.peek::<U>(first).unwrap_or(LF);
        let newline = self.newline::<U>(first, unit).unwrap_or(U::BYTES);
        let offset = self.place.offset;
        self.memo = Some(Memo {
            from: offset,
            to: offset + self.scan.at as u64,
            state: self.scan.state,
            misplaced_at: self.scan.misplaced_at.map(|at| offset + at as u64),
        });
        self.take(first, newline, Whole::OpenQuote)
    }

    fn take(&mut self, length: usize, newline: usize, whole: Whole) -> Step {
        let begin = self.place;
        let raw = self.rest()[..length].to_vec();
        let inside =
            if self.scan.newline_at.is_some() && whole == Whole::Yes { count_lines(self.encoding, &raw) } else { 0 };
        let fields = self.scan.fields;
        self.advance(length + newline, inside + u64::from(newline > 0));
        Step::Record(Cut { begin, end: self.place, raw, fields, whole })
    }

    fn advance(&mut self, bytes: usize, lines: u64) {
        self.begin += bytes;
        self.place.offset += bytes as u64;
        self.place.line += lines;
        self.scan = Scan::FRESH;
    }

    /// Skips the rest of a line that is too long.
    fn pass_over<U: Unit>(&mut self) -> Step {
        let mut at = 0;
        let newline = loop {
            match self.peek::<U>(at) {
                Some(LF) => break U::BYTES,
                // A lone CR ends a line of CSV; in NDJSON it is a space like any other.
                Some(CR) if self.grammar != Grammar::Lines => {
                    if let Some(newline) = self.newline::<U>(at, CR) {
                        break newline;
                    }
                    self.advance(at, 0);
                    return Step::Starved;
                }
                Some(_) => at += U::BYTES,
                None if self.ended => {
                    at = self.rest().len();
                    break 0;
                }
                None => {
                    self.advance(at, 0);
                    return Step::Starved;
                }
            }
        };
        self.advance(at + newline, u64::from(newline > 0));
        match self.passing.take() {
            Some(cut) => Step::Record(Cut { end: self.place, ..cut }),
            None => Step::Starved,
        }
    }
}

/// Result of the search for the end of a record.
enum Found {
    Starved,
    End {
        length: usize,
        newline: usize,
    },
    /// Reached [`RECORD_LIMIT`].
    Limit,
    /// The file ended inside quotes.
    OpenAtEnd,
    /// The record closed, but spans several lines with misplaced quotes.
    ForgottenQuote,
}
