//! Cost of applying a schema, measured before it is compiled.
//!
//! A schema of one kilobyte can refer to itself so that one value is visited 2^26 times. The measure is the size of the
//! schema with all references expanded that apply to the same value: a reference below `properties` or `items` applies
//! to a smaller value, and its results are cached while a document is validated. Nothing here checks if a schema is
//! valid.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Maximum parts of an expanded schema.
const MOST_PARTS: usize = 10_000;

/// Maximum nesting of references and combinations that apply to the same value: each takes stack.
const MOST_DEPTH: usize = 48;

/// Maximum bytes of all compiled patterns of a schema, and of one.
const PATTERNS: usize = 4 << 20;
pub(super) const PATTERN: usize = 1 << 20;

/// Keywords whose schemas apply to the same value.
const IN_PLACE: [&str; 4] = ["not", "if", "then", "else"];
const IN_PLACE_LISTS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords whose schemas apply to values inside the value.
const INSIDE: [&str; 7] = [
    "additionalProperties",
    "unevaluatedProperties",
    "unevaluatedItems",
    "items",
    "contains",
    "propertyNames",
    "contentSchema",
];
const INSIDE_MAPS: [&str; 2] = ["properties", "patternProperties"];

/// Schema documents built into the compiler.
const META: &str = "https://json-schema.org/";
const META_PARTS: usize = 500;

/// Measures the cost of applying a schema; the error is a sentence for its author.
pub(super) fn measure(source: &Value) -> Result<Cost, String> {
    let mut patterns = 0;
    check_patterns(source, &mut patterns)?;
    let mut expanding =
        Expanding { ids: HashMap::new(), anchors: HashMap::new(), measured: HashMap::new(), open: HashSet::new() };
    expanding.index(source, source);
    let mut sum = expanding.whole(Part { schema: source, resource: source })?;
    let mut done = HashSet::new();
    let mut targets: Vec<Part<'_>> = expanding.targets(source);
    while let Some(target) = targets.pop() {
        if done.insert(std::ptr::from_ref(target.schema)) {
            sum = checked(sum + expanding.whole(target)?)?;
        }
    }
    let height = expanding.measured.values().map(|cost| cost.height).max().unwrap_or(1);
    Ok(Cost { parts: sum, height })
}

fn checked(parts: usize) -> Result<usize, String> {
    if parts <= MOST_PARTS {
        return Ok(parts);
    }
    Err(format!("with its references expanded it has more than {MOST_PARTS} parts"))
}

/// Schema, and the document or embedded document that its references point into.
#[derive(Clone, Copy)]
struct Part<'a> {
    schema: &'a Value,
    resource: &'a Value,
}

impl<'a> Part<'a> {
    /// Inner schema, which may start an embedded document.
    fn inner(self, schema: &'a Value) -> Self {
        Self { schema, resource: if schema["$id"].is_string() { schema } else { self.resource } }
    }
}

/// Cost of a schema for one value: the number of its parts, and their nesting depth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cost {
    pub(super) parts: usize,
    pub(super) height: usize,
}

impl Cost {
    fn and(self, inner: Self) -> Result<Self, String> {
        let cost = Self { parts: checked(self.parts + inner.parts)?, height: self.height.max(inner.height + 1) };
        if cost.height > MOST_DEPTH { Err(too_deep()) } else { Ok(cost) }
    }
}

fn too_deep() -> String {
    format!("it has more than {MOST_DEPTH} references and combinations one inside the other")
}

struct Expanding<'a> {
    ids: HashMap<&'a str, &'a Value>,
    anchors: HashMap<&'a str, Vec<Part<'a>>>,
    /// Cost for one value, by schema.
    measured: HashMap<*const Value, Cost>,
    /// Schemas being measured: visiting one again means a cycle.
    open: HashSet<*const Value>,
}

impl<'a> Expanding<'a> {
    /// Indexes the targets of references.
    fn index(&mut self, value: &'a Value, resource: &'a Value) {
        match value {
            Value::Object(object) => {
                let id = object.get("$id").and_then(Value::as_str);
                let resource = if id.is_some() { value } else { resource };
                if let Some(id) = id {
                    self.ids.insert(id.trim_end_matches('#'), value);
                }
                for name in ["$anchor", "$dynamicAnchor"] {
                    if let Some(name) = object.get(name).and_then(Value::as_str) {
                        self.anchors.entry(name).or_default().push(Part { schema: value, resource });
                    }
                }
                for inner in object.values() {
                    self.index(inner, resource);
                }
            }
            Value::Array(inner) => inner.iter().for_each(|inner| self.index(inner, resource)),
            _ => {}
        }
    }

