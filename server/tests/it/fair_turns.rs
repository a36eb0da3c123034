//! `claiming`: fair turns between trees. Ten rows do not wait behind a hundred thousand.

use std::fmt::Write as _;

use reqwest::Method;
use serde_json::{Value, json};
use time::{OffsetDateTime, format_description::well_known::Rfc3339};

use crate::{
    fair_by::{count, job_of, of_customer, work},
    support::{Answer, Api, Server},
};

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

/// Types of the items that a claim gets.
async fn claimed_types(server: &Server, types: &[&str], max: usize) -> Vec<String> {
    let claim = json!({"worker_id": "w", "types": types, "max": max});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200);
    let of = |assignment: &Value| assignment["item"]["type"].as_str().expect("a type").to_owned();
    claimed["assignments"].as_array().expect("assignments").iter().map(of).collect()
}

/// `claiming`: a claim of several types begins with the one whose first item has the highest priority.
#[tokio::test]
async fn claims_of_several_types_begin_with_the_highest_priority() {
    let server = Server::start().await;
    let add = async |name: &str, n: usize, priority: i64| {
        let items = vec![json!({"payload": 1, "priority": priority}); n];
        server.post("/api/v1/jobs", json!({"type": name, "items": items})).await.expect(201);
    };
    for name in ["a", "b", "c"] {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
    add("a", 20, 0).await;
    add("b", 20, 0).await;
    add("b", 2, 10).await;
    add("c", 3, -5).await;
    for _ in 0..2 {
        assert_eq!(claimed_types(&server, &["a", "b", "c"], 1).await, ["b"], "the highest priority");
    }
    let mut alone = Vec::new();
    for _ in 0..20 {
        alone.extend(claimed_types(&server, &["a", "b", "c"], 1).await);
    }
    assert!(["a", "b"].iter().all(|name| alone.contains(&(*name).to_owned())), "{alone:?}");
    assert!(!alone.contains(&"c".to_owned()), "{alone:?}");
    // What is left is found, whatever its type.
    let rest = claimed_types(&server, &["c", "a", "b"], 1_000).await;
    assert_eq!((rest.len(), &rest[20..]), (23, &["c".to_owned(), "c".to_owned(), "c".to_owned()][..]));
    server.stop().await;
}

/// Parked items whose key is full count for nothing; those whose key is free count with their priority.
#[tokio::test]
async fn claims_of_several_types_begin_with_items_that_a_limit_admits() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"concurrency_by": {"key": "/customer", "limit": 1}})).await.expect(201);
    server.put("/api/v1/job-types/b", json!({})).await.expect(201);
    let add = async |name: &str, customers: &[&str], priority: i64| {
        let item = |customer: &&str| json!({"payload": {"customer": customer}, "priority": priority});
        let items: Vec<Value> = customers.iter().map(item).collect();
        server.post("/api/v1/jobs", json!({"type": name, "items": items})).await.expect(201);
    };
    add("a", &["x"], 10).await;
    add("b", &["", "", "", ""], 5).await;
    assert_eq!(claimed_types(&server, &["a", "b"], 1).await, ["a"]);
    add("a", &["x"], 10).await;
    assert!(claimed_types(&server, &["a"], 1).await.is_empty(), "x is full");
    add("a", &["y", "z"], 0).await;
    for _ in 0..4 {
        assert_eq!(claimed_types(&server, &["a", "b"], 1).await, ["b"], "x is full, and y and z have a lower priority");
    }
    assert_eq!(claimed_types(&server, &["a", "b"], 9).await, ["a", "a"]);
    server.stop().await;
}

/// Creates a job of `n` items of a customer and returns its path.
async fn job(api: &Api, customer: &str, n: usize, more: Value) -> String {
    let items: Vec<Value> = of_customer(customer, n).into_iter().map(|payload| json!({ "payload": payload })).collect();
    let mut body = json!({ "type": "a", "items": items });
    for (name, value) in more.as_object().expect("an object") {
        body[name] = value.clone();
    }
    let job = api.post("/api/v1/jobs", body).await.expect(201);
    format!("/api/v1/jobs/{}", job["id"].as_str().expect("an id"))
}

/// A time in less than two seconds.
fn soon() -> String {
    let at = OffsetDateTime::now_utc() + time::Duration::seconds(2);
    at.replace_nanosecond(0).expect("a time").format(&Rfc3339).expect("a time")
}

/// Adds `n` items of a customer to a job.
async fn add(api: &Api, job: &str, customer: &str, n: usize, priority: i16) {
    let items: Vec<Value> =
        of_customer(customer, n).into_iter().map(|it| json!({"payload": it, "priority": priority})).collect();
    api.post(&format!("{job}/items"), json!(items)).await.expect(200);
}

async fn until_available(server: &Api, job: &str, n: usize) {
    until(server, job.rsplit('/').next().expect("an id"), |job| job["counts"]["available"] == n).await;
}

