//! `/workers/{credential}?name=`: one worker for staff: the items that it holds, its rates, and its last errors.

use crate::speech::grouped;
use domain::{
    Item, Time,
    api::Worker,
    id::Uuid,
    item::EndedAs,
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use super::item::ended;
use crate::pages::operator::dead_letters::rows_of;
use crate::{
    address::address,
    components::{
        bar::in_percent,
        breadcrumbs::breadcrumbs,
        chart::{self, History},
        panel::section,
        state::icon,
        table::{
            self,
            Head::{Number, Words},
        },
        timestamp::{ago, clock, second, since},
    },
    frame::{NavSection, Page},
    job_view::ActiveItem,
    pace::per_time,
};

/// Content of the page.
#[derive(Clone, Debug)]
pub struct WorkerPageData {
    pub credential_id: Uuid,
    pub worker: Worker,
    pub first_seen_at: Time,
    /// Items that it holds, longest first.
    pub claimed: Vec<Item>,
    /// Last failed attempts, newest first.
    pub errors: Vec<LastError>,
    /// Ended attempts in the chosen range.
    pub history: History,
    /// Ended attempts in the last hour, by minute; the last one has begun.
    pub last_hour: History,
}

/// A failed attempt.
#[derive(Clone, Debug)]
pub struct LastError {
    pub item_id: Uuid,
    pub ended_at: Time,
    pub ended_as: Option<EndedAs>,
    pub message: String,
}

/// URL of a worker's page. Names are chosen by workers and unique for each credential.
pub(super) fn link(credential_id: Uuid, name: &str) -> String {
    address(&format!("/workers/{credential_id}"), &[("name", name)])
}

pub fn page(page_data: &WorkerPageData) -> Page {
    let name = page_data.worker.worker_id.clone();
    let path = link(page_data.credential_id, &name);
    breadcrumbs(&[("/workers", "Workers")], name.as_str());
    let content = view! {
        <div class="page-head">
            <h1 class="mono wrap">{name.clone()}</h1>
            <p class="sub">
                "Program of " {page_data.worker.owner.clone()} ", takes items over HTTP"
            </p>
        </div>
        <div class="stack gap-4" id="worker" data-refresh="" data-topics="workers overview">
            {kpis(page_data)}
            {chart::short_ranges(&path, page_data.history.range)}
            <div class="grid">
                <div class="c8">{chart::attempts(&page_data.history)}</div>
                <div class="c4">{chart::run_times(&page_data.history)}</div>
            </div>
            {claimed(page_data)}
            {errors(&page_data.errors)}
            {section("details", "Details", details(page_data))}
        </div>
    }
    .into_any();
    Page { title: name, nav_section: NavSection::Workers, content, is_live: false, is_translated: false }
}

/// Attempts per second over the last five whole minutes.
fn rate(history: &History) -> f64 {
    let points = &history.points;
    let whole = &points[..points.len().saturating_sub(1)];
    let last = &whole[whole.len().saturating_sub(5)..];
    let n: i64 = last.iter().map(|(_, activity)| activity.ended.succeeded + activity.failed).sum();
    n as f64 / (60.0 * last.len().max(1) as f64)
}

fn kpis(page_data: &WorkerPageData) -> AnyView {
    let hour = &page_data.last_hour;
    let rate = rate(hour);
    let rate = if rate > 0.0 { per_time(rate) } else { "0/s".to_owned() };
    let tile = |label: &'static str, shape: &'static str, value: String, note: &'static str| {
        view! {
            <div class="kpi">
                <span class="kpi-label row">
                    <span class=format!("s-{shape} row")>{icon(shape)}</span>
                    {label}
                </span>
                <span class="kpi-value">{value}</span>
                <span class="kpi-note">{note}</span>
            </div>
        }
    };
    view! {
        <div class="kpis" role="group" aria-label="Numbers of the worker">
            {tile("In progress", "running", grouped(page_data.worker.open), "items now")}
            {tile("Rate", "live", rate, "attempts, last 5 min")}
            {tile("Succeeded", "succeeded", grouped(hour.sum(|it| it.ended.succeeded)), "last hour")}
            {tile("Failed", "dead", grouped(hour.sum(|it| it.failed)), "attempts, last hour")}
        </div>
    }
    .into_any()
}

fn claimed(page_data: &WorkerPageData) -> AnyView {
    let worker = &page_data.worker;
    let list =
        rows_of("/items", List::Items, vec![Term::is("state", "running"), Term::is("worker", &worker.worker_id)]);
    let rows = page_data.claimed.iter().map(claimed_row).collect_view();
    let heads = [Words("Item"), Words("Progress"), Number("Attempt"), Number("Running for"), Words("Last heartbeat")];
    let content = if page_data.claimed.is_empty() {
        view! { <p class="card-body soft">"Holds no items now."</p> }.into_any()
    } else {
        table::frame("Items in progress", "claimed", heads, rows)
    };
    view! {
        <section class="card" id="claimed" aria-labelledby="claimed-heading">
            <div class="card-head">
                <h2 id="claimed-heading">"Items in progress"</h2>
                <span class="sub">{grouped(worker.open)}</span>
                <div class="end">
                    <a href=list>"All its items in progress"</a>
                </div>
            </div>
            {content}
        </section>
    }
    .into_any()
}

