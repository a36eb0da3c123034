//! Only service tokens with the scope `work` process items.
//!
//! People never do, whatever their role, and neither do tokens of other scopes, including `admin`: they are refused for
//! every action on an assignment, on existing items, with any request, and nothing changes the item.

use serde_json::{Value, json};

use crate::support::{Api, Server};

/// Every worker action, with a valid body.
fn verbs(assignment: &str, item: &str) -> Vec<(String, Value)> {
    let of = |verb: &str| format!("/api/v1/assignments/{assignment}/{verb}");
    let claim = json!({"worker_id": "eve", "types": ["pay"], "max": 1000});
    vec![
        ("/api/v1/assignments".to_owned(), claim.clone()),
        ("/api/v1/assignments".to_owned(), json!({"worker_id": "eve", "item_ids": [item]})),
        ("/api/v1/assignments/finish".to_owned(), json!({"endings": [], "claim": claim})),
        (
            "/api/v1/assignments/finish".to_owned(),
            json!({"endings": [{"assignment_id": assignment, "result": {"paid": true}}]}),
        ),
        ("/api/v1/assignments/heartbeat".to_owned(), json!({"heartbeats": [{"assignment_id": assignment}]})),
        (of("heartbeat"), json!({"progress": {"done": 1, "total": 2}})),
        (of("step"), json!({"name": "charged"})),
        (of("result"), json!({"result": {"paid": true}})),
        (of("failure"), json!({"error": {"message": "x"}, "retryable": false})),
        (of("release"), json!({})),
        (of("alert"), json!({"message": "x"})),
        // Nothing of a body is read for somebody who may not work.
        ("/api/v1/assignments".to_owned(), json!({"no": "claim"})),
        (of("failure"), json!([])),
    ]
}

#[tokio::test]
async fn worker_operations_require_the_work_scope() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/pay", json!({"steps": ["charged"]})).await.expect(201);
    let items = json!([{"payload": {"iban": "CH93-secret"}}, {"payload": {"iban": "CH94-secret"}}]);
    let job = server.post("/api/v1/jobs", json!({"type": "pay", "items": items})).await.expect(201)["id"].clone();
    let job = job.as_str().expect("an id");
    let worker = server.service("worker", &["work"]).await;
    let claim = json!({"worker_id": "w", "types": ["pay"]});
    let claimed = worker.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    let assignment = claimed["id"].as_str().expect("an assignment");
    let items = server.get(&format!("/api/v1/items?job={job}&state=available")).await.expect(200);
    let waiting = items["data"][0]["id"].as_str().expect("an item");
    let before = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);

    let others: Vec<(&str, Api)> = vec![
        ("a user", server.person("eve", "user").await),
        ("support", server.person("sue", "support").await),
        ("an admin", server.person("ada", "admin").await),
        ("a token that reads", server.service("reads", &["jobs:read"]).await),
        ("a token that reads and writes", server.service("writes", &["jobs:read", "jobs:write"]).await),
        ("an admin's token", server.service("rules", &["admin"]).await),
    ];
    for (who, other) in &others {
        for (path, body) in verbs(assignment, waiting) {
            let answer = other.post(&path, body.clone()).await;
            assert_eq!((answer.status.as_u16(), &answer.json()["code"]), (403, &json!("forbidden")), "{who}: {path}");
            assert!(!answer.text.contains("secret"), "{who}: {path}: {}", answer.text);
        }
    }
    let after = server.get(&format!("/api/v1/jobs/{job}")).await.expect(200);
    assert_eq!((&before["counts"], &before["version"]), (&after["counts"], &after["version"]));
    assert_eq!(server.get("/api/v1/alerts?all=true").await.expect(200)["data"], json!([]));
    let attempts = format!("/api/v1/items/{}/attempts", claimed["item"]["id"].as_str().expect("an item"));
    assert_eq!(server.get(&attempts).await.expect(200)["data"].as_array().map(Vec::len), Some(1));
    worker.post(&format!("/api/v1/assignments/{assignment}/result"), json!({})).await.expect(200);

    // People see who works, all the same.
    others[1].1.get("/api/v1/workers").await.expect(200);
    server.stop().await;
}
