//! Active items, each with its own bar.

use crate::speech::grouped;
use domain::Counts;
use leptos::prelude::*;

use super::signals::{KeyedSignal, LiveSignals};
use crate::{
    components::{state::icon, timestamp::since},
    job_view::ActiveItem,
};

/// Table of active items; a sentence if there are none.
pub fn active_items(signals: LiveSignals) -> impl IntoView {
    let none = move || signals.active_items.with(Vec::is_empty);
    view! {
            <div class="card-body" hidden=move || !none()>
    <p class="small soft">
                {move || signals.head.with(|head| idle_sentence(&head.meter.counts, head.completed()))}
            </p>
            </div>
            <div class="table-wrap" tabindex="0" role="region" aria-label="Items in progress" hidden=none>
                <table class="table cards active-items" role="table">
                    <thead role="rowgroup">
                        <tr role="row">
                            <th scope="col" role="columnheader">"Item"</th>
                            <th scope="col" role="columnheader" class="bar-cell">"Progress"</th>
                            <th scope="col" role="columnheader">"Worker"</th>
                            <th scope="col" role="columnheader" class="num">
                                "Attempt"
                            </th>
                            <th scope="col" role="columnheader" class="num">
                                "Running for"
                            </th>
                        </tr>
                    </thead>
                    <tbody role="rowgroup">
                        <For each=move || signals.active_items.get() key=|entry| entry.id children=row />
                    </tbody>
                </table>
            </div>
        }
}

/// Sentence if no item is in progress: what the open items wait for.
fn idle_sentence(counts: &Counts, completed: bool) -> String {
    if completed {
        return "Nothing is in progress: every item has ended.".to_owned();
    }
    // Without a stream, their number is known but not which they are.
    match counts.running {
        ..=0 => {}
        1 => return "1 item is in progress. It is listed as soon as the server sends it.".to_owned(),
        n => return format!("{} items are in progress. They are listed as soon as the server sends them.", grouped(n)),
    }
    if counts.available > 0 {
        return "Nothing is in progress right now. Waiting items start as soon as a worker asks for them.".to_owned();
    }
    let reasons = [
        (counts.waiting_for_event, "for an answer or an event"),
        (counts.retryable, "for the next attempt"),
        (counts.scheduled, "for a set time"),
        (counts.blocked, "for other items or jobs"),
    ];
    let waiting = reasons.into_iter().filter(|(n, _)| *n > 0).map(|(n, reason)| match n {
        1 => format!("1 item waits {reason}"),
        n => format!("{} items wait {reason}", grouped(n)),
    });
    match waiting.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "Nothing is in progress yet.".to_owned(),
        waiting => format!("Nothing is in progress right now: {waiting}."),
    }
}

fn row(entry: KeyedSignal<ActiveItem>) -> impl IntoView {
    let id = entry.id;
    let active_item = RwSignal::from(entry.value_signal);
    let first = active_item.get_untracked();
    // Of the newest attempt.
    let started_at = Memo::new(move |_| active_item.with(|f| f.since));
    let progress = move || active_item.with(|f| f.done.filter(|_| f.total.is_some()).map(|done| done.to_string()));
    let words = move || {
        active_item.with(|f| {
            let numbers = match (f.done, f.total) {
                (Some(done), Some(total)) => format!("{} of {}", grouped(done), grouped(total)),
                (Some(done), None) => format!("{} done", grouped(done)),
                _ => String::new(),
            };
            match &f.message {
                Some(message) if numbers.is_empty() => message.clone(),
                Some(message) => format!("{numbers} · {message}"),
                None if numbers.is_empty() => "Started".to_owned(),
                None => numbers,
            }
        })
    };
    view! {
        <tr role="row">
            <th scope="row" role="rowheader" class="name">
                <a href=format!("/items/{id}")>{first.label.clone()}</a>
                " "
                <span class="sub">{first.job.clone()}</span>
            </th>
            <td role="cell" class="bar-cell">
                <progress
                    aria-label=format!("Progress of {}", first.label)
                    hidden=move || progress().is_none()
                    max=move || active_item.with(|f| f.total.unwrap_or(1).to_string())
                    value=move || progress().unwrap_or_default()
                ></progress>
                <span class="sub">{words}</span>
                " "
                <span class="state s-cancelled badge" hidden=move || !active_item.with(|f| f.cancelling)>
                    {icon("cancelled")}
                    " Stopping"
                </span>
            </td>
            <td role="cell" class="mono" data-label="Worker">{move || active_item.with(|f| f.worker.clone())}</td>
            <td role="cell" class="num" data-label="Attempt">{move || active_item.with(|f| f.attempt.to_string())}</td>
            <td role="cell" class="num" data-label="Running for">{move || started_at.get().map(since)}</td>
        </tr>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_items_in_progress_the_page_says_what_they_wait_for() {
        let counts = Counts { succeeded: 118, waiting_for_event: 3, retryable: 1, ..Counts::default() };
        assert_eq!(
            idle_sentence(&counts, false),
            "Nothing is in progress right now: 3 items wait for an answer or an event, 1 item waits for the next attempt."
        );
        assert!(
            idle_sentence(&Counts { available: 1, ..counts }, false).ends_with("as soon as a worker asks for them.")
        );
        let running = Counts { running: 2, ..counts };
        assert!(idle_sentence(&running, false).starts_with("2 items are in progress."));
        assert_eq!(idle_sentence(&Counts::default(), false), "Nothing is in progress yet.");
        assert!(idle_sentence(&counts, true).ends_with("every item has ended."));
    }
}
