//! Conversion of Excel workbooks (XLSX) to lines that can be split like other files.
//!
//! A workbook cannot be streamed: its sheets refer to a table of strings. So it is converted once, row by row, into a
//! separate object: the row number, a tab, a JSON array of the cells. The blocking work runs in its own thread; at most
//! one large workbook at a time, because its strings are in memory, and a few small ones. `guard` has verified that
//! they fit. One workbook per owner is converted at a time, so that no owner blocks all others.

mod guard;

use std::{
    collections::{BTreeMap, HashSet},
    fs::File,
    io::{self, Seek as _, Write as _},
    sync::{Arc, OnceLock},
};

use bytes::Bytes;
use calamine::{Data, DataRef, ExcelDateTime, ExcelDateTimeType, Reader as _, SheetType, SheetVisible, Xlsx};
use domain::Document;
use futures::StreamExt as _;
use tokio::sync::{Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use uuid::Uuid;

use guard::Limits;

use crate::import::{
    files::{Arrived, Files, ReceiveError},
    split::RECORD_LIMIT,
    turns::{Turn, Turns},
};

/// Concurrent conversions of large and of small workbooks.
static LARGE: Semaphore = Semaphore::const_new(1);
static SMALL: Semaphore = Semaphore::const_new(2);

/// Size in bytes above which a workbook always counts as large.
const SMALL_FILE: u64 = 1 << 20;

/// One conversion at a time for each owner.
static OWNER_TURNS: Turns = Turns::new();

/// Bytes per chunk of output.
const PIECE: usize = 256 << 10;

/// Maximum columns of a sheet.
const MOST_COLUMNS: u32 = 16_384;

/// Reason why a workbook was not converted.
#[derive(Debug)]
pub enum WorkbookError {
    /// No sheet is readable: a sentence without its subject, as in "is protected by a password".
    Unreadable(String),
    /// The requested sheet is unreadable, with such a sentence and the names of all sheets.
    UnreadableSheet(String, Vec<String>),
    /// There is no sheet of the requested name; the existing names.
    NoSheet(Vec<String>),
    /// The rows of the sheet are more than may still be stored.
    OverQuota,
    Files(object_store::Error),
    Disk(io::Error),
}

impl From<object_store::Error> for WorkbookError {
    fn from(error: object_store::Error) -> Self {
        Self::Files(error)
    }
}

impl From<io::Error> for WorkbookError {
    fn from(error: io::Error) -> Self {
        Self::Disk(error)
    }
}

/// Waits until no other workbook is being converted for this owner.
pub async fn take_turn(owner_id: Uuid) -> Turn {
    OWNER_TURNS.take(owner_id).await
}

/// Converts one sheet, by default the first that is not hidden; the lines arrive in the store and the caller must keep
/// them. Also returns the names of all sheets, hidden ones last. `left`: bytes that may still be stored.
pub async fn convert(
    files: &Files,
    id: Uuid,
    bytes: u64,
    sheet: Option<String>,
    left: u64,
) -> Result<(Arrived, Vec<String>), WorkbookError> {
    let mut file = None;
    if bytes <= SMALL_FILE {
        let _room = SMALL.acquire().await.map_err(io::Error::other)?;
        let fetched = fetch(files, id, bytes).await?;
        let small = Limits::small(files.workbook_limit());
        let looked = tokio::task::spawn_blocking(move || {
            let mut fetched = fetched;
            let is_small = guard::check(&mut fetched, small).is_ok();
            (fetched, is_small)
        });
        let (fetched, is_small) = looked.await.map_err(|_| WorkbookError::Unreadable("is damaged".to_owned()))?;
        if is_small {
            // Its rows are not kept in memory, so they may be as many as those of a large one.
            let limits = Limits { rows: Limits::of(files.workbook_limit()).rows, ..small };
            return convert_file(files, fetched, limits, sheet, left).await;
        }
        file = Some(fetched);
    }
    let _room = LARGE.acquire().await.map_err(io::Error::other)?;
    let file = match file {
        Some(file) => file,
        None => fetch(files, id, bytes).await?,
    };
    convert_file(files, file, Limits::of(files.workbook_limit()), sheet, left).await
}

async fn convert_file(
    files: &Files,
    file: File,
    limits: Limits,
    sheet: Option<String>,
    left: u64,
) -> Result<(Arrived, Vec<String>), WorkbookError> {
    let most = limits.rows;
    let (pieces, received) = mpsc::channel::<Result<Bytes, WorkbookError>>(4);
    let names: Arc<OnceLock<Vec<String>>> = Arc::default();
    let found = Arc::clone(&names);
    let reading = tokio::task::spawn_blocking(move || {
        if let Err(error) = read(file, limits, sheet.as_deref(), &found, &pieces) {
            // A dropped receiver has failed with its own error.
            let _ = pieces.blocking_send(Err(error));
        }
    });
    let arrived = files.receive(ReceiverStream::new(received), most.min(left)).await;
    // The library reads untrusted input: if it panics, the workbook is unreadable.
    let is_done = reading.await.is_ok();
    // Once the sheet names are known, the failure concerns the current sheet.
    let unreadable = |what: String| match names.get() {
        None => WorkbookError::Unreadable(what),
        Some(names) => WorkbookError::UnreadableSheet(what, names.clone()),
    };
    match arrived {
        Ok(arrived) if is_done => Ok((arrived, names.get().cloned().unwrap_or_default())),
        Ok(arrived) => {
            files.forget(&arrived).await?;
            Err(unreadable("is damaged".to_owned()))
        }
        Err(ReceiveError::TooLarge) if left < most => Err(WorkbookError::OverQuota),
        Err(ReceiveError::TooLarge) => Err(unreadable(format!("has rows of more than {most} bytes altogether"))),
        Err(ReceiveError::NoRoom) => Err(WorkbookError::Disk(io::ErrorKind::StorageFull.into())),
        Err(ReceiveError::Sender(WorkbookError::Unreadable(what))) => Err(unreadable(what)),
        Err(ReceiveError::Sender(error)) => Err(error),
        Err(ReceiveError::Store(error)) => Err(error.into()),
    }
}

/// Copies the workbook to a seekable file that is private to this process.
async fn fetch(files: &Files, id: Uuid, bytes: u64) -> Result<File, WorkbookError> {
    let mut source = files.read(id, 0, bytes).await?;
    let mut file = tempfile::tempfile()?;
    while let Some(piece) = source.next().await {
        file.write_all(&piece?)?;
    }
    file.rewind()?;
    Ok(file)
}

/// Returns the lines of a workbook in memory: the entry point for fuzzing.
#[doc(hidden)]
pub fn lines_of(workbook: Vec<u8>, limit: u64) -> Result<Vec<u8>, WorkbookError> {
    let (pieces, mut received) = mpsc::channel(4);
    let reading =
        std::thread::spawn(move || read(io::Cursor::new(workbook), Limits::of(limit), None, &OnceLock::new(), &pieces));
    let mut lines = Vec::new();
    while let Some(piece) = received.blocking_recv() {
        lines.extend_from_slice(&piece?);
    }
    // As in `convert`: a panic of the library means a damaged workbook.
    reading.join().unwrap_or_else(|_| Err(WorkbookError::Unreadable("is damaged".to_owned())))?;
    Ok(lines)
}

type Pieces = mpsc::Sender<Result<Bytes, WorkbookError>>;

fn read(
    mut file: impl io::Read + io::Seek,
    limits: Limits,
    sheet: Option<&str>,
    found: &OnceLock<Vec<String>>,
    pieces: &Pieces,
) -> Result<(), WorkbookError> {
    guard::check(&mut file, limits).map_err(WorkbookError::Unreadable)?;
    file.rewind()?;
    let unreadable = |error: calamine::XlsxError| {
        WorkbookError::Unreadable(match error {
            calamine::XlsxError::Password => "is protected by a password".to_owned(),
            other => format!("is damaged: {other}"),
        })
    };
    let mut workbook = Xlsx::new(io::BufReader::new(file)).map_err(unreadable)?;
    // The reader takes the first sheet of a name, of any kind.
    let mut sheet_names = HashSet::new();
    if !workbook.sheets_metadata().iter().all(|sheet| sheet_names.insert(sheet.name.as_str())) {
        return Err(WorkbookError::Unreadable("is damaged: two of its sheets have the same name".to_owned()));
    }
    let is_sheet = |sheet: &&calamine::Sheet| sheet.typ == SheetType::WorkSheet;
    let mut sheets: Vec<&calamine::Sheet> = workbook.sheets_metadata().iter().filter(is_sheet).collect();
    // The first sheet is the default.
    sheets.sort_by_key(|sheet| sheet.visible != SheetVisible::Visible);
    let names = found.get_or_init(|| sheets.into_iter().map(|sheet| sheet.name.clone()).collect());
    let name = match sheet {
        Some(wanted) => names.iter().find(|name| *name == wanted),
        None => names.first(),
    };
    let Some(name) = name.cloned() else { return Err(WorkbookError::NoSheet(names.clone())) };
    let mut cells = workbook.worksheet_cells_reader(&name).map_err(unreadable)?;
    let mut lines = Lines { pieces, text: Vec::new(), row: Row::default() };
    while let Some(cell) = cells.next_cell().map_err(unreadable)? {
        lines.add(cell.get_position(), cell.get_value())?;
    }
    lines.end_row()?;
    lines.send()
}

/// Current row.
#[derive(Debug, Default)]
struct Row {
    number: u32,
    /// Cells as JSON, separated by commas.
    cells: Vec<u8>,
    /// Number of columns in `cells`.
    columns: u32,
}

/// Writer of rows.
struct Lines<'a> {
    pieces: &'a Pieces,
    text: Vec<u8>,
    row: Row,
}

