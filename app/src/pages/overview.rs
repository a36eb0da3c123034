//! `/`: overview for staff: alerts, throughput, and statistics by job type.
//!
//! All numbers are maintained continuously, so the page costs the same at any size. It is refreshed every few seconds
//! while it is visible.

use crate::speech::{grouped, with_decimal_separator};
use domain::{
    api::{BrokerStats, Stats, TypeStats, Worker},
    id::Uuid,
    notify::alert::{Alert, AlertKind},
    query::filter::{Term, lists::List},
};
use leptos::prelude::*;

use super::worker;
use crate::pages::operator::dead_letters::rows_of;
use crate::{
    components::{
        chart::{self, History},
        panel::{next_page, section},
        state::icon,
        table::{
            self,
            Head::{Number, Words},
        },
        timestamp::{ago, clock, second},
    },
    frame::{NavSection, Page},
    pace::duration,
};

/// Content of the page.
#[derive(Clone, Debug)]
pub struct Overview {
    pub stats: Stats,
    pub alerts: Vec<Alert>,
    /// Workers that claimed work recently.
    pub workers: Vec<Worker>,
    /// True if there are more workers than these.
    pub more_workers: bool,
    /// Activity of all types.
    pub history: History,
}

pub fn page(overview: &Overview) -> Page {
    let stats = &overview.stats;
    let content = view! {
        <div class="page-head">
            <h1>"Overview"</h1>
            <p class="sub" id="counted" data-refresh="">
                {stats.counted_at.map(|at| view! { "As of " {second(at)} })}
            </p>
        </div>
        <div class="stack gap-4" id="overview" data-refresh="" data-topics="overview">
            {kpi_strip(overview)}
            {chart::ranges("/", overview.history.range)}
            <div class="grid even">
                <div class="c8">{chart::throughput(&overview.history)}</div>
                <div class="c4">{chart::durations(&overview.history)}</div>
            </div>
            <div class="grid">
                <div class=if stats.broker.is_some() { "c8" } else { "c12" }>{alerts(&overview.alerts)}</div>
                {stats.broker.as_ref().map(|it| view! { <div class="c4">{section("broker", "RabbitMQ", broker(it))}</div> })}
            </div>
            {types(&stats.data)}
        </div>
    }
    .into_any();
    Page {
        title: "Overview".to_owned(),
        nav_section: NavSection::Overview,
        content,
        is_live: false,
        is_translated: false,
    }
}

/// One tile of the strip: its label, shape, value, and link.
struct Kpi {
    label: &'static str,
    shape: &'static str,
    value: String,
    unit: &'static str,
    note: &'static str,
    to: Option<String>,
}

impl Kpi {
    fn view(self) -> AnyView {
        let content = view! {
            <span class="kpi-label row">
                <span class=format!("s-{} row", self.shape)>{icon(self.shape)}</span>
                {self.label}
            </span>
            <span class="kpi-value">
                {self.value} {(!self.unit.is_empty()).then(|| view! { " " <small>{self.unit}</small> })}
            </span>
            {(!self.note.is_empty()).then(|| view! { <span class="kpi-note">{self.note}</span> })}
        };
        match self.to {
            Some(to) => view! {
                <a class="kpi" href=to>
                    {content}
                </a>
            }
            .into_any(),
            None => view! { <div class="kpi">{content}</div> }.into_any(),
        }
    }
}

/// Strip of key figures. Rates cover the last minute.
fn kpi_strip(overview: &Overview) -> AnyView {
    let types = &overview.stats.data;
    let sum = |of: fn(&TypeStats) -> i64| types.iter().map(of).sum::<i64>();
    let rate = |of: fn(&domain::api::Rate) -> f64| types.iter().filter_map(|it| it.rates.first()).map(of).sum::<f64>();
    let busy = overview.workers.len();
    let workers = if overview.more_workers { format!("{busy}+") } else { grouped(busy as i64) };
    let items = |state: &str| Some(rows_of("/items", List::Items, vec![Term::is("state", state)]));
    let kpi = |label, shape, value, to| Kpi { label, shape, value, unit: "", note: "", to };
    let speed =
        |label, shape, value| Kpi { unit: "/s", note: "over the last minute", ..kpi(label, shape, value, None) };
    let strip = [
        speed("Added", "available", per_second(rate(|rate| rate.in_per_second))),
        speed("Completed", "succeeded", per_second(rate(|rate| rate.out_per_second))),
        kpi("In progress", "running", grouped(sum(|it| it.open)), items("running")),
        kpi("Waiting", "available", grouped(sum(|it| it.counts.available)), items("available")),
        kpi("Retrying", "retryable", grouped(sum(|it| it.counts.retryable)), items("retryable")),
        kpi("Failed", "dead", grouped(sum(|it| it.counts.dead)), Some("/dead".to_owned())),
        kpi("Workers", "live", workers, Some("/workers".to_owned())),
    ];
    view! { <div class="kpis close">{strip.into_iter().map(Kpi::view).collect_view()}</div> }.into_any()
}

