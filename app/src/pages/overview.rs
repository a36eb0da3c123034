//! `/`: what is going on, for staff: what needs somebody, how much comes and goes, type by type.
//!
//! Everything on it is kept beside the work, so the page costs the same at any size. It is fetched again every
//! few seconds while somebody looks.

use domain::{
    alert::{Alert, AlertKind},
    api::{BrokerStats, Stats, TypeStats, Worker},
    filter::{Term, lists::List},
    progress::grouped,
};
use leptos::prelude::*;

use super::dead::rows_of;
use crate::{
    components::{
        moment::{ago, clock},
        panel::{next_page, note, section},
        state::icon,
        table::{
            self,
            Head::{Number, Words},
        },
    },
    frame::{Page, Place},
    pace::duration,
};

/// What the page shows.
#[derive(Clone, Debug)]
pub struct Overview {
    pub stats: Stats,
    pub alerts: Vec<Alert>,
    /// Those who asked for work lately.
    pub workers: Vec<Worker>,
    /// Whether there are more workers than these.
    pub more_workers: bool,
}

pub fn page(overview: &Overview) -> Page {
    let stats = &overview.stats;
    let content = view! {
        <div class="page-head">
            <h1>"Overview"</h1>
            <p class="sub">
                {stats.counted_at.map(|at| view! { "Counted " {ago(at)} " · " })}
                <a href="/deliveries">"Callbacks"</a>
            </p>
        </div>
        <div class="overview" id="overview" data-refresh="" data-topics="overview">
            {figures(overview)}
            {section("alerts", "Needs a look", alerts(&overview.alerts))}
            {section("types", "By job type", types(&stats.data))}
            {stats.broker.as_ref().map(|it| section("broker", "RabbitMQ", broker(it)))}
        </div>
    }
    .into_any();
    Page { title: "Overview".to_owned(), place: Place::Overview, content, lives: false }
}

fn figures(overview: &Overview) -> AnyView {
    let types = &overview.stats.data;
    let sum = |of: fn(&TypeStats) -> i64| types.iter().map(of).sum::<i64>();
    let rate = |of: fn(&domain::api::Rate) -> f64| types.iter().filter_map(|it| it.rates.first()).map(of).sum::<f64>();
    let dead = sum(|it| it.counts.dead);
    let busy = overview.workers.len();
    let workers = if overview.more_workers { format!("{busy}+") } else { grouped(busy as i64) };
    let figure = |term: &'static str, shape: &'static str, value: String, to: Option<String>| {
        let value = match to {
            Some(to) => view! { <a href=to>{value}</a> }.into_any(),
            None => value.into_any(),
        };
        view! {
            <div class="figure">
                <dt>{(!shape.is_empty()).then(|| view! { <span class=format!("state-{shape}")>{icon(shape)}</span> " " })} {term}</dt>
                <dd class="number">{value}</dd>
            </div>
        }
    };
    let items = |state: &str| Some(rows_of("/items", List::Items, vec![Term::is("state", state)]));
    view! {
        <dl class="figures">
            {figure("In, a second", "", per_second(rate(|rate| rate.in_per_second)), None)}
            {figure("Out, a second", "", per_second(rate(|rate| rate.out_per_second)), None)}
            {figure("Waiting", "available", grouped(sum(|it| it.counts.available)), items("available"))}
            {figure("Running", "running", grouped(sum(|it| it.open)), items("running"))}
            {figure("Retrying", "retryable", grouped(sum(|it| it.counts.retryable)), items("retryable"))}
            {figure("Dead", "dead", grouped(dead), Some("/dead".to_owned()))}
            {figure("Workers", "live", workers, Some("/workers".to_owned()))}
        </dl>
    }
    .into_any()
}

/// One decimal where it says something.
fn per_second(rate: f64) -> String {
    if rate >= 100.0 || rate == 0.0 {
        grouped(rate.round() as i64)
    } else if rate < 0.1 {
        "< 0.1".to_owned()
    } else {
        format!("{rate:.1}")
    }
}

