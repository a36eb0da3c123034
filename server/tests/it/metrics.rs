//! `/metrics` is for tokens of the scope `metrics`, and without authentication on a listener that serves nothing else.
//! Every metric is described, and dashboards, alert rules, and the documentation name those that exist.
//!
//! The address of a request grants nothing: behind a proxy every peer looks local.

use std::{
    collections::{BTreeMap, BTreeSet},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use server::http::metrics::catalog::{Kind, METRICS};

use crate::{
    bulk::{claim, finish, id},
    support::{Api, Server, until},
};

#[tokio::test]
async fn metrics_require_a_token() {
    let server = Server::start().await;
    // From this very machine, through nobody.
    server.stranger().get("/metrics").await.expect_problem(401, "unauthenticated");
    for role in ["user", "support"] {
        server.person(role, role).await.get("/metrics").await.expect_problem(403, "forbidden");
    }
    for scope in ["jobs:read", "jobs:write", "work"] {
        let other = server.service("other", &[scope]).await;
        other.get("/metrics").await.expect_problem(403, "forbidden");
    }
    let scraper = server.service("prometheus", &["metrics"]).await;
    let keeper = server.service("keeper", &["admin"]).await;
    for allowed in [&scraper, &keeper, &server.person("ada", "admin").await] {
        let metrics = allowed.get("/metrics").await;
        metrics.expect(200);
        assert!(metrics.text.contains("treeline_items{type=\"import\",state=\"available\"} 0"), "{}", metrics.text);
    }
    // The scope opens nothing else.
    for path in ["/api/v1/jobs", "/api/v1/items", "/api/v1/workers", "/api/v1/stats", "/api/v1/audit", "/api/v1/tokens"]
    {
        scraper.get(path).await.expect_problem(403, "forbidden");
    }
    scraper.post("/api/v1/jobs", json!({"type": "import"})).await.expect_problem(403, "forbidden");
    assert_eq!(scraper.get("/api/v1/me").await.expect(200)["scopes"], json!(["metrics"]));
    server.stop().await;
}

#[tokio::test]
async fn metrics_listener_serves_metrics_only() {
    let server = Server::start_with(|config| config.monitoring.metrics_listen = Some(([127, 0, 0, 1], 0).into())).await;
    let there = server.running.metrics_addr.expect("an address");
    let there = Api::new(&format!("http://{there}"));
    let metrics = there.get("/metrics").await;
    metrics.expect(200);
    assert!(metrics.text.contains("treeline_items{"), "{}", metrics.text);
    for path in ["/", "/healthz", "/api/v1/jobs", "/api/v1/openapi.json", "/sign-in"] {
        assert_eq!(there.get(path).await.status, 404, "{path}");
    }
    server.stranger().get("/metrics").await.expect_problem(401, "unauthenticated");
    server.stop().await;
}

/// The metrics are for outages, so they outlive the database.
#[tokio::test]
async fn metrics_are_served_without_the_database() {
    let (server, wire) = Server::start_with_proxy().await;
    let with_listener = server
        .another_with(|config| {
            let url = server.running.app.config.database_url.as_ref().expect("a URL");
            config.database_url = Some(url.reveal().parse().expect("a secret"));
            config.monitoring.metrics_listen = Some(([127, 0, 0, 1], 0).into());
        })
        .await;
    let there = Api::new(&format!("http://{}", with_listener.running.metrics_addr.expect("an address")));
    let up = async |expected: f64| {
        let metrics = there.get("/metrics").await;
        assert_eq!(metrics.status, 200, "{}", metrics.text);
        metrics.text.contains("process_threads") && value(&metrics.text, "treeline_database_up", &[]) == Some(expected)
    };
    assert!(up(1.0).await);
    wire.cut();
    until(async || up(0.0).await).await;
    wire.restore();
    until(async || up(1.0).await).await;
    with_listener.running.shutdown().await.expect("it stops");
    server.stop().await;
}

#[tokio::test]
async fn gauges_of_a_type_are_those_of_the_alert_rules() {
    let server = Server::start().await;
    let limit = json!({"rate_limit": {"count": 5, "per_seconds": 60}});
    server.put("/api/v1/job-types/late_mail", limit).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "late_mail", "items": [{}]})).await.expect(201);
    let gauge = async |name: &str| value(&server.get("/metrics").await.text, name, &[("type", "late_mail")]);
    // An hour, also in fair turns.
    let age = "with turns as (update ready set fair_turn = fair_turn - 3600 * 100000)
        update item set created_at = created_at - interval '1 hour', run_after = null";
    sqlx::query(age).execute(&server.running.app.pool).await.expect("older");
    assert!(gauge("treeline_oldest_available_seconds").await.is_some_and(|seconds| seconds >= 3_600.0));
    // It was to start only now.
    let start = "update item set run_after = clock_timestamp()";
    sqlx::query(start).execute(&server.running.app.pool).await.expect("scheduled");
    assert!(gauge("treeline_oldest_available_seconds").await.is_some_and(|seconds| seconds < 60.0));
    // The first items that fail are an increase.
    let dead = [("type", "late_mail"), ("outcome", "dead")];
    assert_eq!(value(&server.get("/metrics").await.text, "treeline_endings_total", &dead), Some(0.0));
    assert_eq!(gauge("treeline_type_rate_limited").await, Some(1.0));
    assert_eq!(gauge("treeline_type_paused").await, Some(0.0));
    server.post("/api/v1/job-types/late_mail/pause", json!({"reason": "holidays"})).await.expect(200);
    until(async || gauge("treeline_type_paused").await == Some(1.0)).await;
    server.stop().await;
}

