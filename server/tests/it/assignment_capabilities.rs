//! The id of a pushed assignment contains a capability of 256 bits: without it, no token can end the assignment.
//!
//! Separate from `push`, which covers the effect of responses. Here another worker of the same type knows all that the
//! API shows of an assignment, including its UUID.

use futures::future::join_all;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::{
    bulk::id,
    push::{item_in, item_of, job, push_type},
    support::{Api, Server, receiver::Receiver},
};

/// Pushes one item to a worker that promises to end it later. Returns its job and the id that the worker received.
async fn promised(server: &Server, receiver: &mut Receiver) -> (Value, String) {
    let tree = job(server, "slow", &[json!(1)]).await;
    let post = receiver.next().await;
    let assignment_id = post.json()["assignment_id"].as_str().expect("an id").to_owned();
    post.status(202);
    (tree, assignment_id)
}

fn uuid_of(assignment_id: &str) -> &str {
    assignment_id.split_once('.').expect("a UUID and a capability").0
}

async fn result(api: &Api, id: &str) -> crate::support::Answer {
    api.post(&format!("/api/v1/assignments/{id}/result"), json!({"result": "done"})).await
}

#[tokio::test]
async fn pushed_assignment_uuid_alone_is_refused() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "slow", &receiver, json!({"steps": ["half"], "executor": {"timeout_seconds": 60}})).await;
    let (worker, stranger) = (server.service("worker", &["work"]).await, server.service("other", &["work"]).await);
    let (tree, assignment_id) = promised(&server, &mut receiver).await;
    let (other_tree, other) = promised(&server, &mut receiver).await;
    let capability_of_other = other.split_once('.').expect("a capability").1;

    let plain = uuid_of(&assignment_id);
    assert_eq!(item_of(&server, &tree).await["assignment"]["id"], Value::Null, "only its worker is told the id");
    let guesses = [
        plain.to_owned(),
        format!("{plain}.{capability_of_other}"),
        format!("{plain}.{}", "A".repeat(43)),
        format!("{plain}.{}", assignment_id.split_once('.').expect("a capability").1.to_uppercase()),
        format!("{plain}."),
    ];
    for guess in &guesses {
        for (what, body) in [
            ("result", json!({})),
            ("heartbeat", json!({})),
            ("step", json!({"name": "half"})),
            ("alert", json!({"message": "x"})),
            ("release", json!({})),
            ("failure", json!({"error": {"message": "x"}})),
        ] {
            let path = format!("/api/v1/assignments/{guess}/{what}");
            stranger.post(&path, body).await.expect_problem(404, "not_found");
        }
    }
    let heartbeats = json!({"heartbeats": [{"assignment_id": plain}, {"assignment_id": assignment_id}]});
    let heartbeats = worker.post("/api/v1/assignments/heartbeat", heartbeats).await.expect(200);
    assert_eq!(heartbeats["heartbeats"][1]["status"], 200, "{heartbeats}");
    assert_eq!(heartbeats["heartbeats"][1]["assignment_id"], assignment_id.as_str(), "as it was sent");
    let heartbeats = json!({"heartbeats": [{"assignment_id": plain}]});
    let heartbeats = stranger.post("/api/v1/assignments/heartbeat", heartbeats).await.expect(200);
    assert_eq!(heartbeats["heartbeats"][0]["status"], 404, "{heartbeats}");

    // A wrong id in the same batch does not stand in the way of the right one.
    let endings = json!({"endings": [
        {"assignment_id": plain, "error": {"message": "stolen"}},
        {"assignment_id": guesses[1], "error": {"message": "stolen"}},
        {"assignment_id": assignment_id, "result": "done"},
    ]});
    let answers = worker.post("/api/v1/assignments/finish", endings).await.expect(200);
    let statuses: Vec<&Value> = answers["endings"].as_array().expect("answers").iter().map(|a| &a["status"]).collect();
    assert_eq!(statuses[2], 200, "{answers}");
    assert!(statuses[..2].iter().all(|&status| status != 200), "{answers}");
    assert_eq!(item_in(&server, &tree, "succeeded").await["result"], "done");
    assert_eq!(item_of(&server, &other_tree).await["state"], "running");
    result(&worker, &other).await.expect(200);

    // The end is told to whoever shows the capability, and to nobody else.
    for guess in &guesses {
        for (what, body) in [
            ("result", json!({"result": "done"})),
            ("heartbeat", json!({})),
            ("step", json!({"name": "half"})),
            ("alert", json!({"message": "x"})),
            ("release", json!({})),
            ("failure", json!({"error": {"message": "x"}})),
        ] {
            let path = format!("/api/v1/assignments/{guess}/{what}");
            stranger.post(&path, body).await.expect_problem(404, "not_found");
        }
    }
    for (id, status) in [(plain, 404), (assignment_id.as_str(), 409)] {
        let heartbeats = json!({"heartbeats": [{"assignment_id": id}]});
        let heartbeats = stranger.post("/api/v1/assignments/heartbeat", heartbeats).await.expect(200);
        assert_eq!(heartbeats["heartbeats"][0]["status"], status, "{heartbeats}");
        let endings = json!({"endings": [{"assignment_id": id, "error": {"message": "stolen"}}]});
        let answers = stranger.post("/api/v1/assignments/finish", endings).await.expect(200);
        assert_eq!(answers["endings"][0]["status"], status, "{answers}");
    }
    result(&worker, &assignment_id).await.expect(200);

    // A claimed assignment has no capability: only the token that claimed it ends it.
    server.put("/api/v1/job-types/pulled", json!({})).await.expect(201);
    job(&server, "pulled", &[json!(1)]).await;
    let claim = json!({"worker_id": "w", "types": ["pulled"]});
    let claimed = worker.post("/api/v1/assignments", claim).await.expect(200);
    let id = claimed["assignments"][0]["id"].as_str().expect("an id").to_owned();
    assert!(id.parse::<Uuid>().is_ok(), "{id}");
    result(&stranger, &id).await.expect_problem(404, "not_found");
    result(&worker, &id).await.expect(200);
    server.stop().await;
}

