//! From job creation to completion: add items, claim, send heartbeats, finish.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Server, until};

async fn claim(server: &Server, max: u32) -> Vec<Value> {
    let claimed = server.post("/api/v1/assignments", json!({"worker_id": "w-1", "types": ["a"], "max": max})).await;
    claimed.expect(200)["assignments"].as_array().expect("assignments").clone()
}

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

#[tokio::test]
async fn canceled_items_keep_the_reason() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": [{}]})).await.expect(201);
    let item = server.get(&format!("/api/v1/items?job={}", id(&job))).await.expect(200)["data"][0].clone();
    let item = format!("/api/v1/items/{}", id(&item));
    let reason = json!({"reason": "sent twice"});
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&job)), reason).await.expect(200);
    let reason_now = async || server.get(&item).await.expect(200)["last_error"]["message"].clone();
    assert_eq!(reason_now().await, "sent twice");
    let written = "select count(*) from outcome";
    let pool = &server.running.app.pool;
    until(async || sqlx::query_scalar::<_, i64>(written).fetch_one(pool).await.expect("a count") == 1).await;
    assert_eq!(reason_now().await, "sent twice", "after it was written to the item");
    server.stop().await;
}

#[tokio::test]
async fn requests_of_workers_name_their_limits() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a", "items": [{}]})).await.expect(201);
    let item = server.get(&format!("/api/v1/items?job={}", id(&job))).await.expect(200)["data"][0]["id"].clone();
    let claimed = server.post("/api/v1/assignments", json!({"worker_id": "w", "item_ids": [item]})).await.expect(200);
    assert_eq!((claimed["assignments"].as_array().map(Vec::len), &claimed["refused"]), (Some(1), &json!([])));
    let endings = vec![json!({"assignment_id": uuid::Uuid::now_v7(), "result": 1}); 1_001];
    let refused = server.post("/api/v1/assignments/finish", json!({"endings": endings})).await;
    assert_eq!(refused.expect_problem(413, "too_large")["errors"][0]["pointer"], "/endings");
    server.stop().await;
}