impl Lines<'_> {
    fn add(&mut self, (row, column): (u32, u32), value: &DataRef) -> Result<(), WorkbookError> {
        if is_empty(value) {
            return Ok(());
        }
        if row != self.row.number {
            self.end_row()?;
            self.row.number = row;
        }
        if column >= MOST_COLUMNS || column < self.row.columns {
            return Err(WorkbookError::Unreadable("is damaged: its cells are not in order".to_owned()));
        }
        // A row that is already too long is refused when it is read; the rest of it is not needed.
        if self.row.cells.len() <= RECORD_LIMIT {
            let json = json(value);
            for place in self.row.columns..=column {
                if place > 0 {
                    self.row.cells.push(b',');
                }
                self.row.cells.extend_from_slice(if place == column { json.text().as_bytes() } else { b"null" });
            }
        }
        self.row.columns = column + 1;
        Ok(())
    }

    /// Writes the row, unless it is empty.
    fn end_row(&mut self) -> Result<(), WorkbookError> {
        if self.row.columns > 0 {
            let number = u64::from(self.row.number) + 1;
            self.text.extend_from_slice(format!("{number}\t[").as_bytes());
            self.text.append(&mut self.row.cells);
            self.text.extend_from_slice(b"]\n");
            self.row.columns = 0;
        }
        if self.text.len() >= PIECE { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), WorkbookError> {
        let piece = Bytes::from(std::mem::take(&mut self.text));
        self.pieces.blocking_send(Ok(piece)).map_err(|e| WorkbookError::Disk(io::Error::other(e.to_string())))
    }
}

