//! Form of a job type: every setting of the API, in the groups of the page.

use leptos::prelude::*;

use super::{
    curve::curve,
    typed::{Typed, UNITS},
};
use crate::components::{
    action_form::{field_fault, problem_notice},
    text_area::text_area,
};

/// What the page knows about the secrets of a push executor: only whether they are there.
#[derive(Clone, Debug, Default)]
pub struct StoredSecrets {
    pub auth: bool,
    /// Number of headers.
    pub headers: usize,
    pub secret: bool,
}

/// Renders the form. `stored` is `None` for a new type.
pub(super) fn form(typed: &Typed, action: String, stored: Option<&StoredSecrets>, foot: AnyView) -> AnyView {
    let form = Form { typed };
    let version = (!typed.text("version").is_empty())
        .then(|| view! { <input type="hidden" name="version" value=typed.text("version").to_owned() /> });
    let button = if stored.is_some() { "Save changes" } else { "Create job type" };
    let name = stored.is_none().then(|| form.name_row());
    view! {
        <form class="card lined type-form" id="change" method="post" action=action>
            {typed.problem.as_ref().map(|problem| view! { <div class="card-body">{problem_notice(problem)}</div> })}
            {version}
            {name}
            {form.executor_row(stored)}
            {form.limits_row()}
            {form.retry_row()}
            {form.data_row(stored.is_none())}
            {form.import_row()}
            <div class="card-foot form-foot">
                <button class="btn btn-primary" type="submit">
                    {button}
                </button>
                <button class="btn" type="submit" name="preview" value="yes" formnovalidate>
                    "Draw the waits again"
                </button>
                {foot}
            </div>
        </form>
    }
    .into_any()
}

/// A text field.
struct Input {
    label: &'static str,
    name: &'static str,
    pointer: &'static str,
    /// Word behind the field.
    unit: Option<&'static str>,
    help: Option<&'static str>,
    /// `text`, `url` or `password`.
    kind: &'static str,
    numeric: bool,
    mono: bool,
}

impl Input {
    const fn text(label: &'static str, name: &'static str, pointer: &'static str) -> Self {
        Self { label, name, pointer, unit: None, help: None, kind: "text", numeric: false, mono: false }
    }

    const fn number(label: &'static str, name: &'static str, pointer: &'static str, unit: &'static str) -> Self {
        let unit = if unit.is_empty() { None } else { Some(unit) };
        Self { unit, numeric: true, ..Self::text(label, name, pointer) }
    }

    const fn password(label: &'static str, name: &'static str, pointer: &'static str) -> Self {
        Self { kind: "password", ..Self::text(label, name, pointer) }
    }

    const fn help(self, help: &'static str) -> Self {
        Self { help: Some(help), ..self }
    }

    const fn mono(self) -> Self {
        Self { mono: true, ..self }
    }
}

struct Form<'a> {
    typed: &'a Typed,
}

