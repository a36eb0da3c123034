//! Payloads as forms: fields from the payload schema of a type, a payload from typed texts, and texts from a payload.
//!
//! What does not fit stays as it was typed, so that validation names it at its field: a number with letters becomes
//! text in the payload, and the schema refuses it. Independent of HTTP.

use std::collections::{BTreeMap, BTreeSet};

use app::{
    components::json::pretty,
    pages::start_job::{InputKind, PayloadField},
};
use domain::{Document, JobType, document::canonical::canonical};
use serde_json::{Value, value::RawValue};

use crate::import_template::order;
use engine::schema::{Property, Schema, compiled};

/// Maximum number of fields; with more, the payload is JSON.
const MOST_FIELDS: usize = 100;

/// Length from which a text gets several lines.
const LONG_TEXT: u64 = 250;

/// Schema of a type's payloads.
pub fn schema_of(job_type: &JobType) -> Option<std::sync::Arc<Schema>> {
    compiled(job_type.payload_schema.as_ref()?.text()).ok()
}

/// Fields of a type's payloads.
pub fn fields_of(job_type: &JobType) -> Vec<PayloadField> {
    job_type.payload_schema.as_ref().map(|schema| fields_of_schema(schema.text())).unwrap_or_default()
}

/// Fields of a payload in the order of its schema. Empty if the schema names no properties, or too many.
pub fn fields_of_schema(text: &str) -> Vec<PayloadField> {
    let Ok(schema) = compiled(text) else { return Vec::new() };
    let order = order::of_properties(text);
    let place = |field: &PayloadField| order.iter().position(|name| *name == field.name).unwrap_or(usize::MAX);
    let mut fields: Vec<PayloadField> =
        schema.properties().into_iter().map(|property| field(schema.of_property(&property.name), property)).collect();
    if fields.len() > MOST_FIELDS {
        return Vec::new();
    }
    fields.sort_by_cached_key(place);
    fields
}

fn field(schema: &Value, property: Property) -> PayloadField {
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    let is_nullable = types.contains(&"null");
    let mut choices = choices(schema);
    let mut kind = kind(schema, &property, &types, !choices.is_empty());
    // An optional box could not be left unset.
    if kind == InputKind::Boolean && (!property.required || is_nullable) {
        kind = InputKind::Choice;
        choices = vec![("true".to_owned(), "Yes".to_owned()), ("false".to_owned(), "No".to_owned())];
    }
    let text = |name: &str| schema[name].as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
    let mut field = PayloadField {
        label: text("title").unwrap_or_else(|| property.name.clone()),
        help: text("description").or_else(|| hint(schema, kind)),
        required: property.required && !is_nullable,
        empty_is_null: property.required && is_nullable,
        name: property.name,
        kind,
        choices,
        initial: String::new(),
    };
    let default = &schema["default"];
    let default = if default.is_null() { &schema["const"] } else { default };
    if !default.is_null() {
        field.initial = shown(&field, Document::of(default).text()).ok().flatten().unwrap_or_default();
    }
    field
}

fn kind(schema: &Value, property: &Property, types: &[&str], has_choices: bool) -> InputKind {
    if has_choices {
        return InputKind::Choice;
    }
    match property.json_type.as_deref() {
        Some("number") => return InputKind::Number,
        Some("integer") => return InputKind::Integer,
        Some("boolean") => return InputKind::Boolean,
        Some("array") if schema["items"]["type"] == "string" => return InputKind::Lines,
        Some("array" | "object") => return InputKind::Json,
        _ => {}
    }
    // Where text is allowed, a field is text.
    if !types.is_empty() && !types.contains(&"string") {
        return InputKind::Json;
    }
    match schema["format"].as_str() {
        _ if property.is_date => InputKind::Date,
        Some("email") => InputKind::Email,
        Some("uri" | "url") => InputKind::Url,
        _ if schema["maxLength"].as_u64().is_some_and(|most| most >= LONG_TEXT) => InputKind::Prose,
        _ => InputKind::Line,
    }
}

