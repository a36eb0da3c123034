//! `/items/{id}`: one unit of work: where it stands and how it came there, why, every attempt, its payload, and
//! what can be done to it.

mod deeds;
mod path;

use domain::{
    Document, Item, ItemState,
    item::{Attempt, EndedAs, MaxFailures},
    progress::grouped,
    topic::Topic,
};
use leptos::prelude::*;

pub use deeds::{Deeds, Edit};

use crate::{
    components::{
        deed::told,
        moment::{ago, clock, since},
        panel::{note, section},
        state::{icon, item_badge},
    },
    frame::{Page, Place},
    reading::Flight,
};

/// Most characters of a document on a page; the API has all of it.
pub(super) const MOST: usize = 20_000;

pub fn page(item: &Item, attempts: &[Attempt], deeds: &Deeds) -> Page {
    let title = Flight::of(item, |_| None).label;
    let why = why(item);
    let error = item.last_error.as_ref().filter(|_| item.state != ItemState::Succeeded).map(|error| {
        view! {
            <div class="notice notice-bad">
                {icon("dead")}
                <div>
                    <strong>{error.message.clone()}</strong>
                    <p class="sub">
                        {error.kind.clone().map(|kind| view! { <span class="mono">{kind}</span> " · " })} {ago(error.at)}
                    </p>
                    {error.detail.as_ref().map(document)}
                </div>
            </div>
        }
    });
    let tree = (item.root_id != item.job_id).then(|| {
        view! {
            <a href=format!("/jobs/{}", item.root_id)>"its tree"</a>
            " / "
        }
    });
    let content = view! {
        <p class="crumbs">
            <a href="/jobs">"Jobs"</a>
            " / "
            {tree}
            <a href=format!("/jobs/{}", item.job_id)>"its job"</a>
        </p>
        <div class="page-head">
            <h1>{title.clone()}</h1>
            <span id="state" data-refresh="">
                {item_badge(item.state)}
            </span>
        </div>
        {told(deeds.did.as_deref())}
        <div
            class="bare"
            id="now"
            data-refresh=""
            data-topics=Topic::Item(item.id).to_string()
            data-version=item.version.to_string()
        >
            {path::drawing(item, attempts)}
            {why.map(|why| view! { <p class="why">{why}</p> })}
            {progress(item)}
            {error}
        </div>
        <div class="bare" id="ways-on" data-refresh="">
            {deeds::section_of(item, deeds)}
        </div>
        <div class="bare" id="about" data-refresh="">
        {payload(item)}
        {item.step.as_ref().map(|step| {
            let name = view! { <p>"Reached " <span class="mono">{step.name.clone()}</span> "; a later attempt begins there."</p> };
            section("step", "Step", view! { {name} {document(&step.data)} }.into_any())
        })}
        {item.result.as_ref().map(|result| section("result", "Result", document(result)))}
        {section("attempts", "Attempts", history(item, attempts))}
        {section("details", "Details", facts(item))}
        </div>
    }
    .into_any();
    Page { title, place: Place::Jobs, content, lives: false }
}

/// How far its worker is, which the page's script keeps up to date.
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
        <div id="progress" hidden=progress.is_none()>
            <svg class="bar bar-thin" aria-hidden="true" focusable="false">
                <rect class="seg seg-running" width=format!("{share:.1}%") height="100%" />
            </svg>
            <p class="sub" data-done="">
                {words.join(" · ")}
            </p>
        </div>
    })
}

fn payload(item: &Item) -> Option<AnyView> {
    let now = item.payload.as_ref()?;
    let original = item.original_payload.as_ref().map(|original| {
        view! {
            <details>
                <summary>"As it came, before it was edited"</summary>
                {document(original)}
            </details>
        }
    });
    Some(section(
        "payload",
        if original.is_some() { "Payload, edited" } else { "Payload" },
        view! { {document(now)} {original} }.into_any(),
    ))
}

/// Why it is where it is, in one sentence.
fn why(item: &Item) -> Option<AnyView> {
    if let Some(waiting) = &item.waiting_for {
        let reason = match waiting.reason.as_str() {
            "retry" => "It failed and will be tried again",
            "run_after" => "It is not to start before its time",
            "after" => "It waits for other jobs of its tree",
            "serialize_key" => "An older item with the same serialize key goes first",
            "paused" => "Its job type is paused",
            "concurrency" => "As many items of its type as are allowed are in work",
            _ => "It is waiting for a worker",
        };
        let detail = waiting.detail.clone().map(|detail| format!(": {}", detail.trim_end_matches('.')));
        let until = waiting.until.map(|at| view! { ", at " {clock(at)} });
        return Some(view! { <strong>"Why is it not running? "</strong> {reason} {detail} {until} "." }.into_any());
    }
    if let Some(holder) = &item.assignment {
        let stopping = item.cancel_requested_at.map(|_| " It was cancelled; the worker has been told to stop.");
        return Some(
            view! {
                "In work at " <span class="mono">{holder.worker_id.clone()}</span> " for " {since(holder.since)} ", last heard of "
                <span data-beat="">{ago(holder.last_heartbeat_at)}</span> "." {stopping}
            }
            .into_any(),
        );
    }
    let sentence = match item.state {
        ItemState::Dead => "It will not be tried again by itself. A person can retry it.",
        ItemState::Expired => "Its time passed before it could start.",
        ItemState::Cancelled => "It was cancelled before it could end.",
        _ => return None,
    };
    Some(sentence.into_any())
}

