//! Callbacks about complete trees: signed, at least once, retried for a day, and never to a closed address
//! (`completion-webhook`, P16).
//!
//! Long because every scenario needs the same receiver and its signatures.

use std::time::Duration;

use axum::body::Body;
use base64::Engine as _;
use serde_json::{Value, json};
use server::config::Config;

use crate::{
    bulk::{claim, finish, id},
    retention::until,
    support::{
        Api, Server,
        receiver::{Post, Receiver},
    },
};

/// Settings with local receivers and fast retries.
pub(crate) fn quick(config: &mut Config) {
    config.callback_allow = "127.0.0.1".parse().expect("a list");
    config.outbound.callback_retry_seconds = 0.05;
    config.outbound.callback_timeout_seconds = 5.0;
}

pub(crate) async fn quick_server() -> Server {
    server_with(quick).await
}

/// Starts a server for receivers that answer only after the test has done other things.
pub(crate) async fn server_for_late_answers() -> Server {
    let settings = |config: &mut Config| {
        quick(config);
        config.outbound.callback_timeout_seconds = 60.0;
    };
    server_with(settings).await
}

async fn server_with(settings: impl FnOnce(&mut Config)) -> Server {
    let server = Server::start_with(settings).await;
    server.put("/api/v1/job-types/a", json!({"max_failures": 1})).await.expect(201);
    server
}

/// Creates a tree without items, which is complete at once.
pub(crate) async fn done(api: &Api, on_completed: Value) -> Value {
    let job = json!({"type": "a", "sealed": true, "on_completed": on_completed});
    api.post("/api/v1/jobs", job).await.expect(201)
}

/// Waits until the tree is complete.
async fn complete(api: &Api, job: &Value) -> Value {
    let path = format!("/api/v1/jobs/{}", id(job));
    until(async || api.get(&path).await.expect(200)["status"] == "completed").await;
    api.get(&path).await.expect(200)
}

pub(crate) async fn deliveries(api: &Api, job: &Value) -> Vec<Value> {
    let list = api.get(&format!("/api/v1/jobs/{}/deliveries", id(job))).await.expect(200);
    list["data"].as_array().expect("a list").clone()
}

/// Waits until the only delivery of a tree has this state.
pub(crate) async fn once(api: &Api, job: &Value, state: &str) -> Value {
    until(async || deliveries(api, job).await.iter().any(|one| one["state"] == state)).await;
    let all = deliveries(api, job).await;
    assert_eq!((all.len(), &all[0]["state"]), (1, &json!(state)), "{all:?}");
    all[0].clone()
}

pub(crate) fn statuses(delivery: &Value) -> Vec<Value> {
    delivery["tries"].as_array().expect("tries").iter().map(|one| one["status"].clone()).collect()
}