fn alerts(alerts: &[Alert]) -> AnyView {
    if alerts.is_empty() {
        return view! {
            <p class="all-well">
                <span class="state-succeeded">{icon("succeeded")}</span>
                " Nothing needs a look."
            </p>
        }
        .into_any();
    }
    let lines = alerts
        .iter()
        .map(|alert| {
            let to = link(alert).map(|(to, word)| view! { <a href=to>{word}</a> " · " });
            let times = (alert.count > 1).then(|| format!(" · {} times", grouped(alert.count)));
            view! {
                <li class="problem">
                    <p class="problem-count state-partial">{icon("partial")} " " {kind(alert.kind)}</p>
                    <div class="problem-text">
                        <p class="problem-message">{alert.message.clone()}</p>
                        <p class="sub">{to} "since " {ago(alert.raised_at)} {times}</p>
                    </div>
                </li>
            }
        })
        .collect_view();
    view! { <ul class="problems">{lines}</ul> }.into_any()
}

fn kind(kind: AlertKind) -> &'static str {
    match kind {
        AlertKind::DeadLetters => "dead letters",
        AlertKind::ManyFailures => "fails for ever",
        AlertKind::EndingRefused => "result refused",
        AlertKind::Stalled => "stalled",
        AlertKind::Unclaimed => "nobody asks",
        AlertKind::DeliveryFailed => "callback given up",
        AlertKind::BrokerAway => "broker away",
        AlertKind::Worker => "worker says",
    }
}

fn link(alert: &Alert) -> Option<(String, &'static str)> {
    if let Some(id) = alert.item_id {
        return Some((format!("/items/{id}"), "see the item"));
    }
    if let Some(id) = alert.job_id.filter(|_| alert.kind == AlertKind::DeliveryFailed) {
        return Some((format!("/jobs/{id}#callbacks"), "see its callbacks"));
    }
    if let Some(id) = alert.job_id.or(alert.root_id) {
        return Some((format!("/jobs/{id}"), "see the job"));
    }
    let name = alert.job_type.as_ref()?;
    Some(match alert.kind {
        AlertKind::DeadLetters => (rows_of("/dead", List::Dead, vec![Term::is("type", name)]), "see what failed"),
        _ => (format!("/types/{name}"), "see the type"),
    })
}

fn types(types: &[TypeStats]) -> AnyView {
    let busy: Vec<&TypeStats> = types.iter().filter(|it| it.counts.total() > 0 || it.open > 0).collect();
    if busy.is_empty() {
        return note("No items yet. They are counted here by type as soon as there are some.");
    }
    let rows = busy
        .iter()
        .map(|it| {
            let counts = it.counts;
            let rate = it.rates.first().copied().unwrap_or_default();
            let dead = rows_of("/dead", List::Dead, vec![Term::is("type", &it.job_type)]);
            let oldest = it.oldest_waiting_seconds.map_or_else(|| "–".to_owned(), duration);
            let asked = match it.last_asked_at {
                Some(at) => ago(at).into_any(),
                None => "–".into_any(),
            };
            view! {
                <tr role="row">
                    <th scope="row" role="rowheader"><a href=format!("/types/{}", it.job_type)>{it.job_type.clone()}</a></th>
                    <td role="cell" class="number" data-label="In/s">{per_second(rate.in_per_second)}</td>
                    <td role="cell" class="number" data-label="Out/s">{per_second(rate.out_per_second)}</td>
                    <td role="cell" class="number" data-label="Waiting">{grouped(counts.available)}</td>
                    <td role="cell" class="number" data-label="Oldest">{oldest}</td>
                    <td role="cell" class="number" data-label="Running">{grouped(it.open)}</td>
                    <td role="cell" class="number" data-label="Retrying">{grouped(counts.retryable)}</td>
                    <td role="cell" class="number" data-label="Dead">
                        {if counts.dead > 0 { view! { <a class="bad" href=dead>{grouped(counts.dead)}</a> }.into_any() } else { "0".into_any() }}
                    </td>
                    <td role="cell" data-label="Last asked">{asked}</td>
                </tr>
            }
        })
        .collect_view();
    let heads = [
        Words("Type"),
        Number("In/s"),
        Number("Out/s"),
        Number("Waiting"),
        Number("Oldest"),
        Number("Running"),
        Number("Retrying"),
        Number("Dead"),
        Words("Last asked"),
    ];
    table::frame("By job type", "by-type", heads, rows)
}

