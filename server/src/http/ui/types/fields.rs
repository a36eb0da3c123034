//! Settings of a job type from the fields of its form, as the body of a PATCH.
//!
//! A group of fields that the form does not have is left alone. Numbers are passed on as typed, so that the API judges
//! them; what is no JSON at all is reported here, at its field.

use std::collections::BTreeMap;

use app::pages::types::UNITS;
use domain::{
    Document, JobType, Problem,
    import::settings::{ImportSettings, ImportTemplate, ROLES},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::RawValue;

use super::super::form::Fields;
use crate::job_types;
use engine::error::{Error, Result};

/// JSON of a setting that is empty.
const NOTHING: &str = "null";

/// Settings in the form. `current` is the type that it changes.
pub(super) fn settings(fields: &Fields, current: Option<&JobType>) -> Result<job_types::Fields> {
    let mut form = Form { fields, faults: Vec::new(), settings: BTreeMap::new() };
    form.executor();
    form.limits();
    form.retries();
    form.data(current);
    form.import(current);
    if current.is_none() {
        form.set("paused", fields.ticked("paused").to_string());
    }
    if !form.faults.is_empty() {
        return Err(Problem::invalid_body(form.faults).into());
    }
    let raw = |(name, text): (&str, String)| {
        let value = RawValue::from_string(text).map_err(|error| Error::Broken(error.to_string()))?;
        Ok((name.to_owned(), value))
    };
    form.settings.into_iter().map(raw).collect()
}

struct Form<'a> {
    fields: &'a Fields,
    /// JSON Pointer of a setting, and expectation.
    faults: Vec<(String, String)>,
    /// Settings as JSON text.
    settings: BTreeMap<&'static str, String>,
}

