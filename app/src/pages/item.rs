//! `/items/{id}`: one unit of work: its actions, state and history, reason, attempts, payload and result, and links to
//! related pages.
//!
//! Each action has its own form (`?open=retry`), which replaces the rest of the page.

mod actions;
mod answer;
mod attempts;
mod facts;
mod logs;
mod path;
mod waiting;

use crate::speech::grouped;
use domain::{
    Document, Item, ItemState,
    item::{Attempt, EndedAs, MaxFailures},
    query::topic::Topic,
};
use leptos::prelude::*;

pub use actions::{Actions, Edit};

use crate::{
    components::{
        action_form::flash,
        breadcrumbs::breadcrumbs,
        json,
        state::{icon, item_badge},
        timestamp::{ago, since},
    },
    frame::{NavSection, Page},
    job_view::ActiveItem,
};

pub fn page(item: &Item, attempts: &[Attempt], actions: &Actions) -> Page {
    let title = ActiveItem::of(item, |_| None).label;
    let form = actions::form_of(item, actions);
    let is_form = form.is_some();
    let main = form.unwrap_or_else(|| sections(item, attempts, actions));
    let job = actions.job.clone().unwrap_or_else(|| "Job".to_owned());
    let (root, job_link) = (format!("/jobs/{}", item.root_id), format!("/jobs/{}", item.job_id));
    let mut above = vec![("/jobs", "Jobs")];
    if item.root_id != item.job_id {
        above.push((&root, actions.root.as_deref().unwrap_or("Root job")));
    }
    above.push((&job_link, &job));
    let here = format!("/items/{}", item.id);
    if is_form {
        above.push((&here, &title));
    }
    breadcrumbs(&above, if is_form { "Edit" } else { &title });
    let content = view! {
        <div class="job-title">
            <h1>{title.clone()}</h1>
            <span id="state" data-refresh="">
                {item_badge(item.state)}
            </span>
            <div class="actions" id="page-actions" data-refresh="">
                {(!is_form).then(|| actions::buttons(item, actions))}
            </div>
        </div>
        {flash(actions.flash.as_deref())}
        {main}
    }
    .into_any();
    Page { title, nav_section: NavSection::Jobs, content, is_live: false, is_translated: false }
}

/// All sections about the item.
fn sections(item: &Item, attempts: &[Attempt], actions: &Actions) -> AnyView {
    view! {
        <div
            class="stack gap-4"
            id="now"
            data-refresh=""
            data-topics=Topic::Item(item.id).to_string()
            data-version=item.version.to_string()
        >
            {path::steps(item, attempts)}
            {why(item)}
            {never_again(item, actions)}
            {answer::section(item, actions)}
            {progress(item)}
        </div>
        <div class="grid" id="about" data-refresh="">
            <div class="c8 stack gap-4">
                {error(item, attempts, actions)}
                {actions.log.as_ref().map(|log| logs::card(item.id, log))}
                {answer::received(item)}
                {payload(item)}
                {step(item)}
                {item.result.as_ref().map(|result| part(item, "result", "Result", None, result, None))}
            </div>
            <div class="c4 stack gap-4">
                {attempts::card(item, attempts)}
                {facts::card(item, actions)}
                {facts::metadata(item)}
            </div>
        </div>
    }
    .into_any()
}

/// Card with a document. `note` stands beside the heading, `below` under the document.
fn part(
    item: &Item,
    id: &'static str,
    heading: &'static str,
    note: Option<String>,
    document: &Document,
    below: Option<AnyView>,
) -> AnyView {
    let doc = format!("{id}-doc");
    view! {
        <section class="card" id=id aria-labelledby=format!("{id}-heading")>
            <div class="card-head">
                <h2 id=format!("{id}-heading")>{heading}</h2>
                {note.map(|note| view! { <span class="sub">{note}</span> })}
                <div class="end">{json::copy_button(&doc, &heading.to_lowercase(), document)}</div>
            </div>
            {json::viewer(&doc, heading, document, Some(&format!("/api/v1/items/{}", item.id)))}
            {below}
        </section>
    }
    .into_any()
}

/// Progress reported by the worker, kept current by the page script.
fn progress(item: &Item) -> Option<impl IntoView + use<>> {
    item.assignment.as_ref()?;
    let progress = item.progress.as_ref();
    let (done, total) = (progress.and_then(|it| it.done), progress.and_then(|it| it.total));
    let share = match (done, total) {
        (Some(done), Some(total)) if total > 0 => (100.0 * done as f64 / total as f64).clamp(0.0, 100.0),
        _ => 0.0,
    };
    let count = done.map(|done| match total {
        Some(total) => format!("{} of {}", grouped(done), grouped(total)),
        None => grouped(done),
    });
    let message = progress.and_then(|it| it.message.clone());
    let words: Vec<String> = count.into_iter().chain(message).collect();
    Some(view! {
        <div class="item-progress" id="progress" hidden=progress.is_none()>
            <svg class="bar bar-2" aria-hidden="true" focusable="false">
                <rect class="track" width="100%" height="100%" />
                <rect class="seg seg-running" width=format!("{share:.1}%") height="100%" data-share="" />
            </svg>
            <p class="sub" data-done="">
                {words.join(" · ")}
            </p>
        </div>
    })
}

