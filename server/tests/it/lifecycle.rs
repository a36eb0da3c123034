//! Start and stop of a server: next to another, without its database, and with open connections.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use reqwest::Method;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Answer, Server};

#[tokio::test]
async fn shutdown_ends_waiting_requests() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let path = format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"));

    let mut stream = server.request(Method::GET, &format!("{path}/events")).send().await.expect("a stream");
    let snapshot = stream.chunk().await.expect("a chunk").expect("an event");
    assert!(snapshot.starts_with(b"event: snapshot") || snapshot.starts_with(b"id:"), "{snapshot:?}");
    let waiting = json!({"worker_id": "w", "types": ["a"], "wait_seconds": 30});
    let claim = tokio::spawn(server.request(Method::POST, "/api/v1/assignments").json(&waiting).send());
    let poll = tokio::spawn(server.request(Method::GET, &format!("{path}?wait_seconds=30")).send());
    while server.running.app.under_way.load(Ordering::Relaxed) < 2 {
        crate::support::moment().await;
    }

    let began = Instant::now();
    server.stop().await;
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(claim.await.expect("no panic").expect("an answer").status(), 200);
    assert_eq!(poll.await.expect("no panic").expect("an answer").status(), 200);
    let mut rest = Vec::new();
    while let Some(chunk) = stream.chunk().await.expect("the stream ends whole") {
        rest.extend_from_slice(&chunk);
    }
    assert!(String::from_utf8_lossy(&rest).contains("event: bye"));
}

/// A request may be in transit when the server is told to stop: open connections are still answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn open_connections_are_answered_during_shutdown() {
    let server = Server::start().await;
    let addr = server.running.addr;
    let mut early = TcpStream::connect(addr).await.expect("connected");
    // Connections are accepted in their order: this one's answer says that the first is in.
    server.get("/healthz").await.expect(200);
    let stopped = tokio::spawn(server.stop());
    while TcpStream::connect(addr).await.is_ok() {
        crate::support::moment().await;
    }
    early.write_all(b"GET /healthz HTTP/1.1\r\nhost: here\r\n\r\n").await.expect("sent");
    let mut answer = String::new();
    early.read_to_string(&mut answer).await.expect("an answer, and then the end");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    stopped.await.expect("no panic");
}

#[tokio::test]
async fn unavailable_database_is_reported_by_readiness() {
    let server = Server::start().await;
    server.get("/readyz").await.expect(200);
    server.running.app.pools.close().await;
    for path in ["/readyz", "/api/v1/job-types", "/api/v1/jobs"] {
        let answer = server.get(path).await;
        answer.expect_problem(503, "database_unavailable");
        let seconds: u32 = answer.headers["retry-after"].to_str().expect("text").parse().expect("seconds");
        assert!((1..=2).contains(&seconds), "{seconds}");
    }
    assert_eq!(server.get("/healthz").await.status, 200, "it is alive all the same");
    let claim =
        server.request(Method::POST, "/api/v1/assignments").json(&json!({"worker_id": "w", "types": ["import"]}));
    assert!([422, 503].contains(&Answer::of(claim).await.status.as_u16()));
    server.stop().await;
}

#[tokio::test]
async fn database_without_tables_is_reported_by_readiness() {
    let server = Server::start().await;
    sqlx::query("alter table uptime rename to elsewhere").execute(&server.running.app.pool).await.expect("renamed");
    server.get("/readyz").await.expect_problem(503, "database_unavailable");
    sqlx::query("alter table elsewhere rename to uptime").execute(&server.running.app.pool).await.expect("renamed");
    server.get("/readyz").await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn concurrently_started_servers_migrate_once() {
    let server = Server::start().await;
    let (second, third) = tokio::join!(server.another(), server.another());
    for each in [&server, &second, &third] {
        each.get("/readyz").await.expect(200);
    }
    second.stop().await;
    third.stop().await;
    let status = server.program(&["migrate", "--status"]).await;
    assert!(status.lines().count() >= 1 && status.lines().all(|line| line.starts_with("applied")), "{status}");
    server.get("/api/v1/me").await.expect(200);
    server.stop().await;
}