/// A new tree of ten items gets its turn before all the items of `large`, which wait.
async fn assert_small_goes_first(server: &Api) {
    job(server, "small", 10, json!({})).await;
    let counts = count(&work(server, 40).await);
    assert_eq!(counts.get("small"), Some(&10), "the small tree waits for the large one: {counts:?}");
}

#[tokio::test]
async fn scheduled_items_take_turns_when_they_are_due() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let large = job(&server, "large", 300, json!({ "run_after": soon() })).await;
    until_available(&server, &large, 300).await;
    assert_small_goes_first(&server).await;
    server.stop().await;
}

#[tokio::test]
async fn retried_items_take_turns() {
    for fair_by in [json!("tree"), json!("/customer"), json!("owner")] {
        let server = Server::start().await;
        server.put("/api/v1/job-types/a", json!({ "fair_by": fair_by })).await.expect(201);
        let large = job(&server, "large", 300, json!({})).await;
        let body = json!({"worker_id": "w", "types": ["a"], "max": 300});
        let claimed = server.post("/api/v1/assignments", body).await.expect(200);
        let end = |it: &Value| json!({"assignment_id": it["id"], "error": {"message": "no"}, "retry_after_seconds": 1});
        let endings: Vec<Value> = claimed["assignments"].as_array().expect("assignments").iter().map(end).collect();
        server.post("/api/v1/assignments/finish", json!({ "endings": endings })).await.expect(200);
        until_available(&server, &large, 300).await;
        if fair_by == "owner" {
            let other = server.service("other", &["jobs:write", "jobs:read"]).await;
            job_of(&other, of_customer("small", 10)).await;
            assert_eq!(count(&work(&server, 40).await)["small"], 10);
        } else {
            assert_small_goes_first(&server).await;
        }
        server.stop().await;
    }
}

#[tokio::test]
async fn items_of_an_edited_job_take_turns() {
    for fair_by in ["tree", "/customer"] {
        let server = Server::start().await;
        server.put("/api/v1/job-types/a", json!({ "fair_by": fair_by })).await.expect(201);
        let large = job(&server, "large", 300, json!({"run_after": "2999-01-01T00:00:00Z"})).await;
        server.patch(&large, json!({"run_after": null})).await.expect(200);
        until_available(&server, &large, 300).await;
        assert_small_goes_first(&server).await;
        while !work(&server, 1_000).await.is_empty() {}
        server.stop().await;
    }
}

/// At another priority, an edited item gets a turn of that priority.
#[tokio::test]
async fn items_with_a_new_priority_get_turns_of_that_priority() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let small = job(&server, "small", 300, json!({})).await;
    while !work(&server, 1_000).await.is_empty() {}
    job(&server, "large", 300, json!({"priority": 5})).await;
    add(&server, &small, "small", 10, 0).await;
    server.patch(&small, json!({"priority": 5})).await.expect(200);
    let counts = count(&work(&server, 40).await);
    assert_eq!(counts.get("small"), Some(&10), "{counts:?}");
    server.stop().await;
}

/// Items that the end of another item of their serialize key releases do not overtake other trees again and again.
#[tokio::test]
async fn released_items_take_turns() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> =
        (0..900).map(|n| json!({"payload": {"customer": "large"}, "serialize_key": format!("k{}", n % 30)})).collect();
    server.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    job(&server, "small", 100, json!({})).await;
    let mut small = 0;
    for _ in 0..12 {
        small += count(&work(&server, 30).await).get("small").copied().unwrap_or(0);
    }
    assert_eq!(small, 100);
    server.stop().await;
}

/// A tree that worked before goes on where others begin, also after nothing has waited, and whichever server adds.
#[tokio::test]
async fn idle_queue_puts_no_tree_behind_others() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let other = server.another().await;
    let old = job(&server, "old", 300, json!({})).await;
    while !work(&server, 1_000).await.is_empty() {}
    for api in [&*server, &*other] {
        job(api, "new", 300, json!({})).await;
        add(&server, &old, "old", 10, 0).await;
        let counts = count(&work(&server, 40).await);
        assert_eq!(counts.get("old"), Some(&10), "{counts:?}");
        while !work(&server, 1_000).await.is_empty() {}
    }
    other.stop().await;
    server.stop().await;
}

/// Turns of a tree at one priority do not count at another.
#[tokio::test]
async fn priorities_have_turns_of_their_own() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for (before, after) in [(5, 0), (0, -5), (7, 6)] {
        job(&server, "large", 300, json!({"priority": after})).await;
        let small = job(&server, "small", 0, json!({})).await;
        add(&server, &small, "small", 300, before).await;
        assert_eq!(work(&server, 300).await.len(), 300);
        add(&server, &small, "small", 10, after).await;
        let counts = count(&work(&server, 40).await);
        assert_eq!(counts.get("small"), Some(&10), "{before} {after}: {counts:?}");
        while !work(&server, 1_000).await.is_empty() {}
    }
    server.stop().await;
}