/// One line: how it stands, and how much lies there.
fn broker(broker: &BrokerStats) -> AnyView {
    let messages: i64 = broker.queues.iter().map(|queue| i64::from(queue.messages)).sum();
    let queues = match broker.queues.len() {
        1 => "1 queue".to_owned(),
        n => format!("{} queues", grouped(n as i64)),
    };
    let (shape, stands) = if broker.up { ("succeeded", "Connected") } else { ("dead", "Away") };
    let fault = broker.fault.clone().map(|fault| view! { <p class="problem-message">{fault}</p> });
    let lies = if broker.up {
        format!("{} wake-ups in {queues}", grouped(messages))
    } else {
        "Workers are woken without it, a little later".to_owned()
    };
    let waiting = (broker.outbox_waiting > 0).then(|| {
        let more = if broker.outbox_waiting >= 10_000 { "or more " } else { "" };
        format!(" · {} {more}batches to be published", grouped(broker.outbox_waiting))
    });
    view! {
        <p>
            <span class=format!("state-{shape}")>{icon(shape)}</span>
            " " {stands} ", since " {ago(broker.since)}
        </p>
        {fault}
        <p class="sub">{lies} {waiting}</p>
    }
    .into_any()
}

/// `/workers`: who asks for work, and what is in their hands.
pub fn workers_page(workers: &[Worker], next: Option<&String>, first: bool) -> Page {
    let list = if workers.is_empty() && first {
        let way = view! { <a class="button" href="/api/docs">"How a worker asks"</a> }.into_any();
        crate::components::panel::empty(
            "No workers yet",
            "Who asks for work shows here, with what is in their hands, for a day.",
            way,
        )
    } else {
        worker_table(workers, next)
    };
    let content = view! {
        <div class="page-head">
            <h1>"Workers"</h1>
        </div>
        <div id="workers" data-refresh="" data-topics="workers">
            {list}
        </div>
    }
    .into_any();
    Page { title: "Workers".to_owned(), place: Place::Workers, content, lives: false }
}

fn worker_table(workers: &[Worker], next: Option<&String>) -> AnyView {
    let rows = workers
        .iter()
        .map(|worker| {
            let held = rows_of("/items", List::Items, vec![Term::is("state", "running"), Term::is("worker", &worker.worker_id)]);
            let open = if worker.open > 0 {
                view! { <a href=held>{grouped(worker.open)}</a> }.into_any()
            } else {
                "0".into_any()
            };
            view! {
                <tr role="row" data-key=format!("{} {}", worker.owner, worker.worker_id)>
                    <th scope="row" role="rowheader"><span class="mono">{worker.worker_id.clone()}</span></th>
                    <td role="cell" data-label="Service">{worker.owner.clone()}</td>
                    <td role="cell" data-label="Types">{worker.types.join(", ")}</td>
                    <td role="cell" class="number" data-label="In work">{open}</td>
                    <td role="cell" data-label="Last seen">{ago(worker.last_seen_at)} <span class="sub">" (" {clock(worker.last_seen_at)} ")"</span></td>
                </tr>
            }
        })
        .collect_view();
    let next = next_page(next, "More workers");
    let heads = [Words("Worker"), Words("Service"), Words("Types"), Number("In work"), Words("Last seen")];
    let table = table::frame("Workers", "workers", heads, rows);
    view! {
        {table}
        {next}
    }
    .into_any()
}
