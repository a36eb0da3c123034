//! Head of a file: encoding, delimiter, column names, and expected number of rows.
//!
//! Determined once, before a job is created from the file, and stored with the job. Files without rows and invalid
//! headers are refused here.

use std::collections::BTreeMap;

use bytes::Bytes;
use domain::{Code, Problem, import::upload::UploadFormat};
use futures::{Stream, StreamExt};

use super::{
    Encoding, Head, Place,
    cells::read_cells,
    encoding_guess::{guess, unmarked_utf16},
    format_cutters::FormatCutter,
    named_delimiter::named_delimiter,
    record_cutter::{Cut, Cutter, Grammar, Step, Whole},
    returned::without_padding,
    row::workbook_row,
    units::{Unit as _, Utf8, Utf16Be, Utf16Le},
};

/// Bytes of the file used to find the delimiter and estimate the number of rows.
pub(super) const SAMPLE: usize = 256 << 10;

/// Maximum number of columns.
const MOST_COLUMNS: usize = 10_000;

/// Least frequent in text first: the first wins a tie.
pub(super) const DELIMITERS: [u8; 4] = *b"\t|;,";

/// Caller's options for the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Want {
    pub format: UploadFormat,
    /// Table: true if the first record names the columns.
    pub header: bool,
    /// Line of the header, from 1; `None` for the first record.
    pub header_row: Option<i64>,
    /// CSV delimiter; `None` to detect it.
    pub delimiter: Option<char>,
    /// Text encoding; `None` to detect it.
    pub encoding: Option<Encoding>,
}

impl Want {
    /// Parses a delimiter: one ASCII character that is not a quote, a letter, a digit or a line end.
    pub fn delimiter(text: &str) -> Option<char> {
        let mut chars = text.chars();
        let first = chars.next()?;
        let fits = first == '\t' || first == ' ' || (first.is_ascii_punctuation() && !matches!(first, '"' | '-' | '.'));
        (chars.next().is_none() && fits).then_some(first)
    }
}

/// Reason why there is no head.
#[derive(Debug)]
pub enum HeadError<E> {
    /// Refused: `no_rows` or `bad_header`.
    Refused(Box<Problem>),
    /// The file could not be read.
    Read(E),
}

fn refuse<T, E>(code: Code, detail: impl Into<String>) -> Result<T, HeadError<E>> {
    Err(HeadError::Refused(Box::new(Problem::new(code, detail))))
}

/// Reads the head of a file of `bytes` bytes.
pub async fn inspect<S, E>(mut source: S, bytes: u64, want: Want) -> Result<Head, HeadError<E>>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let mut sample = Vec::new();
    let mut ended = false;
    while sample.len() < SAMPLE && !ended {
        match source.next().await {
            Some(piece) => sample.extend_from_slice(&piece.map_err(HeadError::Read)?),
            None => ended = true,
        }
    }
    let (encoding, mark) = find_encoding(&sample, want);
    let mut start = Place { offset: mark as u64, line: 1 };
    let is_csv = want.format == UploadFormat::Csv;
    let mut named = None;
    if is_csv && want.header_row != Some(1) {
        (named, start) = named_delimiter(&sample, encoding, start).map_or((None, start), |(it, end)| (Some(it), end));
    }
    let delimiter = match want.delimiter.or(named).and_then(|c| u8::try_from(c).ok()) {
        Some(given) => given,
        None if is_csv => find_delimiter(&sample[mark..], encoding, want.header_row),
        None => b',',
    };
    if want.format == UploadFormat::Json {
        start = open_array(&sample, encoding, start)?;
    }
    let cutter = FormatCutter::new(want.format, encoding, delimiter, None, start);
    let mut records = Records { source, cutter, ended };
    records.cutter.feed(&sample[start.offset as usize..]);
    if ended {
        records.cutter.end();
    }

    let mut head = Head {
        format: want.format,
        encoding,
        delimiter: is_csv.then_some(char::from(delimiter)),
        columns: None,
        width: 0,
        first: start,
        mark: mark > 0,
        rows: 0,
        staged: None,
        mapping: None,
        edits: BTreeMap::new(),
    };
    if want.format.is_table() && want.header {
        let header = find_header(&mut records, want).await?;
        let columns = match want.format {
            UploadFormat::Xlsx => workbook_row::header(&header.raw),
            _ => without_padding(read_header(&header, encoding, delimiter)?),
        };
        let line = line_of(&header, want);
        check_names(&columns, line)?;
        head.width = columns.len();
        head.columns = Some(columns);
        if head.is_returned() {
            head.columns.iter_mut().flatten().for_each(crate::import::table_cells::unescape);
        }
        head.first = header.end;
        records.cutter.expect_width(head.width);
    }
    let Some(first) = records.next().await? else {
        let detail =
            if head.columns.is_some() { "The file has a header but no rows." } else { "The file has no rows." };
        return refuse(Code::NoRows, detail);
    };
    match want.format {
        // The indentation of an element is visible only from after the bracket.
        UploadFormat::Json => {}
        // Skips blank lines, which may look like rows once only one column is known.
        _ => head.first = first.begin,
    }
    if head.columns.is_none() && want.format.is_table() {
        let fields = if is_csv { first.fields } else { workbook_row::fields(&first.raw) };
        head.width = fields.min(MOST_COLUMNS);
        records.cutter.expect_width(head.width);
    }
    head.rows = records.count_rest(bytes, head.first, first.end);
    Ok(head)
}

