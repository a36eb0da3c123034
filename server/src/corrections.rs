//! Failed rows of an import, corrected by hand and retried.
//!
//! A row is shown as the cells of its file and becomes a payload by the rules of its import: its column mapping reads the
//! notations of the file, and text stays text unless the schema requires a number. Unchanged cells keep their bytes. Either
//! every corrected row matches the schema, or none is retried.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use domain::{
    Document, Item, ItemState, Job,
    api::RetryBody,
    import::mapping::{Conversion, Mapping},
};
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};
use uuid::Uuid;

use crate::{App, exports::in_file};
use engine::{
    ItemFilter, Refused,
    access::caller::Caller,
    error::Result,
    import::{
        split::{CellKind, ColumnRule, Head, convert, json_of},
        table_cells,
    },
    schema::{Schema, compiled, display_value},
    store::{import::results, query::item_list_jobs::ItemOrder, tree::definitions},
};

/// Maximum number of rows corrected on a page; more rows need a file.
pub const MAX_ROWS: usize = 200;

/// Failed rows of a job.
pub struct FailedRows {
    pub job: Job,
    /// Names of the columns; numbers if there are none.
    pub names: Vec<String>,
    /// Rows in order, at most [`MAX_ROWS`].
    pub rows: Vec<FailedRow>,
    /// True if there are more rows.
    pub is_cut: bool,
    columns: Option<Vec<String>>,
    is_table: bool,
    column_rules: Vec<ColumnRule>,
    /// Conversions of the columns, with a mapping.
    conversions: Vec<Conversion>,
    schema: Option<Arc<Schema>>,
}

/// Failed row as cells.
pub struct FailedRow {
    pub item_id: Uuid,
    pub row: Option<i64>,
    /// Reason of the failure.
    pub problem: String,
    pub cells: Vec<String>,
    payload: Document,
}

/// Outcome of the corrections.
pub enum Outcome {
    /// Rows were retried, except those that were refused.
    Done { retried: HashSet<Uuid>, refused: Refused },
    /// Rows that do not match the schema, with reasons; nothing was retried.
    RowFaults(HashMap<Uuid, RowFault>),
    /// Nothing was corrected, and nothing retried.
    Unchanged,
}

/// Cell of a submitted page.
#[derive(Clone, Debug)]
pub struct SubmittedCell {
    pub text: String,
    /// [`fingerprint`] of the text that the page showed, if the page says so.
    pub shown: Option<String>,
}

impl SubmittedCell {
    /// Returns true if the reader changed the text that the page showed.
    pub fn is_typed(&self) -> bool {
        self.shown.as_ref().is_none_or(|shown| *shown != fingerprint(&self.text))
    }
}

/// Number of characters of a [`fingerprint`].
pub const FINGERPRINT: usize = 8;