/// JSON and label of every value that the schema lists.
fn choices(schema: &Value) -> Vec<(String, String)> {
    let listed = schema["enum"].as_array().cloned();
    let listed = listed.unwrap_or_else(|| schema.get("const").into_iter().cloned().collect());
    let label = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    listed.iter().filter(|value| !value.is_null()).map(|value| (value.to_string(), label(value))).collect()
}

/// What a field without a description accepts.
fn hint(schema: &Value, kind: InputKind) -> Option<String> {
    let (least, most) = (&schema["minimum"], &schema["maximum"]);
    match kind {
        InputKind::Number | InputKind::Integer => match (least.is_number(), most.is_number()) {
            (true, true) => Some(format!("From {least} to {most}.")),
            (true, false) => Some(format!("At least {least}.")),
            (false, true) => Some(format!("At most {most}.")),
            (false, false) => None,
        },
        InputKind::Lines => Some("One on each line.".to_owned()),
        InputKind::Json => Some("As JSON.".to_owned()),
        InputKind::Line if schema["format"] == "date-time" => Some("Such as 2026-12-31T12:00:00Z.".to_owned()),
        _ => None,
    }
}

/// Texts of an item that nobody has typed yet.
pub fn initial(fields: &[PayloadField]) -> BTreeMap<String, String> {
    let given = fields.iter().filter(|field| !field.initial.is_empty());
    given.map(|field| (field.name.clone(), field.initial.clone())).collect()
}

/// Payload from typed texts, with the faults of texts that are no JSON: JSON Pointer into the payload, and expectation.
pub fn payload(fields: &[PayloadField], values: &BTreeMap<String, String>) -> (Document, Vec<(String, String)>) {
    let mut faults = Vec::new();
    let mut members = Vec::with_capacity(fields.len());
    for field in fields {
        let text = values.get(&field.name).map(String::as_str).unwrap_or_default();
        let value = match value(field, text) {
            Ok(Some(value)) => value,
            Ok(None) if field.empty_is_null => "null".to_owned(),
            Ok(None) => continue,
            Err(expected) => {
                faults.push((format!("/{}", field.name.replace('~', "~0").replace('/', "~1")), expected));
                continue;
            }
        };
        members.push(format!("{}:{value}", quoted(&field.name)));
    }
    (Document::trusted(format!("{{{}}}", members.join(","))), faults)
}

/// JSON of a typed text; `None` if the field was left empty.
fn value(field: &PayloadField, text: &str) -> Result<Option<String>, String> {
    let trimmed = text.trim();
    Ok(match field.kind {
        InputKind::Boolean => Some((!text.is_empty()).to_string()),
        InputKind::Line | InputKind::Prose => (!text.is_empty()).then(|| quoted(text)),
        InputKind::Lines => {
            let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
            (!lines.is_empty()).then(|| Document::of(&lines).text().to_owned())
        }
        _ if trimmed.is_empty() => None,
        InputKind::Date | InputKind::Email | InputKind::Url => Some(quoted(trimmed)),
        InputKind::Number | InputKind::Integer => Some(number(trimmed).unwrap_or_else(|| quoted(trimmed))),
        InputKind::Choice => {
            let is_listed = field.choices.iter().any(|(json, _)| json == trimmed);
            Some(if is_listed { trimmed.to_owned() } else { quoted(trimmed) })
        }
        InputKind::Json => {
            let document = Document::parse(trimmed.to_owned()).map_err(|error| format!("expected JSON; found {error}"));
            Some(document?.text().to_owned())
        }
    })
}

/// Number exactly as it was typed; `None` if it is none.
fn number(text: &str) -> Option<String> {
    let is_number = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    let raw: Box<RawValue> = serde_json::from_str(text).ok().filter(|_| is_number)?;
    Some(raw.get().to_owned())
}

