//! Textual changes of an edited job type for the audit log: every field from its old value to its new one.
//!
//! Secrets are named and never shown, URLs are shown without parts that may be secret, and long documents are only
//! reported as changed.

use std::collections::BTreeSet;

use domain::{Document, JobType, job_type::PushSecrets};
use serde_json::Value;
use url::Url;

use engine::addresses::display_url;

/// Longest value that is shown, in characters.
const LONGEST: usize = 200;

/// Fields set by the server.
const SERVER_MADE: [&str; 4] = ["name", "created_at", "updated_at", "version"];

/// Describes the changes between two states of a type; `None` means that the type does not exist.
pub(super) fn between(before: Option<(&JobType, &PushSecrets)>, after: Option<(&JobType, &PushSecrets)>) -> String {
    let (old, new) = (fields(before.map(|it| it.0)), fields(after.map(|it| it.0)));
    let names: BTreeSet<&String> = old.iter().chain(&new).map(|(name, _)| name).collect();
    let value = |fields: &[(String, String)], name: &str| {
        fields.iter().find(|(field, _)| field == name).map_or_else(|| "none".to_owned(), |(_, value)| value.clone())
    };
    let mut changes: Vec<String> = names
        .into_iter()
        .filter_map(|name| {
            let (from, to) = (value(&old, name), value(&new, name));
            let long = from.chars().count() > LONGEST || to.chars().count() > LONGEST;
            match (from == to, before.is_some(), long) {
                (true, _, _) => None,
                (_, _, true) => Some(format!("{name}: changed")),
                (_, true, _) => Some(format!("{name}: {from} → {to}")),
                (_, false, _) => Some(format!("{name}: {to}")),
            }
        })
        .collect();
    let none = PushSecrets::default();
    let (old, new) = (before.map_or(&none, |it| it.1), after.map_or(&none, |it| it.1));
    for (name, changed) in
        [("auth", old.auth != new.auth), ("headers", old.headers != new.headers), ("secret", old.secret != new.secret)]
    {
        if changed {
            changes.push(format!("executor.{name}: changed"));
        }
    }
    changes.join("; ")
}

/// Fields of a type with their displayed values; fields of objects are listed separately.
fn fields(of: Option<&JobType>) -> Vec<(String, String)> {
    let Some(of) = of else { return Vec::new() };
    let Ok(Value::Object(whole)) = serde_json::from_str(Document::of(of).text()) else { return Vec::new() };
    let mut fields = Vec::new();
    for (name, value) in whole.into_iter().filter(|(name, _)| !SERVER_MADE.contains(&name.as_str())) {
        match value {
            Value::Object(inner) if name != "payload_schema" => {
                fields.extend(inner.into_iter().map(|(field, value)| {
                    let value = match &value {
                        Value::String(url) if field == "url" => {
                            Url::parse(url).map_or_else(|_| "a template".to_owned(), |url| display_url(&url))
                        }
                        other => other.to_string(),
                    };
                    (format!("{name}.{field}"), value)
                }));
            }
            other => fields.push((name, other.to_string())),
        }
    }
    fields
}
