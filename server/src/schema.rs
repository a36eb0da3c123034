//! JSON Schema (2020-12) over payloads.
//!
//! Says where and what was expected, in words for people; never changes a payload. Patterns run in
//! linear time and references never leave the schema, so neither a payload nor a schema can hold the
//! server up.

use std::{borrow::Cow, collections::HashMap, fmt::Write as _};

use domain::Document;
use jsonschema::{
    JsonType, PatternOptions, ValidationError, Validator,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::{Value, value::RawValue};

use crate::split::CellKind;

/// Faults that one payload is told, at most.
const MOST_FAULTS: usize = 10;

/// A schema, ready to be used.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    source: Value,
}

impl Schema {
    /// Reads a schema. The error is a sentence for whoever wrote it.
    pub fn compile(text: &str) -> Result<Self, String> {
        let source: Value = serde_json::from_str(text).map_err(|e| e.to_string())?;
        let validator = jsonschema::options()
            .with_draft(jsonschema::Draft::Draft202012)
            .with_pattern_options(PatternOptions::regex())
            .offline()
            .build(&source)
            .map_err(|e| e.to_string())?;
        Ok(Self { validator, source })
    }

    /// What does not fit: JSON Pointer into the payload, and what was expected there. Empty: it fits.
    pub fn faults(&self, payload: &Document) -> Vec<(String, String)> {
        let value = match read(payload.text()) {
            Ok(value) => value,
            Err(reason) => return vec![(String::new(), format!("expected numbers that can be compared: {reason}"))],
        };
        if self.validator.is_valid(&value) {
            return Vec::new();
        }
        let mut faults: Vec<_> = self.validator.iter_errors(&value).take(MOST_FAULTS).map(|e| fault(&e)).collect();
        if faults.is_empty() {
            faults.push((String::new(), "expected what the schema says".to_owned()));
        }
        faults
    }

    /// The properties that it names, and those of them that every row needs.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let schema = self.follow(&self.source);
        let names = schema["properties"].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
        let required = schema["required"].as_array().into_iter().flatten();
        (names, required.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// What each column of a table has to be: by name, or by place where there are no names.
    pub fn column_kinds(&self, columns: Option<&[String]>, width: usize) -> Vec<CellKind> {
        let schema = self.follow(&self.source);
        match columns {
            Some(names) => names.iter().map(|name| self.kind(&schema["properties"][name.as_str()])).collect(),
            None => (0..width)
                .map(|place| {
                    let own = &schema["prefixItems"][place];
                    self.kind(if own.is_null() { &schema["items"] } else { own })
                })
                .collect(),
        }
    }

    /// A cell stays text wherever text would do.
    fn kind(&self, schema: &Value) -> CellKind {
        let schema = self.follow(schema);
        let types: Vec<&str> = match &schema["type"] {
            Value::String(one) => vec![one],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => return CellKind::Text,
        };
        let number = types.iter().any(|t| matches!(*t, "number" | "integer"));
        match (types.contains(&"string"), number, types.contains(&"boolean")) {
            (false, true, true) => CellKind::NumberOrBoolean,
            (false, true, false) => CellKind::Number,
            (false, false, true) => CellKind::Boolean,
            _ => CellKind::Text,
        }
    }

    /// Follows references within the schema, a few steps.
    fn follow<'a>(&'a self, mut schema: &'a Value) -> &'a Value {
        for _ in 0..8 {
            let target = schema["$ref"].as_str().and_then(|r| r.strip_prefix('#')).and_then(|p| self.source.pointer(p));
            match target {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }
}

/// What stands at a pointer of a payload, short enough for a sentence; `nothing` where nothing does.
pub fn shown(payload: &Document, pointer: &str) -> String {
    let mut text = payload.text();
    for step in pointer.split('/').skip(1) {
        let name = step.replace("~1", "/").replace("~0", "~");
        let found = match serde_json::from_str::<HashMap<Cow<str>, &RawValue>>(text) {
            Ok(fields) => fields.get(name.as_str()).map(|value| value.get()),
            Err(_) => serde_json::from_str::<Vec<&RawValue>>(text)
                .ok()
                .and_then(|elements| elements.get(name.parse::<usize>().ok()?).map(|value| value.get())),
        };
        match found {
            Some(inner) => text = inner,
            None => return "nothing".to_owned(),
        }
    }
    match text.as_bytes().first() {
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "an array".to_owned(),
        _ if text.chars().count() > 60 => {
            let begin: String = text.chars().take(60).collect();
            if begin.starts_with('"') { format!("{begin}…\"") } else { format!("{begin}…") }
        }
        _ => text.to_owned(),
    }
}

/// JSON as a value that can be compared. Numbers beyond the range of a double stand at its end.
fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&tame(text)))
        .map_err(|e: serde_json::Error| e.to_string())
}

/// The text with every number that a double cannot hold replaced by the largest that it can.
fn tame(text: &str) -> String {
    let mut tamed = String::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let begin = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while at < bytes.len() && bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at = (at + 1).min(bytes.len());
                tamed.push_str(&text[begin..at]);
            }
            b'-' | b'0'..=b'9' => {
                while at < bytes.len() && matches!(bytes[at], b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9') {
                    at += 1;
                }
                let number = &text[begin..at];
                match number.parse::<f64>() {
                    Ok(value) if value.is_infinite() => {
                        let _ = write!(tamed, "{}", f64::MAX.copysign(value));
                    }
                    _ => tamed.push_str(number),
                }
            }
            _ => {
                while at < bytes.len() && !matches!(bytes[at], b'"' | b'-' | b'0'..=b'9') {
                    at += 1;
                }
                tamed.push_str(&text[begin..at]);
            }
        }
    }
    tamed
}

