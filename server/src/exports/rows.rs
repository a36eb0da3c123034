//! Rows of an export as lines of NDJSON, records of CSV, or cells of a workbook. `engine/src/import/table_cells.rs` escapes
//! cells that a spreadsheet would execute.

use std::borrow::Cow;

use domain::{
    Document, ItemState, Time,
    api::{FailureLine, ResultLine},
    import::{
        export::{ExportFormat, ExportLayout, ExportWhat, ItemLine},
        mapping::{Conversion, Mapping},
        upload::UploadFormat,
    },
    item::ItemError,
};
use engine::{
    error::{Error, Result},
    import::{
        split::{
            Encoding, FAILURE_COLUMNS, FaultKind, Head, in_file_notation, nameless_columns, payload_cell, surplus_cells,
        },
        table_cells::{self, Cell},
    },
    store::import::{
        exports::ExportedItem,
        results::{FailureRow, ListedJob, ResultRow},
    },
};
use serde::Deserialize;
use uuid::Uuid;

/// Columns and format of the imported table, if there was one, so that an export looks like the import.
#[derive(Debug, Default)]
pub(super) struct Table {
    columns: Option<Vec<String>>,
    /// Columns of the file that became these.
    mapping: Option<Mapping>,
    /// Number of columns, if they have no names.
    width: usize,
    delimiter: u8,
    mark: bool,
}

impl Table {
    /// Table of the tree's imported file, as the layout wants it.
    pub(super) fn of(jobs: &[ListedJob], layout: ExportLayout) -> Self {
        let imported = Self::imported(jobs);
        Self {
            delimiter: layout.delimiter.and_then(|c| u8::try_from(c).ok()).unwrap_or(imported.delimiter),
            mark: layout.bom.unwrap_or(imported.mark),
            ..imported
        }
    }

    fn imported(jobs: &[ListedJob]) -> Self {
        let heads = jobs.iter().filter_map(|job| serde_json::from_str::<Head>(job.head.as_deref()?).ok());
        let Some(head) = heads.into_iter().find(|head| head.width > 0) else {
            return Self { delimiter: b',', ..Self::default() };
        };
        Self {
            columns: head.payload_columns().map(Cow::into_owned),
            mapping: head.mapping.clone(),
            width: head.payload_width(),
            delimiter: head.delimiter.and_then(|c| u8::try_from(c).ok()).unwrap_or(b','),
            // Without a mark, a spreadsheet reads UTF-8 as the encoding of its country.
            mark: head.mark || head.encoding != Encoding::Utf8 || head.format == UploadFormat::Xlsx,
        }
    }

    fn names(&self) -> Vec<String> {
        match &self.columns {
            Some(columns) => columns.clone(),
            None if self.width > 0 => (1..=self.width).map(|n| format!("column_{n}")).collect(),
            None => vec!["payload".to_owned()],
        }
    }

    /// Names in a list of failures: those in the file, so that the mapping of the import fits, or else those that tell
    /// the shape of a payload.
    fn names_in_file(&self) -> Vec<String> {
        match (&self.mapping, &self.columns) {
            (Some(mapping), _) => mapping.columns.iter().map(|column| column.from.clone()).collect(),
            (None, Some(columns)) => columns.clone(),
            (None, None) => nameless_columns(self.width),
        }
    }

    /// Cells of a payload in the notation of the file. A workbook has numbers and dates, which every mapping accepts.
    fn cells_in_file(&self, payload: &Document, format: ExportFormat, code: &str) -> Vec<Cell> {
        if self.columns.is_none() && self.width == 0 {
            return vec![payload_cell(payload.text(), code).into()];
        }
        let cells = self.cells(payload);
        let Some(mapping) = self.mapping.as_ref().filter(|_| format == ExportFormat::Csv) else { return cells };
        cells.into_iter().zip(mapping.conversions()).map(|(cell, as_)| in_file(cell, as_)).collect()
    }

    /// Cells of a payload, one per column name.
    fn cells(&self, payload: &Document) -> Vec<Cell> {
        if self.columns.is_none() && self.width == 0 {
            return vec![payload.text().to_owned().into()];
        }
        let mut cells = table_cells::cells(payload, self.columns.as_deref());
        cells.resize(self.columns.as_ref().map_or(self.width, Vec::len), Cell::default());
        cells
    }
}

/// Cell in the notation of the file. Text in a column of numbers was refused as it stands in the file, and stays so.
pub(crate) fn in_file(cell: Cell, conversion: Conversion) -> Cell {
    let is_numeric = matches!(conversion, Conversion::Number(_) | Conversion::Integer(_));
    if is_numeric && !cell.is_number { cell } else { in_file_notation(&cell.text, conversion).into_owned().into() }
}

/// Part of an export: text, or the records of a workbook.
#[derive(Default)]
pub(super) struct Page {
    pub(super) text: Vec<u8>,
    pub(super) records: Vec<Vec<Cell>>,
}

impl Page {
    pub(super) const fn is_empty(&self) -> bool {
        self.text.is_empty() && self.records.is_empty()
    }
}

/// Writer of rows.
pub(super) struct Writer {
    pub(super) what: ExportWhat,
    pub(super) format: ExportFormat,
    pub(super) table: Table,
}

