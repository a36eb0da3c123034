//! Tree of jobs as a treegrid: one line per job with its own bar and exact counts.
//!
//! Focus moves by row (arrows, Home, End); Right and Left expand and collapse. Before the island is hydrated all
//! lines are expanded and the links work, so the page is readable without it.

use crate::speech::grouped;
use std::collections::HashSet;

use domain::id::Uuid;
use leptos::{ev::KeyboardEvent, prelude::*, tachys::html::attribute::custom::custom_attribute};

use super::signals::{KeyedSignal, LiveSignals};
use crate::{
    components::{
        bar::{Size, bar},
        state::{icon, job_badge},
    },
    job_view::Line,
};

/// Collapsed rows. One per tree.
#[derive(Clone, Copy)]
struct CollapsedRows(RwSignal<HashSet<Uuid>>);

/// Renders the lines of the tree.
pub fn tree(signals: LiveSignals) -> impl IntoView {
    let collapsed = CollapsedRows(RwSignal::new(HashSet::new()));
    let left_out = move || signals.left_out.get();
    view! {
        <div class="table-wrap" tabindex="0" role="region" aria-label="Tree">
            <table class="table cards tree" role="treegrid" aria-label="Jobs of this tree" on:keydown=move |event| handle_key(&event, collapsed)>
                <thead role="rowgroup">
                    <tr role="row">
                        <th scope="col" role="columnheader">"Job"</th>
                        <th scope="col" role="columnheader" class="fit">"Status"</th>
                        <th scope="col" role="columnheader" class="bar-cell">"Progress"</th>
                        <th scope="col" role="columnheader" class="num">"Done"</th>
                        <th scope="col" role="columnheader" class="num">"Failed"</th>
                        <th scope="col" role="columnheader" class="num">"In progress"</th>
                        <th scope="col" role="columnheader" class="num">"All"</th>
                    </tr>
                </thead>
                <tbody role="rowgroup">
                    <For each=move || signals.lines.get() key=|entry| entry.id children=move |entry| row(signals, collapsed, entry) />
                </tbody>
            </table>
        </div>
        <p class="card-foot" hidden=move || left_out() == 0>
            {move || {
                let (n, are) = match left_out() {
                    1 => ("1 more job".to_owned(), "is"),
                    n => (format!("{} more jobs", grouped(n as i64)), "are"),
                };
                format!("{n} {are} not shown here. Open a job above to see what is below it.")
            }}
        </p>
    }
}

fn row(signals: LiveSignals, collapsed: CollapsedRows, entry: KeyedSignal<Line>) -> impl IntoView {
    let id = entry.id;
    let line = RwSignal::from(entry.value_signal);
    let first = line.get_untracked();
    let ancestors = ancestors(signals, first.parent_id);
    let hidden = move || collapsed.0.with(|collapsed| ancestors.iter().any(|above| collapsed.contains(above)));
    let open = move || !collapsed.0.with(|collapsed| collapsed.contains(&id));
    let count = move |of: fn(&Line) -> i64| move || grouped(line.with(of));
    let root = first.level == 1;
    view! {
        <tr
            role="row"
            id=format!("job-{id}")
            class=format!("level-{}", first.level.min(8))
            tabindex=if root { "0" } else { "-1" }
            {..custom_attribute("aria-level", first.level.to_string())}
            aria-posinset=first.place.0.to_string()
            aria-setsize=first.place.1.to_string()
            aria-expanded=move || first.parent.then(|| if open() { "true" } else { "false" })
            hidden=hidden
        >
            <th scope="row" role="rowheader" class="name">
                <span class="lv row">
                    {indent(first.level)}
                    {first
                        .parent
                        .then(|| {
                            view! {
                                <button
                                    class="expander"
                                    type="button"
                                    tabindex="-1"
                                    aria-label=format!("Open or close {}", first.name)
                                    on:click=move |_| toggle(collapsed, id)
                                >
                                    {icon("chevron-down")}
                                </button>
                            }
                        })}
                    {(!first.parent).then(|| view! { <span class="expander"></span> })}
                    <span class="two">
                        <a href=format!("/jobs/{id}")>{first.name.clone()}</a>
                        <span hidden=first.name == first.job_type>{first.job_type.clone()}</span>
                    </span>
                </span>
            </th>
            <td role="gridcell" class="fit">{job_badge(Signal::derive(move || line.with(|l| (l.status, l.outcome))))}</td>
            <td role="gridcell" class="bar-cell">
                <span class="meter row">
                    {bar(Signal::derive(move || line.with(|l| l.meter)), Size::Middle, format!("Progress of {}", first.name))}
                    <span class="num meter-number">{move || line.with(|l| l.meter.number())}</span>
                </span>
            </td>
            <td role="gridcell" class="num" data-label="Done">{count(|l| l.meter.counts.succeeded)}</td>
            <td role="gridcell" class="num" data-label="Failed">{count(|l| l.meter.counts.dead)}</td>
            <td role="gridcell" class="num" data-label="In progress">{count(|l| l.meter.counts.running)}</td>
            <td role="gridcell" class="num" data-label="All">{count(|l| l.meter.counts.total())}</td>
        </tr>
    }
}

