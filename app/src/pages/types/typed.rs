//! Fields of the form of a job type, as typed.

use std::collections::BTreeMap;

use domain::{
    Document, JobType, Problem,
    dispatch::retry::Backoff,
    import::settings::{ImportSettings, ROLES},
    item::MaxFailures,
    job_type::{Builtin, ExecutorKind},
};

use crate::components::json::pretty;

/// Fields that are never written back into a page.
const SECRET: [&str; 4] = ["auth_password", "headers", "secret", "secret_before"];

/// Units of a retention, the longest first.
pub const UNITS: [(&str, i64, &str); 4] =
    [("days", 86_400, "days"), ("hours", 3_600, "hours"), ("minutes", 60, "minutes"), ("seconds", 1, "seconds")];

/// Values by the names of their fields. A checkbox that is checked is `yes`; an unchecked one is absent.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    values: BTreeMap<String, String>,
    /// Error of the last submission.
    pub problem: Option<Problem>,
    /// Secrets were typed, and are no longer there.
    pub lost_secrets: bool,
}

impl Typed {
    /// Fields as sent, without the secrets.
    pub fn sent<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut typed = Self::default();
        for (name, value) in pairs {
            if SECRET.contains(&name) {
                typed.lost_secrets |= !value.trim().is_empty();
            } else {
                typed.values.entry(name.to_owned()).or_insert_with(|| value.to_owned());
            }
        }
        typed
    }

    /// Fields filled from a type.
    pub fn of(job_type: &JobType) -> Self {
        let mut typed = Self::default();
        typed.set("version", job_type.version);
        typed.set("name", &job_type.name);
        typed.set_executor(job_type);
        typed.set_limits(job_type);
        typed.set_retries(job_type);
        typed.set("steps", job_type.steps.join(", "));
        typed.set("schema", job_type.payload_schema.as_ref().map(pretty).unwrap_or_default());
        typed.set_retention(job_type.retain_seconds);
        typed.tick("require_idempotency_key", job_type.require_idempotency_key);
        typed.set_import(&job_type.import.clone().unwrap_or_default());
        typed
    }

    /// The same fields under a new name. The secrets are not copied.
    #[must_use]
    pub fn copied(mut self) -> Self {
        self.values.remove("version");
        self.values.remove("name");
        self
    }

    fn set_executor(&mut self, job_type: &JobType) {
        let executor = &job_type.executor;
        self.set(
            "kind",
            match executor.kind {
                ExecutorKind::Pull => "pull",
                ExecutorKind::Push => "push",
                ExecutorKind::Builtin => "builtin",
            },
        );
        self.set(
            "builtin",
            match executor.name {
                Some(Builtin::Export) => "export",
                Some(Builtin::Echo) => "echo",
                Some(Builtin::Validate) | None => "validate",
            },
        );
        self.set_some("url", executor.url.as_ref());
        self.set_some("timeout_seconds", executor.timeout_seconds);
        self.set("heartbeat_seconds", job_type.heartbeat_seconds);
        self.set_some("run_timeout_seconds", job_type.run_timeout_seconds);
    }

    fn set_limits(&mut self, job_type: &JobType) {
        self.set_some("concurrency", job_type.concurrency);
        if let Some(limit) = &job_type.concurrency_by {
            self.set("key_limit", limit.limit);
            self.set("key_limit_key", &limit.key);
        }
        self.set_some("fair_by", job_type.fair_by.as_ref());
        if let Some(rate) = &job_type.rate_limit {
            self.set("rate_count", rate.count);
            self.set("rate_seconds", rate.per_seconds);
            self.set_some("rate_burst", rate.burst);
            self.set_some("rate_key", rate.key.as_ref());
        }
    }

    fn set_retries(&mut self, job_type: &JobType) {
        self.set("delivery", job_type.delivery.as_str());
        if let MaxFailures::AtMost(most) = job_type.max_failures {
            self.set("max_failures", most);
        }
        let backoff = job_type.backoff;
        self.set("min_seconds", backoff.min_seconds);
        self.set_some("max_seconds", backoff.max_seconds);
        self.set("factor", backoff.factor);
        self.tick("jitter", backoff.jitter);
    }

    fn set_retention(&mut self, seconds: Option<i64>) {
        let fits = |unit: &(&str, i64, &str)| seconds.is_none_or(|seconds| seconds % unit.1 == 0);
        let (unit, size, _) = UNITS.into_iter().find(fits).unwrap_or(UNITS[0]);
        self.set_some("retain", seconds.map(|seconds| seconds / size));
        self.set("retain_unit", unit);
    }

    fn set_import(&mut self, import: &ImportSettings) {
        self.tick("import_enabled", import.enabled);
        for role in ROLES {
            let allowed = import.roles.as_ref().is_none_or(|roles| roles.iter().any(|one| one == role));
            self.tick(&format!("role_{role}"), allowed);
        }
        if !import.aliases.is_empty() {
            self.set("aliases", pretty(&Document::of(&import.aliases)));
        }
        let examples = import.template.as_ref().map(|template| &template.examples).filter(|it| !it.is_empty());
        self.set_some("examples", examples.map(|examples| pretty(&Document::of(examples))));
    }

    #[expect(clippy::needless_pass_by_value, reason = "numbers and borrowed texts are given as they are")]
    fn set(&mut self, name: &str, value: impl ToString) {
        self.values.insert(name.to_owned(), value.to_string());
    }

    fn set_some(&mut self, name: &str, value: Option<impl ToString>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    fn tick(&mut self, name: &str, ticked: bool) {
        if ticked {
            self.set(name, "yes");
        }
    }

    /// Replaces the version that the form was filled from.
    pub fn set_version(&mut self, version: i64) {
        self.set("version", version);
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.values.get(name).map_or("", String::as_str)
    }

    pub(super) fn ticked(&self, name: &str) -> bool {
        self.text(name) == "yes"
    }

    /// The backoff and the number of attempts, `None` without a limit, if these fields are valid.
    pub(super) fn retries(&self) -> Option<(Backoff, Option<u32>)> {
        let number = |name: &str| self.text(name).trim().parse::<f64>().ok();
        let longest = self.text("max_seconds").trim();
        let backoff = Backoff {
            min_seconds: number("min_seconds")?,
            max_seconds: if longest.is_empty() { None } else { Some(longest.parse().ok()?) },
            factor: number("factor")?,
            jitter: self.ticked("jitter"),
        };
        let most = match (self.text("delivery"), self.text("max_failures").trim()) {
            ("at_most_once", _) => Some(1),
            (_, "") => None,
            (_, most) => Some(most.parse().ok()?),
        };
        backoff.problem().is_none().then_some((backoff, most))
    }
}
