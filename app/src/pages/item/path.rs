//! The history of an item as a row of steps: waits, attempts, and where it stands now.

use domain::{
    Item, ItemState, Time,
    item::{Attempt, EndedAs},
};
use leptos::prelude::*;

use crate::{
    components::{state::icon, timestamp::since},
    exact_duration::took,
};

/// Maximum number of attempts; of more, the last ones are shown.
const MOST: usize = 4;

/// A step.
struct Step {
    shape: &'static str,
    word: String,
    from: Option<Time>,
    to: Option<Time>,
}

/// Row of steps. `attempts`: newest first.
pub(super) fn steps(item: &Item, attempts: &[Attempt]) -> AnyView {
    let steps = of(item, attempts);
    let last = steps.len().saturating_sub(1);
    let rendered = steps
        .into_iter()
        .enumerate()
        .map(|(at, step)| {
            let length = match (step.from, step.to) {
                (Some(from), Some(to)) => Some(view! { " " <small>{took(from, to)}</small> }.into_any()),
                (Some(from), None) => Some(view! { " " <small>{since(from)}</small> }.into_any()),
                _ => None,
            };
            let here = if at == last { " is-here" } else { "" };
            view! {
                <li>
                    <span class=format!("step s-{}{here}", step.shape) aria-current=(at == last).then_some("step")>
                        {icon(step.shape)} " " {step.word} {length}
                    </span>
                    {(at < last).then(|| view! { <span class="arrow" aria-hidden="true">"›"</span> })}
                </li>
            }
        })
        .collect_view();
    view! { <ol class="path" aria-label="What happened so far">{rendered}</ol> }.into_any()
}

fn of(item: &Item, attempts: &[Attempt]) -> Vec<Step> {
    let mut steps = Vec::new();
    let left_out = attempts.len().saturating_sub(MOST);
    let mut before = Some(item.created_at);
    let mut ended: Option<EndedAs> = None;
    if left_out > 0 {
        let word = format!("{left_out} earlier {}", if left_out == 1 { "attempt" } else { "attempts" });
        steps.push(Step { shape: "retryable", word, from: None, to: None });
        before = attempts.get(MOST).and_then(|attempt| attempt.ended_at);
        ended = attempts.get(MOST).and_then(|attempt| attempt.ended_as);
    }
    for attempt in attempts.iter().take(MOST).rev() {
        let (shape, word) = match ended {
            None | Some(EndedAs::Released) => ("available", "Waiting"),
            Some(EndedAs::Waiting) => ("waiting_for_event", "Waited for an event"),
            _ => ("retryable", "Retry"),
        };
        steps.push(Step { shape, word: word.to_owned(), from: before, to: attempt.started_at.or(before) });
        let word = format!("Attempt {}", attempt.attempt);
        steps.push(Step { shape: "running", word, from: attempt.started_at, to: attempt.ended_at });
        (before, ended) = (attempt.ended_at, attempt.ended_as);
    }
    if item.state != ItemState::Running {
        let from = (!item.state.is_final()).then_some(before).flatten();
        steps.push(Step { shape: item.state.as_str(), word: word(item.state).to_owned(), from, to: None });
    }
    steps
}

/// Label of the current step.
const fn word(state: ItemState) -> &'static str {
    match state {
        ItemState::Scheduled => "Scheduled",
        ItemState::Blocked => "Blocked",
        ItemState::WaitingForEvent => "Waiting for an event",
        ItemState::Available => "Waiting",
        ItemState::Running => "In progress",
        ItemState::Retryable => "Retrying",
        ItemState::Succeeded => "Succeeded",
        ItemState::Dead => "Failed",
        ItemState::Cancelled => "Canceled",
        ItemState::Expired => "Expired",
    }
}
