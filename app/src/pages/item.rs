//! `/items/{id}`: one unit of work: where it stands, why, and every attempt.

use domain::{
    Document, Item, ItemState,
    item::{Attempt, EndedAs, MaxFailures},
};
use leptos::prelude::*;

use crate::{
    components::{
        moment::{ago, clock},
        panel::{note, section},
        state::{icon, item_badge},
    },
    frame::{Page, Place},
    reading::Flight,
};

/// Most characters of a document on a page; the API has all of it.
const MOST: usize = 20_000;

pub fn page(item: &Item, attempts: &[Attempt]) -> Page {
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
    let content = view! {
        <p class="crumbs">
            <a href="/jobs">"Jobs"</a>
            " / "
            <a href=format!("/jobs/{}", item.job_id)>"its job"</a>
        </p>
        <div class="page-head">
            <h1>{title.clone()}</h1>
            {item_badge(item.state)}
        </div>
        {why.map(note)}
        {error}
        {item.payload.as_ref().map(|payload| section("payload", "Payload", document(payload)))}
        {item.result.as_ref().map(|result| section("result", "Result", document(result)))}
        {section("attempts", "Attempts", history(item, attempts))}
    }
    .into_any();
    Page { title, place: Place::Jobs, content, lives: false }
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
            _ => "No worker has asked for it yet",
        };
        let detail = waiting.detail.clone().map(|detail| format!(": {detail}"));
        let until = waiting.until.map(|at| view! { ", until " {clock(at)} });
        return Some(view! { {reason} {detail} {until} "." }.into_any());
    }
    let sentence = match item.state {
        ItemState::Dead => "It will not be tried again by itself. A person can retry it.",
        ItemState::Expired => "Its time passed before it could start.",
        ItemState::Running if item.cancel_requested_at.is_some() => {
            "It was cancelled; its worker has been told to stop."
        }
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

const fn ended(how: Option<EndedAs>) -> (&'static str, &'static str) {
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
