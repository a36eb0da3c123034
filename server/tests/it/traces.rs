//! Traces: `traceparent` travels from the request that adds an item to its worker, to push requests and callbacks, and
//! with an OTLP endpoint the server's own spans join the same trace.

use opentelemetry_proto::tonic::trace::v1::Span;
use reqwest::Method;
use serde_json::{Value, json};
use server::config::Config;

use crate::{
    bulk::{claim, id},
    callbacks::{quick, quick_server},
    push::{item_in, push_type},
    support::{
        Answer, Api, Server,
        collector::{Collector, Spans, hex, text},
        receiver::Receiver,
    },
};

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";

/// Context of the client: sampled, at a span of its own.
fn sent() -> String {
    format!("00-{TRACE}-00f067aa0ba902b7-01")
}

/// Posts within a trace.
async fn post_in(api: &Api, traceparent: &str, path: &str, body: &Value) -> Value {
    let answer = Answer::of(api.request(Method::POST, path).header("traceparent", traceparent).json(body)).await;
    assert!(answer.status.is_success(), "{}", answer.text);
    answer.json()
}

/// Creates a sealed job with one item, within a trace.
async fn job_in(api: &Api, traceparent: &str, name: &str) -> Value {
    let job = json!({"type": name, "sealed": true, "items": [{"payload": 1}]});
    post_in(api, traceparent, "/api/v1/jobs", &job).await
}

fn with_collector(collector: &Collector) -> impl FnOnce(&mut Config) {
    let url = collector.url();
    move |config| {
        quick(config);
        config.monitoring.otlp_endpoint = Some(url.parse().expect("a secret"));
    }
}

/// Spans of a trace.
fn of_trace<'a>(spans: &'a Spans, trace_id: &str) -> Vec<&'a Span> {
    spans.all.iter().filter(|span| hex(&span.trace_id) == trace_id).collect()
}

#[tokio::test]
async fn one_trace_shows_request_item_claim_worker_result_and_callback() {
    let mut collector = Collector::start().await;
    let server = Server::start_with(with_collector(&collector)).await;
    let mut receiver = Receiver::start().await;
    server.put("/api/v1/job-types/mail", json!({"max_failures": 2, "backoff": {"min_seconds": 0}})).await.expect(201);
    let job = json!({"type": "mail", "sealed": true, "items": [{"payload": 1}],
        "on_completed": {"url": receiver.url("/done")}});
    let job = post_in(&server, &sent(), "/api/v1/jobs", &job).await;

    // The first attempt fails, the second succeeds; each is given its own parent.
    let first = claim(&server, "mail", 1, 5).await.remove(0);
    let first_parent = first["item"]["traceparent"].as_str().expect("a context").to_owned();
    let failure = json!({"error": {"message": "not now"}});
    post_in(&server, &first_parent, &format!("/api/v1/assignments/{}/failure", id(&first)), &failure).await;
    let second = claim(&server, "mail", 1, 5).await.remove(0);
    let parent = second["item"]["traceparent"].as_str().expect("a context").to_owned();
    assert!(parent.starts_with(&format!("00-{TRACE}-")) && parent.ends_with("-01"), "{parent}");
    assert_ne!(parent, first_parent);

    // The worker's own span is below the attempt, and it sends its result from within.
    let worker = format!("00-{TRACE}-1111111111111111-01");
    post_in(&server, &worker, &format!("/api/v1/assignments/{}/result", id(&second)), &json!({"result": 2})).await;
    let post = receiver.next().await;
    let callback = post.header("traceparent").to_owned();
    post.status(200);
    server.stop().await;

    let spans = collector.received();
    assert!(spans.services.iter().all(|name| name == "treeline") && !spans.services.is_empty());
    let trace = of_trace(&spans, TRACE);
    let create = spans.only("POST /api/v1/jobs");
    let item = spans.only("item mail");
    let result = spans.only("POST /api/v1/assignments/{id}/result");
    let callback_span = spans.only("callback");
    let attempts: Vec<&&Span> = trace.iter().filter(|span| span.name == "attempt mail").collect();
    let claims: Vec<&&Span> = trace.iter().filter(|span| span.name == "claim mail").collect();
    assert_eq!((attempts.len(), claims.len()), (2, 2));

    assert_eq!(hex(&create.parent_span_id), "00f067aa0ba902b7", "below the client's span");
    assert_eq!(item.parent_span_id, create.span_id);
    assert_eq!(text(&item.attributes, "treeline.job.id"), job["id"].as_str().map(str::to_owned));
    for below_the_item in attempts.iter().chain(&claims) {
        assert_eq!(below_the_item.parent_span_id, item.span_id);
        assert!(below_the_item.start_time_unix_nano <= below_the_item.end_time_unix_nano);
    }
    let ends: Vec<Option<String>> = attempts.iter().map(|span| text(&span.attributes, "treeline.ended_as")).collect();
    assert_eq!(ends, [Some("failed".to_owned()), Some("succeeded".to_owned())]);
    let given: Vec<String> = attempts.iter().map(|span| format!("00-{TRACE}-{}-01", hex(&span.span_id))).collect();
    assert_eq!(given, [first_parent, parent], "a worker's span is below the span of its attempt");
    assert_eq!(hex(&result.parent_span_id), "1111111111111111", "below the worker's span");
    assert_eq!(result.trace_id, create.trace_id);
    assert_eq!(callback_span.parent_span_id, create.span_id);
    assert_eq!(callback, format!("00-{TRACE}-{}-01", hex(&callback_span.span_id)));
    assert!(item.start_time_unix_nano <= item.end_time_unix_nano);
    // Requests without a context have traces of their own; probes have none.
    assert!(spans.has("POST /api/v1/assignments") && !spans.has("GET /healthz"));
    assert_eq!(spans.only("PUT /api/v1/job-types/{name}").parent_span_id, Vec::<u8>::new());
}