#[tokio::test]
async fn gauges_of_a_deleted_type_are_zero() {
    let server = Server::start().await;
    let limit = json!({"rate_limit": {"count": 5, "per_seconds": 60}});
    server.put("/api/v1/job-types/deleted_mail", limit).await.expect(201);
    let limited = async || {
        let metrics = server.get("/metrics").await.text;
        value(&metrics, "treeline_type_rate_limited", &[("type", "deleted_mail")])
    };
    until(async || limited().await == Some(1.0)).await;
    server.delete("/api/v1/job-types/deleted_mail").await.expect(204);
    until(async || limited().await == Some(0.0)).await;
    server.stop().await;
}

#[tokio::test]
async fn retried_item_is_not_as_old_as_its_failure() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/old_mail", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "old_mail", "items": [{"payload": 1}]})).await.expect(201);
    let body = json!({"worker_id": "w", "types": ["old_mail"]});
    let claimed = server.post("/api/v1/assignments", body).await.expect(200)["assignments"][0].clone();
    let failure = json!({"error": {"message": "no"}, "retryable": false});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed)), failure).await.expect(200);
    let age = "with attempts as (update attempt set started_at = started_at - interval '7 days',
          ended_at = ended_at - interval '7 days')
        update item set created_at = created_at - interval '7 days'";
    sqlx::query(age).execute(&server.running.app.pool).await.expect("older");
    server.post(&format!("/api/v1/items/{}/retry", id(&claimed["item"])), json!({})).await.expect(200);
    let metrics = server.get("/metrics").await.text;
    let seconds = value(&metrics, "treeline_oldest_available_seconds", &[("type", "old_mail")]);
    assert!(seconds.is_some_and(|seconds| seconds < 60.0), "{seconds:?}");
    server.stop().await;
}

#[tokio::test]
async fn readiness_does_not_wait_for_pages_and_searches() {
    let server = Server::start().await;
    let pool = &server.running.app.pool;
    let mut busy = Vec::new();
    for _ in 0..pool.options().get_max_connections() {
        // Background tasks use the others.
        busy.extend(pool.acquire().await.ok());
    }
    server.stranger().get("/readyz").await.expect(200);
    // Nor is the database called away. (Servers of all tests share the gauge.)
    until(async || value(&server.get("/metrics").await.text, "treeline_database_up", &[]) == Some(1.0)).await;
    drop(busy);
    server.stop().await;
}

