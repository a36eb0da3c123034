//! Revoked credentials stop working at once, including ongoing work: streams in both directions, uploads, waiting
//! claims and bulk operations. Others lose nothing. Every test ends by an event, never by a timer.

use std::time::Duration;

use bytes::Bytes;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::{
    sync::{Notify, mpsc},
    time::timeout,
};

use crate::{
    bulk::{claim, id},
    live::listen,
    retention::{tree, until},
    support::{Answer, Api, Server},
};

/// Creates a token of a service; returns it with the path that revokes it.
async fn token(server: &Server, service: &str, scopes: &[&str]) -> (Api, String) {
    server.post("/api/v1/services", json!({"name": service})).await;
    let created = server.post("/api/v1/tokens", json!({"service": service, "name": "t", "scopes": scopes})).await;
    let created = created.expect(201);
    let api = server.stranger().with_token(created["secret"].as_str().expect("a secret"));
    (api, format!("/api/v1/tokens/{}", id(&created["token"])))
}

/// Body that continues as long as the test wants.
fn endless() -> (mpsc::Sender<Result<Bytes, std::io::Error>>, reqwest::Body) {
    let (sender, receiver) = mpsc::channel(1);
    (sender, reqwest::Body::wrap_stream(tokio_stream::wrappers::ReceiverStream::new(receiver)))
}

async fn soon<T>(what: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(10), what).await.expect("it ends soon")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_token_stops_item_stream_before_next_commit() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for at in [&server, &other] {
        let (ci, revoke) = token(&server, "ci", &["jobs:read", "jobs:write"]).await;
        let job = id(&ci.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201));
        let path = format!("/api/v1/jobs/{job}");
        let (sender, body) = endless();
        let request = at.stranger().request(Method::POST, &format!("{path}/items"));
        let token = ci.request(Method::GET, "/").build().expect("a request").headers()["authorization"].clone();
        let request = request.header("authorization", token).header("content-type", "application/x-ndjson").body(body);
        let sending = tokio::spawn(Answer::of(request));
        let lines = |n: usize| Bytes::from("{\"payload\":1}\n".repeat(n));
        sender.send(Ok(lines(1_001))).await.expect("it is taken");
        until(async || server.get(&path).await.expect(200)["counts"]["available"] == 1_000).await;
        server.delete(&revoke).await.expect(204);
        // The sender says nothing more, and is told all the same.
        let problem = soon(sending).await.expect("the task").expect_problem(401, "unauthenticated");
        assert_eq!(problem["accepted"], 1_000);
        drop(sender);
        assert_eq!(server.get(&path).await.expect(200)["counts"]["available"], 1_000);
    }
    other.stop().await;
    server.stop().await;
}

/// The response does not wait for what the client still sends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_token_that_keeps_sending_is_answered_at_once() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (ci, revoke) = token(&server, "ci", &["jobs:read", "jobs:write"]).await;
    let path = format!("/api/v1/jobs/{}", id(&ci.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)));
    let (sender, body) = endless();
    let request = ci.request(Method::POST, &format!("{path}/items")).header("content-type", "application/x-ndjson");
    let receiving = tokio::spawn(Answer::of(request.body(body)));
    // The second is taken when the first was read.
    for _ in 0..2 {
        sender.send(Ok(Bytes::from("{}\n"))).await.expect("it is taken");
    }
    let sending = tokio::spawn(async move {
        while sender.send(Ok(Bytes::from("{}\n"))).await.is_ok() {
            crate::support::moment().await;
        }
    });
    server.delete(&revoke).await.expect(204);
    // Half of the time for which the server reads what nobody wants.
    let answer = timeout(Duration::from_secs(5), receiving).await.expect("an answer at once").expect("the task");
    assert_eq!(answer.expect_problem(401, "unauthenticated")["accepted"], 0);
    sending.abort();
    assert_eq!(server.get(&path).await.expect(200)["item_count"], 0);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_token_stops_upload() {
    let server = Server::start().await;
    let (ci, revoke) = token(&server, "ci", &["jobs:read", "jobs:write"]).await;
    let (successor, _) = token(&server, "ci", &["jobs:read", "jobs:write"]).await;
    let begin = ci.request(Method::POST, "/api/v1/uploads/resumable?filename=b.csv").header("upload-length", 8);
    let begun = Answer::of(begin).await;
    begun.expect(201);
    let location = begun.headers["location"].to_str().expect("text").to_owned();

    let (plain, plain_body) = endless();
    let (piece, piece_body) = endless();
    let request = ci.request(Method::POST, "/api/v1/uploads?filename=a.csv").header("content-type", "text/csv");
    let sending = tokio::spawn(Answer::of(request.body(plain_body)));
    let append = ci.request(Method::PATCH, &location).header("upload-offset", 0);
    let append = append.header("content-type", "application/offset+octet-stream").body(piece_body);
    let appending = tokio::spawn(Answer::of(append));
    for sender in [&plain, &piece] {
        // The second is taken when the first was read.
        for part in ["id\n1", "\n"] {
            sender.send(Ok(Bytes::from(part))).await.expect("it is taken");
        }
    }
    server.delete(&revoke).await.expect(204);
    soon(sending).await.expect("the task").expect_problem(401, "unauthenticated");
    soon(appending).await.expect("the task").expect_problem(401, "unauthenticated");
    drop((plain, piece));
    let uploads: i64 =
        sqlx::query_scalar("select count(*) from upload").fetch_one(&server.running.app.pool).await.expect("a number");
    assert_eq!(uploads, 0);
    let head = Answer::of(successor.request(Method::HEAD, &location)).await;
    let at: usize = head.headers["upload-offset"].to_str().expect("text").parse().expect("a number");
    let rest = &"id\n1\n22\n"[at..];
    let append = successor.request(Method::PATCH, &location).header("upload-offset", at);
    Answer::of(append.header("content-type", "application/offset+octet-stream").body(rest)).await.expect(204);
    let upload = location.replace("/resumable", "");
    assert_eq!(successor.get(&format!("{upload}/content")).await.text, "id\n1\n22\n");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_token_ends_waiting_claim() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (worker, revoke) = token(&server, "w", &["work"]).await;
    let (heir, _) = token(&server, "w", &["work"]).await;
    let wait = json!({"worker_id": "w", "types": ["a"], "max": 5, "wait_seconds": 30});
    let waiting: Vec<_> = [&server, &other]
        .into_iter()
        .map(|at| {
            let token = worker.request(Method::GET, "/").build().expect("a request").headers()["authorization"].clone();
            let request = at.stranger().request(Method::POST, "/api/v1/assignments").header("authorization", token);
            tokio::spawn(Answer::of(request.json(&wait)))
        })
        .collect();
    let waits = async |at: &Server| {
        let workers = at.get("/api/v1/workers").await.expect(200);
        workers["data"].as_array().is_some_and(|all| all.iter().any(|one| one["worker_id"] == "w"))
    };
    until(async || waits(&server).await || waits(&other).await).await;
    server.delete(&revoke).await.expect(204);
    for waiting in waiting {
        soon(waiting).await.expect("the task").expect_problem(401, "unauthenticated");
    }
    tree(&server, 5).await;
    assert_eq!(claim(&heir, "a", 5, 20).await.len(), 5);
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn revoked_token_ends_waiting_read_of_a_job() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (owner, revoke) = token(&server, "r", &["jobs:read", "jobs:write"]).await;
    let job = owner.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let path = format!("/api/v1/jobs/{}?wait_seconds=30", id(&job));
    let waiting = tokio::spawn(async move { owner.get(&path).await });
    let under_way = &server.running.app.under_way;
    until(async || under_way.load(std::sync::atomic::Ordering::Relaxed) == 1).await;
    server.delete(&revoke).await.expect(204);
    soon(waiting).await.expect("the task").expect_problem(401, "unauthenticated");
    server.stop().await;
}