impl Form<'_> {
    fn input(&self, it: &Input) -> AnyView {
        let (help_id, fault_id) = (format!("{}-help", it.name), format!("{}-fault", it.name));
        let fault = field_fault(self.typed.problem.as_ref(), it.pointer, &fault_id);
        let bad = fault.is_some();
        let described = match (it.help.is_some(), bad) {
            (true, true) => Some(format!("{help_id} {fault_id}")),
            (true, false) => Some(help_id.clone()),
            (false, true) => Some(fault_id),
            (false, false) => None,
        };
        let value = if it.kind == "password" { String::new() } else { self.typed.text(it.name).to_owned() };
        let input = view! {
            <input
                type=it.kind
                inputmode=it.numeric.then_some("decimal")
                id=it.name
                name=it.name
                class=it.mono.then_some("mono")
                value=value
                maxlength=if it.numeric { "20" } else { "12000" }
                spellcheck="false"
                autocomplete=if it.kind == "password" { "new-password" } else { "off" }
                aria-describedby=described
                aria-invalid=bad.then_some("true")
            />
        };
        let input = match it.unit {
            Some(unit) => view! { <span class="with-unit">{input} <span>{unit}</span></span> }.into_any(),
            None => input.into_any(),
        };
        view! {
            <div class="field">
                <label class="label" for=it.name>{it.label}</label>
                {input}
                {it.help.map(|help| view! { <span class="help" id=help_id>{help}</span> })}
                {fault}
            </div>
        }
        .into_any()
    }

    fn area(&self, label: &'static str, name: &'static str, pointer: &'static str, help: AnyView) -> AnyView {
        let (help_id, fault_id) = (format!("{name}-help"), format!("{name}-fault"));
        let fault = field_fault(self.typed.problem.as_ref(), pointer, &fault_id);
        let bad = fault.is_some();
        let describes = if bad { format!("{help_id} {fault_id}") } else { help_id.clone() };
        view! {
            <div class="field">
                <label class="label" for=name>{label}</label>
                {text_area(name, name, self.typed.text(name), &describes, bad)}
                <span class="help" id=help_id>{help}</span>
                {fault}
            </div>
        }
        .into_any()
    }

    fn check(&self, name: &'static str, word: &'static str, help: Option<&'static str>) -> AnyView {
        view! {
            <label class="check">
                <input type="checkbox" name=name value="yes" checked=self.typed.ticked(name) />
                <span>{word} {help.map(|help| view! { <span class="help">{help}</span> })}</span>
            </label>
        }
        .into_any()
    }

    fn choice(
        &self,
        label: &'static str,
        name: &'static str,
        pointer: &'static str,
        words: &[(&'static str, &'static str)],
    ) -> AnyView {
        let chosen = self.typed.text(name);
        let fault_id = format!("{name}-fault");
        let fault = field_fault(self.typed.problem.as_ref(), pointer, &fault_id);
        let bad = fault.is_some();
        let options = words
            .iter()
            .map(|&(value, word)| view! { <option value=value selected=value == chosen>{word}</option> })
            .collect_view();
        view! {
            <div class="field">
                <label class="label" for=name>{label}</label>
                <select id=name name=name aria-describedby=bad.then_some(fault_id) aria-invalid=bad.then_some("true")>
                    {options}
                </select>
                {fault}
            </div>
        }
        .into_any()
    }

    fn name_row(&self) -> AnyView {
        let name = Input::text("Name", "name", "/name")
            .help("Lowercase letters, digits, dots, hyphens and underscores. It cannot be changed later.")
            .mono();
        row("Name", "What jobs and workers call it.", self.input(&name))
    }

    fn executor_row(&self, stored: Option<&StoredSecrets>) -> AnyView {
        let kinds = [
            ("pull", "Pull", "Your workers ask for items over HTTP or listen to RabbitMQ."),
            ("push", "Push", "Treeline sends each item to a URL of yours."),
            ("builtin", "Built-in", "Treeline does it: validate, export, or echo."),
        ];
        let chosen = self.typed.text("kind");
        let cards = kinds
            .map(|(value, word, help)| {
                view! {
                    <label class="choice-card">
                        <input type="radio" name="kind" value=value checked=value == chosen />
                        <span>
                            <strong>{word}</strong>
                            <span class="help">{help}</span>
                        </span>
                    </label>
                }
            })
            .into_iter()
            .collect_view();
        let works = [("validate", "Validate against the schema"), ("export", "Export"), ("echo", "Echo")];
        let heartbeat = Input::number("Heartbeat every", "heartbeat_seconds", "/heartbeat_seconds", "seconds")
            .help("A worker that does not report for so long loses the item.");
        let run = Input::number(
            "Time limit per attempt (optional)",
            "run_timeout_seconds",
            "/run_timeout_seconds",
            "seconds",
        );
        row(
            "Executor",
            "Who does the work.",
            view! {
                <fieldset class="choice-cards">
                    <legend class="vh">"Executor"</legend>
                    {cards}
                </fieldset>
                {field_fault(self.typed.problem.as_ref(), "/executor/kind", "kind-fault")}
                <div class="fields for-builtin">{self.choice("Work", "builtin", "/executor/name", &works)}</div>
                {self.push_fields(stored)}
                <div class="fields">{self.input(&heartbeat)} {self.input(&run)}</div>
            }
            .into_any(),
        )
    }

    fn push_fields(&self, stored: Option<&StoredSecrets>) -> AnyView {
        let url = Input::text("URL", "url", "/executor/url")
            .help("{type}, {item_id} and {job_id} are filled in. Support sees it without its query; do not put secrets into its path.")
            .mono();
        let timeout =
            Input::number("Response time limit (optional)", "timeout_seconds", "/executor/timeout_seconds", "seconds")
                .help("Empty: 300 seconds.");
        let none = StoredSecrets::default();
        let there = stored.unwrap_or(&none);
        let state = |is_there: bool| if is_there { "Stored. Empty: it stays." } else { "None is stored." };
        let headers = match there.headers {
            0 => "None are stored.".to_owned(),
            1 => "1 header is stored. Empty: it stays; a new text replaces it.".to_owned(),
            n => format!("{n} headers are stored. Empty: they stay; a new text replaces all of them."),
        };
        let headers = view! { "One on each line, such as X-Team: hr. " {headers} }.into_any();
        let forget = |is_there: bool, name, word| is_there.then(|| self.check(name, word, None));
        let lost = self.typed.lost_secrets.then(|| {
            view! { <p class="field-error">"Passwords, headers and secrets are not kept in the page: enter them again."</p> }
        });
        let user = Input { help: Some(state(there.auth)), ..Input::text("User", "auth_user", "/executor/auth") };
        let secret = Input {
            help: Some(state(there.secret)),
            ..Input::password("Signing secret", "secret", "/executor/secret")
        };
        let before = Input::password("Earlier signing secret", "secret_before", "/executor/secret/1")
            .help("While receivers change over, both sign.");
        view! {
            <div class="stack for-push">
                {lost}
                <div class="fields">{self.input(&url)} {self.input(&timeout)}</div>
                <fieldset class="stack">
                    <legend class="label">"Authentication (optional)"</legend>
                    <div class="fields">
                        {self.input(&user)}
                        {self.input(&Input::password("Password", "auth_password", "/executor/auth/password"))}
                    </div>
                    {forget(there.auth, "forget_auth", "Remove the stored user and password")}
                </fieldset>
                {self.area("Headers (optional)", "headers", "/executor/headers", headers)}
                {forget(there.headers > 0, "forget_headers", "Remove the stored headers")}
                <div class="fields">{self.input(&secret)} {self.input(&before)}</div>
                {forget(there.secret, "forget_secret", "Remove the stored signing secret")}
            </div>
        }
        .into_any()
    }

    fn limits_row(&self) -> AnyView {
        let concurrency = Input::number("Concurrency limit (optional)", "concurrency", "/concurrency", "items at once")
            .help("Empty: no limit. 0: nothing starts. Lowering it lets running items finish.");
        let key_limit =
            Input::number("Limit per key (optional)", "key_limit", "/concurrency_by/limit", "items at once");
        let key = Input::text("Key in the payload", "key_limit_key", "/concurrency_by/key")
            .help("A JSON Pointer, such as /customer.")
            .mono();
        let count = Input::number("Rate limit (optional)", "rate_count", "/rate_limit/count", "starts");
        let within = Input::number("Within", "rate_seconds", "/rate_limit/per_seconds", "seconds");
        let burst = Input::number("At once (optional)", "rate_burst", "/rate_limit/burst", "starts");
        let rate_key =
            Input::text("For each key (optional)", "rate_key", "/rate_limit/key").help("A JSON Pointer.").mono();
        let fair_by = Input::text("Take turns by (optional)", "fair_by", "/fair_by")
            .help("tree, owner, or a JSON Pointer, such as /customer. Empty: by tree.")
            .mono();
        row(
            "Limits",
            "Exact, however many servers and workers run. Changes apply within a second.",
            view! {
                <div class="fields">{self.input(&concurrency)} {self.input(&key_limit)} {self.input(&key)}</div>
                <div class="fields">
                    {self.input(&count)} {self.input(&within)} {self.input(&burst)} {self.input(&rate_key)}
                </div>
                <div class="fields">{self.input(&fair_by)}</div>
            }
            .into_any(),
        )
    }

    fn retry_row(&self) -> AnyView {
        let deliveries =
            [("at_least_once", "At least once"), ("at_most_once", "At most once, never retried automatically")];
        let most = Input::number("Max. attempts (optional)", "max_failures", "/max_failures", "attempts")
            .help("Empty: no limit. At most once: 1.");
        let first = Input::number("First wait", "min_seconds", "/backoff/min_seconds", "seconds");
        let factor = Input::number("Multiply by", "factor", "/backoff/factor", "");
        let longest = Input::number("Longest wait (optional)", "max_seconds", "/backoff/max_seconds", "seconds");
        let drawing = self.typed.retries().map_or_else(
            || view! { <p class="small soft">"The waits are drawn when these fields are numbers."</p> }.into_any(),
            |(backoff, most)| curve(&backoff, most),
        );
        row(
            "Retry policy",
            "What happens when an attempt fails. Items that already wait keep their time.",
            view! {
                <div class="fields">
                    {self.choice("Delivery", "delivery", "/delivery", &deliveries)} {self.input(&most)}
                </div>
                <div class="fields">{self.input(&first)} {self.input(&factor)} {self.input(&longest)}</div>
                {self
                    .check(
                        "jitter",
                        "Add jitter",
                        Some("Each wait is up to half as long again, at random, so retries do not arrive together."),
                    )}
                <div class="preview-box" id="waits">
                    {drawing}
                </div>
            }
            .into_any(),
        )
    }

    fn data_row(&self, is_new: bool) -> AnyView {
        let steps =
            Input::text("Steps (optional, in order)", "steps", "/steps").help("Names with commas between them.").mono();
        let retain =
            Input::number("Keep finished jobs for (optional)", "retain", "/retain_seconds", "").help("Empty: forever.");
        let units = UNITS.map(|(value, _, word)| (value, word));
        let schema = view! { "JSON Schema 2020-12. Empty: any payload." }.into_any();
        let paused =
            is_new.then(|| self.check("paused", "Start paused", Some("Nothing starts until someone resumes it.")));
        row(
            "Data",
            "What an item must look like and how long results are kept. Existing jobs keep what they were created with.",
            view! {
                {self.area("Payload schema (optional)", "schema", "/payload_schema", schema)}
                <div class="fields">
                    {self.input(&steps)} {self.input(&retain)} {self.choice("Unit", "retain_unit", "/retain_unit", &units)}
                </div>
                {self
                    .check(
                        "require_idempotency_key",
                        "Require an Idempotency-Key",
                        Some("Requests without one are refused."),
                    )}
                {paused}
            }
            .into_any(),
        )
    }

    fn import_row(&self) -> AnyView {
        let aliases = view! { "JSON: an object from each property to its other names, such as " <code>"{\"amount\": [\"Betrag\"]}"</code> "." };
        let examples = view! { "JSON: an array of rows, such as " <code>"[{\"amount\": 12.5}]"</code> ". They are in the template file." };
        row(
            "Imports",
            "Jobs that people create from a file.",
            view! {
                {self.check("import_enabled", "Jobs of this type can be created from a file", None)}
                <fieldset class="check-row">
                    <legend class="label">"Who may import"</legend>
                    {self.check("role_user", "Uploaders", None)}
                    {self.check("role_support", "Support", None)}
                    {self.check("role_admin", "Admins", None)}
                </fieldset>
                {field_fault(self.typed.problem.as_ref(), "/import/roles", "roles-fault")}
                {self.area("Other names of columns (optional)", "aliases", "/import/aliases", aliases.into_any())}
                {self.area("Example rows (optional)", "examples", "/import/template/examples", examples.into_any())}
            }
            .into_any(),
        )
    }
}

/// A group of fields with its heading.
fn row(heading: &'static str, text: &'static str, content: AnyView) -> AnyView {
    view! {
        <div class="form-row">
            <div>
                <h2>{heading}</h2>
                <p>{text}</p>
            </div>
            <div class="stack">{content}</div>
        </div>
    }
    .into_any()
}
