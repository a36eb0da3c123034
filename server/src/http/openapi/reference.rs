//! The description as data for the pages of the API reference.
//!
//! Nested objects become lines with the path of each field; schemas that refer to themselves end at the second time.

use std::collections::BTreeSet;

use app::pages::api_reference::{Answer, Body, BodyField, Group, Operation, Parameter, Place, Reference};
use domain::Document;
use serde_json::{Map, Value, json};

/// Maximum depth, and number, of the fields of a body.
const DEEPEST: usize = 4;
const MOST_FIELDS: usize = 200;

/// Why a form cannot send an operation; `None` if it can.
fn not_here(method: &str, path: &str, bodies: &[Body]) -> Option<&'static str> {
    let is_safe = method == "get";
    match path.strip_prefix("/api/v1").unwrap_or(path) {
        path if is_safe && path.ends_with("/events") => {
            Some("This is a stream of events, which a page cannot show. Use one of the programs below.")
        }
        path if path.starts_with("/assignments") => {
            Some("Workers send this, with a token that has the permission work. People may not.")
        }
        path if path.starts_with("/session") => Some("Signing in and out has pages of its own."),
        path if OWN_ACCOUNT.iter().any(|part| path.starts_with(part)) && !is_safe => {
            Some("Your password, sessions, and second factors are changed on the page Account.")
        }
        _ if method == "options" => Some("Programs send this by themselves."),
        "/uploads" => Some("The body is a file. Use one of the programs below, or Imports."),
        _ if !bodies.is_empty() && bodies.iter().all(|body| body.media_type != "application/json") => {
            Some("The body is not JSON, which this form sends. Use a program.")
        }
        _ => None,
    }
}

/// Credentials of the caller. Forms of the page Account change them.
const OWN_ACCOUNT: [&str; 7] = [
    "/me/connections",
    "/me/passkeys",
    "/me/password",
    "/me/recovery-codes",
    "/me/sessions",
    "/me/step-up",
    "/me/totp",
];

/// Beginnings of the names of operations that end or stop something, give or take access, choose where data is sent, or
/// change many things at once.
const DANGEROUS: [&str; 22] = [
    "cancel_",
    "create_alert_channel",
    "create_bulk",
    "create_job_type",
    "create_schedule",
    "create_service",
    "create_sign_in_link",
    "create_token",
    "create_user",
    "delete_",
    "end_user_session",
    "patch_alert_channel",
    "patch_job_type",
    "patch_notice_settings",
    "patch_schedule",
    "patch_service",
    "patch_user",
    "pause_",
    "put_job_type",
    "replay_",
    "reset_factors",
    "share_",
];

fn is_dangerous(method: &str, id: &str) -> bool {
    method == "delete" || DANGEROUS.iter().any(|beginning| id.starts_with(beginning))
}

/// Builds the reference of a finished document.
pub(super) fn of(document: &Value) -> Reference {
    let schemas = Schemas(&document["components"]["schemas"]);
    let mut groups: Vec<Group> = document["tags"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|tag| Group { name: text(&tag["name"]), description: text(&tag["description"]), operations: Vec::new() })
        .collect();
    for (path, item) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in item.as_object().into_iter().flatten() {
            let name = text(&operation["tags"][0]);
            let group = groups.iter_mut().find(|group| group.name == name);
            if let Some(group) = group.filter(|_| operation["responses"].is_object()) {
                group.operations.push(operation_of(&schemas, path, method, operation));
            }
        }
    }
    groups.retain(|group| !group.operations.is_empty());
    Reference { introduction: text(&document["info"]["description"]), groups }
}

fn operation_of(schemas: &Schemas, path: &str, method: &str, operation: &Value) -> Operation {
    let parameters = operation["parameters"].as_array().into_iter().flatten();
    let responses = operation["responses"].as_object().into_iter().flatten();
    let bodies = schemas.bodies(&operation["requestBody"]["content"]);
    Operation {
        dangerous: is_dangerous(method, operation["operationId"].as_str().unwrap_or_default()),
        id: text(&operation["operationId"]),
        method: method.to_uppercase(),
        path: path.to_owned(),
        summary: text(&operation["summary"]),
        description: text(&operation["description"]),
        parameters: parameters.filter_map(|it| parameter(schemas, it)).collect(),
        responses: responses.map(|(status, it)| answer(schemas, status, it)).collect(),
        not_here: not_here(method, path, &bodies),
        bodies,
    }
}

