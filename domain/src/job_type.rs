//! Job types: the contract shared by all jobs of a kind.

mod push;

use serde::{Deserialize, Serialize};

use crate::{
    Document, Time,
    dispatch::{
        retry::Backoff,
        type_limits::{ConcurrencyBy, RateLimit, TypeLimits},
    },
    fair_by::FairBy,
    import::settings::ImportSettings,
    item::MaxFailures,
    limits::{
        LONGEST_PUSH_SECONDS, LONGEST_RETENTION_SECONDS, LONGEST_SECONDS, LONGEST_URL, MOST_STEPS, SHORTEST_SECONDS,
        is_text,
    },
};

pub use push::{BasicAuth, Headers, LONGEST_VALUE, MOST_HEADERS, PushSecrets, SigningSecret};

pub use crate::dispatch::retry::Delivery;

/// The lease of a post to a worker where its type says nothing, in seconds.
pub const PUSH_TIMEOUT_SECONDS: f64 = 300.0;

/// Kind of executor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum ExecutorKind {
    /// Workers claim over HTTP.
    Pull,
    /// Treeline posts each item to a URL.
    Push,
    /// Treeline does it itself.
    Builtin,
}

/// Executor that is built into Treeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Builtin {
    /// Checks the payload against the type's schema; the result is the payload.
    Validate,
    /// Writes the results, failures or items of a job to a file.
    Export,
    /// Answers with the payload.
    Echo,
}

/// Executor of a type. Its other fields depend on `kind`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Executor {
    pub kind: ExecutorKind,
    /// `builtin`: name of the executor.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<Builtin>,
    /// `push`: URL of the worker; `{type} {item_id} {job_id}` are filled in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `push`: lease in seconds, from the time of sending. Absent: 300.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<f64>,
    /// `push`: credentials, sent with each request. Write-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(write_only))]
    pub auth: Option<BasicAuth>,
    /// `push`: headers, sent with each request. Write-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(write_only))]
    pub headers: Option<Headers>,
    /// `push`: signing secret, instead of the deployment's own key. Write-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(write_only))]
    pub secret: Option<SigningSecret>,
}

impl Executor {
    pub const fn pull() -> Self {
        Self {
            kind: ExecutorKind::Pull,
            name: None,
            url: None,
            timeout_seconds: None,
            auth: None,
            headers: None,
            secret: None,
        }
    }

    pub fn builtin(name: Builtin) -> Self {
        Self { kind: ExecutorKind::Builtin, name: Some(name), ..Self::pull() }
    }

    /// Posts to this URL, with the default timeout.
    pub fn push(url: String) -> Self {
        Self { kind: ExecutorKind::Push, url: Some(url), timeout_seconds: Some(PUSH_TIMEOUT_SECONDS), ..Self::pull() }
    }

    /// Public part, complete with its defaults, and the part that is never returned.
    pub fn split_secrets(&self) -> (Self, PushSecrets) {
        let mut open = self.clone();
        let (auth, headers, secret) = (open.auth.take(), open.headers.take(), open.secret.take());
        let mut secrets = PushSecrets { auth, headers, secret, url: None };
        if open.kind == ExecutorKind::Push {
            open.timeout_seconds.get_or_insert(PUSH_TIMEOUT_SECONDS);
            let redacted = open.without_query();
            if redacted.url != open.url {
                secrets.url = std::mem::replace(&mut open, redacted).url;
            }
        }
        (open, secrets)
    }

    /// For those who may not see secrets: the URL without its query, user and fragment.
    #[must_use]
    pub fn without_query(&self) -> Self {
        let redacted = |url: &String| {
            let (place, rest) = url.find(['?', '#']).map_or((url.as_str(), ""), |at| url.split_at(at));
            let start = place.find("//").map_or(0, |at| at + 2);
            let end = place[start..].find('/').map_or(place.len(), |at| start + at);
            let host = place[start..end].rsplit('@').next().unwrap_or_default();
            let more = if rest.is_empty() { "" } else { "?…" };
            format!("{}{host}{}{more}", &place[..start], &place[end..])
        };
        Self { url: self.url.as_ref().map(redacted), ..self.clone() }
    }
}

