//! Memory of request bodies: small bodies of unauthenticated requests, a budget for all bodies together, and lists and
//! forms that are counted before they are read. The server runs in its own process, whose peak memory is measured; the
//! limits are far below the size of the bodies.

use std::time::Duration;

use bytes::Bytes;
use futures::{StreamExt as _, future::join_all};
use reqwest::{Body, Method};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::support::{Answer, Api, Server, TOKEN, program::peak_kib};

const FORM: &str = "application/x-www-form-urlencoded";
const JSON: &str = "application/json";

/// Concurrent bodies.
const PARALLEL: usize = 8;

/// Allowed growth of the server's memory, in KiB: eight bodies of one round would be 80 MB.
const MOST_KIB: u64 = 40 << 10;

/// Routes that accept or discard a body of an unauthenticated request.
const UNKNOWN_CALLER: [(&str, &str); 14] = [
    ("/sign-in", FORM),
    ("/sign-in/some-token", FORM),
    ("/sign-out", FORM),
    ("/theme", FORM),
    ("/sidebar", FORM),
    ("/language", FORM),
    ("/s/some-token", FORM),
    ("/imports", FORM),
    ("/account/password", FORM),
    ("/api/v1/session", JSON),
    ("/api/v1/jobs", JSON),
    ("/api/v1/uploads?filename=a.csv", "text/csv"),
    ("/api/v1/nothing", JSON),
    ("/nothing", FORM),
];

/// Streams a body of `bytes` in chunks that share memory.
fn body(piece: &'static str, bytes: usize) -> Body {
    let whole: Bytes = piece.repeat((64 << 10) / piece.len()).into();
    let pieces = std::iter::repeat_n(whole.clone(), bytes / whole.len());
    Body::wrap_stream(futures::stream::iter(pieces).map(Ok::<_, std::io::Error>))
}

/// Sends bodies concurrently. An early refusal may close the connection before its response arrives.
async fn send_all(api: &Api, path: &str, media_type: &str, piece: &'static str) -> Vec<u16> {
    let one = || async {
        let request = api.request(Method::POST, path).header("content-type", media_type);
        request.body(body(piece, 10 << 20)).send().await.ok().map(|answer| answer.status().as_u16())
    };
    join_all((0..PARALLEL).map(|_| one())).await.into_iter().flatten().collect()
}

#[tokio::test]
async fn unauthenticated_request_bodies_are_small() {
    let server = Server::start().await;
    let program = server.spawn_program().await;
    let api = Api::new(&program.api.url(""));
    // Memory that the first request of a kind needs once.
    for (path, media_type) in UNKNOWN_CALLER {
        Answer::of(api.request(Method::POST, path).header("content-type", media_type).body("a")).await;
    }
    let before = peak_kib(program.process);
    for piece in ["a&", " ", "[[", "{\"a\":"] {
        for (path, media_type) in UNKNOWN_CALLER {
            let statuses = send_all(&api, path, media_type, piece).await;
            assert!(statuses.iter().all(|status| (300..500).contains(status)), "{path}: {statuses:?}");
        }
    }
    // The kernel counts in batches: a second look may show a little less than the first.
    let grown = peak_kib(program.process).saturating_sub(before);
    assert!(grown <= MOST_KIB, "{} MiB more", grown >> 10);
    // The refusal says why, and a body that fits is read.
    let large = format!("email=a&password={}", "a".repeat(16 << 10));
    assert_eq!(api.post_text("/sign-in", FORM, large.clone()).await.status, 413);
    let large = json!({"email": "a@example.com", "password": "a".repeat(16 << 10)});
    api.post("/api/v1/session", large).await.expect_problem(413, "too_large");
    let unknown = json!({"email": "a@example.com", "password": "a password of nobody"});
    api.post("/api/v1/session", unknown).await.expect(401);
    server.stop().await;
}