/// Line of a record; in a workbook, the row number of its sheet.
fn line_of(cut: &Cut, want: Want) -> u64 {
    if want.format == UploadFormat::Csv { cut.begin.line } else { workbook_row::number(&cut.raw) }
}

/// Reads up to the record that names the columns.
async fn find_header<S, E>(records: &mut Records<S>, want: Want) -> Result<Cut, HeadError<E>>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let mut last = None;
    while let Some(record) = records.next().await? {
        let line = line_of(&record, want);
        match want.header_row {
            Some(row) if (line as i64) < row => last = Some(line),
            Some(row) if line as i64 > row => {
                let detail = format!("Line {row}: expected the names of the columns, found no row that begins here.");
                return refuse(Code::BadHeader, detail);
            }
            _ => return Ok(record),
        }
    }
    match (want.header_row, last) {
        (Some(row), Some(last)) => refuse(
            Code::BadHeader,
            format!("Line {row}: expected the names of the columns, found that row {last} is the last."),
        ),
        _ => refuse(Code::NoRows, "The file is empty: it has neither a header nor a row."),
    }
}

/// Records of a file in order.
struct Records<S> {
    source: S,
    cutter: FormatCutter,
    ended: bool,
}

impl<S, E> Records<S>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    async fn next(&mut self) -> Result<Option<Cut>, HeadError<E>> {
        loop {
            match self.cutter.step() {
                Step::Record(cut) => return Ok(Some(cut)),
                Step::End => return Ok(None),
                Step::Starved => {
                    if let Some(piece) = self.source.next().await {
                        self.cutter.feed(&piece.map_err(HeadError::Read)?);
                    } else {
                        self.ended = true;
                        self.cutter.end();
                    }
                }
            }
        }
    }

    /// Counts the records read so far, including the first, and returns the estimate for the whole file; exact if all
    /// of it has been read.
    fn count_rest(&mut self, bytes: u64, first: Place, behind: Place) -> i64 {
        let mut rows = 1;
        let mut end = behind.offset;
        while let Step::Record(cut) = self.cutter.step() {
            rows += 1;
            end = cut.end.offset;
        }
        if self.ended {
            return rows;
        }
        let seen = end.saturating_sub(first.offset).max(1);
        let whole = bytes.saturating_sub(first.offset);
        (i128::from(rows) * i128::from(whole) / i128::from(seen)).clamp(1, i128::from(i64::MAX)) as i64
    }
}

fn read_header<E>(header: &Cut, encoding: Encoding, delimiter: u8) -> Result<Vec<String>, HeadError<E>> {
    let line = header.begin.line;
    match header.whole {
        Whole::Yes => {}
        Whole::OpenQuote => {
            return refuse(Code::BadHeader, format!("Line {line}: the header has a quote that is never closed."));
        }
        _ => return refuse(Code::BadHeader, format!("Line {line}: the header does not end.")),
    }
    if header.fields > MOST_COLUMNS {
        let detail = format!("Line {line}: expected at most {MOST_COLUMNS} columns, found {}.", header.fields);
        return refuse(Code::BadHeader, detail);
    }
    let cells = read_cells(&header.raw, encoding, delimiter, MOST_COLUMNS);
    if let Some((column, what)) = cells.unreadable {
        let detail = format!("Line {line}, column {}: expected a name, found {what}.", column + 1);
        return refuse(Code::BadHeader, detail);
    }
    Ok(cells.texts)
}

