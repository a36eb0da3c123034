//! Slow clients: partial headers, a body byte by byte, unread responses, and too many connections. Each is disconnected
//! in time, and ordinary requests are unaffected.

use std::time::{Duration, Instant};

use serde_json::json;
use server::config::http::HttpSettings;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Server, TOKEN};

/// Idle timeout in these tests, in seconds.
const IDLE_TIMEOUT: u32 = 2;
/// Deadline for the disconnect; other tests run concurrently.
const DISCONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// Concurrent incomplete requests.
const HALVES: usize = 5_000;

async fn server() -> Server {
    Server::start_with(|config| {
        config.http_settings.http_idle_timeout_seconds = IDLE_TIMEOUT;
        config.http_settings.body_seconds = IDLE_TIMEOUT;
    })
    .await
}

async fn connected(server: &Server, begin: &str) -> TcpStream {
    let mut stream = TcpStream::connect(server.running.addr).await.expect("a connection");
    stream.write_all(begin.as_bytes()).await.expect("the beginning");
    stream
}

/// Reads the rest of the connection.
async fn read_response(stream: &mut TcpStream) -> String {
    let mut response = Vec::new();
    // Closed, or broken: both are an end.
    let _ = tokio::time::timeout(DISCONNECT_TIMEOUT, stream.read_to_end(&mut response))
        .await
        .expect("it is closed in its time");
    String::from_utf8_lossy(&response).into_owned()
}

/// Duration of an ordinary request.
async fn ordinary(server: &Server) -> Duration {
    let began = Instant::now();
    server.get("/api/v1/me").await.expect(200);
    began.elapsed()
}

#[tokio::test]
async fn slow_request_headers_time_out() {
    let server = server().await;
    let halves = [
        "",
        "G",
        "GET /api/v1/me HTT",
        "GET /api/v1/me HTTP/1.1\r\nhost: x\r\nx-half: ",
        "PRI * HTTP/2.0\r\n\r\nSM",
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        // The second request of a connection.
        "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\nGET /healthz HTTP/1.1\r\nhost: x\r\nx-half: ",
    ];
    futures::future::join_all(halves.map(async |begin| {
        let began = Instant::now();
        let mut stream = connected(&server, begin).await;
        read_response(&mut stream).await;
        assert!(began.elapsed() >= Duration::from_secs(1), "{begin:?}: not before its time");
    }))
    .await;
    // One byte now and then is no progress.
    let mut stream = connected(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\nx-slow: ").await;
    let began = Instant::now();
    while stream.write_all(b"x").await.is_ok() {
        assert!(began.elapsed() < DISCONNECT_TIMEOUT, "a header byte by byte");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn slow_request_body_times_out() {
    let server = server().await;
    let head = format!(
        "POST /api/v1/jobs HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/json\r\ncontent-length: 1000\r\n\r\n"
    );
    let stream = connected(&server, &head).await;
    let (mut reading, mut writing) = stream.into_split();
    let drip = tokio::spawn(async move {
        while writing.write_all(b" ").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let mut response = vec![0; 4_096];
    let n = tokio::time::timeout(DISCONNECT_TIMEOUT, reading.read(&mut response))
        .await
        .expect("in its time")
        .expect("an answer");
    let response = String::from_utf8_lossy(&response[..n]).into_owned();
    assert!(response.starts_with("HTTP/1.1 400 ") && response.contains("took too long"), "{response}");
    tokio::time::timeout(DISCONNECT_TIMEOUT, async {
        while reading.read(&mut [0; 1024]).await.is_ok_and(|n| n > 0) {}
    })
    .await
    .expect("closed after it was told");
    drop(reading);
    drip.await.expect("it notices");
    server.stop().await;
}

#[tokio::test]
async fn unread_response_times_out() {
    let server = server().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items = json!([{"payload": "x".repeat(200_000)}]);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201)["id"].clone();
    let path = format!("/api/v1/items?job={}", job.as_str().expect("an id"));
    let item = server.get(&path).await.expect(200)["data"][0]["id"].clone();
    let path = format!("/api/v1/items/{}", item.as_str().expect("an id"));
    // More answers than any buffer on the way holds, none of which is read.
    let ask = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n");
    let mut stream = connected(&server, "").await;
    let began = Instant::now();
    let requests = async { while stream.write_all(ask.as_bytes()).await.is_ok() {} };
    tokio::time::timeout(DISCONNECT_TIMEOUT, requests).await.expect("the connection breaks while it is asked");
    assert!(began.elapsed() >= Duration::from_secs(1), "not before its time");
    assert!(ordinary(&server).await < DISCONNECT_TIMEOUT);
    server.stop().await;
}

#[tokio::test]
async fn thousands_of_incomplete_requests_do_not_block_others() {
    let server = Server::start_with(|config| config.http_settings.http_idle_timeout_seconds = 5).await;
    // Both ends are in this process, beside the other stories: two files each.
    let room = HttpSettings { connections: 1_000_000, ..HttpSettings::default() }.max_connections();
    let halves = HALVES.min(room / 4);
    assert!(halves >= 100, "{room} files");
    let quiet = ordinary(&server).await;
    let mut open = Vec::new();
    for _ in 0..halves {
        open.push(connected(&server, "GET /api/v1/me HTTP/1.1\r\nhost: x\r\nx-half: ").await);
    }
    let mut slowest = Duration::ZERO;
    for _ in 0..20 {
        slowest = slowest.max(ordinary(&server).await);
    }
    assert!(slowest < Duration::from_secs(5).max(quiet * 20), "{slowest:?} beside {halves} half requests");
    for stream in &mut open {
        read_response(stream).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn connections_over_the_limit_get_429() {
    let server = Server::start_with(|config| config.http_settings.connections = 10).await;
    let api = server.stranger();
    let mut open = Vec::new();
    for _ in 0..10 {
        let mut stream = connected(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
        let n = stream.read(&mut [0; 4_096]).await.expect("an answer");
        assert!(n > 0);
        open.push(stream);
    }
    let mut eleventh = connected(&server, "GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let response = read_response(&mut eleventh).await;
    assert!(response.starts_with("HTTP/1.1 429 ") && response.contains("\r\nretry-after: 1\r\n"), "{response}");
    let body: serde_json::Value =
        serde_json::from_str(response.split("\r\n\r\n").nth(1).expect("a body")).expect("JSON");
    assert_eq!((&body["code"], &body["status"]), (&json!("too_many_requests"), &json!(429)), "{body}");
    // Room again as soon as somebody has gone.
    open.pop();
    let began = Instant::now();
    while api.get("/healthz").await.status != 200 {
        assert!(began.elapsed() < DISCONNECT_TIMEOUT, "no room");
        crate::support::moment().await;
    }
    server.stop().await;
}
