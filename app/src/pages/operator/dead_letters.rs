//! `/dead`, the page Failures: items that failed for good, as error groups and as rows; one group; and `/items`: items
//! by filter.
//!
//! A group is shown by its message, with a link to its items and a button that retries all of them. The number on a
//! button is exact if groups are counted by the same conditions as the filter; otherwise the button has none, and the
//! preview counts.

mod affected;
mod groups;
mod items;
mod one_group;
mod state_forms;

use std::collections::HashMap;

use crate::speech::grouped;
use domain::{
    Item, Job,
    api::{ErrorGroup, ErrorGroupDetail},
    id::Uuid,
    query::filter::{Filter, Term, lists::List},
};
use leptos::prelude::*;

pub use groups::{GroupOrder, GroupTab};
pub use items::items_page;
pub use state_forms::{MUTE_HOURS, RefusedState};

use crate::pages::rows;
use crate::{
    components::{
        action_form::flash,
        filter_bar::{ListFilter, bar},
        panel::empty,
        selection::Selection,
        state::icon,
    },
    frame::{NavSection, Page},
};

/// Content of the pages.
#[derive(Clone, Debug)]
pub struct Items {
    pub list_filter: ListFilter,
    pub types: Vec<String>,
    /// `None` if groups are not counted by the conditions of the filter.
    pub groups: Option<Vec<ErrorGroup>>,
    /// Number of matching items, if a counter has it.
    pub exact: Option<i64>,
    pub items: Vec<Item>,
    /// Job whose items are listed, and whether those of the jobs below it are included.
    pub job: Option<(Job, bool)>,
    /// Summaries of the payloads.
    pub summaries: HashMap<Uuid, String>,
    pub next: Option<String>,
    pub first: bool,
    pub flash: Option<String>,
    /// True for readers who may change the state of groups.
    pub staff: bool,
    /// Groups that are listed, by their state.
    pub tab: GroupTab,
    pub order: GroupOrder,
    /// Failures of the listed groups in each of the last 24 hours, by type and fingerprint.
    pub sparklines: HashMap<(String, String), Vec<i64>>,
    /// The group that the filter selects, over all owners. Only for staff.
    pub detail: Option<ErrorGroupDetail>,
    /// Refused change of the group's state.
    pub refused: Option<RefusedState>,
}

impl Items {
    /// Empty page of a list.
    pub fn nothing(list_filter: ListFilter) -> Self {
        Self {
            list_filter,
            types: Vec::new(),
            groups: None,
            exact: None,
            items: Vec::new(),
            job: None,
            summaries: HashMap::new(),
            next: None,
            first: true,
            flash: None,
            staff: false,
            tab: GroupTab::default(),
            order: GroupOrder::default(),
            sparklines: HashMap::new(),
            detail: None,
            refused: None,
        }
    }

    /// Groups of the chosen tab that the page shows.
    pub fn listed_groups(&self) -> Vec<&ErrorGroup> {
        groups::listed(self)
    }
}

/// `/dead`.
pub fn page(page_data: &Items) -> Page {
    if let Some(group) = one_group::of(page_data) {
        return one_group::page(page_data, group);
    }
    let list_filter = &page_data.list_filter;
    let list = match (list_filter.fault.is_some(), page_data.items.is_empty()) {
        (true, _) => ().into_any(),
        (false, true) if groups::has_decided(page_data) => groups::card(page_data),
        (false, true) => empty_list(page_data),
        (false, false) => view! { {groups::card(page_data)} {failed(page_data)} }.into_any(),
    };
    let all = (!page_data.items.is_empty()).then(|| {
        view! { <div class="actions" id="retry-all" data-refresh="">{retry_all(page_data)}</div> }
    });
    let content = view! {
        <div class="page-head">
            <h1>"Failures"</h1>
            {all}
            <p class="sub">"Items that used all attempts, or whose error is final. They wait here for you."</p>
        </div>
        {flash(page_data.flash.as_deref())}
        {bar(list_filter, "Filter failures", &[], &page_data.types)}
        <div class="stack gap-4" id="failures" data-refresh="" data-topics="failures">
            {list}
        </div>
    }
    .into_any();
    Page { title: "Failures".to_owned(), nav_section: NavSection::Dead, content, is_live: false, is_translated: false }
}

