//! JSON Schema (2020-12) validation of payloads.
//!
//! Reports the place and the expectation in words; never changes a payload. Patterns run in linear time and references
//! never leave the schema; a schema with exploding references is refused on submission (`complexity`), faults beyond
//! the first ten are not searched (`faults`), and a schema is compiled once (`compiled`). So neither a payload nor a
//! schema can block the server.

mod compiled; // cache of compiled schemas
mod complexity; // cost of applying a schema
mod faults; // first faults of a payload

use std::{
    borrow::Cow,
    collections::{BTreeSet, HashMap},
    fmt::Write as _,
};

use domain::{Code, Document, Problem};
use jsonschema::{
    JsonType, PatternOptions, ValidationError, ValidationOptions, Validator,
    error::{TypeKind, ValidationErrorKind},
};
use serde_json::{Value, value::RawValue};

use crate::import::split::{CellKind, ColumnRule};

pub use compiled::compiled;

/// Longest description of a pattern that is shown in place of it, in bytes.
const LONGEST_DESCRIPTION: usize = 100;

/// Maximum number of reported faults per payload.
pub(crate) const MOST_FAULTS: usize = 10;

/// Product of schema parts and document values up to which the library may search all faults.
const ALL_FAULTS: usize = 20_000;

/// Product beyond which a document is not validated at all, and from which validation runs in a blocking thread.
const MOST_WORK: usize = 200_000_000;
const LONG_WORK: usize = 200_000;

/// Product of document depth and reference depth that fits the stack of any thread, and the stack size for more.
const SHALLOW: usize = 100;
const STACK: usize = 256 << 20;

/// Compiled schema.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    source: Value,
    /// Cost with expanded references.
    cost: complexity::Cost,
    /// Separately compiled parts.
    parts: faults::Parts,
}

/// Property of a payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    pub name: String,
    pub required: bool,
    /// JSON type besides `null`; `None` if several are allowed or none is named.
    pub json_type: Option<String>,
    /// True for a text in the format `date`.
    pub is_date: bool,
}

/// Reason why a schema cannot be used: a sentence for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    TooComplex(String),
}

impl SchemaError {
    /// Refusal of a submitted schema.
    pub fn problem(&self) -> Problem {
        match self {
            Self::Invalid(reason) => {
                let detail = format!("expected a JSON Schema (2020-12): {reason}");
                Problem::invalid_body([("/payload_schema".to_owned(), detail)])
            }
            Self::TooComplex(reason) => {
                Problem::new(Code::SchemaTooComplex, format!("The payload schema is too complex: {reason}."))
            }
        }
    }
}

/// Compiler options.
fn options() -> ValidationOptions<'static> {
    jsonschema::options()
        .with_draft(jsonschema::Draft::Draft202012)
        .with_pattern_options(
            PatternOptions::regex().size_limit(complexity::PATTERN).dfa_size_limit(complexity::PATTERN),
        )
        .offline()
}

impl Schema {
    /// Compiles a schema.
    pub fn compile(text: &str) -> Result<Self, SchemaError> {
        let source: Value = serde_json::from_str(text).map_err(|e| SchemaError::Invalid(e.to_string()))?;
        let cost = complexity::measure(&source).map_err(SchemaError::TooComplex)?;
        let validator = options().build(&source).map_err(|e| SchemaError::Invalid(e.to_string()))?;
        Ok(Self { validator, source, cost, parts: faults::Parts::default() })
    }

    /// Returns true if validating documents of `bytes` may take long and needs a blocking thread.
    pub fn takes_long(&self, bytes: usize) -> bool {
        // A value takes at least two bytes, and usually ten.
        self.cost.parts.saturating_mul(bytes / 4) > LONG_WORK
    }

    /// Faults as JSON Pointer into the payload and expectation. Empty if the payload is valid.
    pub fn faults(&self, payload: &Document) -> Vec<(String, String)> {
        let value = match read(payload.text()) {
            Ok(value) => value,
            Err(reason) => return vec![(String::new(), format!("expected numbers that can be compared: {reason}"))],
        };
        let size = Size::of(&value);
        let work = self.cost.parts.saturating_mul(size.values);
        if work > MOST_WORK {
            let detail = format!("expected a smaller document: its schema has {} parts", self.cost.parts);
            return vec![(String::new(), detail)];
        }
        let find = || self.find(&value, work);
        if self.cost.height * size.depth <= SHALLOW { find() } else { on_large_stack(find) }
    }

    fn find(&self, value: &Value, work: usize) -> Vec<(String, String)> {
        if self.validator.is_valid(value) {
            return Vec::new();
        }
        let mut faults: Vec<_> = if work <= ALL_FAULTS {
            self.validator.iter_errors(value).take(MOST_FAULTS).map(|e| fault(&e, Some(&self.source))).collect()
        } else {
            faults::first(&self.source, &self.parts, value)
        };
        if faults.is_empty() {
            faults.push(anything());
        }
        faults
    }

    /// Returns the properties of a payload that are named or required.
    pub fn properties(&self) -> Vec<Property> {
        let (mut names, required) = self.names();
        let of = &self.follow(&self.source)["properties"];
        let required: BTreeSet<String> = required.into_iter().collect();
        names.extend(required.iter().filter(|name| of.get(name.as_str()).is_none()).cloned());
        names.into_iter().map(|name| self.property(&of[name.as_str()], required.contains(&name), name)).collect()
    }

    fn property(&self, schema: &Value, required: bool, name: String) -> Property {
        let schema = self.follow(schema);
        let json_type = match &schema["type"] {
            Value::String(one) => Some(one.clone()),
            Value::Array(many) => {
                let mut types = many.iter().filter_map(Value::as_str).filter(|one| *one != "null");
                types.next().filter(|_| types.next().is_none()).map(str::to_owned)
            }
            _ => None,
        };
        Property { name, required, json_type, is_date: schema["format"] == "date" }
    }

