//! Quotas of owners, rate limits of callers, and a full disk: 429 and 507 with usage and limit, without effect on
//! workers and other owners.

use std::time::Instant;

use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Answer, Api, Server, TOKEN, imports::upload};

async fn tree(api: &Api) -> Answer {
    api.post("/api/v1/jobs", json!({"type": "a", "items": [{}]})).await
}

fn detail(problem: &Value) -> &str {
    problem["detail"].as_str().expect("text")
}

#[tokio::test]
async fn open_tree_and_waiting_item_quotas() {
    let server = Server::start_with(|config| {
        config.limits.quotas.open_trees = 3;
        config.limits.quotas.waiting_items = 10;
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (eve, ada) = (server.person("eve", "user").await, server.person("ada", "user").await);
    let first = tree(&eve).await.expect(201)["id"].as_str().expect("an id").to_owned();
    for _ in 0..2 {
        tree(&eve).await.expect(201);
    }
    let refused = tree(&eve).await;
    assert!(refused.headers.contains_key("retry-after"));
    let refused = refused.expect_problem(429, "quota_exceeded");
    assert!(detail(&refused).contains("3 trees are open, and at most 3"), "{refused}");
    tree(&ada).await.expect(201);
    // A request for something that exists already is answered all the same.
    let job = json!({"type": "a", "items": [{}]});
    let put = |id: String| {
        let (eve, job) = (eve.clone(), job.clone());
        async move { eve.put(&format!("/api/v1/jobs/{id}"), job).await }
    };
    put(uuid::Uuid::now_v7().to_string()).await.expect_problem(429, "quota_exceeded");
    // Items beyond the quota are refused, as an array and as a stream; up to it they are taken.
    let open = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)["id"].clone();
    let path = format!("/api/v1/jobs/{}/items", open.as_str().expect("an id"));
    let too_many = server.post(&path, json!(vec![json!({}); 11])).await.expect_problem(429, "quota_exceeded");
    assert!(detail(&too_many).contains("0 items wait; with these 11 it would be 11, and at most 10 may"), "{too_many}");
    let lines = "{}\n".repeat(11);
    let refused = server.post_text(&path, "application/x-ndjson", lines).await;
    refused.expect_problem(429, "quota_exceeded");
    server.post(&path, json!(vec![json!({}); 10])).await.expect(200);
    // There is room again when a tree is complete: counted again within a second or two.
    eve.post(&format!("/api/v1/jobs/{first}/cancel"), json!({})).await;
    let began = Instant::now();
    while tree(&eve).await.status != 201 {
        assert!(began.elapsed().as_secs() < 60, "no room");
        crate::support::moment().await;
    }
    let again = eve.post(&format!("/api/v1/jobs/{first}/replay"), json!({})).await;
    again.expect_problem(429, "quota_exceeded");
    server.stop().await;
}

#[tokio::test]
async fn upload_quota_and_free_disk_limit() {
    let server =
        Server::start_with(|config| config.limits.quotas.stored_bytes = "100KiB".parse().expect("a size")).await;
    let (eve, ada) = (server.person("eve", "user").await, server.person("ada", "user").await);
    let rows = "1\n".repeat(30 << 10);
    let first = upload(&eve, "first.csv", rows.clone()).await;
    let path = "/api/v1/uploads?filename=second.csv";
    let refused = eve.post_text(path, "text/csv", rows.clone()).await.expect_problem(429, "quota_exceeded");
    assert!(detail(&refused).contains("61440 bytes are stored, and at most 102400"), "{refused}");
    // Also where nobody said how long it is.
    let pieces = futures::stream::iter(vec![Ok::<_, std::io::Error>(rows.clone())]);
    let unannounced = eve.post_text(path, "text/csv", reqwest::Body::wrap_stream(pieces)).await;
    unannounced.expect_problem(429, "quota_exceeded");
    let begin = eve.request(Method::POST, "/api/v1/uploads/resumable?filename=a.csv").header("upload-length", 61_440);
    Answer::of(begin).await.expect_problem(429, "quota_exceeded");
    upload(&ada, "hers.csv", rows.clone()).await;
    eve.delete(&format!("/api/v1/uploads/{first}")).await.expect(204);
    let began = Instant::now();
    while eve.post_text(path, "text/csv", rows.clone()).await.status != 201 {
        assert!(began.elapsed().as_secs() < 60, "no room");
        crate::support::moment().await;
    }
    let full = server.another_with(|config| config.files.disk_reserve = "8000000GiB".parse().expect("a size")).await;
    full.post_text(path, "text/csv", rows).await.expect_problem(507, "insufficient_storage");
    full.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn request_rate_limit_exempts_workers() {
    let server = Server::start_with(|config| {
        config.limits.quotas.requests_per_minute = 20;
        config.limits.quotas.searches_per_minute = 2;
        config.limits.quotas.refusals_per_minute = 5;
    })
    .await;
    let eve = server.person("eve", "user").await;
    let answer = eve.get("/api/v1/me").await;
    assert_eq!(answer.headers["ratelimit-policy"], "\"api\";q=20;w=60");
    assert!(answer.headers["ratelimit"].to_str().expect("text").starts_with("\"api\";r=19;t="), "{answer:?}");
    for _ in 0..2 {
        let found = eve.get("/api/v1/jobs?q=a").await;
        assert_eq!(found.headers["ratelimit-policy"], "\"search\";q=2;w=60");
        found.expect(200);
    }
    let refused = eve.get("/api/v1/jobs?q=a").await;
    assert_eq!(refused.headers["ratelimit-policy"], "\"search\";q=2;w=60");
    assert!(refused.headers["ratelimit"].to_str().expect("text").starts_with("\"search\";r=0;t="), "{refused:?}");
    assert!(refused.headers["retry-after"].to_str().is_ok_and(|text| text.parse::<u32>().is_ok()));
    refused.expect_problem(429, "too_many_requests");
    eve.get("/api/v1/jobs").await.expect(200);
    let mut last = 200;
    for _ in 0..20 {
        last = eve.get("/api/v1/me").await.status.as_u16();
    }
    assert_eq!(last, 429, "one credential");
    let ada = server.person("ada", "user").await;
    ada.get("/api/v1/me").await.expect(200);
    // Workers are not counted.
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let worker = server.service("worker", &["work"]).await;
    for _ in 0..50 {
        worker.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.expect(200);
    }
    // Others are, whatever they ask for.
    let reader = server.service("reader", &["jobs:read"]).await;
    let mut last = 403;
    for _ in 0..21 {
        last = reader.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.status.as_u16();
    }
    assert_eq!(last, 429, "no worker");
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let results = format!("/api/v1/jobs/{}/results", job["id"].as_str().expect("an id"));
    let share = results.replace("/results", "/share");
    let link = server.post(&share, json!({})).await.expect(201)["url"].as_str().expect("a link").to_owned();
    let guest = server.with_cookie(&format!("treeline_share={}", link.rsplit('/').next().expect("a secret")));
    // Whoever guesses tokens is not listened to for a while; pages are shown all the same.
    let stranger = server.stranger();
    for left in (0..5).rev() {
        let refused = stranger.get("/api/v1/me").await;
        assert_eq!(refused.headers["ratelimit-policy"], "\"address\";q=5;w=60");
        let status = refused.headers["ratelimit"].to_str().expect("text");
        assert!(status.starts_with(&format!("\"address\";r={left};t=")), "{refused:?}");
        refused.expect_problem(401, "unauthenticated");
    }
    let refused = stranger.get("/api/v1/me").await;
    assert_eq!(refused.headers["ratelimit-policy"], "\"address\";q=5;w=60");
    assert!(refused.headers["ratelimit"].to_str().expect("text").starts_with("\"address\";r=0;t="), "{refused:?}");
    assert!(refused.headers["retry-after"].to_str().is_ok_and(|text| text.parse::<u32>().is_ok()));
    refused.expect_problem(429, "too_many_requests");
    assert_eq!(stranger.get("/sign-in").await.status, 200);
    let guess = server.stranger().with_token("tl_guessed");
    guess.get("/api/v1/me").await.expect_problem(429, "too_many_requests");
    // Behind a proxy that the server does not know, everybody has this address.
    for _ in 0..2 {
        ada.get("/api/v1/me").await.expect(200);
        worker.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.expect(200);
        assert_eq!(guest.get(&results).await.status, 200, "a shared page's download");
    }
    server.with_cookie("treeline_share=guessed").get(&results).await.expect_problem(429, "too_many_requests");
    let new = server.service("new", &["jobs:read"]).await;
    new.get("/api/v1/jobs").await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn event_stream_quota_per_user() {
    let server = Server::start_with(|config| config.limits.quotas.streams = 3).await;
    let (eve, ada) = (server.person("eve", "user").await, server.person("ada", "user").await);
    let watch = |api: &Api| api.request(Method::GET, "/api/v1/events").send();
    let mut open = Vec::new();
    for _ in 0..3 {
        let stream = watch(&eve).await.expect("an answer");
        assert_eq!(stream.status(), 200);
        open.push(stream);
    }
    let refused = eve.get("/api/v1/events").await.expect_problem(429, "quota_exceeded");
    assert!(detail(&refused).contains("3 event streams are open, and at most 3"), "{refused}");
    assert_eq!(watch(&ada).await.expect("an answer").status(), 200);
    open.pop();
    let began = Instant::now();
    while watch(&eve).await.expect("an answer").status() != 200 {
        assert!(began.elapsed().as_secs() < 60, "no room");
        crate::support::moment().await;
    }
    server.stop().await;
}

/// Status line of one request on a separate connection.
async fn status_line(server: &Server, head: &str) -> String {
    let mut stream = TcpStream::connect(server.running.addr).await.expect("a connection");
    let request = format!("GET /api/v1/me HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n{head}\r\n");
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut response = Vec::new();
    let _ = stream.read_to_end(&mut response).await;
    String::from_utf8_lossy(&response).lines().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn authenticated_connections_have_reserved_capacity() {
    let server = Server::start_with(|config| config.http_settings.connections = 20).await;
    // Half a request each, more than there is room for, kept places and all.
    let mut open = Vec::new();
    for _ in 0..60 {
        let mut stream = TcpStream::connect(server.running.addr).await.expect("a connection");
        let _ = stream.write_all(b"GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nx-half: ").await;
        open.push(stream);
    }
    let authorization = format!("authorization: Bearer {TOKEN}\r\n");
    assert_eq!(status_line(&server, &authorization).await, "HTTP/1.1 200 OK");
    assert_eq!(status_line(&server, "").await, "HTTP/1.1 429 Too Many Requests");
    assert_eq!(status_line(&server, "authorization: Bearer guessed\r\n").await, "HTTP/1.1 401 Unauthorized");
    assert_eq!(status_line(&server, &authorization).await, "HTTP/1.1 200 OK");
    drop(open);
    server.stop().await;
}

#[tokio::test]
async fn idle_http2_connection_is_closed() {
    let server = Server::start_with(|config| config.http_settings.http2_idle_seconds = 1).await;
    let mut stream = TcpStream::connect(server.running.addr).await.expect("a connection");
    // The preface, empty settings, and an answer to each ping of the server's.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await.expect("a beginning");
    let (mut reading, mut writing) = stream.into_split();
    let pings = tokio::spawn(async move {
        // Whatever it is asked, it is alive: a ping of its own now and then.
        while writing.write_all(b"\0\0\x08\x06\0\0\0\0\x0012345678").await.is_ok() {
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    });
    let mut answers = Vec::new();
    let ended = tokio::time::timeout(std::time::Duration::from_mins(1), reading.read_to_end(&mut answers)).await;
    ended.expect("it is closed in its time").ok();
    drop(reading);
    pings.await.expect("it notices");
    server.stop().await;
}
