//! State machine for the units of a CSV record.

use super::units::{CR, LF, QUOTE, Unit};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    CellStart,
    Plain,
    Quoted,
    /// A quote inside quotes: the end of the cell, or half of an escaped quote.
    QuoteSeen,
    /// Text after a closing quote.
    Tail,
}

/// Scan state of the current record. Offsets are relative to its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    pub(super) at: usize,
    pub(super) state: State,
    pub(super) fields: usize,
    /// First line end inside quotes.
    pub(super) newline_at: Option<usize>,
    /// Last misplaced quote: in the middle of an unquoted cell, or closing with text after it.
    pub(super) misplaced_at: Option<usize>,
    /// Part of it was taken from the memo: `fields` is unknown.
    pub(super) jumped: bool,
    pub(super) may_jump: bool,
}

impl Scan {
    pub(super) const FRESH: Scan = Scan {
        at: 0,
        state: State::CellStart,
        fields: 1,
        newline_at: None,
        misplaced_at: None,
        jumped: false,
        may_jump: true,
    };

    /// Reads one unit that ends no line.
    pub(super) fn read(&mut self, unit: u16, delimiter: u16) {
        self.state = match self.state {
            State::Quoted if unit == QUOTE => State::QuoteSeen,
            State::Quoted => State::Quoted,
            _ if unit == delimiter => {
                self.fields += 1;
                State::CellStart
            }
            State::CellStart | State::QuoteSeen if unit == QUOTE => State::Quoted,
            State::CellStart => State::Plain,
            State::QuoteSeen => {
                self.misplaced_at = Some(self.at);
                State::Tail
            }
            State::Tail => State::Tail,
            State::Plain => {
                if unit == QUOTE {
                    self.misplaced_at = Some(self.at);
                }
                State::Plain
            }
        };
    }
}

/// Returns true if a line inside the record is a row by itself, or the start of one. If the record also has the wrong
/// number of fields, a forgotten quote was closed by another one.
pub(super) fn holds_a_row<U: Unit>(raw: &[u8], delimiter: u16, width: Option<usize>) -> bool {
    let mut line = Scan::FRESH;
    let mut is_first = true;
    for unit in raw.chunks_exact(U::BYTES).map(U::read).chain([LF]) {
        if unit != LF && unit != CR {
            line.read(unit, delimiter);
            continue;
        }
        let is_row = if line.state == State::Quoted { line.fields > 1 } else { Some(line.fields) == width };
        if !is_first && line.misplaced_at.is_none() && is_row {
            return true;
        }
        line = Scan::FRESH;
        is_first = false;
    }
    false
}
