//! What keeps a job from going on: said in words, since an estimate that nobody will keep is worse than none.

use domain::{
    hold::{Held, Hold},
    progress::grouped,
};
use leptos::prelude::*;

use crate::components::{moment::clock, state::icon};

/// A line for every type whose items wait for more than their turn. Empty where all goes well.
pub fn holds(held: &[Held]) -> Vec<AnyView> {
    held.iter().filter_map(line).collect()
}

fn line(held: &Held) -> Option<AnyView> {
    let name = held.job_type.clone();
    let waiting = held.waiting();
    let types = |word: &'static str| view! { <a href="/types">{word}</a> };
    let text = match &held.hold {
        Hold::Ours | Hold::Shared => return None,
        Hold::Paused => view! {
            {waiting}
            ", and none will start: the job type "
            <span class="mono">{name}</span>
            " is paused. "
            {types("Job types")}
        }
        .into_any(),
        Hold::Away { target, until } => view! {
            {waiting}
            ": "
            <span class="mono">{target.clone()}</span>
            " does not answer, and is asked again at "
            {clock(*until)}
            ". "
            {types("Job types")}
        }
        .into_any(),
        Hold::Capped { open, cap } => view! {
            {waiting}
            {format!(": {} of at most {} items of ", grouped(*open), grouped(*cap))}
            <span class="mono">{name}</span>
            " are running."
        }
        .into_any(),
        Hold::Unasked(since) => {
            let since = since.map(|at| view! { " since " {clock(at)} });
            let yet = since.is_none().then_some(" yet");
            view! {
                {waiting}
                ", and none will start as it is: no worker has asked for "
                <span class="mono">{name}</span>
                {yet}
                {since}
                ". "
                <a href="/workers">"Workers"</a>
            }
            .into_any()
        }
    };
    let class = if held.hold.is_stuck() { "note note-warn" } else { "note" };
    let shape = if held.hold.is_stuck() { "partial" } else { "scheduled" };
    Some(view! { <p class=class>{icon(shape)} " " <span>{text}</span></p> }.into_any())
}

/// The same for whoever uploaded a file: only what will not pass by itself, without the words and the links of
/// those who run the work.
pub fn holds_of_import(held: &[Held]) -> Vec<AnyView> {
    let stuck = held.iter().filter_map(|held| {
        let why = match &held.hold {
            Hold::Paused => view! { "This kind of work is paused for now." }.into_any(),
            Hold::Unasked(None) => view! { "Nobody has begun to work on files of this kind." }.into_any(),
            Hold::Unasked(Some(at)) => {
                view! { "Nobody has worked on files of this kind since " {clock(*at)} "." }.into_any()
            }
            Hold::Away { .. } => view! { "What works on files of this kind does not answer at the moment." }.into_any(),
            Hold::Ours | Hold::Shared | Hold::Capped { .. } => return None,
        };
        let rows = match held.count {
            1 => "1 row waits. ".to_owned(),
            n => format!("{} rows wait. ", grouped(n)),
        };
        let rest = " Nothing is lost: they go on as soon as that changes.";
        Some(view! { <p class="note note-warn">{icon("partial")} " " <span>{rows} {why} {rest}</span></p> }.into_any())
    });
    stuck.collect()
}
