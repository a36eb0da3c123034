//! Forms of waits: a title and a flat list of typed fields, checked when the worker declares them, and the data of an
//! event checked against them (`waiting-for-events`).
//!
//! Smaller than JSON Schema on purpose: each field is drawn as one control, and every answer that fits the form can be
//! typed on the page of the item.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::{Document, limits};

/// Form that a person fills in to end a wait. Without fields, the person only confirms.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct EventForm {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, deserialize_with = "crate::bounded::list")]
    pub fields: Vec<FormField>,
}

/// Form field: a member of the event's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct FormField {
    /// Name of the member, unique in the form.
    pub name: String,
    #[serde(rename = "type")]
    pub field_type: FieldType,
    /// Label on the page; absent: the name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Hint below the field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if an answer is required. A required boolean may be false.
    #[serde(default)]
    pub required: bool,
    /// Possible answers of a field of the type `choice`; not allowed for other types.
    #[serde(default, skip_serializing_if = "Vec::is_empty", deserialize_with = "crate::bounded::list")]
    pub choices: Vec<String>,
}

/// Type of a form field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum FieldType {
    /// One line of text, at most 1,000 characters.
    String,
    /// Text of several lines, at most 65,536 characters.
    Text,
    Number,
    Boolean,
    /// One of `choices`.
    Choice,
}

impl FormField {
    /// Label of the field.
    pub fn label(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

impl EventForm {
    /// Pointers below `pointer` and descriptions of faults.
    pub fn faults(&self, pointer: &str) -> Vec<(String, String)> {
        let mut faults = Vec::new();
        let mut fault = |place: String, expected: &str| faults.push((format!("{pointer}{place}"), expected.to_owned()));
        if serde_json::to_string(self).is_ok_and(|text| text.len() > limits::LARGEST_FORM) {
            fault(String::new(), "expected at most 16384 bytes");
            return faults;
        }
        if !is_title(self.title.as_deref()) {
            fault("/title".to_owned(), "expected 1 to 200 characters");
        }
        if !is_description(self.description.as_deref()) {
            fault("/description".to_owned(), "expected at most 4000 characters");
        }
        if self.fields.len() > limits::MOST_FORM_FIELDS {
            fault("/fields".to_owned(), "expected at most 50 fields");
            return faults;
        }
        let mut names = BTreeSet::new();
        for (at, field) in self.fields.iter().enumerate() {
            let place = |name: &str| format!("/fields/{at}/{name}");
            if !limits::is_text(&field.name, 1, limits::LONGEST_NAME) {
                fault(place("name"), "expected 1 to 100 characters");
            } else if !names.insert(field.name.as_str()) {
                fault(place("name"), "expected a name that no other field has");
            }
            if !is_title(field.title.as_deref()) {
                fault(place("title"), "expected 1 to 200 characters");
            }
            if !is_description(field.description.as_deref()) {
                fault(place("description"), "expected at most 4000 characters");
            }
            if let Some(expected) = choices_fault(field) {
                fault(place("choices"), expected);
            }
        }
        faults
    }

    /// Pointers and descriptions of the places at which an event's data does not fit; `pointer` is that of the data.
    pub fn data_faults(&self, data: &Document, pointer: &str) -> Vec<(String, String)> {
        let Ok(members) = serde_json::from_str::<BTreeMap<String, &RawValue>>(data.text()) else {
            return vec![(pointer.to_owned(), "expected an object with the fields of the form".to_owned())];
        };
        let mut faults = Vec::new();
        for field in &self.fields {
            let value = members.get(&field.name).map(|value| value.get()).filter(|value| *value != "null");
            let fault = match value {
                None => field.required.then_some("expected an answer"),
                Some(value) => value_fault(field, value),
            };
            faults.extend(fault.map(|expected| (at_member(pointer, &field.name), expected.to_owned())));
        }
        let unknown = members.keys().filter(|name| self.fields.iter().all(|field| field.name != **name));
        faults.extend(unknown.map(|name| (at_member(pointer, name), "expected a field of the form".to_owned())));
        faults
    }

    /// Data of an event from the texts that a person typed, by the name of the field; `None`: nothing was sent for it.
    /// A number keeps its digits. An empty optional field is left out. What does not fit is kept as text, so that
    /// [`EventForm::data_faults`] names it.
    pub fn data_of(&self, typed: impl Fn(&str) -> Option<String>) -> Document {
        let mut members: Vec<String> = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            let text = typed(&field.name);
            let value = match field.field_type {
                FieldType::Boolean => text.is_some().to_string(),
                FieldType::Number => match text.as_deref().map(str::trim) {
                    None | Some("") => continue,
                    Some(number) => number_of(number).unwrap_or_else(|| quoted(number)),
                },
                FieldType::String | FieldType::Text | FieldType::Choice => match text {
                    None => continue,
                    Some(text) if text.is_empty() => continue,
                    Some(text) => quoted(&text),
                },
            };
            members.push(format!("{}:{value}", quoted(&field.name)));
        }
        Document::trusted(format!("{{{}}}", members.join(",")))
    }
}

fn is_title(title: Option<&str>) -> bool {
    title.is_none_or(|title| limits::is_text(title, 1, limits::LONGEST_FORM_TITLE))
}

fn is_description(description: Option<&str>) -> bool {
    description.is_none_or(|text| limits::is_text(text, 0, limits::LONGEST_FORM_DESCRIPTION))
}

fn choices_fault(field: &FormField) -> Option<&'static str> {
    if field.field_type != FieldType::Choice {
        return (!field.choices.is_empty()).then_some("expected choices only with the type choice");
    }
    if field.choices.is_empty() || field.choices.len() > limits::MOST_FORM_CHOICES {
        return Some("expected 1 to 100 choices");
    }
    if !field.choices.iter().all(|choice| limits::is_text(choice, 1, limits::LONGEST_FORM_TITLE)) {
        return Some("expected choices of 1 to 200 characters");
    }
    let unique: BTreeSet<&String> = field.choices.iter().collect();
    (unique.len() < field.choices.len()).then_some("expected each choice once")
}