    /// Targets of all references in a document.
    fn targets(&self, source: &'a Value) -> Vec<Part<'a>> {
        let mut found = Vec::new();
        let mut left = vec![Part { schema: source, resource: source }];
        while let Some(part) = left.pop() {
            match part.schema {
                Value::Object(object) => {
                    found.extend(self.referred(part, object).unwrap_or_default());
                    left.extend(object.values().map(|inner| part.inner(inner)));
                }
                Value::Array(inner) => left.extend(inner.iter().map(|inner| part.inner(inner))),
                _ => {}
            }
        }
        found
    }

    /// Targets of the references in a schema. References to built-in documents have none.
    fn referred(&self, part: Part<'a>, object: &'a Map<String, Value>) -> Result<Vec<Part<'a>>, String> {
        let mut found = Vec::new();
        for keyword in ["$ref", "$dynamicRef", "$recursiveRef"] {
            let Some(reference) = object.get(keyword).and_then(Value::as_str) else { continue };
            if reference.starts_with(META) {
                continue;
            }
            let unknown = || format!("it has a reference that leads nowhere in it: {reference:.100}");
            let (document, fragment) = reference.split_once('#').unwrap_or((reference, ""));
            let resource =
                if document.is_empty() { part.resource } else { self.document(document).ok_or_else(unknown)? };
            let fragment = percent_decoded(fragment);
            if fragment.is_empty() || fragment.starts_with('/') {
                let schema = resource.pointer(&fragment).ok_or_else(unknown)?;
                found.push(Part { schema, resource });
            } else {
                found.extend(self.anchors.get(fragment.as_str()).ok_or_else(unknown)?);
            }
        }
        Ok(found)
    }

    /// Finds an embedded document by its `$id`, or by a suffix of it, as in relative references.
    fn document(&self, name: &str) -> Option<&'a Value> {
        let is_it = |id: &str| id == name || id.strip_suffix(name).is_some_and(|start| start.ends_with('/'));
        self.ids.get(name).or_else(|| self.ids.iter().find(|(id, _)| is_it(id)).map(|(_, value)| value)).copied()
    }

    /// Cost for one value: the schema, and its parts that apply to the same value.
    fn in_place(&mut self, part: Part<'a>, depth: usize) -> Result<Cost, String> {
        let mut cost = Cost { parts: 1, height: 1 };
        let Value::Object(object) = part.schema else { return Ok(cost) };
        let key = std::ptr::from_ref(part.schema);
        if let Some(&measured) = self.measured.get(&key) {
            return Ok(measured);
        }
        if depth > MOST_DEPTH {
            return Err(too_deep());
        }
        if !self.open.insert(key) {
            return Err("its references go in a circle".to_owned());
        }
        for inner in same_value(object) {
            cost = cost.and(self.in_place(part.inner(inner), depth + 1)?)?;
        }
        for target in self.referred(part, object)? {
            cost = cost.and(self.in_place(target, depth + 1)?)?;
        }
        if object.get("$ref").and_then(Value::as_str).is_some_and(|reference| reference.starts_with(META)) {
            cost.parts += META_PARTS;
        }
        // To determine the evaluated parts, all adjacent schemas are evaluated again.
        if object.contains_key("unevaluatedProperties") || object.contains_key("unevaluatedItems") {
            cost.parts = checked(cost.parts * 3)?;
        }
        self.open.remove(&key);
        self.measured.insert(key, cost);
        Ok(cost)
    }

    /// Cost of a schema with all its parts; references inside count for one value.
    fn whole(&mut self, part: Part<'a>) -> Result<usize, String> {
        let mut parts = self.in_place(part, 0)?.parts;
        let mut left = vec![part];
        while let Some(part) = left.pop() {
            let Value::Object(object) = part.schema else { continue };
            for inner in inside(object) {
                parts = checked(parts + self.in_place(part.inner(inner), 0)?.parts)?;
                left.push(part.inner(inner));
            }
            left.extend(same_value(object).map(|inner| part.inner(inner)));
        }
        Ok(parts)
    }
}

/// Inner schemas that apply to the same value.
fn same_value(object: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let single = IN_PLACE.iter().filter_map(|keyword| object.get(*keyword));
    let listed = IN_PLACE_LISTS.iter().filter_map(|keyword| object.get(*keyword)?.as_array()).flatten();
    let named = ["dependentSchemas", "dependencies"].into_iter().filter_map(|keyword| object.get(keyword)?.as_object());
    single.chain(listed).chain(named.flat_map(Map::values))
}

/// Inner schemas that apply to values inside the value.
fn inside(object: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    let single = INSIDE.iter().filter_map(|keyword| object.get(*keyword));
    let listed = ["prefixItems", "items"].into_iter().filter_map(|keyword| object.get(keyword)?.as_array()).flatten();
    let named = INSIDE_MAPS.iter().filter_map(|keyword| object.get(*keyword)?.as_object()).flat_map(Map::values);
    single.chain(listed).chain(named)
}

