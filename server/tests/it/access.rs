//! Permissions: tokens, scopes, and isolation between owners.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Api, Server, TOKEN};

#[tokio::test]
async fn requests_without_credential_are_refused() {
    let server = Server::start().await;
    let stranger = server.stranger();
    let answer = stranger.get("/api/v1/me").await;
    answer.expect_problem(401, "unauthenticated");
    assert_eq!(answer.headers["www-authenticate"], "Bearer");
    for invalid in ["Bearer wrong", "Bearer ", "Basic dXNlcjpwYXNz", "Bearer\u{e9}"] {
        let answer = Answer::of(stranger.request(Method::GET, "/api/v1/jobs").header("authorization", invalid)).await;
        answer.expect_problem(401, "unauthenticated");
    }
    let me = server.get("/api/v1/me").await.expect(200);
    assert_eq!(
        me,
        json!({"kind": "service", "name": "bootstrap", "role": null,
                          "scopes": ["jobs:read", "jobs:write", "work", "metrics", "admin"]})
    );
    server.stop().await;
}

#[tokio::test]
async fn bootstrap_token_of_earlier_start_is_refused() {
    let server = Server::start().await;
    let other = "another-bootstrap-token-0123456789-0123456789";
    let mut config = (*server.running.app.config).clone();
    config.bootstrap_token = Some(other.parse().expect("a secret"));
    let second = server::start(config).await.expect("a second server");
    let there = Api::new(&format!("http://{}", second.addr));
    there.clone().with_token(other).get("/api/v1/me").await.expect(200);
    there.with_token(TOKEN).get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    second.shutdown().await.expect("it stops");
    server.stop().await;
}

#[tokio::test]
async fn work_of_earlier_bootstrap_token_ends_after_an_hour() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let new_schedule = json!({"name": "nightly", "cron": "@yearly", "job": {"type": "a", "sealed": true}});
    let made = server.post("/api/v1/schedules", new_schedule).await.expect(201);
    let run = format!("/api/v1/schedules/{}/run", made["id"].as_str().expect("an id"));
    let other = "another-bootstrap-token-0123456789-0123456789";
    let second = server.another_with(|config| config.bootstrap_token = Some(other.parse().expect("a secret"))).await;
    let api = second.stranger().with_token(other);
    // Servers that restart in turn do not end each other's work.
    api.post(&run, json!({})).await.expect(200);
    server.stop().await;

    sqlx::query("update token set last_used_at = clock_timestamp() - interval '61 minutes'")
        .execute(&second.running.app.pool)
        .await
        .expect("an earlier use");
    let third = second.another_with(|config| config.bootstrap_token = Some(other.parse().expect("a secret"))).await;
    crate::retention::until(async || api.post(&run, json!({})).await.status == 403).await;
    let refused = api.post(&run, json!({})).await.expect_problem(403, "forbidden");
    assert!(refused["detail"].as_str().is_some_and(|text| text.ends_with("The token was revoked.")), "{refused}");
    let entry = &api.get("/api/v1/audit?action=token.revoke").await.expect(200)["data"][0];
    assert_eq!(entry["owner"]["name"], "bootstrap", "{entry}");
    third.stop().await;
    second.stop().await;
}

#[tokio::test]
async fn token_is_shown_once_and_refused_after_revocation() {
    let server = Server::start().await;
    server.post("/api/v1/services", json!({"name": "payroll"})).await.expect(201);
    server.post("/api/v1/services", json!({"name": "payroll"})).await.expect_problem(409, "duplicate");
    let created = server
        .post("/api/v1/tokens", json!({"service": "payroll", "name": "night run", "scopes": ["jobs:read"]}))
        .await
        .expect(201);
    let (id, secret) = (created["token"]["id"].as_str().expect("an id"), created["secret"].as_str().expect("a secret"));
    let payroll = server.stranger().with_token(secret);
    assert_eq!(payroll.get("/api/v1/me").await.expect(200)["name"], "payroll");

    let listed = server.get("/api/v1/tokens").await;
    assert!(!listed.text.contains(secret), "a secret is shown once");
    assert!(listed.expect(200)["data"].as_array().is_some_and(|tokens| tokens.iter().any(|token| token["id"] == id)));

    server.delete(&format!("/api/v1/tokens/{id}")).await.expect(204);
    server.delete(&format!("/api/v1/tokens/{id}")).await.expect(204);
    payroll.get("/api/v1/me").await.expect_problem(401, "unauthenticated");
    server.delete("/api/v1/tokens/0190a5e0-0000-7000-8000-000000000000").await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test]
