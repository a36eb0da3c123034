//! All metrics with their help texts. A metric that is recorded but missing here has no `# HELP` line, and
//! `metrics::every_metric_has_help_and_type` fails.

use metrics::Unit;

/// Kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
}

/// One metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub labels: &'static str,
    pub help: &'static str,
}

const fn metric(kind: Kind, name: &'static str, labels: &'static str, help: &'static str) -> Metric {
    Metric { name, kind, labels, help }
}

use Kind::{Counter, Gauge, Histogram};

/// Metrics of the recorder. `process_*` are in `process.rs`.
pub const METRICS: [Metric; 37] = [
    metric(Gauge, "treeline_build_info", "version", "Always 1; the label is the version of this server."),
    metric(Gauge, "treeline_database_up", "", "1 while PostgreSQL answers this server."),
    metric(
        Gauge,
        "treeline_items",
        "type, state",
        "Items of stored trees, open and complete. The same on every server.",
    ),
    metric(
        Gauge,
        "treeline_oldest_available_seconds",
        "type",
        "Time for which the next item of a type has been available. The same on every server.",
    ),
    metric(
        Gauge,
        "treeline_type_paused",
        "type",
        "1 while a type is paused or its limit is 0. The same on every server.",
    ),
    metric(Gauge, "treeline_type_rate_limited", "type", "1 if a type has a rate limit. The same on every server."),
    metric(Gauge, "treeline_open_assignments", "type", "Items that workers hold. The same on every server."),
    metric(
        Histogram,
        "treeline_wait_seconds",
        "type",
        "Time from the addition of an item to the start of its first attempt, for items that this server handed out.",
    ),
    metric(
        Histogram,
        "treeline_run_seconds",
        "type, outcome",
        "Duration of attempts that ended with a result or failed, for attempts whose ending this server recorded.",
    ),
    metric(Counter, "treeline_endings_total", "type, outcome", "Items that reached a final state through this server."),
    metric(
        Counter,
        "treeline_http_requests_total",
        "route, method, status",
        "Answered requests, by route template, method, and status.",
    ),
    metric(
        Histogram,
        "treeline_http_seconds",
        "route, method, status",
        "Time to the head of the response, by route template, method, and class of the status (2xx to 5xx). Long polls \
         include their wait.",
    ),
    metric(Gauge, "treeline_http_requests_under_way", "", "Requests without a response yet, on this server."),
    metric(Gauge, "treeline_event_streams_open", "", "Open event streams of this server."),
    metric(Counter, "treeline_connections_refused_total", "", "Connections refused at a limit or during TLS."),
    metric(
        Counter,
        "treeline_bodies_refused_total",
        "",
        "Requests refused because bodies in memory reached their limit.",
    ),
    metric(
        Counter,
        "treeline_standby_reads_total",
        "outcome",
        "Requests that could read from the standby of TREELINE_READ_URL, by outcome: standby, or primary because the \
         standby was behind or unavailable, or because the response was repeated there.",
    ),
    metric(
        Gauge,
        "treeline_db_connections",
        "pool, state",
        "Connections of this server to PostgreSQL, by pool, in use or idle.",
    ),
    metric(Histogram, "treeline_metrics_read_seconds", "", "Time that a scrape spends in the database."),
    metric(
        Histogram,
        "treeline_push_seconds",
        "",
        "Time from a push request to the worker's response, or to the end of the wait for it.",
    ),
    metric(
        Counter,
        "treeline_push_answers_total",
        "type, answer",
        "Push requests by outcome: result, failure, later (202), silence (no response), busy (429 or 503).",
    ),
    metric(Gauge, "treeline_push_under_way", "target", "Push requests of this server in progress, by host and port."),
    metric(Gauge, "treeline_push_target_away", "target", "1 while push to a host and port is paused after failures."),
    metric(Counter, "treeline_callback_tries_total", "came_to", "Callback attempts by the state that followed."),
    metric(Gauge, "treeline_callbacks_pending", "", "Callbacks that are not delivered yet. The same on every server."),
    metric(Gauge, "treeline_alerts_open", "kind", "Open alerts. The same on every server."),
    metric(Counter, "treeline_alerts_total", "kind", "Alerts that this server raised."),
    metric(Gauge, "treeline_broker_up", "", "1 while this server is connected to RabbitMQ."),
    metric(
        Gauge,
        "treeline_broker_outbox_waiting",
        "",
        "Batches of messages that wait for RabbitMQ. The same on every server.",
    ),
    metric(Gauge, "treeline_broker_queue_depth", "type", "Messages in the queue of a type, as RabbitMQ counts them."),
    metric(Counter, "treeline_broker_published_total", "", "Messages that RabbitMQ confirmed."),
    metric(Counter, "treeline_broker_returned_total", "", "Messages that RabbitMQ could not route."),
    metric(Counter, "treeline_broker_nacked_total", "", "Messages that RabbitMQ rejected."),
    metric(Counter, "treeline_broker_unconfirmed_total", "", "Messages that RabbitMQ did not confirm in time."),
    metric(Counter, "treeline_broker_resent_total", "", "Messages sent again because their items were still waiting."),
    metric(
        Counter,
        "treeline_trace_batches_total",
        "outcome",
        "Batches of trace spans by outcome: accepted, refused, unreachable. A refused one may be sent again.",
    ),
    metric(Counter, "treeline_trace_attempts_lost_total", "", "Attempts without spans, as too many ended at once."),
];

/// Describes all metrics to the recorder.
pub(super) fn describe() {
    for Metric { name, kind, help, .. } in METRICS {
        let unit = if name.ends_with("_seconds") { Unit::Seconds } else { Unit::Count };
        match kind {
            Counter => metrics::describe_counter!(name, unit, help),
            Gauge => metrics::describe_gauge!(name, unit, help),
            Histogram => metrics::describe_histogram!(name, unit, help),
        }
    }
}