/// Names of the metrics with samples, and those with `# HELP` and `# TYPE`.
struct Exposition {
    sampled: BTreeSet<String>,
    helped: BTreeSet<String>,
    typed: BTreeMap<String, String>,
}

impl Exposition {
    fn of(text: &str) -> Self {
        let mut exposition = Self { sampled: BTreeSet::new(), helped: BTreeSet::new(), typed: BTreeMap::new() };
        for line in text.lines().filter(|line| !line.is_empty()) {
            let mut words = line.split(' ');
            match (words.next(), words.next(), words.next()) {
                (Some("#"), Some("HELP"), Some(name)) => assert!(exposition.helped.insert(name.to_owned()), "{name}"),
                (Some("#"), Some("TYPE"), Some(name)) => {
                    let kind = words.next().expect("a type").to_owned();
                    assert!(exposition.typed.insert(name.to_owned(), kind).is_none(), "{name}");
                }
                (Some(sample), ..) => {
                    exposition.sampled.insert(sample.split('{').next().expect("a name").to_owned());
                }
                (None, ..) => {}
            }
        }
        exposition
    }

    /// Metric that a sample belongs to: without the suffixes of histograms.
    fn metric_of<'a>(&self, sample: &'a str) -> &'a str {
        let of_histogram = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| sample.strip_suffix(suffix));
        of_histogram.filter(|name| self.typed.get(*name).is_some_and(|kind| kind == "histogram")).unwrap_or(sample)
    }
}

/// Value of the sample with these labels, in any order.
fn value(text: &str, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
    let has = |line: &str| labels.iter().all(|(label, value)| line.contains(&format!("{label}=\"{value}\"")));
    let line = text.lines().find(|line| {
        line.strip_prefix(name).is_some_and(|rest| rest.starts_with('{') || rest.starts_with(' ')) && has(line)
    })?;
    line.rsplit(' ').next()?.parse().ok()
}

/// Runs Prometheus' own tool, which `cargo xtask setup` installs.
fn promtool(arguments: &[&str], input: &str) -> String {
    let mut child = Command::new("promtool")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("promtool runs: cargo xtask setup installs it");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("it reads");
    let output = child.wait_with_output().expect("it ends");
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "promtool {arguments:?}: {text}");
    text
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the repository").to_owned()
}

#[tokio::test]
async fn every_metric_has_help_and_type() {
    let server = Server::start().await;
    // The histograms belong to the process, which is shared with other tests: only this one uses the type.
    server.put("/api/v1/job-types/metrics_mail", json!({"max_failures": 1})).await.expect(201);
    let items = json!([{"payload": 1}, {"payload": 2}]);
    server.post("/api/v1/jobs", json!({"type": "metrics_mail", "sealed": true, "items": items})).await.expect(201);
    let claimed = claim(&server, "metrics_mail", 2, 5).await;
    finish(&server, &claimed[0]).await;
    let failure = json!({"error": {"message": "no"}});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed[1])), failure).await.expect(200);
    server.get("/api/v1/jobs/no-id").await.expect_problem(404, "not_found");
    server.get("/nothing/at/all").await;
    server.get("/metrics").await.expect(200);
    let text = server.get("/metrics").await.text;
    let exposition = Exposition::of(&text);
    for sample in &exposition.sampled {
        let metric = exposition.metric_of(sample);
        assert!(exposition.helped.contains(metric) && exposition.typed.contains_key(metric), "{metric}");
    }
    promtool(&["check", "metrics"], &text);

    let mail = ("type", "metrics_mail");
    assert_eq!(value(&text, "treeline_wait_seconds_count", &[mail]), Some(2.0));
    for outcome in ["succeeded", "failed"] {
        assert_eq!(value(&text, "treeline_run_seconds_count", &[mail, ("outcome", outcome)]), Some(1.0));
    }
    let result = [("route", "/api/v1/assignments/{id}/result"), ("method", "POST"), ("status", "2xx")];
    assert!(value(&text, "treeline_http_seconds_count", &result).is_some_and(|n| n >= 1.0), "{text}");
    let other = [("route", "other"), ("method", "GET"), ("status", "404")];
    assert!(value(&text, "treeline_http_requests_total", &other).is_some_and(|n| n >= 1.0) || text.contains("{*rest}"));
    assert!(!text.contains("/nothing/at/all") && !text.contains("no-id"), "routes are templates: {text}");
    for (name, kind, _) in server::http::metrics::process::PROCESS {
        assert_eq!(exposition.typed.get(name).map(String::as_str), Some(kind));
        assert!(value(&text, name, &[]).is_some_and(|value| value > 0.0), "{name}");
    }
    server.stop().await;
}

