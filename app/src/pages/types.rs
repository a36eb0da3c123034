//! `/types`: the job types; `/types/{name}`: one type, with its live settings: pause, limits, backoff.
//!
//! All staff see them; only admins change them, and only they see the forms. A change names the version that was read,
//! so that two concurrent edits do not overwrite each other.

use domain::{
    JobType, Problem,
    dispatch::type_limits::{ConcurrencyBy, RateLimit},
    item::MaxFailures,
    job_type::ExecutorKind,
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use crate::pages::import::new_import::templates;
use crate::pages::operator::dead_letters::rows_of;
use crate::{
    components::{
        action_form::{field_fault, flash, problem_notice},
        breadcrumbs::breadcrumbs,
        chart::{self, History},
        panel::{note, section},
        state::icon,
        table::{
            self,
            Head::{Number, Words},
        },
        timestamp::clock,
    },
    frame::{NavSection, Page},
    pace::duration,
};

pub fn list_page(types: &[JobType]) -> Page {
    let rows = types
        .iter()
        .map(|it| {
            view! {
                <tr role="row">
                    <th scope="row" role="rowheader" class="name">
                        <a href=format!("/types/{}", it.name)>{it.name.clone()}</a>
                    </th>
                    <td role="cell" class="fit">{badge(it.paused)}</td>
                    <td role="cell" data-label="Executor">{executor(it)}</td>
                    <td role="cell" class="num" data-label="Concurrency limit">{cap(it.concurrency)}</td>
                    <td role="cell" class="num" data-label="Max. attempts">{budget(it)}</td>
                    <td role="cell" data-label="Backoff">{backoff(it)}</td>
                </tr>
            }
        })
        .collect_view();
    let heads = [
        Words("Job type"),
        Words("State"),
        Words("Executor"),
        Number("Concurrency limit"),
        Number("Max. attempts"),
        Words("Backoff"),
    ];
    let table = table::frame("Job types", "types", heads, rows);
    let content = view! {
        <div class="page-head">
            <h1>"Job types"</h1>
            <p class="sub">"What jobs of a kind have in common: who runs them, how many at once, and what happens when an item fails."</p>
        </div>
        <div class="card" id="list" data-refresh="" data-topics="types">
            {table}
        </div>
    }
    .into_any();
    Page { title: "Job types".to_owned(), nav_section: NavSection::Types, content, is_live: false }
}

/// One type, and the typed values of its form.
#[derive(Clone, Debug)]
pub struct JobTypePageData {
    pub job_type: JobType,
    pub history: History,
    /// Files for it can start from a template.
    pub has_template: bool,
    /// May change it.
    pub admin: bool,
    pub flash: Option<String>,
    pub problem: Option<Problem>,
    pub typed: Typed,
}

/// The form's fields.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    pub concurrency: String,
    pub rate: TypedRate,
    pub key_limit: TypedKeyLimit,
    pub min_seconds: String,
    pub max_seconds: String,
    pub factor: String,
    pub jitter: bool,
}

/// Fields of the rate limit.
#[derive(Clone, Debug, Default)]
pub struct TypedRate {
    pub count: String,
    pub per_seconds: String,
    pub burst: String,
    pub key: String,
}

/// Fields of the concurrency limit of a key.
#[derive(Clone, Debug, Default)]
pub struct TypedKeyLimit {
    pub key: String,
    pub limit: String,
}

impl Typed {
    /// Fields filled from the type.
    pub fn of(job_type: &JobType) -> Self {
        let (spec, backoff) = (job_type, job_type.backoff);
        Self {
            concurrency: spec.concurrency.map(|cap| cap.to_string()).unwrap_or_default(),
            rate: spec.rate_limit.as_ref().map(TypedRate::of).unwrap_or_default(),
            key_limit: spec.concurrency_by.as_ref().map(TypedKeyLimit::of).unwrap_or_default(),
            min_seconds: backoff.min_seconds.to_string(),
            max_seconds: backoff.max_seconds.map(|max| max.to_string()).unwrap_or_default(),
            factor: backoff.factor.to_string(),
            jitter: backoff.jitter,
        }
    }
}

impl TypedRate {
    fn of(rate: &RateLimit) -> Self {
        Self {
            count: rate.count.to_string(),
            per_seconds: rate.per_seconds.to_string(),
            burst: rate.burst.map(|burst| burst.to_string()).unwrap_or_default(),
            key: rate.key.clone().unwrap_or_default(),
        }
    }
}

