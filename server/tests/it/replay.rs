//! Replays of trees and items (`replay`): what is copied, what is not, and the filling of large trees.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    bulk::{claim, finish, id, kill},
    fair_turns::until,
    support::{Answer, Api, Server},
};

async fn replay_with_key(api: &Api, path: &str, key: &str) -> Answer {
    Answer::of(api.request(Method::POST, path).header("idempotency-key", key).json(&json!({}))).await
}

async fn items(api: &Api, job: &str) -> Vec<Value> {
    let page = api.get(&format!("/api/v1/items?job={job}&limit=1000")).await.expect(200);
    page["data"].as_array().expect("items").clone()
}

#[tokio::test]
async fn replay_copies_external_items() {
    let server = Server::start().await;
    for name in ["calculate", "send"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    let tree = json!({"type": "calculate", "key": "payroll", "name": "March", "sealed": true, "dedupe_key": "march",
        "metadata": {"team": "hr"}, "items": [
            {"payload": {"user": 1}, "dedupe_key": "u1", "serialize_key": "bank", "metadata": {"row": 1}},
            {"payload": {"user": 2}, "dedupe_key": "u2", "priority": 5},
            {"payload": {"user": 3}, "expires_at": "2001-01-01T00:00:00Z"}],
        "children": [{"type": "send", "key": "checks", "feed": {}, "final_stage": true}]});
    let created = server.post("/api/v1/jobs", tree).await.expect(201);
    let (root, child) = (id(&created), id(&created["children"][0]));
    let again = format!("/api/v1/jobs/{root}/replay");
    server.post(&again, json!({})).await.expect_problem(409, "job_not_complete");
    server.post(&format!("/api/v1/jobs/{child}/replay"), json!({})).await.expect_problem(409, "not_root");

    // The second user is repaired by hand: what is replayed is what was worked on at last.
    until(&server, &root, |job| job["counts"]["expired"] == 1).await;
    for assignment in claim(&server, "calculate", 10, 5).await {
        if assignment["item"]["payload"]["user"] == 2 {
            kill(&server, &assignment).await;
            let path = format!("/api/v1/items/{}/retry", id(&assignment["item"]));
            server.post(&path, json!({"payload": {"user": 2, "account": "new"}})).await.expect(200);
        } else {
            finish(&server, &assignment).await;
        }
    }
    let work = async |root: &str| {
        for name in ["calculate", "send", "calculate", "send"] {
            for assignment in claim(&server, name, 10, 0).await {
                finish(&server, &assignment).await;
            }
        }
        until(&server, root, |job| job["tree"]["status"] == "completed").await
    };
    let done = work(&root).await;
    assert_eq!((&done["tree"]["counts"]["succeeded"], &done["tree"]["outcome"]), (&json!(4), &json!("partial")));

    let new = replay_with_key(&server, &again, "k1").await.expect(201);
    let second = id(&new);
    assert_ne!(second, root);
    assert_eq!(id(&replay_with_key(&server, &again, "k1").await.expect(201)), second, "the same call, the same tree");
    server.post(&again, json!({})).await.expect_problem(409, "duplicate");
    for (field, value) in [
        ("replay_of", json!(root)),
        ("key", json!("payroll")),
        ("name", json!("March")),
        ("metadata", json!({"team": "hr"})),
        ("dedupe_key", json!("march")),
        ("sealed", json!(true)),
    ] {
        assert_eq!(new[field], value, "{field}");
    }
    let fed = &new["children"][0];
    assert_eq!((&fed["key"], &fed["item_count"], &fed["final_stage"]), (&json!("checks"), &json!(0), &json!(true)));
    let there = server.post("/api/v1/jobs", json!({"type": "calculate", "dedupe_key": "march"})).await;
    assert_eq!(there.expect_problem(409, "duplicate")["id"], json!(second), "the key has gone over");

    let copies = items(&server, &second).await;
    let payloads: Vec<&Value> = copies.iter().map(|item| &item["payload"]).collect();
    assert_eq!(payloads, [&json!({"user": 1}), &json!({"user": 2, "account": "new"}), &json!({"user": 3})]);
    assert_eq!((&copies[0]["serialize_key"], &copies[0]["metadata"]), (&json!("bank"), &json!({"row": 1})));
    assert_eq!((&copies[1]["dedupe_key"], &copies[1]["priority"]), (&json!("u2"), &json!(5)));
    assert!(copies.iter().all(|item| item["attempts"] == 0 && item["fed_by"].is_null()), "{copies:?}");
    until(&server, &second, |job| job["counts"]["expired"] == 1).await;
    let done = work(&second).await;
    assert_eq!((&done["tree"]["counts"]["succeeded"], &done["completion"]), (&json!(4), &json!(1)));
    // Nothing holds the old tree any more.
    server.delete(&format!("/api/v1/jobs/{root}")).await.expect(204);
    server.post(&again, json!({})).await.expect_problem(410, "job_removed");
    server.stop().await;
}

#[tokio::test]
async fn large_replay_completes_once_while_copying() {
    let server = Server::start().await;
    let echo = json!({"executor": {"kind": "builtin", "name": "echo"}});
    server.put("/api/v1/job-types/quick", echo).await.expect(201);
    for children in [json!([]), json!([{"type": "quick", "key": "also", "sealed": true, "items": [{}]}])] {
        let created = server.post("/api/v1/jobs", json!({"type": "quick", "children": children})).await.expect(201);
        let root = id(&created);
        let lines = "{\"payload\":{\"a\":1.10}}\n".repeat(6_000);
        let path = format!("/api/v1/jobs/{root}/items?seal=true");
        server.post_text(&path, "application/x-ndjson", lines).await.expect(200);
        let whole = |job: &Value| job["tree"]["status"] == "completed";
        let first = until(&server, &root, whole).await;

        let new = id(&server.post(&format!("/api/v1/jobs/{root}/replay"), json!({})).await.expect(201));
        let second = until(&server, &new, whole).await;
        assert_eq!(second["tree"]["counts"], first["tree"]["counts"]);
        assert_eq!((&second["counts"]["succeeded"], &second["completion"]), (&json!(6_000), &json!(1)));
    }
    server.stop().await;
}

#[tokio::test]
async fn cancelled_replay_stops_copying() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/slow", json!({})).await.expect(201);
    let root = id(&server.post("/api/v1/jobs", json!({"type": "slow"})).await.expect(201));
    let lines = "{}\n".repeat(20_000);
    let path = format!("/api/v1/jobs/{root}/items?seal=true");
    server.post_text(&path, "application/x-ndjson", lines).await.expect(200);
    server.post(&format!("/api/v1/jobs/{root}/cancel"), json!({})).await.expect(200);
    let new = id(&server.post(&format!("/api/v1/jobs/{root}/replay"), json!({})).await.expect(201));
    let cancelled = server.post(&format!("/api/v1/jobs/{new}/cancel"), json!({})).await.expect(200);
    let count = &cancelled["item_count"];
    let done = until(&server, &new, |job| job["status"] == "completed").await;
    assert_eq!((&done["item_count"], &done["outcome"]), (count, &json!("cancelled")));
    // Both trees are let go, and may be deleted.
    for tree in [&root, &new] {
        let path = format!("/api/v1/jobs/{tree}");
        let mut answer = server.delete(&path).await;
        while answer.status == 409 {
            crate::support::moment().await;
            answer = server.delete(&path).await;
        }
        answer.expect(204);
    }
    server.stop().await;
}

