//! `GET /metrics`: Prometheus text. Counters are updated as things happen; gauges of open work are read from the
//! database on each scrape.
//!
//! The main listener requires a token with the scope `metrics` or `admin`, whatever the client address: behind a proxy
//! every peer looks local. `TREELINE_METRICS_LISTEN` opens a separate listener that requires no token and serves
//! nothing else; restricting access to its address is up to the operator.

pub mod catalog; // all metrics with their help texts
pub mod process; // process_*

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Mutex, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use axum::{
    Router,
    extract::State,
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
    routing::get,
};
use domain::{ItemState, notify::alert::AlertKind};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use tokio::time::timeout;

use crate::{
    App,
    broker::Broker,
    config::roles::Role,
    http::error::{Error, Result},
};
use engine::{
    access::caller::{Caller, Scope},
    store::{
        migrations,
        notify::{alerts, deliveries},
        query::statistics,
    },
};

/// Bounds of the histograms of requests, in seconds. Long polls take up to 30 seconds.
const REQUEST_BOUNDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 2.0, 10.0, 35.0];

/// Bounds of the histograms of work, in seconds: items may wait for days, and attempts run for hours.
const WORK_BOUNDS: [f64; 14] =
    [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3_600.0, 14_400.0, 43_200.0, 86_400.0];

/// Histograms with the bounds of work.
const WORK: [&str; 3] = ["treeline_wait_seconds", "treeline_run_seconds", "treeline_push_seconds"];

/// Recorder of the process, shared by all servers in it (tests run several).
static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();

/// Interval at which samples are folded into their histograms without a scrape.
const UPKEEP: Duration = Duration::from_secs(5);

/// Time for reading the gauges of the database. Without them, a scrape has all others; Prometheus waits ten seconds.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// Time for a database that is up to answer.
const READY_TIMEOUT: Duration = Duration::from_secs(2);

/// Installs the recorder, and runs its upkeep until the server stops, so that its memory stays flat.
pub fn start(app: &App) {
    let recorder =
        RECORDER.get_or_init(|| install().inspect_err(|error| tracing::warn!(%error, "metrics unavailable")).ok());
    let Some(recorder) = recorder else { return };
    let stopped = app.shutdown.clone();
    app.tasks.spawn(async move {
        let mut tick = tokio::time::interval(UPKEEP);
        while stopped.run_until_cancelled(tick.tick()).await.is_some() {
            recorder.run_upkeep();
        }
    });
}

fn install() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new().set_buckets(&REQUEST_BOUNDS)?;
    for name in WORK {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &WORK_BOUNDS)?;
    }
    let handle = builder.install_recorder()?;
    catalog::describe();
    metrics::gauge!("treeline_build_info", "version" => env!("CARGO_PKG_VERSION")).set(1.0);
    Ok(handle)
}

/// Label of requests for paths that match no route, and of methods that HTTP does not define.
const OTHER: &str = "other";

/// Name of a route in the labels. A body that is a stream or a file has a name of its own, because such a request takes
/// as long as its client sends.
pub fn route_label(route: Option<&str>, headers: &HeaderMap) -> String {
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let is_json = essence.is_empty() || essence.eq_ignore_ascii_case("application/json");
    let kind = match route {
        Some("/api/v1/jobs" | "/api/v1/jobs/{id}/items") if !is_json => " (stream)",
        _ => "",
    };
    format!("{}{kind}", route.unwrap_or(OTHER))
}

/// Counts a finished request. `route` is the template of the matched route, so that the number of series is bounded.
pub fn answered(route: String, method: &Method, status: StatusCode, took: Duration) {
    let method = match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => OTHER,
    };
    let code = status.as_u16().to_string();
    metrics::counter!("treeline_http_requests_total", "route" => route.clone(), "method" => method, "status" => code)
        .increment(1);
    let class = match status.as_u16() / 100 {
        1 => "1xx",
        2 => "2xx",
        3 => "3xx",
        4 => "4xx",
        _ => "5xx",
    };
    metrics::histogram!("treeline_http_seconds", "route" => route, "method" => method, "status" => class)
        .record(took.as_secs_f64());
}

/// `GET /metrics`, with a token.
pub async fn get_metrics(State(app): State<App>, caller: Caller) -> Result<Response> {
    caller.require(Scope::Metrics)?;
    render(&app).await
}

/// Router of the separate metrics listener.
pub fn router(app: &App) -> Router {
    Router::new()
        .route("/metrics", get(|State(app): State<App>| async move { render(&app).await }))
        .with_state(app.clone())
}