impl TypedKeyLimit {
    fn of(limit: &ConcurrencyBy) -> Self {
        Self { key: limit.key.clone(), limit: limit.limit.to_string() }
    }
}

pub fn page(page_data: &JobTypePageData) -> Page {
    let it = &page_data.job_type;
    let name = it.name.clone();
    let verb = if it.paused { "resume" } else { "pause" };
    let pause = page_data.admin.then(|| {
        let text = if it.paused {
            "Nothing new starts while it is paused."
        } else {
            "Pausing starts nothing new. Items in progress finish."
        };
        view! {
            <form class="actions" method="post" action=format!("/types/{name}/{verb}")>
                <button class="btn" type="submit">{if it.paused { "Resume" } else { "Pause" }}</button>
                <span class="sub">{text}</span>
            </form>
        }
    });
    let fact = |term: &'static str, value: AnyView| view! { <div><dt>{term}</dt> <dd>{value}</dd></div> };
    let spec = it;
    let retain = spec.retain_seconds.map_or_else(|| "forever".to_owned(), |seconds| duration(seconds as f64));
    let steps = if spec.steps.is_empty() { "none".to_owned() } else { spec.steps.join(", ") };
    breadcrumbs(&[("/types", "Job types")], name.as_str());
    let content = view! {
        <div class="page-head">
            <h1>{name.clone()}</h1>
            <span id="state" data-refresh="" data-topics="types">
                {badge(spec.paused)}
            </span>
        </div>
        {flash(page_data.flash.as_deref())}
        <p class="actions">
            <a href=rows_of("/jobs", List::Jobs, vec![Term::is("type", &name)])>"Jobs"</a>
            <a href=rows_of("/dead", List::Dead, vec![Term::is("type", &name)])>"Failures"</a>
            {page_data.has_template.then(|| templates::links(&name))}
        </p>
        <div id="pause" data-refresh="">
            {pause}
        </div>
        <div class="stack gap-4" id="activity" data-refresh="" data-topics="overview">
            {chart::ranges(&format!("/types/{name}"), page_data.history.range)}
            <div class="grid">
                <div class="c8">{chart::throughput(&page_data.history)}</div>
                <div class="c4">{chart::durations(&page_data.history)}</div>
            </div>
        </div>
        {if page_data.admin { section("change", "Limits and backoff", form(page_data)) } else { note("Only admins change job types.") }}
        {section(
            "details",
            "Settings",
            view! {
                <dl class="facts">
                    {fact("Executor", executor(it).into_any())} {fact("Delivery", spec.delivery.as_str().replace('_', " ").into_any())}
                    {fact("Max. attempts", budget(it).into_any())} {fact("Concurrency limit", cap(spec.concurrency).into_any())}
                    {fact("Rate limit", rate(spec.rate_limit.as_ref()).into_any())}
                    {fact("Concurrency limit per key", key_limit(spec.concurrency_by.as_ref()).into_any())}
                    {fact("Takes turns by", spec.fair_by.clone().unwrap_or_else(|| "tree".to_owned()).into_any())}
                    {fact("Backoff", backoff(it).into_any())} {fact("Heartbeat", duration(spec.heartbeat_seconds).into_any())}
                    {spec.executor.timeout_seconds.map(|seconds| fact("Response time limit", duration(seconds).into_any()))}
                    {spec.run_timeout_seconds.map(|seconds| fact("Time limit per attempt", duration(seconds).into_any()))}
                    {fact("Steps", steps.into_any())} {fact("Kept after completion", retain.into_any())}
                    {fact("Idempotency-Key", if spec.require_idempotency_key { "required" } else { "optional" }.into_any())}
                    {fact("Changed", clock(it.updated_at).into_any())} {fact("Version", it.version.to_string().into_any())}
                </dl>
                {spec.payload_schema.as_ref().map(|schema| view! {
                    <details>
                        <summary>"Payload schema"</summary>
                        <pre class="document" tabindex="0">{schema.text().to_owned()}</pre>
                    </details>
                })}
            }
            .into_any(),
        )}
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Types, content, is_live: false }
}

