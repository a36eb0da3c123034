//! Forms: payloads typed into fields, and requests of the API reference.

use std::collections::BTreeMap;

use app::pages::{
    api_reference::{Body, Operation, Parameter, Place, Try, field_name},
    start_job::PayloadField,
};
use domain::{
    Document,
    document::{
        canonical::canonical,
        pointer::{find, members},
    },
};
use server::{http::ui::reference::api_reference::request_of, payload_form};

/// Payload schema in the first line; the rest is typed into every field of its form, and is a payload for the form.
pub fn start_form(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (schema, typed) = text.split_once('\n').unwrap_or((text, ""));
    let Ok(schema) = Document::parse(schema.to_owned()) else { return };
    let fields = payload_form::fields_of_schema(schema.text());
    comes_back(&fields, &payload_form::payload(&fields, &payload_form::initial(&fields)).0);
    let texts: BTreeMap<String, String> = fields.iter().map(|field| (field.name.clone(), typed.to_owned())).collect();
    let (payload, faults) = payload_form::payload(&fields, &texts);
    let places: Vec<String> =
        fields.iter().map(|field| format!("/{}", field.name.replace('~', "~0").replace('/', "~1"))).collect();
    for (pointer, _) in faults {
        assert!(places.contains(&pointer), "refused at {pointer}, which is no field");
    }
    let names = members(payload.text()).unwrap_or_else(|| panic!("no object: {}", payload.text()));
    assert!(names.iter().all(|(name, _)| fields.iter().any(|field| field.name == *name)), "{}", payload.text());
    comes_back(&fields, &payload);
    if let Ok(payload) = Document::parse(typed.to_owned()) {
        comes_back(&fields, &payload);
    }
}

/// Fields give back the part of a payload that they show.
fn comes_back(fields: &[PayloadField], payload: &Document) {
    let Ok(texts) = payload_form::values(fields, payload) else { return };
    let (again, faults) = payload_form::payload(fields, &texts);
    assert!(faults.is_empty(), "{faults:?} in texts of {}", payload.text());
    for (name, value) in members(payload.text()).into_iter().flatten() {
        let found = find(again.text(), std::slice::from_ref(&name)).map(canonical);
        assert_eq!(found, Some(canonical(value)), "{name}");
    }
}

/// Form of an operation: the first line is an id in the path, the second a parameter, the third a header, the rest the body.
pub fn api_request(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let typed: Vec<&str> = text.splitn(4, '\n').collect();
    let places = [("id", Place::Path), ("reason", Place::Query), ("If-Match", Place::Header)];
    let parameters = places.map(|(name, place)| Parameter { name: name.to_owned(), place, ..Parameter::default() });
    let values = parameters.iter().zip(&typed).map(|(it, value)| (field_name(it), (*value).to_owned())).collect();
    let operation = Operation {
        method: "POST".to_owned(),
        path: "/api/v1/jobs/{id}/cancel".to_owned(),
        parameters: parameters.into(),
        bodies: vec![Body { media_type: "application/json".to_owned(), ..Body::default() }],
        ..Operation::default()
    };
    let tried = Try { values, body: typed.get(3).map(|body| (*body).to_owned()), ..Try::default() };
    let Ok(request) = request_of(&operation, &tried) else { return };
    let id = typed.first().copied().unwrap_or_default();
    let target = request.target();
    let path = target.split('?').next().unwrap_or_default();
    let segments: Vec<&str> = path.split('/').collect();
    assert_eq!(segments.len(), 6, "{target}");
    assert_eq!((&segments[..4], segments[5]), (&["", "api", "v1", "jobs"][..], "cancel"), "{target}");
    assert!(id.is_empty() || (!segments[4].is_empty() && segments[4] != "." && segments[4] != ".."), "{target}");
    assert!(target.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#' && byte != b'\\'), "{target}");
    assert!(request.headers.iter().all(|(_, value)| !value.contains(['\r', '\n', '\0'])), "{:?}", request.headers);
}
