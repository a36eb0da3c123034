//! `/views`: the saved views that its reader may use, with the forms that change them.
//!
//! Own views are changed and deleted here; shared views of others are opened by default, and changed by admins with a
//! reason.

use domain::{
    Problem,
    id::Uuid,
    saved_view::{LONGEST_VIEW_FILTER, LONGEST_VIEW_NAME, SavedView, ViewList},
};
use leptos::prelude::*;

use crate::{
    components::{
        action_form::{flash, problem_notice, reason},
        breadcrumbs::breadcrumbs,
        form::fault,
        panel::empty,
        saved_views::{orders, path, url},
        state::icon,
    },
    frame::{NavSection, Page},
};

/// Fields of a view as typed.
#[derive(Clone, Debug, Default)]
pub struct Typed {
    pub name: String,
    pub q: String,
    pub sort: String,
    pub shared: bool,
    pub is_default: bool,
    pub reason: String,
    pub problem: Option<Problem>,
}

impl Typed {
    fn of(view: &SavedView) -> Self {
        Self {
            name: view.name.clone(),
            q: view.q.clone(),
            sort: view.sort.clone().unwrap_or_default(),
            shared: view.shared,
            is_default: view.is_default,
            ..Self::default()
        }
    }
}

/// Content of the page.
#[derive(Clone, Debug, Default)]
pub struct Views {
    /// The reader's own, by name.
    pub own: Vec<SavedView>,
    /// Those that others share.
    pub shared: Vec<SavedView>,
    pub may_share: bool,
    pub admin: bool,
    pub flash: Option<String>,
    /// View whose forms are open.
    pub open: Option<Uuid>,
    /// Refused change or deletion of the open view.
    pub refused: Option<Typed>,
    /// The deletion was refused.
    pub refused_deletion: bool,
}

const fn list_word(list: ViewList) -> &'static str {
    match list {
        ViewList::Jobs => "Jobs",
        ViewList::Items => "Items",
        ViewList::Failures => "Failures",
    }
}

