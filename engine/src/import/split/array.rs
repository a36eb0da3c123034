//! Finds the elements of a JSON array, unit by unit, in arbitrary chunks of the file.
//!
//! Nothing is parsed: brackets are counted, strings skipped. A boundary is before the comma that follows an element, so
//! that a reader can resume there without other state. A broken element would swallow the rest of the file. Once an
//! element is proven broken (mismatched brackets, a line end inside a string, the end of the file) or exceeds the
//! payload limit, it ends at its first seam: a comma at a line end, where the next line starts at the indentation and
//! with the character that the element started with. Files are written that way, one element per line or indented.
//! Without a seam, the rest of the file is one bad row with an error.

use super::{
    Encoding, Place, RECORD_LIMIT,
    record_cutter::{Cut, SHOWN, Step, Whole},
    units::{CR, LF, QUOTE, Unit, Utf8, Utf16Be, Utf16Le},
};

/// Bytes from which an element with a seam inside is considered broken.
const SUSPECT: usize = 256 << 10;

/// Maximum nesting depth: deeper JSON is unreadable for any consumer.
const DEEPEST: usize = 1 << 20;

const COMMA: u16 = b',' as u16;
const OPEN_ARRAY: u16 = b'[' as u16;
const CLOSE_ARRAY: u16 = b']' as u16;
const OPEN_OBJECT: u16 = b'{' as u16;
const CLOSE_OBJECT: u16 = b'}' as u16;
const BACKSLASH: u16 = b'\\' as u16;

const fn is_space(unit: u16) -> bool {
    matches!(unit, LF | CR) || unit == b' ' as u16 || unit == b'\t' as u16
}

/// Position of the reader in the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Between elements.
    Between {
        comma: bool,
    },
    Element,
    /// An element that is too long; its start is in `passing`.
    Passing,
    /// After the end of the array.
    Behind,
    /// The rest is unusable; this was reported.
    Drain,
}

/// Scan state of the current element. Offsets are relative to its start.
#[derive(Clone, Debug, Default)]
struct Scan {
    at: usize,
    lines: u64,
    /// Open brackets, true for objects.
    open: Vec<bool>,
    in_string: bool,
    escaped: bool,
    broken: bool,
    /// First unit of the element.
    opener: u16,
    /// Indentation of the element, if only spaces precede it on its line.
    indent: Option<usize>,
    /// Last unit that is not a space, and its offset.
    last: (u16, usize),
    /// Set after a comma at a line end while only spaces follow: offset of the comma, number of lines before it, and
    /// number of spaces.
    margin: Option<(usize, u64, usize)>,
    /// First seam: offset of its comma and number of lines before it.
    seam: Option<(usize, u64)>,
}

/// Splits bytes into elements.
#[derive(Debug)]
pub(super) struct ArrayCutter {
    encoding: Encoding,
    buffer: Vec<u8>,
    begin: usize,
    place: Place,
    ended: bool,
    fed: bool,
    stage: Stage,
    /// Number of units since the line end, while they are spaces.
    margin: Option<usize>,
    scan: Scan,
    passing: Vec<u8>,
    passing_from: Place,
}

