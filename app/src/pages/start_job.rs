//! `/jobs/new`: starts a job by hand. A type is chosen, then one or several items are typed, as fields that come from
//! the type's payload schema or as JSON.
//!
//! Plain GET and POST forms. Buttons that add or remove an item, or change the way of typing, show the page again with
//! everything that was typed; so does a refusal.

mod inputs; // inputs of a payload

use std::collections::BTreeMap;

use domain::Problem;
use leptos::prelude::*;

pub use self::inputs::{InputKind, PayloadField};
use crate::{
    components::{
        action_form::{field_fault, problem_notice},
        breadcrumbs::breadcrumbs,
        form::Field,
        panel::empty,
        state::icon,
        text_area::text_area,
    },
    frame::{NavSection, Page},
};

/// Maximum number of items of one form.
pub const MOST_ITEMS: usize = 50;

/// An item as typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypedItem {
    /// Texts of the fields by name; an unchecked box is absent.
    pub values: BTreeMap<String, String>,
    /// Payload as JSON text.
    pub json: String,
}

/// The form as typed.
#[derive(Clone, Debug, Default)]
pub struct StartForm {
    /// Types that can be chosen.
    pub job_types: Vec<String>,
    /// Chosen type; empty if none is.
    pub job_type: String,
    /// The type is paused.
    pub paused: bool,
    /// Fields of a payload; empty if its schema names none.
    pub fields: Vec<PayloadField>,
    /// Payloads are typed as JSON.
    pub as_json: bool,
    pub items: Vec<TypedItem>,
    /// Idempotency-Key of this form: a second click does not start a second job.
    pub key: String,
    pub name: String,
    pub dedupe_key: String,
    pub priority: String,
    pub run_after: String,
    pub problem: Option<Problem>,
}