/// Number of items that match the filter, if the groups know it.
fn total(page_data: &Items) -> Option<i64> {
    let counted = |term: &Term| matches!(term.name.as_deref(), Some("type" | "job" | "root" | "error"));
    let exact = page_data.list_filter.filter.terms.iter().all(counted);
    // A full page of groups may not be complete.
    let groups = page_data.groups.as_ref().filter(|groups| exact && groups.len() < 1_000)?;
    Some(groups.iter().map(|group| group.count).sum())
}

fn retry_all(page_data: &Items) -> AnyView {
    let button = match total(page_data) {
        Some(1) => "Retry 1 item…".to_owned(),
        Some(n) => format!("Retry all {}…", grouped(n)),
        None => "Retry all that match…".to_owned(),
    };
    preview(&page_data.list_filter.filter, button)
}

/// The card of the items.
fn failed(page_data: &Items) -> AnyView {
    let matching = Some(dead_of(&page_data.list_filter.filter).to_string());
    let selection = Selection { actions: &[("retry items", "Retry selected…")], matching, exact: total(page_data) };
    let note = match total(page_data) {
        Some(n) if n > page_data.items.len() as i64 => format!("{} of {}", page_data.items.len(), grouped(n)),
        Some(1) => "1 item".to_owned(),
        Some(n) => format!("{} items", grouped(n)),
        None => String::new(),
    };
    view! {
        <section class="card" id="rows" aria-labelledby="rows-heading">
            <div class="card-head">
                <h2 id="rows-heading">"Failed items"</h2>
                <span class="sub">{note}</span>
            </div>
            {rows::table(page_data, rows::Kind::Failed, selection)}
        </section>
    }
    .into_any()
}

/// Filter for the dead items that also match `filter`.
fn dead_of(filter: &Filter) -> Filter {
    let mut terms = vec![Term::is("state", "dead")];
    terms.extend(filter.terms.iter().filter(|term| term.name.as_deref() != Some("state")).cloned());
    terms.into()
}

/// Button for an action on all dead items of a filter: it starts a dry run.
pub(crate) fn preview(filter: &Filter, button: String) -> AnyView {
    preview_as("btn", filter, button)
}

/// The same with another class of button.
pub(crate) fn preview_as(class: &'static str, filter: &Filter, button: String) -> AnyView {
    let whole = dead_of(filter).to_string();
    view! {
        <form method="post" action="/bulk">
            <input type="hidden" name="action" value="retry" />
            <input type="hidden" name="target" value="items" />
            <input type="hidden" name="q" value=whole />
            <button class=class type="submit">
                {icon("rotate-cw")}
                <span data-retry="">{button}</span>
            </button>
        </form>
    }
    .into_any()
}

/// URL of a list with the given conditions, for links to the rows of a job or a group.
pub(crate) fn rows_of(path: &'static str, list: List, terms: Vec<Term>) -> String {
    ListFilter::nothing(list, path).link(&Filter::from(terms))
}

/// Empty page with a next page: the search limit was reached without a match.
fn no_match_yet(next: &str) -> AnyView {
    let go_on = view! {
        <a class="btn" href=next.to_owned() rel="next">
            "Search further"
        </a>
    };
    let text = "The last 20,000 items that were searched hold nothing that matches; there are more.";
    empty("No match so far", text, go_on.into_any())
}

fn empty_list(page_data: &Items) -> AnyView {
    if let Some(next) = &page_data.next {
        return no_match_yet(next);
    }
    if !page_data.first {
        let back = view! { <a class="btn" href=page_data.list_filter.link(&page_data.list_filter.filter)>"Back to the first page"</a> };
        return empty("That was the last page", "There are no more failures.", back.into_any());
    }
    if page_data.list_filter.is_empty() {
        let text = "Items that use all attempts, or whose error is final, appear here, grouped by error, with everything you need to fix and retry them.";
        return empty("Nothing has failed", text, view! { <a class="btn" href="/jobs">"See jobs"</a> }.into_any());
    }
    let clear = view! { <a class="btn" href=page_data.list_filter.everything()>"Clear filter"</a> };
    empty("No failed items match", "Someone may have retried them.", clear.into_any())
}