/// A file of which a canceled import has read only a part is read on, in order.
#[tokio::test]
async fn replay_of_a_cancelled_import_reads_the_rest_of_the_file() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/slow", json!({})).await.expect(201);
    let file: String = (0..20_000).map(|row| format!("{{\"n\":{row}}}\n")).collect();
    let stored = server.post_text("/api/v1/uploads?filename=a.ndjson", "application/x-ndjson", file).await.expect(201);
    let job = json!({"type": "slow", "upload": {"id": stored["id"]}});
    let root = id(&server.post("/api/v1/jobs", job).await.expect(201));
    until(&server, &root, |job| job["item_count"].as_i64() >= Some(1_000)).await;
    server.post(&format!("/api/v1/jobs/{root}/cancel"), json!({})).await.expect(200);
    until(&server, &root, |job| job["status"] == "completed").await;
    let new = id(&server.post(&format!("/api/v1/jobs/{root}/replay"), json!({})).await.expect(201));
    let whole = until(&server, &new, |job| job["sealed"] == true && job["counts"]["available"] == job["item_count"]);
    assert_eq!(whole.await["item_count"], 20_000);
    let in_order = "select count(*) from item i join job j using (job_key)
        where j.id = $1::uuid and i.row = i.seq and i.payload = '{\"n\":' || (i.seq - 1) || '}'";
    let in_order = sqlx::query_scalar::<_, i64>(in_order).bind(&new).fetch_one(&server.running.app.pool).await;
    assert_eq!(in_order.expect("a number"), 20_000);
    server.stop().await;
}