#[tokio::test]
async fn an_untraced_request_begins_a_trace_and_an_unsampled_one_sends_nothing() {
    let mut collector = Collector::start().await;
    let server = Server::start_with(with_collector(&collector)).await;
    server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    let none = server.post("/api/v1/jobs", json!({"type": "mail", "items": [{"payload": 1}]})).await.expect(201);
    let claimed = claim(&server, "mail", 1, 5).await.remove(0);
    let begun = claimed["item"]["traceparent"].as_str().expect("a context").to_owned();
    let path = format!("/api/v1/assignments/{}/result", id(&claimed));
    server.post(&path, json!({})).await.expect(200);

    // Items that are added later belong to the trace of their own request.
    let unsampled = format!("00-{TRACE}-00f067aa0ba902b7-00");
    post_in(&server, &unsampled, &format!("/api/v1/jobs/{}/items", id(&none)), &json!([{"payload": 2}])).await;
    let later = claim(&server, "mail", 1, 5).await.remove(0);
    let later_parent = later["item"]["traceparent"].as_str().expect("a context").to_owned();
    assert!(later_parent.starts_with(&format!("00-{TRACE}-")) && later_parent.ends_with("-00"), "{later_parent}");
    server.post(&format!("/api/v1/assignments/{}/result", id(&later)), json!({})).await.expect(200);
    server.stop().await;

    let spans = collector.received();
    assert!(of_trace(&spans, TRACE).is_empty());
    let create = spans.only("POST /api/v1/jobs");
    assert!(create.parent_span_id.is_empty() && begun[3..35] == hex(&create.trace_id));
    assert_eq!(spans.only("attempt mail").trace_id, create.trace_id);
}

#[tokio::test]
async fn a_lost_collector_delays_nothing() {
    let url = Collector::start().await.url();
    let server =
        Server::start_with(|config| config.monitoring.otlp_endpoint = Some(url.parse().expect("a secret"))).await;
    server.put("/api/v1/job-types/mail", json!({})).await.expect(201);
    job_in(&server, &sent(), "mail").await;
    let claimed = claim(&server, "mail", 1, 5).await.remove(0);
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), json!({})).await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn trace_context_passes_through_without_a_collector() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let traced = job_in(&server, &sent(), "a").await;
    let claimed = claim(&server, "a", 1, 5).await.remove(0);
    assert_eq!(claimed["item"]["traceparent"], sent().as_str());
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed)), json!({})).await.expect(200);

    // Of items in a stream, and of a tree with an id of the client's.
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let other = format!("00-{TRACE}-2222222222222222-01");
    let stream = server
        .request(Method::POST, &format!("/api/v1/jobs/{}/items", id(&job)))
        .header("traceparent", &other)
        .header("content-type", "application/x-ndjson")
        .body("{\"payload\": 1}\n");
    Answer::of(stream).await.expect(200);
    let claimed = claim(&server, "a", 1, 5).await.remove(0);
    assert_eq!(claimed["item"]["traceparent"], other.as_str());

    // A repeated claim names the same context.
    let own = json!({"type": "a", "items": [{"payload": 1}]});
    let put = server
        .request(Method::PUT, "/api/v1/jobs/0190a5e0-0000-7000-8000-000000000001")
        .header("traceparent", sent())
        .json(&own);
    Answer::of(put).await.expect(201);
    let claim_id = "0190a5e0-0000-7000-8000-000000000002";
    for _ in 0..2 {
        let body = json!({"worker_id": "w", "types": ["a"], "claim_id": claim_id});
        let claimed = server.post("/api/v1/assignments", body).await.expect(200);
        assert_eq!(claimed["assignments"][0]["item"]["traceparent"], sent().as_str());
    }

    // Nothing and invalid ones: the field is absent.
    let without = server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    job_in(&server, "00-00000000000000000000000000000000-00f067aa0ba902b7-01", "a").await;
    let two = server
        .request(Method::POST, &format!("/api/v1/jobs/{}/items", id(&without)))
        .header("traceparent", sent())
        .header("traceparent", other.as_str())
        .json(&json!([{"payload": 3}]));
    Answer::of(two).await.expect(200);
    for claimed in claim(&server, "a", 3, 5).await {
        assert!(claimed["item"].get("traceparent").is_none(), "{claimed}");
    }

    // Callbacks and push requests carry it too.
    let job = json!({"type": "a", "sealed": true, "on_completed": {"url": receiver.url("/done")}});
    post_in(&server, &sent(), "/api/v1/jobs", &job).await;
    let post = receiver.next().await;
    assert_eq!(post.header("traceparent"), sent());
    post.status(200);
    push_type(&server, "pushed", &receiver, json!({})).await;
    let pushed = job_in(&server, &sent(), "pushed").await;
    let post = receiver.next().await;
    assert_eq!(post.header("traceparent"), sent());
    post.text(200, "{}");
    item_in(&server, &pushed, "succeeded").await;
    server.post("/api/v1/jobs", json!({"type": "pushed", "sealed": true, "items": [{"payload": 1}]})).await.expect(201);
    let post = receiver.next().await;
    assert_eq!(post.header("traceparent"), "");
    post.text(200, "{}");
    assert!(traced["id"].is_string());
    server.stop().await;
}