async fn token_scopes_limit_operations() {
    let server = Server::start().await;
    let reader = server.service("reader", &["jobs:read"]).await;
    let worker = server.service("worker", &["work"]).await;
    let admin = server.service("keeper", &["admin"]).await;

    admin.post("/api/v1/job-types", json!({"name": "a"})).await.expect(201);
    for narrow in [&reader, &worker] {
        narrow.post("/api/v1/job-types", json!({"name": "b"})).await.expect_problem(403, "forbidden");
        narrow.delete("/api/v1/job-types/a").await.expect_problem(403, "forbidden");
        narrow.post("/api/v1/services", json!({"name": "b"})).await.expect_problem(403, "forbidden");
        narrow.get("/api/v1/tokens").await.expect_problem(403, "forbidden");
        narrow.post("/api/v1/jobs", json!({"type": "a"})).await.expect_problem(403, "forbidden");
    }
    worker.get("/api/v1/jobs").await.expect_problem(403, "forbidden");
    reader
        .post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]}))
        .await
        .expect_problem(403, "forbidden");

    let invalid = json!({"service": "nobody", "name": "", "scopes": ["root"]});
    let problem = server.post("/api/v1/tokens", invalid).await.expect_problem(422, "invalid_body");
    assert_eq!(problem["errors"].as_array().map(Vec::len), Some(2));
    let forged = json!({"service": "bootstrap", "name": "mine", "scopes": ["admin"]});
    server.post("/api/v1/tokens", forged).await.expect_problem(422, "invalid_body");
    server.stop().await;
}

#[tokio::test]
async fn assignment_id_is_refused_with_another_token() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.put("/api/v1/job-types/b", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let holder = server.service("holder", &["work"]).await;
    let thief = server.service("thief", &["work"]).await;
    let claimed = holder.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.expect(200);
    let id = claimed["assignments"][0]["id"].as_str().expect("an assignment id");
    for (verb, body) in [
        ("heartbeat", json!({})),
        ("result", json!({"result": 1})),
        ("failure", json!({"error": {"message": "x"}})),
        ("release", json!({})),
    ] {
        let answer = thief.post(&format!("/api/v1/assignments/{id}/{verb}"), body).await;
        answer.expect_problem(404, "not_found");
    }
    holder.post(&format!("/api/v1/assignments/{id}/result"), json!({"result": 1})).await.expect(200);

    let narrow = json!({"service": "holder", "name": "narrow", "scopes": ["work"], "types": ["b"]});
    let narrow = server.post("/api/v1/tokens", narrow).await.expect(201)["secret"].clone();
    let narrow = server.stranger().with_token(narrow.as_str().expect("a secret"));
    narrow.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["b"]})).await.expect(200);
    let answer = narrow.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await;
    answer.expect_problem(403, "forbidden");
    server.stop().await;
}

#[tokio::test]
async fn job_of_another_owner_is_not_found() {
    let server = Server::start().await;
    server.post("/api/v1/job-types", json!({"name": "a"})).await.expect(201);
    let ours = server.service("ours", &["jobs:read", "jobs:write"]).await;
    let theirs = server.service("theirs", &["jobs:read", "jobs:write", "work"]).await;
    let job = ours.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let id = job["id"].as_str().expect("an id");
    let item = ours.get(&format!("/api/v1/items?job={id}")).await.expect(200)["data"][0]["id"].clone();
    let item = item.as_str().expect("an item");

    for path in [
        format!("/api/v1/jobs/{id}"),
        format!("/api/v1/jobs/{id}/events"),
        format!("/api/v1/items/{item}"),
        format!("/api/v1/items/{item}/attempts"),
        format!("/api/v1/dead-letters/groups?job={id}"),
    ] {
        theirs.get(&path).await.expect_problem(404, "not_found");
    }
    theirs.post(&format!("/api/v1/jobs/{id}/seal"), json!(null)).await.expect_problem(404, "not_found");
    theirs.post(&format!("/api/v1/jobs/{id}/items"), json!([{"payload": 2}])).await.expect_problem(404, "not_found");
    assert_eq!(theirs.get("/api/v1/jobs").await.expect(200)["data"], json!([]));
    assert_eq!(theirs.get("/api/v1/items").await.expect(200)["data"], json!([]));
    assert_eq!(server.get("/api/v1/jobs").await.expect(200)["data"][0]["id"], id, "admins see all");
    server.stop().await;
}