#[tokio::test]
async fn bulk_operation_ends_when_its_requester_is_disabled() {
    let server = Server::start().await;
    let admin = server.admin().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let people = [
        ("sam", json!({"disabled": true}), "The account was disabled."),
        ("sue", json!({"role": "user"}), "The credential's rights were reduced meanwhile."),
        ("eve", Value::Null, "The session has ended."),
    ];
    for (name, change, why) in people {
        let staff = server.person(name, "support").await;
        let root = tree(&server, 20).await;
        let order = json!({"action": "cancel", "target": "items", "filter": {"job": root}, "reason": "a test",
            "rate_per_second": 0.5});
        let bulk = staff.post("/api/v1/bulk-operations", order).await.expect(202);
        let path = format!("/api/v1/bulk-operations/{}", id(&bulk));
        until(async || server.get(&path).await.expect(200)["processed"] == 1).await;
        if change.is_null() {
            staff.delete("/api/v1/session").await.expect(204);
        } else {
            let found = admin.get("/api/v1/users").await.expect(200)["data"].clone();
            let found = found.as_array().expect("people").iter().find(|one| one["name"] == name).expect("one").clone();
            admin.patch(&format!("/api/v1/users/{}", id(&found)), change).await.expect(200);
        }
        let mut now = Value::Null;
        until(async || {
            now = server.get(&path).await.expect(200);
            now["state"] == "cancelled"
        })
        .await;
        assert_eq!(now["stopped_reason"], why);
        assert!(now["processed"].as_i64().expect("a number") < 5, "{now}");
        let page = admin.get(&format!("/bulk/{}", id(&bulk))).await;
        assert!(page.text.contains("Stopped because"), "{}", page.text);
        // The job that it held is released, and those that it had not reached are as before.
        let job = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
        assert_eq!(job["counts"]["available"].as_i64(), now["processed"].as_i64().map(|done| 20 - done));
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoked_session_ends_event_streams_on_all_servers() {
    let server = Server::start().await;
    let other = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let ada = server.person("ada", "user").await;
    let job = tree(&ada, 1).await;
    let there = other.with_cookie(ada.cookie());
    let opened: Vec<Notify> = (0..4).map(|_| Notify::new()).collect();
    let paths = [format!("/api/v1/jobs/{job}/events"), "/api/v1/events".to_owned()];
    let watch = |api, path, at: usize| {
        let opened = &opened;
        listen(api, path, move |_, _| {
            opened[at].notify_one();
            false
        })
    };
    let watching = async {
        tokio::join!(
            watch(&ada, &paths[0], 0),
            watch(&ada, &paths[1], 1),
            watch(&there, &paths[0], 2),
            watch(&there, &paths[1], 3),
        )
    };
    let signing_out = async {
        for opened in &opened {
            opened.notified().await;
        }
        ada.delete("/api/v1/session").await.expect(204);
    };
    soon(async { tokio::join!(watching, signing_out) }).await;
    for path in &paths {
        there.get(path).await.expect_problem(401, "unauthenticated");
    }
    other.stop().await;
    server.stop().await;
}