impl Default for Executor {
    fn default() -> Self {
        Self::pull()
    }
}

/// Body of `POST /job-types` and `PUT /job-types/{name}`; only `name` is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobTypeSpec {
    pub name: String,
    #[serde(default)]
    pub delivery: Delivery,
    /// Maximum number of failures of an item. Absent: 3, or 1 if delivery is `at_most_once`.
    #[serde(default)]
    pub max_failures: Option<MaxFailures>,
    /// Maximum number of items that run at once; `null`: no limit; 0: nothing starts.
    #[serde(default)]
    pub concurrency: Option<i32>,
    /// Limit on the number of items that start in a period. Absent or null: no limit.
    #[serde(default)]
    pub rate_limit: Option<RateLimit>,
    /// Limit on the number of items with the same value in their payload that run at once. Absent or null: no limit.
    #[serde(default)]
    pub concurrency_by: Option<ConcurrencyBy>,
    /// Groups of items that take turns: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`.
    #[serde(default)]
    pub fair_by: Option<String>,
    #[serde(default)]
    pub backoff: Backoff,
    #[serde(default = "sixty")]
    pub heartbeat_seconds: f64,
    #[serde(default)]
    pub run_timeout_seconds: Option<f64>,
    #[serde(default, deserialize_with = "crate::bounded::list")]
    pub steps: Vec<String>,
    /// Retention in seconds; `null`: forever.
    #[serde(default = "seven_days")]
    pub retain_seconds: Option<i64>,
    #[serde(default)]
    pub payload_schema: Option<Document>,
    #[serde(default)]
    pub executor: Executor,
    #[serde(default)]
    pub require_idempotency_key: bool,
    #[serde(default)]
    pub paused: bool,
    /// Settings for jobs that are created from a file. Absent or null: everybody may create them.
    #[serde(default)]
    pub import: Option<ImportSettings>,
}

const fn sixty() -> f64 {
    60.0
}

#[expect(clippy::unnecessary_wraps, reason = "serde's default has the field's type")]
const fn seven_days() -> Option<i64> {
    Some(604_800)
}

