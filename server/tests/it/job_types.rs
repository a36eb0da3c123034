//! Job types: creation, concurrent changes, pausing, deletion.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Server};

#[tokio::test]
async fn job_type_requires_only_a_name() {
    let server = Server::start().await;
    let created = server.post("/api/v1/job-types", json!({"name": "invoice-shipments"})).await.expect(201);
    for (field, value) in [
        ("delivery", json!("at_least_once")),
        ("max_failures", json!(3)),
        ("concurrency", json!(null)),
        ("backoff", json!({"min_seconds": 3.0, "max_seconds": 3600.0, "factor": 2.0, "jitter": true})),
        ("heartbeat_seconds", json!(60.0)),
        ("retain_seconds", json!(604_800)),
        ("executor", json!({"kind": "pull"})),
        ("paused", json!(false)),
        ("version", json!(1)),
    ] {
        assert_eq!(created[field], value, "{field}");
    }
    server.post("/api/v1/job-types", json!({"name": "invoice-shipments"})).await.expect_problem(409, "duplicate");
    let problem = server
        .post("/api/v1/job-types", json!({"name": "No Name", "concurrency": -1, "payload_schema": {"type": "colour"}}))
        .await
        .expect_problem(422, "invalid_body");
    let pointers: Vec<_> = problem["errors"].as_array().expect("errors").iter().map(|e| e["pointer"].clone()).collect();
    assert_eq!(pointers, ["/name", "/concurrency", "/payload_schema"]);
    assert_eq!(server.get("/api/v1/job-types/import").await.expect(200)["executor"]["kind"], "builtin");
    server.stop().await;
}

#[tokio::test]
async fn job_type_patch_changes_named_fields_only() {
    let server = Server::start().await;
    let schema = r#"{"type":"object","maximum":1.10}"#;
    let body = format!(r#"{{"name":"a","retain_seconds":60,"payload_schema":{schema},"steps":["x"]}}"#);
    server.post_text("/api/v1/job-types", "application/json", body).await.expect(201);

    let answer = server
        .patch("/api/v1/job-types/a", json!({"concurrency": 5, "retain_seconds": null, "backoff": {"factor": 3}}))
        .await;
    assert!(answer.text.contains(schema), "a schema comes back byte for byte: {}", answer.text);
    let patched = answer.expect(200);
    assert_eq!(patched["concurrency"], 5);
    assert_eq!(patched["retain_seconds"], json!(null));
    assert_eq!(patched["backoff"], json!({"min_seconds": 3.0, "max_seconds": 3600.0, "factor": 3.0, "jitter": true}));
    assert_eq!(patched["steps"], json!(["x"]));
    assert_eq!(patched["version"], 2);

    let once = server.patch("/api/v1/job-types/a", json!({"delivery": "at_most_once"})).await.expect(200);
    assert_eq!(once["max_failures"], 1);
    server.patch("/api/v1/job-types/a", json!({"delivery": "at_least_once", "max_failures": 7})).await.expect(200);
    let same = server.patch("/api/v1/job-types/a", json!({"delivery": "at_least_once"})).await.expect(200);
    assert_eq!(same["max_failures"], 7, "the delivery is the same");
    server.patch("/api/v1/job-types/a", json!({"colour": 1})).await.expect_problem(422, "invalid_body");
    server.patch("/api/v1/job-types/a", json!({"version": 9})).await.expect_problem(422, "invalid_body");
    server.patch("/api/v1/job-types/a", json!({"name": "b"})).await.expect_problem(422, "invalid_body");
    server.patch("/api/v1/job-types/none", json!({})).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn job_type_update_with_stale_etag_is_refused() {
    let server = Server::start().await;
    let put = |version: Option<&'static str>, concurrency: i32| {
        let mut request = server.request(Method::PUT, "/api/v1/job-types/a").json(&json!({"concurrency": concurrency}));
        if let Some(version) = version {
            request = request.header("if-match", version);
        }
        Answer::of(request)
    };
    put(Some("\"1\""), 1).await.expect_problem(412, "precondition_failed");
    put(Some("*"), 1).await.expect_problem(412, "precondition_failed");
    let create = || {
        server.request(Method::PUT, "/api/v1/job-types/a").header("if-none-match", "*").json(&json!({"concurrency": 1}))
    };
    Answer::of(create()).await.expect(201);
    Answer::of(create()).await.expect_problem(412, "precondition_failed");
    assert_eq!(put(Some("\"1\""), 2).await.expect(200)["version"], 2);
    put(Some("\"1\""), 3).await.expect_problem(412, "precondition_failed");
    put(Some("\"soon\""), 3).await.expect_problem(412, "precondition_failed");
    put(Some("soon"), 3).await.expect_problem(400, "invalid_parameter");

    // Ten patches at once, each of a field of its own, and none is lost.
    let patches = (1..=10).map(|n| {
        let body = if n % 2 == 0 { json!({"heartbeat_seconds": n}) } else { json!({"retain_seconds": n}) };
        let server = &server;
        async move { server.patch("/api/v1/job-types/a", body).await.expect(200) }
    });
    futures::future::join_all(patches).await;
    assert_eq!(server.get("/api/v1/job-types/a").await.expect(200)["version"], 12);
    server.stop().await;
}

#[tokio::test]
async fn job_type_is_paused_resumed_and_deleted() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let pause = "/api/v1/job-types/a/pause";
    assert_eq!(server.post(pause, json!(null)).await.expect(200)["paused"], true);
    assert_eq!(server.post(pause, json!(null)).await.expect(200)["version"], 2, "again is no change");
    assert_eq!(server.post("/api/v1/job-types/a/resume", json!(null)).await.expect(200)["paused"], false);
    server.delete("/api/v1/job-types/a").await.expect(204);
    server.delete("/api/v1/job-types/a").await.expect_problem(404, "not_found");

    server.put("/api/v1/job-types/b", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "b"})).await.expect(201);
    server.delete("/api/v1/job-types/b").await.expect_problem(409, "job_type_in_use");
    server.stop().await;
}

#[tokio::test]
async fn job_type_list_pages_have_no_duplicates() {
    let server = Server::start().await;
    for n in 0..25 {
        server.put(&format!("/api/v1/job-types/t{n:02}"), json!({})).await.expect(201);
    }
    let mut seen = Vec::new();
    let mut path = "/api/v1/job-types?limit=10&sort=name".to_owned();
    loop {
        let page = server.get(&path).await.expect(200);
        seen.extend(
            page["data"].as_array().expect("data").iter().map(|it| it["name"].as_str().unwrap_or("").to_owned()),
        );
        match page["next_cursor"].as_str() {
            Some(cursor) => path = format!("/api/v1/job-types?limit=7&sort=name&cursor={cursor}"),
            None => break,
        }
    }
    let mut once = seen.clone();
    once.sort();
    once.dedup();
    assert_eq!(seen, once, "in order, and nothing twice");
    assert!(seen.len() >= 26, "with the ready-made ones");

    let cursor = server.get("/api/v1/job-types?limit=1").await.expect(200)["next_cursor"].clone();
    let elsewhere = format!("/api/v1/services?cursor={}", cursor.as_str().expect("a cursor"));
    server.get(&elsewhere).await.expect_problem(400, "cursor_mismatch");
    server.stop().await;
}
