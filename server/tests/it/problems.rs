//! Invalid requests get a problem document with the reason, and never a 5xx.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Server};

#[tokio::test]
async fn invalid_bodies_have_distinct_problem_codes() {
    let server = Server::start().await;
    let types = "/api/v1/job-types";
    let json = "application/json";

    server.post_text(types, json, "{\"name\":").await.expect_problem(400, "invalid_json");
    server.post_text(types, json, "").await.expect_problem(400, "invalid_json");
    server.post_text(types, json, vec![0xff, 0xfe, b'{']).await.expect_problem(400, "invalid_json");
    server.post_text(types, "text/plain", "{\"name\":\"a\"}").await.expect_problem(415, "unsupported_media_type");
    server
        .post_text(types, "application/x-www-form-urlencoded", "name=a")
        .await
        .expect_problem(415, "unsupported_media_type");
    server.post_text(types, "application/json; charset=utf-8", "{\"name\":\"with-charset\"}").await.expect(201);

    let problem = server.post(types, json!({"name": "a", "colour": "red"})).await.expect_problem(422, "invalid_body");
    assert_eq!(problem["errors"][0]["pointer"], "/colour");
    let problem = server
        .post(types, json!({"name": "a", "backoff": {"factor": "two"}}))
        .await
        .expect_problem(422, "invalid_body");
    assert_eq!(problem["errors"][0]["pointer"], "/backoff/factor");
    server.post(types, json!([])).await.expect_problem(422, "invalid_body");
    server.post(types, json!({})).await.expect_problem(422, "invalid_body");

    for rubbish in [
        r#"{"name":"a","name":"b"}"#.to_owned(),
        r#"{"name":"a\u0000"}"#.to_owned(),
        r#"{"name":"a","payload_schema":{"title":"\ud800"}}"#.to_owned(),
        format!(r#"{{"name":"a","payload_schema":{}{}}}"#, "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        server.post_text(types, json, rubbish).await.expect_problem(422, "invalid_body");
    }
    server.stop().await;
}

#[tokio::test]
async fn oversized_body_is_refused_with_or_without_content_length() {
    let server = Server::start_with(|config| config.body_limit = "64KiB".parse().expect("a size")).await;
    let large = format!("{{\"name\":\"{}\"}}", "a".repeat(1 << 20));
    let announced = server.post_text("/api/v1/job-types", "application/json", large.clone()).await;
    announced.expect_problem(413, "too_large");

    let chunks = futures::stream::iter(large.into_bytes().chunks(8 << 10).map(<[u8]>::to_vec).collect::<Vec<_>>());
    let chunked = reqwest::Body::wrap_stream(futures::StreamExt::map(chunks, Ok::<_, std::io::Error>));
    server.post_text("/api/v1/job-types", "application/json", chunked).await.expect_problem(413, "too_large");
    server.stop().await;
}

#[tokio::test]
async fn unknown_paths_methods_and_parameters_are_refused() {
    let server = Server::start().await;
    for path in
        ["/api", "/api/v1", "/api/v1/nothing", "/api/v2/jobs", "/api/v1/jobs/not-a-uuid", "/api/v1/job-types/a%00b"]
    {
        server.get(path).await.expect_problem(404, "not_found");
    }
    let answer = Answer::of(server.request(Method::PATCH, "/api/v1/job-types")).await;
    answer.expect_problem(405, "method_not_allowed");
    let allowed = answer.headers["allow"].to_str().expect("text");
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");

    let problem = server.get("/api/v1/job-types?colour=red").await.expect_problem(400, "invalid_parameter");
    assert_eq!(problem["errors"][0]["pointer"], "?colour");
    for (query, pointer) in [("jobs?limit=5&type=a%00b", "?type"), ("jobs?metadata.team=%00", "?metadata.team")] {
        let problem = server.get(&format!("/api/v1/{query}")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{problem}");
    }
    // Reads without parameters, too.
    for path in ["me?x=1", "stats?x=1", "job-types/import?x=1"] {
        let problem = server.get(&format!("/api/v1/{path}")).await.expect_problem(400, "invalid_parameter");
        assert_eq!(problem["errors"][0]["pointer"], "?x", "{problem}");
    }
    for query in
        ["limit=0", "limit=1001", "limit=many", "limit=1&limit=2", "cursor=rubbish", "cursor=%00", "cursor=%ff"]
    {
        server.get(&format!("/api/v1/job-types?{query}")).await.expect_problem(400, "invalid_parameter");
    }
    server.stop().await;
}

#[tokio::test]
async fn request_id_is_echoed() {
    let server = Server::start().await;
    let with_id = |id: &str| server.request(Method::GET, "/api/v1/nothing").header("x-request-id", id);
    let problem = Answer::of(with_id("order-66.a")).await.expect_problem(404, "not_found");
    assert_eq!(problem["request_id"], "order-66.a");
    let problem = Answer::of(with_id("two words")).await.expect_problem(404, "not_found");
    assert_ne!(problem["request_id"], "two words");
    assert!(server.get("/healthz").await.headers.contains_key("x-request-id"));
    server.stop().await;
}

#[tokio::test]
async fn responses_have_security_headers() {
    let server = Server::start().await;
    for path in ["/healthz", "/api/v1/me", "/api/v1/nothing", "/api/docs"] {
        let headers = server.get(path).await.headers;
        assert_eq!(headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(headers["referrer-policy"], "same-origin", "{path}");
        let policy = headers["content-security-policy"].to_str().expect("text");
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"), "{path}: {policy}");
    }
    server.stop().await;
}