fn fault(error: &ValidationError) -> (String, String) {
    let mut pointer = error.instance_path().as_str().to_owned();
    let below = |pointer: &mut String, name: &str| {
        pointer.push('/');
        pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
    };
    let expected = match error.kind() {
        ValidationErrorKind::Type { kind } => match kind {
            TypeKind::Single(one) => with_article(*one).to_owned(),
            TypeKind::Multiple(many) => many.iter().map(with_article).collect::<Vec<_>>().join(" or "),
        },
        ValidationErrorKind::Required { property } => {
            below(&mut pointer, property.as_str().unwrap_or_default());
            "a value".to_owned()
        }
        ValidationErrorKind::AdditionalProperties { unexpected }
        | ValidationErrorKind::UnevaluatedProperties { unexpected } => {
            if let Some(name) = unexpected.first() {
                below(&mut pointer, name);
            }
            "nothing of this name".to_owned()
        }
        ValidationErrorKind::Enum { options } => format!("one of {options}"),
        ValidationErrorKind::Constant { expected_value } => expected_value.to_string(),
        ValidationErrorKind::Minimum { limit } => format!("at least {limit}"),
        ValidationErrorKind::Maximum { limit } => format!("at most {limit}"),
        ValidationErrorKind::ExclusiveMinimum { limit } => format!("more than {limit}"),
        ValidationErrorKind::ExclusiveMaximum { limit } => format!("less than {limit}"),
        ValidationErrorKind::MultipleOf { multiple_of } => format!("a multiple of {multiple_of}"),
        ValidationErrorKind::MinLength { limit: 1 } => "text that is not empty".to_owned(),
        ValidationErrorKind::MinLength { limit } => format!("text of at least {limit} characters"),
        ValidationErrorKind::MaxLength { limit } => format!("text of at most {limit} characters"),
        ValidationErrorKind::Pattern { pattern } => format!("text that matches {pattern}"),
        ValidationErrorKind::Format { format } => format!("text in the format {format}"),
        ValidationErrorKind::MinItems { limit } => format!("at least {limit} elements"),
        ValidationErrorKind::MaxItems { limit } => format!("at most {limit} elements"),
        _ => return (pointer, format!("expected what the schema says: {}", error.masked())),
    };
    (pointer, format!("expected {expected}"))
}

fn with_article(kind: JsonType) -> &'static str {
    match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "text",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    }
}

#[cfg(test)]
mod tests {
    use CellKind::{Boolean, Number, Text};

    use super::*;

    fn faults(schema: &str, payload: &str) -> Vec<(String, String)> {
        let payload = Document::parse(payload.to_owned()).expect("payload");
        Schema::compile(schema).expect("schema").faults(&payload)
    }

    #[test]
    fn a_fault_says_where_and_what_was_expected() {
        let schema = r#"{"type":"object","required":["id"],"additionalProperties":false,
            "properties":{"id":{"type":"integer","minimum":1},"a/b":{"enum":["x","y"]},"t":{"pattern":"^[0-9]+$"}}}"#;
        let say = |payload: &str| faults(schema, payload);
        assert_eq!(say(r#"{"id":1,"a/b":"x","t":"12"}"#), []);
        assert_eq!(say(r#"{"id":"1"}"#), [("/id".into(), "expected a whole number".into())]);
        assert_eq!(say(r#"{"id":0}"#), [("/id".into(), "expected at least 1".into())]);
        assert_eq!(say("{}"), [("/id".into(), "expected a value".into())]);
        assert_eq!(say(r#"{"id":1,"z":1}"#), [("/z".into(), "expected nothing of this name".into())]);
        assert_eq!(say(r#"{"id":1,"a/b":"z"}"#), [("/a~1b".into(), r#"expected one of ["x","y"]"#.into())]);
        assert_eq!(say("5"), [(String::new(), "expected an object".into())]);
    }

    #[test]
    fn numbers_beyond_a_double_are_numbers() {
        let schema = r#"{"items":{"type":"number","maximum":10}}"#;
        assert_eq!(faults(schema, "[-1e400]"), []);
        assert_eq!(faults(schema, "[1, 1e400]"), [("/1".into(), "expected at most 10".into())]);
        assert_eq!(faults(r#"{"items":{"type":"string"}}"#, r#"["1e400", "\"2e400"]"#), []);
        assert_eq!(tame(r#"["1e400\"",1e400,-2E999,1e5]"#).matches("e400").count(), 1);
    }

    #[test]
    fn cells_are_text_unless_the_schema_wants_something_else() {
        let schema = Schema::compile(
            r##"{"$ref":"#/$defs/row","$defs":{"row":{"properties":{"n":{"type":"number"},"b":{"type":["boolean","null"]},
                "either":{"type":["string","integer"]},"far":{"$ref":"#/$defs/count"}}},"count":{"type":"integer"}}}"##,
        )
        .expect("schema");
        let names = ["n", "b", "either", "far", "other"].map(str::to_owned);
        assert_eq!(schema.column_kinds(Some(&names), 5), [Number, Boolean, Text, Number, Text]);
        let array =
            Schema::compile(r#"{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}"#).expect("schema");
        assert_eq!(array.column_kinds(None, 3), [Text, Number, Number]);
    }

    #[test]
    fn a_bad_schema_is_refused_with_a_reason() {
        for bad in ["{", r#"{"type":"colour"}"#, r#"{"$ref":"https://example.com/x"}"#, r#"{"pattern":"(?=x)"}"#] {
            assert!(Schema::compile(bad).is_err(), "{bad}");
        }
    }
}