#[tokio::test]
async fn slow_request_bodies_share_a_memory_budget() {
    let server = Server::start_with(|config| {
        config.limits.body_memory = "8MiB".parse().expect("a size");
        config.body_limit = "6MiB".parse().expect("a size");
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    // Without a known caller: each announces what fits and keeps its last byte back.
    let begin = |head: String, bytes: usize| {
        let address = server.running.addr;
        async move {
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            stream.write_all(head.as_bytes()).await.expect("its head");
            stream.write_all(&vec![b' '; bytes]).await.expect("its body");
            stream
        }
    };
    let head = |path: &str, token: &str, bytes: usize| {
        format!(
            "POST {path} HTTP/1.1\r\nhost: 127.0.0.1\r\n{token}content-type: application/json\r\ncontent-length: {bytes}\r\n\r\n"
        )
    };
    let token = format!("authorization: Bearer {TOKEN}\r\n");
    let mut open = Vec::new();
    for _ in 0..64 {
        open.push(begin(head("/api/v1/session", "", 16 << 10), (16 << 10) - 1).await);
    }
    let unknown = 64 * ((16 << 10) - 1);
    let counted = || server.running.app.body_memory.used();
    while counted() < unknown {
        crate::support::moment().await;
    }
    let problem =
        server.stranger().post("/api/v1/session", json!({"email": "a@b.c", "password": "n".repeat(200)})).await;
    assert_eq!(problem.headers["retry-after"], "1");
    problem.expect_problem(503, "busy");
    // With one: three bodies of 2 MiB are what the rest of the budget holds.
    let bytes = (2 << 20) - (1 << 10);
    for _ in 0..3 {
        open.push(begin(head("/api/v1/jobs", &token, 2 << 20), bytes).await);
    }
    while counted() < unknown + 3 * bytes {
        crate::support::moment().await;
    }
    let large = json!({"type": "a", "items": [{"payload": "x".repeat(200_000)}]});
    server.post("/api/v1/jobs", large.clone()).await.expect_problem(503, "busy");
    // Small requests of known callers go on.
    server.post("/api/v1/jobs", json!({"type": "a", "items": [{}]})).await.expect(201);
    let claimed = server.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"]})).await.expect(200);
    assert_eq!(claimed["assignments"].as_array().map(Vec::len), Some(1));
    // Whoever goes away gives its part back.
    drop(open);
    while counted() > 0 {
        crate::support::moment().await;
    }
    server.post("/api/v1/jobs", large).await.expect(201);
    server.stop().await;
}

#[tokio::test]
async fn lists_and_forms_are_counted_before_allocation() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)["id"].clone();
    let job = job.as_str().expect("an id").to_owned();
    let program = server.spawn_program().await;
    let api = program.api.clone();
    let many = |before: &str, piece: &str, after: &str| {
        format!("{before}{}{}{after}", format!("{piece},").repeat((9 << 20) / (piece.len() + 1)), piece)
    };
    let items = format!("/api/v1/jobs/{job}/items");
    let bodies = [
        ("/api/v1/jobs", many(r#"{"type":"a","items":["#, "{}", "]}")),
        ("/api/v1/jobs", many(r#"{"type":"a","children":["#, r#"{"type":"a"}"#, "]}")),
        ("/api/v1/jobs", many(r#"{"type":"a","after":["#, r#""""#, "]}")),
        ("/api/v1/assignments", many(r#"{"worker_id":"w","types":["#, r#""""#, "]}")),
        (items.as_str(), many("[", "{}", "]")),
    ];
    api.post("/api/v1/jobs", json!({"type": "a", "items": [{}]})).await.expect(201);
    // The API description is built for its first reader; that memory is no body's.
    api.get("/api/v1/openapi.json").await.expect(200);
    let before = peak_kib(program.process);
    for (path, body) in bodies {
        let refused = api.post_text(path, JSON, body).await.expect_problem(413, "too_large");
        assert!(refused["detail"].as_str().expect("text").contains("at most 20000 elements"), "{refused}");
        // The kernel counts in batches: a second look may show a little less than the first.
        let grown = peak_kib(program.process).saturating_sub(before);
        assert!(grown <= MOST_KIB, "{path}: {} MiB more", grown >> 10);
    }
    // A form has fields that somebody typed, not five million.
    let person = server.person("ada", "admin").await;
    let answer = person.post_text("/services", FORM, "name=x&".repeat(1_000)).await;
    assert_eq!(answer.status, 422, "{}", answer.text);
    assert!(answer.text.contains("at most 1000 fields"), "{}", answer.text);
    server.stop().await;
}

/// A client that sends its whole body before it reads is answered, although nobody reads the body of a caller without rights.
#[tokio::test]
async fn refused_caller_can_finish_sending() {
    let server = Server::start().await;
    let reader = server.service("reader", &["jobs:read"]).await;
    let token =
        reader.request(reqwest::Method::GET, "/").build().expect("a request").headers()["authorization"].clone();
    let token = format!("authorization: {}\r\n", token.to_str().expect("text"));
    for (credential, status) in [(token.as_str(), 403), ("", 401)] {
        let mut stream = TcpStream::connect(server.running.addr).await.expect("a connection");
        let body = vec![b'x'; 9 << 20];
        let head = format!(
            "POST /api/v1/jobs HTTP/1.1\r\nhost: 127.0.0.1\r\n{credential}content-type: application/json\r\n\
             content-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes()).await.expect("its head");
        stream.write_all(&body).await.expect("its body");
        let mut answer = vec![0; 4_096];
        let n = tokio::time::timeout(Duration::from_mins(1), stream.read(&mut answer)).await.expect("in time");
        let answer = String::from_utf8_lossy(&answer[..n.expect("an answer")]).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    server.stop().await;
}

#[tokio::test]
async fn idle_ndjson_stream_times_out() {
    let server = Server::start_with(|config| config.limits.stream_idle_seconds = 1).await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)["id"].clone();
    let head = format!(
        "POST /api/v1/jobs/{}/items HTTP/1.1\r\nhost: 127.0.0.1\r\nauthorization: Bearer {TOKEN}\r\n\
         content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
        job.as_str().expect("an id")
    );
    let mut stream = TcpStream::connect(server.running.addr).await.expect("a connection");
    stream.write_all(head.as_bytes()).await.expect("its head");
    stream.write_all(b"3\r\n{}\n\r\n").await.expect("a line");
    let (mut reading, mut writing) = stream.into_split();
    // A byte now and then, and never a whole line.
    let drip = tokio::spawn(async move {
        while writing.write_all(b"1\r\n \r\n").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut answer = vec![0; 4_096];
    let n =
        tokio::time::timeout(Duration::from_mins(1), reading.read(&mut answer)).await.expect("in time").expect("it");
    let answer = String::from_utf8_lossy(&answer[..n]).into_owned();
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("No whole line came for 1 seconds"), "{answer}");
    drop(reading);
    drip.await.expect("it notices");
    server.stop().await;
}

#[tokio::test]
async fn multipart_form_fields_are_bounded() {
    let server = Server::start().await;
    let boundary = "multipart/form-data; boundary=x";
    let field = |name: &str, bytes: usize| {
        format!("--x\r\ncontent-disposition: form-data; name=\"{name}\"\r\n\r\n{}\r\n", "a".repeat(bytes))
    };
    let file = "--x\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a.csv\"\r\n\r\na\n1\n\r\n--x--\r\n";
    let fits = format!("{}{file}", field("other", 100_000));
    server.post_text("/api/v1/uploads", boundary, fits).await.expect(201);
    let large = format!("{}{file}", field("other", 2 << 20));
    server.post_text("/api/v1/uploads", boundary, large).await.expect_problem(413, "too_large");
    let header = format!("--x\r\nx-long: {}", "a".repeat(2 << 20));
    server.post_text("/api/v1/uploads", boundary, header).await.expect_problem(413, "too_large");
    // The file itself may be as long as an upload.
    let rows = format!("a\n{}", "1\n".repeat(2 << 20));
    let long = file.replace("a\n1\n", &rows);
    let stored = server.post_text("/api/v1/uploads", boundary, long).await.expect(201);
    assert_eq!(stored["bytes"], rows.len());
    server.stop().await;
}