/// Fingerprint of the text of a cell. A single-line field neither shows nor submits line breaks.
fn fingerprint(text: &str) -> String {
    let [a, b, c, d, ..]: [u8; 32] = Sha256::digest(without_line_breaks(text)).into();
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// Mismatch of a corrected row.
#[derive(Clone, Debug)]
pub struct RowFault {
    /// Index of the cell, if there is one.
    pub place: Option<usize>,
    pub why: Why,
}

/// Reason of a [`RowFault`].
#[derive(Clone, Debug)]
pub enum Why {
    /// As a sentence.
    Sentence(String),
    /// Somebody else has changed the cell to this text since the page was shown.
    ChangedTo(String),
}

/// Head of the file of a job.
async fn head_of(app: &App, job: &Job) -> Result<Option<Head>> {
    let listed = results::jobs(&app.pool, job.root_id).await?;
    let head = listed.into_iter().find(|listed| listed.job_id == job.id).and_then(|listed| listed.head);
    Ok(head.and_then(|text| serde_json::from_str(&text).ok()))
}

/// Returns the column mapping of the import of a job that the caller may see, if it has one.
pub async fn mapping(app: &App, caller: &Caller, id: Uuid) -> Result<Option<Mapping>> {
    let job = app.engine.job(caller, id, false).await?;
    Ok(head_of(app, &job).await?.and_then(|head| head.mapping))
}

/// Returns the failed rows of a job that the caller may see.
pub async fn find(app: &App, caller: &Caller, id: Uuid) -> Result<FailedRows> {
    let job = app.engine.job(caller, id, false).await?;
    let head = head_of(app, &job).await?.filter(|head| head.width > 0);
    let columns = head.as_ref().and_then(Head::payload_columns).map(Cow::into_owned);
    let width = head.as_ref().map_or(0, Head::payload_width);
    let contract = definitions::job_by_id(&app.pool, id).await?;
    let schema = contract.and_then(|job| job.payload_schema).and_then(|text| compiled(&text).ok());
    let column_rules = schema.as_ref().map_or_else(Vec::new, |schema| schema.column_rules(columns.as_deref(), width));

    let filter = ItemFilter { job: Some(id), states: vec![ItemState::Dead], ..ItemFilter::default() };
    let mut items: Vec<Item> = Vec::new();
    let mut place = None;
    while items.len() <= MAX_ROWS {
        let (page, next) =
            app.engine.list_items(caller, &filter, ItemOrder::Oldest, place, MAX_ROWS as i64 + 1).await?;
        items.extend(page);
        place = next;
        if place.is_none() {
            break;
        }
    }
    let is_cut = items.len() > MAX_ROWS;
    items.truncate(MAX_ROWS);
    let is_table = width > 0;
    let mapping = head.and_then(|head| head.mapping);
    let conversions: Vec<Conversion> = mapping.iter().flat_map(Mapping::conversions).collect();
    let rows = items.into_iter().map(|item| row(item, is_table, columns.as_deref(), &conversions)).collect();
    let names = match &columns {
        Some(columns) => columns.clone(),
        None if is_table => (1..=width).map(|place| format!("Column {place}")).collect(),
        None => vec!["Payload".to_owned()],
    };
    Ok(FailedRows { job, names, rows, is_cut, columns, is_table, column_rules, conversions, schema })
}

fn row(item: Item, is_table: bool, columns: Option<&[String]>, conversions: &[Conversion]) -> FailedRow {
    let payload = item.payload.unwrap_or_else(Document::null);
    let cells = if is_table {
        let conversions = conversions.iter().copied().chain(std::iter::repeat(Conversion::Text));
        table_cells::cells(&payload, columns)
            .into_iter()
            .zip(conversions)
            .map(|(cell, as_)| in_file(cell, as_).text)
            .collect()
    } else {
        vec![payload.text().to_owned()]
    };
    let problem = item.last_error.map(|error| error.message).unwrap_or_default();
    FailedRow { item_id: item.id, row: item.row, problem, cells, payload }
}

impl FailedRows {
    /// Fingerprints of the cells of a row, in order, which its page submits again.
    pub fn fingerprints(&self, row: &FailedRow) -> String {
        (0..self.names.len()).map(|place| fingerprint(row.text(place))).collect()
    }

    /// Retries rows: those in `submitted` with their corrections; with `others`, the remaining ones unchanged.
    pub async fn retry(
        &self,
        app: &App,
        caller: &Caller,
        submitted: impl Fn(&FailedRow, usize) -> Option<SubmittedCell>,
        others: bool,
        reason: Option<&str>,
    ) -> Result<Outcome> {
        let mut bodies = Vec::new();
        let mut misfits = HashMap::new();
        for row in &self.rows {
            let cells: Result<Vec<Option<String>>, RowFault> =
                (0..self.names.len()).map(|place| row.typed(place, submitted(row, place))).collect();
            let corrected = cells
                .and_then(|cells| cells.iter().any(Option::is_some).then(|| self.corrected(row, &cells)).transpose());
            let payload = match corrected {
                Ok(payload) => payload,
                Err(fault) => {
                    misfits.insert(row.item_id, fault);
                    continue;
                }
            };
            if payload.is_some() || others {
                let reason = reason.map(str::to_owned);
                bodies.push((row.item_id, RetryBody { payload, reason, ..RetryBody::default() }));
            }
        }
        if !misfits.is_empty() {
            return Ok(Outcome::RowFaults(misfits));
        }
        if bodies.is_empty() {
            return Ok(Outcome::Unchanged);
        }
        let mut retried: HashSet<Uuid> = bodies.iter().map(|(id, _)| *id).collect();
        let refused = app.engine.retry_items(caller, bodies).await?;
        retried.retain(|id| !refused.contains_key(id));
        Ok(Outcome::Done { retried, refused })
    }

    /// Builds the payload from the typed cells.
    fn corrected(&self, row: &FailedRow, typed: &[Option<String>]) -> Result<Document, RowFault> {
        let text = match &self.columns {
            Some(columns) => self.object(columns, row, typed)?,
            None if self.is_table => {
                let stored: Vec<&RawValue> = serde_json::from_str(row.payload.text()).unwrap_or_default();
                self.array(&stored, typed)?
            }
            None => typed.first().cloned().flatten().unwrap_or_default(),
        };
        let payload = Document::parse(text).map_err(|e| RowFault::of(Some(0), format!("Expected JSON; found {e}.")))?;
        let Some(schema) = &self.schema else { return Ok(payload) };
        match schema.faults(&payload).into_iter().next() {
            None => Ok(payload),
            Some((pointer, expected)) => {
                let (place, name) = self.cell_of(&pointer);
                let found = display_value(&payload, &pointer);
                Err(RowFault::of(place, format!("{name}: {expected}, found {found}.")))
            }
        }
    }

    fn object(&self, columns: &[String], row: &FailedRow, typed: &[Option<String>]) -> Result<String, RowFault> {
        let stored: HashMap<String, &RawValue> = serde_json::from_str(row.payload.text()).unwrap_or_default();
        let mut fields: Vec<String> = Vec::new();
        let mut field = |name: &str, value: &str| fields.push(format!("{}:{value}", Document::of(&name).text()));
        for (place, name) in columns.iter().enumerate() {
            match (typed.get(place).and_then(Option::as_ref), stored.get(name)) {
                (Some(typed), before) => {
                    let value = self.value(place, typed, before.map(|value| value.get()))?;
                    if !self.column_rules.get(place).is_some_and(|rule| rule.omits(&value)) {
                        field(name, &value);
                    }
                }
                (None, Some(value)) => field(name, value.get()),
                (None, None) => {}
            }
        }
        for (name, value) in stored.iter().filter(|(name, _)| !columns.contains(name)) {
            field(name, value.get());
        }
        Ok(format!("{{{}}}", fields.join(",")))
    }

    fn array(&self, stored: &[&RawValue], typed: &[Option<String>]) -> Result<String, RowFault> {
        let value = |place: usize| {
            let before = stored.get(place).map(|value| value.get());
            match typed.get(place).and_then(Option::as_ref) {
                Some(typed) => self.value(place, typed, before),
                None => Ok(before.unwrap_or("\"\"").to_owned()),
            }
        };
        let values: Vec<String> = (0..typed.len().max(stored.len())).map(value).collect::<Result<_, RowFault>>()?;
        Ok(format!("[{}]", values.join(",")))
    }

    /// Typed cell as JSON: as the mapping converts it, else a number if the schema requires one or the cell held one.
    fn value(&self, place: usize, typed: &str, before: Option<&str>) -> Result<String, RowFault> {
        if let Some(&conversion) = self.conversions.get(place).filter(|conversion| **conversion != Conversion::Text) {
            return convert(typed, conversion, CellKind::Text).ok_or_else(|| {
                let (name, expected, found) = (&self.names[place], conversion.expected(), Document::of(&typed));
                RowFault::of(Some(place), format!("Column {name}: expected {expected}, found {:.100}.", found.text()))
            });
        }
        let was_number = before.is_some_and(|text| text.starts_with(|c: char| c == '-' || c.is_ascii_digit()));
        let kind = self.column_rules.get(place).copied().unwrap_or_default().kind;
        Ok(json_of(typed, if kind == CellKind::Text && was_number { CellKind::Number } else { kind }))
    }

    /// Finds the cell of a JSON pointer, and its name.
    fn cell_of(&self, pointer: &str) -> (Option<usize>, String) {
        let Some(first) = pointer.split('/').nth(1) else { return (None, "The row".to_owned()) };
        let name = first.replace("~1", "/").replace("~0", "~");
        match (&self.columns, name.parse::<usize>()) {
            (Some(columns), _) => (columns.iter().position(|column| *column == name), format!("Column {name}")),
            (None, Ok(place)) => (Some(place), format!("Column {}", place + 1)),
            _ => (None, pointer.to_owned()),
        }
    }
}

impl FailedRow {
    /// Text of a cell; empty if the row has none there.
    fn text(&self, place: usize) -> &str {
        self.cells.get(place).map_or("", String::as_str)
    }

    /// Returns the text of a cell that the reader changed. A cell that somebody else has changed meanwhile, too, is not
    /// overwritten unseen.
    fn typed(&self, place: usize, submitted: Option<SubmittedCell>) -> Result<Option<String>, RowFault> {
        let now = self.text(place);
        let is_changed = |cell: &SubmittedCell| cell.is_typed() && without_line_breaks(now) != cell.text;
        let Some(cell) = submitted.filter(is_changed) else { return Ok(None) };
        if cell.shown.is_some_and(|shown| shown != fingerprint(now)) {
            return Err(RowFault { place: Some(place), why: Why::ChangedTo(now.to_owned()) });
        }
        Ok(Some(cell.text))
    }
}

impl RowFault {
    const fn of(place: Option<usize>, why: String) -> Self {
        Self { place, why: Why::Sentence(why) }
    }
}

fn without_line_breaks(text: &str) -> String {
    text.replace(['\r', '\n'], "")
}