/// Sums up the compiled size of all patterns of a schema.
fn check_patterns(value: &Value, sum: &mut usize) -> Result<(), String> {
    match value {
        Value::Object(object) => {
            let own_pattern = object.get("pattern").and_then(Value::as_str).into_iter();
            let named = object.get("patternProperties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
            for pattern in own_pattern.chain(named.map(String::as_str)) {
                *sum += weight(pattern);
                if *sum > PATTERNS {
                    return Err("its patterns are too large".to_owned());
                }
            }
            object.values().try_for_each(|inner| check_patterns(inner, sum))
        }
        Value::Array(inner) => inner.iter().try_for_each(|inner| check_patterns(inner, sum)),
        _ => Ok(()),
    }
}

/// Approximate size of a compiled pattern in bytes. A pattern in another dialect counts as large; one that is too large
/// is refused when it is compiled.
fn weight(pattern: &str) -> usize {
    let fits = |limit: &usize| regex::RegexBuilder::new(pattern).size_limit(*limit).build().is_ok();
    [8 << 10, 64 << 10, 256 << 10].into_iter().find(fits).unwrap_or(PATTERN)
}

fn percent_decoded(fragment: &str) -> String {
    if !fragment.contains('%') {
        return fragment.to_owned();
    }
    // Form decoding, with plus signs preserved.
    let escaped = fragment.replace('+', "%2B").replace('&', "%26").replace('=', "%3D");
    form_urlencoded::parse(escaped.as_bytes()).next().map(|(name, _)| name.into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_chain_of_references_is_counted_expanded() {
        let chain = |n: usize| {
            let mut defs: Map<String, Value> = (0..n)
                .map(|i| (format!("a{i}"), json!({"allOf": vec![json!({"$ref": format!("#/$defs/a{}", i + 1)}); 2]})))
                .collect();
            defs.insert(format!("a{n}"), json!({"type": "integer"}));
            json!({"$ref": "#/$defs/a0", "$defs": defs})
        };
        assert!(measure(&chain(20)).expect_err("2^20").contains("more than 10000 parts"));
        assert!(measure(&chain(26)).expect_err("2^26").contains("one inside the other"));
        assert!(measure(&chain(6)).expect("2^6").parts > 64);
    }

    #[test]
    fn usual_schemas_are_small() {
        let row = json!({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "name": {"type": "string", "pattern": "^[\\p{L} ]{1,100}$"}}});
        assert!(measure(&row).expect("a row").parts < 10);
        // Twenty mutually recursive node kinds, as in the syntax tree of a language.
        let kinds: Vec<Value> = (0..20).map(|i| json!({"$ref": format!("#/$defs/k{i}")})).collect();
        let kind = json!({"type": "object", "properties": {"left": {"anyOf": kinds}, "right": {"anyOf": kinds}}});
        let defs: Map<String, Value> = (0..20).map(|i| (format!("k{i}"), kind.clone())).collect();
        let language = json!({"$ref": "#/$defs/k0", "$defs": defs});
        assert!(measure(&language).expect("a language").parts < 5_000);
        let tree = json!({"$id": "https://example.com/tree", "$anchor": "node", "properties":
            {"left": {"$ref": "#node"}, "right": {"$ref": "https://example.com/tree"}, "other": {"$ref": "#"}}});
        assert!(measure(&tree).expect("a tree").parts < 50);
        assert!(measure(&json!({"$ref": "https://json-schema.org/draft/2020-12/schema"})).is_ok());
        assert!(measure(&json!(true)).is_ok() && measure(&json!({"const": {"pattern": 5}})).is_ok());
    }

    #[test]
    fn unbounded_schemas_are_refused() {
        let circle = json!({"$ref": "#/$defs/a", "$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}});
        assert!(measure(&circle).expect_err("a circle").contains("circle"));
        let defs: Map<String, Value> =
            (0..5_000).map(|i| (format!("a{i}"), json!({"$ref": format!("#/$defs/a{}", i + 1)}))).collect();
        assert!(measure(&json!({"$ref": "#/$defs/a0", "$defs": defs})).is_err(), "a long chain");
        let pieces: Vec<Value> = (0..150).rev().map(|i| json!({"$ref": format!("#/$defs/a{}", i * 30)})).collect();
        let defs: Map<String, Value> = (0..5_000)
            .map(|i| (format!("a{i}"), json!({"$ref": format!("#/$defs/a{}", i + 1)})))
            .chain([("a5000".to_owned(), json!({}))])
            .collect();
        assert!(measure(&json!({"prefixItems": pieces, "$defs": defs})).is_err(), "a long chain, known in pieces");
        assert!(measure(&json!({"$ref": "elsewhere.json"})).is_err(), "another document");
        let patterns: Vec<Value> = (0..200).map(|i| json!({"pattern": format!("(\\p{{L}}{{200}}){i}")})).collect();
        assert!(measure(&json!({"anyOf": patterns})).expect_err("patterns").contains("patterns"));
        let mut nested = json!({"type": "integer"});
        for _ in 0..30 {
            nested = json!({"unevaluatedProperties": false, "anyOf": [nested]});
        }
        assert!(measure(&nested).is_err(), "each level looks at all below it again");
        // Embedded documents hide nothing.
        let defs: Map<String, Value> = (0..26)
            .map(|i| (format!("d{i}"), json!({"$id": format!("https://example.com/a{i}"), "allOf": vec![json!({"$ref": format!("a{}", i + 1)}); 2]})))
            .chain([("d26".to_owned(), json!({"$id": "https://example.com/a26", "type": "integer"}))])
            .collect();
        assert!(measure(&json!({"$ref": "https://example.com/a0", "$defs": defs})).is_err(), "embedded documents");
    }
}
