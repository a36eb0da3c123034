//! `/bulk`: deeds over many. The list of them; one that is asked for; one as it goes.
//!
//! It always begins with a dry run, which counts exactly and shows some of what would be met. Its page has the
//! form that begins the real one, over the same filter with every age already a point in time.

mod begin;
mod one;

use domain::{
    api::{BulkAction, BulkOperation, BulkState, BulkTarget},
    filter::{Filter, lists::List},
    progress::grouped,
};
use leptos::prelude::*;

pub use begin::{Asking, new_page};
pub use one::{Shown, edit, page};

use crate::{
    components::{
        asking::brief,
        moment::ago,
        panel::{empty, next_page},
        state::icon,
        table::{
            self,
            Head::{Number, Words},
        },
    },
    frame::{Page, Place},
};

/// `/bulk`.
pub fn list_page(operations: &[BulkOperation], next: Option<&String>, first: bool) -> Page {
    let list = if operations.is_empty() {
        let way = view! { <a class="button" href="/dead">"See what failed"</a> }.into_any();
        if first {
            empty(
                "No operations yet",
                "What is done to many at once is listed here: who did it, why, and what became of each.",
                way,
            )
        } else {
            empty("That was the last page", "There are no older operations.", ().into_any())
        }
    } else {
        table(operations, next)
    };
    let content = view! {
        <div class="page-head">
            <h1>"Operations"</h1>
            <a class="button" href="/bulk/new">
                "New operation"
            </a>
        </div>
        <div class="bare" id="list" data-refresh="" data-topics="operations">
            {list}
        </div>
    }
    .into_any();
    Page { title: "Operations".to_owned(), place: Place::Bulk, content, lives: false }
}

fn table(operations: &[BulkOperation], next: Option<&String>) -> AnyView {
    let rows = operations
        .iter()
        .map(|one| {
            let (shape, word) = state(one);
            view! {
                <tr role="row" data-key=one.id.to_string()>
                    <th scope="row" role="rowheader">
                        <a href=format!("/bulk/{}", one.id)>{name(one)}</a>
                        " "
                        <span class="sub mono">{told(&filter(one))}</span>
                    </th>
                    <td role="cell"><span class=format!("state state-{shape}")>{icon(shape)} " " {word}</span></td>
                    <td role="cell" class="number" data-label="Found">{grouped(one.total)}</td>
                    <td role="cell" class="number" data-label="Done">{grouped(one.processed)}</td>
                    <td role="cell" class="number" data-label="Skipped">{grouped(skipped(one))}</td>
                    <td role="cell" data-label="By">{one.owner.name.clone()}</td>
                    <td role="cell" data-label="Begun">{ago(one.created_at)}</td>
                </tr>
            }
        })
        .collect_view();
    let next = next_page(next, "Older operations");
    let heads = [
        Words("Operation"),
        Words("State"),
        Number("Found"),
        Number("Done"),
        Number("Skipped"),
        Words("By"),
        Words("Begun"),
    ];
    let table = table::frame("Operations", "operations", heads, rows);
    view! {
        {table}
        {next}
    }
    .into_any()
}

/// What it is called: the verb and what it is done to.
fn name(one: &BulkOperation) -> String {
    let verb = match (one.action, one.dry_run) {
        (BulkAction::Retry, false) => "Retry",
        (BulkAction::Cancel, false) => "Cancel",
        (BulkAction::Delete, false) => "Delete",
        (BulkAction::Retry, true) => "Preview: retry",
        (BulkAction::Cancel, true) => "Preview: cancel",
        (BulkAction::Delete, true) => "Preview: delete",
    };
    format!("{verb} {}", things(one.target, one.total))
}

/// `12,431 items`, `1 job`.
fn things(target: BulkTarget, n: i64) -> String {
    let word = match (target, n) {
        (BulkTarget::Items, 1) => "item",
        (BulkTarget::Items, _) => "items",
        (BulkTarget::Jobs, 1) => "job",
        (BulkTarget::Jobs, _) => "jobs",
    };
    format!("{} {word}", grouped(n))
}

fn state(one: &BulkOperation) -> (&'static str, &'static str) {
    match one.state {
        BulkState::Counting => ("running", "counting"),
        BulkState::Ready => ("available", "preview"),
        BulkState::Running => ("running", "running"),
        BulkState::Completed if one.errored > 0 => ("partial", "completed"),
        BulkState::Completed => ("succeeded", "completed"),
        BulkState::Cancelling => ("cancelled", "stopping"),
        BulkState::Cancelled => ("cancelled", "stopped"),
    }
}

fn skipped(one: &BulkOperation) -> i64 {
    one.skipped.iter().map(|skip| skip.count).sum()
}

/// The list whose filters an operation speaks.
pub const fn list_of(target: BulkTarget) -> List {
    match target {
        BulkTarget::Items => List::Items,
        BulkTarget::Jobs => List::Jobs,
    }
}

/// Its filter in the filter language.
fn filter(one: &BulkOperation) -> Filter {
    Filter::of_parameters(list_of(one.target), &parameters(one))
}

/// A filter as it is shown.
fn told(filter: &Filter) -> String {
    filter.terms.iter().map(brief).collect::<Vec<_>>().join(" ")
}

/// Its filter as parameters of the list.
fn parameters(one: &BulkOperation) -> Vec<(String, String)> {
    use domain::document::walk::{elements, members};
    let text = |value: &str| serde_json::from_str::<String>(value).unwrap_or_else(|_| value.to_owned());
    let mut pairs = Vec::new();
    for (name, value) in members(one.filter.text()).unwrap_or_default() {
        if let Some(inner) = members(value).filter(|_| name == "metadata") {
            pairs.extend(inner.into_iter().map(|(inner, value)| (format!("metadata.{inner}"), text(value))));
        } else if let Some(words) = elements(value) {
            pairs.push((name, words.into_iter().map(text).collect::<Vec<_>>().join(",")));
        } else if value != "null" {
            pairs.push((name, text(value)));
        }
    }
    pairs
}
