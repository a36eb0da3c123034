//! Rules for the whole document that every new operation must follow: bounds, pages, names, examples.
//!
//! If an operation or a field lacks something, the test names the missing entry and its place. Other tests compare a
//! running server with the document (`server/tests/it/openapi.rs`, `cargo xtask hostile`).

use serde_json::{Map, Value, json};

use super::{bounds, examples, names};

fn document() -> Value {
    serde_json::from_str(crate::http::openapi_document(false)).expect("JSON")
}

/// Operations of a document, with their paths.
fn operations(document: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| item.as_object().into_iter().flatten().map(move |(_, one)| (path.as_str(), one)))
}

#[test]
fn request_schemas_are_bounded() {
    let found = unbounded(&document());
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn every_operation_and_parameter_is_described() {
    let document = document();
    for (path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().expect("an id");
        let is_described = operation["description"].as_str().is_some_and(|text| !text.is_empty());
        assert!(
            is_described,
            "{path} ({id}): the doc comment of the handler is one line; add a blank line and a description"
        );
    }
}

#[test]
fn every_operation_is_refused_somehow() {
    // These have no parameters and need no credential.
    const OPEN: [&str; 3] = ["describe_resumable_uploads", "get_health", "get_readiness"];
    let document = document();
    for (path, operation) in operations(&document) {
        let id = operation["operationId"].as_str().expect("an id");
        let refused = operation["responses"].as_object().is_some_and(|all| all.keys().any(|key| key.starts_with('4')));
        assert!(refused || OPEN.contains(&id), "{path} ({id}) says nothing of a refusal");
    }
}

#[test]
fn every_operation_says_how_it_is_refused_under_load() {
    for is_older in [false, true] {
        let document: Value = serde_json::from_str(crate::http::openapi_document(is_older)).expect("JSON");
        let mut uploads = 0;
        for (path, operation) in operations(&document) {
            for (status, code) in [("429", "too_many_requests"), ("503", "busy")] {
                let answer = &operation["responses"][status];
                let description = answer["description"].as_str().unwrap_or_default();
                assert!(
                    description.contains(&format!("`{code}`")),
                    "{path}: {status} does not name the code {code}: {description}"
                );
                assert_eq!(answer["headers"]["Retry-After"]["schema"]["type"], "integer", "{path} {status}");
                let schema = &answer["content"][domain::problem::MEDIA_TYPE]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{path} {status}");
            }
            let description = operation["responses"]["507"]["description"].as_str();
            if description.is_some_and(|description| description.contains("`insufficient_storage`")) {
                uploads += 1;
            }
        }
        // A file, the creation of a resumable one, and its pieces, which the 3.0 document omits.
        assert_eq!(uploads, if is_older { 2 } else { 3 });
    }
}

#[test]
fn an_email_address_is_the_same_to_the_document_and_the_server() {
    let document = document();
    let schema = &document["components"]["schemas"]["NewUser"]["properties"]["email"];
    assert_eq!(schema["format"], "email");
    let schema = jsonschema::options().should_validate_formats(true).build(schema).expect("a schema");
    for address in [
        "ada@example.com",
        "o'hara+jobs@xn--exmple-cua.de",
        "ünal@example.de",
        "ada@exämple.de",
        "a b@c.de",
        "a@.b",
        "a@b.",
        "a@b_c",
        "a@-b.de",
        "a@b@c.de",
    ] {
        let is_taken = domain::identity::account::email_problem(address).is_none();
        assert_eq!(schema.is_valid(&json!(address)), is_taken, "{address}");
    }
}

#[test]
fn every_list_can_be_paged() {
    let document = document();
    let mut lists = 0;
    for (path, operation) in operations(&document) {
        let page = &operation["responses"]["200"]["content"]["application/json"]["schema"]["$ref"];
        if !page.as_str().is_some_and(|name| name.ends_with("Page")) {
            continue;
        }
        lists += 1;
        let named = |name: &str| {
            operation["parameters"].as_array().is_some_and(|all| all.iter().any(|one| one["name"] == name))
        };
        assert!(named("limit") && named("cursor"), "{path} answers with a page and takes no limit or cursor");
    }
    assert!(lists >= 15, "{lists}");
    let row = &document["components"]["schemas"]["JobPage"]["properties"]["data"]["items"]["$ref"];
    assert_eq!(row, "#/components/schemas/Job");
}

#[test]
fn optional_fields_have_no_default() {
    let document = document();
    for (name, schema) in document["components"]["schemas"].as_object().expect("schemas") {
        for (field, of) in schema["properties"].as_object().into_iter().flatten() {
            assert!(of.get("default").is_none(), "{name}.{field}: a generated client would demand it");
        }
    }
    for (path, operation) in operations(&document) {
        for parameter in operation["parameters"].as_array().into_iter().flatten() {
            assert!(
                !parameter["schema"]["type"].is_array(),
                "{path}: the parameter {} is never null",
                parameter["name"]
            );
        }
    }
}

#[test]
fn names_hide_nothing_of_a_browser() {
    const TAKEN: [&str; 14] = [
        "Date",
        "Document",
        "Element",
        "Error",
        "Event",
        "File",
        "Headers",
        "Notification",
        "Option",
        "Request",
        "Response",
        "Result",
        "Session",
        "Worker",
    ];
    let document = document();
    for name in document["components"]["schemas"].as_object().expect("schemas").keys() {
        assert!(!TAKEN.contains(&name.as_str()), "{name} is taken: add another name to openapi/names.rs");
        assert!(!name.contains('_'), "{name}: add a name to openapi/names.rs");
    }
}

#[test]
fn examples_are_what_their_schemas_describe() {
    let document = document();
    let mut read = 0;
    for (path, operation) in operations(&document) {
        let bodies = operation["responses"].as_object().into_iter().flatten().map(|(_, answer)| answer);
        for body in bodies.chain(operation.get("requestBody")) {
            let media = &body["content"]["application/json"];
            if let Some(example) = media.get("example") {
                let schema = json!({"allOf": [media["schema"]], "components": document["components"]});
                let schema = jsonschema::validator_for(&schema).expect("a schema");
                let faults: Vec<String> = schema.iter_errors(example).map(|fault| fault.to_string()).collect();
                assert!(faults.is_empty(), "{path}: {faults:?}");
                read += 1;
            }
        }
    }
    assert_eq!(read, examples::all().len(), "an example names an operation or a status that is not there");
}

#[test]
fn the_older_document_has_the_older_words_only() {
    let older: Value = serde_json::from_str(crate::http::openapi_document(true)).expect("JSON");
    assert_eq!(older["openapi"], "3.0.3");
    let mut faults = Vec::new();
    newer_words(&older["components"]["schemas"], "", &mut faults);
    newer_words(&older["paths"], "", &mut faults);
    assert!(faults.is_empty(), "{faults:?}");
    for (path, operation) in operations(&older) {
        let bodies = operation["responses"].as_object().into_iter().flatten().map(|(_, answer)| answer);
        for body in bodies.chain(operation.get("requestBody")) {
            assert!(body["content"].as_object().is_none_or(|all| all.len() == 1), "{path} has several media types");
        }
    }
}

/// Collects the places of a schema that use keywords of 3.1.
fn newer_words(value: &Value, place: &str, faults: &mut Vec<String>) {
    if let Some(fields) = value.as_object() {
        let is_schema = !place.ends_with("/properties");
        for (name, inner) in fields {
            let newer = is_schema
                && (matches!(name.as_str(), "const" | "examples" | "contentMediaType")
                    || (name == "type" && inner.is_array())
                    || (name == "exclusiveMinimum" && inner.is_number()));
            if newer {
                faults.push(format!("{place}/{name}"));
            }
            if name != "example" {
                newer_words(inner, &format!("{place}/{name}"), faults);
            }
        }
    } else if let Some(items) = value.as_array() {
        for inner in items {
            newer_words(inner, place, faults);
        }
    }
}

/// Request parts without bounds in the document, each with the fix.
fn unbounded(document: &Value) -> Vec<String> {
    const FILE: &str = "server/src/http/openapi/bounds.rs";
    let mut found = Vec::new();
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        if bounds::is_request(schema) {
            for (property, of) in schema["properties"].as_object().into_iter().flatten() {
                for lack in lacks(of) {
                    found.push(format!("{name}.{property}: {lack}; add a row to `field` in {FILE}"));
                }
            }
        }
    }
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for operation in item.as_object().into_iter().flatten().map(|(_, operation)| operation) {
            let id = operation["operationId"].as_str().unwrap_or_default();
            for one in operation["parameters"].as_array().into_iter().flatten() {
                let name = one["name"].as_str().unwrap_or_default();
                let is_known = bounds::parameter(names::function_of(id), name).is_some();
                for lack in lacks(&one["schema"]).into_iter().filter(|_| !is_known) {
                    found.push(format!("{path} ({id}), parameter {name}: {lack}; add a row to `parameter` in {FILE}"));
                }
            }
        }
    }
    found
}

