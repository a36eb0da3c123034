//! `/items`: items by filter.

use domain::{
    Job,
    id::Uuid,
    query::{
        filter::{Filter, Term, Test, lists::List},
        topic::Topic,
    },
};
use leptos::prelude::*;

use super::{Items, no_match_yet, rows_of};
use crate::{
    components::{
        action_form::flash,
        bar::{Size, still_bar},
        breadcrumbs::breadcrumbs,
        filter_bar::{ListFilter, bar},
        panel::empty,
        selection::Selection,
        state::job_badge,
    },
    frame::{NavSection, Page},
    job_view::display_name,
    meter::Meter,
    pages::rows::{self, Kind},
};

/// `/items`.
pub fn items_page(page_data: &Items) -> Page {
    let list_filter = &page_data.list_filter;
    let state = |word: &str| Some(Term::is("state", word));
    let shortcuts = [
        ("All", None),
        ("Waiting", state("available")),
        ("In progress", state("running")),
        ("Waiting for an event", state("waiting_for_event")),
        ("Retrying", state("retryable")),
        ("Failed", state("dead")),
        ("Succeeded", state("succeeded")),
    ];
    let list = if list_filter.fault.is_some() {
        ().into_any()
    } else if page_data.items.is_empty() {
        none(page_data)
    } else {
        let actions = &[("retry items", "Retry selected…"), ("cancel items", "Cancel selected…")];
        let matching = (!list_filter.filter.is_empty()).then(|| list_filter.filter.to_string());
        let table = rows::table(page_data, Kind::Any, Selection { actions, matching, exact: page_data.exact });
        view! { <section class="card" aria-label="Items">{table}</section> }.into_any()
    };
    let (title, head) = if let Some((job, whole_tree)) = &page_data.job {
        let name = display_name(job);
        breadcrumbs(&[("/jobs", "Jobs"), (&format!("/jobs/{}", job.id), &name)], "Items");
        (format!("Items of {name}"), job_head(job, *whole_tree, &name))
    } else {
        breadcrumbs(&[("/jobs", "Jobs")], "Items");
        let head = view! {
            <div class="page-head">
                <h1>"Items"</h1>
                <p class="sub">"Every unit of work."</p>
            </div>
        };
        ("Items".to_owned(), head.into_any())
    };
    let content = view! {
        {head}
        {flash(page_data.flash.as_deref())}
        {bar(list_filter, "Filter items", &shortcuts, &page_data.types)}
        {list_filter.fault.is_some().then(|| elsewhere(&list_filter.typed))}
        <div class="stack gap-4" id="list" data-refresh="" data-topics=topics_of(list_filter)>
            {list}
        </div>
    }
    .into_any();
    Page { title, nav_section: NavSection::Jobs, content, is_live: false, is_translated: false }
}

/// Name, state, and progress of the job whose items are listed, with the link back to it.
fn job_head(job: &Job, whole_tree: bool, name: &str) -> AnyView {
    let (meter, state) = if whole_tree {
        (Meter::of_tree(job), (job.tree.status, job.tree.outcome))
    } else {
        (Meter::of_job(job), (job.status, job.outcome))
    };
    view! {
        <div class="stack gap-3" id="job" data-refresh="">
            <div class="job-title">
                <h1>"Items of " {name.to_owned()}</h1>
                {job_badge(Signal::stored(state))}
                <div class="actions">
                    <a class="btn" href=format!("/jobs/{}", job.id)>
                        "Back to the job"
                    </a>
                </div>
            </div>
            <div class="row hero-bar">
                {still_bar(meter, Size::Middle, format!("Progress of {name}"))}
                <span class="num meter-number">{meter.number()}</span>
            </div>
        </div>
    }
    .into_any()
}

fn none(page_data: &Items) -> AnyView {
    let clear = view! { <a class="btn" href=page_data.list_filter.everything()>"Clear filter"</a> };
    match (page_data.list_filter.is_empty(), &page_data.next, page_data.first) {
        (_, Some(next), _) => view! { {no_match_yet(next)} {elsewhere(&page_data.list_filter.typed)} }.into_any(),
        (true, None, true) => empty("No items yet", "Items appear here as soon as a job has some.", ().into_any()),
        _ => view! {
            {empty("No items match", "Remove a condition, or search elsewhere.", clear.into_any())}
            {elsewhere(&page_data.list_filter.typed)}
        }
        .into_any(),
    }
}

/// Links that search for the same text in failures and in jobs. `None` without text.
fn elsewhere(typed: &str) -> Option<AnyView> {
    let filter = Filter::parse(typed).ok()?;
    let texts: Vec<Term> = filter.terms.iter().filter(|term| term.name.is_none()).cloned().collect();
    let Test::Any(_) = &texts.first()?.test else { return None };
    let words: Vec<String> = texts.iter().map(ToString::to_string).collect();
    let words = words.join(" ");
    let key = Term::is("dedupe_key", words.trim_matches('"'));
    Some(
        view! {
            <div class="notice notice-info" id="elsewhere">
                <div>
                    <strong>"Search for " <q>{words}</q> " elsewhere"</strong>
                    <p>"Payloads and errors are searched within a job, or among the items that failed."</p>
                    <p class="row-wrap">
                        <a class="btn btn-sm" href=rows_of("/dead", List::Dead, texts.clone())>"Search failed items"</a>
                        <a class="btn btn-sm" href=rows_of("/jobs", List::Jobs, texts)>"Search jobs"</a>
                        <a class="btn btn-sm" href=rows_of("/items", List::Items, vec![key])>"Items with this key"</a>
                    </p>
                </div>
            </div>
        }
        .into_any(),
    )
}

/// Topic on which the list is refreshed: its job or tree; otherwise the failures.
fn topics_of(list_filter: &ListFilter) -> String {
    let named = |name: &str| {
        let term = list_filter.filter.terms.iter().find(|term| term.name.as_deref() == Some(name) && !term.not)?;
        let Test::Any(ids) = &term.test else { return None };
        let [id] = ids.as_slice() else { return None };
        Uuid::parse_str(id).ok().map(|id| Topic::Job(id).to_string())
    };
    named("job").or_else(|| named("root")).unwrap_or_else(|| "failures roots".to_owned())
}
