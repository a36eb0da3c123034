//! `/dead`: what failed for good, groups of errors first, then the items; and `/items`: any items by filter.
//!
//! From a group a person goes to its rows, to one of them, or to all of them at once. The number on a button is
//! the exact one where the filter is one that groups are counted by, else there is none: the preview counts.

use domain::{
    Item,
    api::ErrorGroup,
    filter::{Filter, Term, Test, lists::List},
    id::Uuid,
    progress::grouped,
    topic::Topic,
};
use leptos::prelude::*;

use super::rows;
use crate::{
    components::{
        asking::{Asked, bar},
        deed::told,
        moment::ago,
        panel::{empty, note, section},
        selection::Selection,
        state::icon,
    },
    frame::{Page, Place},
};

/// What the pages show.
#[derive(Clone, Debug)]
pub struct Items {
    pub asked: Asked,
    pub types: Vec<String>,
    /// `None` where groups are not counted by what the filter asks.
    pub groups: Option<Vec<ErrorGroup>>,
    /// How many match, where counters tell.
    pub exact: Option<i64>,
    pub items: Vec<Item>,
    pub next: Option<String>,
    pub first: bool,
    pub did: Option<String>,
}

/// `/dead`.
pub fn page(shown: &Items) -> Page {
    let asked = &shown.asked;
    let list = match (asked.fault.is_some(), shown.items.is_empty()) {
        (true, _) => ().into_any(),
        (false, true) => nothing_dead(shown),
        (false, false) => view! { {groups(shown)} {section("rows", "Items", failed_rows(shown))} }.into_any(),
    };
    let content = view! {
        <div class="page-head">
            <h1>"Failures"</h1>
        </div>
        {told(shown.did.as_deref())}
        {bar(asked, "Filter failures", &[], &shown.types)}
        <div class="bare" id="failures" data-refresh="" data-topics="failures">
            {list}
        </div>
    }
    .into_any();
    Page { title: "Failures".to_owned(), place: Place::Dead, content, lives: false }
}

/// `/items`.
pub fn items_page(shown: &Items) -> Page {
    let asked = &shown.asked;
    let state = |word: &str| Some(Term::is("state", word));
    let shortcuts = [
        ("All", None),
        ("Waiting", state("available")),
        ("Running", state("running")),
        ("Retrying", state("retryable")),
        ("Dead", state("dead")),
        ("Succeeded", state("succeeded")),
    ];
    let list = if asked.fault.is_some() {
        ().into_any()
    } else if shown.items.is_empty() {
        let clear = view! { <a class="button" href="/items">"Clear the filter"</a> }.into_any();
        match (asked.is_empty(), &shown.next, shown.first) {
            (_, Some(next), _) => looked(next),
            (true, None, true) => empty("No items yet", "Items appear here as soon as a job has some.", ().into_any()),
            _ => empty("Nothing matches", "No item fits this filter. Take a condition out of it, or clear it.", clear),
        }
    } else {
        let deeds = &[("retry items", "Retry selected…"), ("cancel items", "Cancel selected…")];
        let matching = (!asked.filter.is_empty()).then(|| asked.filter.to_string());
        rows::table(&shown.items, shown.next.as_ref(), Selection { deeds, matching, exact: shown.exact })
    };
    let content = view! {
        <p class="crumbs">
            <a href="/jobs">"Jobs"</a>
        </p>
        <div class="page-head">
            <h1>"Items"</h1>
        </div>
        {bar(asked, "Filter items", &shortcuts, &shown.types)}
        <div class="bare" id="list" data-refresh="" data-topics=topics_of(asked)>
            {list}
        </div>
    }
    .into_any();
    Page { title: "Items".to_owned(), place: Place::Jobs, content, lives: false }
}

/// The topic that a list of items changes with: its job or tree; otherwise the failures.
fn topics_of(asked: &Asked) -> String {
    let named = |name: &str| {
        let term = asked.filter.terms.iter().find(|term| term.name.as_deref() == Some(name) && !term.not)?;
        let Test::Any(ids) = &term.test else { return None };
        let [id] = ids.as_slice() else { return None };
        Uuid::parse_str(id).ok().map(|id| Topic::Job(id).to_string())
    };
    named("job").or_else(|| named("root")).unwrap_or_else(|| "failures roots".to_owned())
}

/// A page may be empty and have a next one: it looked at as many rows as a page may, and none of them matched.
fn looked(next: &str) -> AnyView {
    let go_on = view! {
        <a class="button" href=next.to_owned() rel="next">
            "Look further"
        </a>
    };
    empty("Nothing so far", "The first 20,000 rows hold nothing that matches. There are more.", go_on.into_any())
}

fn nothing_dead(shown: &Items) -> AnyView {
    if let Some(next) = &shown.next {
        return looked(next);
    }
    if !shown.first {
        let back = view! { <a class="button" href=shown.asked.link(&shown.asked.filter)>"Back to the first page"</a> };
        return empty("That was the last page", "There are no more failures.", back.into_any());
    }
    if shown.asked.is_empty() {
        let text =
            "What fails for good waits here for a person: with the reason, the payload, and a button to try it again.";
        return empty("Nothing has failed", text, view! { <a href="/jobs">"See the jobs"</a> }.into_any());
    }
    let clear = view! { <a class="button" href="/dead">"Clear the filter"</a> };
    empty("Nothing matches", "No dead item fits this filter. It may have been retried meanwhile.", clear.into_any())
}