/// Constraints that a schema lacks.
fn lacks(schema: &Value) -> Vec<&'static str> {
    let Some(keywords) = schema.as_object() else { return Vec::new() };
    let has_keyword = |all: &[&str]| all.iter().any(|keyword| keywords.contains_key(*keyword));
    let is = |kind: &str| of_type(keywords, kind);
    let mut lacks = Vec::new();
    if is("string") && !has_keyword(&["enum", "const", "format", "pattern", "maxLength"]) {
        lacks.push("text without a bound (maxLength, pattern, enum or format)");
    }
    let has_both = has_keyword(&["minimum", "exclusiveMinimum"]) && has_keyword(&["maximum", "exclusiveMaximum"]);
    if (is("integer") || is("number")) && !has_keyword(&["enum", "const"]) && !has_both {
        lacks.push("a number without minimum and maximum");
    }
    if is("array") {
        if !has_keyword(&["maxItems"]) {
            lacks.push("a list without maxItems");
        }
        lacks.extend(self::lacks(&schema["items"]));
    }
    lacks
}

fn of_type(keywords: &Map<String, Value>, kind: &str) -> bool {
    match keywords.get("type") {
        Some(Value::Array(types)) => types.iter().any(|one| one == kind),
        Some(one) => one == kind,
        None => false,
    }
}