/// One empty element per level: the lines that connect a job to its descendants.
fn indent(level: u16) -> impl IntoView {
    (1..level.min(8)).map(|_| view! { <i></i> }).collect_view()
}

/// Ancestors of a job, as far as they are shown.
fn ancestors(signals: LiveSignals, parent: Option<Uuid>) -> Vec<Uuid> {
    signals.lines.with_untracked(|lines| {
        let mut above = Vec::new();
        let mut next = parent;
        while let Some(id) = next.filter(|id| !above.contains(id)) {
            above.push(id);
            next = lines
                .iter()
                .find(|entry| entry.id == id)
                .and_then(|entry| entry.value_signal.with_untracked(|line| line.parent_id));
        }
        above
    })
}

fn toggle(collapsed: CollapsedRows, id: Uuid) {
    collapsed.0.update(|collapsed| {
        if !collapsed.remove(&id) {
            collapsed.insert(id);
        }
    });
}

#[cfg(feature = "hydrate")]
fn handle_key(event: &KeyboardEvent, collapsed: CollapsedRows) {
    use wasm_bindgen::JsCast;
    use web_sys::{Element, HtmlElement};

    let Some(target) = event.target().and_then(|target| target.dyn_into::<Element>().ok()) else { return };
    let Ok(Some(row)) = target.closest("tbody tr") else { return };
    let is_visible = |row: &Element| !row.has_attribute("hidden");
    let neighbor = |from: &Element, forward: bool| {
        let step = |row: &Element| if forward { row.next_element_sibling() } else { row.previous_element_sibling() };
        std::iter::successors(step(from), step).find(is_visible)
    };
    let level =
        |row: &Element| row.get_attribute("aria-level").and_then(|level| level.parse::<u16>().ok()).unwrap_or(1);
    let id = row.id().strip_prefix("job-").and_then(|id| Uuid::parse_str(id).ok());
    let expanded = row.get_attribute("aria-expanded");
    let body = row.parent_element();
    let to = match event.key().as_str() {
        "ArrowDown" => neighbor(&row, true),
        "ArrowUp" => neighbor(&row, false),
        "Home" => body.and_then(|body| body.first_element_child()),
        "End" => body
            .and_then(|body| body.last_element_child())
            .and_then(|last| if is_visible(&last) { Some(last) } else { neighbor(&last, false) }),
        "ArrowRight" if expanded.as_deref() == Some("false") => {
            id.inspect(|&id| toggle(collapsed, id));
            Some(row.clone())
        }
        "ArrowRight" if expanded.as_deref() == Some("true") => neighbor(&row, true),
        "ArrowLeft" if expanded.as_deref() == Some("true") => {
            id.inspect(|&id| toggle(collapsed, id));
            Some(row.clone())
        }
        "ArrowLeft" => std::iter::successors(row.previous_element_sibling(), Element::previous_element_sibling)
            .find(|above| level(above) < level(&row)),
        "Enter" if target == row => {
            if let Ok(Some(link)) = row.query_selector("a") {
                link.unchecked_into::<HtmlElement>().click();
            }
            None
        }
        _ => return,
    };
    event.prevent_default();
    if let Some(to) = to.and_then(|to| to.dyn_into::<HtmlElement>().ok()) {
        let _ = row.set_attribute("tabindex", "-1");
        let _ = to.set_attribute("tabindex", "0");
        let _ = to.focus();
    }
}

#[cfg(not(feature = "hydrate"))]
const fn handle_key(_event: &KeyboardEvent, _collapsed: CollapsedRows) {}
