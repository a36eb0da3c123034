//! `/bulk`, the page Operations: bulk actions on items or jobs. Contains the list, the form for a new operation,
//! and the page of one operation.
//!
//! Every operation starts as a dry run, which counts exactly and shows a sample. The page of the dry run has the form
//! that starts the real operation, over the same filter with every age resolved to a timestamp.

mod new_operation;
mod operation;
mod skip_reasons;
mod start_form;

use crate::speech::grouped;
use domain::{
    api::{BulkAction, BulkOperation, BulkState, BulkTarget},
    query::filter::{Filter, lists::List},
};
use leptos::prelude::*;

pub use new_operation::{NewOperationForm, new_page};
pub use operation::{OperationPageData, edit, page};
pub use start_form::Edited;

use crate::{
    components::{
        filter_bar::brief,
        panel::{empty, next_page},
        state::icon,
        table::{
            self,
            Head::{Number, Words},
        },
        timestamp::ago,
    },
    frame::{NavSection, Page},
};

/// `/bulk`.
pub fn list_page(operations: &[BulkOperation], next: Option<&String>, first: bool) -> Page {
    let list = if operations.is_empty() {
        let next_step = view! { <a class="btn" href="/dead">"Review failures"</a> }.into_any();
        if first {
            let text =
                "Actions on many items or jobs at once appear here: who did it, why, and what became of each one.";
            empty("No operations yet", text, next_step)
        } else {
            empty("That was the last page", "There are no older operations.", ().into_any())
        }
    } else {
        table(operations, next)
    };
    let content = view! {
        <div class="page-head">
            <h1>"Operations"</h1>
            <div class="actions">
                <a class="btn btn-primary" href="/bulk/new">
                    {icon("plus")}
                    "New operation"
                </a>
            </div>
            <p class="sub">"Actions on many items or jobs at once: who did it, why, and what became of each one."</p>
        </div>
        <div class="stack gap-4" id="list" data-refresh="" data-topics="operations">
            {list}
        </div>
    }
    .into_any();
    Page {
        title: "Operations".to_owned(),
        nav_section: NavSection::Bulk,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn table(operations: &[BulkOperation], next: Option<&String>) -> AnyView {
    let rows = operations.iter().map(row).collect_view();
    let heads = [
        Words("Operation"),
        Words("Status"),
        Words("Progress"),
        Number("Skipped"),
        Words("Reason"),
        Words("By"),
        Number("Started"),
    ];
    let table = table::frame("Operations", "cards operations", heads, rows);
    view! {
        <section class="card" aria-label="Operations">
            {table}
        </section>
        {next_page(next, "Older operations")}
    }
    .into_any()
}

fn row(one: &BulkOperation) -> impl IntoView + use<> {
    let progress = if one.dry_run {
        view! { <span class="faint">"\u{2013}"</span> }.into_any()
    } else {
        let percent = percent(one);
        view! { <span class="meter">{bar(one, "bar")} <span class="num">{format!("{percent}%")}</span></span> }
            .into_any()
    };
    view! {
        <tr role="row" data-key=one.id.to_string()>
            <th scope="row" role="rowheader" class="name">
                <span class="two">
                    <a href=format!("/bulk/{}", one.id)>{name(one)}</a>
                    <span class="mono clip">{filter_text(&filter(one))}</span>
                </span>
            </th>
            <td role="cell" class="fit">{badge(one)}</td>
            <td role="cell" class="bar-cell">{progress}</td>
            <td role="cell" class="num" data-label="Skipped">{grouped(skipped(one))}</td>
            <td role="cell" class="wide" data-label="Reason">
                {one.reason.clone().map(|reason| view! { <span class="soft clamp">{reason}</span> })}
            </td>
            <td role="cell" class="wide-only" data-label="By">{one.owner.name.clone()}</td>
            <td role="cell" class="num" data-label="Started">{ago(one.created_at)}</td>
        </tr>
    }
}

/// Steps of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    Choose,
    Preview,
    Run,
}

/// The three steps of an operation, with the current one marked.
fn stages(here: Stage) -> AnyView {
    let steps = [(Stage::Choose, "Choose"), (Stage::Preview, "Preview"), (Stage::Run, "Run")].map(|(stage, word)| {
        let class = (stage < here).then_some("is-done");
        view! { <li class=class aria-current=(stage == here).then_some("step")><span>{word}</span></li> }
    });
    view! { <ol class="steps" aria-label="Steps">{steps.collect_view()}</ol> }.into_any()
}

/// Percentage of members that are processed, skipped or failed; 100 only if all are.
fn percent(one: &BulkOperation) -> i64 {
    let done = one.processed + skipped(one) + one.errored;
    if one.total == 0 || done >= one.total { 100 } else { (done * 100 / one.total).clamp(0, 99) }
}

/// Bar with processed, skipped, failed and remaining members.
fn bar(one: &BulkOperation, class: &'static str) -> AnyView {
    let whole = one.total.max(1) as f64;
    let share = |n: i64| n as f64 / whole * 100.0;
    let skipped = skipped(one);
    let mut from = 0.0;
    let parts = [("succeeded", one.processed), ("cancelled", skipped), ("dead", one.errored)]
        .into_iter()
        .filter(|(_, n)| *n > 0)
        .map(|(shape, n)| {
            let (x, width) = (from, share(n));
            from += width;
            let fill = (shape == "cancelled").then_some("url(#p-cancelled)");
            view! {
                <rect class=format!("seg seg-{shape}") fill=fill x=format!("{x:.2}%") width=format!("{width:.2}%") height="100%" />
            }
        })
        .collect_view();
    let (done, all) = (one.processed + skipped + one.errored, things(one.target, one.total));
    view! {
        <svg
            class=class
            role="progressbar"
            aria-label=format!("Progress of {}", name(one))
            aria-valuemin="0"
            aria-valuemax="100"
            aria-valuenow=percent(one).to_string()
            aria-valuetext=format!("{} of {all} done", grouped(done))
        >
            <rect class="track" width="100%" height="100%" />
            {parts}
        </svg>
    }
    .into_any()
}

/// Shape and label of the state of an operation.
fn badge(one: &BulkOperation) -> AnyView {
    let (shape, word) = state(one);
    view! { <span class=format!("state state-{shape} s-{shape} badge")>{icon(shape)} " " {word}</span> }.into_any()
}

/// Name of an operation: its verb and its objects, with their number.
fn name(one: &BulkOperation) -> String {
    format!("{} {}", verb(one), things(one.target, one.total))
}

/// Title of an operation, which its number does not change.
fn title(one: &BulkOperation) -> String {
    format!("{} {}", verb(one), if one.target == BulkTarget::Items { "items" } else { "jobs" })
}

fn verb(one: &BulkOperation) -> &'static str {
    match (one.action, one.dry_run) {
        (BulkAction::Retry, false) => "Retry",
        (BulkAction::Cancel, false) => "Cancel",
        (BulkAction::Delete, false) => "Delete",
        (BulkAction::Retry, true) => "Preview: retry",
        (BulkAction::Cancel, true) => "Preview: cancel",
        (BulkAction::Delete, true) => "Preview: delete",
    }
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

fn state(one: &BulkOperation) -> (&'static str, String) {
    let errors = |n: i64| if n == 1 { "Done, 1 error".to_owned() } else { format!("Done, {} errors", grouped(n)) };
    match one.state {
        BulkState::Counting => ("running", "Counting".to_owned()),
        BulkState::Ready => ("available", "Preview".to_owned()),
        BulkState::Running => ("running", "In progress".to_owned()),
        BulkState::Completed if one.errored > 0 => ("partial", errors(one.errored)),
        BulkState::Completed => ("succeeded", "Done".to_owned()),
        BulkState::Cancelling => ("cancelled", "Stopping".to_owned()),
        BulkState::Cancelled => ("cancelled", "Stopped".to_owned()),
    }
}

fn skipped(one: &BulkOperation) -> i64 {
    one.skipped.iter().map(|skip| skip.count).sum()
}

/// List whose filter language the operation uses.
pub const fn list_of(target: BulkTarget) -> List {
    match target {
        BulkTarget::Items => List::Items,
        BulkTarget::Jobs => List::Jobs,
    }
}

/// Filter of the operation in the filter language.
fn filter(one: &BulkOperation) -> Filter {
    Filter::of_parameters(list_of(one.target), &parameters(one))
}

/// Filter as displayed text.
fn filter_text(filter: &Filter) -> String {
    filter.terms.iter().map(brief).collect::<Vec<_>>().join(" ")
}

/// Filter of the operation as parameters of the list.
fn parameters(one: &BulkOperation) -> Vec<(String, String)> {
    use domain::document::pointer::{elements, members};
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