async fn render(app: &App) -> Result<Response> {
    let Some(recorder) = RECORDER.get().and_then(Option::as_ref) else {
        return Err(Error(engine::error::Error::Broken("the metrics recorder is missing".into())));
    };
    let began = Instant::now();
    // Gauges wait behind busy pages, which are no outage.
    let is_ready = timeout(READY_TIMEOUT, migrations::is_ready(&app.pools.credentials));
    let (is_ready, read) = futures::join!(is_ready, timeout(READ_TIMEOUT, read_gauges(app)));
    let is_up = matches!(is_ready, Ok(Ok(()))) || matches!(read, Ok(Ok(())));
    match read {
        Ok(Ok(())) => {}
        Ok(Err(Error(error))) => tracing::warn!(%error, "gauges of the database are not read"),
        Err(_) => tracing::warn!("gauges of the database are not read: it does not answer"),
    }
    metrics::gauge!("treeline_database_up").set(f64::from(u8::from(is_up)));
    metrics::histogram!("treeline_metrics_read_seconds").record(began.elapsed().as_secs_f64());
    let under_way = app.under_way.load(std::sync::atomic::Ordering::Relaxed);
    metrics::gauge!("treeline_http_requests_under_way").set(under_way as f64);
    metrics::gauge!("treeline_event_streams_open").set(app.hub.open_streams() as f64);
    for (pool, used, idle) in app.pools.connections() {
        metrics::gauge!("treeline_db_connections", "pool" => pool, "state" => "used").set(used as f64);
        metrics::gauge!("treeline_db_connections", "pool" => pool, "state" => "idle").set(idle as f64);
    }
    let text = format!("{}{}", recorder.render(), process::render());
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response())
}

/// Names of the job types whose gauges a server has set.
#[derive(Default)]
pub struct MeasuredTypes(Mutex<BTreeSet<String>>);

impl MeasuredTypes {
    /// Replaces the names by those of the types that exist. Returns those that are gone.
    fn replace(&self, existing: BTreeSet<String>) -> Vec<String> {
        let mut measured = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = measured.difference(&existing).cloned().collect();
        *measured = existing;
        gone
    }
}

/// Sets the gauges of a deleted job type to 0, which would otherwise keep their last values.
fn clear_gauges(job_type: &str, has_broker: bool) {
    for state in ItemState::ALL {
        let labels = [("type", job_type.to_owned()), ("state", state.as_str().to_owned())];
        metrics::gauge!("treeline_items", &labels).set(0.0);
    }
    metrics::gauge!("treeline_type_paused", "type" => job_type.to_owned()).set(0.0);
    metrics::gauge!("treeline_type_rate_limited", "type" => job_type.to_owned()).set(0.0);
    metrics::gauge!("treeline_oldest_available_seconds", "type" => job_type.to_owned()).set(0.0);
    metrics::gauge!("treeline_open_assignments", "type" => job_type.to_owned()).set(0.0);
    if has_broker {
        metrics::gauge!("treeline_broker_queue_depth", "type" => job_type.to_owned()).set(0.0);
    }
}

async fn read_gauges(app: &App) -> Result<()> {
    let work = statistics::open_work(&app.pool).await?;
    let types = app.engine.types().all();
    // Only a process with this role is connected.
    let broker = app.broker.as_ref().filter(|_| app.config.roles.has(Role::Maintenance)).map(Broker::status);
    let queues = broker.iter().flat_map(|status| status.queues.keys());
    let names = work.iter().map(|open| &open.job_type).chain(types.iter().map(|info| &info.name)).chain(queues);
    for gone in app.measured_types.replace(names.cloned().collect()) {
        clear_gauges(&gone, broker.is_some());
    }
    for open in &work {
        for state in ItemState::ALL {
            let labels = [("type", open.job_type.clone()), ("state", state.as_str().to_owned())];
            metrics::gauge!("treeline_items", &labels).set(open.counts.get(state) as f64);
        }
    }
    for info in types {
        let is_paused = info.paused || info.concurrency == Some(0);
        metrics::gauge!("treeline_type_paused", "type" => info.name.clone()).set(f64::from(u8::from(is_paused)));
        let is_limited = info.limits.rate_limit.is_some();
        metrics::gauge!("treeline_type_rate_limited", "type" => info.name.clone()).set(f64::from(u8::from(is_limited)));
        // A counter that begins with its first items has no increase to alert about.
        for state in ItemState::ALL.into_iter().filter(|state| state.is_final()) {
            let labels = [("type", info.name.clone()), ("outcome", state.as_str().to_owned())];
            metrics::counter!("treeline_endings_total", &labels).increment(0);
        }
    }
    let oldest: HashMap<String, f64> = statistics::oldest_available(&app.pool).await?.into_iter().collect();
    for open in work {
        let seconds = oldest.get(&open.job_type).copied().unwrap_or(0.0);
        metrics::gauge!("treeline_oldest_available_seconds", "type" => open.job_type).set(seconds);
    }
    for (job_type, open) in statistics::open_assignments(&app.pool).await? {
        metrics::gauge!("treeline_open_assignments", "type" => job_type).set(open as f64);
    }
    if let Some(status) = broker {
        metrics::gauge!("treeline_broker_up").set(f64::from(u8::from(status.is_up)));
        metrics::gauge!("treeline_broker_outbox_waiting").set(app.engine.unpublished_batches().await? as f64);
        for (job_type, messages) in status.queues {
            metrics::gauge!("treeline_broker_queue_depth", "type" => job_type).set(f64::from(messages));
        }
    }
    metrics::gauge!("treeline_callbacks_pending").set(deliveries::pending(&app.pool).await? as f64);
    let open: HashMap<String, i64> = alerts::open_counts(&app.pool).await?.into_iter().collect();
    for kind in AlertKind::ALL.map(AlertKind::as_str) {
        metrics::gauge!("treeline_alerts_open", "kind" => kind).set(open.get(kind).copied().unwrap_or(0) as f64);
    }
    Ok(())
}
