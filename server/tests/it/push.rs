//! Push delivery: items are posted to the workers of push types, and the responses determine the outcome.

use std::time::Duration;

use axum::body::Body;
use serde_json::{Value, json};

use crate::{
    bulk::id,
    retention::until,
    support::{
        Api, Server,
        receiver::{Post, Receiver},
    },
};

/// Creates a type whose items are posted to this receiver.
pub(crate) async fn push_type(server: &Server, name: &str, receiver: &Receiver, more: Value) {
    let mut spec = json!({"executor": {"kind": "push", "url": receiver.url("/work")}, "max_failures": 1,
        "backoff": {"min_seconds": 0, "jitter": false}});
    for (field, value) in more.as_object().expect("fields") {
        match (field.as_str(), value) {
            ("executor", Value::Object(fields)) => {
                for (field, value) in fields {
                    spec["executor"][field] = value.clone();
                }
            }
            _ => spec[field] = value.clone(),
        }
    }
    server.put(&format!("/api/v1/job-types/{name}"), spec).await.expect(201);
}

/// Creates a sealed tree with one item for each payload.
pub(crate) async fn job(api: &Api, name: &str, payloads: &[Value]) -> Value {
    let items: Vec<Value> = payloads.iter().map(|payload| json!({"payload": payload})).collect();
    api.post("/api/v1/jobs", json!({"type": name, "sealed": true, "items": items})).await.expect(201)
}

/// First item of a job.
pub(crate) async fn item_of(api: &Api, job: &Value) -> Value {
    let items = api.get(&format!("/api/v1/items?job={}", id(job))).await.expect(200);
    api.get(&format!("/api/v1/items/{}", id(&items["data"][0]))).await.expect(200)
}

/// Waits until the first item of a job has this state.
pub(crate) async fn item_in(api: &Api, job: &Value, state: &str) -> Value {
    until(async || item_of(api, job).await["state"] == state).await;
    item_of(api, job).await
}

async fn attempts(api: &Api, item: &Value) -> Vec<Value> {
    let list = api.get(&format!("/api/v1/items/{}/attempts", id(item))).await.expect(200);
    list["data"].as_array().expect("attempts").clone()
}

/// The commit of a claim arrives, and its answer does not: the repeated claim gets the same items.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_claim_without_an_answer_is_repeated() {
    let (server, proxy) = Server::start_with_proxy().await;
    let web = server.another_with(|config| config.roles = "web".parse().expect("a role")).await;
    let mut receiver = Receiver::start().await;
    push_type(&web, "pay", &receiver, json!({"delivery": "at_most_once", "executor": {"timeout_seconds": 600}})).await;
    proxy.lose_commits(true);
    let tree = job(&web, "pay", &[json!(1)]).await;
    until(async || item_of(&web, &tree).await["state"] == "running").await;
    proxy.lose_commits(false);
    receiver.next().await.status(204);
    assert_eq!(item_in(&web, &tree, "succeeded").await["attempts"], 1);
    web.stop().await;
    server.stop().await;
}

/// The lease of the item is extended by the time that the database is away, and the answer that came meanwhile is kept.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_response_during_an_outage_becomes_the_result() {
    let (server, proxy) = Server::start_with_proxy().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "mail", &receiver, json!({"executor": {"timeout_seconds": 2}, "max_failures": 5})).await;
    let tree = job(&server, "mail", &[json!(1)]).await;
    let post = receiver.next().await;
    proxy.cut();
    post.text(200, r#"{"sent": 1}"#);
    // Longer than the lease, and long enough to extend it.
    tokio::time::sleep(Duration::from_millis(7_500)).await;
    proxy.restore();
    until(async || server.get("/readyz").await.status == 200).await;
    let item = item_in(&server, &tree, "succeeded").await;
    assert_eq!((&item["result"], &item["attempts"]), (&json!({"sent": 1}), &json!(1)));
    assert!(receiver.now().is_none(), "the worker was asked once");
    server.stop().await;
}

