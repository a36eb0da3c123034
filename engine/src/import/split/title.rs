//! Header below a title: workbooks and their exports often begin with a title or a date above the names of the columns.

use bytes::Bytes;
use futures::{Stream, StreamExt as _};

use domain::import::upload::UploadFormat;

use super::{
    Place,
    cells::read_cells,
    format_cutters::FormatCutter,
    head::{DELIMITERS, SAMPLE, Want, find_encoding},
    record_cutter::Step,
    row::workbook_row,
};

/// Rows that are looked at.
const ROWS: usize = 20;

/// Cells of a row that are looked at.
const CELLS: usize = 1_000;

/// Returns the line of the row that seems to name the columns, if it is not the first row; in a workbook, its number
/// in the sheet.
pub async fn find_header<S, E>(mut source: S, want: Want) -> Result<Option<i64>, E>
where
    S: Stream<Item = Result<Bytes, E>> + Unpin,
{
    let mut sample = Vec::new();
    while sample.len() < SAMPLE {
        let Some(piece) = source.next().await else { break };
        sample.extend_from_slice(&piece?);
    }
    if !want.format.is_table() {
        return Ok(None);
    }
    let delimiter = want.delimiter.and_then(|c| u8::try_from(c).ok());
    let delimiters = delimiter.map_or_else(|| DELIMITERS.to_vec(), |given| vec![given]);
    let found = delimiters.into_iter().filter_map(|delimiter| {
        let rows = first_rows(&sample, want, delimiter);
        let (line, width) = names(&rows)?;
        let alike = rows.iter().filter(|(_, cells)| filled(cells) * 10 >= width * 8).count();
        Some((alike, width, line))
    });
    Ok(found.max_by_key(|&(alike, width, _)| (alike, width)).map(|(_, _, line)| line))
}

/// Lines and cells of the first rows.
fn first_rows(sample: &[u8], want: Want, delimiter: u8) -> Vec<(i64, Vec<String>)> {
    let (encoding, mark) = find_encoding(sample, want);
    let start = Place { offset: mark as u64, line: 1 };
    let mut cutter = FormatCutter::new(want.format, encoding, delimiter, None, start);
    cutter.feed(&sample[mark.min(sample.len())..]);
    let mut rows = Vec::new();
    while rows.len() < ROWS {
        let cut = match cutter.step() {
            Step::Record(cut) => cut,
            // The last row may not be here whole.
            Step::Starved if sample.len() < SAMPLE => {
                cutter.end();
                continue;
            }
            Step::Starved | Step::End => break,
        };
        rows.push(match want.format {
            UploadFormat::Xlsx => (workbook_row::number(&cut.raw) as i64, workbook_row::header(&cut.raw)),
            _ => (cut.begin.line as i64, read_cells(&cut.raw, encoding, delimiter, CELLS).texts),
        });
    }
    rows
}

fn filled(cells: &[String]) -> usize {
    cells.iter().filter(|cell| !cell.trim().is_empty()).count()
}

/// Most frequent number of filled cells of a row, from 2; of several, the largest. One row with surplus cells is no rule.
fn usual_width(rows: &[(i64, Vec<String>)]) -> Option<usize> {
    let widths = || rows.iter().map(|(_, cells)| filled(cells)).filter(|&width| width > 1);
    widths().max_by_key(|&width| (widths().filter(|&other| other == width).count(), width))
}

/// Line of the first row that can name the columns, and number of its names. `None` if the first row can, or none can.
fn names(rows: &[(i64, Vec<String>)]) -> Option<(i64, usize)> {
    let usual = usual_width(rows)?;
    let can_name = |cells: &[String]| {
        let names: Vec<&str> = cells.iter().map(|cell| cell.trim()).collect();
        let width = names.iter().rposition(|name| !name.is_empty()).map_or(0, |last| last + 1);
        let is_name = |name: &&str| name.chars().any(char::is_alphabetic);
        let mut unique = names[..width].to_vec();
        unique.sort_unstable();
        unique.dedup();
        // A column without a value in most rows is possible; a name that is missing is not.
        width > 1 && width * 10 >= usual * 8 && unique.len() == width && names[..width].iter().all(is_name)
    };
    let (place, (line, cells)) = rows.iter().enumerate().find(|(_, (_, cells))| can_name(cells))?;
    (place > 0 && place + 1 < rows.len()).then(|| (*line, filled(cells)))
}
