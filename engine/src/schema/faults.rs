//! First faults of a payload, without searching for all of them.
//!
//! The library reports either if a document is valid, or every fault. This walks schema and document in parallel
//! through the common keywords, and stops when it has found enough. The assertions of one schema are left to the
//! library, as a separate schema; so are keywords that combine schemas (`anyOf`, `not`, `unevaluatedProperties` and the
//! like), for which it only reports if they hold.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, Mutex, PoisonError},
};

use jsonschema::Validator;
use serde_json::{Map, Value, json};

use super::{MOST_FAULTS, fault, options};

/// Maximum steps of one walk.
const MOST_STEPS: usize = 2_000_000;

/// Maximum schemas compiled for the walks of one schema.
const MOST_COMPILED: usize = 2_000;

/// Name of a schema without `$id` while parts of it are compiled.
const NAME: &str = "urn:treeline:schema";

/// Assertions about one value without inner schemas.
const ASSERTIONS: [&str; 19] = [
    "type",
    "enum",
    "const",
    "multipleOf",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "format",
    "maxItems",
    "minItems",
    "uniqueItems",
    "maxProperties",
    "minProperties",
    "required",
    "dependentRequired",
];

/// Keywords that combine schemas, or depend on what others have evaluated.
const COMBINED: [&str; 13] = [
    "anyOf",
    "oneOf",
    "not",
    "if",
    "contains",
    "propertyNames",
    "patternProperties",
    "dependentSchemas",
    "dependencies",
    "unevaluatedProperties",
    "unevaluatedItems",
    "$dynamicRef",
    "$recursiveRef",
];

/// Parts of a schema, compiled when a walk first needs them.
#[derive(Default)]
pub(super) struct Parts(Mutex<HashMap<String, Option<Arc<Validator>>>>);

impl std::fmt::Debug for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Parts")
    }
}

impl Parts {
    /// Part with this name; `None` if it cannot be compiled or there are too many.
    fn get(&self, name: String, schema: impl FnOnce() -> Value) -> Option<Arc<Validator>> {
        let mut parts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = parts.get(&name) {
            return cached.clone();
        }
        let compiled = if parts.len() < MOST_COMPILED { options().build(&schema()).ok().map(Arc::new) } else { None };
        parts.insert(name, compiled.clone());
        compiled
    }
}

/// First faults of an invalid value. Empty if no single place is at fault.
pub(super) fn first(source: &Value, parts: &Parts, value: &Value) -> Vec<(String, String)> {
    let mut walk = Walk {
        source,
        has_documents: has_documents(source),
        parts,
        faults: Vec::new(),
        seen: HashSet::new(),
        place: String::new(),
        steps: 0,
    };
    walk.visit(source, "", value);
    walk.faults
}

struct Walk<'a> {
    source: &'a Value,
    /// True if documents are embedded: next to them a pointer may be relative to them.
    has_documents: bool,
    parts: &'a Parts,
    faults: Vec<(String, String)>,
    /// Pairs of schema and value that were visited.
    seen: HashSet<(*const Value, *const Value)>,
    /// Position of the walk in the payload.
    place: String,
    steps: usize,
}

impl<'a> Walk<'a> {
    fn is_done(&self) -> bool {
        self.faults.len() >= MOST_FAULTS || self.steps >= MOST_STEPS
    }

    /// `at`: pointer of the schema in the whole schema.
    fn visit(&mut self, schema: &'a Value, at: &str, value: &Value) {
        self.steps += 1;
        if self.is_done() {
            return;
        }
        let Value::Object(object) = schema else {
            if schema == &Value::Bool(false) {
                self.report("expected nothing");
            }
            return;
        };
        // Only a reference can lead to the same pair twice.
        if object.contains_key("$ref") && !self.seen.insert((schema, value)) {
            return;
        }
        let before = self.faults.len();
        self.assertions(object, at, value);
        let is_plain = self.follow(object, value);
        if let Some(all) = object.get("allOf").and_then(Value::as_array) {
            for (index, inner) in all.iter().enumerate() {
                self.visit(inner, &format!("{at}/allOf/{index}"), value);
            }
        }
        match value {
            Value::Object(fields) => self.fields(object, at, fields),
            Value::Array(elements) => self.elements(object, at, elements),
            _ => {}
        }
        let combined = COMBINED.iter().find(|keyword| object.get(**keyword).is_some_and(|inner| !inner.is_boolean()));
        if self.faults.len() == before && !self.is_done() && (combined.is_some() || !is_plain) {
            let whole = self.parts.get(format!("whole {at}"), || in_context(self.source, at));
            if whole.is_none_or(|whole| !whole.is_valid(value)) {
                self.report(&format!("expected what the schema says ({})", combined.unwrap_or(&"$ref")));
            }
        }
    }

    fn report(&mut self, detail: &str) {
        self.faults.push((self.place.clone(), detail.to_owned()));
    }