impl ArrayCutter {
    /// Starts at `place`: after the opening bracket, or at a boundary.
    pub(super) fn new(encoding: Encoding, place: Place) -> Self {
        Self {
            encoding,
            buffer: Vec::new(),
            begin: 0,
            place,
            ended: false,
            fed: false,
            stage: Stage::Between { comma: false },
            margin: None,
            scan: Scan::default(),
            passing: Vec::new(),
            passing_from: place,
        }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        if self.begin > self.buffer.len() / 2 {
            self.buffer.drain(..self.begin);
            self.begin = 0;
        }
        self.buffer.extend_from_slice(bytes);
        self.fed |= !bytes.is_empty();
    }

    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// False if a reader that starts here would see something else: at the end of the file, or after the array.
    pub(super) fn may_stop(&self) -> bool {
        matches!(self.stage, Stage::Between { .. }) && !(self.ended && self.rest().is_empty())
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
            let found = match self.stage {
                Stage::Between { comma } => self.between::<U>(comma),
                Stage::Element | Stage::Passing => self.element::<U>(),
                Stage::Behind => self.behind::<U>(),
                Stage::Drain => {
                    let rest = self.rest().len();
                    self.advance(rest, 0);
                    Some(if self.ended { Step::End } else { Step::Starved })
                }
            };
            if let Some(step) = found {
                return step;
            }
        }
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.begin..]
    }

    fn peek<U: Unit>(&self, at: usize) -> Option<u16> {
        self.rest().get(at..at + U::BYTES).map(U::read)
    }

    fn advance(&mut self, bytes: usize, lines: u64) {
        self.begin += bytes;
        self.place.offset += bytes as u64;
        self.place.line += lines;
    }

    /// Skips a space and updates the margin.
    fn pass_space<U: Unit>(&mut self, unit: u16) {
        self.margin = if unit == LF { Some(0) } else { self.margin.map(|n| n + 1) };
        self.advance(U::BYTES, u64::from(unit == LF));
    }

    fn between<U: Unit>(&mut self, comma: bool) -> Option<Step> {
        let Some(unit) = self.peek::<U>(0) else {
            if !self.ended {
                return Some(Step::Starved);
            }
            self.stage = Stage::Drain;
            // A reader that starts at the end of the file has nothing to report.
            return self.fed.then(|| self.report(Whole::Unended));
        };
        match unit {
            _ if is_space(unit) => self.pass_space::<U>(unit),
            COMMA | CLOSE_ARRAY if comma => {
                self.stage = Stage::Between { comma: false };
                return Some(self.report(Whole::Yes));
            }
            COMMA => {
                self.margin = None;
                self.stage = Stage::Between { comma: true };
                self.advance(U::BYTES, 0);
            }
            CLOSE_ARRAY => {
                self.stage = Stage::Behind;
                self.advance(U::BYTES, 0);
            }
            _ => {
                self.stage = Stage::Element;
                self.scan = Scan { opener: unit, indent: self.margin, ..Scan::default() };
                self.margin = None;
            }
        }
        None
    }

    /// Row that reports a missing or unexpected part.
    fn report(&self, whole: Whole) -> Step {
        Step::Record(Cut { begin: self.place, end: self.place, raw: Vec::new(), fields: 1, whole })
    }

    fn element<U: Unit>(&mut self) -> Option<Step> {
        let mut scan = std::mem::take(&mut self.scan);
        let found = loop {
            let Some(unit) = self.peek::<U>(scan.at) else {
                break if self.ended { Found::EndOfFile } else { Found::Starved };
            };
            if !scan.broken && scan.ends_at(unit) {
                break Found::End;
            }
            scan.read(unit, U::BYTES);
            if let Some(seam) = scan.seam
                && (scan.broken || (scan.at > SUSPECT && self.stage == Stage::Element))
            {
                break Found::Seam(seam);
            }
            if scan.at > RECORD_LIMIT {
                break Found::Limit;
            }
        };
        self.scan = scan;
        match found {
            Found::Starved => Some(Step::Starved),
            Found::End => Some(self.take(self.scan.at, self.scan.lines, Whole::Yes)),
            Found::Seam((at, lines)) => Some(self.take(at, lines, Whole::Broken)),
            Found::Limit => {
                self.pass_on();
                None
            }
            Found::EndOfFile => Some(self.end_of_file()),
        }
    }

    /// Stores the start of an element that is too long, and drops the bytes that were scanned.
    fn pass_on(&mut self) {
        if self.stage == Stage::Element {
            self.stage = Stage::Passing;
            self.passing = self.rest()[..SHOWN].to_vec();
            self.passing_from = self.place;
        }
        let (at, lines) = (self.scan.at, self.scan.lines);
        self.advance(at, lines);
        // Seams are relative to here; the open brackets stay open.
        let scan = &mut self.scan;
        (scan.at, scan.lines, scan.seam, scan.margin, scan.last) = (0, 0, None, None, (0, 0));
    }

    fn end_of_file(&mut self) -> Step {
        let is_whole = !self.scan.broken && !self.scan.in_string && self.scan.open.is_empty();
        if is_whole {
            return self.take(self.scan.at, self.scan.lines, Whole::Yes);
        }
        if let Some((at, lines)) = self.scan.seam {
            return self.take(at, lines, Whole::Broken);
        }
        let step = self.take(self.scan.at, self.scan.lines, Whole::Unended);
        self.stage = Stage::Drain;
        step
    }

    fn take(&mut self, length: usize, lines: u64, whole: Whole) -> Step {
        let is_passing = self.stage == Stage::Passing;
        let begin = if is_passing { self.passing_from } else { self.place };
        let raw = if is_passing { std::mem::take(&mut self.passing) } else { self.rest()[..length].to_vec() };
        let whole = if is_passing && whole == Whole::Yes { Whole::TooLong } else { whole };
        self.advance(length, lines);
        self.stage = Stage::Between { comma: false };
        self.margin = None;
        Step::Record(Cut { begin, end: self.place, raw, fields: 1, whole })
    }

    fn behind<U: Unit>(&mut self) -> Option<Step> {
        match self.peek::<U>(0) {
            Some(unit) if is_space(unit) => {
                self.pass_space::<U>(unit);
                None
            }
            Some(_) => {
                self.stage = Stage::Drain;
                Some(self.report(Whole::Trailing))
            }
            None => {
                if self.ended {
                    self.stage = Stage::Drain;
                    return None;
                }
                Some(Step::Starved)
            }
        }
    }
}

