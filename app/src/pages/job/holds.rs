//! Reasons why a job does not progress, as sentences. An estimate would be wrong too often.

use crate::speech::grouped;
use domain::{
    Item, ItemState, Job,
    dispatch::waiting_reason::{WaitingItems, WaitingReason},
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use super::actions;
use crate::{
    components::{state::icon, timestamp::clock},
    pace::duration,
    pages::operator::dead_letters::rows_of,
    t, t_view,
};

/// One line for every type whose items are blocked or unclaimed. Empty if there are none. Only staff see the pages that
/// the links lead to.
pub fn holds(waiting: &[WaitingItems], staff: bool) -> Vec<AnyView> {
    waiting.iter().filter_map(|waiting| line(waiting, staff)).collect()
}

fn line(waiting: &WaitingItems, staff: bool) -> Option<AnyView> {
    let name = waiting.job_type.clone();
    let sentence = waiting.sentence();
    let open_type = || {
        view! { <a class="btn btn-sm" href=format!("/types/{}", waiting.job_type)>{format!("Open {}", waiting.job_type)}</a> }
            .into_any()
    };
    let (title, text, action) = match &waiting.waiting_reason {
        WaitingReason::BuiltinExecutor | WaitingReason::Queued => return None,
        WaitingReason::Paused => (
            format!("{sentence}: {name} is paused"),
            "They start when someone resumes the job type.".into_any(),
            Some(open_type()),
        ),
        WaitingReason::TargetUnavailable { target, until } => (
            format!("{sentence}: {target} does not answer"),
            view! { "It is asked again at " {clock(*until)} "." }.into_any(),
            Some(open_type()),
        ),
        WaitingReason::AtConcurrencyLimit { open, cap } => (
            format!("{sentence} for a free slot"),
            format!("{} of {} slots of {name} are in use.", grouped(*open), grouped(*cap)).into_any(),
            None,
        ),
        WaitingReason::RateLimited { until, rate } => (
            format!("{sentence}: the rate limit of {name} is reached"),
            view! {
                {format!("At most {} start in {}.", grouped(rate.count), duration(rate.per_seconds as f64))}
                {(*until).map(|at| view! { " The next one starts at " {clock(at)} "." })}
            }
            .into_any(),
            None,
        ),
        WaitingReason::AtKeyLimit { pointer, limit } => (
            format!("{sentence} for a free slot"),
            format!("At most {} with the same value of {pointer} run at once.", grouped(*limit)).into_any(),
            None,
        ),
        WaitingReason::NoWorker(since) => (
            format!("{sentence} in {name}"),
            match since {
                Some(at) => view! { "No worker has asked for them since " {clock(*at)} "." }.into_any(),
                None => "No worker has asked for them yet.".into_any(),
            },
            Some(view! { <a class="btn btn-sm" href="/workers">"Workers"</a> }.into_any()),
        ),
    };
    let stuck = waiting.waiting_reason.is_stuck();
    Some(
        view! {
            <div class=if stuck { "notice notice-warn" } else { "notice notice-info" }>
                {icon(if stuck { "triangle-alert" } else { "info" })}
                <div>
                    <strong>{title}</strong>
                    <p>{text}</p>
                </div>
                {action.filter(|_| staff).map(|action| view! { <div class="actions">{action}</div> })}
            </div>
        }
        .into_any(),
    )
}

/// The same for uploaders: only problems that do not resolve themselves, without operator terms and links.
pub fn holds_of_import(waiting: &[WaitingItems]) -> Vec<AnyView> {
    let stuck = waiting.iter().filter_map(|waiting| {
        let why = match &waiting.waiting_reason {
            WaitingReason::Paused => t!("holds-paused").into_any(),
            WaitingReason::NoWorker(None) => t!("holds-nobody").into_any(),
            WaitingReason::NoWorker(Some(at)) => t_view!("holds-nobody-since", time = clock(*at)).into_any(),
            WaitingReason::TargetUnavailable { .. } => t!("holds-no-answer").into_any(),
            WaitingReason::BuiltinExecutor
            | WaitingReason::Queued
            | WaitingReason::AtConcurrencyLimit { .. }
            | WaitingReason::AtKeyLimit { .. }
            | WaitingReason::RateLimited { .. } => return None,
        };
        let rows = t!("holds-rows", n = waiting.count);
        let rest = t!("holds-rest");
        Some(
            view! { <p class="note note-warn">{icon("partial")} " " <span>{rows} " " {why} " " {rest}</span></p> }
                .into_any(),
        )
    });
    stuck.collect()
}

/// Items that wait for an event, such as the answer of a person: the first ones, if they are known, and a link to all.
pub(super) fn event_waits(job: &Job, first: &[Item]) -> Option<AnyView> {
    let (term, _) = actions::reach(job);
    let state = ItemState::WaitingForEvent;
    let count = if job.parent_id.is_none() { job.tree.counts.get(state) } else { job.counts.get(state) };
    let title = match count {
        1 => "1 item waits for an answer or an event".to_owned(),
        n => format!("{} items wait for an answer or an event", grouped(n)),
    };
    let lines = first.iter().filter_map(|item| {
        let wait = item.wait.as_ref()?;
        let label = item.row.map_or_else(|| format!("Item {}", item.seq), |row| format!("Row {row}"));
        Some(view! {
            <p>
                <a href=format!("/items/{}", item.id)>{label}</a>
                {format!(" waits for \u{201c}{}\u{201d} since ", wait.name)}
                {clock(wait.since)}
            </p>
        })
    });
    let lines = lines.collect_view();
    let all = rows_of("/items", List::Items, vec![term, Term::is("state", state.as_str())]);
    (count > 0).then(|| {
        view! {
            <div class="notice notice-info" id="event-waits">
                {icon("info")}
                <div>
                    <strong>{title}</strong>
                    {lines}
                </div>
                <div class="actions">
                    <a class="btn btn-sm" href=all>"See all"</a>
                </div>
            </div>
        }
        .into_any()
    })
}
