//! States for display: always a shape and a word; color is only an addition.

use crate::speech::grouped;
use domain::{Counts, ItemState, JobStatus, Outcome};
use leptos::prelude::*;

use crate::{
    job_view::{job_shape, job_word},
    t,
};

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
    view! { <span class=format!("state s-{} badge", state.as_str())>{icon(state.as_str())} <span class="state-name">{word(state)}</span></span> }
}

/// Shape and word of a job's status, which may change.
pub fn job_badge(of: Signal<(JobStatus, Option<Outcome>)>) -> impl IntoView {
    let shape = move || of.with(|&(status, outcome)| job_shape(status, outcome));
    view! {
        <span class=move || format!("state s-{} badge", shape())>
            <svg class="icon icon-state" aria-hidden="true" focusable="false">
                <use href=move || format!("#i-{}", shape()) />
            </svg>
            " "
            <span class="state-word">{move || of.with(|&(status, outcome)| job_word(status, outcome))}</span>
        </span>
    }
}

/// Label of a state for staff.
pub fn word(state: ItemState) -> &'static str {
    match state {
        ItemState::Succeeded => t!("live-state-succeeded"),
        ItemState::Dead => t!("live-state-failed"),
        ItemState::Running => t!("live-state-running"),
        ItemState::Retryable => t!("live-state-retrying"),
        ItemState::Available => t!("live-state-waiting"),
        ItemState::Scheduled => t!("live-state-scheduled"),
        ItemState::Blocked => t!("live-state-blocked"),
        ItemState::WaitingForEvent => t!("live-state-waiting-for-event"),
        ItemState::Cancelled => t!("live-state-canceled"),
        ItemState::Expired => t!("live-state-expired"),
    }
}

/// Label of a state for the owner of a file.
fn plain_word(state: ItemState) -> &'static str {
    match state {
        ItemState::Succeeded => t!("live-state-done"),
        other => word(other),
    }
}

/// Exact counts beside their shapes: the legend of a bar. States without items are hidden, except the most important
/// ones. `list` is the URL of a list without its state: each count links to its items.
pub fn legend(counts: Signal<Counts>, plain: bool, list: Option<&str>) -> impl IntoView + use<> {
    let entries = ItemState::ALL
        .into_iter()
        .map(|state| {
            let always = matches!(state, ItemState::Succeeded | ItemState::Dead);
            let count = move || counts.with(|counts| counts.get(state));
            let content = view! {
                <span class=format!("s-{} row", state.as_str())>{icon(state.as_str())}</span>
                <b class="count-number">{move || grouped(count())}</b>
                " "
                {if plain { plain_word(state) } else { word(state) }}
            };
            let content = match list {
                Some(list) => view! { <a href=format!("{list}%20state%3A{}", state.as_str())>{content}</a> }.into_any(),
                None => content.into_any(),
            };
            view! {
                <li class=format!("count-{}", state.as_str()) hidden=move || !always && count() == 0>
                    {content}
                </li>
            }
        })
        .collect_view();
    view! { <ul class="legend">{entries}</ul> }
}
