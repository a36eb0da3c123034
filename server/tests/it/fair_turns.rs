//! `claiming`: fair turns between trees. Ten rows do not wait behind a hundred thousand.

use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Api, Server};

async fn import(server: &Server, name: &str, csv: String) -> String {
    let upload = server.post_text(&format!("/api/v1/uploads?filename={name}.csv"), "text/csv", csv).await.expect(201);
    let job = server.post("/api/v1/jobs", json!({"type": "import", "upload": {"id": upload["id"]}})).await.expect(201);
    job["id"].as_str().expect("an id").to_owned()
}

/// Waits for new versions of the job until it satisfies a condition.
pub(crate) async fn until(server: &Api, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let path = format!("/api/v1/jobs/{id}");
    let mut answer = server.get(&path).await;
    loop {
        let job = answer.expect(200);
        if wanted(&job) {
            return job;
        }
        let etag = answer.headers["etag"].clone();
        // 304 after twenty seconds without news: look again.
        let newer = server.request(Method::GET, &format!("{path}?wait_seconds=20")).header("if-none-match", etag);
        let newer = Answer::of(newer).await;
        answer = if newer.status == 304 { server.get(&path).await } else { newer };
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn small_import_finishes_before_a_hundred_thousand_rows() {
    let server = Server::start().await;
    let mut big = String::from("n,name\n");
    for n in 0..100_000 {
        let _ = writeln!(big, "{n},name of {n}");
    }
    let big = import(&server, "big", big).await;
    until(&server, &big, |job| job["item_progress"].as_i64() > Some(500)).await;
    let small = import(&server, "small", "n\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n".to_owned()).await;
    let small = until(&server, &small, |job| job["status"] == "completed").await;
    assert_eq!((&small["outcome"], &small["item_count"]), (&json!("succeeded"), &json!(10)));
    let behind = server.get(&format!("/api/v1/jobs/{big}")).await.expect(200);
    let done = behind["item_progress"].as_i64().expect("a number");
    assert!(done < 50_000, "the small file waited for {done} rows of the big one");
    server.stop().await;
}

#[tokio::test]
async fn higher_priority_is_claimed_first_then_oldest() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..30).map(|n| json!({"payload": n, "priority": if n == 29 { 5 } else { 0 }})).collect();
    server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    let claimed =
        server.post("/api/v1/assignments", json!({"worker_id": "w", "types": ["a"], "max": 30})).await.expect(200);
    let order: Vec<i64> = claimed["assignments"]
        .as_array()
        .expect("assignments")
        .iter()
        .filter_map(|a| a["item"]["payload"].as_i64())
        .collect();
    let wanted: Vec<i64> = std::iter::once(29).chain(0..29).collect();
    assert_eq!(order, wanted);
    server.stop().await;
}
