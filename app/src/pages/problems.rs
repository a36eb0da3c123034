//! What went wrong, in groups: the same list for the owner of a file and for staff.

use domain::{
    api::ErrorGroup,
    filter::{Term, lists::List},
    progress::grouped,
};
use leptos::prelude::*;

use super::dead::rows_of;
use crate::components::{moment::ago, panel::note, state::icon};

/// Most groups on a page; the download has every row.
const MOST: usize = 10;

/// The groups, largest first. `dead` is how many items are dead in all.
pub fn groups(groups: &[ErrorGroup], dead: i64, running: bool, plain: bool) -> AnyView {
    of(groups, dead, running, Rows { plain, linked: true, scope: None })
}

/// The same for somebody who may not see single items.
pub fn unlinked(groups: &[ErrorGroup], dead: i64, running: bool) -> AnyView {
    of(groups, dead, running, Rows { plain: true, linked: false, scope: None })
}

/// The same for staff, with the way to the rows of each: `scope` says within what.
pub fn groups_of(groups: &[ErrorGroup], dead: i64, running: bool, scope: &Term) -> AnyView {
    of(groups, dead, running, Rows { plain: false, linked: true, scope: Some(scope) })
}

/// How a group is shown.
#[derive(Clone, Copy)]
struct Rows<'a> {
    /// For uploaders: rows, not items, and no kinds of error.
    plain: bool,
    /// With the way to an item that is an example.
    linked: bool,
    /// With the way to all of them, within this.
    scope: Option<&'a Term>,
}

fn of(groups: &[ErrorGroup], dead: i64, running: bool, how: Rows<'_>) -> AnyView {
    if groups.is_empty() {
        let text = match (dead, running) {
            (0, true) => "Nothing has failed so far.",
            (0, false) => "Nothing failed.",
            _ => "The failures are being counted.",
        };
        return note(text);
    }
    let most = groups.iter().map(|group| group.count).max().unwrap_or(1).max(1);
    let rows = groups.iter().take(MOST).map(|group| one(group, most, how)).collect_view();
    let more = groups.len().saturating_sub(MOST);
    view! {
        <ol class="problems">{rows}</ol>
        {(more > 0)
            .then(|| note(format!("{} more kinds of problems are in the download.", grouped(more as i64))))}
    }
    .into_any()
}

fn one(group: &ErrorGroup, most: i64, how: Rows<'_>) -> impl IntoView + use<> {
    let Rows { plain, linked, scope } = how;
    let rows = scope.map(|scope| {
        let terms = vec![scope.clone(), Term::is("error", &group.fingerprint), Term::is("type", &group.job_type)];
        view! { <a href=rows_of("/dead", List::Dead, terms)>"show them"</a> }
    });
    let share = format!("{:.1}%", group.count as f64 / most as f64 * 100.0);
    let unit = match (plain, group.count) {
        (true, 1) => "row",
        (true, _) => "rows",
        (false, 1) => "item",
        (false, _) => "items",
    };
    view! {
        <li class="problem">
            <p class="problem-count">
                {icon("dead")} " " <strong>{grouped(group.count)}</strong> " " {unit}
            </p>
            <div class="problem-text">
                <p class="problem-message">
                    {(group.count > 1).then(|| view! { <span class="sub">"for example: "</span> })} {group.message.clone()}
                </p>
                <svg class="bar bar-thin problem-share" aria-hidden="true" focusable="false">
                    <rect class="seg seg-dead" width=share height="100%" />
                </svg>
                <p class="sub">
                    {(!plain).then(|| group.kind.clone().map(|kind| view! { <span class="mono">{kind}</span> " · " }))}
                    "last " {ago(group.last_seen_at)}
                    {rows.map(|rows| view! { " · " {rows} })}
                    {linked
                        .then(|| {
                            view! {
                                " · "
                                <a href=format!("/items/{}", group.sample_item_id)>"see one"</a>
                            }
                        })}
                </p>
            </div>
        </li>
    }
}
