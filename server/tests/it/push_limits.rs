//! Limits of push delivery: bounded concurrency, pauses for unavailable targets, no closed addresses, and no repetition
//! of at-most-once items, even if servers crash.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use serde_json::{Value, json};

use crate::{
    bulk::id,
    push::{item_in, item_of, job, push_type},
    retention::until,
    support::{
        Server,
        receiver::{Post, Receiver},
    },
};

fn payloads(n: usize) -> Vec<Value> {
    (0..n).map(|n| json!(n)).collect()
}

async fn complete(server: &Server, tree: &Value) -> Value {
    let path = format!("/api/v1/jobs/{}", id(tree));
    until(async || server.get(&path).await.expect(200)["status"] == "completed").await;
    server.get(&path).await.expect(200)
}

/// Answers `n` requests as late as possible: only when no more arrive. Returns the maximum concurrency.
async fn answered_late(receiver: &mut Receiver, n: usize) -> usize {
    let (mut left, mut most) = (n, 0);
    let mut open: Vec<Post> = Vec::new();
    while left > 0 {
        // Time for one too many to come.
        let more = tokio::time::timeout(Duration::from_millis(300), receiver.next()).await;
        if let Ok(post) = more {
            open.push(post);
            most = most.max(open.len());
            continue;
        }
        left -= open.len();
        for post in open.drain(..) {
            post.status(200);
        }
    }
    most
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_concurrency_per_target_is_limited() {
    let server = Server::start_with(|config| config.outbound.push_concurrency = 3).await;
    let mut receiver = Receiver::start().await;
    for name in ["a", "b"] {
        push_type(&server, name, &receiver, json!({})).await;
    }
    let trees = [job(&server, "a", &payloads(6)).await, job(&server, "b", &payloads(6)).await];
    assert_eq!(answered_late(&mut receiver, 12).await, 3, "of both types together");
    for tree in &trees {
        assert_eq!(complete(&server, tree).await["outcome"], "succeeded");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_push_each_item_once_within_the_cap() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "a", &receiver, json!({"concurrency": 4})).await;
    let second = server.another().await;
    let tree = job(&second, "a", &payloads(60)).await;
    let (mut seen, mut open, mut most) = (HashSet::new(), Vec::new(), 0);
    while seen.len() < 60 {
        let post = receiver.next().await;
        assert!(seen.insert(post.header("idempotency-key").to_owned()), "an item twice");
        open.push(post);
        most = most.max(open.len());
        if open.len() == 4 || seen.len() > 56 {
            open.drain(..).for_each(|post| post.status(200));
        }
    }
    let done = complete(&server, &tree).await;
    assert_eq!((&done["outcome"], &done["counts"]["succeeded"]), (&json!("succeeded"), &json!(60)));
    assert_eq!(most, 4, "the cap, exactly");
    assert!(receiver.now().is_none());
    second.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unavailable_push_target_is_probed_once_then_resumed() {
    let server = Server::start_with(|config| {
        config.outbound.push_break_after = 3;
        config.outbound.push_break_seconds = 8.0;
        config.outbound.push_concurrency = 3;
    })
    .await;
    let mut receiver = Receiver::start().await;
    let backoff = json!({"min_seconds": 3600, "max_seconds": 3600});
    push_type(&server, "a", &receiver, json!({"max_failures": 5, "backoff": backoff})).await;
    let tree = job(&server, "a", &payloads(20)).await;
    // Whoever asks is told when nothing goes on any more, and why.
    let path = format!("/api/v1/items?job={}&state=available", id(&tree));
    let waiting_for = async || server.get(&path).await.expect(200)["data"][0]["waiting_for"].clone();
    let mut failed = 0;
    while !waiting_for().await["until"].is_string() {
        while let Some(post) = receiver.now() {
            failed += 1;
            post.status(502);
        }
    }
    assert!((3..=6).contains(&failed), "three in a row, and those that were under way: {failed}");
    let waiting_for = waiting_for().await;
    assert_eq!(waiting_for["reason"], "not_claimed");
    assert!(
        waiting_for["detail"].as_str().expect("text").contains(&format!("127.0.0.1:{}", receiver.port)),
        "{waiting_for}"
    );
    let metrics = server.get("/metrics").await.text;
    let gauge = format!("treeline_push_target_away{{target=\"127.0.0.1:{}\"}} 1", receiver.port);
    assert!(metrics.contains(&gauge), "{metrics}");
    let page = server.admin().await.get(&format!("/jobs/{}", id(&tree))).await;
    assert!(page.text.contains("It is asked again at"), "{}", page.text);
    assert!(receiver.now().is_none(), "it is left alone");

    let probe = receiver.next().await;
    let more = tokio::time::timeout(Duration::from_millis(500), receiver.next()).await;
    assert!(more.is_err(), "one, and no more until it is answered");
    probe.status(200);
    for _ in 0..19 - failed {
        receiver.next().await.status(200);
    }
    let counts = async || server.get(&format!("/api/v1/jobs/{}", id(&tree))).await.expect(200)["counts"].clone();
    until(async || counts().await["succeeded"] == 20 - failed).await;
    assert_eq!(counts().await["retryable"], failed, "the others have lost nothing by it");
    until(async || server.get("/metrics").await.text.contains(&gauge.replace("} 1", "} 0"))).await;
    server.stop().await;
}

#[tokio::test]
async fn push_targets_are_public_or_on_the_allow_list() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "a", &receiver, json!({})).await;
    server.running.app.shutdown.cancel();
    // Without the variable a target on this machine or in a private network is as closed as it is to a callback.
    let strict = server.another_with(|config| config.outbound.push_allow = "workers.internal".parse().expect("a list"));
    let strict = strict.await;
    for url in [
        receiver.url("/"),
        format!("http://localhost:{}/", receiver.port),
        "http://10.0.0.1/".to_owned(),
        "http://169.254.169.254/latest/".to_owned(),
        "https://ann:h1dd3n@hooks.example/".to_owned(),
        "http://hooks.example:25/".to_owned(),
        "file:///x".to_owned(),
        "javascript:alert(1)".to_owned(),
    ] {
        let spec = json!({"executor": {"kind": "push", "url": url}});
        let refused = strict.put("/api/v1/job-types/b", spec).await.expect_problem(422, "url_not_allowed");
        assert_eq!(refused["errors"][0]["pointer"], "/executor/url", "{url}");
        assert!(!refused.to_string().contains("h1dd3n"), "{refused}");
    }
    let public = json!({"executor": {"kind": "push", "url": "https://93.184.216.34/"}, "paused": true});
    strict.put("/api/v1/job-types/public", public).await.expect(201);
    let open = json!({"executor": {"kind": "push", "url": "http://workers.internal/x"}});
    strict.put("/api/v1/job-types/b", open).await.expect(201);
    // A type from before the list was given is asked again at the moment of connecting.
    let tree = job(&strict, "a", &[json!(1)]).await;
    assert_eq!(item_in(&strict, &tree, "dead").await["last_error"]["kind"], "url_not_allowed");
    assert!(receiver.now().is_none(), "nothing was sent");
    strict.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_after_server_crash_follows_delivery_guarantee() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    let executor = json!({"timeout_seconds": 2});
    push_type(&server, "more", &receiver, json!({"max_failures": 3, "executor": executor})).await;
    push_type(&server, "once", &receiver, json!({"delivery": "at_most_once", "executor": executor})).await;
    // Only the program posts.
    server.running.app.shutdown.cancel();
    let program = server.spawn_program().await;
    let more = job(&program.api, "more", &[json!(1)]).await;
    let once = job(&program.api, "once", &[json!(1)]).await;
    let mut first: HashMap<String, Post> = HashMap::new();
    for _ in 0..2 {
        let post = receiver.next().await;
        first.insert(post.json()["type"].as_str().expect("a type").to_owned(), post);
    }
    // Killed (-9) while the worker has both and nobody has recorded an answer.
    drop(program);
    let next = server.another().await;
    let again = receiver.next().await;
    assert_eq!((&again.json()["type"], &again.json()["attempt"]), (&json!("more"), &json!(2)));
    assert_eq!(again.header("idempotency-key"), first["more"].header("idempotency-key"), "the worker can tell");
    again.text(200, "\"done\"");
    assert_eq!(item_in(&next, &more, "succeeded").await["result"], "done");
    let item = item_in(&next, &once, "dead").await;
    assert_eq!((&item["last_error"]["kind"], &item["attempts"]), (&json!("outcome_unknown"), &json!(1)));
    assert!(receiver.now().is_none(), "at most once");
    assert_eq!(item_of(&next, &once).await["state"], "dead");
    next.stop().await;
    server.stop().await;
}