#[tokio::test]
async fn capability_survives_key_rotation_and_server_restart() {
    let server = Server::start().await;
    let mut receiver = Receiver::start().await;
    push_type(&server, "slow", &receiver, json!({"executor": {"timeout_seconds": 60}})).await;
    let worker = server.service("worker", &["work"]).await;
    let (tree, assignment_id) = promised(&server, &mut receiver).await;
    let (later_tree, later) = promised(&server, &mut receiver).await;
    server.program(&["rotate-key"]).await;
    result(&worker, &assignment_id).await.expect(200);
    item_in(&server, &tree, "succeeded").await;
    let second = server.another().await;
    let elsewhere = second.service("elsewhere", &["work"]).await;
    result(&elsewhere, &later).await.expect(200);
    item_in(&second, &later_tree, "succeeded").await;
    second.stop().await;
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unauthorized_assignment_requests_do_not_throttle_the_holder() {
    const ITEMS: usize = 60;
    let server = Server::start().await;
    server.put("/api/v1/job-types/pulled", json!({})).await.expect(201);
    let (worker, stranger) = (server.service("worker", &["work"]).await, server.service("other", &["work"]).await);
    let tree = job(&server, "pulled", &vec![json!(1); ITEMS]).await;
    let claim = json!({"worker_id": "w", "types": ["pulled"], "max": ITEMS});
    let claimed = worker.post("/api/v1/assignments", claim).await.expect(200);
    let ids: Vec<&str> =
        claimed["assignments"].as_array().expect("assignments").iter().filter_map(|one| one["id"].as_str()).collect();
    assert_eq!(ids.len(), ITEMS);

    // Many at once, so that the server takes some of both in one batch.
    let callers = [(false, &stranger), (true, &worker), (false, &stranger)];
    let calls: Vec<(bool, &Api, &str)> =
        ids.iter().flat_map(|id| callers.map(|(is_holder, api)| (is_holder, api, *id))).collect();
    let heartbeats = join_all(calls.iter().map(async |(is_holder, api, id)| {
        (*is_holder, api.post(&format!("/api/v1/assignments/{id}/heartbeat"), json!({})).await.status.as_u16())
    }));
    for (is_holder, status) in heartbeats.await {
        assert_eq!(status, if is_holder { 200 } else { 404 });
    }
    let results = join_all(calls.iter().map(async |(is_holder, api, id)| {
        let result = json!({"result": if *is_holder { "done" } else { "stolen" }});
        (*is_holder, api.post(&format!("/api/v1/assignments/{id}/result"), result).await.status.as_u16())
    }));
    for (is_holder, status) in results.await {
        assert!(if is_holder { status == 200 } else { [404, 409].contains(&status) }, "{is_holder} {status}");
    }
    let job = server.get(&format!("/api/v1/jobs/{}", id(&tree))).await.expect(200);
    assert_eq!(job["counts"]["succeeded"], ITEMS);
    server.stop().await;
}
