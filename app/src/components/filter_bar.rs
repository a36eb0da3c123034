//! Filter bar of a list: one field in the filter language, its conditions as chips, and shortcuts.
//!
//! It is a GET form with links: the filter is part of the URL, so a page can be shared. An error in the
//! filter is shown below the field with its position, and the list is empty.

use domain::{
    query::filter::{Fault, Filter, Term, Test, lists::List},
    saved_view::ViewList,
};
use leptos::prelude::*;

use super::{
    saved_views::{self, ListViews, orders},
    state::icon,
};
use crate::address::address;

/// Filter of a list page, as typed and as parsed.
#[derive(Clone, Debug)]
pub struct ListFilter {
    pub list: List,
    /// Path of the page.
    pub path: &'static str,
    /// Text of the field.
    pub typed: String,
    /// Empty if the text has an error.
    pub filter: Filter,
    pub fault: Option<Fault>,
    /// Order, as a value of the API's `sort`; `None`: the default.
    pub sort: Option<String>,
    /// Saved views of the list.
    pub views: Option<ListViews>,
}

impl ListFilter {
    /// An empty filter: the whole list.
    pub fn nothing(list: List, path: &'static str) -> Self {
        Self { list, path, typed: String::new(), filter: Filter::default(), fault: None, sort: None, views: None }
    }

    /// URL of the page with another filter, in the same order.
    pub fn link(&self, filter: &Filter) -> String {
        let sort = self.sort.as_deref().unwrap_or_default();
        // The bare path opens with the default view.
        if filter.is_empty() && sort.is_empty() && self.views.as_ref().is_some_and(ListViews::has_default) {
            return saved_views::everything(self.path);
        }
        address(self.path, &[("q", &filter.to_string()), ("sort", sort)])
    }

    /// URL of the page with everything, in the default order.
    pub fn everything(&self) -> String {
        Self { sort: None, ..self.clone() }.link(&Filter::default())
    }

    /// True if the page shows this filter in this order.
    pub(super) fn shows(&self, q: &str, sort: Option<&str>) -> bool {
        self.fault.is_none()
            && self.sort.as_deref() == sort
            && Filter::parse(q).is_ok_and(|filter| filter == self.filter)
    }

    /// True if it also matches jobs within trees. Otherwise a list of jobs shows roots.
    pub fn is_within(&self) -> bool {
        let within = |term: &Term| matches!(term.name.as_deref(), Some("root" | "root_id" | "parent" | "id"));
        self.filter.terms.iter().any(within)
    }

    pub fn is_empty(&self) -> bool {
        self.typed.trim().is_empty()
    }
}

/// Condition as displayed: more than three ids are shown as their number.
pub fn brief(term: &Term) -> String {
    match (&term.name, &term.test) {
        (Some(name), Test::Any(words)) if name == "id" && words.len() > 3 => format!("id: {} of them", words.len()),
        _ => term.to_string(),
    }
}