/// How many items the filter meets, where the groups tell. Those of a job count what is below it, too.
fn total(shown: &Items) -> Option<i64> {
    let counted = |term: &Term| matches!(term.name.as_deref(), Some("type" | "root" | "error"));
    let exact = shown.asked.filter.terms.iter().all(counted);
    // A page of groups that is full may not be all of them.
    let groups = shown.groups.as_ref().filter(|groups| exact && groups.len() < 1_000)?;
    Some(groups.iter().map(|group| group.count).sum())
}

fn groups(shown: &Items) -> AnyView {
    let Some(groups) = &shown.groups else {
        let text = "Groups of errors are counted by job, type, error and message. This filter asks for more, so there are only the items.";
        return note(text);
    };
    if groups.is_empty() {
        return note("No error message has this text; the items below have it in their payloads.");
    }
    let lines = groups.iter().take(MOST).map(|group| one(shown, group)).collect_view();
    let more = groups.len().saturating_sub(MOST);
    let more = (more > 0).then(|| {
        note(format!("{} smaller groups are not shown. Narrow the filter to see them.", grouped(more as i64)))
    });
    section("groups", "By error", view! { <ol class="problems error-groups">{lines}</ol> {more} }.into_any())
}

/// Groups on a page.
const MOST: usize = 20;

fn one(shown: &Items, group: &ErrorGroup) -> impl IntoView + use<> {
    let asked = &shown.asked;
    let this = asked.filter.with(Term::is("error", &group.fingerprint)).with(Term::is("type", &group.job_type));
    let here = this == asked.filter.with(Term::is("type", &group.job_type));
    // Within a job or a tree the count is not that of the event.
    let is_whole = asked.filter.terms.iter().all(|term| matches!(term.name.as_deref(), Some("type" | "error")));
    let count = grouped(group.count);
    let items = if group.count == 1 { "item" } else { "items" };
    let rows = (!here).then(|| view! { <a href=format!("{}#rows", asked.link(&this))>"show them"</a> " · " });
    view! {
        <li
            class="problem"
            data-key=format!("{} {}", group.job_type, group.fingerprint)
            data-group=is_whole.then(|| format!("{} {}", group.job_type, group.fingerprint))
        >
            <p class="problem-count">
                {icon("dead")} " " <strong data-count="">{count.clone()}</strong> " " {items}
            </p>
            <div class="problem-text">
                <p class="problem-message">{group.message.clone()}</p>
                <p class="sub">
                    {group.kind.clone().map(|kind| view! { <span class="mono">{kind}</span> " · " })}
                    <span>{group.job_type.clone()}</span> " · first " {ago(group.first_seen_at)} " · last "
                    <span data-last="">{ago(group.last_seen_at)}</span>
                </p>
                <p class="sub">
                    {rows} <a href=format!("/items/{}", group.sample_item_id)>"see one"</a>
                </p>
            </div>
            {preview(&this, format!("Retry {}", if group.count == 1 { "it…".to_owned() } else { format!("all {count}…") }))}
        </li>
    }
}

fn failed_rows(shown: &Items) -> AnyView {
    let button = match total(shown) {
        Some(1) => "Retry the one that matches…".to_owned(),
        Some(n) => format!("Retry all {} that match…", grouped(n)),
        None => "Retry all that match…".to_owned(),
    };
    let matching = Some(dead_of(&shown.asked.filter).to_string());
    let selection = Selection { deeds: &[("retry items", "Retry selected…")], matching, exact: total(shown) };
    view! {
        <div class="actions">
            {preview(&shown.asked.filter, button)}
            <span class="sub">"First a preview with the exact count; nothing is done before you say why."</span>
        </div>
        {rows::table(&shown.items, shown.next.as_ref(), selection)}
    }
    .into_any()
}

/// The dead items of a filter.
fn dead_of(filter: &Filter) -> Filter {
    let mut terms = vec![Term::is("state", "dead")];
    terms.extend(filter.terms.iter().filter(|term| term.name.as_deref() != Some("state")).cloned());
    terms.into()
}

/// The way to do something to all dead items of a filter: it begins with a dry run.
pub(super) fn preview(filter: &Filter, button: String) -> AnyView {
    let whole = dead_of(filter).to_string();
    view! {
        <form method="post" action="/bulk">
            <input type="hidden" name="action" value="retry" />
            <input type="hidden" name="target" value="items" />
            <input type="hidden" name="q" value=whole />
            <button type="submit">{button}</button>
        </form>
    }
    .into_any()
}

/// Nothing asked yet, for the address of a job's or a group's rows.
pub(super) fn rows_of(path: &'static str, list: List, terms: Vec<Term>) -> String {
    Asked::nothing(list, path).link(&Filter::from(terms))
}