fn claimed_row(item: &Item) -> impl IntoView + use<> {
    let labels = ActiveItem::of(item, |_| None);
    let share =
        labels.done.zip(labels.total).map(|(done, total)| (done as f64 / total as f64 * 100.0).clamp(0.0, 100.0));
    let bar = share.map(|share| {
        view! {
            <svg class="bar" aria-hidden="true" focusable="false">
                <rect class="track" width="100%" height="100%" />
                <rect class="seg seg-running" width=in_percent(share) height="100%" />
            </svg>
        }
    });
    let numbers = match (labels.done, labels.total) {
        (Some(done), Some(total)) => format!("{} of {}", grouped(done), grouped(total)),
        (Some(done), None) => format!("{} done", grouped(done)),
        _ => "Started".to_owned(),
    };
    let words = labels.message.map_or_else(|| numbers.clone(), |message| format!("{numbers} · {message}"));
    let heartbeat = item.assignment.as_ref().map(|holder| ago(holder.last_heartbeat_at));
    view! {
        <tr role="row" data-key=item.id.to_string()>
            <th scope="row" role="rowheader" class="name">
                <span class="two">
                    <a href=format!("/items/{}", item.id)>{labels.label}</a>
                    <span>{item.job_type.clone()}</span>
                </span>
            </th>
            <td role="cell" class="bar-cell" data-label="Progress">{bar} <span class="sub">{words}</span></td>
            <td role="cell" class="num" data-label="Attempt">{item.attempts}</td>
            <td role="cell" class="num" data-label="Running for">{labels.since.map(since)}</td>
            <td role="cell" data-label="Last heartbeat">{heartbeat}</td>
        </tr>
    }
}

fn errors(errors: &[LastError]) -> AnyView {
    let rows = errors
        .iter()
        .map(|error| {
            let (shape, word) = ended(error.ended_as);
            let id = error.item_id.to_string();
            view! {
                <tr role="row">
                    <th scope="row" role="rowheader" class="name">
                        <a class="mono" href=format!("/items/{id}")>"item …" {id[id.len().saturating_sub(8)..].to_owned()}</a>
                    </th>
                    <td role="cell" class="fit"><span class=format!("state s-{shape} badge")>{icon(shape)} " " {word}</span></td>
                    <td role="cell" class="wide wrap" data-label="Error">
                        <span class="clamp soft">{if error.message.is_empty() { "–".to_owned() } else { error.message.clone() }}</span>
                    </td>
                    <td role="cell" class="nowrap" data-label="When">{second(error.ended_at)}</td>
                </tr>
            }
        })
        .collect_view();
    let content = if errors.is_empty() {
        view! { <p class="card-body soft">"No failed attempts in the last 48 hours."</p> }.into_any()
    } else {
        table::frame(
            "Last errors",
            "worker-errors",
            [Words("Item"), Words("Outcome"), Words("Error"), Words("When")],
            rows,
        )
    };
    view! {
        <section class="card" id="errors" aria-labelledby="errors-heading">
            <div class="card-head">
                <h2 id="errors-heading">"Last errors"</h2>
                <span class="sub">"newest 20 of 48 hours"</span>
            </div>
            {content}
        </section>
    }
    .into_any()
}

fn details(page_data: &WorkerPageData) -> AnyView {
    let worker = &page_data.worker;
    let types = worker
        .types
        .iter()
        .map(|name| view! { <a href=format!("/types/{name}")>{name.clone()}</a> " " })
        .collect_view();
    view! {
        <dl class="facts">
            <div><dt>"Service"</dt> <dd>{worker.owner.clone()}</dd></div>
            <div><dt>"Job types"</dt> <dd>{types}</dd></div>
            <div><dt>"First seen"</dt> <dd>{clock(page_data.first_seen_at)}</dd></div>
            <div><dt>"Last seen"</dt> <dd>{ago(worker.last_seen_at)} " (" {clock(worker.last_seen_at)} ")"</dd></div>
        </dl>
    }
    .into_any()
}

#[cfg(test)]
mod tests {
    use domain::{Counts, api::Activity};

    use super::*;

    #[test]
    fn the_rate_is_that_of_five_whole_minutes() {
        let at = Time::parse("2026-11-20T14:00:00Z").expect("a time");
        let minute = |n| (at, Activity { ended: Counts { succeeded: n, ..Counts::default() }, ..Activity::default() });
        let history =
            |minutes: &[i64]| History { points: minutes.iter().map(|&n| minute(n)).collect(), ..History::default() };
        assert!((rate(&history(&[900, 60, 60, 60, 60, 60, 5])) - 1.0).abs() < 1e-9);
        assert!(rate(&history(&[7])).abs() < 1e-9, "a minute that has just begun is not counted");
        assert!(rate(&History::default()).abs() < 1e-9);
    }
}
