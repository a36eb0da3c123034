//! Menu of the saved views of a list: links to them, and a form that saves the filter and the order of this page.
//!
//! Plain links and a plain form inside `<details>`. Names and filters were typed by people and are always text.

use domain::saved_view::{LONGEST_VIEW_NAME, SavedView, ViewList};
use leptos::prelude::*;

use super::{filter_bar::ListFilter, state::icon};
use crate::address::address;

/// Saved views of a list that its reader may use.
#[derive(Clone, Debug, Default)]
pub struct ListViews {
    /// The reader's own, by name.
    pub own: Vec<SavedView>,
    /// Those that others share.
    pub shared: Vec<SavedView>,
    /// May share views with everyone.
    pub may_share: bool,
}

impl ListViews {
    fn all(&self) -> impl Iterator<Item = &SavedView> {
        self.own.iter().chain(&self.shared)
    }

    /// True if the list opens with one of them.
    pub fn has_default(&self) -> bool {
        self.all().any(|view| view.is_default)
    }
}

/// Path of the page of a list.
pub const fn path(list: ViewList) -> &'static str {
    match list {
        ViewList::Jobs => "/jobs",
        ViewList::Items => "/items",
        ViewList::Failures => "/dead",
    }
}

/// Everything in a list, also if it opens with a view.
pub fn everything(path: &str) -> String {
    address(path, &[("view", "all")])
}

/// URL of a list with a filter and an order; never the bare path, which opens the default view.
pub fn url(list: ViewList, q: &str, sort: Option<&str>) -> String {
    let sort = sort.unwrap_or_default();
    if q.is_empty() && sort.is_empty() {
        return everything(path(list));
    }
    address(path(list), &[("q", q), ("sort", sort)])
}

const ORDERS: [(&str, &str); 3] =
    [("-job", "Newest jobs first"), ("-created_at", "Newest first"), ("created_at", "Oldest first")];

/// Words of the orders of a list; the default has no value.
pub fn orders(list: ViewList) -> Vec<(&'static str, &'static str)> {
    let word = |value: &str| ORDERS.iter().find(|(order, _)| *order == value).map_or("", |(_, word)| *word);
    list.orders().iter().enumerate().map(|(at, value)| (if at == 0 { "" } else { *value }, word(value))).collect()
}

/// The menu.
pub(super) fn menu(list_filter: &ListFilter, views: &ListViews) -> AnyView {
    let list = ViewList::of(list_filter.list);
    let current = views.all().find(|view| list_filter.shows(&view.q, view.sort.as_deref()));
    let label = current.map_or_else(|| "Views".to_owned(), |view| view.name.clone());
    let current = current.map(|view| view.id);
    let group = |heading: &'static str, views: &[SavedView]| {
        let links = views
            .iter()
            .map(|view| {
                let here = (Some(view.id) == current).then_some("true");
                let by =
                    (heading != OWN).then(|| view! { <span class="end faint xs">{view.owner.name.clone()}</span> });
                let default = view.is_default.then(|| view! { <span class="end faint xs">"default"</span> });
                view! {
                    <li>
                        <a class="menu-item row" href=url(list, &view.q, view.sort.as_deref()) aria-current=here>
                            {icon(if here.is_some() { "check" } else { "bookmark" })}
                            <span class="clip">{view.name.clone()}</span>
                            {default}
                            {by}
                        </a>
                    </li>
                }
            })
            .collect_view();
        (!views.is_empty()).then(|| view! { <p class="menu-head">{heading}</p> <ul>{links}</ul> })
    };
    let everything = views.has_default().then(|| {
        view! {
            <a class="menu-item row" href=everything(list_filter.path)>
                {icon("list-filter")}
                "Everything"
            </a>
        }
    });
    let save = list_filter.fault.is_none().then(|| save(list_filter, list, views.may_share));
    let rule = save.is_some().then(|| view! { <div class="menu-rule"></div> });
    view! {
        <details class="menu views-menu" id="views-menu">
            <summary class="btn">
                {icon("bookmark")}
                <span class="vh">"Saved views: "</span>
                <span class="clip">{label}</span>
                {icon("chevron-down")}
            </summary>
            <div class="menu-list">
                {group(OWN, &views.own)}
                {group("Shared with everyone", &views.shared)}
                {everything}
                {(views.all().next().is_some()).then_some(rule)}
                {save}
                <div class="menu-rule"></div>
                <a class="menu-item row" href="/views">
                    {icon("pencil")}
                    "Manage saved views"
                </a>
            </div>
        </details>
    }
    .into_any()
}

const OWN: &str = "Your views";

/// Form that saves the page as a view.
fn save(list_filter: &ListFilter, list: ViewList, may_share: bool) -> AnyView {
    let share = may_share.then(|| {
        view! {
            <label class="check">
                <input type="checkbox" name="shared" value="yes" />
                <span>"Share with everyone"</span>
            </label>
        }
    });
    view! {
        <form class="menu-form" method="post" action="/views">
            <input type="hidden" name="list" value=list.as_str() />
            <input type="hidden" name="q" value=list_filter.filter.to_string() />
            <input type="hidden" name="sort" value=list_filter.sort.clone().unwrap_or_default() />
            <label class="label" for="view-name">
                "Save this view as"
            </label>
            <input
                type="text"
                id="view-name"
                name="name"
                required=true
                maxlength=LONGEST_VIEW_NAME.to_string()
                autocomplete="off"
            />
            {share}
            <label class="check">
                <input type="checkbox" name="is_default" value="yes" />
                <span>"Open this list with it"</span>
            </label>
            <button class="btn btn-primary btn-sm" type="submit">
                "Save view"
            </button>
        </form>
    }
    .into_any()
}
