//! The OpenAPI document is complete.

use serde_json::{Value, json};

use crate::support::Server;

#[tokio::test]
async fn openapi_document_lists_routes_and_problem_responses() {
    let server = Server::start().await;
    server.stranger().get("/api/v1/openapi.json").await.expect_problem(401, "unauthenticated");
    let document = server.get("/api/v1/openapi.json").await.expect(200);
    assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.1")), "{}", document["openapi"]);
    let paths = document["paths"].as_object().expect("paths");
    for path in [
        "/api/v1/job-types",
        "/api/v1/job-types/{name}",
        "/api/v1/job-types/{name}/pause",
        "/api/v1/jobs",
        "/api/v1/jobs/{id}",
        "/api/v1/jobs/{id}/items",
        "/api/v1/jobs/{id}/seal",
        "/api/v1/jobs/{id}/events",
        "/api/v1/events",
        "/api/v1/items",
        "/api/v1/items/{id}",
        "/api/v1/items/{id}/attempts",
        "/api/v1/assignments",
        "/api/v1/assignments/{id}/heartbeat",
        "/api/v1/assignments/{id}/step",
        "/api/v1/assignments/{id}/result",
        "/api/v1/assignments/{id}/failure",
        "/api/v1/assignments/{id}/release",
        "/api/v1/assignments/finish",
        "/api/v1/assignments/heartbeat",
        "/api/v1/dead-letters",
        "/api/v1/dead-letters/groups",
        "/api/v1/jobs/{id}/pin",
        "/api/v1/assignments/{id}/alert",
        "/api/v1/alerts",
        "/api/v1/audit",
        "/api/v1/deliveries",
        "/api/v1/deliveries/{id}/resend",
        "/api/v1/jobs/{id}/deliveries",
        "/api/v1/jobs/{id}/steps",
        "/api/v1/stats",
        "/api/v1/workers",
        "/api/v1/jobs/{id}/replay",
        "/api/v1/items/{id}/replay",
        "/api/v1/bulk-operations",
        "/api/v1/bulk-operations/{id}",
        "/api/v1/bulk-operations/{id}/cancel",
        "/api/v1/session",
        "/api/v1/me",
        "/api/v1/services",
        "/api/v1/tokens",
        "/api/v1/tokens/{id}",
        "/healthz",
        "/readyz",
    ] {
        assert!(paths.contains_key(path), "{path} is not described");
    }
    let mut operations = 0;
    for (path, item) in paths {
        for (method, operation) in item.as_object().expect("operations") {
            let Some(responses) = operation["responses"].as_object() else { continue };
            operations += 1;
            assert!(operation["summary"].is_string(), "{method} {path} says nothing of itself");
            assert!(responses.contains_key("500"), "{method} {path}");
            // Generators of clients refuse a document in which an answer does not say what it is.
            for (status, response) in responses {
                let is_described = response["description"].as_str().is_some_and(|words| !words.is_empty());
                assert!(is_described, "{method} {path} {status} does not say what it is");
            }
            for (status, response) in responses.iter().filter(|(status, _)| status.as_str() >= "400") {
                let schema = &response["content"]["application/problem+json"]["schema"]["$ref"];
                assert_eq!(schema, "#/components/schemas/Problem", "{method} {path} {status}");
            }
        }
    }
    assert!(operations >= 35, "{operations}");
    for reference in references(&document) {
        assert!(document.pointer(&reference[1..]).is_some(), "{reference} leads nowhere");
    }
    server.stop().await;
}

#[tokio::test]
async fn openapi_document_lists_what_a_query_accepts() {
    let server = Server::start().await;
    let document = server.get("/api/v1/openapi.json").await.expect(200);
    let parameters = document["paths"]["/api/v1/audit"]["get"]["parameters"].as_array().expect("parameters");
    let named = |name: &str| parameters.iter().filter(|parameter| parameter["name"] == name).count();
    for name in ["actor", "action", "job", "root", "item", "since", "sort", "limit", "cursor", "format", "after"] {
        assert_eq!(named(name), 1, "{name}");
    }
    server.stop().await;
}

#[tokio::test]
async fn documented_operations_require_a_credential() {
    let server = Server::start().await;
    let document = server.get("/api/v1/openapi.json").await.expect(200);
    let stranger = server.stranger();
    for (path, item) in document["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            if operation["responses"].is_null() || operation["security"] == json!([{}]) {
                continue;
            }
            let path = path.replace("{id}", "0190a5e0-0000-7000-8000-000000000000").replace("{name}", "a");
            let method = method.to_uppercase().parse().expect("a method");
            let request = stranger.request(method, &path).json(&json!({}));
            crate::support::Answer::of(request).await.expect_problem(401, "unauthenticated");
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn health_and_readiness_endpoints() {
    let server = Server::start().await;
    let stranger = server.stranger();
    assert_eq!(stranger.get("/healthz").await.expect(200), json!({"status": "alive"}));
    assert_eq!(stranger.get("/readyz").await.expect(200), json!({"status": "ready"}));
    server.stop().await;
}

/// All `$ref`s of a document.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => fields
            .iter()
            .flat_map(|(name, inner)| match inner {
                Value::String(reference) if name == "$ref" => vec![reference.clone()],
                inner => references(inner),
            })
            .collect(),
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}