fn parameter(schemas: &Schemas, parameter: &Value) -> Option<Parameter> {
    let place = match parameter["in"].as_str()? {
        "path" => Place::Path,
        "query" => Place::Query,
        "header" => Place::Header,
        _ => return None,
    };
    let schema = schemas.follow(&parameter["schema"]);
    let listed = schema["enum"].as_array().cloned().unwrap_or_else(|| {
        let is_boolean = schema["type"] == "boolean" || schema["type"] == json!(["boolean", "null"]);
        if is_boolean { vec![json!("true"), json!("false")] } else { Vec::new() }
    });
    Some(Parameter {
        name: text(&parameter["name"]),
        place,
        shape: schemas.shape(&parameter["schema"]),
        pattern: schema["pattern"].as_str().map(str::to_owned),
        required: parameter["required"] == true || place == Place::Path,
        description: text(&parameter["description"]),
        choices: listed.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
    })
}

fn answer(schemas: &Schemas, status: &str, answer: &Value) -> Answer {
    Answer {
        status: status.to_owned(),
        description: text(&answer["description"]),
        bodies: schemas.bodies(&answer["content"]),
    }
}

/// Schemas that a document names.
struct Schemas<'a>(&'a Value);

impl Schemas<'_> {
    fn follow<'v>(&'v self, mut schema: &'v Value) -> &'v Value {
        for _ in 0..8 {
            match Self::name(schema).map(|name| &self.0[name]) {
                Some(target) => schema = target,
                None => break,
            }
        }
        schema
    }

    fn name(schema: &Value) -> Option<&str> {
        schema["$ref"].as_str()?.rsplit('/').next()
    }

    fn bodies(&self, content: &Value) -> Vec<Body> {
        let body = |(media_type, content): (&String, &Value)| {
            let schema = &content["schema"];
            let mut fields = Vec::new();
            self.fields(schema, "", 0, &mut BTreeSet::new(), &mut fields);
            let example = match &content["example"] {
                Value::Null if media_type == "application/json" => Some(self.sample(schema, 0)),
                Value::Null => None,
                given => Some(given.clone()),
            };
            Body {
                media_type: media_type.clone(),
                shape: self.shape(schema),
                fields,
                example: example.filter(|example| !example.is_null()).map(|example| Document::of(&example)),
            }
        };
        content.as_object().into_iter().flatten().map(body).collect()
    }

    /// Adds the fields of a schema, and of the objects in them.
    fn fields(
        &self,
        schema: &Value,
        above: &str,
        depth: usize,
        seen: &mut BTreeSet<String>,
        fields: &mut Vec<BodyField>,
    ) {
        let name = Self::name(schema).map(str::to_owned);
        if depth > DEEPEST || fields.len() >= MOST_FIELDS || name.as_ref().is_some_and(|name| seen.contains(name)) {
            return;
        }
        seen.extend(name.clone());
        let schema = self.follow(schema);
        for part in ["allOf", "oneOf", "anyOf"].iter().flat_map(|of| schema[*of].as_array().into_iter().flatten()) {
            self.fields(part, above, depth, seen, fields);
        }
        if !schema["items"].is_null() {
            self.fields(&schema["items"], &format!("{above}[]"), depth, seen, fields);
        }
        let is_required = |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|it| it == name));
        let mut properties: Vec<(&String, &Value)> = schema["properties"].as_object().into_iter().flatten().collect();
        properties.sort_by_key(|(name, _)| !is_required(name));
        for (field, of) in properties {
            let path = if above.is_empty() { field.clone() } else { format!("{above}.{field}") };
            let required = is_required(field);
            let described = if of["description"].is_null() { self.follow(of) } else { of };
            fields.push(BodyField {
                path: path.clone(),
                shape: self.shape(of),
                pattern: self.follow(of)["pattern"].as_str().map(str::to_owned),
                required,
                description: text(&described["description"]),
            });
            self.fields(of, &path, depth + 1, seen, fields);
        }
        if let Some(name) = name {
            seen.remove(&name);
        }
    }

    /// Short description of a schema.
    fn shape(&self, schema: &Value) -> String {
        self.shape_at(schema, 0)
    }

    fn shape_at(&self, schema: &Value, depth: usize) -> String {
        let target = self.follow(schema);
        let name = Self::name(schema).map(str::to_owned);
        if let Some(name) = name.filter(|_| target["properties"].is_object() || depth > DEEPEST) {
            return name;
        }
        let choices = ["oneOf", "anyOf"].iter().find_map(|of| target[*of].as_array());
        if let Some(choices) = choices {
            let choices: Vec<String> = choices.iter().map(|choice| self.shape_at(choice, depth + 1)).collect();
            return choices.join(" or ");
        }
        if let Some(words) = target["enum"].as_array() {
            let word = |word: &Value| word.as_str().map_or_else(|| word.to_string(), str::to_owned);
            return words.iter().map(word).collect::<Vec<_>>().join(" | ");
        }
        let kind = match &target["type"] {
            Value::Array(kinds) => kinds.iter().map(text).collect::<Vec<_>>().join(" or "),
            kind => text(kind),
        };
        if kind.starts_with("array") {
            let elements = format!("array of {}", self.shape_at(&target["items"], depth + 1));
            return kind.replacen("array", &elements, 1) + &limits(target);
        }
        match target["format"].as_str() {
            // The width of a number says less than its bounds.
            Some(format) if !format.starts_with("int") => format!("{kind} ({format}){}", limits(target)),
            _ if kind.is_empty() => "any".to_owned(),
            _ => kind + &limits(target),
        }
    }

    /// A value that a schema allows: of an object, what is required.
    fn sample(&self, schema: &Value, depth: usize) -> Value {
        let schema = self.follow(schema);
        for given in [&schema["example"], &schema["default"], &schema["const"], &schema["enum"][0]] {
            if !given.is_null() {
                return given.clone();
            }
        }
        if depth > DEEPEST {
            return Value::Null;
        }
        if let Some(first) = ["oneOf", "anyOf", "allOf"]
            .iter()
            .find_map(|of| schema[*of].as_array()?.iter().find(|it| it["type"] != "null"))
        {
            return self.sample(first, depth + 1);
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).find(|kind| *kind != "null"),
            kind => kind.as_str(),
        };
        match (kind, schema["format"].as_str()) {
            (Some("object"), _) => {
                let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
                let members =
                    required.map(|name| (name.to_owned(), self.sample(&schema["properties"][name], depth + 1)));
                Value::Object(members.collect::<Map<_, _>>())
            }
            (Some("array"), _) => json!([self.sample(&schema["items"], depth + 1)]),
            (Some("boolean"), _) => json!(true),
            (Some("integer" | "number"), _) => {
                let least = &schema["minimum"];
                if least.as_f64().is_some_and(|least| least > 1.0) { least.clone() } else { json!(1) }
            }
            (Some("string"), Some("uuid")) => json!("0190a5e0-0000-7000-8000-000000000000"),
            (Some("string"), Some("date-time")) => json!("2026-12-01T12:00:00Z"),
            (Some("string"), Some("uri")) => json!("https://example.com/"),
            (Some("string"), _) => json!("text"),
            _ => Value::Null,
        }
    }
}

