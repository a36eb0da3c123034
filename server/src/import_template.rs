//! Template files of a job type: the header of its columns and example rows, as CSV or as a workbook with drop-downs.
//!
//! The columns are the properties of the payload schema in its order, then those that only have aliases or examples.
//! Independent of HTTP.

pub(crate) mod order; // order of names in a JSON object
mod workbook; // as XLSX

use std::collections::HashSet;

use domain::{
    Document, JobType,
    import::{mapping::MOST_MAPPED_COLUMNS, settings::ImportSettings},
};
use serde_json::{Map, Value, json};

use engine::{
    error::{Error, Result},
    import::table_cells,
    schema::{Schema, compiled},
};

/// Template of a type.
#[derive(Clone, Debug, PartialEq)]
pub struct ImportTemplate {
    columns: Vec<Column>,
    /// Example rows: a value for each column, null for none.
    rows: Vec<Vec<Value>>,
}

/// Column of a template.
#[derive(Clone, Debug, PartialEq)]
struct Column {
    name: String,
    kind: ColumnKind,
    required: bool,
    /// All values that the schema allows, if it lists them.
    choices: Vec<String>,
}

/// Kind of the values of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ColumnKind {
    Text,
    Number,
    Integer,
    Boolean,
    Date,
}

impl ImportTemplate {
    /// Template of a type; `None` if neither its schema nor its import settings name a column.
    pub fn of(job_type: &JobType) -> Option<Self> {
        let text = job_type.payload_schema.as_ref().map(Document::text);
        let schema = text.and_then(|text| compiled(text).ok());
        let examples = examples(job_type.import.as_ref());
        let columns = columns(schema.as_deref(), text.unwrap_or_default(), job_type.import.as_ref());
        if columns.is_empty() {
            return None;
        }
        let row = |example: &Map<String, Value>| {
            columns.iter().map(|column| example.get(&column.name).cloned().unwrap_or_default()).collect()
        };
        let mut rows: Vec<Vec<Value>> = examples.iter().map(row).collect();
        if let (true, Some(schema)) = (rows.is_empty(), &schema) {
            rows.push(row(&made_up(schema, &columns)));
        }
        Some(Self { columns, rows })
    }

    /// Template as CSV: with a byte order mark, so that spreadsheets read it as UTF-8.
    pub fn csv(&self) -> Result<Vec<u8>> {
        let mut text = "\u{FEFF}".as_bytes().to_vec();
        let mut writer = csv::WriterBuilder::new().terminator(csv::Terminator::CRLF).from_writer(&mut text);
        let broken = |error: csv::Error| Error::Broken(error.to_string());
        let names = self.columns.iter().map(|column| table_cells::escape(&column.name).into_owned());
        writer.write_record(names).map_err(broken)?;
        for row in &self.rows {
            writer
                .write_record(row.iter().map(|value| table_cells::escape(&shown(value)).into_owned()))
                .map_err(broken)?;
        }
        writer.flush().map_err(|error| Error::Broken(error.to_string()))?;
        drop(writer);
        Ok(text)
    }
}

/// Value as the text of a cell.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Example rows of the settings.
fn examples(import: Option<&ImportSettings>) -> Vec<Map<String, Value>> {
    let template = import.and_then(|import| import.template.as_ref());
    let examples = template.map(|template| template.examples.as_slice()).unwrap_or_default();
    examples.iter().filter_map(|example| serde_json::from_str(example.text()).ok()).collect()
}

/// Columns in the order of the schema; `text`: its text.
fn columns(schema: Option<&Schema>, text: &str, import: Option<&ImportSettings>) -> Vec<Column> {
    let mut columns: Vec<Column> =
        schema.map(Schema::properties).unwrap_or_default().into_iter().filter_map(|it| column(schema, it)).collect();
    let order = order::of_properties(text);
    let place = |column: &Column| order.iter().position(|name| *name == column.name).unwrap_or(usize::MAX);
    columns.sort_by_cached_key(place);
    if !schema.is_some_and(Schema::is_closed) {
        let known: HashSet<String> = columns.iter().map(|column| column.name.clone()).collect();
        let template = import.and_then(|import| import.template.as_ref());
        let of_examples = template.into_iter().flat_map(|it| &it.examples).flat_map(|it| order::of_object(it.text()));
        let aliased = import.into_iter().flat_map(|import| import.aliases.keys().cloned());
        let mut seen = HashSet::new();
        let others = of_examples.chain(aliased).filter(|name| !known.contains(name) && seen.insert(name.clone()));
        columns.extend(others.map(|name| Column {
            name,
            kind: ColumnKind::Text,
            required: false,
            choices: Vec::new(),
        }));
    }
    columns.truncate(MOST_MAPPED_COLUMNS);
    columns
}

