//! Messages that Treeline sends match the section `webhooks` of its API document.
//!
//! Every receiver of the tests validates messages against their schema (`support/receiver.rs`); here all kinds of
//! messages are sent once, so that none is untested, and the validation itself is tested. The effect of responses is
//! tested in `callbacks`, `push` and `alerts`.

use std::collections::BTreeSet;

use domain::notify::alert::AlertKind;
use engine::settings::Secret;
use serde_json::{Value, json};

use crate::{
    bulk::{claim, finish, id, kill},
    push::push_type,
    retention::until,
    support::{
        Api, Server,
        receiver::{Receiver, faults, schema_of},
    },
};

#[tokio::test]
async fn webhook_messages_match_their_schemas() {
    let (mut receiver, mut alerts, mut audit) =
        (Receiver::start().await, Receiver::start().await, Receiver::start().await);
    let secret = |url: String| -> Secret { url.parse().expect("a secret") };
    let (alert_url, audit_url) = (secret(alerts.url("/alerts")), secret(audit.url("/audit")));
    let server = Server::start_with(|config| {
        config.callback_allow = "127.0.0.1".parse().expect("a network");
        config.alerts.url = Some(alert_url.clone());
        config.audit.url = Some(audit_url.clone());
    })
    .await;
    let mut sent: Vec<Value> = Vec::new();

    // The second job waits for the first and gets its results as `inputs`.
    let quick = json!({"steps": ["half"], "max_failures": 3, "executor": {"timeout_seconds": 60}});
    push_type(&server, "first", &receiver, quick).await;
    push_type(&server, "second", &receiver, json!({})).await;
    let tree = json!({"type": "first", "sealed": true, "metadata": {"name": "March"},
        "on_completed": {"url": receiver.url("/done")}, "children": [
            {"type": "first", "key": "first", "sealed": true, "items": [{"payload": {"n": 1.5}}]},
            {"type": "second", "key": "second", "sealed": true, "after": ["first"], "items": [{"payload": [2]}]}]});
    let tree = server.post("/api/v1/jobs", tree).await.expect(201);
    let worker = server.service("worker", &["work"]).await;
    let post = receiver.next().await;
    let path = format!("/api/v1/assignments/{}", post.json()["assignment_id"].as_str().expect("an id"));
    sent.push(post.json());
    post.status(202);
    until(async || {
        let step = json!({"name": "half", "data": {"page": 7}});
        worker.post(&format!("{path}/step"), step).await.status == 200
    })
    .await;
    worker.post(&format!("{path}/alert"), json!({"message": "out of paper"})).await.expect(204);
    let raised = alerts.next().await;
    sent.push(raised.json());
    raised.status(204);
    worker.post(&format!("{path}/failure"), json!({"error": {"message": "once more"}})).await.expect(200);
    let again = receiver.next().await;
    assert_eq!(again.json()["step"]["data"], json!({"page": 7}));
    sent.push(again.json());
    again.text(200, "{\"built\": true}");
    let second = receiver.next().await;
    assert_eq!(second.json()["inputs"]["first"], json!([{"built": true}]));
    sent.push(second.json());
    second.status(204);
    let done = receiver.next().await;
    assert_eq!(done.json()["data"]["job_id"], tree["id"]);
    sent.push(done.json());
    done.status(204);
    server.running.app.engine.clear_alert(AlertKind::Worker, &subject(&sent)).await.expect("cleared");
    let cleared = alerts.next().await;
    sent.push(cleared.json());
    cleared.status(204);
    let entries = audit.next().await;
    sent.push(entries.json());
    entries.status(204);

    let mut tested = Receiver::start().await;
    let body = json!({"name": "operations", "kind": "webhook", "url": tested.url("/channel")});
    let channel = server.post("/api/v1/alert-channels", body).await.expect(201);
    let path = format!("/api/v1/alert-channels/{}/test", channel["id"].as_str().expect("an id"));
    server.post(&path, json!({})).await.expect(202);
    let test = tested.next().await;
    sent.push(test.json());
    test.status(204);
    sent.extend(notices(&server, &worker).await);

    let document = server.get("/api/v1/openapi.json").await.expect(200);
    let described: BTreeSet<&str> = document["webhooks"]
        .as_object()
        .expect("webhooks")
        .values()
        .map(|webhook| {
            let schema = &webhook["post"]["requestBody"]["content"]["application/json"]["schema"]["$ref"];
            schema.as_str().and_then(|reference| reference.rsplit('/').next()).expect("a schema")
        })
        .collect();
    let seen: BTreeSet<&str> = sent.iter().map(schema_of).collect();
    assert_eq!(seen, described, "every message that the document describes was sent");

    // The check finds what is missing, what is not described, and what has another form.
    for message in &sent {
        let fields = message.as_object().expect("an object");
        for name in fields.keys().filter(|name| !["type", "assignment_id", "inputs"].contains(&name.as_str())) {
            let mut without = fields.clone();
            without.remove(name);
            assert!(!faults(&Value::Object(without)).is_empty(), "without {name}");
        }
        let mut more = fields.clone();
        more.insert("colour".to_owned(), json!("green"));
        assert!(!faults(&Value::Object(more)).is_empty(), "with another field");
    }
    let mut plain = sent[0].clone();
    plain["assignment_id"] = json!(plain["item_id"]);
    assert!(!faults(&plain).is_empty(), "an id without its capability");
    server.stop().await;
}

/// Messages to a person about a watched job: one of its two items fails, then it finishes.
async fn notices(server: &Server, worker: &Api) -> [Value; 2] {
    let mut receiver = Receiver::start().await;
    let ada = server.person("ada", "user").await;
    let settings = json!({"webhook_url": receiver.url("/notices")});
    ada.patch("/api/v1/me/notice-settings", settings).await.expect(200);
    server.put("/api/v1/job-types/rows", json!({})).await.expect(201);
    let job = json!({"type": "rows", "sealed": true, "items": [{"payload": 1}, {"payload": 2}]});
    let job = ada.post("/api/v1/jobs", job).await.expect(201);
    ada.post(&format!("/api/v1/jobs/{}/watch", id(&job)), json!({})).await.expect(200);
    kill(worker, &claim(worker, "rows", 1, 5).await[0]).await;
    let attention = receiver.next().await;
    let first = attention.json();
    attention.status(204);
    finish(worker, &claim(worker, "rows", 1, 5).await[0]).await;
    let finished = receiver.next().await;
    let second = finished.json();
    finished.status(204);
    [first, second]
}

/// Subject of the alert that was raised.
fn subject(sent: &[Value]) -> String {
    let raised = sent.iter().find(|message| message["type"] == "alert.raised").expect("an alert");
    raised["data"]["subject"].as_str().expect("a subject").to_owned()
}
