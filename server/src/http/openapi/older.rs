//! Document for tools that only support OpenAPI 3.0, such as progenitor.
//!
//! It has the same operations in the syntax of 3.0: `nullable` instead of the type `null`, one media type per body, no
//! `webhooks`. Constraints of strings are left out, because a generator would create a type for each of them; the 3.1
//! document has them. The pieces and the discovery of resumable uploads (tus) are left out: tus clients implement that
//! protocol, and generators do not support `OPTIONS`.

use serde_json::{Map, Value, json};

/// Media types by preference, if a body has several.
const PREFERRED: [&str; 4] = ["application/json", "application/octet-stream", "application/x-ndjson", "text/csv"];

/// Keywords of JSON Schema that 3.0 does not have, or that generators do not use.
const LEFT_OUT: [&str; 12] = [
    "$schema",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "examples",
    "maxLength",
    "maxProperties",
    "minLength",
    "minProperties",
    "pattern",
    "patternProperties",
    "propertyNames",
];

/// Converts the document to OpenAPI 3.0.
pub(super) fn of(document: &Value) -> Value {
    let mut older = document.clone();
    older["openapi"] = Value::from("3.0.3");
    if let Some(fields) = older.as_object_mut() {
        fields.remove("webhooks");
        fields.remove("jsonSchemaDialect");
    }
    if let Some(license) = older["info"]["license"].as_object_mut() {
        license.remove("identifier");
    }
    if let Some(paths) = older["paths"].as_object_mut() {
        for item in paths.values_mut().filter_map(Value::as_object_mut) {
            item.retain(|_, operation| {
                let id = operation["operationId"].as_str().unwrap_or_default();
                !["append_to_upload", "describe_resumable_uploads"].contains(&id)
            });
        }
    }
    for (_, operation) in super::operations(&mut older) {
        let upload = operation["operationId"] == "create_upload";
        if let Some(body) = operation.get_mut("requestBody") {
            one_media_type(body, if upload { "application/octet-stream" } else { "" });
        }
        let answers = operation.get_mut("responses").and_then(Value::as_object_mut);
        for (_, answer) in answers.into_iter().flatten() {
            one_media_type(answer, "");
        }
        for parameter in super::parameters(operation) {
            schema(&mut parameter["schema"]);
        }
    }
    for (_, one) in older["components"]["schemas"].as_object_mut().into_iter().flatten() {
        schema(one);
    }
    unused(&mut older);
    older
}

/// Keeps one media type of a body or a response.
fn one_media_type(of: &mut Value, wanted: &str) {
    for (_, header) in of.get_mut("headers").and_then(Value::as_object_mut).into_iter().flatten() {
        schema(&mut header["schema"]);
    }
    let Some(content) = of.get_mut("content").and_then(Value::as_object_mut) else { return };
    let chosen = std::iter::once(wanted).chain(PREFERRED).find(|name| content.contains_key(*name)).map(str::to_owned);
    if let Some(chosen) = chosen {
        content.retain(|name, _| *name == chosen);
    }
    for media in content.values_mut() {
        if let Some(fields) = media.as_object_mut() {
            fields.remove("examples");
        }
        // A nullable body may also be omitted: it is not required.
        let choices = media["schema"]["oneOf"].as_array();
        let only = choices.filter(|all| all.len() == 2).and_then(|all| all.iter().find(|one| one["$ref"].is_string()));
        if let Some(only) = only.cloned() {
            media["schema"] = only;
        }
        schema(&mut media["schema"]);
    }
}

/// Converts a schema to OpenAPI 3.0.
fn schema(value: &mut Value) {
    let Some(fields) = value.as_object_mut() else {
        // `true` and `false` are only schemas in 3.1.
        if value.is_boolean() {
            *value = json!({});
        }
        return;
    };
    for keyword in LEFT_OUT {
        fields.remove(keyword);
    }
    if let Some(only) = fields.remove("const") {
        fields.insert("enum".to_owned(), json!([only]));
    }
    bound(fields, "exclusiveMinimum", "minimum");
    bound(fields, "exclusiveMaximum", "maximum");
    if let Some(Value::Array(types)) = fields.get("type").cloned() {
        let mut left: Vec<Value> = types.into_iter().filter(|one| one != "null").collect();
        fields.insert("nullable".to_owned(), Value::Bool(true));
        match (left.pop(), left.is_empty()) {
            (Some(only), true) => drop(fields.insert("type".to_owned(), only)),
            // Several types become any type.
            _ => drop(fields.remove("type")),
        }
    }
    for combined in ["oneOf", "anyOf"] {
        let Some(Value::Array(choices)) = fields.get(combined).cloned() else { continue };
        let mut left: Vec<Value> = choices.iter().filter(|one| one["type"] != "null").cloned().collect();
        if left.len() < choices.len() {
            fields.insert("nullable".to_owned(), Value::Bool(true));
        }
        if left.len() == 1 {
            fields.remove(combined);
            fields.insert("allOf".to_owned(), Value::Array(vec![left.remove(0)]));
        } else {
            fields.insert(combined.to_owned(), Value::Array(left));
        }
    }
    if fields.get("nullable") == Some(&Value::Bool(true))
        && let Some(Value::Array(words)) = fields.get_mut("enum")
    {
        words.retain(|word| !word.is_null());
    }
    for (keyword, inner) in fields.iter_mut() {
        match (keyword.as_str(), inner) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(schema),
            ("items" | "not", inner) => schema(inner),
            ("additionalProperties", inner) if inner.is_object() => schema(inner),
            ("allOf" | "anyOf" | "oneOf", Value::Array(all)) => all.iter_mut().for_each(schema),
            _ => {}
        }
    }
}

/// Converts an exclusive bound: a number in 3.1, a flag beside the bound in 3.0.
fn bound(fields: &mut Map<String, Value>, exclusive: &str, inclusive: &str) {
    if fields.get(exclusive).is_some_and(Value::is_number)
        && let Some(value) = fields.insert(exclusive.to_owned(), Value::Bool(true))
    {
        fields.insert(inclusive.to_owned(), value);
    }
}

/// Removes schemas without a reference.
fn unused(document: &mut Value) {
    loop {
        let text = document.to_string();
        let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
        let before = schemas.len();
        schemas.retain(|name, _| text.contains(&format!("\"#/components/schemas/{name}\"")));
        if schemas.len() == before {
            return;
        }
    }
}