/// Common filter: its label and its condition; `None` shows everything.
pub type Shortcut = (&'static str, Option<Term>);

const METADATA: &str = "metadata.team:hr";

/// The form. `shortcuts` are links into the filter; `types` are offered as a choice.
pub fn bar(list_filter: &ListFilter, label: &'static str, shortcuts: &[Shortcut], types: &[String]) -> AnyView {
    let fault = list_filter.fault.as_ref().map(|fault| {
        view! {
            <p class="field-error" id="filter-fault" role="alert">
                {icon("dead")}
                <span>{fault.to_string()}</span>
            </p>
        }
    });
    let bad = list_filter.fault.is_some();
    let clear =
        (!list_filter.is_empty()).then(|| view! { <a class="btn btn-quiet" href=list_filter.everything()>"Clear"</a> });
    let choice = (!types.is_empty()).then(|| {
        let options =
            types.iter().map(|name| view! { <option value=name.clone()>{name.clone()}</option> }).collect_view();
        view! {
            <label>
                <span class="vh">"Job type"</span>
                <select name="type">
                    <option value="">"Any job type"</option>
                    {options}
                </select>
            </label>
        }
    });
    let chosen = list_filter.sort.clone().unwrap_or_default();
    let orders = orders(ViewList::of(list_filter.list))
        .into_iter()
        .map(|(value, word)| view! { <option value=value selected=value == chosen>{word}</option> })
        .collect_view();
    let placeholder = match list_filter.list {
        List::Jobs => "Name, key, or metadata.team:hr",
        _ => "Error, payload, or type:import",
    };
    let views = list_filter.views.as_ref().map(|views| saved_views::menu(list_filter, views));
    view! {
        {links(list_filter, shortcuts)}
        <div class="filter-line">
        <form class="filters filter" method="get" action=list_filter.path role="search" aria-label=label>
            <div class="search page-search combo">
                {icon("search")} <label class="vh" for="filter">
                    "Filter"
                </label>
                <input
                    type="search"
                    name="q"
                    id="filter"
                    value=list_filter.typed.clone()
                    placeholder=placeholder
                    maxlength="2000"
                    spellcheck="false"
                    autocomplete="off"
                    autocapitalize="none"
                    aria-describedby=if bad { "filter-fault" } else { "filter-help" }
                    aria-invalid=bad.then_some("true")
                    data-names=names(list_filter.list)
                />
            </div>
            {choice}
            <label>
                <span class="vh">"Order"</span>
                <select name="sort">{orders}</select>
            </label>
            <button class="btn" type="submit">
                "Filter"
            </button>
            {clear}
        </form>
        {views}
        </div>
        {fault}
        {chips(list_filter)}
        {help(list_filter.list)}
    }
    .into_any()
}

/// Filters of the list as JSON, for the script `filter.js`.
fn names(list: List) -> String {
    #[derive(serde::Serialize)]
    struct FilterName {
        name: &'static str,
        example: &'static str,
        values: Vec<&'static str>,
    }
    let filter_names =
        list.names().iter().map(|it| FilterName { name: it.name, example: it.example, values: it.values() });
    let metadata = FilterName { name: "metadata.", example: METADATA, values: Vec::new() };
    let all: Vec<FilterName> = filter_names.chain((list == List::Jobs).then_some(metadata)).collect();
    serde_json::to_string(&all).unwrap_or_default()
}

fn links(list_filter: &ListFilter, shortcuts: &[Shortcut]) -> Option<AnyView> {
    if shortcuts.is_empty() {
        return None;
    }
    let names: Vec<String> = shortcuts.iter().filter_map(|(_, term)| term.as_ref()?.name.clone()).collect();
    let rest: Filter = list_filter
        .filter
        .terms
        .iter()
        .filter(|term| term.name.as_ref().is_none_or(|name| !names.contains(name)))
        .cloned()
        .collect::<Vec<_>>()
        .into();
    let links = shortcuts
        .iter()
        .map(|(word, term)| {
            let (there, here) = match term {
                Some(term) => (rest.with(term.clone()), list_filter.filter.has(term)),
                None => (rest.clone(), rest == list_filter.filter),
            };
            let current = (here && list_filter.fault.is_none()).then_some("true");
            view! {
                <a href=list_filter.link(&there) aria-current=current>
                    {*word}
                </a>
            }
        })
        .collect_view();
    Some(view! { <nav class="tabs" aria-label="Filters that many want">{links}</nav> }.into_any())
}

fn chips(list_filter: &ListFilter) -> Option<AnyView> {
    if list_filter.filter.is_empty() {
        return None;
    }
    let chips = list_filter
        .filter
        .terms
        .iter()
        .enumerate()
        .map(|(at, term)| {
            view! {
                <li>
                    <a class="chip" href=list_filter.link(&list_filter.filter.without(at))>
                        <span class="vh">"Remove "</span>
                        <b>{brief(term)}</b>
                        {icon("x")}
                    </a>
                </li>
            }
        })
        .collect_view();
    Some(view! { <ul class="filters chips" aria-label="Active filters">{chips}</ul> }.into_any())
}

fn help(list: List) -> AnyView {
    let examples =
        list.names().iter().map(|name| view! { <li><code class="mono">{name.example}</code></li> }).collect_view();
    let metadata = (list == List::Jobs).then(|| view! { <li><code class="mono">{METADATA}</code></li> });
    view! {
        <details class="help filter-help" id="filter-help">
            <summary>"Filters you can use"</summary>
            <p>
                "Separate filters with spaces; all of them have to match. Text without a colon is searched for. Quotation marks keep words together."
            </p>
            <ul class="examples">{examples} {metadata}</ul>
        </details>
    }
    .into_any()
}