impl JobTypeSpec {
    /// A type of the given name with every default.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            delivery: Delivery::default(),
            max_failures: None,
            concurrency: None,
            rate_limit: None,
            concurrency_by: None,
            fair_by: None,
            backoff: Backoff::default(),
            heartbeat_seconds: sixty(),
            run_timeout_seconds: None,
            steps: Vec::new(),
            retain_seconds: seven_days(),
            payload_schema: None,
            executor: Executor::default(),
            require_idempotency_key: false,
            paused: false,
            import: None,
        }
    }

    /// The budget in force: 3, or 1 where an item is handed out at most once.
    pub fn max_failures(&self) -> MaxFailures {
        self.max_failures.unwrap_or(match self.delivery {
            Delivery::AtLeastOnce => MaxFailures::AtMost(3),
            Delivery::AtMostOnce => MaxFailures::AtMost(1),
        })
    }

    /// Its limits, besides the concurrency.
    pub fn limits(&self) -> TypeLimits {
        TypeLimits { rate_limit: self.rate_limit.clone(), concurrency_by: self.concurrency_by.clone() }
    }

    /// Everything that is wrong with it: JSON Pointer into the body, and what was expected.
    pub fn problems(&self) -> Vec<(String, String)> {
        let mut problems_found = Vec::new();
        let mut report = |pointer: &str, detail: &str| problems_found.push((pointer.to_owned(), detail.to_owned()));
        if !crate::id::is_name(&self.name) {
            report("/name", "expected [a-z0-9][a-z0-9._-]{0,99}");
        }
        if self.delivery == Delivery::AtMostOnce && self.max_failures() != MaxFailures::AtMost(1) {
            report("/max_failures", "expected 1, as delivery is at_most_once");
        }
        if self.fair_by.as_deref().is_some_and(|fair_by| FairBy::parse(fair_by).is_none()) {
            report("/fair_by", "expected tree, owner, or a JSON Pointer into the payload, such as /customer");
        }
        if self.concurrency.is_some_and(|cap| cap < 0) {
            report("/concurrency", "expected null or a whole number from 0");
        }
        for (pointer, detail) in self.limits().problems() {
            report(&pointer, &detail);
        }
        if let Some((pointer, detail)) = self.backoff.problem() {
            report(&format!("/backoff{pointer}"), detail);
        }
        let seconds = SHORTEST_SECONDS..=LONGEST_SECONDS;
        if !seconds.contains(&self.heartbeat_seconds) {
            report("/heartbeat_seconds", "expected a number of seconds from 0.1 to 31536000");
        }
        if self.run_timeout_seconds.is_some_and(|s| !seconds.contains(&s)) {
            report("/run_timeout_seconds", "expected null or a number of seconds from 0.1 to 31536000");
        }
        if self.retain_seconds.is_some_and(|s| !(0..=LONGEST_RETENTION_SECONDS).contains(&s)) {
            report("/retain_seconds", "expected null or a whole number of seconds from 0");
        }
        if self.steps.len() > MOST_STEPS {
            report("/steps", "expected at most 100 steps");
        }
        for (place, step) in self.steps.iter().enumerate() {
            if !crate::id::is_name(step) || self.steps[..place].contains(step) {
                report(&format!("/steps/{place}"), "expected a name of its own, [a-z0-9][a-z0-9._-]{0,99}");
            }
        }
        let executor = &self.executor;
        match executor.kind {
            ExecutorKind::Builtin if executor.name.is_none() => {
                report("/executor/name", "expected validate, export or echo");
            }
            ExecutorKind::Push if executor.url.is_none() => report("/executor/url", "expected the URL to post to"),
            _ => {}
        }
        if executor.url.as_ref().is_some_and(|url| !is_text(url, 1, LONGEST_URL)) {
            report("/executor/url", "expected at most 2048 characters");
        }
        if executor.kind != ExecutorKind::Builtin && executor.name.is_some() {
            report("/executor/name", "expected only where kind is builtin");
        }
        if executor.kind != ExecutorKind::Push && (executor.url.is_some() || executor.timeout_seconds.is_some()) {
            report("/executor/url", "expected only where kind is push");
        }
        if executor.timeout_seconds.is_some_and(|s| !(SHORTEST_SECONDS..=LONGEST_PUSH_SECONDS).contains(&s)) {
            report("/executor/timeout_seconds", "expected a number of seconds from 0.1 to 86400");
        }
        for (inner, detail) in self.import.iter().flat_map(ImportSettings::problems) {
            report(&format!("/import{inner}"), &detail);
        }
        let (_, secrets) = executor.split_secrets();
        if executor.kind == ExecutorKind::Push {
            problems_found
                .extend(secrets.problems().into_iter().map(|(at, detail)| (format!("/executor{at}"), detail)));
        } else if !secrets.is_empty() {
            report("/executor", "expected auth, headers and secret only where kind is push");
        }
        problems_found
    }
}

