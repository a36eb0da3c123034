//! Corrections for client generators that the macros cannot express.
//!
//! Pages refer to their rows, every list takes `limit` and `cursor`, an optional field has no default that would make
//! it required in a generated type, and a header is never null. The rules depend only on the shape of the document, so
//! a new operation needs nothing here.

use domain::problem::MEDIA_TYPE;
use serde_json::{Value, json};

const SCHEMAS: &str = "#/components/schemas/";

pub(super) fn apply(document: &mut Value) {
    simplify(document);
    schemas(document);
    for (_, operation) in super::operations(document) {
        pages(operation);
        headers(operation);
        body(operation);
    }
}

/// Removes `null` next to [`domain::Document`], which already includes it: with both, `oneOf` would match twice and
/// fail. Describes bytes as binary, not as a JSON array of numbers.
fn simplify(value: &mut Value) {
    const DOCUMENT: &str = "#/components/schemas/Document";
    let bytes = json!({"type": "array", "items": {"type": "integer", "format": "int32", "minimum": 0}});
    if *value == bytes {
        *value = json!({"type": "string", "format": "binary"});
    }
    let document = value["oneOf"].as_array().and_then(|all| all.iter().find(|one| one["$ref"] == DOCUMENT)).cloned();
    if let Some(document) = document {
        *value = document;
    }
    match value {
        Value::Object(fields) => fields.values_mut().for_each(simplify),
        Value::Array(items) => items.iter_mut().for_each(simplify),
        _ => {}
    }
}

fn schemas(document: &mut Value) {
    let Some(schemas) = document["components"]["schemas"].as_object_mut() else { return };
    for (name, schema) in schemas.iter_mut() {
        if let Some(row) = name.strip_prefix("Page_") {
            schema["properties"]["data"]["items"] = json!({"$ref": format!("{SCHEMAS}{row}")});
            schema["description"] = Value::from("One page of a list.");
        }
        if super::bounds::is_request(schema) {
            let properties = schema.get_mut("properties").and_then(Value::as_object_mut);
            properties.into_iter().flatten().for_each(|(_, property)| without_default(property));
        }
    }
    // Fields of a feed rule are described as templates, so that no number of a template is rewritten.
    let template = |description: &str| json!({"description": description});
    schemas.insert(
        "FeedRule".to_owned(),
        json!({
            "type": "object",
            "description": "Rule for how a job receives items from its parent. All fields but `each` are templates: \
                            JSON in which `{\"$from\": \"<JSON Pointer>\"}` is replaced from `{payload, result, \
                            item_id, job_id, element?, index?}`.",
            "additionalProperties": false,
            "properties": {
                "each": {
                    "type": ["string", "null"], "pattern": "^(/([^~/]|~[01])*)*$", "maxLength": 65_536,
                    "description": "JSON Pointer to an array: one item is added for each of its elements"
                },
                "payload": template("Template of the payload; default: payload and result of the parent's item"),
                "dedupe_key": template("Template of a text"),
                "serialize_key": template("Template of a text"),
                "priority": template("Template of a whole number from -100 to 100"),
                "run_after": template("Template of a time")
            }
        }),
    );
    // Body of `PATCH /job-types/{name}`: any of the fields, each with its own bounds.
    if let Some(mut patch) = schemas.get("JobTypeSpec").cloned() {
        let fields = patch.as_object_mut();
        fields.map(|fields| fields.remove("required"));
        patch["description"] = Value::from(
            "Body of `PATCH /job-types/{name}`: the given fields change; `null` is a value where a field allows it. \
             Fields of `backoff` are merged one by one.",
        );
        schemas.insert("JobTypePatch".to_owned(), patch);
    }
}

/// Moves a default into the description, because generators treat a field with a default as required.
fn without_default(property: &mut Value) {
    let Some(fields) = property.as_object_mut() else { return };
    let Some(default) = fields.remove("default").filter(|default| !default.is_null()) else { return };
    let description = fields
        .get("description")
        .and_then(Value::as_str)
        .map(|description| format!("{description} "))
        .unwrap_or_default();
    if !description.to_lowercase().contains("default") {
        fields.insert("description".to_owned(), Value::from(format!("{description}Default: `{default}`.")));
    }
}

/// Adds the two parameters of pages to an operation that returns a page.
fn pages(operation: &mut Value) {
    let page = &operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
    if !page.as_str().is_some_and(|name| name.starts_with("#/components/schemas/Page_")) {
        return;
    }
    if operation["parameters"].is_null() {
        operation["parameters"] = json!([]);
    }
    let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) else { return };
    parameters.retain(|it| it["name"] != "limit" && it["name"] != "cursor");
    // 400 is the response to a cursor of another list, or to an unknown parameter.
    if operation["responses"]["400"].is_null() {
        operation["responses"]["400"] = json!({
            "description": "The request is malformed",
            "content": {MEDIA_TYPE: {"schema": {"$ref": format!("{SCHEMAS}Problem")}}}
        });
    }
    let Some(parameters) = operation.get_mut("parameters").and_then(Value::as_array_mut) else { return };
    parameters.push(json!({
        "name": "limit", "in": "query", "required": false, "description": "Maximum number of rows on the page",
        "schema": {"type": "integer", "format": "int32"}
    }));
    parameters.push(json!({
        "name": "cursor", "in": "query", "required": false,
        "description": "`next_cursor` of the previous page, with the same filters",
        "schema": {"type": "string"}
    }));
}

/// Removes null from header types: a header, like any parameter, is present or absent.
fn headers(operation: &mut Value) {
    for parameter in super::parameters(operation) {
        let Some(types) = parameter.pointer_mut("/schema/type").and_then(Value::as_array_mut) else { continue };
        types.retain(|one| one != "null");
        if let [only] = types.as_slice() {
            parameter["schema"]["type"] = only.clone();
        }
    }
}

/// Marks a nullable body as not required, because it may also be omitted.
fn body(operation: &mut Value) {
    let id = operation["operationId"].as_str().unwrap_or_default().to_owned();
    let Some(content) = operation.pointer_mut("/requestBody/content").and_then(Value::as_object_mut) else { return };
    let mut is_optional = false;
    for media in content.values_mut() {
        let choices = media["schema"]["oneOf"].as_array();
        is_optional |= choices.is_some_and(|all| all.iter().any(|one| one["type"] == "null"));
        if id == "patch_job_type" {
            media["schema"] = json!({"$ref": format!("{SCHEMAS}JobTypePatch")});
        }
        if media["schema"]["type"] == "array" {
            media["schema"]["maxItems"] = Value::from(domain::limits::MOST_ITEMS);
        }
    }
    operation["requestBody"]["required"] = Value::from(!is_optional);
}