impl Writer {
    /// Header of a table; empty for NDJSON.
    pub(super) fn header(&self) -> Result<Page> {
        let mut page = Page::default();
        if self.format == ExportFormat::Ndjson {
            return Ok(page);
        }
        if self.format == ExportFormat::Csv && self.table.mark {
            page.text.extend("\u{FEFF}".bytes());
        }
        let is_failures = self.what == ExportWhat::Failures;
        let mut names = if is_failures { self.table.names_in_file() } else { self.table.names() };
        match self.what {
            ExportWhat::Results => {
                names.insert(0, "_line".to_owned());
                names.push("_result".to_owned());
            }
            ExportWhat::Items => {
                names.insert(0, "_line".to_owned());
                names.extend(["_state", "_result", "_code", "_problem"].map(str::to_owned));
            }
            ExportWhat::Failures => names.extend(FAILURE_COLUMNS.map(str::to_owned)),
        }
        self.record(&mut page, names.into_iter().map(Cell::from).collect())?;
        Ok(page)
    }

    /// False if there is no result yet.
    pub(super) fn result(&self, page: &mut Page, job_id: Uuid, row: &ResultRow) -> Result<bool> {
        let (Some(payload), Some(result)) = (&row.payload, &row.result) else { return Ok(false) };
        let payload = Document::trusted(payload.clone());
        if self.format == ExportFormat::Ndjson {
            let result = Document::trusted(result.clone());
            line(page, &ResultLine { item_id: row.item_id, job_id, row: row.row, payload, result })?;
            return Ok(true);
        }
        let mut cells = self.table.cells(&payload);
        cells.insert(0, line_number(row.row));
        // `validate` returns the payload, which is already in the columns.
        cells.push(if result == payload.text() { Cell::default() } else { result.clone().into() });
        self.record(page, cells)?;
        Ok(true)
    }

    pub(super) fn failure(&self, page: &mut Page, job_id: Uuid, row: &FailureRow) -> Result<()> {
        let state = ItemState::from_code(row.state).unwrap_or(ItemState::Dead);
        let payload = Document::trusted(row.payload.clone());
        if self.format == ExportFormat::Ndjson {
            let error = row.error_message.as_ref().map(|message| ItemError {
                message: message.clone(),
                kind: row.error_kind.clone(),
                detail: row.error_detail.clone().map(Document::trusted),
                at: Time(row.ended_at),
            });
            let (item_id, attempts) = (row.item_id, row.attempts);
            return line(page, &FailureLine { item_id, job_id, row: row.row, payload, state, attempts, error });
        }
        let code = row.error_kind.clone().unwrap_or_else(|| state.as_str().to_owned());
        let mut cells = self.table.cells_in_file(&payload, self.format, &code);
        cells.push(line_number(row.row));
        let message = row.error_message.clone().unwrap_or_default();
        let surplus = surplus_cells(&code, &message, surplus_of(&code, row.error_detail.as_deref()));
        cells.push(code.into());
        cells.push(message.into());
        cells.extend(surplus.into_iter().map(Cell::from));
        self.record(page, cells)
    }

    pub(super) fn item(&self, page: &mut Page, job_id: Uuid, row: &ExportedItem) -> Result<()> {
        let state = ItemState::from_code(row.state).unwrap_or(ItemState::Available);
        let payload = Document::trusted(row.payload.clone());
        if self.format == ExportFormat::Ndjson {
            let error = row.error_message.as_ref().zip(row.ended_at).map(|(message, ended_at)| ItemError {
                message: message.clone(),
                kind: row.error_kind.clone(),
                detail: row.error_detail.clone().map(Document::trusted),
                at: Time(ended_at),
            });
            let result = row.result.clone().map(Document::trusted);
            let (item_id, attempts) = (row.item_id, row.attempts);
            return line(page, &ItemLine { item_id, job_id, row: row.row, payload, state, attempts, result, error });
        }
        let mut cells = self.table.cells(&payload);
        cells.insert(0, line_number(row.row));
        cells.push(state.as_str().to_owned().into());
        cells.push(row.result.clone().filter(|result| result != payload.text()).unwrap_or_default().into());
        cells.push(row.error_kind.clone().unwrap_or_default().into());
        cells.push(row.error_message.clone().unwrap_or_default().into());
        self.record(page, cells)
    }

    fn record(&self, page: &mut Page, cells: Vec<Cell>) -> Result<()> {
        if self.format == ExportFormat::Xlsx {
            let comes_back = self.what == ExportWhat::Failures;
            let cell = |cell: Cell| match table_cells::escape_in_workbook(&cell.text) {
                Cow::Owned(text) if comes_back => Cell { text, ..cell },
                _ => cell,
            };
            page.records.push(cells.into_iter().map(cell).collect());
            return Ok(());
        }
        let mut writer = csv::WriterBuilder::new().delimiter(self.table.delimiter).from_writer(&mut page.text);
        writer
            .write_record(cells.iter().map(|cell| table_cells::escape(&cell.text).into_owned()))
            .and_then(|()| Ok(writer.flush()?))
            .map_err(|e| Error::Broken(e.to_string()))
    }
}

/// Cells of a row beyond its last column.
fn surplus_of(code: &str, detail: Option<&str>) -> Vec<String> {
    #[derive(Default, Deserialize)]
    struct Surplus {
        #[serde(default)]
        extra: Vec<String>,
    }
    let detail = detail.filter(|_| code == FaultKind::TooManyFields.as_str());
    detail.and_then(|text| serde_json::from_str::<Surplus>(text).ok()).unwrap_or_default().extra
}

fn line_number(row: Option<i64>) -> Cell {
    row.map_or_else(Cell::default, |row| Cell { text: row.to_string(), is_number: true })
}

fn line(page: &mut Page, value: &impl serde::Serialize) -> Result<()> {
    serde_json::to_writer(&mut page.text, value).map_err(|e| Error::Broken(e.to_string()))?;
    page.text.push(b'\n');
    Ok(())
}
