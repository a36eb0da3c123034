//! Export as a workbook (XLSX), written row by row to temporary files, so that its size costs no memory.

use std::{
    fs::File,
    io::{Seek as _, SeekFrom},
};

use engine::{
    error::{Error, Result},
    import::table_cells::Cell,
};
use rust_xlsxwriter::{Format, Worksheet, XlsxError};

/// Rows of a sheet, with the header.
const SHEET_ROWS: u32 = 1_048_576;

/// Maximum characters of a cell.
const CELL_CHARACTERS: usize = 32_767;

/// Maximum columns of a sheet.
const COLUMNS: usize = 16_384;

/// Digits that a number in a workbook keeps exactly.
const EXACT_DIGITS: usize = 15;

/// End of a text that does not fit into a cell.
const CUT: &str = "… (cut here: a cell holds 32,767 characters; CSV and NDJSON have all)";

/// Workbook that is being written. Rows beyond the limit of a sheet are on further sheets, each with the header.
pub(super) struct Workbook {
    inner: rust_xlsxwriter::Workbook,
    header: Vec<Cell>,
    sheet: usize,
    /// Next row of the current sheet; at its limit, the next row begins a sheet.
    row: u32,
}

impl Workbook {
    pub(super) fn new(header: Vec<Cell>) -> Self {
        Self { inner: rust_xlsxwriter::Workbook::new(), header, sheet: 0, row: SHEET_ROWS }
    }

    /// Writes records. Numbers become numbers if a workbook keeps all their digits; everything else is text, so nothing
    /// is executed.
    pub(super) fn write(&mut self, records: &[Vec<Cell>]) -> Result<()> {
        self.try_write(records).map_err(broken)
    }

    fn try_write(&mut self, records: &[Vec<Cell>]) -> Result<(), XlsxError> {
        for record in records {
            if self.row == SHEET_ROWS {
                self.begin_sheet()?;
            }
            write_record(self.inner.worksheet_from_index(self.sheet - 1)?, self.row, record, &Format::new())?;
            self.row += 1;
        }
        Ok(())
    }

    fn begin_sheet(&mut self) -> Result<(), XlsxError> {
        self.sheet += 1;
        let name = if self.sheet == 1 { "Rows".to_owned() } else { format!("Rows {}", self.sheet) };
        let sheet = self.inner.add_worksheet_with_constant_memory()?;
        sheet.set_name(name)?.set_freeze_panes(1, 0)?;
        write_record(sheet, 0, &self.header, &Format::new().set_bold())?;
        self.row = 1;
        Ok(())
    }

    /// Returns the whole file, to be read from its start. It has no name, so the system deletes it when it is closed.
    pub(super) fn finish(mut self) -> Result<File> {
        if self.sheet == 0 {
            self.begin_sheet().map_err(broken)?;
        }
        let written = |error: std::io::Error| Error::Broken(format!("a workbook cannot be written: {error}"));
        let mut file = tempfile::tempfile().map_err(written)?;
        // A sheet of many columns may have more than 4 GiB before it is compressed.
        self.inner.use_zip_large_file(true);
        self.inner.save_to_writer(&mut file).map_err(broken)?;
        file.seek(SeekFrom::Start(0)).map_err(written)?;
        Ok(file)
    }
}

fn write_record(sheet: &mut Worksheet, row: u32, record: &[Cell], format: &Format) -> Result<(), XlsxError> {
    for (column, cell) in (0_u16..).zip(record.iter().take(COLUMNS)) {
        if cell.text.is_empty() {
            continue;
        }
        match number(cell) {
            Some(number) => sheet.write_number_with_format(row, column, number, format)?,
            None => sheet.write_string_with_format(row, column, fitting(&cell.text), format)?,
        };
    }
    Ok(())
}

/// Number of a cell, if a workbook keeps all its digits.
fn number(cell: &Cell) -> Option<f64> {
    let digits = cell.text.chars().filter(char::is_ascii_digit).count();
    let number = cell.text.parse::<f64>().ok().filter(|number| number.is_finite())?;
    (cell.is_number && digits <= EXACT_DIGITS).then_some(number)
}

/// The text, cut if it does not fit into a cell. Excel counts UTF-16 units.
fn fitting(text: &str) -> String {
    if text.encode_utf16().count() <= CELL_CHARACTERS {
        return text.to_owned();
    }
    let room = CELL_CHARACTERS - CUT.encode_utf16().count();
    let mut used = 0;
    let fitting = text.chars().take_while(|letter| {
        used += letter.len_utf16();
        used <= room
    });
    fitting.chain(CUT.chars()).collect()
}

#[expect(clippy::needless_pass_by_value, reason = "it is used in map_err")]
fn broken(error: XlsxError) -> Error {
    Error::Broken(format!("a workbook cannot be written: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_lose_digits_stay_text() {
        let cell = |text: &str, is_number| Cell { text: text.to_owned(), is_number };
        assert_eq!(number(&cell("-12.50", true)), Some(-12.5));
        assert_eq!(number(&cell("12345678901234567890", true)), None);
        assert_eq!(number(&cell("007", false)), None);
    }

    #[test]
    fn long_text_is_cut_and_says_so() {
        let long = "😀".repeat(20_000);
        let cut = fitting(&long);
        assert!(cut.encode_utf16().count() <= CELL_CHARACTERS && cut.ends_with(CUT), "{}", cut.len());
        assert_eq!(fitting("short"), "short");
    }
}