/// Column of a property; `None` for one whose values do not fit in a cell.
fn column(schema: Option<&Schema>, property: engine::schema::Property) -> Option<Column> {
    let kind = match property.json_type.as_deref() {
        Some("object" | "array") => return None,
        Some("number") => ColumnKind::Number,
        Some("integer") => ColumnKind::Integer,
        Some("boolean") => ColumnKind::Boolean,
        _ if property.is_date => ColumnKind::Date,
        _ => ColumnKind::Text,
    };
    let listed = schema.and_then(|schema| schema.of_property(&property.name)["enum"].as_array());
    let choices = listed.into_iter().flatten().filter(|value| !value.is_null()).map(shown).collect();
    Some(Column { name: property.name, kind, required: property.required, choices })
}

/// Example row from the schema, without the values that it refuses.
fn made_up(schema: &Schema, columns: &[Column]) -> Map<String, Value> {
    let value = |column: &Column| (column.name.clone(), made_up_value(schema.of_property(&column.name), column.kind));
    let mut row: Map<String, Value> = columns.iter().map(value).filter(|(_, value)| !value.is_null()).collect();
    for (pointer, _) in schema.faults(&Document::of(&row)) {
        let name = pointer.split('/').nth(1).unwrap_or_default().replace("~1", "/").replace("~0", "~");
        row.remove(&name);
    }
    row
}

fn made_up_value(schema: &Value, kind: ColumnKind) -> Value {
    let named = [&schema["examples"][0], &schema["default"], &schema["const"], &schema["enum"][0]];
    if let Some(value) = named.into_iter().find(|value| !value.is_null()) {
        return value.clone();
    }
    let least = [&schema["minimum"], &schema["maximum"]].into_iter().find(|limit| !limit.is_null());
    match kind {
        ColumnKind::Number => least.cloned().unwrap_or_else(|| json!(12.5)),
        ColumnKind::Integer => least.cloned().unwrap_or_else(|| json!(1)),
        ColumnKind::Boolean => json!(true),
        ColumnKind::Date => json!("2026-12-31"),
        ColumnKind::Text => match schema["format"].as_str() {
            Some("email") => json!("name@example.com"),
            Some("uri") => json!("https://example.com/"),
            Some("date-time") => json!("2026-12-31T12:00:00Z"),
            _ => json!("Text"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn columns_of(schema: &str, import: &str) -> Vec<(String, ColumnKind, bool)> {
        let compiled = Schema::compile(schema).expect("a schema");
        let import = serde_json::from_str(import).expect("settings");
        let found = columns(Some(&compiled), schema, Some(&import));
        found.into_iter().map(|column| (column.name, column.kind, column.required)).collect()
    }

    #[test]
    fn columns_have_the_order_of_the_schema() {
        let schema = r#"{"type":"object","required":["sku"],"properties":{
            "sku":{"type":"string"},"amount":{"type":["number","null"]},"due":{"type":"string","format":"date"},
            "count":{"type":"integer"},"lines":{"type":"array"},"done":{"type":"boolean"}}}"#;
        let import = r#"{"aliases":{"city":["Ort"]},"template":{"examples":[{"zone":1,"sku":"a","city":"b"}]}}"#;
        let expected = [
            ("sku", ColumnKind::Text, true),
            ("amount", ColumnKind::Number, false),
            ("due", ColumnKind::Date, false),
            ("count", ColumnKind::Integer, false),
            ("done", ColumnKind::Boolean, false),
            ("zone", ColumnKind::Text, false),
            ("city", ColumnKind::Text, false),
        ];
        let expected: Vec<_> = expected.map(|(name, kind, required)| (name.to_owned(), kind, required)).into();
        assert_eq!(columns_of(schema, import), expected);
        let closed = r#"{"properties":{"a":{}},"additionalProperties":false}"#;
        assert_eq!(columns_of(closed, import), [("a".to_owned(), ColumnKind::Text, false)]);
    }

    #[test]
    fn made_up_examples_are_valid_or_left_empty() {
        let schema = r#"{"properties":{
            "code":{"type":"string","pattern":"^[0-9]{4}$"},"state":{"enum":["open","paid"]},"n":{"type":"integer","minimum":7},
            "mail":{"type":"string","format":"email"},"given":{"type":"string","examples":["so"]}}}"#;
        let compiled = Schema::compile(schema).expect("a schema");
        let row = made_up(&compiled, &columns(Some(&compiled), schema, None));
        let expected = json!({"state": "open", "n": 7, "mail": "name@example.com", "given": "so"});
        assert_eq!(Value::Object(row), expected);
    }
}