pub fn page(page_data: &Views) -> Page {
    let content = if page_data.own.is_empty() && page_data.shared.is_empty() {
        let text = "Filter a list, then save it under a name: Views, at the right of the filter.";
        empty("No saved views yet", text, view! { <a class="btn" href="/jobs">"Jobs"</a> }.into_any())
    } else {
        let card = |id: &'static str, heading: &'static str, views: &[SavedView], own: bool| {
            let rows = views.iter().map(|view| row(page_data, view, own)).collect_view();
            (!views.is_empty()).then(|| {
                view! {
                    <section class="card" aria-labelledby=id>
                        <div class="card-head">
                            <h2 id=id>{heading}</h2>
                        </div>
                        <ul class="lined">{rows}</ul>
                    </section>
                }
            })
        };
        view! {
            <div class="stack gap-4">
                {card("own-views", "Your views", &page_data.own, true)}
                {card("shared-views", "Shared by others", &page_data.shared, false)}
            </div>
        }
        .into_any()
    };
    let content = view! {
        <div class="page-head">
            <h1>"Saved views"</h1>
            <p class="sub">"Filters of jobs, items, and failures under a name. They are in the menu Views of their list."</p>
        </div>
        {flash(page_data.flash.as_deref())}
        {content}
    }
    .into_any();
    Page {
        title: "Saved views".to_owned(),
        nav_section: NavSection::Elsewhere,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn row(page_data: &Views, view: &SavedView, own: bool) -> AnyView {
    let id = view.id;
    let filter = if view.q.is_empty() { "everything".to_owned() } else { view.q.clone() };
    let order = view.sort.as_deref().and_then(|sort| orders(view.list).into_iter().find(|(value, _)| *value == sort));
    let by = (!own).then(|| format!(", by {}", view.owner.name));
    let shared = (own && view.shared).then(|| view! { <span class="badge">"Shared with everyone"</span> });
    let default = view.is_default.then(|| view! { <span class="badge">"Default"</span> });
    let (button, wanted) = if view.is_default { ("No longer default", "no") } else { ("Make default", "yes") };
    let is_open = page_data.open == Some(id);
    let refused = page_data.refused.as_ref().filter(|_| is_open);
    let edit = (own || page_data.admin).then(|| {
        let typed = refused.filter(|_| !page_data.refused_deletion).cloned();
        let open = is_open && !page_data.refused_deletion;
        view! {
            <details class="action-form" open=open>
                <summary class="btn btn-sm" aria-label=format!("Edit {}", view.name)>"Edit…"</summary>
                {edit_form(page_data, view, &typed.unwrap_or_else(|| Typed::of(view)), own)}
            </details>
            {deletion(view, refused.filter(|_| page_data.refused_deletion), own)}
        }
    });
    view! {
        <li class="view-row" id=format!("view-{id}")>
            <div class="view-facts">
                <span class="two">
                    <a class="clip" href=url(view.list, &view.q, view.sort.as_deref())>{view.name.clone()}</a>
                    <span class="sub">
                        {list_word(view.list)} ": " <span class="mono xs">{filter}</span>
                        {order.map(|(_, word)| format!(", {}", word.to_lowercase()))} {by}
                    </span>
                </span>
                {default}
                {shared}
            </div>
            <div class="actions">
                <form method="post" action=format!("/views/{id}/default")>
                    <input type="hidden" name="is_default" value=wanted />
                    <button class="btn btn-sm" type="submit" aria-label=format!("{button}: {}", view.name)>{button}</button>
                </form>
                {edit}
            </div>
        </li>
    }
    .into_any()
}

fn edit_form(page_data: &Views, view: &SavedView, typed: &Typed, own: bool) -> AnyView {
    view! {
        <form class="form action-form-body" method="post" action=format!("/views/{}", view.id)>
            {typed.problem.as_ref().map(problem_notice)}
            {fields(typed, view.list, &view.id.to_string(), page_data.may_share)}
            {(!own).then(|| reason(&format!("view-{}", view.id), &typed.reason, true))}
            <div class="actions">
                <button class="btn btn-primary" type="submit">
                    "Save changes"
                </button>
            </div>
        </form>
    }
    .into_any()
}

fn deletion(view: &SavedView, refused: Option<&Typed>, own: bool) -> AnyView {
    let typed = refused.map(|typed| typed.reason.clone()).unwrap_or_default();
    let others = if view.shared { " Everyone loses it." } else { "" };
    view! {
        <details class="action-form" open=refused.is_some()>
            <summary class="btn btn-sm" aria-label=format!("Delete {}", view.name)>"Delete…"</summary>
            <form class="form action-form-body" method="post" action=format!("/views/{}/delete", view.id)>
                {refused.and_then(|typed| typed.problem.as_ref()).map(problem_notice)}
                <p>"Deletes the view, not what it shows." {others}</p>
                {(!own).then(|| reason(&format!("delete-{}", view.id), &typed, true))}
                <div class="actions">
                    <button class="btn btn-danger-solid" type="submit">
                        "Delete view"
                    </button>
                </div>
            </form>
        </details>
    }
    .into_any()
}

/// Inputs of a view. `id` tells those of several forms apart.
fn fields(typed: &Typed, list: ViewList, id: &str, may_share: bool) -> AnyView {
    let problem = typed.problem.as_ref();
    let text = |label: &'static str, name: &'static str, value: &str, most: usize, mono: bool| {
        let fault = fault(problem, &format!("/{name}"));
        let (id, fault_id) = (format!("{name}-{id}"), format!("{name}-{id}-fault"));
        view! {
            <div class="field">
                <label class="label" for=id.clone()>
                    {label}
                </label>
                <input
                    type="text"
                    id=id
                    name=name
                    class=mono.then_some("mono")
                    value=value.to_owned()
                    required=!mono
                    maxlength=most.to_string()
                    spellcheck="false"
                    autocomplete="off"
                    aria-invalid=fault.is_some().then_some("true")
                    aria-describedby=fault.is_some().then(|| fault_id.clone())
                />
                {fault.map(|fault| view! { <span class="field-error" id=fault_id>{fault}</span> })}
            </div>
        }
    };
    let options = orders(list)
        .into_iter()
        .map(|(value, word)| view! { <option value=value selected=value == typed.sort>{word}</option> })
        .collect_view();
    let share = may_share.then(|| {
        view! {
            <label class="check">
                <input type="checkbox" name="shared" value="yes" checked=typed.shared />
                <span>"Share with everyone" <span class="help">"Everyone who signs in sees its name and its filter."</span></span>
            </label>
        }
    });
    view! {
        <div class="fields">
            {text("Name", "name", &typed.name, LONGEST_VIEW_NAME, false)}
            {text("Filter", "q", &typed.q, LONGEST_VIEW_FILTER, true)}
            <div class="field">
                <label class="label" for=format!("sort-{id}")>
                    "Order"
                </label>
                <select id=format!("sort-{id}") name="sort">
                    {options}
                </select>
            </div>
        </div>
        {share}
    }
    .into_any()
}

/// Page of a view that could not be saved.
pub fn new_page(list: ViewList, typed: &Typed, may_share: bool) -> Page {
    breadcrumbs(&[(path(list), list_word(list)), ("/views", "Saved views")], "New view");
    let content = view! {
        <div class="page-head">
            <h1>"Save a view"</h1>
            <p class="sub">{format!("Of the list {}.", list_word(list))}</p>
        </div>
        <form class="card stack gap-4 card-body" method="post" action="/views">
            {typed.problem.as_ref().map(problem_notice)}
            <input type="hidden" name="list" value=list.as_str() />
            {fields(typed, list, "new", may_share)}
            <label class="check">
                <input type="checkbox" name="is_default" value="yes" checked=typed.is_default />
                <span>"Open this list with it"</span>
            </label>
            <div class="actions">
                <button class="btn btn-primary" type="submit">
                    {icon("bookmark")}
                    "Save view"
                </button>
                <a class="btn btn-quiet" href=url(list, &typed.q, Some(&typed.sort))>
                    "Discard"
                </a>
            </div>
        </form>
    }
    .into_any();
    Page {
        title: "Save a view".to_owned(),
        nav_section: NavSection::Elsewhere,
        content,
        is_live: false,
        is_translated: false,
    }
}