    /// Schema of a property, or null.
    pub fn of_property(&self, name: &str) -> &Value {
        self.follow(&self.follow(&self.source)["properties"][name])
    }

    /// Returns true if a payload may have named properties only.
    pub fn is_closed(&self) -> bool {
        self.follow(&self.source)["additionalProperties"] == false
    }

    /// Returns the named properties, and those of them that are required.
    pub fn names(&self) -> (Vec<String>, Vec<String>) {
        let schema = self.follow(&self.source);
        let names = schema["properties"].as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
        let required = schema["required"].as_array().into_iter().flatten();
        (names, required.filter_map(Value::as_str).map(str::to_owned).collect())
    }

    /// Expectations of each column of a table: by name, or by index if there are no names.
    pub fn column_rules(&self, columns: Option<&[String]>, width: usize) -> Vec<ColumnRule> {
        let schema = self.follow(&self.source);
        let Some(names) = columns else {
            let of_element = |place: usize| {
                let element = &schema["prefixItems"][place];
                let kind = self.kind(if element.is_null() { &schema["items"] } else { element });
                ColumnRule { kind, ..ColumnRule::default() }
            };
            return (0..width).map(of_element).collect();
        };
        let required: BTreeSet<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let of_property = |name: &String| {
            let property = self.follow(&schema["properties"][name.as_str()]);
            let is_optional = !required.contains(name.as_str());
            let is_short = property["minLength"].as_u64() > Some(0);
            ColumnRule {
                kind: self.kind(property),
                omits_null: is_optional && refuses(property, "null", &Value::Null),
                omits_blank: is_optional && (is_short || refuses(property, "string", &"".into())),
            }
        };
        names.iter().map(of_property).collect()
    }

    /// A cell stays text if the schema allows text.
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
            (true, false, false) => CellKind::OnlyText,
            _ => CellKind::Text,
        }
    }

    /// Follows references within the schema, at most a few steps.
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

/// Returns true if the types or the listed values of a schema exclude a value of this type.
fn refuses(schema: &Value, json_type: &str, value: &Value) -> bool {
    let is_of_type = match &schema["type"] {
        Value::String(one) => one == json_type,
        Value::Array(many) => many.iter().any(|one| one == json_type),
        _ => true,
    };
    !is_of_type || schema["enum"].as_array().is_some_and(|listed| !listed.contains(value))
}

/// Generic fault of a payload.
fn anything() -> (String, String) {
    (String::new(), "expected what the schema says".to_owned())
}

/// Runs on a stack that is large enough for deep documents and schemas that refer to themselves at each level.
fn on_large_stack(find: impl FnOnce() -> Vec<(String, String)> + Send) -> Vec<(String, String)> {
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, find);
        thread.ok().and_then(|thread| thread.join().ok()).unwrap_or_else(|| vec![anything()])
    })
}

/// Size of a document.
#[derive(Clone, Copy)]
struct Size {
    values: usize,
    depth: usize,
}

impl Size {
    fn of(value: &Value) -> Self {
        let none = Self { values: 0, depth: 0 };
        let sum =
            |all: Self, inner: Self| Self { values: all.values + inner.values, depth: all.depth.max(inner.depth) };
        let inner = match value {
            Value::Array(inner) => inner.iter().map(Self::of).fold(none, sum),
            Value::Object(inner) => inner.values().map(Self::of).fold(none, sum),
            _ => none,
        };
        Self { values: inner.values + 1, depth: inner.depth + 1 }
    }
}

/// Value at a pointer of a payload, shortened for a sentence; `nothing` if there is none.
pub fn display_value(payload: &Document, pointer: &str) -> String {
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

/// Parses JSON for comparison. Numbers beyond the range of a double become its limits.
fn read(text: &str) -> Result<Value, String> {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&tame(text)))
        .map_err(|e: serde_json::Error| e.to_string())
}

/// Replaces every number that a double cannot hold with the largest that it can.
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

/// Place and expectation of an error, given the schema that its path begins in.
fn fault(error: &ValidationError, schema: Option<&Value>) -> (String, String) {
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
        ValidationErrorKind::Pattern { pattern } => {
            described(error, schema, pattern).unwrap_or_else(|| format!("text that matches {pattern}"))
        }
        ValidationErrorKind::Format { format } => format!("text in the format {format}"),
        ValidationErrorKind::MinItems { limit } => format!("at least {limit} elements"),
        ValidationErrorKind::MaxItems { limit } => format!("at most {limit} elements"),
        _ => return (pointer, format!("expected what the schema says: {}", error.masked())),
    };
    (pointer, format!("expected {expected}"))
}

/// Words of the schema's author for a text with a pattern, as people who upload files cannot read patterns: the short
/// description or the title beside it, and its first example. Without an example, the pattern follows.
fn described(error: &ValidationError, schema: Option<&Value>, pattern: &str) -> Option<String> {
    let parent = schema?.pointer(error.schema_path().as_str().strip_suffix("/pattern")?)?;
    let texts = ["description", "title"].into_iter().filter_map(|name| parent[name].as_str());
    let is_short = |text: &&str| (1..=LONGEST_DESCRIPTION).contains(&text.len()) && !text.contains(char::is_control);
    let words = texts.map(|text| text.trim().trim_end_matches('.')).find(is_short)?;
    Some(match parent["examples"][0].as_str().filter(is_short) {
        Some(example) => format!("{words}, such as {example}"),
        None => format!("{words} (text that matches {pattern})"),
    })
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
mod tests;
