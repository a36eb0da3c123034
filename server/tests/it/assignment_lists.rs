//! Lists of endings and heartbeats: a bad element never spoils the others (`fencing`).

use serde_json::{Value, json};

use crate::{
    bulk::{claim, id},
    support::Server,
};

/// Statuses and codes of the answers, in order.
fn statuses(answers: &Value) -> Vec<(u64, &str)> {
    let status = |answer: &Value| answer["status"].as_u64().expect("a status");
    let answers = answers.as_array().expect("answers");
    answers.iter().map(|answer| (status(answer), answer["code"].as_str().unwrap_or_default())).collect()
}

#[tokio::test]
async fn bad_ending_does_not_spoil_the_others() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..16).map(|n| json!({"payload": n})).collect();
    let job = server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    let claimed = claim(&server, "a", 14, 5).await;
    let bad = |at: usize, rest: Value| {
        let mut ending = rest;
        ending["assignment_id"] = claimed[at]["id"].clone();
        ending
    };
    let endings = json!([
        bad(0, json!({"result": 0})),
        bad(1, json!({"result": 1, "surprise": true})),
        bad(2, json!({"error": {"message": "x"}, "retryable": "yes"})),
        bad(3, json!({"error": {}})),
        bad(4, json!({"error": {"message": ""}})),
        bad(5, json!({"result": null})),
        bad(6, json!({"result": "\u{0}"})),
        bad(7, json!({"result": 1, "error": {"message": "both"}})),
        bad(8, json!({"retryable": false})),
        {"assignment_id": "no id", "result": 1},
        {"assignment_id": 7, "result": 1},
        {"result": 1},
        [claimed[9]["id"]],
        bad(10, json!({"error": {"message": "given up"}, "retryable": false})),
        bad(11, json!({})),
    ]);
    let body = json!({"endings": endings, "claim": {"worker_id": "w", "types": ["a"], "max": 5}});
    let finished = server.post("/api/v1/assignments/finish", body).await.expect(200);
    let invalid = (422, "invalid_body");
    let expected =
        [vec![(200, "")], vec![invalid; 8], vec![(404, "not_found"), invalid, invalid, invalid, (200, ""), (200, "")]];
    assert_eq!(statuses(&finished["endings"]), expected.concat(), "{finished}");
    assert_eq!(finished["assignments"].as_array().map(Vec::len), Some(2), "{finished}");
    let places: Vec<_> = (1..9).map(|at| finished["endings"][at]["errors"][0]["pointer"].clone()).collect();
    let fields = ["surprise", "retryable", "error/message", "error/message", "result", "", "error", "retryable"];
    let pointer = |(at, field): (usize, &str)| format!("/endings/{}/{field}", at + 1).trim_end_matches('/').to_owned();
    assert_eq!(places, fields.into_iter().enumerate().map(pointer).collect::<Vec<_>>(), "{finished}");
    let named: Vec<_> = (9..13).map(|at| finished["endings"][at]["assignment_id"].clone()).collect();
    assert_eq!(named, [json!("no id"), json!(""), json!(""), json!("")]);
    let job = server.get(&format!("/api/v1/jobs/{}", id(&job))).await.expect(200);
    let counts = (&job["counts"]["succeeded"], &job["counts"]["dead"], &job["counts"]["running"]);
    assert_eq!(counts, (&json!(2), &json!(1), &json!(13)), "{job}");
    server.stop().await;
}

#[tokio::test]
async fn refused_claim_refuses_the_endings_and_is_named() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let claimed = claim(&server, "a", 1, 5).await;
    let body = |types: Value| {
        let endings = json!([{"assignment_id": claimed[0]["id"], "result": 1}]);
        json!({"endings": endings, "claim": {"worker_id": "w", "types": types}})
    };
    let refused = server.post("/api/v1/assignments/finish", body(json!(["deleted"]))).await;
    let problem = refused.expect_problem(422, "unknown_job_type");
    assert_eq!(problem["errors"][0]["pointer"], "/claim/types/0", "{problem}");
    let finished = server.post("/api/v1/assignments/finish", body(json!(["a"]))).await.expect(200);
    assert_eq!(statuses(&finished["endings"]), [(200, "")]);
    server.stop().await;
}

