//! `/metrics` is for tokens of the scope `metrics`, and without authentication on a listener that serves nothing else.
//!
//! The address of a request grants nothing: behind a proxy every peer looks local.

use serde_json::json;

use crate::support::{Api, Server};

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