/// Rate with one decimal, if that is significant.
fn per_second(rate: f64) -> String {
    if rate >= 100.0 || rate == 0.0 {
        grouped(rate.round() as i64)
    } else if rate < 0.1 {
        with_decimal_separator("< 0.1")
    } else {
        with_decimal_separator(&format!("{rate:.1}"))
    }
}

/// Maximum number of alerts on the page.
pub const MOST_ALERTS: usize = 20;

/// The newest open alerts; one more than the page shows says that there are more.
fn alerts(alerts: &[Alert]) -> AnyView {
    let more = if alerts.len() > MOST_ALERTS { "+" } else { "" };
    let alerts = &alerts[..alerts.len().min(MOST_ALERTS)];
    let open = match alerts.len() {
        0 => view! { <div class="card-body small soft"><p>"No open alerts."</p></div> }.into_any(),
        _ => view! { <ul class="lined">{alerts.iter().map(one_alert).collect_view()}</ul> }.into_any(),
    };
    let count = (!alerts.is_empty())
        .then(|| view! { <span class="end"><span class="state s-dead badge">{format!("{}{more} open", alerts.len())}</span></span> });
    view! {
        <section class="card" id="alerts" aria-labelledby="alerts-heading">
            <div class="card-head">
                <h2 id="alerts-heading">"Alerts"</h2>
                {count}
                <a class="small" href="/alert-channels">"Alert channels"</a>
            </div>
            {open}
        </section>
    }
    .into_any()
}

fn one_alert(alert: &Alert) -> impl IntoView + use<> {
    let to = link(alert).map(|(to, word)| view! { <a class="btn btn-sm" href=to>{word}</a> });
    // The message of these has a newer count.
    let is_counted = matches!(alert.kind, AlertKind::DeadLetters | AlertKind::ManyFailures);
    let times = (alert.count > 1 && !is_counted).then(|| format!(" · {} times", grouped(alert.count)));
    view! {
        <li class="row alert">
            <span class="s-retryable row">{icon("triangle-alert")}</span>
            <div class="grow stack-1">
                <strong class="wrap">{alert.message.clone()}</strong>
                <span class="xs soft">{alert.kind.title()} ", raised " {ago(alert.raised_at)} {times}</span>
            </div>
            {to}
        </li>
    }
}

fn link(alert: &Alert) -> Option<(String, &'static str)> {
    if let Some(id) = alert.item_id {
        return Some((format!("/items/{id}"), "Open item"));
    }
    if let Some(id) = alert.job_id.filter(|_| alert.kind == AlertKind::DeliveryFailed) {
        return Some((format!("/jobs/{id}#callbacks"), "Open webhook"));
    }
    if let Some(id) = alert.job_id.or(alert.root_id) {
        return Some((format!("/jobs/{id}"), "Open job"));
    }
    if alert.kind == AlertKind::DeliveryFailed {
        return Some(("/deliveries?state=abandoned".to_owned(), "Open webhooks"));
    }
    let name = alert.job_type.as_ref()?;
    Some(match alert.kind {
        AlertKind::DeadLetters => (rows_of("/dead", List::Dead, vec![Term::is("type", name)]), "Review"),
        _ => (format!("/types/{name}"), "Open job type"),
    })
}

fn types(types: &[TypeStats]) -> AnyView {
    let busy: Vec<&TypeStats> = types.iter().filter(|it| it.counts.total() > 0 || it.open > 0).collect();
    if busy.is_empty() {
        let text = "No work yet. Job types appear here with their first item.";
        return section("types", "Job types", view! { <p class="small soft">{text}</p> }.into_any());
    }
    let rows = busy
        .iter()
        .map(|it| {
            let counts = it.counts;
            let rate = it.rates.first().copied().unwrap_or_default();
            let dead = rows_of("/dead", List::Dead, vec![Term::is("type", &it.job_type)]);
            let oldest = it.oldest_waiting_seconds.map_or_else(|| "–".to_owned(), duration);
            let last_claim = match it.last_asked_at {
                Some(at) => ago(at).into_any(),
                None => "–".into_any(),
            };
            view! {
                <tr role="row" data-key=it.job_type.clone()>
                    <th scope="row" role="rowheader" class="name"><a href=format!("/types/{}", it.job_type)>{it.job_type.clone()}</a></th>
                    <td role="cell" class="num" data-label="Added/s">{per_second(rate.in_per_second)}</td>
                    <td role="cell" class="num" data-label="Done/s">{per_second(rate.out_per_second)}</td>
                    <td role="cell" class="num" data-label="Waiting">{grouped(counts.available)}</td>
                    <td role="cell" class="num" data-label="Oldest">{oldest}</td>
                    <td role="cell" class="num" data-label="In progress">{grouped(it.open)}</td>
                    <td role="cell" class="num" data-label="Retrying">{grouped(counts.retryable)}</td>
                    <td role="cell" class="num" data-label="Failed">
                        {if counts.dead > 0 { view! { <a class="bad" href=dead>{grouped(counts.dead)}</a> }.into_any() } else { "0".into_any() }}
                    </td>
                    <td role="cell" data-label="Last request">{last_claim}</td>
                </tr>
            }
        })
        .collect_view();
    let heads = [
        Words("Job type"),
        Number("Added/s"),
        Number("Done/s"),
        Number("Waiting"),
        Number("Oldest"),
        Number("In progress"),
        Number("Retrying"),
        Number("Failed"),
        Words("Last request"),
    ];
    let table = table::frame("Job types", "by-type", heads, rows);
    view! {
        <section class="card" id="types" aria-labelledby="types-heading">
            <div class="card-head">
                <h2 id="types-heading">"Job types"</h2>
                <span class="sub">"rates are averages of the last minute"</span>
                <div class="end">
                    <a href="/types">"All job types"</a>
                </div>
            </div>
            {table}
        </section>
    }
    .into_any()
}

