//! Lookups by the sender's data: jobs by the Idempotency-Key, items by their current step; and attempts that take too
//! long are ended even with heartbeats.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bulk::{claim, id},
    retention::until,
    support::{Answer, Api, Server},
};

async fn make(api: &Api, key: &str) -> Value {
    let request = api.request(Method::POST, "/api/v1/jobs").header("idempotency-key", key);
    let tree = json!({"type": "a", "items": [{"payload": 1}], "children": [{"type": "a", "key": "below"}]});
    Answer::of(request.json(&tree)).await.expect(201)
}

fn ids(list: &Value) -> Vec<String> {
    list["data"].as_array().expect("a list").iter().map(id).collect()
}

#[tokio::test]
async fn job_is_found_by_dedupe_or_idempotency_key() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mine = server.service("mine", &["jobs:read", "jobs:write"]).await;
    let theirs = server.service("theirs", &["jobs:read", "jobs:write"]).await;
    let (first, second) = (make(&mine, "order-7").await, make(&theirs, "order-7").await);
    make(&mine, "order-8").await;
    assert_eq!(first["idempotency_key"], "order-7");
    assert_eq!(first["children"][0]["idempotency_key"], Value::Null);
    let job = mine.get(&format!("/api/v1/jobs/{}", id(&first))).await.expect(200);
    assert_eq!(job["idempotency_key"], "order-7");

    let by_key = "/api/v1/jobs?idempotency_key=order-7";
    assert_eq!(ids(&mine.get(by_key).await.expect(200)), [id(&first)]);
    assert_eq!(ids(&server.get(by_key).await.expect(200)), [id(&second), id(&first)]);
    let narrowed = format!("{by_key}&id={}", id(&second));
    assert_eq!(ids(&mine.get(&narrowed).await.expect(200)), [""; 0]);
    assert_eq!(ids(&server.get(&narrowed).await.expect(200)), [id(&second)]);
    assert_eq!(ids(&mine.get("/api/v1/jobs?idempotency_key=unknown").await.expect(200)), [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn item_is_found_by_last_step() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["charged", "shipped"]})).await.expect(201);
    let worker = server.service("worker", &["work"]).await;
    let items = json!([{"payload": 1}, {"payload": 2}, {"payload": 3}]);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let claimed = claim(&worker, "a", 2, 20).await;
    for (assignment, steps) in claimed.iter().zip([&["charged"][..], &["charged", "shipped"]]) {
        for name in steps {
            let path = format!("/api/v1/assignments/{}/step", id(assignment));
            worker.post(&path, json!({"name": name})).await.expect(200);
        }
    }
    for (step, found) in [("charged", 0), ("shipped", 1)] {
        for scope in [format!("job={}", id(&job)), "type=a&state=running".to_owned()] {
            let list = server.get(&format!("/api/v1/items?{scope}&step={step}")).await.expect(200);
            assert_eq!(ids(&list), [id(&claimed[found]["item"])], "{scope}");
            assert_eq!(list["data"][0]["step"]["name"], step);
        }
    }
    assert_eq!(ids(&server.get(&format!("/api/v1/items?job={}&step=packed", id(&job))).await.expect(200)), [""; 0]);
    server.stop().await;
}

#[tokio::test]
async fn run_timeout_ends_attempt_despite_heartbeats() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"run_timeout_seconds": 1, "max_failures": 1})).await.expect(201);
    let worker = server.service("worker", &["work"]).await;
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let claimed = claim(&worker, "a", 1, 20).await;
    let path = format!("/api/v1/assignments/{}", id(&claimed[0]));
    // Its worker says all the time that it is alive.
    until(async || worker.post(&format!("{path}/heartbeat"), json!({})).await.status != 200).await;
    worker.post(&format!("{path}/heartbeat"), json!({})).await.expect_problem(409, "assignment_closed");
    worker.post(&format!("{path}/result"), json!({"result": 1})).await.expect_problem(409, "assignment_closed");
    let item = server.get(&format!("/api/v1/items/{}", id(&claimed[0]["item"]))).await.expect(200);
    assert_eq!((&item["state"], &item["last_error"]["kind"]), (&json!("dead"), &json!("timed_out")), "{item}");
    assert_eq!(server.get(&format!("/api/v1/jobs/{}", id(&job))).await.expect(200)["counts"]["dead"], 1);
    server.stop().await;
}