pub fn page(form: &StartForm) -> Page {
    breadcrumbs(&[("/jobs", "Jobs")], "Start a job");
    let content = if form.job_types.is_empty() {
        let text = "A job type says who does the work. Once there is one, its jobs can be started here.";
        let types = view! { <a class="btn" href="/types">"Job types"</a> }.into_any();
        empty("There are no job types yet", text, types)
    } else {
        let rest = (!form.job_type.is_empty()).then(|| start_form(form));
        view! { {chooser(form)} {rest} }.into_any()
    };
    let content = view! {
        <div class="page-head">
            <h1>"Start a job"</h1>
            <p class="sub">"Choose a job type and enter the items to work on."</p>
        </div>
        {content}
    }
    .into_any();
    Page {
        title: "Start a job".to_owned(),
        nav_section: NavSection::Jobs,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn chooser(form: &StartForm) -> AnyView {
    let options = form
        .job_types
        .iter()
        .map(|name| {
            view! {
                <option value=name.clone() selected=*name == form.job_type>
                    {name.clone()}
                </option>
            }
        })
        .collect_view();
    let button = if form.job_type.is_empty() { "Continue" } else { "Change" };
    view! {
        <form class="filters" method="get" action="/jobs/new" aria-label="Job type">
            <label class="label" for="type">
                "Job type"
            </label>
            <select id="type" name="type" class="start-type">
                {options}
            </select>
            <button class=if form.job_type.is_empty() { "btn btn-primary" } else { "btn" } type="submit">
                {button}
            </button>
        </form>
    }
    .into_any()
}

fn start_form(form: &StartForm) -> AnyView {
    let paused = form.paused.then(|| {
        view! {
            <div class="notice notice-warn">
                {icon("pause")}
                <p>
                    {form.job_type.clone()}
                    " is paused. The job can be created; its items start when someone resumes the type."
                </p>
            </div>
        }
    });
    let items = (0..form.items.len()).map(|at| item_row(form, at)).collect_view();
    let count = form.items.len();
    let way = (!form.fields.is_empty()).then(|| {
        let (word, to) = if form.as_json { ("Use fields", "fields") } else { ("Edit as JSON", "json") };
        view! {
            <button class="btn" type="submit" name="do" value=to formnovalidate>
                {word}
            </button>
        }
    });
    let more = (count < MOST_ITEMS).then(|| {
        view! {
            <button class="btn" type="submit" name="do" value="add" formnovalidate>
                {icon("plus")}
                "Add item"
            </button>
        }
    });
    let submit = if count == 1 { "Start job".to_owned() } else { format!("Start job with {count} items") };
    let problem = form.problem.as_ref();
    view! {
        {paused}
        <form class="card lined start-form" id="start" method="post" action="/jobs">
            // The first button is the one that the Enter key presses.
            <button class="vh" type="submit" tabindex="-1" aria-hidden="true">
                "Start job"
            </button>
            {problem.map(|problem| view! { <div class="card-body">{problem_notice(problem)}</div> })}
            {items}
            <div class="card-body"><div class="actions">{more} {way}</div></div>
            {options_row(form)}
            <div class="card-foot form-foot">
                <input type="hidden" name="type" value=form.job_type.clone() />
                <input type="hidden" name="key" value=form.key.clone() />
                <input type="hidden" name="items" value=count.to_string() />
                {form.as_json.then(|| view! { <input type="hidden" name="json" value="yes" /> })}
                <button class="btn btn-primary" type="submit">
                    {icon("play")}
                    {submit}
                </button>
                <a class="btn btn-quiet" href="/jobs">
                    "Discard"
                </a>
            </div>
        </form>
    }
    .into_any()
}

/// One item with its inputs.
fn item_row(form: &StartForm, at: usize) -> AnyView {
    let (item, problem) = (&form.items[at], form.problem.as_ref());
    let pointer = format!("/items/{at}/payload");
    let number = at + 1;
    let inputs = if form.as_json {
        let (id, fault_id, help_id) = (format!("item-{at}"), format!("item-{at}-fault"), format!("item-{at}-help"));
        let fault = field_fault(problem, &pointer, &fault_id);
        let bad = fault.is_some();
        let describes = if bad { format!("{help_id} {fault_id}") } else { help_id.clone() };
        view! {
            <div class="field">
                <label class="label" for=id.clone()>
                    "Payload, as JSON"
                </label>
                {text_area(&id, format!("item.{at}"), &item.json, &describes, bad)}
                <span class="help" id=help_id>
                    "Numbers are kept exactly as you write them."
                </span>
                {fault}
            </div>
        }
        .into_any()
    } else {
        let fields =
            form.fields.iter().enumerate().map(|(place, field)| field.view(at, place, item, problem)).collect_view();
        view! { <div class="fields start-fields">{fields}</div> }.into_any()
    };
    let remove = (form.items.len() > 1).then(|| {
        view! {
            <button
                class="btn btn-sm"
                type="submit"
                name="do"
                value=format!("remove-{at}")
                formnovalidate
                aria-label=format!("Remove item {number}")
            >
                "Remove"
            </button>
        }
    });
    view! {
        <div class="form-row" role="group" aria-labelledby=format!("item-{at}-heading")>
            <div>
                <h2 id=format!("item-{at}-heading")>{format!("Item {number}")}</h2>
                {remove}
            </div>
            <div class="stack">{inputs}</div>
        </div>
    }
    .into_any()
}

/// Options of the job, all with a default.
fn options_row(form: &StartForm) -> AnyView {
    let problem = form.problem.as_ref();
    let name = Field::new("Name (optional)", "name", "text")
        .optional()
        .value(&form.name)
        .hint("Shown in the list of jobs instead of the type.")
        .judged(problem, "/name");
    let dedupe_key = Field::new("Dedupe key (optional)", "dedupe_key", "text")
        .optional()
        .value(&form.dedupe_key)
        .hint("While a job with this key exists, no second one is created.")
        .judged(problem, "/dedupe_key");
    let priority = Field::new("Priority (optional)", "priority", "text")
        .optional()
        .value(&form.priority)
        .hint("From -100 to 100. Items with a higher one go first.")
        .judged(problem, "/priority");
    let run_after = Field::new("Start after (optional)", "run_after", "text")
        .optional()
        .value(&form.run_after)
        .hint("A time such as 2026-12-01T12:00:00Z. Empty: at once.")
        .judged(problem, "/run_after");
    view! {
        <div class="form-row">
            <div>
                <h2>"Options"</h2>
                <p>"They apply to the whole job."</p>
            </div>
            <div class="stack">
                <div class="fields">{name.view()} {dedupe_key.view()}</div>
                <div class="fields">{priority.view()} {run_after.view()}</div>
            </div>
        </div>
    }
    .into_any()
}