    /// Checks the keywords that concern the value alone.
    fn assertions(&mut self, object: &Map<String, Value>, at: &str, value: &Value) {
        let closed = |keyword: &str| object.get(keyword) == Some(&Value::Bool(false));
        let has_any = ASSERTIONS.iter().any(|keyword| object.contains_key(*keyword));
        if !has_any && !closed("additionalProperties") && !closed("items") {
            return;
        }
        let part_schema = || {
            let assertions = object.iter().filter(|(keyword, _)| ASSERTIONS.contains(&keyword.as_str()));
            let mut part_schema: Map<String, Value> =
                assertions.map(|(keyword, value)| (keyword.clone(), value.clone())).collect();
            let anything = |names: &Map<String, Value>| names.keys().map(|name| (name.clone(), json!(true))).collect();
            if closed("additionalProperties") {
                part_schema.insert("additionalProperties".to_owned(), json!(false));
                for keyword in ["properties", "patternProperties"] {
                    if let Some(names) = object.get(keyword).and_then(Value::as_object) {
                        part_schema.insert(keyword.to_owned(), Value::Object(anything(names)));
                    }
                }
            }
            if closed("items") {
                part_schema.insert("items".to_owned(), json!(false));
                if let Some(first) = object.get("prefixItems").and_then(Value::as_array) {
                    part_schema.insert("prefixItems".to_owned(), first.iter().map(|_| json!(true)).collect());
                }
            }
            Value::Object(part_schema)
        };
        let Some(part_schema) = self.parts.get(format!("own {at}"), part_schema) else { return };
        if part_schema.is_valid(value) {
            return;
        }
        let remaining = MOST_FAULTS - self.faults.len();
        let (place, schema) = (&self.place, self.source.pointer(at));
        self.faults.extend(part_schema.iter_errors(value).take(remaining).map(|error| {
            let (pointer, detail) = fault(&error, schema);
            (format!("{place}{pointer}"), detail)
        }));
    }

    /// Follows a reference within the schema. False if only the library can follow it.
    fn follow(&mut self, object: &'a Map<String, Value>, value: &Value) -> bool {
        let Some(reference) = object.get("$ref") else { return true };
        let target = reference.as_str().and_then(|reference| reference.strip_prefix('#'));
        let Some(pointer) = target.filter(|target| !target.contains('%') && !self.has_documents) else {
            return false;
        };
        let Some(schema) = self.source.pointer(pointer) else { return false };
        self.visit(schema, pointer, value);
        true
    }

    fn fields(&mut self, object: &'a Map<String, Value>, at: &str, fields: &Map<String, Value>) {
        let named = object.get("properties").and_then(Value::as_object);
        // Only the library knows which names a pattern matches.
        let others = object.get("additionalProperties").filter(|_| !object.contains_key("patternProperties"));
        for (name, value) in fields {
            if self.is_done() {
                return;
            }
            let escaped = name.replace('~', "~0").replace('/', "~1");
            match (named.and_then(|named| named.get(name)), others) {
                (Some(schema), _) => self.inside(schema, &format!("{at}/properties/{escaped}"), &escaped, value),
                (None, Some(schema)) if schema.is_object() => {
                    self.inside(schema, &format!("{at}/additionalProperties"), &escaped, value);
                }
                _ => {}
            }
        }
    }

    fn elements(&mut self, object: &'a Map<String, Value>, at: &str, elements: &[Value]) {
        let first = object.get("prefixItems").and_then(Value::as_array);
        let others = object.get("items").filter(|schema| schema.is_object());
        for (index, value) in elements.iter().enumerate() {
            if self.is_done() {
                return;
            }
            match (first.and_then(|first| first.get(index)), others) {
                (Some(schema), _) => {
                    self.inside(schema, &format!("{at}/prefixItems/{index}"), &index.to_string(), value);
                }
                (None, Some(schema)) => self.inside(schema, &format!("{at}/items"), &index.to_string(), value),
                (None, None) => return,
            }
        }
    }

    fn inside(&mut self, schema: &'a Value, at: &str, step: &str, value: &Value) {
        let end = self.place.len();
        self.place.push('/');
        self.place.push_str(step);
        self.visit(schema, at, value);
        self.place.truncate(end);
    }
}

/// Returns true if a document is embedded in the schema.
fn has_documents(source: &Value) -> bool {
    fn names_itself(value: &Value) -> bool {
        match value {
            Value::Object(object) => object.contains_key("$id") || object.values().any(names_itself),
            Value::Array(inner) => inner.iter().any(names_itself),
            _ => false,
        }
    }
    source.as_object().is_some_and(|object| object.values().any(names_itself))
}

/// Builds a standalone schema of a part, whose references are still resolved against the whole.
fn in_context(source: &Value, at: &str) -> Value {
    let mut whole = source.clone();
    let name = match whole.as_object_mut() {
        Some(object) => object.entry("$id").or_insert_with(|| json!(NAME)).as_str().unwrap_or(NAME).to_owned(),
        None => NAME.to_owned(),
    };
    let fragment: String = at.bytes().map(percent_encoded).collect();
    json!({"$ref": format!("{}#{fragment}", name.trim_end_matches('#')), "$defs": {"whole": whole}})
}

fn percent_encoded(byte: u8) -> String {
    if byte.is_ascii_alphanumeric() || b"/-._~$".contains(&byte) {
        char::from(byte).to_string()
    } else {
        format!("%{byte:02X}")
    }
}