#[tokio::test]
async fn job_runs_from_claim_to_completion() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["half"]})).await.expect(201);
    let exact =
        r#"{"type":"a","name":"March","sealed":true,"items":[{"payload":{"n":9007199254740993,"x":1.10,"y":1e400}}]}"#;
    let created = server.post_text("/api/v1/jobs", "application/json", exact).await;
    let job = created.expect(201);
    let path = format!("/api/v1/jobs/{}", id(&job));
    assert_eq!(created.headers["location"], path.as_str());
    assert_eq!((&job["status"], &job["percent"], &job["item_count"]), (&json!("waiting"), &json!(0), &json!(1)));

    let answer =
        server.post("/api/v1/assignments", json!({"worker_id": "w-1", "types": ["a"], "wait_seconds": 5})).await;
    assert!(answer.text.contains(r#""payload":{"n":9007199254740993,"x":1.10,"y":1e400}"#), "{}", answer.text);
    // The test's own reader cannot hold 1e400.
    let claimed: Value = serde_json::from_str(&answer.text.replace("1e400", "0")).expect("JSON");
    let assignment = claimed["assignments"][0].clone();
    assert_eq!((&assignment["attempt"], &assignment["item"]["type"]), (&json!(1), &json!("a")));
    let assignment_path = format!("/api/v1/assignments/{}", id(&assignment));

    let heartbeat = server
        .post(
            &format!("{assignment_path}/heartbeat"),
            json!({"progress": {"done": 3, "total": 10, "message": "reading"}}),
        )
        .await
        .expect(200);
    assert_eq!(heartbeat["cancel"], false);
    Answer::of(server.request(Method::POST, &format!("{assignment_path}/heartbeat"))).await.expect(200);
    let item_path = format!("/api/v1/items/{}", id(&assignment["item"]));
    let item: Value = serde_json::from_str(&server.get(&item_path).await.text.replace("1e400", "0")).expect("JSON");
    assert_eq!((&item["state"], &item["progress"]["done"]), (&json!("running"), &json!(3)));
    assert!(!item.to_string().contains(id(&assignment)), "the assignment id is never shown");
    server.post(&format!("{assignment_path}/step"), json!({"name": "half", "data": {"at": 5}})).await.expect(200);

    let result = r#"{"result":{"total":1.10}}"#;
    let ended = server.post_text(&format!("{assignment_path}/result"), "application/json", result).await.expect(200);
    assert_eq!((&ended["item_state"], &ended["ended_as"]), (&json!("succeeded"), &json!("succeeded")));
    server.post_text(&format!("{assignment_path}/result"), "application/json", result).await.expect(200);
    let closed =
        server.post(&format!("{assignment_path}/heartbeat"), json!({})).await.expect_problem(409, "assignment_closed");
    assert_eq!((&closed["item_state"], &closed["ended_as"]), (&json!("succeeded"), &json!("succeeded")));

    let answer = server.get(&path).await;
    let done = answer.expect(200);
    assert_eq!(
        (&done["status"], &done["outcome"], &done["percent"]),
        (&json!("completed"), &json!("succeeded"), &json!(100))
    );
    assert_eq!(done["message"], "Job complete");
    assert!(server.get(&item_path).await.text.contains(r#""result":{"total":1.10}"#));
    let attempts = server.get(&format!("{item_path}/attempts")).await.expect(200);
    assert_eq!(attempts["data"][0]["ended_as"], "succeeded");

    Answer::of(server.request(Method::GET, &path).header("if-none-match", "*")).await.expect(304);
    let unchanged = server.request(Method::GET, &path).header("if-none-match", &answer.headers["etag"]);
    Answer::of(unchanged).await.expect(304);
    server.stop().await;
}

#[tokio::test]
async fn failures_spend_the_retry_budget_and_end_in_the_dead_state() {
    let server = Server::start().await;
    let backoff = json!({"min_seconds": 0, "max_seconds": 0, "factor": 1});
    server.put("/api/v1/job-types/a", json!({"max_failures": 2, "backoff": backoff})).await.expect(201);
    let job = server
        .post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": [{"payload": 1}, {"payload": 2}]}))
        .await
        .expect(201);
    let claimed = claim(&server, 1).await;
    let path = format!("/api/v1/assignments/{}", id(&claimed[0]));
    server.post(&format!("{path}/failure"), json!({"error": {}})).await.expect_problem(422, "invalid_body");
    server.post(&format!("{path}/result"), json!({"result": null})).await.expect_problem(422, "invalid_body");
    let failure = json!({"error": {"message": "no such user", "kind": "lookup"}, "retryable": false});
    let ended = server.post(&format!("{path}/failure"), failure).await.expect(200);
    assert_eq!(ended["item_state"], "dead");

    let claimed = claim(&server, 5).await;
    assert_eq!(claimed.len(), 1, "a dead item is not offered");
    let path = format!("/api/v1/assignments/{}", id(&claimed[0]));
    let released = server.post(&format!("{path}/release"), json!({})).await.expect(200);
    assert_eq!(released["ended_as"], "released");
    let claimed = claim(&server, 5).await;
    assert_eq!((claimed.len(), &claimed[0]["attempt"], &claimed[0]["item"]["failures"]), (1, &json!(2), &json!(0)));
    Answer::of(server.request(Method::POST, &format!("/api/v1/assignments/{}/result", id(&claimed[0]))))
        .await
        .expect(200);

    let job = server.get(&format!("/api/v1/jobs/{}", id(&job))).await.expect(200);
    assert_eq!((&job["outcome"], &job["message"]), (&json!("partial"), &json!("Job complete, 1 of 2 failed")));
    let groups = server.get(&format!("/api/v1/dead-letters/groups?job={}", id(&job))).await.expect(200);
    assert_eq!((&groups["data"][0]["message"], &groups["data"][0]["count"]), (&json!("no such user"), &json!(1)));
    let dead = server.get("/api/v1/dead-letters").await.expect(200);
    assert_eq!(dead["data"][0]["last_error"]["kind"], "lookup");
    server.stop().await;
}

#[tokio::test]
async fn items_are_added_as_array_or_ndjson_stream() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let path = format!("/api/v1/jobs/{}/items", id(&job));

    let added = server.post(&path, json!([{"payload": 1}, {"payload": 2}])).await.expect(200);
    assert_eq!(added, json!({"accepted": 2, "duplicates": 0, "merged": 0, "sealed": false}));
    server.post(&path, json!([{"payload": 1}, {"colour": 2}])).await.expect_problem(422, "invalid_body");

    let lines = (0..2_500).map(|n| json!({"payload": n}).to_string()).collect::<Vec<_>>().join("\n");
    let added = server.post_text(&path, "application/x-ndjson", lines).await.expect(200);
    assert_eq!(added["accepted"], 2_500);

    let bad = format!("{}\nnot json\n{{\"payload\":9}}\n", "{\"payload\":1}\n".repeat(1_500));
    let problem = server.post_text(&path, "application/x-ndjson", bad).await.expect_problem(422, "invalid_body");
    assert_eq!((&problem["line"], &problem["accepted"]), (&json!(1_502), &json!(1_500)));

    let huge = format!("{{\"payload\":1}}\n{{\"payload\":\"{}\"}}\n", "a".repeat(2 << 20));
    let problem = server.post_text(&path, "application/x-ndjson", huge).await.expect_problem(413, "too_large");
    assert_eq!(problem["line"], 2);
    server.post_text(&path, "text/csv", "a,b").await.expect_problem(415, "unsupported_media_type");

    let sealed =
        server.post_text(&format!("{path}?seal=true"), "application/x-ndjson", "{\"payload\":1}").await.expect(200);
    assert_eq!(sealed, json!({"accepted": 1, "duplicates": 0, "merged": 0, "sealed": true}));
    server.post(&path, json!([{"payload": 1}])).await.expect_problem(409, "job_sealed");
    server.post(&format!("/api/v1/jobs/{}/seal", id(&job)), json!(null)).await.expect(200);
    let total = server.get(&format!("/api/v1/jobs/{}", id(&job))).await.expect(200)["item_count"].clone();
    assert!(total.as_i64().is_some_and(|n| n >= 4_003), "{total}");
    server.stop().await;
}

#[tokio::test]
async fn finish_batch_returns_next_assignments() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..30).map(|n| json!({"payload": n})).collect();
    let job = server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    let mut claimed = claim(&server, 10).await;
    assert_eq!(claimed.len(), 10);
    let heartbeats: Vec<Value> = claimed.iter().map(|it| json!({"assignment_id": id(it)})).collect();
    let heartbeats = server.post("/api/v1/assignments/heartbeat", json!({"heartbeats": heartbeats})).await.expect(200);
    assert!(
        heartbeats["heartbeats"].as_array().is_some_and(|all| all.iter().all(|heartbeat| heartbeat["status"] == 200)),
        "{heartbeats}"
    );

    let mut rounds = 0;
    while !claimed.is_empty() {
        let mut endings: Vec<Value> =
            claimed.iter().map(|it| json!({"assignment_id": id(it), "result": {"ok": true}})).collect();
        endings.push(json!({"assignment_id": "0190a5e0-0000-7000-8000-000000000000", "result": {}}));
        let body = json!({"endings": endings, "claim": {"worker_id": "w-1", "types": ["a"], "max": 10}});
        let finished = server.post("/api/v1/assignments/finish", body).await.expect(200);
        let statuses: Vec<_> =
            finished["endings"].as_array().expect("endings").iter().map(|e| e["status"].clone()).collect();
        let (last, good) = statuses.split_last().expect("endings");
        assert!(good.iter().all(|status| status == 200) && last == 404, "{finished}");
        claimed = finished["assignments"].as_array().expect("assignments").clone();
        rounds += 1;
    }
    assert_eq!(rounds, 3);
    let job = server.get(&format!("/api/v1/jobs/{}", id(&job))).await.expect(200);
    assert_eq!((&job["status"], &job["counts"]["succeeded"]), (&json!("completed"), &json!(30)));
    server.stop().await;
}