impl Form<'_> {
    fn has(&self, name: &str) -> bool {
        self.fields.has(name)
    }

    fn set(&mut self, name: &'static str, json: String) {
        self.settings.insert(name, json);
    }

    fn fault(&mut self, pointer: &str, expected: impl Into<String>) {
        self.faults.push((pointer.to_owned(), expected.into()));
    }

    /// Number as typed; `null` if there is none.
    fn number(&mut self, name: &str, pointer: &str, optional: bool) -> String {
        let typed = self.fields.given(name);
        if typed.is_none() && optional {
            return NOTHING.to_owned();
        }
        let number = typed.filter(|typed| typed.starts_with(|c: char| c.is_ascii_digit() || c == '-'));
        if let Some(read) = number.and_then(|typed| Document::parse(typed.to_owned()).ok()) {
            return read.text().to_owned();
        }
        self.fault(pointer, if optional { "expected a number, or nothing" } else { "expected a number" });
        NOTHING.to_owned()
    }

    /// Text as JSON; `null` if there is none.
    fn text(&self, name: &str) -> String {
        self.fields.given(name).map_or_else(|| NOTHING.to_owned(), quoted)
    }

    fn executor(&mut self) {
        if !self.has("kind") {
            return;
        }
        let kind = self.fields.trimmed("kind");
        let mut members = vec![format!("\"kind\":{}", quoted(&kind))];
        match kind.as_str() {
            "builtin" => members.push(format!("\"name\":{}", self.text("builtin"))),
            "push" => {
                members.push(format!("\"url\":{}", self.text("url")));
                members.push(format!(
                    "\"timeout_seconds\":{}",
                    self.number("timeout_seconds", "/executor/timeout_seconds", true)
                ));
                self.secrets(&mut members);
            }
            _ => {}
        }
        self.set("executor", format!("{{{}}}", members.join(",")));
        let heartbeat = self.number("heartbeat_seconds", "/heartbeat_seconds", false);
        self.set("heartbeat_seconds", heartbeat);
        let run = self.number("run_timeout_seconds", "/run_timeout_seconds", true);
        self.set("run_timeout_seconds", run);
    }

    /// Secrets: what is left empty stays, what is to be removed is `null`.
    fn secrets(&mut self, members: &mut Vec<String>) {
        let (user, password) = (self.fields.given("auth_user"), self.fields.text("auth_password"));
        if user.is_some() || !password.is_empty() {
            let user = quoted(user.unwrap_or_default());
            members.push(format!("\"auth\":{{\"user\":{user},\"password\":{}}}", quoted(password)));
        } else if self.fields.ticked("forget_auth") {
            members.push("\"auth\":null".to_owned());
        }
        if let Some(headers) = self.headers() {
            members.push(format!("\"headers\":{}", Document::of(&headers).text()));
        } else if self.fields.ticked("forget_headers") {
            members.push("\"headers\":null".to_owned());
        }
        match (self.fields.given("secret"), self.fields.given("secret_before")) {
            (Some(secret), Some(before)) => {
                members.push(format!("\"secret\":[{},{}]", quoted(secret), quoted(before)));
            }
            (Some(secret), None) => members.push(format!("\"secret\":{}", quoted(secret))),
            (None, Some(_)) => self.fault("/executor/secret", "expected the secret that follows the earlier one"),
            (None, None) if self.fields.ticked("forget_secret") => members.push("\"secret\":null".to_owned()),
            (None, None) => {}
        }
    }

    /// Headers, one on each line.
    fn headers(&mut self) -> Option<BTreeMap<String, String>> {
        let typed = self.fields.lines("headers").filter(|typed| !typed.trim().is_empty())?;
        let mut headers = BTreeMap::new();
        for (place, line) in typed.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let number = place + 1;
            let Some((name, value)) = line.split_once(':') else {
                self.fault("/executor/headers", format!("line {number}: expected a name, a colon, and a value"));
                continue;
            };
            if headers.insert(name.trim().to_owned(), value.trim().to_owned()).is_some() {
                self.fault("/executor/headers", format!("line {number}: expected each header once"));
            }
        }
        Some(headers)
    }

    fn limits(&mut self) {
        if self.has("concurrency") {
            let concurrency = self.number("concurrency", "/concurrency", true);
            self.set("concurrency", concurrency);
        }
        if self.has("rate_count") {
            let given = ["rate_count", "rate_seconds", "rate_burst", "rate_key"];
            let rate = if given.iter().any(|name| self.fields.given(name).is_some()) {
                let count = self.number("rate_count", "/rate_limit/count", false);
                let within = self.number("rate_seconds", "/rate_limit/per_seconds", false);
                let burst = self.number("rate_burst", "/rate_limit/burst", true);
                let key = self.text("rate_key");
                format!(r#"{{"count":{count},"per_seconds":{within},"burst":{burst},"key":{key}}}"#)
            } else {
                NOTHING.to_owned()
            };
            self.set("rate_limit", rate);
        }
        if self.has("key_limit") {
            let given = ["key_limit", "key_limit_key"].iter().any(|name| self.fields.given(name).is_some());
            let limit = if given {
                let limit = self.number("key_limit", "/concurrency_by/limit", false);
                format!(
                    r#"{{"key":{},"limit":{limit}}}"#,
                    quoted(self.fields.given("key_limit_key").unwrap_or_default())
                )
            } else {
                NOTHING.to_owned()
            };
            self.set("concurrency_by", limit);
        }
        if self.has("fair_by") {
            let fair_by = self.text("fair_by");
            self.set("fair_by", fair_by);
        }
    }

    fn retries(&mut self) {
        if self.has("delivery") {
            let delivery = quoted(&self.fields.trimmed("delivery"));
            self.set("delivery", delivery);
            let most = match self.fields.given("max_failures") {
                None => quoted("unlimited"),
                Some(_) => self.number("max_failures", "/max_failures", true),
            };
            self.set("max_failures", most);
        }
        if self.has("min_seconds") {
            let backoff = format!(
                r#"{{"min_seconds":{},"max_seconds":{},"factor":{},"jitter":{}}}"#,
                self.number("min_seconds", "/backoff/min_seconds", false),
                self.number("max_seconds", "/backoff/max_seconds", true),
                self.number("factor", "/backoff/factor", false),
                self.fields.ticked("jitter"),
            );
            self.set("backoff", backoff);
        }
    }

    fn data(&mut self, current: Option<&JobType>) {
        if !self.has("steps") {
            return;
        }
        let steps = self.fields.trimmed("steps");
        let steps: Vec<&str> = steps.split(',').map(str::trim).filter(|step| !step.is_empty()).collect();
        self.set("steps", Document::of(&steps).text().to_owned());
        let required = self.fields.ticked("require_idempotency_key").to_string();
        self.set("require_idempotency_key", required);
        self.retention();
        if self.fields.given("schema").is_none() {
            self.set("payload_schema", NOTHING.to_owned());
            return;
        }
        // A schema that nobody touched stays byte for byte.
        let stored = current.and_then(|current| current.payload_schema.as_ref());
        if let Some(schema) = self.json("schema", "/payload_schema", stored) {
            self.set("payload_schema", schema.text().to_owned());
        }
    }

    fn retention(&mut self) {
        let unit = self.fields.trimmed("retain_unit");
        let size = UNITS.iter().find(|(name, _, _)| *name == unit).map(|(_, size, _)| *size);
        let seconds = match (self.fields.given("retain"), size) {
            (None, _) => Some(NOTHING.to_owned()),
            (Some(typed), Some(size)) => {
                typed.parse::<i64>().ok().and_then(|count| count.checked_mul(size)).map(|seconds| seconds.to_string())
            }
            (Some(_), None) => None,
        };
        match seconds {
            Some(seconds) => self.set("retain_seconds", seconds),
            None => self.fault("/retain_seconds", "expected a whole number, or nothing"),
        }
    }

    /// Document of a field; `None` if it is the stored one, or no JSON.
    fn json(&mut self, name: &str, pointer: &str, stored: Option<&Document>) -> Option<Document> {
        if let Ok(document) = self.fields.edited(name, stored) {
            return document;
        }
        let expected = not_json(&self.fields.lines(name).unwrap_or_default());
        self.fault(pointer, expected);
        None
    }

    fn import(&mut self, current: Option<&JobType>) {
        if !self.has("aliases") {
            return;
        }
        let roles: Vec<String> = ROLES
            .iter()
            .filter(|role| self.fields.ticked(&format!("role_{role}")))
            .map(|role| (*role).to_owned())
            .collect();
        let stored = current.map(|current| plain(current.import.clone().unwrap_or_default())).unwrap_or_default();
        let stored_examples = stored.template.as_ref().map(|template| &template.examples);
        let aliases = "an object from a property to a list of names";
        let aliases = self.shaped("aliases", "/import/aliases", aliases, Some(&stored.aliases));
        let examples = self.shaped("examples", "/import/template/examples", "an array of rows", stored_examples);
        let import = ImportSettings {
            enabled: self.fields.ticked("import_enabled"),
            roles: (roles.len() < ROLES.len()).then_some(roles),
            aliases: aliases.unwrap_or_default(),
            template: examples.filter(|examples| !examples.is_empty()).map(|examples| ImportTemplate { examples }),
        };
        // No settings and the defaults are the same: nothing is written for a form that was left alone.
        if stored != import {
            self.set("import", Document::of(&import).text().to_owned());
        }
    }

    /// JSON of a shape; `None` if there is none. The stored value is kept as it is.
    fn shaped<T>(&mut self, name: &str, pointer: &str, shape: &str, stored: Option<&T>) -> Option<T>
    where
        T: Clone + Serialize + DeserializeOwned,
    {
        self.fields.given(name)?;
        let before = stored.map(Document::of);
        if before.is_some() && matches!(self.fields.edited(name, before.as_ref()), Ok(None)) {
            return stored.cloned();
        }
        let document = self.json(name, pointer, None)?;
        let read = domain::strict_json::from_str(document.text());
        if read.is_err() {
            self.fault(pointer, format!("expected {shape}"));
        }
        read.ok()
    }
}

/// Settings in the form that a form makes of them.
fn plain(import: ImportSettings) -> ImportSettings {
    let roles = import.roles.filter(|roles| ROLES.iter().any(|role| !roles.iter().any(|one| one == role)));
    let in_order = |roles: Vec<String>| -> Vec<String> {
        ROLES.iter().filter(|role| roles.iter().any(|one| one == *role)).map(|role| (*role).to_owned()).collect()
    };
    let template = import.template.filter(|template| !template.examples.is_empty());
    ImportSettings { roles: roles.map(in_order), template, ..import }
}

fn quoted(text: &str) -> String {
    Document::of(&text).text().to_owned()
}

/// What is wrong with a text that is not accepted as JSON, with its line.
fn not_json(typed: &str) -> String {
    match serde_json::from_str::<&RawValue>(typed) {
        Err(error) => format!("expected JSON; found {error}"),
        Ok(_) => domain::document::scan(typed.trim())
            .err()
            .map_or_else(|| "expected JSON".to_owned(), |error| format!("expected JSON without this: {error}")),
    }
}