#[tokio::test]
async fn bad_heartbeat_does_not_spoil_the_others() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items = json!([{"payload": 1}, {"payload": 2}]);
    server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201);
    let claimed = claim(&server, "a", 2, 5).await;
    let (one, two) = (claimed[0]["id"].clone(), claimed[1]["id"].clone());
    let heartbeats = json!([
        {"assignment_id": one, "progress": {"done": -1}},
        {"assignment_id": one, "progress": {"done": 1, "colour": "red"}},
        {"progress": {"done": 1}},
        {"assignment_id": two, "progress": {"done": 1, "total": 2}},
        {"assignment_id": one},
    ]);
    let body = json!({"heartbeats": heartbeats});
    let answer = server.post("/api/v1/assignments/heartbeat", body).await.expect(200)["heartbeats"].clone();
    let invalid = (422, "invalid_body");
    assert_eq!(statuses(&answer), [invalid, invalid, invalid, (200, ""), (200, "")], "{answer}");
    assert_eq!(answer[0]["errors"][0]["pointer"], "/heartbeats/0/progress/done");
    assert_eq!(answer[1]["errors"][0]["pointer"], "/heartbeats/1/progress/colour");
    let single = format!("/api/v1/assignments/{}/heartbeat", one.as_str().expect("an id"));
    let problem = server.post(&single, json!({"progress": {"done": -1}})).await.expect_problem(422, "invalid_body");
    assert_eq!(problem["errors"][0]["pointer"], "/progress/done");
    server.stop().await;
}

#[tokio::test]
async fn repeated_ending_and_step_are_equal_as_json_not_as_text() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["charged"]})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let claimed = claim(&server, "a", 1, 5).await;
    let path = |verb: &str| format!("/api/v1/assignments/{}/{verb}", id(&claimed[0]));
    for data in [r#"{"a":1,"b":[2]}"#, r#"{ "b": [2.0], "a": 1 }"#] {
        let body = format!(r#"{{"name":"charged","data":{data}}}"#);
        server.post_text(&path("step"), "application/json", body).await.expect(200);
        server.get("/api/v1/stats").await.expect(200);
    }
    let other = json!({"name": "charged", "data": {"a": 2}});
    server.post(&path("step"), other).await.expect_problem(409, "step_behind");
    for result in [r#"{"a":1,"b":"x"}"#, "{\"b\":\"\\u0078\", \"a\":1e0}"] {
        let body = format!(r#"{{"result":{result}}}"#);
        server.post_text(&path("result"), "application/json", body).await.expect(200);
    }
    server.post(&path("result"), json!({"result": {"a": 2}})).await.expect_problem(409, "assignment_closed");
    server.stop().await;
}

#[tokio::test]
async fn refused_ending_names_the_present_state_of_the_item() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    server.post("/api/v1/jobs", json!({"type": "a", "items": [{"payload": 1}]})).await.expect(201);
    let first = claim(&server, "a", 1, 5).await;
    let path = |assignment: &Value, verb: &str| format!("/api/v1/assignments/{}/{verb}", id(assignment));
    server.post(&path(&first[0], "release"), json!({})).await.expect(200);
    let second = claim(&server, "a", 1, 5).await;
    let problem = server.post(&path(&first[0], "result"), json!({})).await.expect_problem(409, "assignment_closed");
    assert_eq!((&problem["item_state"], &problem["ended_as"]), (&json!("running"), &json!("released")));
    server.post(&path(&second[0], "result"), json!({})).await.expect(200);
    for verb in ["result", "heartbeat"] {
        let problem = server.post(&path(&first[0], verb), json!({})).await.expect_problem(409, "assignment_closed");
        assert_eq!((&problem["item_state"], &problem["ended_as"]), (&json!("succeeded"), &json!("released")));
    }
    server.stop().await;
}