/// Fault of an answer other than null, given as JSON: a number may be one that no type of the language holds.
fn value_fault(field: &FormField, value: &str) -> Option<&'static str> {
    let written: Option<String> = serde_json::from_str(value).ok();
    let text = |most: usize, expected: &'static str| match written.as_deref() {
        Some("") if field.required => Some("expected an answer"),
        Some(text) if limits::is_text(text, 0, most) => None,
        _ => Some(expected),
    };
    match field.field_type {
        FieldType::String => text(limits::LONGEST_FORM_STRING, "expected text of at most 1000 characters"),
        FieldType::Text => text(limits::LONGEST_FORM_TEXT, "expected text of at most 65536 characters"),
        FieldType::Number => (!is_number(value)).then_some("expected a number"),
        FieldType::Boolean => (!matches!(value, "true" | "false")).then_some("expected true or false"),
        FieldType::Choice => {
            let chosen = written.is_some_and(|text| field.choices.contains(&text));
            (!chosen).then_some("expected one of the choices")
        }
    }
}

/// Pointer to a member of an object.
fn at_member(pointer: &str, name: &str) -> String {
    format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"))
}

/// JSON text of a number, exactly as it was typed; `None`: it is none.
fn number_of(text: &str) -> Option<String> {
    let raw: Box<RawValue> = serde_json::from_str(text).ok()?;
    is_number(raw.get()).then(|| raw.get().to_owned())
}