impl Scan {
    /// Returns true if the element ends before this unit.
    fn ends_at(&self, unit: u16) -> bool {
        !self.in_string && self.open.is_empty() && matches!(unit, COMMA | CLOSE_ARRAY)
    }

    /// Reads one unit of the element.
    fn read(&mut self, unit: u16, bytes: usize) {
        self.look_for_seam(unit);
        if unit == LF {
            self.lines += 1;
        }
        self.at += bytes;
        if self.broken {
            return;
        }
        if self.in_string {
            self.broken = unit == LF;
            self.in_string = self.escaped || unit != QUOTE;
            self.escaped = !self.escaped && unit == BACKSLASH;
            return;
        }
        match unit {
            QUOTE => self.in_string = true,
            OPEN_ARRAY | OPEN_OBJECT => {
                self.open.push(unit == OPEN_OBJECT);
                self.broken = self.open.len() > DEEPEST;
            }
            // An extra closing bracket breaks only this element.
            CLOSE_OBJECT if self.open.is_empty() => {}
            CLOSE_ARRAY | CLOSE_OBJECT => self.broken = self.open.pop() != Some(unit == CLOSE_OBJECT),
            _ => {}
        }
    }

    fn look_for_seam(&mut self, unit: u16) {
        if self.indent.is_none() || self.seam.is_some() {
            return;
        }
        if unit == LF {
            let (last, at) = self.last;
            // The lines before the comma are the lines before this one, because only spaces followed it; an empty line
            // in between makes no seam.
            self.margin = (last == COMMA && self.margin.is_none()).then_some((at, self.lines, 0));
        } else if is_space(unit) {
            if let Some((_, _, spaces)) = &mut self.margin {
                *spaces += 1;
            }
        } else {
            if let Some((comma, lines, spaces)) = self.margin.take()
                && Some(spaces) == self.indent
                && unit == self.opener
            {
                self.seam = Some((comma, lines));
            }
            self.last = (unit, self.at);
        }
    }
}

/// Result of the search for the end of an element.
enum Found {
    Starved,
    End,
    Seam((usize, u64)),
    Limit,
    EndOfFile,
}
