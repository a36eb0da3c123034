//! Regressions found by the model test: each failed before its fix.

use serde_json::{Value, json};

use crate::{
    fair_turns::until,
    support::{Api, Server},
};

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

async fn types(server: &Server, names: &[&str]) {
    for name in names {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
}

async fn claim(api: &Api, job_type: &str) -> Vec<Value> {
    let body = json!({"worker_id": "w", "types": [job_type], "max": 10, "wait_seconds": 5});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

async fn end(api: &Api, assignment: &Value, verb: &str, body: Value) -> Value {
    api.post(&format!("/api/v1/assignments/{}/{verb}", id(assignment)), body).await.expect(200)
}

/// `manual-retry`: a complete fed child is unsealed when its parent reopens, and accepts later fed items.
#[tokio::test]
async fn completed_fed_child_reopens_when_parent_is_repaired() {
    let server = Server::start().await;
    types(&server, &["a", "b"]).await;
    let tree = json!({"type": "a", "sealed": true, "items": [{}],
        "children": [{"type": "b", "key": "b", "feed": {}}]});
    let created = server.post("/api/v1/jobs", tree).await.expect(201);
    let root = id(&created);
    let claimed = claim(&server, "a").await;
    end(&server, &claimed[0], "failure", json!({"error": {"message": "no"}, "retryable": false})).await;
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&done["tree"]["outcome"], &done["children"][0]["outcome"]), (&json!("failed"), &json!("succeeded")));

    let retry = format!("/api/v1/items/{}/retry", id(&claimed[0]["item"]));
    assert_eq!(server.post(&retry, json!({})).await.expect(200)["state"], "available");
    let open = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    let child = &open["children"][0];
    assert_eq!((&child["status"], &child["sealed"]), (&json!("running"), &json!(false)));
    end(&server, &claim(&server, "a").await[0], "result", json!({})).await;
    end(&server, &claim(&server, "b").await[0], "result", json!({})).await;
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&done["tree"]["outcome"], &done["completion"]), (&json!("succeeded"), &json!(2)));
}

/// A job carries the fair turns of its tree for all jobs of its type, even when canceled: its sibling still accepts
/// items, is sealed, fed and processed.
#[tokio::test]
async fn cancelled_job_does_not_block_sibling_jobs() {
    let server = Server::start().await;
    types(&server, &["root", "a"]).await;
    let tree = json!({"type": "root", "items": [{}], "children": [
        {"type": "a", "key": "first", "items": [{}]},
        {"type": "a", "key": "second"},
        {"type": "a", "key": "fed", "feed": {}}]});
    let created = server.post("/api/v1/jobs", tree).await.expect(201);
    let child = |key: &str| {
        let all = created["children"].as_array().expect("children");
        id(all.iter().find(|child| child["key"] == key).expect("a child of that key"))
    };
    server.post(&format!("/api/v1/jobs/{}/cancel", child("first")), json!({})).await.expect(200);
    let added = server.post(&format!("/api/v1/jobs/{}/items", child("second")), json!([{}])).await;
    assert_eq!(added.expect(200)["accepted"], 1);
    server.post(&format!("/api/v1/jobs/{}/seal", child("second")), json!({})).await.expect(200);
    end(&server, &claim(&server, "root").await[0], "result", json!({})).await;
    server.post(&format!("/api/v1/jobs/{}/seal", id(&created)), json!({})).await.expect(200);
    let got = claim(&server, "a").await;
    assert_eq!(got.len(), 2);
    for assignment in &got {
        end(&server, assignment, "result", json!({})).await;
    }
    let done = until(&server, &id(&created), |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&done["tree"]["outcome"], &done["tree"]["counts"]["cancelled"]), (&json!("partial"), &json!(1)));
}

/// `completion` and `cancellation`: a tree is canceled even if its root's own items had ended before.
#[tokio::test]
async fn tree_with_completed_root_is_cancelled_whole() {
    let server = Server::start().await;
    types(&server, &["root", "a"]).await;
    let tree = json!({"type": "root", "sealed": true, "items": [{}], "children": [{"type": "a", "items": [{}]}]});
    let root = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    end(&server, &claim(&server, "root").await[0], "result", json!({})).await;
    let cancel = format!("/api/v1/jobs/{root}/cancel");
    server.post(&cancel, json!({})).await.expect(200);
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!(done["tree"]["outcome"], "cancelled");
    server.post(&cancel, json!({})).await.expect(200);
}

/// `job-status`: a reopened job is running, even if none of its items was ever claimed.
#[tokio::test]
async fn reopened_job_has_status_running() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let job = json!({"type": "a", "sealed": true, "items": [{}]});
    let root = id(&server.post("/api/v1/jobs", job).await.expect(201));
    let item = server.get(&format!("/api/v1/items?job={root}")).await.expect(200)["data"][0].clone();
    server.post(&format!("/api/v1/items/{}/cancel", id(&item)), json!({})).await.expect(200);
    until(&server, &root, |job| job["status"] == "completed").await;
    server.post(&format!("/api/v1/items/{}/retry", id(&item)), json!({})).await.expect(200);
    let open = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&open["status"], &open["tree"]["status"]), (&json!("running"), &json!("running")));
}