/// Names of metrics in a text.
fn named(text: &str) -> BTreeSet<String> {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c: char| !word(c)).filter(|w| w.starts_with("treeline_") || w.starts_with("process_"));
    words.map(str::to_owned).collect()
}

fn known() -> BTreeSet<String> {
    let mut known: BTreeSet<String> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    for metric in METRICS.iter().filter(|metric| metric.kind == Kind::Histogram) {
        known.extend(["bucket", "sum", "count"].map(|suffix| format!("{}_{suffix}", metric.name)));
    }
    known.extend(server::http::metrics::process::PROCESS.map(|(name, ..)| name.to_owned()));
    known
}

#[test]
fn every_recorded_metric_is_in_the_catalog_and_the_documentation() {
    let mut folders = vec![repository().join("engine/src"), repository().join("server/src")];
    let mut recorded = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).expect("a file");
                for kind in ["counter!(", "gauge!(", "histogram!("] {
                    let call = format!("metrics::{kind}");
                    let uses = text.split(&call).skip(1);
                    recorded.extend(uses.filter_map(|rest| Some(rest.split('"').nth(1)?.to_owned())));
                }
            }
        }
    }
    let catalog: BTreeSet<String> = METRICS.iter().map(|metric| metric.name.to_owned()).collect();
    assert_eq!(recorded, catalog);
    let documented = std::fs::read_to_string(repository().join("docs/observability.md")).expect("the documentation");
    for metric in METRICS {
        let labels = if metric.labels.is_empty() { "–" } else { metric.labels };
        let kind = format!("{:?}", metric.kind).to_lowercase();
        let row = format!("| `{}` | {kind} | {labels} |", metric.name);
        assert!(documented.contains(&row), "{row}");
    }
}

#[test]
fn dashboards_alert_rules_and_autoscaling_name_existing_metrics() {
    let known = known();
    let mut read = 0;
    for folder in ["ops/grafana", "ops/prometheus", "ops/keda"] {
        for entry in std::fs::read_dir(repository().join(folder)).expect("a folder") {
            let path = entry.expect("an entry").path();
            let text = std::fs::read_to_string(&path).expect("a file");
            let unknown: Vec<String> = named(&text).into_iter().filter(|name| !known.contains(name)).collect();
            assert!(unknown.is_empty(), "{}: {unknown:?}", path.display());
            if path.extension().is_some_and(|extension| extension == "json") {
                let dashboard: Value = serde_json::from_str(&text).expect("JSON");
                assert!(dashboard["panels"].as_array().is_some_and(|panels| panels.len() > 5), "{}", path.display());
            }
            read += 1;
        }
    }
    assert!(read >= 6, "{read}");
}

#[test]
fn alert_rules_are_valid_and_fire_as_their_tests_say() {
    let folder = repository().join("ops/prometheus");
    let path = |name: &str| folder.join(name).to_string_lossy().into_owned();
    promtool(&["check", "rules", &path("alerts.yml")], "");
    promtool(&["test", "rules", &path("alerts.test.yml")], "");
    promtool(&["check", "config", &path("prometheus.yml")], "");
}
