//! States as people see them: always a shape and a word, the colour only besides.

use domain::{Counts, ItemState, JobStatus, Outcome, progress::grouped};
use leptos::prelude::*;

use crate::reading::{job_shape, job_word};

/// An icon of the sprite, for decoration beside a word.
pub fn icon(name: &str) -> impl IntoView + use<> {
    view! {
        <svg class="icon" aria-hidden="true" focusable="false">
            <use href=format!("#i-{name}") />
        </svg>
    }
}

/// Shape and word of an item's state.
pub fn item_badge(state: ItemState) -> impl IntoView {
    view! { <span class=format!("state state-{}", state.as_str())>{icon(state.as_str())} {word(state)}</span> }
}

/// Shape and word of a job's status, which may change.
pub fn job_badge(of: Signal<(JobStatus, Option<Outcome>)>) -> impl IntoView {
    let shape = move || of.with(|&(status, outcome)| job_shape(status, outcome));
    view! {
        <span class=move || format!("state state-{}", shape())>
            <svg class="icon" aria-hidden="true" focusable="false">
                <use href=move || format!("#i-{}", shape()) />
            </svg>
            " "
            <span class="state-word">{move || of.with(|&(status, outcome)| job_word(status, outcome))}</span>
        </span>
    }
}

/// The word for a state, where staff read it.
pub const fn word(state: ItemState) -> &'static str {
    match state {
        ItemState::Available => "waiting",
        ItemState::Retryable => "retrying",
        other => other.as_str(),
    }
}

/// The word for a state, where the owner of a file reads it.
const fn plain_word(state: ItemState) -> &'static str {
    match state {
        ItemState::Succeeded => "done",
        ItemState::Dead => "failed",
        ItemState::Running => "in work",
        ItemState::Retryable => "will be tried again",
        ItemState::Available => "waiting",
        ItemState::Scheduled => "for later",
        ItemState::Blocked => "held back",
        ItemState::Cancelled => "stopped",
        ItemState::Expired => "too late",
    }
}

/// Exact counts beside their shapes: the legend of a bar. States without items are hidden, except
/// those that everybody looks for.
pub fn legend(counts: Signal<Counts>, plain: bool) -> impl IntoView {
    let entries = ItemState::ALL
        .into_iter()
        .map(|state| {
            let always = matches!(state, ItemState::Succeeded | ItemState::Dead);
            let count = move || counts.with(|counts| counts.get(state));
            view! {
                <li class=format!("count count-{}", state.as_str()) hidden=move || !always && count() == 0>
                    {icon(state.as_str())}
                    <span class="count-number">{move || grouped(count())}</span>
                    " "
                    <span class="count-word">{if plain { plain_word(state) } else { word(state) }}</span>
                </li>
            }
        })
        .collect_view();
    view! { <ul class="counts">{entries}</ul> }
}