/// True if this JSON value is a number.
fn is_number(json: &str) -> bool {
    json.starts_with(|c: char| c == '-' || c.is_ascii_digit())
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form() -> EventForm {
        let text = r#"{"title": "Approve the invoice?", "fields": [
            {"name": "decision", "type": "choice", "choices": ["approve", "reject"], "required": true},
            {"name": "amount", "type": "number"}, {"name": "by~mail/now", "type": "boolean", "required": true},
            {"name": "note", "type": "text"}, {"name": "who", "type": "string", "title": "Name"}]}"#;
        serde_json::from_str(text).expect("a form")
    }

    fn pointers(faults: Vec<(String, String)>) -> Vec<String> {
        faults.into_iter().map(|fault| fault.0).collect()
    }

    #[test]
    fn declared_form_is_checked() {
        assert_eq!(form().faults("/form"), []);
        assert_eq!(EventForm::default().faults("/form"), []);
        let of = |text: &str| {
            let form: EventForm = serde_json::from_str(text).expect("the shape of a form");
            pointers(form.faults("/form"))
        };
        let twice = r#"{"fields": [{"name": "a", "type": "string"}, {"name": "a", "type": "text"}]}"#;
        assert_eq!(of(twice), ["/form/fields/1/name"]);
        assert_eq!(of(r#"{"fields": [{"name": "", "type": "string"}]}"#), ["/form/fields/0/name"]);
        assert_eq!(of(r#"{"fields": [{"name": "a", "type": "choice"}]}"#), ["/form/fields/0/choices"]);
        assert_eq!(
            of(r#"{"fields": [{"name": "a", "type": "choice", "choices": ["b", "b"]}]}"#),
            ["/form/fields/0/choices"]
        );
        assert_eq!(of(r#"{"fields": [{"name": "a", "type": "text", "choices": ["b"]}]}"#), ["/form/fields/0/choices"]);
        assert_eq!(of(r#"{"title": ""}"#), ["/form/title"]);
        let large = EventForm { description: Some("a".repeat(limits::LARGEST_FORM)), ..EventForm::default() };
        assert_eq!(pointers(large.faults("/form")), ["/form"]);
        for bad in [r#"{"fields": [{"name": "a", "type": "date"}]}"#, r#"{"fields": [{"name": "a"}]}"#, r#"{"x": 1}"#] {
            assert!(serde_json::from_str::<EventForm>(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn event_data_must_fit_the_form() {
        let of = |text: &str| pointers(form().data_faults(&Document::parse(text.to_owned()).expect("JSON"), "/data"));
        assert_eq!(
            of(r#"{"decision": "approve", "by~mail/now": false, "amount": 1e400, "note": null}"#),
            Vec::<String>::new()
        );
        assert_eq!(of("{}"), ["/data/decision", "/data/by~0mail~1now"]);
        assert_eq!(of(r#"{"decision": "maybe", "by~mail/now": "yes"}"#), ["/data/decision", "/data/by~0mail~1now"]);
        assert_eq!(
            of(r#"{"decision": "reject", "by~mail/now": true, "amount": "1", "more": 1}"#),
            ["/data/amount", "/data/more"]
        );
        assert_eq!(of("[]"), ["/data"]);
        assert_eq!(of("null"), ["/data"]);
    }

    #[test]
    fn typed_answers_become_data() {
        let typed = |name: &str| match name {
            "decision" => Some("approve".to_owned()),
            "amount" => Some(" 12.50 ".to_owned()),
            "by~mail/now" => Some("yes".to_owned()),
            "note" => Some(String::new()),
            _ => None,
        };
        let data = form().data_of(typed);
        assert_eq!(data.text(), r#"{"decision":"approve","amount":12.50,"by~mail/now":true}"#);
        assert_eq!(form().data_faults(&data, "/data"), []);
        let data = form().data_of(|name| (name == "amount").then(|| "ten".to_owned()));
        assert_eq!(data.text(), r#"{"amount":"ten","by~mail/now":false}"#);
        assert_eq!(pointers(form().data_faults(&data, "/data")), ["/data/decision", "/data/amount"]);
    }
}
