//! `fair-by`: trees, owners, or keys take turns, so that none with many waiting items starves the others.

use std::{
    collections::HashMap,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Api, Server, invariants};

async fn put_type(server: &Server, fair_by: Value) {
    server.put("/api/v1/job-types/a", json!({ "fair_by": fair_by })).await.expect(201);
}

/// Creates a sealed job with these payloads.
pub(crate) async fn job_of(api: &Api, payloads: Vec<Value>) {
    let items: Vec<Value> = payloads.into_iter().map(|payload| json!({ "payload": payload })).collect();
    api.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
}

pub(crate) fn of_customer(name: &str, n: usize) -> Vec<Value> {
    (0..n).map(|_| json!({ "customer": name })).collect()
}

/// Payloads of the next items, which succeed.
pub(crate) async fn work(api: &Api, max: usize) -> Vec<Value> {
    let body = json!({"worker_id": "w", "types": ["a"], "max": max});
    let claimed = api.post("/api/v1/assignments", body).await.expect(200);
    let assignments = claimed["assignments"].as_array().expect("assignments").clone();
    let endings: Vec<Value> = assignments.iter().map(|it| json!({"assignment_id": it["id"], "result": {}})).collect();
    if !endings.is_empty() {
        api.post("/api/v1/assignments/finish", json!({ "endings": endings })).await.expect(200);
    }
    assignments.into_iter().map(|assignment| assignment["item"]["payload"].clone()).collect()
}

pub(crate) fn count(payloads: &[Value]) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for payload in payloads {
        *counts.entry(payload["customer"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    counts
}

/// A key with 30,000 waiting items starves none of forty others, which come later: eight workers on two servers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_key_starves_behind_a_long_queue() {
    let server = Server::start().await;
    put_type(&server, json!("/customer")).await;
    let other = server.another().await;
    for _ in 0..3 {
        job_of(&server, of_customer("large", 10_000)).await;
    }
    job_of(&other, (0..400).map(|n| json!({"customer": format!("c{}", n % 40)})).collect()).await;
    let (small, large) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let workers = (0..8).map(|worker| {
        let (api, small, large) = ([&*server, &*other][worker % 2], &small, &large);
        async move {
            while small.load(Ordering::SeqCst) < 400 {
                let done = count(&work(api, 20).await);
                let of_large = done.get("large").copied().unwrap_or(0);
                large.fetch_add(of_large, Ordering::SeqCst);
                small.fetch_add(done.values().sum::<usize>() - of_large, Ordering::SeqCst);
                assert!(large.load(Ordering::SeqCst) < 5_000, "the small keys wait for the large one");
            }
        }
    });
    join_all(workers).await;
    other.stop().await;
    server.stop().await;
}

/// A group that worked before shares with one that comes later, also after nothing has waited for a while.
#[tokio::test]
async fn idle_queue_gives_no_group_an_advantage() {
    let server = Server::start().await;
    put_type(&server, json!("/customer")).await;
    job_of(&server, of_customer("old", 900)).await;
    while !work(&server, 1_000).await.is_empty() {}
    job_of(&server, of_customer("new", 900)).await;
    job_of(&server, of_customer("old", 100)).await;
    let counts = count(&work(&server, 200).await);
    assert!(counts["old"] >= 90, "{counts:?}");
    server.stop().await;
}

/// Three hundred trees of one owner take half of the turns when another owner has one tree.
#[tokio::test]
async fn owners_take_turns_over_all_their_trees() {
    let server = Server::start().await;
    put_type(&server, json!("owner")).await;
    let other = server.service("other", &["jobs:write", "jobs:read"]).await;
    join_all((0..300).map(|_| job_of(&server, of_customer("many", 10)))).await;
    job_of(&other, of_customer("one", 200)).await;
    let counts = count(&work(&server, 400).await);
    assert!(counts["one"] >= 190, "{counts:?}");
    server.stop().await;
}

/// Trees take turns whether the type says so or says nothing; a change applies to the items that come after it.
#[tokio::test]
async fn type_shows_and_changes_its_turns() {
    let server = Server::start().await;
    put_type(&server, Value::Null).await;
    let patch = async |fair_by: Value| server.patch("/api/v1/job-types/a", json!({ "fair_by": fair_by })).await;
    for word in ["tree", "owner", "/customer"] {
        assert_eq!(patch(json!(word)).await.expect(200)["fair_by"], json!(word));
    }
    for wrong in [json!("customer"), json!(""), json!("/a~2")] {
        let problem = patch(wrong).await.expect_problem(422, "invalid_body");
        assert_eq!(problem["errors"][0]["pointer"], json!("/fair_by"));
    }
    patch(Value::Null).await.expect(200);
    job_of(&server, of_customer("large", 2_000)).await;
    job_of(&server, of_customer("small", 10)).await;
    assert_eq!(count(&work(&server, 20).await)["small"], 10);
    patch(json!("/customer")).await.expect(200);
    let info = async || server.running.app.engine.types().find("a").await.expect("types").expect("the type");
    crate::support::until(async || info().await.fair_by != domain::fair_by::FairBy::Tree).await;
    job_of(&server, [of_customer("large", 500), of_customer("late", 10)].concat()).await;
    assert_eq!(count(&work(&server, 60).await)["late"], 10);
    invariants::check(&server.running.app.pool, None, Duration::from_secs(10)).await.expect("the invariants hold");
    server.stop().await;
}

/// Together with a limit for each key: keys with parked items take turns, too.
#[tokio::test]
async fn limited_keys_take_turns() {
    let server = Server::start().await;
    let body = json!({"fair_by": "/customer", "concurrency_by": {"key": "/shop", "limit": 40}});
    server.put("/api/v1/job-types/a", body).await.expect(201);
    let of_shop =
        |customer: &str, n: usize| -> Vec<Value> { (0..n).map(|_| json!({"customer": customer, "shop": 1})).collect() };
    job_of(&server, of_shop("large", 2_000)).await;
    job_of(&server, of_shop("small", 10)).await;
    assert_eq!(count(&work(&server, 40).await)["small"], 10);
    server.stop().await;
}