/// Texts of the fields for a payload. `Err` names a part that no field can show.
pub fn values(fields: &[PayloadField], payload: &Document) -> Result<BTreeMap<String, String>, String> {
    let members: BTreeMap<String, &RawValue> =
        serde_json::from_str(payload.text()).map_err(|_| "the payload is not an object".to_owned())?;
    let known: BTreeSet<&str> = fields.iter().map(|field| field.name.as_str()).collect();
    if let Some(name) = members.keys().find(|name| !known.contains(name.as_str())) {
        return Err(format!("there is no field for {}", quoted(name)));
    }
    let mut values = BTreeMap::new();
    for field in fields {
        let Some(member) = members.get(&field.name) else { continue };
        let text = shown(field, member.get())
            .map_err(|NotShown| format!("{} has a value of another kind", quoted(&field.name)))?;
        values.extend(text.map(|text| (field.name.clone(), text)));
    }
    Ok(values)
}

/// A value that a field cannot show.
#[derive(Debug)]
struct NotShown;

/// Text of a field that stands for a JSON value; `None` if the field stays empty.
fn shown(field: &PayloadField, json: &str) -> Result<Option<String>, NotShown> {
    if json == "null" {
        return if field.empty_is_null { Ok(None) } else { Err(NotShown) };
    }
    let text = match field.kind {
        InputKind::Boolean => match json {
            "true" => Some("yes".to_owned()),
            "false" => None,
            _ => return Err(NotShown),
        },
        InputKind::Number | InputKind::Integer => Some(number(json).ok_or(NotShown)?),
        InputKind::Choice => {
            let choice = field.choices.iter().find(|(choice, _)| choice == json);
            Some(choice.ok_or(NotShown)?.0.clone())
        }
        InputKind::Json => Some(pretty(&Document::trusted(json.to_owned()))),
        InputKind::Lines => Some(serde_json::from_str::<Vec<String>>(json).map_err(|_| NotShown)?.join("\n")),
        _ => Some(serde_json::from_str::<String>(json).map_err(|_| NotShown)?),
    };
    // Only what a field gives back unchanged may be shown in it.
    let again = value(field, text.as_deref().unwrap_or_default()).ok().flatten().ok_or(NotShown)?;
    let has_lines = matches!(field.kind, InputKind::Json | InputKind::Lines | InputKind::Prose);
    let is_whole = has_lines || text.as_deref().is_none_or(|text| !text.contains(['\n', '\r']));
    if is_whole && canonical(&again) == canonical(json) { Ok(text) } else { Err(NotShown) }
}