fn is_empty(value: &DataRef) -> bool {
    match value {
        DataRef::Empty => true,
        DataRef::SharedString(text) => text.is_empty(),
        DataRef::String(text) => text.is_empty(),
        _ => false,
    }
}

/// Converts a cell to JSON, an error to an object.
fn json(value: &DataRef) -> Document {
    match value {
        DataRef::Empty => Document::of(&()),
        DataRef::Int(number) => Document::of(number),
        DataRef::Float(number) => float(*number),
        DataRef::String(text) | DataRef::DurationIso(text) => string(text),
        DataRef::DateTimeIso(text) => string(without_midnight(text)),
        DataRef::SharedString(text) => string(text),
        DataRef::Bool(truth) => Document::of(truth),
        // The reader takes the nearest date that there is.
        DataRef::DateTime(moment) if !moment.is_duration() && !is_a_date(*moment) => float(moment.as_f64()),
        DataRef::DateTime(moment) => Document::of(&date(*moment)),
        DataRef::Error(error) => Document::of(&BTreeMap::from([("error", Data::Error(error.clone()).to_string())])),
    }
}

/// Returns true for serial numbers of dates and times: up to the end of the year 9999.
fn is_a_date(moment: ExcelDateTime) -> bool {
    let counts_from_1904 = moment == ExcelDateTime::new(moment.as_f64(), ExcelDateTimeType::DateTime, true);
    (0.0..if counts_from_1904 { 2_957_004.0 } else { 2_958_466.0 }).contains(&moment.as_f64())
}

/// Date alone if the time is midnight, as with serial numbers.
fn without_midnight(text: &str) -> &str {
    match text.split_once('T') {
        Some((day, time)) if time.trim_matches(['0', ':', '.']).is_empty() => day,
        _ => text,
    }
}