#[tokio::test]
async fn pushed_items_show_the_request_below_their_attempt() {
    let mut collector = Collector::start().await;
    let server = Server::start_with(with_collector(&collector)).await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "pushed", &receiver, json!({})).await;
    let job = job_in(&server, &sent(), "pushed").await;
    let post = receiver.next().await;
    let given = post.header("traceparent").to_owned();
    post.text(200, "{}");
    item_in(&server, &job, "succeeded").await;
    server.stop().await;
    let spans = collector.received();
    let push = spans.only("push pushed");
    assert_eq!(push.parent_span_id, spans.only("attempt pushed").span_id);
    assert_eq!(given, format!("00-{TRACE}-{}-01", hex(&push.span_id)));
    assert_eq!(spans.only("claim pushed").parent_span_id, spans.only("item pushed").span_id);
}

#[tokio::test]
async fn trees_of_schedules_and_pages_belong_to_traces() {
    let mut collector = Collector::start().await;
    let server = Server::start_with(with_collector(&collector)).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = json!({"type": "a", "sealed": true, "items": [{"payload": 1}]});

    // A tick begins a trace of its own.
    let new = json!({"name": "every second", "cron": "* * * * * *", "job": job});
    let schedule = id(&server.post("/api/v1/schedules", new).await.expect(201));
    let schedule = format!("/api/v1/schedules/{schedule}");
    let ticked = claim(&server, "a", 1, 20).await.remove(0);
    let ticked = ticked["item"]["traceparent"].as_str().expect("a context").to_owned();
    server.post(&format!("{schedule}/pause"), json!({})).await.expect(200);
    while !claim(&server, "a", 100, 0).await.is_empty() {}

    // A run by hand and an import belong to their request.
    post_in(&server, &sent(), &format!("{schedule}/run"), &json!({})).await;
    let run = claim(&server, "a", 1, 20).await.remove(0);
    let run = run["item"]["traceparent"].as_str().expect("a context").to_owned();
    assert!(run.starts_with(&format!("00-{TRACE}-")), "{run}");
    let ada = server.person("ada", "user").await;
    let sample = ada.form("/imports/sample", &[]).await;
    let step = sample.headers["location"].to_str().expect("text").to_owned();
    let file = step.split("upload_id=").nth(1).and_then(|rest| rest.split('&').next()).expect("a file").to_owned();
    let form = reqwest::multipart::Form::new().text("upload_id", file).text("type", "import").text("header", "yes");
    let made = Answer::of(ada.request(Method::POST, "/imports").multipart(form)).await;
    assert_eq!(made.status, 303, "{}", made.text);
    let import = made.headers["location"].to_str().expect("text").rsplit('/').next().expect("an id").to_owned();
    let import: uuid::Uuid = import.parse().expect("an id");
    let pool = &server.running.app.pool;
    let stored: Option<String> = sqlx::query_scalar("select traceparent from job where id = $1")
        .bind(import)
        .fetch_one(pool)
        .await
        .expect("a job");
    server.stop().await;

    let spans = collector.received();
    let tick = spans.all.iter().find(|span| hex(&span.trace_id) == ticked[3..35]).expect("a span of the tick");
    assert!(spans.all.iter().any(|span| span.name == "schedule" && span.trace_id == tick.trace_id));
    let post = hex(&spans.only("POST /imports").trace_id);
    assert_eq!(stored.map(|at| at[3..35].to_owned()), Some(post));
}