fn payload(item: &Item) -> Option<AnyView> {
    let now = item.payload.as_ref()?;
    let note = item.row.map(|row| format!("from row {} of the file", grouped(row)));
    let Some(original) = &item.original_payload else {
        return Some(part(item, "payload", "Payload", note, now, None));
    };
    let below = view! {
        <details>
            <summary class="card-sum">"Original payload"</summary>
            {json::viewer("original-doc", "Original payload", original, Some(&format!("/api/v1/items/{}", item.id)))}
        </details>
    };
    let changes = json::changes(original, now).map(|changes| {
        view! {
            <section class="card" id="changes" aria-labelledby="changes-heading">
                <div class="card-head">
                    <h2 id="changes-heading">"Changes"</h2>
                    <span class="sub">"the payload before and after it was edited"</span>
                </div>
                {changes}
            </section>
        }
    });
    let card = part(item, "payload", "Payload (edited)", note, now, Some(below.into_any()));
    Some(view! { {card} {changes} }.into_any())
}

fn step(item: &Item) -> Option<AnyView> {
    let step = item.step.as_ref()?;
    let note = format!("reached \u{201c}{}\u{201d}; the next attempt continues there", step.name);
    Some(part(item, "step", "Step", Some(note), &step.data, None))
}

/// The last error.
fn error(item: &Item, attempts: &[Attempt], actions: &Actions) -> Option<AnyView> {
    let error = item.last_error.as_ref().filter(|_| item.state != ItemState::Succeeded)?;
    let last = attempts.first();
    let failures = match item.max_failures {
        MaxFailures::AtMost(most) => format!("{} of {most} failures, ", item.failures),
        MaxFailures::Unlimited => String::new(),
    };
    let attempt = last.map(|last| format!("Attempt {}, {failures}", last.attempt));
    let worker = last.and_then(|last| last.worker_id.clone()).map(|worker| {
        view! { " on " {facts::worker(&worker, actions)} }
    });
    let sentence = (item.state == ItemState::Dead).then(|| {
        let sentence = match item.max_failures {
            _ if item.attempts == 0 => "It was never started: its payload cannot be used.".to_owned(),
            MaxFailures::AtMost(1) => "It will not be retried automatically: its only attempt failed.".to_owned(),
            MaxFailures::AtMost(most) if item.failures >= i32::try_from(most).unwrap_or(i32::MAX) => {
                format!("It will not be retried automatically: all {most} failures are used.")
            }
            _ => "It will not be retried automatically: the error was reported as final.".to_owned(),
        };
        view! { <p>{sentence}</p> }
    });
    let detail = error.detail.as_ref().map(|detail| {
        view! {
            <details open=true>
                <summary class="card-sum">"Details"</summary>
                {json::viewer("error-doc", "Details of the error", detail, None)}
            </details>
        }
    });
    let bad = if item.state == ItemState::Dead { "card card-bad" } else { "card" };
    Some(
        view! {
            <section class=bad id="error" aria-labelledby="error-heading">
                <div class="card-head">
                    <span class="bad">{icon("circle-alert")}</span>
                    <h2 class="item-error" id="error-heading">{error.message.clone()}</h2>
                </div>
                <div class="card-body stack-1 small">
                    <p class="row-wrap soft">
                        {error.kind.clone().map(|kind| view! { <span class="tag">{kind}</span> " " })}
                        <span>{attempt} {ago(error.at)} {worker}</span>
                    </p>
                    {sentence}
                </div>
                {detail}
            </section>
        }
        .into_any(),
    )
}

/// Reason for the state, in one sentence.
fn why(item: &Item) -> Option<AnyView> {
    if let Some(by) = item.superseded_by {
        return Some(
            view! {
                <div class="notice notice-info" id="superseded">
                    {icon("info")}
                    <p>"It was corrected: " <a href=format!("/items/{by}")>"the corrected row"</a> " took its place."</p>
                </div>
            }
            .into_any(),
        );
    }
    if let Some(waiting) = &item.waiting_for {
        return Some(
            view! {
                <div class="notice notice-info why">
                    {icon("scheduled")}
                    <div>
                        <strong>"Why is this waiting?"</strong>
                        <p>{waiting::sentence(item, waiting)}</p>
                    </div>
                </div>
            }
            .into_any(),
        );
    }
    if let Some(holder) = &item.assignment {
        let stopping = item.cancel_requested_at.map(|_| " It was canceled; the worker has been told to stop.");
        return Some(
            view! {
                <p class="why soft">
                    "In progress on " <span class="mono">{holder.worker_id.clone()}</span> " for " {since(holder.since)}
                    ", last heartbeat " <span data-heartbeat="">{ago(holder.last_heartbeat_at)}</span> "." {stopping}
                </p>
            }
            .into_any(),
        );
    }
    let sentence = match item.state {
        ItemState::Expired => "It expired before it could start.",
        ItemState::Cancelled => "It was canceled before it could end.",
        _ => return None,
    };
    Some(view! { <p class="why soft">{sentence}</p> }.into_any())
}

/// Why the item cannot be retried, if that is up to its job.
fn never_again(item: &Item, actions: &Actions) -> Option<AnyView> {
    let ended = matches!(item.state, ItemState::Dead | ItemState::Expired | ItemState::Cancelled);
    (ended && actions.job_canceled && item.superseded_by.is_none())
        .then(|| view! { <p class="why soft">"This item cannot be retried: its job is canceled."</p> }.into_any())
}

/// Shape and label of the outcome of an attempt.
pub(super) const fn ended(how: Option<EndedAs>) -> (&'static str, &'static str) {
    match how {
        None => ("running", "In progress"),
        Some(EndedAs::Succeeded) => ("succeeded", "Succeeded"),
        Some(EndedAs::Failed) => ("dead", "Failed"),
        Some(EndedAs::LeaseLost) => ("dead", "Worker lost"),
        Some(EndedAs::TimedOut) => ("expired", "Timed out"),
        Some(EndedAs::Released) => ("retryable", "Returned"),
        Some(EndedAs::Cancelled) => ("cancelled", "Canceled"),
        Some(EndedAs::Waiting) => ("waiting_for_event", "Waited for an event"),
    }
}