/// Checks that every column has a unique name.
fn check_names<E>(names: &[String], line: u64) -> Result<(), HeadError<E>> {
    if names.is_empty() {
        return refuse(Code::BadHeader, format!("Line {line}: expected names of columns, found none."));
    }
    let mut seen = std::collections::HashMap::new();
    for (column, name) in names.iter().enumerate() {
        if name.trim().is_empty() {
            let detail = format!("Line {line}, column {}: expected a name, found none.", column + 1);
            return refuse(Code::BadHeader, detail);
        }
        if let Some(other) = seen.insert(name.as_str(), column) {
            let shown: String = name.chars().take(100).collect();
            let detail = format!(
                "Line {line}, column {}: expected a name of its own, found {shown:?} as in column {}.",
                column + 1,
                other + 1
            );
            return refuse(Code::BadHeader, detail);
        }
    }
    Ok(())
}

/// Place after the bracket that opens the array.
fn open_array<E>(sample: &[u8], encoding: Encoding, start: Place) -> Result<Place, HeadError<E>> {
    let (bytes, read): (usize, fn(&[u8]) -> u16) = match encoding {
        Encoding::Utf8 | Encoding::Legacy(_) => (1, Utf8::read),
        Encoding::Utf16Le => (2, Utf16Le::read),
        Encoding::Utf16Be => (2, Utf16Be::read),
    };
    let mut place = start;
    for unit in sample[start.offset as usize..].chunks_exact(bytes).map(read) {
        place.offset += bytes as u64;
        match u8::try_from(unit).unwrap_or(0) {
            b'\n' => place.line += 1,
            b' ' | b'\t' | b'\r' => {}
            b'[' => return Ok(place),
            _ => {
                let found =
                    char::from_u32(unit.into()).map_or_else(|| "something else".to_owned(), |c| format!("{c:?}"));
                let line = place.line;
                let detail = format!("expected a JSON array, which begins with [; found {found} in line {line}");
                return Err(HeadError::Refused(Box::new(Problem::invalid_body([(
                    "/upload/format".to_owned(),
                    detail,
                )]))));
            }
        }
    }
    refuse(Code::NoRows, "The file is empty.")
}

/// Encoding of the file, and length of its byte order mark. A UTF-16 mark overrides the caller's choice.
pub(super) fn find_encoding(sample: &[u8], want: Want) -> (Encoding, usize) {
    let (marked, mark) = Encoding::sniff(sample);
    let encoding = match (marked, want.format, want.encoding) {
        (Encoding::Utf16Le | Encoding::Utf16Be, ..) | (_, UploadFormat::Xlsx, _) => marked,
        (_, _, Some(given)) => given,
        _ if mark > 0 => marked,
        (_, UploadFormat::Csv | UploadFormat::Lines, None) => {
            guess(sample, want.header && want.format == UploadFormat::Csv)
        }
        // JSON is Unicode.
        _ => unmarked_utf16(sample).unwrap_or(marked),
    };
    (encoding, mark)
}

/// Finds the delimiter that cuts the first records into the same number of fields, more than one; the most consistent
/// wins, then the one with more fields.
fn find_delimiter(sample: &[u8], encoding: Encoding, header_row: Option<i64>) -> u8 {
    let mut best = (0, 0, b',');
    for delimiter in DELIMITERS {
        let grammar = Grammar::Csv { delimiter, width: None };
        let mut cutter = Cutter::new(encoding, grammar, Place { offset: 0, line: 1 });
        cutter.feed(sample);
        cutter.end();
        let mut width = 0;
        let mut alike = 0;
        let mut records = 0;
        while records < 50 {
            let Step::Record(cut) = cutter.step() else { break };
            if header_row.is_some_and(|row| (cut.begin.line as i64) < row) {
                continue;
            }
            records += 1;
            if width == 0 {
                width = cut.fields;
            }
            alike += usize::from(cut.fields == width && cut.whole == Whole::Yes);
        }
        if width > 1 && (alike, width) > (best.0, best.1) {
            best = (alike, width, delimiter);
        }
    }
    best.2
}