#[tokio::test]
async fn completed_tree_sends_callback() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let metadata = r#"{"team": "hr",  "n": 1.10, "big": 9007199254740993}"#;
    let job = format!(
        r#"{{"type": "a", "name": "March", "metadata": {metadata}, "items": [{{"payload": 1}}, {{"payload": 2}}],
            "sealed": true, "on_completed": {{"url": "{}", "secret": "whsec_c2VjcmV0"}}}}"#,
        receiver.url("/done?a=b")
    );
    let job = owner.post_text("/api/v1/jobs", "application/json", job).await.expect(201);
    let silent = server.post("/api/v1/jobs", json!({"type": "a", "sealed": true})).await.expect(201);
    let claimed = claim(&server, "a", 2, 5).await;
    finish(&server, &claimed[0]).await;
    assert!(receiver.now().is_none() && deliveries(&owner, &job).await.is_empty(), "it is not complete yet");
    let failure = json!({"error": {"message": "no such user"}});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed[1])), failure).await.expect(200);

    let post = receiver.next().await;
    assert_eq!((post.path.as_str(), post.header("content-type")), ("/done?a=b", "application/json"));
    assert!(post.header("user-agent").starts_with("Treeline/"), "{}", post.header("user-agent"));
    assert!(post.is_signed_by(b"secret") && !post.is_signed_by(b"secrets"));
    let message = post.json();
    assert_eq!(message["type"], "tree.completed");
    let data = &message["data"];
    assert_eq!((&data["job_id"], &data["completion"], &data["outcome"]), (&job["id"], &json!(1), &json!("partial")));
    assert_eq!((&data["counts"]["succeeded"], &data["counts"]["dead"]), (&json!(1), &json!(1)));
    assert!(post.body.contains(&format!(r#""metadata":{metadata}"#)), "byte for byte: {}", post.body);
    let now = complete(&owner, &job).await;
    assert_eq!(
        (&data["outcome"], &data["counts"], &message["timestamp"]),
        (&now["outcome"], &now["counts"], &now["completed_at"])
    );
    let webhook = post.header("webhook-id").to_owned();
    post.text(200, "thank you");

    let delivery = once(&owner, &job, "delivered").await;
    assert_eq!((&delivery["id"], &delivery["job_id"]), (&json!(webhook), &job["id"]));
    assert_eq!(delivery["job_name"], "March");
    let list = server.admin().await.get("/deliveries").await;
    assert!(list.text.contains(">March<"), "jobs are named: {}", list.text);
    assert!(list.text.contains(r#"href="/deliveries" title="Webhooks" aria-current="page""#), "{}", list.text);
    assert_eq!((&delivery["completion"], &delivery["next_try_at"]), (&json!(1), &Value::Null));
    assert_eq!((statuses(&delivery), &delivery["tries"][0]["error"]), (vec![json!(200)], &Value::Null));
    assert_eq!(delivery["url"], receiver.url("/done?…"), "its query may be a secret");
    assert!(deliveries(&server, &silent).await.is_empty(), "nobody asked");

    let count = async |api: &Api, query: &str| {
        let list = api.get(&format!("/api/v1/deliveries?{query}")).await.expect(200);
        list["data"].as_array().expect("a list").len()
    };
    let other = server.service("other", &["jobs:read"]).await;
    assert_eq!((count(&owner, "").await, count(&other, "").await, count(&server, "").await), (1, 0, 1));
    assert_eq!((count(&server, "owner=payroll").await, count(&server, "owner=other").await), (1, 0));
    assert_eq!((count(&owner, "state=delivered").await, count(&owner, "state=pending,failed").await), (1, 0));
    assert_eq!(count(&owner, &format!("job={}", id(&job))).await, 1);
    other.get(&format!("/api/v1/jobs/{}/deliveries", id(&job))).await.expect_problem(404, "not_found");
    owner.get("/api/v1/deliveries?state=odd").await.expect_problem(400, "invalid_parameter");
    owner.get("/api/v1/deliveries?colour=red").await.expect_problem(400, "invalid_parameter");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kind_of_completion_sends_callback() {
    let server = server_for_late_answers().await;
    let mut receiver = Receiver::start().await;
    let url = receiver.url("/");
    let tree = async |mut job: Value| {
        job["type"] = json!("a");
        job["on_completed"] = json!({"url": url});
        server.post("/api/v1/jobs", job).await.expect(201)
    };
    let items = json!([{"payload": 1}]);
    let mut trees = Vec::new();

    trees.push(tree(json!({"sealed": true})).await);
    let sealed_later = tree(json!({})).await;
    server.post(&format!("/api/v1/jobs/{}/seal", id(&sealed_later)), json!({})).await.expect(200);
    trees.push(sealed_later);
    trees.push(tree(json!({"sealed": true, "items": [{"payload": 1, "expires_at": "2020-01-01T00:00:00Z"}]})).await);
    trees.push(tree(json!({"expires_at": "2020-01-01T00:00:00Z"})).await);
    let idle = tree(json!({"items": items})).await;
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&idle)), json!({})).await.expect(200);
    trees.push(idle);
    let single = tree(json!({"sealed": true, "items": items})).await;
    let item = server.get(&format!("/api/v1/items?job={}", id(&single))).await.expect(200)["data"][0].clone();
    server.post(&format!("/api/v1/items/{}/cancel", id(&item)), json!({})).await.expect(200);
    trees.push(single);
    let busy = tree(json!({"items": items})).await;
    let claimed = claim(&server, "a", 1, 5).await;
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&busy)), json!({})).await.expect(200);
    server.post(&format!("/api/v1/assignments/{}/release", id(&claimed[0])), json!({})).await.expect(200);
    trees.push(busy);
    let fed = json!({"sealed": true, "items": items, "children": [{"type": "a", "key": "b", "feed": {}}]});
    trees.push(tree(fed).await);
    for _ in 0..2 {
        finish(&server, &claim(&server, "a", 1, 5).await[0]).await;
    }
    let whole = json!({"items": items, "children": [{"type": "a", "key": "b", "items": items}]});
    let whole = tree(whole).await;
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&whole)), json!({})).await.expect(200);
    trees.push(whole);
    let again = complete(&server, &trees[0]).await;
    let again = server.post(&format!("/api/v1/jobs/{}/replay", id(&again)), json!({})).await.expect(201);
    trees.push(again);

    let mut received: Vec<(String, String)> = Vec::new();
    for _ in &trees {
        let post = receiver.next().await;
        let data = post.json()["data"].clone();
        received.push((data["job_id"].to_string(), data["outcome"].to_string()));
        post.status(204);
    }
    let mut ended = Vec::new();
    for tree in &trees {
        let tree = complete(&server, tree).await;
        ended.push((tree["id"].to_string(), tree["tree"]["outcome"].to_string()));
        assert_eq!(once(&server, &tree, "delivered").await["completion"], 1);
    }
    received.sort();
    ended.sort();
    assert_eq!(received, ended);
    assert!(receiver.now().is_none(), "each once");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_callback_is_retried() {
    let server = quick_server().await;
    let (mut receiver, mut elsewhere) = (Receiver::start().await, Receiver::start().await);
    let job = done(&server, json!({"url": receiver.url("/done"), "secret": "s3cret-of-the-owner"})).await;
    let mut seen = Vec::new();
    let mut next = async || -> Post {
        let post = receiver.next().await;
        assert!(post.is_signed_by(b"s3cret-of-the-owner"));
        seen.push(post.header("webhook-id").to_owned());
        post
    };
    next().await.text(500, "out of\npaper");
    let there = elsewhere.url("/");
    next().await.answer(302, &[("location", &there)], Body::empty());
    next().await.broken(400, "half an ans");
    next().await.endless(404);
    next().await.dripping(418);
    next().await.status(202);

    let delivery = once(&server, &job, "delivered").await;
    let expected = [json!(500), json!(302), Value::Null, json!(404), json!(418), json!(202)];
    assert_eq!(statuses(&delivery), expected, "{delivery}");
    assert_eq!(delivery["tries"][0]["error"], "500 Internal Server Error: out of paper");
    assert!(seen.iter().all(|webhook| *webhook == delivery["id"]), "{seen:?}");
    assert!(receiver.now().is_none(), "it has been taken");
    assert!(elsewhere.now().is_none(), "redirects are not followed");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callback_handles_timeout_retry_after_and_redirect() {
    let server = quick_server().await;
    let (mut receiver, mut elsewhere) = (Receiver::start().await, Receiver::start().await);
    let job = done(&server, json!({"url": receiver.url("/done"), "secret": "the-first-one"})).await;
    drop(receiver.next().await);
    let asks = receiver.next().await;
    let asked_at = asks.at;
    asks.answer(503, &[("retry-after", "1")], Body::empty());
    let post = receiver.next().await;
    let waited = post.at.duration_since(asked_at);
    assert!(waited >= Duration::from_secs(1), "as it was asked to: {waited:?}");
    let open = deliveries(&server, &job).await[0].clone();
    assert_eq!((&open["state"], open["next_try_at"].is_string()), (&json!("pending"), true), "{open}");

    // Before it is tried once more the tree's owner says that the receiver has moved and has another secret.
    let edit = json!({"on_completed": {"url": elsewhere.url("/moved"), "secret": "the-second-one"}});
    server.patch(&format!("/api/v1/jobs/{}", id(&job)), edit).await.expect(200);
    post.status(500);
    let post = elsewhere.next().await;
    assert!(post.path == "/moved" && post.is_signed_by(b"the-second-one"));
    post.status(200);
    let delivery = once(&server, &job, "delivered").await;
    assert_eq!(statuses(&delivery), [Value::Null, json!(503), json!(500), json!(200)], "{delivery}");
    assert_eq!(delivery["tries"][0]["error"], "No answer in time.");
    assert_eq!(delivery["url"], elsewhere.url("/moved"));
    assert!(receiver.now().is_none());
    server.stop().await;
}

#[tokio::test]
async fn callback_answered_410_is_not_retried_until_resent() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let job = done(&owner, json!({"url": receiver.url("/"), "secret": "s3cret-of-the-owner"})).await;
    let first = receiver.next().await;
    let webhook = first.header("webhook-id").to_owned();
    first.status(410);
    let delivery = once(&owner, &job, "failed").await;
    assert_eq!((statuses(&delivery), &delivery["next_try_at"]), (vec![json!(410)], &Value::Null));
    let alerts = server.get("/api/v1/alerts?kind=delivery_failed").await.expect(200)["data"].clone();
    assert_eq!((&alerts[0]["job_id"], &alerts[1]), (&job["id"], &Value::Null), "{alerts}");
    assert_eq!(owner.get("/api/v1/alerts").await.expect(200)["data"][0]["kind"], "delivery_failed");

    let resend = format!("/api/v1/deliveries/{}/resend", id(&delivery));
    let stranger = server.service("other", &["jobs:read", "jobs:write"]).await;
    stranger.post(&resend, json!({})).await.expect_problem(404, "not_found");
    server.service("reader", &["jobs:read"]).await.post(&resend, json!({})).await.expect_problem(403, "forbidden");
    let sam = server.person("sam", "support").await;
    sam.post(&resend, json!({})).await.expect_problem(422, "reason_required");
    let again = sam.post(&resend, json!({"reason": "the receiver is back"})).await.expect(200);
    assert_eq!((&again["id"], &again["state"]), (&json!(webhook), &json!("pending")));
    let post = receiver.next().await;
    assert!(post.header("webhook-id") == webhook && post.is_signed_by(b"s3cret-of-the-owner"));
    post.status(200);
    let delivery = once(&owner, &job, "delivered").await;
    assert_eq!(statuses(&delivery), [json!(410), json!(200)]);
    until(async || server.get("/api/v1/alerts").await.expect(200)["data"][0].is_null()).await;
    let log = server.get(&format!("/api/v1/audit?job={}", id(&job))).await.expect(200)["data"].clone();
    assert_eq!(
        (&log[0]["action"], &log[0]["reason"], &log[0]["actor"]["name"]),
        (&json!("delivery.resend"), &json!("the receiver is back"), &json!("sam"))
    );

    // It may be sent as often as somebody wants.
    owner.post(&resend, json!({})).await.expect(200);
    receiver.next().await.status(200);
    until(async || statuses(&deliveries(&owner, &job).await[0]).len() == 3).await;

    let edit = json!({"on_completed": null});
    owner.patch(&format!("/api/v1/jobs/{}", id(&job)), edit).await.expect(200);
    owner.post(&resend, json!({})).await.expect_problem(409, "not_resendable");
    server.stop().await;
}