fn quoted(text: &str) -> String {
    Document::of(&text).text().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r##"{"type":"object","required":["sku","gift","state","when"],"properties":{
        "sku":{"type":"string","title":"Article"},"amount":{"type":"number","minimum":0},
        "state":{"enum":["open","paid",3]},"gift":{"type":"boolean"},"fast":{"type":"boolean"},
        "due":{"type":"string","format":"date"},"tags":{"type":"array","items":{"type":"string"}},
        "lines":{"type":"array"},"when":{"type":["string","null"]},"note":{"type":"string","maxLength":4000},
        "count":{"$ref":"#/$defs/count"},"flag":{"type":["integer","boolean"]}},
        "$defs":{"count":{"type":"integer","default":7}}}"##;

    fn fields() -> Vec<PayloadField> {
        let mut job_type = serde_json::json!({
            "name": "order", "delivery": "at_least_once", "max_failures": 1, "concurrency": null, "backoff":
            {"min_seconds": 1.0, "max_seconds": null, "factor": 2.0, "jitter": false}, "heartbeat_seconds": 60.0,
            "run_timeout_seconds": null, "steps": [], "retain_seconds": null, "executor": {"kind": "pull"},
            "require_idempotency_key": false, "paused": false, "created_at": "2026-12-01T12:00:00Z",
            "updated_at": "2026-12-01T12:00:00Z", "version": 1,
        });
        job_type["payload_schema"] = Value::Null;
        let mut job_type: JobType = serde_json::from_value(job_type).expect("a job type");
        job_type.payload_schema = Some(Document::parse(SCHEMA.to_owned()).expect("JSON"));
        fields_of(&job_type)
    }

    fn typed(values: &[(&str, &str)]) -> BTreeMap<String, String> {
        values.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn fields_have_the_kinds_and_the_order_of_the_schema() {
        let found: Vec<_> = fields().into_iter().map(|field| (field.name, field.kind, field.required)).collect();
        let expected = [
            ("sku", InputKind::Line, true),
            ("amount", InputKind::Number, false),
            ("state", InputKind::Choice, true),
            ("gift", InputKind::Boolean, true),
            ("fast", InputKind::Choice, false),
            ("due", InputKind::Date, false),
            ("tags", InputKind::Lines, false),
            ("lines", InputKind::Json, false),
            ("when", InputKind::Line, false),
            ("note", InputKind::Prose, false),
            ("count", InputKind::Integer, false),
            ("flag", InputKind::Json, false),
        ];
        assert_eq!(found, expected.map(|(name, kind, required)| (name.to_owned(), kind, required)));
        let fields = fields();
        assert_eq!((fields[0].label.as_str(), fields[1].help.as_deref()), ("Article", Some("At least 0.")));
        assert_eq!(initial(&fields), typed(&[("count", "7")]));
    }

    #[test]
    fn typed_texts_become_a_payload_and_texts_again() {
        let fields = fields();
        let values_typed = typed(&[
            ("sku", " A-1 "),
            ("amount", " 12.50 "),
            ("state", "3"),
            ("gift", "yes"),
            ("fast", "false"),
            ("due", "2026-12-31"),
            ("tags", "red\n\nblue, \"light\"\n"),
            ("lines", "[1.10, {\"a\": 9007199254740993}]"),
            ("note", "two\nlines"),
        ]);
        let (document, faults) = payload(&fields, &values_typed);
        assert_eq!(faults, []);
        assert_eq!(
            document.text(),
            r#"{"sku":" A-1 ","amount":12.50,"state":3,"gift":true,"fast":false,"due":"2026-12-31","tags":["red","blue, \"light\""],"lines":[1.10, {"a": 9007199254740993}],"when":null,"note":"two\nlines"}"#
        );
        let again = values(&fields, &document).expect("a payload that the fields can show");
        let (repeated, faults) = payload(&fields, &again);
        assert_eq!(
            (canonical(repeated.text()), faults),
            (canonical(document.text()), vec![]),
            "apart from white space"
        );
    }

    #[test]
    fn what_does_not_fit_stays_as_typed() {
        let fields = fields();
        let (document, faults) =
            payload(&fields, &typed(&[("amount", "1,5"), ("state", "none"), ("count", "1e"), ("lines", "[1,")]));
        assert_eq!(document.text(), r#"{"amount":"1,5","state":"none","gift":false,"when":null,"count":"1e"}"#);
        let pointers: Vec<&str> = faults.iter().map(|(pointer, _)| pointer.as_str()).collect();
        assert_eq!(pointers, ["/lines"]);
    }

    #[test]
    fn payload_that_no_field_can_show_is_named() {
        let fields = fields();
        for (text, named) in [
            (r#"{"sku":1}"#, "\"sku\""),
            (r#"{"sku":"a\nb"}"#, "\"sku\""),
            (r#"{"sku":null}"#, "\"sku\""),
            (r#"{"tags":["a\nb"]}"#, "\"tags\""),
            (r#"{"other":1}"#, "\"other\""),
            ("[1]", "object"),
        ] {
            let refused = values(&fields, &Document::parse(text.to_owned()).expect("JSON")).expect_err(text);
            assert!(refused.contains(named), "{text}: {refused}");
        }
    }
}
