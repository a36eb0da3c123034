//! Exploding schemas, and payloads with faults everywhere: refused, or answered at once with ten faults. Memory is
//! measured on a server in its own process.

use std::time::{Duration, Instant};

use serde_json::{Map, Value, json};

use crate::support::{Server, program::peak_kib};

/// Allowed growth of the server's memory, in KiB.
const MOST_KIB: u64 = 100 << 10;

/// Debug builds are slower, and other tests run concurrently.
const TIME_LIMIT: Duration = Duration::from_secs(if cfg!(debug_assertions) { 60 } else { 5 });

/// Nested references, two for each: 2^26 applications to one value.
fn chain(length: usize) -> Value {
    let mut defs: Map<String, Value> = (0..length)
        .map(|i| (format!("a{i}"), json!({"allOf": vec![json!({"$ref": format!("#/$defs/a{}", i + 1)}); 2]})))
        .collect();
    defs.insert(format!("a{length}"), json!({"type": "integer"}));
    json!({"$ref": "#/$defs/a0", "$defs": defs})
}

#[tokio::test]
async fn exponential_json_schema_is_refused() {
    let server = Server::start().await;
    for (length, fits) in [(26, false), (18, false), (6, true)] {
        let answer = server.put("/api/v1/job-types/bomb", json!({"payload_schema": chain(length)})).await;
        if fits {
            answer.expect(201);
        } else {
            answer.expect_problem(422, "schema_too_complex");
        }
    }
    let invalid = json!({"type": "bomb", "items": [{"payload": "x"}]});
    let refused = server.post("/api/v1/jobs", invalid).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"].as_array().map(Vec::len), Some(10), "{refused}");
    let patterns: Vec<Value> = (0..200).map(|i| json!({"pattern": format!("(\\p{{L}}{{200}}){i}")})).collect();
    let patterns = json!({"payload_schema": {"anyOf": patterns}});
    server.put("/api/v1/job-types/patterns", patterns).await.expect_problem(422, "schema_too_complex");
    let circle = json!({"payload_schema": {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}});
    server.put("/api/v1/job-types/circle", circle).await.expect_problem(422, "schema_too_complex");
    server.stop().await;
}

#[tokio::test]
async fn a_request_is_refused_with_the_first_ten_errors_of_its_items() {
    let server = Server::start().await;
    let schema = json!({"required": ["id", "sum"], "properties": {"id": {"type": "integer"}}});
    server.put("/api/v1/job-types/a", json!({"payload_schema": schema})).await.expect(201);
    let items: Vec<Value> = (0..40).map(|_| json!({"payload": {"id": "x"}})).collect();
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let path = format!("/api/v1/jobs/{}/items", job["id"].as_str().expect("an id"));
    for answer in [
        server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await,
        server.post(&path, json!(items)).await,
    ] {
        let refused = answer.expect_problem(422, "invalid_body");
        let errors = refused["errors"].as_array().expect("errors");
        assert_eq!(errors.len(), 10, "{refused}");
        assert!(errors[9]["pointer"].as_str().is_some_and(|pointer| pointer.contains("/4/payload")), "{refused}");
    }
    server.stop().await;
}

#[tokio::test]
async fn schema_errors_are_limited_to_ten() {
    let server = Server::start().await;
    // Nested as deep as JSON may be, and as wide as a schema may be.
    let mut nested = json!({"type": "integer", "minimum": 5});
    for _ in 0..20 {
        nested = json!({"allOf": [nested, {"type": "integer"}]});
    }
    let wide = json!({"items": {"allOf": vec![json!({"type": "integer", "multipleOf": 3}); 400]}});
    for (name, schema) in [("nested", json!({"items": nested})), ("wide", wide)] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({"payload_schema": schema})).await.expect(201);
    }
    let program = server.spawn_program().await;
    let api = program.api.clone();
    for name in ["nested", "wide"] {
        api.post("/api/v1/jobs", json!({"type": name, "items": [{"payload": [6]}]})).await.expect(201);
    }
    let before = peak_kib(program.process);
    let payload = vec!["x"; 60_000];
    for name in ["nested", "wide"] {
        let began = Instant::now();
        let body = json!({"type": name, "items": [{"payload": payload}]});
        let all = (0..4).map(|_| api.post("/api/v1/jobs", body.clone()));
        for answer in futures::future::join_all(all).await {
            let refused = answer.expect_problem(422, "invalid_body");
            let errors = refused["errors"].as_array().expect("errors");
            assert_eq!(errors.len(), 10);
            assert_eq!(errors[0]["pointer"], "/items/0/payload/0");
        }
        assert!(began.elapsed() < TIME_LIMIT, "{name}: {:?}", began.elapsed());
    }
    let grown = peak_kib(program.process) - before;
    assert!(grown <= MOST_KIB, "{} MiB more", grown >> 10);
    server.stop().await;
}
