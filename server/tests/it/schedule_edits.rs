//! Schedules as people and programs make, edit, read, and run them, and the pages about them.

use serde_json::{Value, json};

use crate::{
    schedules::{jobs, schedule},
    support::{Answer, Server},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_is_validated_edited_and_run_manually() {
    let server = Server::start().await;
    let schema = json!({"payload_schema": {"type": "object", "required": ["order"]}});
    server.put("/api/v1/job-types/a", schema).await.expect(201);
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let refused = async |more: Value, code: &str, pointer: &str| {
        let mut body = json!({"name": "x", "cron": "@daily", "job": {"type": "a"}});
        body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let problem = owner.post("/api/v1/schedules", body).await.expect_problem(422, code);
        assert!(pointer.is_empty() || problem["errors"][0]["pointer"] == pointer, "{problem}");
    };
    refused(json!({"cron": "61 * * * *"}), "invalid_body", "/cron").await;
    refused(json!({"cron": "0 0 30 2 *"}), "invalid_body", "/cron").await;
    refused(json!({"time_zone": "Mars/Olympus"}), "invalid_body", "/time_zone").await;
    refused(json!({"job": {"type": "none"}}), "unknown_job_type", "").await;
    refused(json!({"job": {"type": "a", "colour": 1}}), "invalid_body", "/job/colour").await;
    refused(json!({"job": {"type": "a", "items": [{"payload": {}}]}}), "invalid_body", "/job/items/0/payload/order")
        .await;
    refused(json!({"job": {"type": "a", "id": uuid::Uuid::now_v7()}}), "invalid_body", "/job/id").await;
    assert_eq!(jobs(&server).await, 0, "a check creates nothing");

    let zoned = json!({"cron": "0 2 * * *", "time_zone": "Europe/Berlin", "paused": true});
    let path = schedule(&owner, zoned).await;
    let fetched = owner.get(&path).await.expect(200);
    let next_runs = fetched["next_runs"].clone();
    assert_eq!((next_runs.as_array().map(Vec::len), &fetched["last_run"]), (Some(5), &Value::Null), "{fetched}");
    assert_eq!((&fetched["overlap"], &fetched["catch_up"]), (&json!("skip"), &json!("none")), "{fetched}");
    let fetched = owner.post(&format!("{path}/resume"), json!({})).await.expect(200);
    assert_eq!(fetched["next_runs"], next_runs, "a paused schedule shows its next times, too");
    let ends = json!({"starts_at": "2030-01-01T00:00:00Z", "ends_at": "2030-01-02T12:00:00Z"});
    let fetched = owner.patch(&path, ends).await.expect(200);
    assert_eq!(fetched["next_runs"], json!(["2030-01-01T01:00:00Z", "2030-01-02T01:00:00Z"]), "{fetched}");
    let fetched = owner.patch(&path, json!({"job": {"type": "a",  "name": "new"}})).await.expect(200);
    assert_eq!(fetched["job"], json!({"type": "a", "name": "new"}));

    let fetched = owner.post(&format!("{path}/run"), json!({})).await.expect(200);
    assert_eq!((&fetched["last_run"]["by_hand"], &fetched["last_run"]["state"]), (&json!(true), &json!("started")));
    assert_eq!(jobs(&owner).await, 1);
    let keyed = async |reason: Value| {
        let request = owner.request(reqwest::Method::POST, &format!("{path}/run")).header("idempotency-key", "once");
        Answer::of(request.json(&json!({"reason": reason}))).await
    };
    let first = keyed(Value::Null).await.expect(200);
    assert_eq!(keyed(Value::Null).await.expect(200), first);
    keyed(json!("another")).await.expect_problem(422, "idempotency_key_reused");
    assert_eq!(jobs(&owner).await, 2, "a repeated call runs nothing");
    let stranger = server.service("stranger", &["jobs:read", "jobs:write"]).await;
    stranger.get(&path).await.expect_problem(404, "not_found");
    assert_eq!(stranger.get("/api/v1/schedules").await.expect(200)["data"], json!([]));
    server.post(&format!("{path}/pause"), json!({})).await.expect_problem(422, "reason_required");
    let audited = server.get("/api/v1/schedules").await.expect(200);
    assert_eq!(audited["data"].as_array().map(Vec::len), Some(1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_runs_are_paginated() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let owner = server.service("payroll", &["jobs:read", "jobs:write"]).await;
    let path = schedule(&owner, json!({"cron": "@yearly"})).await;
    assert_eq!(owner.get(&format!("{path}/runs")).await.expect(200), json!({"data": [], "next_cursor": null}));
    for _ in 0..3 {
        owner.post(&format!("{path}/run"), json!({})).await.expect(200);
    }
    let seqs = |page: &Value| -> Vec<i64> {
        page["data"].as_array().expect("a list").iter().filter_map(|run| run["seq"].as_i64()).collect()
    };
    let first = owner.get(&format!("{path}/runs?limit=2")).await.expect(200);
    assert_eq!(seqs(&first), [3, 2]);
    assert_eq!((&first["data"][0]["state"], &first["data"][0]["by_hand"]), (&json!("started"), &json!(true)));
    let cursor = first["next_cursor"].as_str().expect("a cursor");
    let second = owner.get(&format!("{path}/runs?limit=2&cursor={cursor}")).await.expect(200);
    assert_eq!((seqs(&second), &second["next_cursor"]), (vec![1], &Value::Null));
    assert_eq!(seqs(&owner.get(&format!("{path}/runs?sort=created_at")).await.expect(200)), [1, 2, 3]);
    let stranger = server.service("stranger", &["jobs:read"]).await;
    stranger.get(&format!("{path}/runs")).await.expect_problem(404, "not_found");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedule_pages_create_edit_and_run() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let admin = server.admin().await;
    assert!(admin.get("/schedules").await.text.contains("No schedules yet"));
    let fields = |cron: &'static str, job: &'static str| {
        [
            ("name", "Nightly <b>"),
            ("cron", cron),
            ("time_zone", "Europe/Berlin"),
            ("job", job),
            ("overlap", "skip"),
            ("catch_up", "last"),
            ("catch_up_window_seconds", "600"),
        ]
    };
    let job = r#"{"type": "a", "sealed": true}"#;
    for (cron, job, message) in [
        ("61 2 * * *", job, "id=\"cron-fault\""),
        ("0 2 * * *", "{", "Nothing was saved"),
        ("0 2 * * *", r#"{"type": "b"}"#, "id=\"refusal\""),
    ] {
        let refused = admin.form("/schedules", &fields(cron, job)).await;
        assert_eq!(refused.status, 422, "{}", refused.text);
        assert!(
            refused.text.contains(message) && refused.text.contains("value=\"Nightly &lt;b&gt;\""),
            "{}",
            refused.text
        );
    }
    // A pattern fills in the expression, and nothing that was typed is lost.
    let typed = [&fields("", job)[..], &[("pattern", "0 * * * *")]].concat();
    let filled = admin.form("/schedules", &typed).await;
    assert_eq!(filled.status, 200, "{}", filled.text);
    for value in ["value=\"0 * * * *\"", "value=\"Nightly &lt;b&gt;\""] {
        assert!(filled.text.contains(value), "{value}: {}", filled.text);
    }
    let new_schedule = admin.form("/schedules", &fields("0 2 * * *", job)).await;
    assert_eq!(new_schedule.status, 303, "{}", new_schedule.text);
    let page = new_schedule.headers["location"].to_str().expect("text").split('?').next().expect("a path").to_owned();
    let fetched = admin.get(&page).await.text;
    assert!(fetched.contains("Every day at 02:00") && fetched.contains("No run yet"), "{fetched}");

    assert_eq!(admin.form(&format!("{page}/run"), &[]).await.status, 303);
    assert!(admin.get(&page).await.text.contains("started by hand"));
    assert_eq!(admin.form(&format!("{page}/pause"), &[]).await.status, 303);
    assert!(admin.get("/schedules").await.text.contains("Paused"));
    assert_eq!(admin.form(&page, &fields("0 18 * * 1-5", job)).await.status, 303);
    assert!(admin.get(&page).await.text.contains("Weekdays at 18:00"));
    assert_eq!(admin.get(&format!("{page}/run")).await.status, 303, "an address of a form leads to the page");
    assert_eq!(admin.form(&format!("{page}/delete"), &[]).await.status, 303);
    assert_eq!(admin.get(&page).await.status, 404);
    server.stop().await;
}