/// A job type as the API shows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct JobType {
    pub name: String,
    pub delivery: Delivery,
    pub max_failures: MaxFailures,
    pub concurrency: Option<i32>,
    /// Limit on the number of items that start in a period; null: no limit.
    #[serde(default)]
    pub rate_limit: Option<RateLimit>,
    /// Limit on the number of items with the same value in their payload that run at once; null: no limit.
    #[serde(default)]
    pub concurrency_by: Option<ConcurrencyBy>,
    /// Groups of items that take turns: `tree`, `owner`, or a JSON Pointer into the payload. Absent or null: `tree`.
    #[serde(default)]
    pub fair_by: Option<String>,
    pub backoff: Backoff,
    pub heartbeat_seconds: f64,
    pub run_timeout_seconds: Option<f64>,
    pub steps: Vec<String>,
    pub retain_seconds: Option<i64>,
    pub payload_schema: Option<Document>,
    pub executor: Executor,
    pub require_idempotency_key: bool,
    pub paused: bool,
    /// Settings for jobs that are created from a file. Null: everybody may create them.
    #[serde(default)]
    pub import: Option<ImportSettings>,
    pub created_at: Time,
    pub updated_at: Time,
    pub version: i64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> JobTypeSpec {
        serde_json::from_str(text).expect(text)
    }

    #[test]
    fn only_a_name_is_required() {
        assert_eq!(read(r#"{"name":"a"}"#), JobTypeSpec::named("a"));
        assert_eq!(read(r#"{"name":"a"}"#).problems(), []);
        assert_eq!(read(r#"{"name":"a","retain_seconds":null}"#).retain_seconds, None);
    }

    #[test]
    fn at_most_once_allows_one_failure() {
        let once = read(r#"{"name":"a","delivery":"at_most_once"}"#);
        assert_eq!(once.max_failures(), MaxFailures::AtMost(1));
        let twice = read(r#"{"name":"a","delivery":"at_most_once","max_failures":2}"#);
        assert_eq!(twice.problems()[0].0, "/max_failures");
    }

    #[test]
    fn push_executor_secrets_are_split_off() {
        let spec = read(
            r#"{"name":"a","executor":{"kind":"push","url":"https://a","auth":{"user":"u","password":"hidden"},
                "headers":{"X-A":"hidden"},"secret":"hidden-hidden"}}"#,
        );
        assert_eq!(spec.problems(), []);
        let (open, secrets) = spec.executor.split_secrets();
        assert_eq!(open, Executor::push("https://a".to_owned()));
        assert!(secrets.auth.is_some() && secrets.headers.is_some() && secrets.secret.is_some());
        assert!(!format!("{spec:?}").contains("hidden"));
        let odd = read(r#"{"name":"a","executor":{"kind":"pull","secret":"x"}}"#);
        assert_eq!(odd.problems()[0].0, "/executor");
    }

    #[test]
    fn push_url_query_is_treated_as_secret() {
        let redacted = |url: &str| Executor::push(url.to_owned()).without_query().url.expect("a URL");
        assert_eq!(redacted("https://a.example/{type}/{item_id}"), "https://a.example/{type}/{item_id}");
        assert_eq!(redacted("https://a.example/x?key=hidden&b={job_id}"), "https://a.example/x?…");
        assert_eq!(redacted("https://a.example?hidden"), "https://a.example?…");
        assert_eq!(redacted("https://u:hidden@a.example:1/x@y#hidden"), "https://a.example:1/x@y?…");
        let (open, secrets) = Executor::push("https://a.example/?key=hidden".to_owned()).split_secrets();
        assert_eq!(secrets.url.as_deref(), Some("https://a.example/?key=hidden"));
        assert_eq!(open.url.as_deref(), Some("https://a.example/?…"));
    }

    #[test]
    fn every_problem_is_named() {
        let bad = read(
            r#"{"name":"A","concurrency":-1,"heartbeat_seconds":0,"steps":["a","a"],
                "backoff":{"factor":0},"executor":{"kind":"builtin"}}"#,
        );
        let pointers: Vec<String> = bad.problems().into_iter().map(|(pointer, _)| pointer).collect();
        assert_eq!(
            pointers,
            ["/name", "/concurrency", "/backoff/factor", "/heartbeat_seconds", "/steps/1", "/executor/name"]
        );
    }
}