/// Text as JSON. NUL cannot be stored.
fn string(text: &str) -> Document {
    if text.contains('\0') { Document::of(&text.replace('\0', "\u{FFFD}")) } else { Document::of(&text) }
}

/// Formats integers without a decimal point, and fractions with 15 digits, as the sheet shows them: `=100*1.1` is stored as
/// 110.00000000000001.
fn float(number: f64) -> Document {
    if !number.is_finite() {
        return Document::of(&number.to_string());
    }
    let is_whole = number.fract() == 0.0;
    let shown = if is_whole { number } else { format!("{number:.14e}").parse().unwrap_or(number) };
    Document::trusted(shown.to_string())
}

/// Formats a date, a time or both in ISO 8601, as far as the cell has them; durations likewise.
fn date(moment: ExcelDateTime) -> String {
    let serial = moment.as_f64();
    if moment.is_duration() {
        let sign = if serial < 0.0 { "-" } else { "" };
        let milliseconds = (serial.abs() * 86_400_000.0).round() as u64;
        let (seconds, milliseconds) = (milliseconds / 1_000, milliseconds % 1_000);
        let fraction = if milliseconds == 0 { String::new() } else { format!(".{milliseconds:03}") };
        return format!("{sign}PT{}H{}M{}{fraction}S", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, milli) = moment.to_ymd_hms_milli();
    let fraction = if milli == 0 { String::new() } else { format!(".{milli:03}") };
    let time = format!("{hour:02}:{minute:02}:{second:02}{fraction}");
    if (0.0..1.0).contains(&serial) {
        return time;
    }
    let day = format!("{year:04}-{month:02}-{day:02}");
    if (hour, minute, second, milli) == (0, 0, 0, 0) { day } else { format!("{day}T{time}") }
}

#[cfg(test)]
mod tests {
    use calamine::ExcelDateTimeType::{DateTime, TimeDelta};

    use super::*;

    #[test]
    fn dates_are_iso_as_far_as_they_go() {
        for (serial, kind, iso) in [
            (45_943.0, DateTime, "2025-10-13"),
            (45_943.5, DateTime, "2025-10-13T12:00:00"),
            (45_943.541, DateTime, "2025-10-13T12:59:02.400"),
            (0.25, DateTime, "06:00:00"),
            (1.5, TimeDelta, "PT36H0M0S"),
        ] {
            assert_eq!(date(ExcelDateTime::new(serial, kind, false)), iso);
        }
    }

    #[test]
    fn cells_that_are_no_dates_do_not_become_others() {
        for (serial, text) in [(20_240_115.0, "20240115"), (-5.0, "-5"), (-0.104, "-0.104"), (2_958_466.0, "2958466")] {
            assert_eq!(json(&DataRef::DateTime(ExcelDateTime::new(serial, DateTime, false))).text(), text);
        }
        for (serial, is_1904) in [(2_958_465.0, false), (2_957_003.0, true)] {
            let last = DataRef::DateTime(ExcelDateTime::new(serial, DateTime, is_1904));
            assert_eq!(json(&last).text(), "\"9999-12-31\"");
        }
        let later = DataRef::DateTime(ExcelDateTime::new(2_957_004.0, DateTime, true));
        assert_eq!(json(&later).text(), "2957004");
    }

    #[test]
    fn written_dates_have_no_time_at_midnight() {
        for (text, iso) in [
            ("2019-09-25T00:00:00.000", "2019-09-25"),
            ("2019-09-25T00:00", "2019-09-25"),
            ("2019-09-25", "2019-09-25"),
            ("2019-09-25T10:00:00", "2019-09-25T10:00:00"),
            ("2019-09-25T00:00:00Z", "2019-09-25T00:00:00Z"),
            ("10:00:00", "10:00:00"),
        ] {
            assert_eq!(without_midnight(text), iso);
        }
    }

    #[test]
    fn numbers_are_written_as_people_do() {
        for (number, text) in [(1.0, "1"), (-0.5, "-0.5"), (1.10, "1.1"), (1e21, "1000000000000000000000")] {
            assert_eq!(float(number).text(), text);
        }
        // What formulas compute, as Excel shows it.
        for (number, text) in [(100.0 * 1.1, "110"), (0.1 + 0.2, "0.3"), (9_007_199_254_740_991.0, "9007199254740991")]
        {
            assert_eq!(float(number).text(), text);
        }
    }
}