#[tokio::test]
async fn long_poll_sees_changes_of_another_server() {
    let server = Server::start().await;
    let second = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let path = format!("/api/v1/jobs/{}", id(&job));
    let version = job["version"].as_i64().expect("a version");

    let items = format!("{path}/items");
    let poll = second
        .request(Method::GET, &format!("{path}?wait_seconds=20&children=false"))
        .header("if-none-match", format!("\"{version}\""));
    let (polled, _) = tokio::join!(Answer::of(poll), server.post(&items, json!([{"payload": 1}])));
    assert!(polled.expect(200)["version"].as_i64() > Some(version));
    server.get(&format!("{path}?wait_seconds=31")).await.expect_problem(400, "invalid_parameter");

    let waiting = json!({"worker_id": "w-2", "types": ["a"], "max": 5, "wait_seconds": 20});
    assert_eq!(claim(&server, 5).await.len(), 1);
    let (claimed, _) =
        tokio::join!(second.post("/api/v1/assignments", waiting), server.post(&items, json!([{"payload": 2}])));
    assert_eq!(claimed.expect(200)["assignments"].as_array().map(Vec::len), Some(1));
    second.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn waiting_claim_gets_no_items_of_a_type_that_is_no_longer_pulled() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    let path = format!("/api/v1/jobs/{}", id(&job));
    let waiting = json!({"worker_id": "w", "types": ["a"], "wait_seconds": 3});
    let changes = async {
        server.put("/api/v1/job-types/a", json!({"executor": {"kind": "builtin", "name": "echo"}})).await.expect(200);
        server.post(&format!("{path}/items?seal=true"), json!([{"payload": 1}])).await.expect(200);
        crate::fair_turns::until(&server, id(&job), |job| job["status"] == "completed").await
    };
    let (claimed, done) = tokio::join!(server.post("/api/v1/assignments", waiting), changes);
    assert_eq!(claimed.expect(200)["assignments"], json!([]));
    assert_eq!(done["counts"]["succeeded"], 1);
    server.stop().await;
}