/// Status of the broker and its number of messages, in one line.
fn broker(broker: &BrokerStats) -> AnyView {
    let messages: i64 = broker.queues.iter().map(|queue| i64::from(queue.messages)).sum();
    let queues = match broker.queues.len() {
        1 => "1 queue".to_owned(),
        n => format!("{} queues", grouped(n as i64)),
    };
    let (shape, status) = if broker.up { ("succeeded", "Connected") } else { ("dead", "Unreachable") };
    let fault = broker.fault.clone().map(|fault| view! { <p class="small wrap">{fault}</p> });
    let message_count = if broker.up && broker.queues.is_empty() {
        "Workers are woken by messages".to_owned()
    } else if broker.up {
        let wake_ups = if messages == 1 { "wake-up" } else { "wake-ups" };
        format!("{} {wake_ups} in {queues}", grouped(messages))
    } else {
        "Nothing is lost: workers are woken without it, a little later".to_owned()
    };
    let waiting = (broker.outbox_waiting > 0).then(|| {
        let more = if broker.outbox_waiting >= 10_000 { "or more " } else { "" };
        let batches = if broker.outbox_waiting == 1 { "batch" } else { "batches" };
        format!(" · {} {more}{batches} to be published", grouped(broker.outbox_waiting))
    });
    view! {
        <p>
            <span class=format!("state s-{shape}")>{icon(shape)} {status}</span>
            " " <span class="soft small">{ago(broker.since)}</span>
        </p>
        {fault}
        <p class="xs soft">{message_count} {waiting}</p>
    }
    .into_any()
}

/// `/workers`: workers, each by its credential, and the items that they are processing.
pub fn workers_page(workers: &[(Uuid, Worker)], next: Option<&String>, first: bool) -> Page {
    let list = if workers.is_empty() && first {
        let next_step = view! { <a class="btn" href="/api/docs">"Connect a worker"</a> }.into_any();
        crate::components::panel::empty(
            "No workers yet",
            "Connect one and it appears here with the items it is working on.",
            next_step,
        )
    } else {
        worker_table(workers, next)
    };
    let content = view! {
        <div class="page-head">
            <h1>"Workers"</h1>
            <p class="sub">"Programs that take items over HTTP. Each is listed for a day after it was last seen."</p>
        </div>
        <div id="workers" data-refresh="" data-topics="workers">
            {list}
        </div>
    }
    .into_any();
    Page {
        title: "Workers".to_owned(),
        nav_section: NavSection::Workers,
        content,
        is_live: false,
        is_translated: false,
    }
}

fn worker_table(workers: &[(Uuid, Worker)], next: Option<&String>) -> AnyView {
    let rows = workers
        .iter()
        .map(|(credential_id, worker)| {
            let running_items = rows_of("/items", List::Items, vec![Term::is("state", "running"), Term::is("worker", &worker.worker_id)]);
            let open = if worker.open > 0 {
                view! { <a href=running_items>{grouped(worker.open)}</a> }.into_any()
            } else {
                "0".into_any()
            };
            view! {
                <tr role="row" data-key=format!("{} {}", worker.owner, worker.worker_id)>
                    <th scope="row" role="rowheader" class="name">
                        <a class="mono" href=worker::link(*credential_id, &worker.worker_id)>{worker.worker_id.clone()}</a>
                    </th>
                    <td role="cell" data-label="Service">{worker.owner.clone()}</td>
                    <td role="cell" data-label="Types">{worker.types.join(", ")}</td>
                    <td role="cell" class="num" data-label="In progress">{open}</td>
                    <td role="cell" data-label="Last seen">{ago(worker.last_seen_at)} <span class="sub">" (" {clock(worker.last_seen_at)} ")"</span></td>
                </tr>
            }
        })
        .collect_view();
    let next = next_page(next, "More workers");
    let heads = [Words("Worker"), Words("Service"), Words("Types"), Number("In progress"), Words("Last seen")];
    let table = table::frame("Workers", "workers", heads, rows);
    view! {
        <div class="card">{table}</div>
        {next}
    }
    .into_any()
}