#[tokio::test]
async fn unreadable_rows_stay_dead_in_replay() {
    let server = Server::start().await;
    let upload = server.post_text("/api/v1/uploads?filename=a.csv", "text/csv", "n,m\n1,2\n3\n5,6\n").await.expect(201);
    let job = json!({"type": "import", "upload": {"id": upload["id"]}});
    let root = id(&server.post("/api/v1/jobs", job).await.expect(201));
    let first = until(&server, &root, |job| job["status"] == "completed").await;
    assert_eq!((&first["counts"]["succeeded"], &first["counts"]["dead"]), (&json!(2), &json!(1)));
    let new = server.post(&format!("/api/v1/jobs/{root}/replay"), json!({})).await.expect(201);
    assert_eq!(new["upload_id"], upload["id"]);
    let second = until(&server, &id(&new), |job| job["status"] == "completed").await;
    assert_eq!(second["counts"], first["counts"]);
    let (before, after) = (items(&server, &root).await, items(&server, &id(&new)).await);
    for (before, after) in before.iter().zip(&after) {
        assert_eq!((&before["row"], &before["payload"]), (&after["row"], &after["payload"]));
        assert_eq!(before["last_error"]["message"], after["last_error"]["message"]);
    }
    let failures = async |job: &str| server.get(&format!("/api/v1/jobs/{job}/failures?format=csv")).await.text;
    let (before, after) = (failures(&root).await, failures(&id(&new)).await);
    assert!(before.starts_with("n,m,_line"), "{before}");
    assert_eq!(before, after, "with the columns of the file");
    server.stop().await;
}

#[tokio::test]
async fn single_item_is_replayed_as_its_own_tree() {
    let server = Server::start().await;
    let schema = json!({"payload_schema": {"type": "object", "required": ["n"]}, "max_failures": 7});
    server.put("/api/v1/job-types/a", schema).await.expect(201);
    let job = json!({"type": "a", "name": "batch", "metadata": {"team": "hr"}, "sealed": true, "max_failures": 2,
        "items": [{"payload": {"n": 1}, "serialize_key": "k", "priority": 3}]});
    let owner = server.service("shop", &["jobs:read", "jobs:write", "work"]).await;
    let root = id(&owner.post("/api/v1/jobs", job).await.expect(201));
    let claimed = claim(&owner, "a", 1, 0).await;
    let item = id(&claimed[0]["item"]);
    let path = format!("/api/v1/items/{item}/replay");
    assert_eq!(owner.post(&path, json!({})).await.expect_problem(409, "item_not_final")["item_state"], "running");
    finish(&owner, &claimed[0]).await;

    let stranger = server.service("bakery", &["jobs:read", "jobs:write"]).await;
    stranger.post(&path, json!({})).await.expect_problem(404, "not_found");
    server.post(&path, json!({})).await.expect_problem(422, "reason_required");
    let bad = owner.post(&path, json!({"payload": {"m": 1}})).await.expect_problem(422, "invalid_body");
    assert_eq!(bad["errors"][0]["pointer"], "/payload/n");

    let new = replay_with_key(&owner, &path, "once").await.expect(201);
    assert_eq!(id(&replay_with_key(&owner, &path, "once").await.expect(201)), id(&new));
    assert_eq!((&new["replay_of"], &new["sealed"], &new["max_failures"]), (&json!(root), &json!(true), &json!(2)));
    assert_eq!((&new["name"], &new["metadata"]), (&json!("batch"), &json!({"team": "hr"})));
    let body = json!({"payload": {"n": 2}, "reason": "asked by phone"});
    let other = server.post(&path, body).await.expect(201);
    assert_eq!(other["owner"]["name"], "shop", "it stays its owner's");

    // Their serialize key holds for both: one at a time, in order.
    for wanted in [json!({"n": 1}), json!({"n": 2})] {
        let got = claim(&owner, "a", 10, 5).await;
        let payloads: Vec<&Value> = got.iter().map(|a| &a["item"]["payload"]).collect();
        assert_eq!(payloads, [&wanted]);
        assert_eq!((&got[0]["attempt"], &got[0]["item"]["priority"]), (&json!(1), &json!(3)));
        finish(&owner, &got[0]).await;
    }
    for tree in [&new, &other] {
        let done = until(&owner, &id(tree), |job| job["status"] == "completed").await;
        assert_eq!((&done["outcome"], &done["completion"]), (&json!("succeeded"), &json!(1)));
    }
    let audit = server.get("/api/v1/audit?action=item.replay").await.expect(200);
    assert_eq!((&audit["data"][0]["reason"], &audit["data"][0]["item_id"]), (&json!("asked by phone"), &json!(item)));
    server.stop().await;
}