#[tokio::test]
async fn push_response_becomes_the_result() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    let executor = json!({"url": receiver.url("/{type}/{job_id}?item={item_id}"), "secret": "whsec_c2VjcmV0",
        "auth": {"user": "ann", "password": "pass"}, "headers": {"X-Team": "hr", "x-key": "k"}});
    push_type(&server, "mail", &receiver, json!({"executor": executor, "steps": ["sent"]})).await;
    let tree = r#"{"type": "mail", "sealed": true, "items": [{"payload": {"n": 1.10,  "big": 9007199254740993}}]}"#;
    let tree = server.post_text("/api/v1/jobs", "application/json", tree).await.expect(201);
    let post = receiver.next().await;
    let item = item_of(&server, &tree).await;
    assert_eq!(post.path, format!("/mail/{}?item={}", id(&tree), id(&item)));
    assert_eq!(
        (post.header("content-type"), post.header("x-team"), post.header("x-key")),
        ("application/json", "hr", "k")
    );
    assert_eq!(post.header("authorization"), "Basic YW5uOnBhc3M=");
    assert_eq!(post.header("idempotency-key"), id(&item));
    assert!(post.is_signed_by(b"secret"));
    let message = post.json();
    assert_eq!((&message["item_id"], &message["job_id"], &message["type"]), (&item["id"], &tree["id"], &json!("mail")));
    assert_eq!((&message["attempt"], &message["step"]), (&json!(1), &Value::Null));
    // Headers are logged on the way: the capability that ends the assignment is in the body alone.
    let (assignment, capability) =
        message["assignment_id"].as_str().and_then(|id| id.split_once('.')).expect("a UUID and a capability");
    assert_eq!((assignment, capability.len()), (post.header("webhook-id"), 43));
    assert!(post.body.contains(r#""payload":{"n": 1.10,  "big": 9007199254740993}"#), "{}", post.body);
    assert_eq!(item["state"], "running");
    let worker = item["assignment"]["worker_id"].as_str().expect("a worker");
    assert_eq!(worker, format!("push:127.0.0.1:{}", receiver.port));
    post.text(200, r#" {"id": 1.10} "#);
    let done = server.get(&format!("/api/v1/items/{}", id(&item))).await;
    until(async || item_of(&server, &tree).await["state"] == "succeeded").await;
    drop(done);
    let text = server.get(&format!("/api/v1/items/{}", id(&item))).await.text;
    assert!(text.contains(r#""result":{"id": 1.10}"#), "{text}");

    // An answer without anything in it is a result, too; without a secret the deployment's own key signs.
    push_type(&server, "plain", &receiver, json!({})).await;
    let key = server.program(&["signing-secret", "--type", "plain"]).await;
    for (status, body) in [(204, ""), (200, "null")] {
        let tree = job(&server, "plain", &[json!(1)]).await;
        let post = receiver.next().await;
        let coded = key.trim().strip_prefix("whsec_").expect("a secret");
        let key = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, coded).expect("base64");
        assert!(post.is_signed_by(&key));
        post.text(status, body);
        assert_eq!(item_in(&server, &tree, "succeeded").await["result"], json!({}));
    }
    assert_eq!(server.get("/api/v1/workers").await.expect(200)["data"], json!([]), "it is nobody who asked");
    server.stop().await;
}

#[tokio::test]
async fn push_secrets_are_write_only() {
    let server = Server::start().await;
    let (mut receiver, mut other) = (Receiver::start().await, Receiver::start().await);
    let secrets = json!({"auth": {"user": "ann", "password": "h1dd3n"}, "headers": {"X-Key": "h1dd3n"}, "secret": "h1dd3n-secret"});
    push_type(&server, "mail", &receiver, json!({"executor": secrets})).await;
    let path = "/api/v1/job-types/mail";
    let admin = server.admin().await;
    for page in [path, "/api/v1/job-types", "/types", "/types/mail", "/api/v1/audit"] {
        let response = admin.get(page).await;
        assert!(response.status == 200 && !response.text.contains("h1dd3n"), "{page}: {}", response.text);
    }
    let response = server.get(path).await.expect(200)["executor"].clone();
    assert_eq!(response, json!({"kind": "push", "url": receiver.url("/work"), "timeout_seconds": 300.0}));

    let pushed = async |receiver: &mut Receiver| {
        job(&server, "mail", &[json!(1)]).await;
        let post = receiver.next().await;
        let signed = post.is_signed_by(b"h1dd3n-secret");
        let sent = (post.header("authorization").to_owned(), post.header("x-key").to_owned(), signed);
        post.status(200);
        sent
    };
    let all = ("Basic YW5uOmgxZGQzbg==".to_owned(), "h1dd3n".to_owned(), true);
    assert_eq!(pushed(&mut receiver).await, all);
    // What a PATCH does not speak of stays, also where it changes the rest of the executor.
    server.patch(path, json!({"max_failures": 2})).await.expect(200);
    let changed = json!({"executor": {"kind": "push", "url": receiver.url("/new"), "timeout_seconds": 30}});
    server.patch(path, changed).await.expect(200);
    assert_eq!(pushed(&mut receiver).await, all);
    let less = json!({"executor": {"kind": "push", "url": receiver.url("/new"), "headers": null}});
    server.patch(path, less).await.expect(200);
    assert_eq!(pushed(&mut receiver).await, (all.0.clone(), String::new(), true));
    // Whoever may change the URL does not get to read it at another host.
    let moved = json!({"executor": {"kind": "push", "url": other.url("/")}});
    let refused = server.patch(path, moved).await.expect_problem(422, "invalid_body");
    assert_eq!(refused["errors"][0]["pointer"], "/executor/auth");
    let moved = json!({"executor": {"kind": "push", "url": other.url("/"), "auth": {"user": "bob", "password": "x"}}});
    server.patch(path, moved).await.expect(200);
    assert_eq!(pushed(&mut other).await, ("Basic Ym9iOng=".to_owned(), String::new(), true));
    // A PUT says everything.
    server.put(path, json!({"executor": {"kind": "push", "url": other.url("/")}})).await.expect(200);
    assert_eq!(pushed(&mut other).await, (String::new(), String::new(), false));

    for (executor, pointer) in [
        (json!({"kind": "push", "url": "nowhere"}), "/executor/url"),
        (json!({"kind": "push", "url": "https://a/{colour}"}), "/executor/url"),
        (json!({"kind": "push", "url": "https://{item_id}.example"}), "/executor/url"),
        (json!({"kind": "push", "url": "https://a", "headers": {"Host": "b"}}), "/executor/headers/Host"),
        (json!({"kind": "push", "url": "https://a", "auth": {"user": "", "password": ""}}), "/executor/auth/user"),
        (json!({"kind": "push", "url": "https://a", "timeout_seconds": 0}), "/executor/timeout_seconds"),
        (json!({"kind": "push", "url": "https://a", "secret": "short"}), "/executor/secret"),
        (json!({"kind": "push", "url": "https://a", "secret": []}), "/executor/secret"),
        (json!({"kind": "pull", "secret": "a-long-secret"}), "/executor"),
    ] {
        let refused = server.put(path, json!({"executor": executor})).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    server.stop().await;
}

/// Response of a receiver.
type Answer<'a> = &'a dyn Fn(Post);

#[tokio::test]
async fn push_response_statuses_map_to_endings() {
    let server = Server::start().await;
    let (mut receiver, mut elsewhere) = (Receiver::start().await, Receiver::start().await);
    push_type(&server, "once", &receiver, json!({})).await;
    let there = elsewhere.url("/");
    let answers: &[(&str, &str, Answer<'_>)] = &[
        ("http_500", "500 Internal Server Error: out of paper", &|post| post.text(500, "out of\npaper")),
        ("http_302", "302 Found", &|post| post.answer(302, &[("location", &there)], Body::empty())),
        ("http_400", "400 Bad Request", &|post| post.status(400)),
        ("http_404", "404 Not Found", &|post| post.endless(404)),
        ("http_410", "410 Gone", &|post| post.status(410)),
        ("bad_response", "The answer is no JSON", &|post| post.text(200, "<html>")),
        ("bad_response", "The answer is no JSON", &|post| post.text(200, r#"{"a": 1, "a": 2}"#)),
        ("bad_response", "The answer is larger", &|post| post.endless(200)),
        ("connection_failed", "The connection broke", &|post| post.broken(200, "{\"half\":")),
    ];
    for (kind, message, answer) in answers {
        let tree = job(&server, "once", &[json!(1)]).await;
        answer(receiver.next().await);
        let item = item_in(&server, &tree, "dead").await;
        assert_eq!(item["last_error"]["kind"], *kind, "{item}");
        assert!(item["last_error"]["message"].as_str().expect("text").starts_with(message), "{item}");
    }
    assert!(elsewhere.now().is_none(), "redirects are not followed");
    // Nobody listens there at all.
    let gone = Receiver::start().await;
    push_type(&server, "nobody", &gone, json!({})).await;
    drop(gone);
    let tree = job(&server, "nobody", &[json!(1)]).await;
    let item = item_in(&server, &tree, "dead").await;
    assert_eq!(item["last_error"]["kind"], "connection_failed");

    // Within the budget it is posted again, under the same key; 410 ends it all the same.
    push_type(&server, "again", &receiver, json!({"max_failures": 3})).await;
    let tree = job(&server, "again", &[json!(1)]).await;
    let first = receiver.next().await;
    let key = first.header("idempotency-key").to_owned();
    first.status(500);
    let second = receiver.next().await;
    assert_eq!((second.header("idempotency-key"), &second.json()["attempt"]), (key.as_str(), &json!(2)));
    second.status(410);
    let item = item_in(&server, &tree, "dead").await;
    assert_eq!((&item["failures"], &item["last_error"]["kind"]), (&json!(2), &json!("http_410")));
    for (status, wait) in [(429, "40"), (503, "50")] {
        let tree = job(&server, "again", &[json!(1)]).await;
        receiver.next().await.answer(status, &[("retry-after", wait)], Body::empty());
        let item = item_in(&server, &tree, "retryable").await;
        assert_eq!((&item["failures"], &item["last_error"]), (&json!(0), &Value::Null), "it has not failed");
        let at = |field: &str| domain::Time::parse(item[field].as_str().expect("a time")).expect("a time");
        let waits = at("retry_at").seconds_since(at("updated_at"));
        let requested: f64 = wait.parse().expect("seconds");
        assert!((requested - 2.0..=requested + 1.0).contains(&waits), "the wait it asked for: {waits}");
    }
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn push_timeout_loses_the_lease() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    let brief = json!({"timeout_seconds": 0.5});
    push_type(&server, "more", &receiver, json!({"max_failures": 3, "executor": brief})).await;
    let tree = job(&server, "more", &[json!(1)]).await;
    let late = receiver.next().await;
    let second = receiver.next().await;
    assert_eq!(late.header("idempotency-key"), second.header("idempotency-key"));
    assert_ne!(late.json()["assignment_id"], second.json()["assignment_id"]);
    // The connection is closed by now; an answer to it comes to nothing.
    late.text(200, "\"late\"");
    second.dripping(200);
    let third = receiver.next().await;
    third.text(200, "\"in time\"");
    let item = item_in(&server, &tree, "succeeded").await;
    assert_eq!((&item["result"], &item["failures"]), (&json!("in time"), &json!(2)));
    let lost: Vec<Value> =
        attempts(&server, &item).await.into_iter().filter(|it| it["ended_as"] == "lease_lost").collect();
    assert_eq!(lost.len(), 2);
    assert_eq!(lost[0]["error"]["kind"], "lease_lost");
    assert!(
        lost[0]["error"]["message"].as_str().expect("text").starts_with("No answer from push:127.0.0.1"),
        "{lost:?}"
    );

    let once = json!({"delivery": "at_most_once", "executor": brief});
    push_type(&server, "once", &receiver, once).await;
    let tree = job(&server, "once", &[json!(1)]).await;
    drop(receiver.next().await);
    let item = item_in(&server, &tree, "dead").await;
    assert_eq!((&item["last_error"]["kind"], &item["attempts"]), (&json!("outcome_unknown"), &json!(1)));
    assert!(receiver.now().is_none(), "never again");
    server.stop().await;
}

#[tokio::test]
async fn accepted_push_is_completed_later_by_capability() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "slow", &receiver, json!({"steps": ["half"], "executor": {"timeout_seconds": 60}})).await;
    server.put("/api/v1/job-types/other", json!({})).await.expect(201);
    let token = async |name: &str, types: Value| {
        server.post("/api/v1/services", json!({"name": name})).await.expect(201);
        let new = json!({"service": name, "name": "t", "scopes": ["work"], "types": types});
        let secret = server.post("/api/v1/tokens", new).await.expect(201)["secret"].clone();
        server.stranger().with_token(secret.as_str().expect("a secret"))
    };
    let (worker, other) = (token("worker", json!(["slow"])).await, token("other", json!(["other"])).await);
    let reader = server.service("reader", &["jobs:read"]).await;
    let later = async |receiver: &mut Receiver| {
        let tree = job(&server, "slow", &[json!(1)]).await;
        let post = receiver.next().await;
        let assignment_id = post.json()["assignment_id"].as_str().expect("an id").to_owned();
        let path = format!("/api/v1/assignments/{assignment_id}");
        post.text(202, "you will hear from me");
        (tree, path)
    };
    let (tree, path) = later(&mut receiver).await;
    let post = async |api: &Api, what: &str, body: Value| api.post(&format!("{path}/{what}"), body).await;
    post(&reader, "result", json!({})).await.expect_problem(403, "forbidden");
    for (what, body) in [
        ("result", json!({})),
        ("heartbeat", json!({})),
        ("step", json!({"name": "half"})),
        ("alert", json!({"message": "x"})),
        ("release", json!({})),
        ("failure", json!({"error": {"message": "x"}})),
    ] {
        post(&other, what, body).await.expect_problem(404, "not_found");
    }
    post(&worker, "heartbeat", json!({"progress": {"done": 1, "total": 2}})).await.expect(200);
    post(&worker, "step", json!({"name": "half", "data": 1})).await.expect(200);
    post(&worker, "alert", json!({"message": "out of paper"})).await.expect(204);
    let item = item_of(&server, &tree).await;
    assert_eq!(
        (&item["state"], &item["progress"]["done"], &item["step"]["name"]),
        (&json!("running"), &json!(1), &json!("half"))
    );
    post(&worker, "result", json!({"result": 17})).await.expect(200);
    post(&worker, "result", json!({"result": 17})).await.expect(200);
    post(&worker, "failure", json!({"error": {"message": "x"}})).await.expect_problem(409, "assignment_closed");
    assert_eq!(item_in(&server, &tree, "succeeded").await["result"], 17);

    // Many at once, too, and beside what the worker itself has claimed.
    let (tree, path) = later(&mut receiver).await;
    let assignment_id = path.rsplit('/').next().expect("an id");
    let endings = json!({"endings": [{"assignment_id": assignment_id, "error": {"message": "no such user"}}]});
    let answers = other.post("/api/v1/assignments/finish", endings.clone()).await.expect(200);
    assert_eq!(answers["endings"][0]["status"], 404);
    let answers = worker.post("/api/v1/assignments/finish", endings).await.expect(200);
    assert_eq!(answers["endings"][0]["status"], 200, "{answers}");
    assert_eq!(item_in(&server, &tree, "dead").await["last_error"]["message"], "no such user");
    // A claim cannot have what is posted.
    let claim = json!({"worker_id": "w", "types": ["slow"]});
    worker.post("/api/v1/assignments", claim).await.expect_problem(422, "invalid_body");
    server.stop().await;
}

#[tokio::test]
async fn cancelled_push_waits_for_and_ignores_the_response() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "a", &receiver, json!({})).await;
    let tree = job(&server, "a", &[json!(1)]).await;
    let post = receiver.next().await;
    let path = format!("/api/v1/jobs/{}", id(&tree));
    let cancelled = server.post(&format!("{path}/cancel"), json!({})).await.expect(200);
    assert_eq!(cancelled["status"], "cancelling", "whoever cleans up waits for the worker");
    post.text(200, "\"built\"");
    let item = item_in(&server, &tree, "cancelled").await;
    until(async || server.get(&path).await.expect(200)["status"] == "completed").await;
    assert_eq!(server.get(&path).await.expect(200)["outcome"], "cancelled");
    let attempt = attempts(&server, &item).await[0].clone();
    assert_eq!((&attempt["ended_as"], &attempt["result"]), (&json!("cancelled"), &json!("built")));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_waits_for_push_responses() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "a", &receiver, json!({})).await;
    let tree = job(&server, "a", &[json!(1)]).await;
    let post = receiver.next().await;
    let stopping = tokio::spawn({
        let running = server.running.app.clone();
        async move {
            running.shutdown.cancel();
            running.tasks.close();
            running.tasks.wait().await;
        }
    });
    post.text(200, "\"done\"");
    tokio::time::timeout(Duration::from_secs(20), stopping).await.expect("it stops").expect("no panic");
    let next = server.another().await;
    assert_eq!(item_of(&next, &tree).await["result"], "done");
    next.stop().await;
    server.stop().await;
}