/// `retry-budget`: whether a refused item may be posted again is decided by its job, not by what its type was before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_push_follows_the_delivery_of_its_job() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "a", &receiver, json!({})).await;
    let again = job(&server, "a", &[json!(1)]).await;
    let post = receiver.next().await;
    server.patch("/api/v1/job-types/a", json!({"delivery": "at_most_once"})).await.expect(200);
    post.answer(503, &[("retry-after", "1")], axum::body::Body::empty());
    receiver.next().await.status(200);
    item_in(&server, &again, "succeeded").await;
    let once = job(&server, "a", &[json!(2)]).await;
    receiver.next().await.answer(503, &[("retry-after", "1")], axum::body::Body::empty());
    let item = item_in(&server, &once, "dead").await;
    assert_eq!((&item["failures"], &item["attempts"]), (&json!(1), &json!(1)), "{item}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn busy_push_target_uses_no_retry_budget() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "a", &receiver, json!({"max_failures": 1})).await;
    let tree = job(&server, "a", &[json!(1)]).await;
    // A rolling restart of the workers: more refusals than the budget has failures.
    for status in [503, 429, 503] {
        let post = receiver.next().await;
        post.answer(status, &[("retry-after", "1")], axum::body::Body::empty());
        let item = item_in(&server, &tree, "retryable").await;
        assert_eq!((&item["failures"], &item["last_error"]), (&json!(0), &serde_json::Value::Null), "{item}");
    }
    receiver.next().await.status(200);
    let item = item_in(&server, &tree, "succeeded").await;
    assert_eq!((&item["failures"], &item["attempts"]), (&json!(0), &json!(4)));
    // It waits no longer than it may be done.
    let soon = domain::Time(time::OffsetDateTime::now_utc() + Duration::from_secs(2));
    let brief = json!({"type": "a", "sealed": true, "expires_at": soon, "items": [{"payload": 1}]});
    let tree = server.post("/api/v1/jobs", brief).await.expect(201);
    receiver.next().await.answer(503, &[("retry-after", "3600")], axum::body::Body::empty());
    item_in(&server, &tree, "expired").await;
    server.stop().await;
}
