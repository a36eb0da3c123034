//! Attempts of an item as a timeline, newest first, each with its outcome and duration.

use domain::{
    Item,
    item::{Attempt, MaxFailures},
};
use leptos::prelude::*;

use super::ended;
use crate::{
    components::{
        state::icon,
        timestamp::{clock, exact, since},
    },
    exact_duration::took_precisely,
};

pub(super) fn card(item: &Item, attempts: &[Attempt]) -> AnyView {
    let lines = attempts.iter().map(one).collect_view();
    view! {
        <section class="card" id="attempts" aria-labelledby="attempts-heading">
            <div class="card-head">
                <h2 id="attempts-heading">"Attempts"</h2>
                <span class="sub">{budget(item)}</span>
            </div>
            <ol class="attempts">
                {lines}
                <li data-key="added">
                    <span class="state soft">{icon("plus")}</span>
                    <p class="small soft">"Added " {clock(item.created_at)}</p>
                </li>
            </ol>
        </section>
    }
    .into_any()
}

/// Number of attempts, and of the failures that count: those since a manual retry, without released attempts.
fn budget(item: &Item) -> String {
    let attempts = if item.attempts == 1 { "1 attempt".to_owned() } else { format!("{} attempts", item.attempts) };
    match item.max_failures {
        MaxFailures::AtMost(most) => format!("{attempts}, {} of {most} failures used", item.failures),
        MaxFailures::Unlimited => format!("{attempts}, no limit"),
    }
}

fn one(attempt: &Attempt) -> impl IntoView + use<> {
    let (shape, word) = ended(attempt.ended_as);
    let took = match (attempt.started_at, attempt.ended_at) {
        (Some(from), Some(to)) => Some(view! { <span class="dur">{took_precisely(from, to)}</span> }.into_any()),
        (Some(from), None) => Some(view! { <span class="dur">{since(from)}</span> }.into_any()),
        _ => None,
    };
    let step = attempt.step.as_ref().map(|step| format!("Reached {}", step.name));
    let waited = attempt.waited_for.as_ref().map(|name| format!("For \u{201c}{name}\u{201d}"));
    view! {
        <li data-key=format!("attempt-{}", attempt.attempt)>
            <span class=format!("state s-{shape} state-{shape}")>{icon(shape)}</span>
            <div class="stack-1">
                <p class="attempt-line">
                    <strong>"Attempt " {attempt.attempt}</strong>
                    <span class=format!("s-{shape}")>{word}</span>
                    {took}
                </p>
                {attempt.error.as_ref().map(|error| view! { <p class="small soft clamp">{error.message.clone()}</p> })}
                {waited.map(|waited| view! { <p class="small soft">{waited}</p> })}
                {step.map(|step| view! { <p class="small soft">{step}</p> })}
                <p class="xs faint">
                    {attempt.started_at.map(exact)}
                    {attempt.worker_id.clone().map(|worker| view! { " · " <span class="mono">{worker}</span> })}
                </p>
            </div>
        </li>
    }
}
