//! Rows of a file that would fail, as CSV: corrected and uploaded again, they can be imported by themselves.

use bytes::Bytes;
use domain::import::{file_check::FileCheckBody, upload::UploadFormat};
use futures::{Stream, stream};
use uuid::Uuid;

use super::full_check::Scan;
use crate::App;
use engine::{
    access::caller::Caller,
    error::{Error, Result},
    import::{
        split::{FAILURE_COLUMNS, Fault, Row, nameless_columns, payload_cell, surplus_cells},
        table_cells,
    },
};

/// Bytes that are sent at once.
const PIECE: usize = 64 << 10;

/// Opens the list of the rows that would fail: the columns of the file, and `_line`, `_code`, and `_problem`. The file is
/// read while the list is consumed.
///
/// # Errors
///
/// As [`super::check_rows`].
pub async fn problem_list(
    app: &App,
    caller: &Caller,
    id: Uuid,
    body: FileCheckBody,
) -> Result<impl Stream<Item = Result<Bytes>> + Send + 'static + use<>> {
    let scan = Scan::open(app, caller, id, body).await?.with_whole_cells();
    let delimiter = scan.head.delimiter.and_then(|c| u8::try_from(c).ok()).unwrap_or(b',');
    let columns = match scan.head.data_columns() {
        Some(names) => names.to_vec(),
        None => nameless_columns(scan.head.payload_width()),
    };
    let list = List { delimiter, width: columns.len(), is_table: scan.head.format.is_table() };
    let names: Vec<String> = columns.into_iter().chain(FAILURE_COLUMNS.map(str::to_owned)).collect();
    let mut start = "\u{FEFF}".as_bytes().to_vec();
    list.record(&mut start, &names)?;
    Ok(stream::try_unfold((Some(scan), list, start), |(scan, list, mut text)| async move {
        let Some(mut scan) = scan else { return Ok(None) };
        // A file that is one item has no rows.
        let mut is_over = scan.head.format == UploadFormat::None;
        while text.len() < PIECE && !is_over {
            match scan.next().await? {
                Some(Row { fault: Some(fault), cells, number, .. }) => list.row(&mut text, cells, number, &fault)?,
                Some(_) => {}
                None => is_over = true,
            }
        }
        scan.pause();
        let rest = if is_over { None } else { Some(scan) };
        Ok(Some((Bytes::from(text), (rest, list, Vec::new()))))
    }))
}

#[derive(Clone, Copy)]
struct List {
    delimiter: u8,
    /// Number of columns of the file.
    width: usize,
    is_table: bool,
}

impl List {
    fn row(self, text: &mut Vec<u8>, mut cells: Vec<String>, line: i64, fault: &Fault) -> Result<()> {
        let surplus = cells.split_off(cells.len().min(self.width));
        cells.resize(self.width, String::new());
        let code = fault.kind.as_str();
        if !self.is_table {
            cells[0] = payload_cell(&cells[0], code);
        }
        let message = fault.message();
        let surplus = surplus_cells(code, &message, surplus);
        cells.extend([line.to_string(), code.to_owned(), message]);
        cells.extend(surplus);
        self.record(text, &cells)
    }

    fn record(self, text: &mut Vec<u8>, cells: &[String]) -> Result<()> {
        let mut writer = csv::WriterBuilder::new().delimiter(self.delimiter).from_writer(text);
        let broken = |error: String| Error::Broken(error);
        writer
            .write_record(cells.iter().map(|cell| table_cells::escape(cell).into_owned()))
            .map_err(|error| broken(error.to_string()))?;
        writer.flush().map_err(|error| broken(error.to_string()))
    }
}