#[tokio::test]
async fn abandoned_callback_raises_an_alert() {
    let server = Server::start_with(|config| {
        quick(config);
        config.outbound.callback_give_up_seconds = 2.0;
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (port, mut came) = Receiver::closing().await;
    let job = done(&server, json!({"url": format!("http://127.0.0.1:{port}/")})).await;
    let delivery = once(&server, &job, "abandoned").await;
    let tries = statuses(&delivery);
    assert!(tries.len() >= 3 && tries.iter().all(Value::is_null), "{delivery}");
    for _ in &tries {
        came.recv().await.expect("a try");
    }
    assert!(came.try_recv().is_err(), "each try is there to be seen");
    let alert = server.get("/api/v1/alerts").await.expect(200)["data"][0].clone();
    assert_eq!((&alert["kind"], &alert["job_id"]), (&json!("delivery_failed"), &job["id"]));
    assert!(alert["message"].as_str().expect("text").contains(&format!("127.0.0.1:{port}")), "{alert}");
    let metrics = server.get("/metrics").await.text;
    assert!(metrics.contains("treeline_callbacks_pending 0"), "{metrics}");
    assert!(metrics.contains("treeline_callback_tries_total{came_to=\"abandoned\"}"), "{metrics}");
    server.stop().await;
}

/// As when the key that sealed it is lost.
#[tokio::test]
async fn callback_whose_receiver_cannot_be_opened_is_abandoned() {
    let server = Server::start_with(|config| {
        quick(config);
        config.outbound.callback_give_up_seconds = 2.0;
    })
    .await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut receiver = Receiver::start().await;
    let job = done(&server, json!({"url": receiver.url("/")})).await;
    let post = receiver.next().await;
    let damage = "update job set on_completed = '{\"host\": \"127.0.0.1\", \"sealed\": \"of another key\"}'";
    sqlx::query(damage).execute(&server.running.app.pool).await.expect("another receiver");
    post.status(503);
    let delivery = once(&server, &job, "abandoned").await;
    let last = delivery["tries"].as_array().and_then(|tries| tries.last()).expect("a try").clone();
    assert_eq!(last["error"], "The receiver cannot be opened.");
    let alerts = async || server.get("/api/v1/alerts").await.expect(200)["data"].as_array().expect("alerts").clone();
    assert_eq!((&alerts().await[0]["kind"], &alerts().await[0]["job_id"]), (&json!("delivery_failed"), &job["id"]));

    // The tree has a receiver again, and completes again: the alert is over with another delivery.
    let path = format!("/api/v1/jobs/{}", id(&job));
    server.patch(&path, json!({"on_completed": {"url": receiver.url("/")}})).await.expect(200);
    server.post(&format!("/api/v1/deliveries/{}/resend", id(&delivery)), json!({})).await.expect(200);
    receiver.next().await.status(204);
    until(async || alerts().await.iter().all(|alert| !alert["cleared_at"].is_null())).await;
    server.stop().await;
}

#[tokio::test]
async fn reopened_tree_sends_only_the_latest_callback() {
    let server = server_for_late_answers().await;
    let mut receiver = Receiver::start().await;
    let job =
        json!({"type": "a", "sealed": true, "items": [{"payload": 1}], "on_completed": {"url": receiver.url("/")}});
    let job = server.post("/api/v1/jobs", job).await.expect(201);
    let claimed = claim(&server, "a", 1, 5).await;
    let failure = json!({"error": {"message": "no"}});
    server.post(&format!("/api/v1/assignments/{}/failure", id(&claimed[0])), failure).await.expect(200);
    let late = receiver.next().await;
    assert_eq!((&late.json()["data"]["completion"], &late.json()["data"]["outcome"]), (&json!(1), &json!("failed")));

    // While the first is under way a person gives the item back, and it succeeds.
    let item = claimed[0]["item"]["id"].as_str().expect("an id");
    server.post(&format!("/api/v1/items/{item}/retry"), json!({})).await.expect(200);
    finish(&server, &claim(&server, "a", 1, 5).await[0]).await;
    let post = receiver.next().await;
    let data = post.json()["data"].clone();
    assert_eq!((&data["completion"], &data["outcome"]), (&json!(2), &json!("succeeded")));
    assert_ne!(post.header("webhook-id"), late.header("webhook-id"));
    late.status(500);
    post.status(200);
    until(async || deliveries(&server, &job).await[0]["state"] == "delivered").await;
    until(async || statuses(&deliveries(&server, &job).await[1]).len() == 1).await;
    let all = deliveries(&server, &job).await;
    let states: Vec<(&Value, &Value)> = all.iter().map(|one| (&one["completion"], &one["state"])).collect();
    assert_eq!(states, [(&json!(2), &json!("delivered")), (&json!(1), &json!("superseded"))]);
    assert_eq!((&all[1]["next_try_at"], statuses(&all[1])), (&Value::Null, vec![json!(500)]));
    let again = server.post(&format!("/api/v1/deliveries/{}/resend", id(&all[1])), json!({"reason": "why not"})).await;
    let refused = again.expect_problem(409, "not_resendable");
    assert_eq!(refused["id"], all[0]["id"], "the one that says how it stands");
    assert!(receiver.now().is_none());
    server.stop().await;
}

#[tokio::test]
async fn callbacks_without_secret_are_signed_with_owner_key() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let key = async |owner: &str| {
        let text = server.program(&["signing-secret", "--owner", owner]).await;
        let coded = text.trim().strip_prefix("whsec_").expect("a secret").to_owned();
        base64::engine::general_purpose::STANDARD.decode(coded).expect("base64")
    };
    let (one, other) = (
        server.service("payroll", &["jobs:read", "jobs:write"]).await,
        server.service("other", &["jobs:read", "jobs:write"]).await,
    );
    let (of_one, of_other) = (key("payroll").await, key("other").await);
    for (api, mine, theirs) in [(&one, &of_one, &of_other), (&other, &of_other, &of_one)] {
        done(api, json!({"url": receiver.url("/")})).await;
        let post = receiver.next().await;
        assert!(post.is_signed_by(mine) && !post.is_signed_by(theirs));
        post.status(200);
    }
    server.stop().await;
}

#[tokio::test]
async fn callbacks_are_signed_with_both_secrets_during_rotation() {
    let server = quick_server().await;
    let mut receiver = Receiver::start().await;
    let both = json!(["the-new-secret", "the-old-secret"]);
    let job = done(&server, json!({"url": receiver.url("/"), "secret": both})).await;
    let post = receiver.next().await;
    assert!(post.is_signed_by(b"the-new-secret") && post.is_signed_by(b"the-old-secret"));
    assert_eq!(post.header("webhook-signature").split(' ').count(), 2, "{:?}", post.headers);
    assert_eq!(post.header("accept"), "application/json");
    post.status(200);
    once(&server, &job, "delivered").await;
    let push = json!({"executor": {"kind": "push", "url": receiver.url("/"), "secret": both}});
    server.put("/api/v1/job-types/pushed", push).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "pushed", "sealed": true, "items": [{"payload": 1}]})).await.expect(201);
    let post = receiver.next().await;
    assert!(post.is_signed_by(b"the-new-secret") && post.is_signed_by(b"the-old-secret"));
    assert_eq!(post.header("accept"), "application/json");
    post.status(200);
    for bad in [json!([]), json!(["the-new-secret", "the-old-secret", "the-oldest-secret"]), json!("x"), json!(["x"])] {
        let tree = json!({"type": "a", "on_completed": {"url": receiver.url("/"), "secret": bad}});
        let refused = server.post("/api/v1/jobs", tree).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], "/on_completed/secret", "{refused}");
    }
    server.stop().await;
}