fn history(item: &Item, attempts: &[Attempt]) -> AnyView {
    let budget = match item.max_failures {
        MaxFailures::AtMost(most) => format!("{} of {most} allowed failures used.", item.failures),
        MaxFailures::Unlimited => format!("{} failures; it is tried for ever.", item.failures),
    };
    if attempts.is_empty() {
        return note(format!("No attempt has been made. {budget}"));
    }
    let rows = attempts
        .iter()
        .map(|attempt| {
            let (shape, word) = ended(attempt.ended_as);
            view! {
                <tr>
                    <th scope="row" class="number">{attempt.attempt}</th>
                    <td><span class=format!("state state-{shape}")>{icon(shape)} " " {word}</span></td>
                    <td>{attempt.error.as_ref().map(|error| error.message.clone())}</td>
                    <td class="mono">{attempt.worker_id.clone()}</td>
                    <td>{attempt.started_at.map(clock)}</td>
                    <td>{attempt.ended_at.map(clock)}</td>
                </tr>
            }
        })
        .collect_view();
    view! {
        <div class="scroll" tabindex="0" role="region" aria-label="Attempts">
            <table class="table">
                <thead>
                    <tr>
                        <th scope="col" class="number">"Attempt"</th>
                        <th scope="col">"Ended"</th>
                        <th scope="col">"Reason"</th>
                        <th scope="col">"Worker"</th>
                        <th scope="col">"From"</th>
                        <th scope="col">"To"</th>
                    </tr>
                </thead>
                <tbody>{rows}</tbody>
            </table>
        </div>
        <p class="sub">{budget}</p>
    }
    .into_any()
}

pub(super) const fn ended(how: Option<EndedAs>) -> (&'static str, &'static str) {
    match how {
        None => ("running", "in work"),
        Some(EndedAs::Succeeded) => ("succeeded", "succeeded"),
        Some(EndedAs::Failed) => ("dead", "failed"),
        Some(EndedAs::LeaseLost) => ("dead", "worker lost"),
        Some(EndedAs::TimedOut) => ("expired", "timed out"),
        Some(EndedAs::Released) => ("retryable", "given back"),
        Some(EndedAs::Cancelled) => ("cancelled", "cancelled"),
    }
}

fn facts(item: &Item) -> AnyView {
    let fact = |term: &'static str, value: AnyView| view! { <div class="fact"><dt>{term}</dt> <dd>{value}</dd></div> };
    let mono = |value: String| view! { <span class="mono">{value}</span> }.into_any();
    let empty_metadata = matches!(item.metadata.text(), "{}" | "null");
    view! {
        <dl class="details">
            {fact("Id", mono(item.id.to_string()))} {fact("Type", mono(item.job_type.clone()))}
            {fact("Added", clock(item.created_at).into_any())}
            {item.run_after.map(|at| fact("Not before", clock(at).into_any()))}
            {item.expires_at.map(|at| fact("Not after", clock(at).into_any()))}
            {item.finished_at.map(|at| fact("Ended", clock(at).into_any()))}
            {(item.priority != 0).then(|| fact("Priority", mono(item.priority.to_string())))}
            {item.serialize_key.clone().map(|key| fact("Serialize key", mono(key)))}
            {item.dedupe_key.clone().map(|key| fact("Dedupe key", mono(key)))}
            {item.fed_by.map(|id| fact("Fed by", view! { <a href=format!("/items/{id}")>"an item of the parent"</a> }.into_any()))}
        </dl>
        {(!empty_metadata).then(|| document(&item.metadata))}
    }
    .into_any()
}

/// A user's document as it came.
fn document(document: &Document) -> AnyView {
    let text = document.text();
    let shown: String = text.chars().take(MOST).collect();
    let cut = shown.len() < text.len();
    view! {
        <pre class="document" tabindex="0">{shown}</pre>
        {cut.then(|| note("Cut here; the API gives all of it."))}
    }
    .into_any()
}