fn form(page_data: &JobTypePageData) -> AnyView {
    let (it, typed, problem) = (&page_data.job_type, &page_data.typed, page_data.problem.as_ref());
    let input = |label: &'static str, name: &'static str, value: &str, pointer: &'static str, numeric: bool| {
        let id = format!("{name}-fault");
        let faults = field_fault(problem, pointer, &id);
        let bad = faults.is_some();
        view! {
            <div class="field">
                <label class="label" for=name>{label}</label>
                <input
                    type="text"
                    inputmode=numeric.then_some("decimal")
                    id=name
                    name=name
                    value=value.to_owned()
                    maxlength=if numeric { "20" } else { "1000" }
                    autocomplete="off"
                    aria-describedby=bad.then(|| id.clone())
                    aria-invalid=bad.then_some("true")
                />
                {faults}
            </div>
        }
    };
    let field = |label, name, value: &str, pointer| input(label, name, value, pointer, true);
    let pointer_field = |label, name, value: &str, pointer| input(label, name, value, pointer, false);
    view! {
        <form class="form" method="post" action=format!("/types/{}", it.name)>
            {problem.map(problem_notice)}
            <input type="hidden" name="version" value=it.version.to_string() />
            <div class="fields">
                {field("Concurrency limit (empty: no limit; 0: nothing starts)", "concurrency", &typed.concurrency, "/concurrency")}
                {field("Concurrency limit per key", "key_limit", &typed.key_limit.limit, "/concurrency_by/limit")}
                {pointer_field("Key of it, in the payload, such as /customer", "key_limit_key", &typed.key_limit.key, "/concurrency_by/key")}
            </div>
            <div class="fields">
                {field("Rate limit: so many start (empty: no limit)", "rate_count", &typed.rate.count, "/rate_limit/count")}
                {field("Within seconds", "rate_seconds", &typed.rate.per_seconds, "/rate_limit/per_seconds")}
                {field("At once (optional)", "rate_burst", &typed.rate.burst, "/rate_limit/burst")}
                {pointer_field("For each key (optional)", "rate_key", &typed.rate.key, "/rate_limit/key")}
            </div>
            <div class="fields">
                {field("First wait, seconds", "min_seconds", &typed.min_seconds, "/backoff/min_seconds")}
                {field("Multiply by", "factor", &typed.factor, "/backoff/factor")}
                {field("Longest wait, seconds (optional)", "max_seconds", &typed.max_seconds, "/backoff/max_seconds")}
            </div>
            <label class="check">
                <input type="checkbox" name="jitter" value="yes" checked=typed.jitter />
                <span>"Add jitter: each wait is up to half as long again, at random, so retries do not arrive together"</span>
            </label>
            <div class="actions">
                <button class="btn btn-primary" type="submit">
                    "Save changes"
                </button>
                <span class="sub">"Applies within a second. Items that already wait keep their time."</span>
            </div>
        </form>
    }
    .into_any()
}

fn badge(paused: bool) -> AnyView {
    let (shape, word) = if paused { ("paused", "Paused") } else { ("succeeded", "Active") };
    let icon_name = if paused { "pause" } else { "succeeded" };
    view! { <span class=format!("state s-{shape} badge")>{icon(icon_name)} " " {word}</span> }.into_any()
}

fn executor(it: &JobType) -> String {
    match it.executor.kind {
        ExecutorKind::Pull => "Pull".to_owned(),
        ExecutorKind::Push => format!("Push to {}", it.executor.url.clone().unwrap_or_default()),
        ExecutorKind::Builtin => "Built-in".to_owned(),
    }
}

fn cap(concurrency: Option<i32>) -> String {
    concurrency.map_or_else(|| "No limit".to_owned(), |cap| cap.to_string())
}

fn rate(rate: Option<&RateLimit>) -> String {
    rate.map_or_else(
        || "No limit".to_owned(),
        |rate| {
            let burst = rate.burst.map(|burst| format!(", {burst} at once")).unwrap_or_default();
            let key = rate.key.as_ref().map(|key| format!(", per {key}")).unwrap_or_default();
            format!("{} in {}{burst}{key}", rate.count, duration(rate.per_seconds as f64))
        },
    )
}

fn key_limit(limit: Option<&ConcurrencyBy>) -> String {
    limit.map_or_else(|| "No limit".to_owned(), |limit| format!("{} per {}", limit.limit, limit.key))
}

fn budget(it: &JobType) -> String {
    match it.max_failures {
        MaxFailures::AtMost(most) => most.to_string(),
        MaxFailures::Unlimited => "No limit".to_owned(),
    }
}

fn backoff(it: &JobType) -> String {
    let backoff = it.backoff;
    let most =
        backoff.max_seconds.map_or_else(|| "no longest wait".to_owned(), |max| format!("up to {}", duration(max)));
    format!("{} × {}, {most}", duration(backoff.min_seconds), backoff.factor)
}
