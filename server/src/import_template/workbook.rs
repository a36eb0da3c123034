//! Template as a workbook: typed columns, example rows, and drop-downs for columns with fixed values.

use rust_xlsxwriter::{
    DataValidation, ExcelDateTime, Format, Formula, Workbook, Worksheet, XlsxError, column_number_to_name,
};
use serde_json::Value;

use super::{Column, ColumnKind, ImportTemplate, shown};
use engine::error::{Error, Result};

/// Maximum characters of a list within a drop-down; a longer one is on a sheet of its own.
const SHORT_LIST: usize = 255;

/// Last row of a sheet, from 0.
const LAST_ROW: u32 = 1_048_575;

/// Widths of a column in characters.
const WIDTHS: std::ops::RangeInclusive<usize> = 10..=40;

/// Name of the hidden sheet with the values of long drop-downs.
const VALUES: &str = "Values";

impl ImportTemplate {
    /// Template as XLSX. The names of required columns are bold.
    pub fn xlsx(&self) -> Result<Vec<u8>> {
        self.workbook().map_err(|error| Error::Broken(format!("a template cannot be written: {error}")))
    }

    fn workbook(&self) -> Result<Vec<u8>, XlsxError> {
        let mut values = Worksheet::new();
        values.set_name(VALUES)?.set_hidden(true);
        let mut has_values = false;
        let mut sheet = Worksheet::new();
        sheet.set_name("Import")?.set_freeze_panes(1, 0)?;
        for (place, column) in (0_u16..).zip(&self.columns) {
            let format = column.format();
            sheet.set_column_format(place, &format)?;
            let cells = self.rows.iter().filter_map(|row| row.get(usize::from(place)));
            let width = cells.clone().map(|value| shown(value).chars().count()).max().unwrap_or(0);
            let width = width.max(column.name.chars().count()) + 2;
            sheet.set_column_width(place, width.clamp(*WIDTHS.start(), *WIDTHS.end()) as f64)?;
            let head = if column.required { Format::new().set_bold() } else { Format::new() };
            sheet.write_string_with_format(0, place, &column.name, &head)?;
            for (row, value) in (1..).zip(cells) {
                write(&mut sheet, row, place, value, column, &format)?;
            }
            if let Some((list, is_long)) = column.list(place)? {
                sheet.add_data_validation(1, place, LAST_ROW, place, &list)?;
                if is_long {
                    has_values = true;
                    for (row, choice) in (0..).zip(&column.choices) {
                        values.write_string(row, place, choice)?;
                    }
                }
            }
        }
        let mut workbook = Workbook::new();
        workbook.push_worksheet(sheet);
        if has_values {
            workbook.push_worksheet(values);
        }
        workbook.save_to_buffer()
    }
}

impl Column {
    /// Cell format: text stays as typed, such as `007`.
    fn format(&self) -> Format {
        match self.kind {
            ColumnKind::Text => Format::new().set_num_format("@"),
            ColumnKind::Date => Format::new().set_num_format("yyyy-mm-dd"),
            ColumnKind::Integer => Format::new().set_num_format("0"),
            ColumnKind::Number | ColumnKind::Boolean => Format::new(),
        }
    }

    /// Drop-down of the column at `place`, and true if its values are on the hidden sheet. `None` without fixed values.
    fn list(&self, place: u16) -> Result<Option<(DataValidation, bool)>, XlsxError> {
        let list = DataValidation::new();
        if self.choices.is_empty() {
            return Ok((self.kind == ColumnKind::Boolean)
                .then(|| list.allow_list_strings(&["TRUE", "FALSE"]))
                .transpose()?
                .map(|list| (list, false)));
        }
        let characters: usize = self.choices.iter().map(|choice| choice.encode_utf16().count() + 1).sum();
        let is_plain = |choice: &String| !choice.contains([',', '"']) && choice.trim() == choice && !choice.is_empty();
        if characters <= SHORT_LIST && self.choices.iter().all(is_plain) {
            return Ok(Some((list.allow_list_strings(&self.choices)?, false)));
        }
        let letters = column_number_to_name(place);
        let last = self.choices.len().min(LAST_ROW as usize);
        let range = Formula::new(format!("={VALUES}!${letters}$1:${letters}${last}"));
        Ok(Some((list.allow_list_formula(range), true)))
    }
}

fn write(
    sheet: &mut Worksheet,
    row: u32,
    place: u16,
    value: &Value,
    column: &Column,
    format: &Format,
) -> Result<(), XlsxError> {
    let number = value.as_f64().filter(|_| matches!(column.kind, ColumnKind::Number | ColumnKind::Integer));
    let date = value.as_str().filter(|_| column.kind == ColumnKind::Date);
    let date = date.and_then(|text| ExcelDateTime::parse_from_str(text).ok());
    match (value, number, date) {
        (Value::Null, ..) => {}
        (_, Some(number), _) => drop(sheet.write_number_with_format(row, place, number, format)?),
        (_, _, Some(date)) => drop(sheet.write_datetime_with_format(row, place, &date, format)?),
        (Value::Bool(flag), ..) if column.kind == ColumnKind::Boolean => {
            sheet.write_boolean(row, place, *flag)?;
        }
        _ => drop(sheet.write_string_with_format(row, place, shown(value), format)?),
    }
    Ok(())
}
