//! `/types`: the job types; `/types/{name}`: one type, with its activity and every setting; `/new-type`: a new one.
//!
//! All staff see them; only admins change them, and only they see the forms. A change names the version that was read,
//! so that two concurrent edits do not overwrite each other.

mod curve; // drawing of the backoff
mod form; // form of a type
mod typed; // fields of the form

use domain::{
    JobType,
    dispatch::type_limits::{ConcurrencyBy, RateLimit},
    item::MaxFailures,
    job_type::ExecutorKind,
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use crate::pages::import::new_import::templates;
use crate::pages::operator::dead_letters::rows_of;
pub use form::StoredSecrets;
pub use typed::{Typed, UNITS};

use crate::{
    address::address,
    components::{
        action_form::{ActionForm, RefusedAction, action_form_open, flash},
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
    exact_duration::length,
    frame::{NavSection, Page},
    pace::duration,
};

/// List; `admin` may add one.
pub fn list_page(types: &[JobType], admin: bool, message: Option<&str>) -> Page {
    let rows = types
        .iter()
        .map(|it| {
            view! {
                <tr role="row" data-key=it.name.clone()>
                    <th scope="row" role="rowheader" class="name">
                        <a href=format!("/types/{}", it.name)>{it.name.clone()}</a>
                    </th>
                    <td role="cell" class="fit">{badge(it.paused)}</td>
                    <td role="cell" data-label="Executor">{executor(it)}</td>
                    <td role="cell" class="num" data-label="Concurrency limit">{cap(it.concurrency)}</td>
                    <td role="cell" class="num" data-label="Max. attempts">{budget(it)}</td>
                    <td role="cell" class="wide" data-label="Backoff">{backoff(it)}</td>
                </tr>
            }
        })
        .collect_view();
    let heads = [
        Words("Job type"),
        Words("Status"),
        Words("Executor"),
        Number("Concurrency limit"),
        Number("Max. attempts"),
        Words("Backoff"),
    ];
    let table = table::frame("Job types", "types", heads, rows);
    let content = view! {
        <div class="page-head">
            <h1>"Job types"</h1>
            {admin.then(|| view! { <div class="actions"><a class="btn btn-primary" href="/new-type">{icon("plus")} "New job type"</a></div> })}
            <p class="sub">"What jobs of a kind have in common: who runs them, how many at once, and what happens when an item fails."</p>
        </div>
        {flash(message)}
        <div class="card" id="list" data-refresh="" data-topics="types">
            {table}
        </div>
    }
    .into_any();
    Page {
        title: "Job types".to_owned(),
        nav_section: NavSection::Types,
        content,
        is_live: false,
        is_translated: false,
    }
}

/// One type, and the fields of its form.
#[derive(Clone, Debug)]
pub struct JobTypePageData {
    pub job_type: JobType,
    pub history: History,
    /// Files for it can start from a template.
    pub has_template: bool,
    /// May change it.
    pub admin: bool,
    pub flash: Option<String>,
    pub typed: Typed,
    /// What is stored with a push target; empty for people who may not change it.
    pub stored_secrets: StoredSecrets,
    /// Deletion that was refused, and whether its form is open.
    pub refused: Option<RefusedAction>,
    pub open_delete: bool,
}

pub fn page(page_data: &JobTypePageData) -> Page {
    let it = &page_data.job_type;
    let name = it.name.clone();
    let verb = if it.paused { "resume" } else { "pause" };
    let pause = page_data.admin.then(|| {
        view! {
            <form method="post" action=format!("/types/{name}/{verb}")>
                <button class="btn" type="submit">{if it.paused { "Resume" } else { "Pause" }}</button>
            </form>
        }
    });
    let effect = if it.paused {
        "Nothing new starts while it is paused."
    } else {
        "Pausing starts nothing new. Items in progress finish."
    };
    breadcrumbs(&[("/types", "Job types")], name.as_str());
    let content = view! {
        <div class="stack-1" id="state" data-refresh="" data-topics="types">
            <div class="job-title">
                <h1>{name.clone()}</h1>
                {badge(it.paused)}
                <div class="actions">
                    <a class="btn" href=address("/jobs/new", &[("type", name.as_str())])>"Start a job"</a>
                    <a class="btn" href=rows_of("/jobs", List::Jobs, vec![Term::is("type", &name)])>"Jobs"</a>
                    <a class="btn" href=rows_of("/dead", List::Dead, vec![Term::is("type", &name)])>"Failures"</a>
                    {pause}
                </div>
            </div>
            {page_data.admin.then(|| note(effect))}
        </div>
        {flash(page_data.flash.as_deref())}
        {page_data.has_template.then(|| view! { <p>{templates::links(&name)}</p> })}
        <div class="stack gap-4" id="activity" data-refresh="" data-topics="overview">
            {chart::ranges(&format!("/types/{name}"), page_data.history.range)}
            <div class="grid">
                <div class="c8">{chart::throughput(&page_data.history)}</div>
                <div class="c4">{chart::durations(&page_data.history)}</div>
            </div>
        </div>
        {if page_data.admin { change(page_data) } else { settings(it) }}
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Types, content, is_live: false, is_translated: false }
}

/// Settings as text, for people who may not change them.
fn settings(it: &JobType) -> AnyView {
    let fact = |term: &'static str, value: AnyView| view! { <div><dt>{term}</dt> <dd>{value}</dd></div> };
    let retain = it.retain_seconds.map_or_else(|| "forever".to_owned(), |seconds| duration(seconds as f64));
    let steps = if it.steps.is_empty() { "none".to_owned() } else { it.steps.join(", ") };
    let facts = view! {
        <dl class="facts">
            {fact("Executor", executor(it).into_any())} {fact("Delivery", it.delivery.as_str().replace('_', " ").into_any())}
            {fact("Max. attempts", budget(it).into_any())} {fact("Concurrency limit", cap(it.concurrency).into_any())}
            {fact("Rate limit", rate(it.rate_limit.as_ref()).into_any())}
            {fact("Concurrency limit per key", key_limit(it.concurrency_by.as_ref()).into_any())}
            {fact("Takes turns by", match it.fair_by.as_deref() {
                None | Some("tree") => "job".to_owned(),
                Some(by) => by.to_owned(),
            }.into_any())}
            {fact("Backoff", backoff(it).into_any())} {fact("Heartbeat", duration(it.heartbeat_seconds).into_any())}
            {it.executor.timeout_seconds.map(|seconds| fact("Response time limit", duration(seconds).into_any()))}
            {it.run_timeout_seconds.map(|seconds| fact("Time limit per attempt", duration(seconds).into_any()))}
            {fact("Steps", steps.into_any())} {fact("Kept after completion", retain.into_any())}
            {fact("Idempotency-Key", if it.require_idempotency_key { "required" } else { "optional" }.into_any())}
            {fact("Changed", clock(it.updated_at).into_any())} {fact("Version", it.version.to_string().into_any())}
        </dl>
        {it.payload_schema.as_ref().map(|schema| view! {
            <details>
                <summary>"Payload schema"</summary>
                <pre class="document" tabindex="0">{schema.text().to_owned()}</pre>
            </details>
        })}
    }
    .into_any();
    view! { {note("Only admins change job types.")} {section("details", "Settings", facts)} }.into_any()
}

/// Page of a new type.
pub fn new_page(typed: &Typed) -> Page {
    breadcrumbs(&[("/types", "Job types")], "New job type");
    let foot = view! { <a class="btn btn-quiet" href="/types">"Discard"</a> }.into_any();
    let content = view! {
        <div class="page-head">
            <h1>"New job type"</h1>
            <p class="sub">"Only the name is required."</p>
        </div>
        {form::form(typed, "/types".to_owned(), None, foot)}
    }
    .into_any();
    Page {
        title: "New job type".to_owned(),
        nav_section: NavSection::Types,
        content,
        is_live: false,
        is_translated: false,
    }
}

/// Form, and deletion.
fn change(page_data: &JobTypePageData) -> AnyView {
    let it = &page_data.job_type;
    let delete = ActionForm {
        action: "delete",
        url: format!("/types/{}/delete", it.name),
        verb: "Delete…",
        text: view! { "Deletes the job type. Refused while jobs of it exist; pause it then." }.into_any(),
        fields: None,
        button: format!("Delete {}", it.name),
        dangerous: true,
        others: false,
    };
    let foot = view! {
        <a class="btn btn-quiet" href=format!("/types/{}", it.name)>"Discard"</a>
        <span class="end faint">{format!("Version {}, in force since ", it.version)} {clock(it.updated_at)}</span>
    }
    .into_any();
    view! {
        {form::form(&page_data.typed, format!("/types/{}", it.name), Some(&page_data.stored_secrets), foot)}
        <div class="actions">
            <a class="btn" href=format!("/new-type?from={}", it.name)>"Duplicate…"</a>
            {action_form_open(delete, page_data.refused.as_ref(), page_data.open_delete)}
        </div>
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
    let wait = |seconds: f64| length((seconds * 1_000.0).round() as u64);
    let most = backoff.max_seconds.map_or_else(|| "no longest wait".to_owned(), |max| format!("up to {}", wait(max)));
    format!("{} × {}, {most}", wait(backoff.min_seconds), backoff.factor)
}