/// Bounds of a schema, in words.
fn limits(schema: &Value) -> String {
    let bounds =
        [("minimum", "maximum", ""), ("minLength", "maxLength", " characters"), ("minItems", "maxItems", " elements")];
    let bounds = bounds.into_iter().filter_map(|(least, most, unit)| {
        let (least, most) = (&schema[least], &schema[most]);
        match (least.is_number() && *least != 0 || *least == 0 && unit.is_empty(), most.is_number()) {
            (true, true) if least == most => Some(format!(", {least}{unit}")),
            (true, true) => Some(format!(", {least} to {most}{unit}")),
            (true, false) => Some(format!(", at least {least}{unit}")),
            (false, true) => Some(format!(", at most {most}{unit}")),
            (false, false) => None,
        }
    });
    bounds.collect()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_and_samples_end_where_a_schema_refers_to_itself() {
        let schemas = json!({
            "Tree": {"type": "object", "required": ["name", "parts"], "properties": {
                "name": {"type": "string", "maxLength": 9}, "size": {"type": "integer", "minimum": 2, "maximum": 5},
                "kind": {"$ref": "#/components/schemas/Kind"},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/Tree"}}}},
            "Kind": {"type": "string", "enum": ["oak", "fir"]},
        });
        let schemas = Schemas(&schemas);
        let tree = json!({"$ref": "#/components/schemas/Tree"});
        let mut fields = Vec::new();
        schemas.fields(&tree, "", 0, &mut BTreeSet::new(), &mut fields);
        let found: Vec<_> =
            fields.iter().map(|field| (field.path.as_str(), field.shape.as_str(), field.required)).collect();
        let expected = [
            ("name", "string, at most 9 characters", true),
            ("parts", "array of Tree", true),
            ("kind", "oak | fir", false),
            ("size", "integer, 2 to 5", false),
        ];
        assert_eq!(found, expected);
        assert_eq!(schemas.sample(&tree, 0)["name"], "text");
        assert_eq!(
            schemas.shape(&json!({"oneOf": [{"type": "null"}, {"$ref": "#/components/schemas/Kind"}]})),
            "null or oak | fir"
        );
    }
}
