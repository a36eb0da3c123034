//! Error groups of a job or an import: the same rows for uploaders and for staff.

use crate::speech::grouped;
use domain::{
    api::ErrorGroup,
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use super::dead_letters::{preview, rows_of};
use crate::components::{panel::note, timestamp::ago};

/// Maximum number of groups on a page; the download has every row.
const MOST: usize = 10;

/// Error groups, largest first. `dead` is the total number of dead items.
pub fn groups(groups: &[ErrorGroup], dead: i64, running: bool, plain: bool) -> AnyView {
    of(groups, dead, running, Rows { plain, linked: true, scope: None })
}

/// The same for readers who may not see single items.
pub fn unlinked(groups: &[ErrorGroup], dead: i64, running: bool) -> AnyView {
    of(groups, dead, running, Rows { plain: true, linked: false, scope: None })
}

/// The same for staff, with links to the rows of each group within `scope`.
pub fn groups_of(groups: &[ErrorGroup], dead: i64, running: bool, scope: &Term) -> AnyView {
    of(groups, dead, running, Rows { plain: false, linked: true, scope: Some(scope) })
}

/// Display options of a group.
#[derive(Clone, Copy, Debug)]
struct Rows<'a> {
    /// For uploaders: rows instead of items, and no error codes.
    plain: bool,
    /// With a link to a sample item.
    linked: bool,
    /// With a link to all items of the group within this term.
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
    let more = match groups.len().saturating_sub(MOST) {
        0 => None,
        1 => Some("1 more kind of problem is in the download.".to_owned()),
        more => Some(format!("{} more kinds of problems are in the download.", grouped(more as i64))),
    };
    view! {
        <ul class="lined problems">{rows}</ul>
        {more.map(note)}
    }
    .into_any()
}

fn one(group: &ErrorGroup, most: i64, how: Rows<'_>) -> impl IntoView + use<> {
    let Rows { plain, linked, scope } = how;
    let filter = scope
        .map(|scope| vec![scope.clone(), Term::is("error", &group.fingerprint), Term::is("type", &group.job_type)]);
    let share = format!("{:.1}%", group.count as f64 / most as f64 * 100.0);
    let unit = match (plain, group.count) {
        (true, 1) => "row",
        (true, _) => "rows",
        (false, 1) => "item",
        (false, _) => "items",
    };
    let count = grouped(group.count);
    let sample = format!("/items/{}", group.sample_item_id);
    let message = match &filter {
        Some(terms) => view! {
            <a class="issue-message" href=rows_of("/dead", List::Dead, terms.clone())>
                {group.message.clone()}
            </a>
        }
        .into_any(),
        None => view! { <p class="issue-message">{group.message.clone()}</p> }.into_any(),
    };
    let example = linked.then(|| view! { " · " <a class="hit" href=sample>"Example"</a> });
    view! {
        <li class="issue issue-brief">
            <div class="issue-text">
                {message}
                <p class="issue-meta">
                    {(!plain).then(|| group.kind.clone().map(|kind| view! { <span class="tag">{kind}</span> " " }))}
                    <span>"last seen " {ago(group.last_seen_at)}</span> {example}
                </p>
            </div>
            <svg class="bar issue-share" aria-hidden="true" focusable="false">
                <rect class="seg seg-dead" width=share height="100%" />
            </svg>
            <span class="num"><strong>{count.clone()}</strong> " " {unit}</span>
            {filter.map(|terms| view! { <div class="issue-act">{preview(&terms.into(), format!("Retry {count}"))}</div> })}
        </li>
    }
}
