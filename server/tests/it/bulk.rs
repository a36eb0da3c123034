//! Bulk actions: counted first, frozen, paced, stopped, shared by servers, each member counted once (`manual-retry`).
//!
//! Long because every scenario needs the same dead letters, and they read best together.

use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    concurrent_writes::{lock_job, waiting},
    fair_turns::until,
    live::listen,
    support::{Answer, Api, Server},
};

const OPERATIONS: &str = "/api/v1/bulk-operations";

pub(crate) fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

pub(crate) async fn claim(api: &Api, name: &str, max: u32, wait: u32) -> Vec<Value> {
    let body = json!({"worker_id": "w", "types": [name], "max": max, "wait_seconds": wait});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

pub(crate) async fn finish(api: &Api, assignment: &Value) {
    let path = format!("/api/v1/assignments/{}/result", id(assignment));
    api.post(&path, json!({"result": assignment["item"]["payload"]})).await.expect(200);
}

pub(crate) async fn kill(api: &Api, assignment: &Value) {
    let body = json!({"error": {"message": "no account"}, "retryable": false});
    api.post(&format!("/api/v1/assignments/{}/failure", id(assignment)), body).await.expect(200);
}

/// Ends all waiting items of a type, in batches; returns their number.
async fn end_all(api: &Api, name: &str, dead: bool, wait: u32) -> usize {
    let got = claim(api, name, 1_000, wait).await;
    let ending = |assignment: &Value| {
        if dead {
            json!({"assignment_id": id(assignment), "retryable": false, "error": {"message": "no account"}})
        } else {
            json!({"assignment_id": id(assignment), "result": assignment["item"]["payload"]})
        }
    };
    let endings: Vec<Value> = got.iter().map(ending).collect();
    api.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
    got.len()
}

/// Creates a complete job whose `n` items are dead, with a fed child.
async fn graveyard(api: &Api, name: &str, n: usize) -> String {
    let child = json!([{"type": name, "key": "next", "feed": {"payload": {"$from": "/result"}}}]);
    let items: Vec<Value> = (0..n).map(|n| json!({"payload": {"n": n}})).collect();
    let job = json!({"type": name, "key": "root", "sealed": true, "items": items, "children": child});
    let root = id(&api.post("/api/v1/jobs", job).await.expect(201));
    let mut left = n;
    while left > 0 {
        left -= end_all(api, name, true, 0).await;
    }
    until(api, &root, |job| job["tree"]["status"] == "completed").await;
    root
}

async fn begin(api: &Api, body: Value) -> String {
    id(&api.post(OPERATIONS, body).await.expect(202))
}

/// Waits until the operation satisfies a condition.
async fn operation(api: &Api, id: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    tokio::time::timeout(std::time::Duration::from_mins(1), async {
        loop {
            let now = api.get(&format!("{OPERATIONS}/{id}")).await.expect(200);
            if wanted(&now) {
                return now;
            }
            crate::support::moment().await;
        }
    })
    .await
    .expect("the operation gets there")
}

fn completed(now: &Value) -> bool {
    now["state"] == "completed"
}

fn skipped(operation: &Value) -> Vec<(&str, i64)> {
    let rows = operation["skipped"].as_array().expect("reasons");
    rows.iter().map(|row| (row["reason"].as_str().expect("a code"), row["count"].as_i64().expect("a number"))).collect()
}

#[tokio::test]
async fn bulk_operation_is_resumed_by_another_server() {
    const N: usize = 60;
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let root = graveyard(&server, "a", N).await;
    let body = json!({"action": "retry", "target": "items", "filter": {"root": root, "state": "dead"},
        "rate_per_second": 40});
    let running = begin(&server, body).await;
    operation(&server, &running, |now| now["processed"].as_i64() > Some(1)).await;
    let other = server.another().await;
    server.stop().await;
    let done = operation(&other, &running, completed).await;
    assert_eq!((&done["total"], &done["processed"]), (&json!(N), &json!(N)), "{done}");
    assert_eq!(skipped(&done), vec![]);
    let mut ended = 0;
    while ended < 2 * N {
        ended += end_all(&other, "a", false, 1).await;
    }
    until(&other, &root, |job| job["tree"]["status"] == "completed").await;
    other.stop().await;
}

#[tokio::test]
async fn bulk_retry_of_dead_letters_completes_the_tree_once() {
    const N: usize = 450;
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let root = graveyard(&server, "a", N).await;
    let filter = json!({"root": root, "state": "dead"});
    let body = json!({"action": "retry", "target": "items", "filter": filter, "rate_per_second": 300,
        "payload_edit": [{"op": "set", "path": "/account", "value": 9_007_199_254_740_993_i64}],
        "reason": "accounts were repaired", "dry_run": true});
    let dry = id(&server.post(OPERATIONS, body.clone()).await.expect(200));
    let dry = operation(&server, &dry, |now| now["state"] == "ready").await;
    assert_eq!((&dry["total"], &dry["processed"]), (&json!(N), &json!(0)));
    assert_eq!(dry["sample"].as_array().expect("a sample").len(), 10);
    assert_eq!(dry["sample"][0]["message"], "no account");
    let tree = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&tree["counts"]["dead"], &tree["completion"]), (&json!(N), &json!(1)), "nothing was done");

    // Workers are faster than the operation: without the hold the tree would be complete many times.
    let mut body = body;
    body["dry_run"] = json!(false);
    let running = begin(&server, body).await;
    let mut ended = 0;
    while ended < 2 * N {
        ended += end_all(&server, "a", false, 1).await;
    }
    let done = operation(&server, &running, completed).await;
    assert_eq!((&done["total"], &done["processed"], &done["errored"]), (&json!(N), &json!(N), &json!(0)));
    assert_eq!((skipped(&done), done["finished_at"].is_string()), (vec![], true));
    let tree = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&tree["completion"], &tree["tree"]["outcome"]), (&json!(2), &json!("succeeded")));
    let item = server.get(&format!("/api/v1/items?job={root}&limit=1")).await.expect(200);
    assert_eq!(item["data"][0]["payload"], json!({"n": 0, "account": 9_007_199_254_740_993_i64}));
    let audit = server.get("/api/v1/audit?action=bulk.retry").await.expect(200);
    assert_eq!(audit["data"].as_array().expect("rows").len(), 1);
    assert_eq!(audit["data"][0]["reason"], "accounts were repaired");
    let audit = server.get(&format!("/api/v1/audit?action=item.retry&root={root}&limit=1000")).await.expect(200);
    assert_eq!(audit["data"].as_array().expect("rows").len(), 0, "the operation is one entry");
    server.stop().await;
}

#[tokio::test]
async fn stopped_bulk_operation_releases_its_items() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let root = graveyard(&server, "a", 120).await;
    let body = json!({"action": "retry", "target": "items", "filter": {"job": root, "state": ["dead"]},
        "rate_per_second": 20});
    let running = begin(&server, body).await;
    operation(&server, &running, |now| now["processed"].as_i64() >= Some(20)).await;
    let cancel = format!("{OPERATIONS}/{running}/cancel");
    server.post(&cancel, json!({})).await.expect(200);
    let stopped = operation(&server, &running, |now| now["state"] == "cancelled").await;
    let processed = stopped["processed"].as_i64().expect("a number");
    assert!((20..120).contains(&processed), "{stopped}");
    server.post(&cancel, json!({})).await.expect(200);
    let tree = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&tree["counts"]["available"], &tree["counts"]["dead"]), (&json!(processed), &json!(120 - processed)));
    let mut left = 2 * processed as usize;
    while left > 0 {
        left -= end_all(&server, "a", false, 1).await;
    }
    let tree = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&tree["completion"], &tree["counts"]["succeeded"]), (&json!(2), &json!(processed)));
    server.stop().await;
}

#[tokio::test]
async fn two_servers_share_a_bulk_operation_with_exact_counts() {
    const N: usize = 300;
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let root = graveyard(&server, "a", N).await;
    let other = server.another().await;
    let body = json!({"action": "retry", "target": "items", "filter": {"root": root, "state": "dead"}});
    let response =
        Answer::of(server.request(Method::POST, OPERATIONS).header("idempotency-key", "k").json(&body)).await;
    let running = id(&response.expect(202));
    let again = Answer::of(other.request(Method::POST, OPERATIONS).header("idempotency-key", "k").json(&body)).await;
    assert_eq!(id(&again.expect(202)), running);
    let done = operation(&other, &running, completed).await;
    assert_eq!((&done["total"], &done["processed"], &done["errored"]), (&json!(N), &json!(N), &json!(0)));
    let tree = other.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&tree["counts"]["available"], &tree["counts"]["dead"]), (&json!(N), &json!(0)));
    server.post(&format!("{OPERATIONS}/{running}/cancel"), json!({})).await.expect_problem(409, "operation_over");
    let page = server.get(OPERATIONS).await.expect(200);
    assert_eq!(page["data"][0]["id"], json!(running));
    other.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn bulk_operation_is_limited_to_owner_or_staff_with_reason() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let shop = server.service("shop", &["jobs:read", "jobs:write", "work"]).await;
    let bakery = server.service("bakery", &["jobs:read", "jobs:write", "work"]).await;
    let (of_shop, of_bakery) = (graveyard(&shop, "a", 3).await, graveyard(&bakery, "a", 2).await);
    let body = |reason: Option<&str>| json!({"action": "retry", "target": "items", "filter": {"state": "dead", "type": "a"}, "reason": reason});
    let own = begin(&shop, body(None)).await;
    let done = operation(&shop, &own, completed).await;
    assert_eq!((&done["total"], &done["processed"]), (&json!(3), &json!(3)));
    assert_eq!(bakery.get(&format!("/api/v1/jobs/{of_bakery}")).await.expect(200)["counts"]["dead"], 2);
    bakery.get(&format!("{OPERATIONS}/{own}")).await.expect_problem(404, "not_found");
    bakery.post(&format!("{OPERATIONS}/{own}/cancel"), json!({})).await.expect_problem(404, "not_found");
    assert_eq!(bakery.get(OPERATIONS).await.expect(200)["data"], json!([]));
    let named = json!({"action": "cancel", "target": "items", "filter": {"job": of_shop}});
    bakery.post(OPERATIONS, named).await.expect_problem(404, "not_found");

    server.post(OPERATIONS, body(None)).await.expect_problem(422, "reason_required");
    let all = begin(&server, body(Some("the bank was down"))).await;
    let done = operation(&server, &all, completed).await;
    assert_eq!((&done["total"], &done["processed"]), (&json!(2), &json!(2)));
    server.stop().await;
}

/// A requester who lost the staff role still sees the operations whose members are all their own, and no others.
#[tokio::test]
async fn bulk_operation_over_others_work_is_hidden_from_its_demoted_requester() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let (sue, tom) = (server.person("sue", "support").await, server.person("tom", "support").await);
    let shop = server.service("shop", &["jobs:read", "jobs:write"]).await;
    let job = json!({"type": "a", "items": [{}, {}]});
    let foreign = id(&shop.post("/api/v1/jobs", job.clone()).await.expect(201));
    let own = id(&sue.post("/api/v1/jobs", job).await.expect(201));
    let mut operations = Vec::new();
    for (filter, total, dry_run) in [
        (json!({"type": "a", "state": "available"}), 4, true),
        (json!({"job": foreign}), 2, true),
        (json!({"job": foreign}), 2, false),
        (json!({"job": own}), 2, true),
        (json!({"job": own}), 2, false),
    ] {
        let body = json!({"action": "cancel", "target": "items", "filter": filter, "reason": "the strike",
            "dry_run": dry_run});
        let begun = id(&sue.post(OPERATIONS, body).await.expect(if dry_run { 200 } else { 202 }));
        let done = operation(&sue, &begun, |now| now["finished_at"].is_string()).await;
        assert_eq!(done["total"], total, "{done}");
        operations.push(begun);
    }
    let users = server.get("/api/v1/users").await.expect(200)["data"].clone();
    let account = users.as_array().expect("people").iter().find(|user| user["name"] == "sue").map(id).expect("sue");
    server.patch(&format!("/api/v1/users/{account}"), json!({"role": "user"})).await.expect(200);

    let (hidden, seen) = operations.split_at(3);
    for id in hidden {
        let path = format!("{OPERATIONS}/{id}");
        sue.get(&path).await.expect_problem(404, "not_found");
        sue.post(&format!("{path}/cancel"), json!({})).await.expect_problem(404, "not_found");
        assert_eq!(sue.get(&format!("/bulk/{id}")).await.status, 404);
        tom.get(&path).await.expect(200);
    }
    for id in seen {
        assert_eq!(sue.get(&format!("{OPERATIONS}/{id}")).await.expect(200)["sample"][0]["job_id"], json!(own));
        assert_eq!(sue.get(&format!("/bulk/{id}")).await.status, 200);
    }
    let events = listen(&sue, "/api/v1/events?topics=operations", |name, _| name == "snapshot").await;
    let listed = [
        sue.get(&format!("{OPERATIONS}?limit=2")).await.text,
        sue.get("/bulk").await.text,
        sue.get("/api/v1/search?q=strike").await.text,
        events.last().expect("a snapshot").1.to_string(),
    ];
    for text in listed {
        assert!(seen.iter().all(|id| text.contains(id)), "{text}");
        assert!(!hidden.iter().any(|id| text.contains(id)), "{text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn bulk_operation_skips_items_with_a_reason() {
    let server = Server::start().await;
    let schema = json!({"payload_schema": {"properties": {"n": {"type": "integer"}}}});
    server.put("/api/v1/job-types/a", schema).await.expect(201);
    let items = json!([{"payload": {"n": 1}}, {"payload": {"n": 2, "x": {}}}, {"payload": {"m": 3}}, {"payload": [4]}]);
    let root = id(&server.post("/api/v1/jobs", json!({"type": "a", "items": items})).await.expect(201));
    let got = claim(&server, "a", 10, 0).await;
    finish(&server, &got[0]).await;
    for assignment in &got[1..] {
        kill(&server, assignment).await;
    }
    // The list is all of the job's items, whatever state they are in.
    let body = json!({"action": "retry", "target": "items", "filter": {"job": root},
        "payload_edit": [{"op": "remove", "path": "/x"}]});
    let done = operation(&server, &begin(&server, body).await, completed).await;
    assert_eq!((&done["total"], &done["processed"]), (&json!(4), &json!(1)));
    assert_eq!(skipped(&done), [("edit_does_not_fit", 3)]);
    let body = json!({"action": "retry", "target": "items", "filter": {"job": root, "state": "dead"},
        "payload_edit": [{"op": "set", "path": "/n", "value": "many"}]});
    let done = operation(&server, &begin(&server, body).await, completed).await;
    assert_eq!(skipped(&done), [("edit_does_not_fit", 1), ("payload_invalid", 1)]);
    let body = json!({"action": "cancel", "target": "items", "filter": {"job": root}});
    let done = operation(&server, &begin(&server, body).await, completed).await;
    assert_eq!((&done["processed"], skipped(&done)), (&json!(1), vec![("item_final", 3)]));
    let body = json!({"action": "retry", "target": "items", "filter": {"job": root, "state": "succeeded,dead"}});
    let done = operation(&server, &begin(&server, body).await, completed).await;
    assert_eq!((&done["processed"], skipped(&done)), (&json!(2), vec![("not_retryable", 1)]));
    server.stop().await;
}

#[tokio::test]
async fn bulk_retry_of_thousands_uses_few_commits() {
    const N: usize = 5_000;
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let root = graveyard(&server, "a", N).await;
    let body = json!({"action": "retry", "target": "items", "filter": {"root": root, "state": "dead"},
        "payload_edit": [{"op": "set", "path": "/again", "value": true}]});
    let running = begin(&server, body).await;
    let done = operation(&server, &running, completed).await;
    assert_eq!((&done["total"], &done["processed"], &done["errored"]), (&json!(N), &json!(N), &json!(0)));
    let tree = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&tree["counts"]["available"], &tree["counts"]["dead"]), (&json!(N), &json!(0)));
    let groups = server.get(&format!("/api/v1/dead-letters/groups?job={root}")).await.expect(200);
    assert_eq!(groups["data"], json!([]));
    // A row says which transaction wrote it.
    for rows in ["ready", "item_edit", "bulk_member where done"] {
        let commits: i64 =
            sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(distinct xmin::text) from {rows}")))
                .fetch_one(&server.running.app.pool)
                .await
                .expect("a number");
        assert!((1..=N as i64 / 100).contains(&commits), "{commits} commits wrote {rows}");
    }
    server.stop().await;
}

#[tokio::test]
async fn bulk_retry_keeps_serialize_key_order() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let item = |n: i64| json!({"payload": n, "serialize_key": "till", "dedupe_key": format!("receipt {n}")});
    let job = json!({"type": "a", "items": (0..6).map(item).collect::<Vec<_>>()});
    let root = id(&server.post("/api/v1/jobs", job).await.expect(201));
    for _ in 0..6 {
        kill(&server, &claim(&server, "a", 10, 1).await[0]).await;
    }
    let items = format!("/api/v1/jobs/{root}/items");
    server.post(&items, json!([item(6)])).await.expect(200);
    let got = claim(&server, "a", 10, 0).await;
    assert_eq!(got[0]["item"]["payload"], 6);
    let body = json!({"action": "retry", "target": "items", "filter": {"root": root, "state": "dead"}});
    let done = operation(&server, &begin(&server, body).await, completed).await;
    assert_eq!((&done["processed"], skipped(&done)), (&json!(6), vec![]));
    // At the end of the line, one at a time, in the order of the list.
    assert_eq!(claim(&server, "a", 10, 0).await.len(), 0);
    finish(&server, &got[0]).await;
    for n in 0..6 {
        let got = claim(&server, "a", 10, 1).await;
        assert_eq!((got.len(), &got[0]["item"]["payload"]), (1, &json!(n)));
        finish(&server, &got[0]).await;
    }
    server.post(&items, json!([item(0)])).await.expect_problem(409, "duplicate");
    server.stop().await;
}

#[tokio::test]
async fn bulk_cancel_of_running_waiting_and_final_items() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = json!({"type": "a", "sealed": true, "items": [
        {"payload": "over", "priority": 9}, {"payload": "runs", "priority": 8, "serialize_key": "k"},
        {"payload": "ready"}, {"payload": "behind", "serialize_key": "k"},
        {"payload": "later", "run_after": "2099-01-01T00:00:00Z"}, {"payload": "cancelled"}]});
    let root = id(&server.post("/api/v1/jobs", job).await.expect(201));
    let got = claim(&server, "a", 2, 0).await;
    finish(&server, &got[0]).await;
    let items = server.get(&format!("/api/v1/items?job={root}")).await.expect(200);
    let cancelled = id(&items["data"][5]);
    server.post(&format!("/api/v1/items/{cancelled}/cancel"), json!({})).await.expect(200);
    let body = json!({"action": "cancel", "target": "items", "filter": {"job": root}});
    let done = operation(&server, &begin(&server, body).await, completed).await;
    assert_eq!((&done["processed"], skipped(&done)), (&json!(5), vec![("item_final", 1)]));
    let heartbeat = server.post(&format!("/api/v1/assignments/{}/heartbeat", id(&got[1])), json!({})).await;
    assert_eq!(heartbeat.expect(200)["cancel"], true);
    kill(&server, &got[1]).await;
    let tree = until(&server, &root, |job| job["status"] == "completed").await;
    assert_eq!((&tree["counts"]["cancelled"], &tree["counts"]["succeeded"]), (&json!(5), &json!(1)));
    server.stop().await;
}

#[tokio::test]
async fn bulk_operation_continues_after_a_refused_tree() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let job = |n: usize| json!({"type": "a", "items": vec![json!({}); n]});
    let mut roots = Vec::new();
    for n in [3, 4, 5] {
        roots.push(id(&server.post("/api/v1/jobs", job(n)).await.expect(201)));
    }
    assert_eq!(end_all(&server, "a", true, 0).await, 12);
    server.post(&format!("/api/v1/jobs/{}/cancel", roots[1]), json!({})).await.expect(200);
    let body = json!({"action": "retry", "target": "items", "filter": {"type": "a", "state": "dead"}});
    let done = operation(&server, &begin(&server, body).await, completed).await;
    assert_eq!((&done["processed"], skipped(&done)), (&json!(8), vec![("job_cancelled", 4)]));
    for (root, available, dead) in [(&roots[0], 3, 0), (&roots[1], 0, 4), (&roots[2], 5, 0)] {
        let counts = &server.get(&format!("/api/v1/jobs/{root}")).await.expect(200)["counts"];
        assert_eq!((&counts["available"], &counts["dead"]), (&json!(available), &json!(dead)));
    }
    server.stop().await;
}

#[tokio::test]
async fn bulk_cancel_and_delete_of_jobs() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let mut roots = Vec::new();
    for team in ["hr", "hr", "it"] {
        let job = json!({"type": "a", "items": [{}], "metadata": {"team": team}});
        roots.push(id(&server.post("/api/v1/jobs", job).await.expect(201)));
    }
    let body = |action: &str| json!({"action": action, "target": "jobs", "filter": {"root": true, "metadata": {"team": "hr"}}});
    let early = operation(&server, &begin(&server, body("delete")).await, completed).await;
    assert_eq!((&early["processed"], skipped(&early)), (&json!(0), vec![("job_not_complete", 2)]));
    for (action, again) in [("cancel", "job_completed"), ("delete", "")] {
        let done = operation(&server, &begin(&server, body(action)).await, completed).await;
        assert_eq!((&done["processed"], &done["total"]), (&json!(2), &json!(2)), "{action}");
        if !again.is_empty() {
            for root in &roots[..2] {
                until(&server, root, |job| job["status"] == "completed").await;
            }
        }
    }
    for root in &roots[..2] {
        server.get(&format!("/api/v1/jobs/{root}")).await.expect_problem(410, "job_removed");
    }
    assert_eq!(server.get(&format!("/api/v1/jobs/{}", roots[2])).await.expect(200)["status"], "waiting");
    let none = operation(&server, &begin(&server, body("delete")).await, completed).await;
    assert_eq!(none["total"], 0);
    server.stop().await;
}

/// Once the stop of an operation is answered, it deletes no more jobs, not even one whose deletion has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopped_bulk_operation_deletes_no_more_jobs() {
    let server = Server::start().await;
    // Connections of its own: the test holds two of them while the server works.
    let options = server.running.app.pool.connect_options();
    let pool = &sqlx::PgPool::connect_with((*options).clone()).await.expect("connections");
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let root = id(&server.post("/api/v1/jobs", json!({"type": "a", "sealed": true})).await.expect(201));
    until(&server, &root, |job| job["status"] == "completed").await;
    let job_lock = lock_job(pool, &root).await;
    let running = begin(&server, json!({"action": "delete", "target": "jobs", "filter": {"root": true}})).await;
    crate::support::until(async || waiting(pool).await == 1).await;
    // Next in line: it gets the job when the deletion has ended.
    let next = tokio::spawn({
        let (pool, root) = (pool.clone(), root.clone());
        async move { lock_job(&pool, &root).await }
    });
    crate::support::until(async || waiting(pool).await == 2).await;
    server.post(&format!("{OPERATIONS}/{running}/cancel"), json!({})).await.expect(200);
    job_lock.commit().await.expect("the job state is unlocked");
    next.await.expect("no panic").commit().await.expect("the job state is unlocked");
    let stopped = operation(&server, &running, |now| now["state"] == "cancelled").await;
    assert_eq!((&stopped["processed"], &stopped["total"]), (&json!(0), &json!(1)), "{stopped}");
    server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    pool.close().await;
    server.stop().await;
}

/// A tree that is removed while its list is read ends the list; the operation goes on with what was found.
#[tokio::test]
async fn tree_removed_during_the_count_ends_the_list() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let root = id(&server.post("/api/v1/jobs", json!({"type": "a", "sealed": true})).await.expect(201));
    let body = json!({"action": "retry", "target": "items", "filter": {"root": root}, "dry_run": true});
    let preview = id(&server.post(OPERATIONS, body).await.expect(200));
    operation(&server, &preview, |now| now["state"] == "ready").await;
    until(&server, &root, |job| job["status"] == "completed").await;
    server.delete(&format!("/api/v1/jobs/{root}")).await.expect(204);
    // As if it had not come to its end before.
    let again = "update bulk set state = 'counting', finished_at = null, busy_until = '-infinity'";
    sqlx::query(again).execute(&server.running.app.pool).await.expect("it is counted again");
    let counted = operation(&server, &preview, |now| now["state"] != "counting").await;
    assert_eq!(counted["state"], "ready", "{counted}");
    server.stop().await;
}

#[tokio::test]
async fn invalid_bulk_operation_is_refused() {
    let server = Server::start().await;
    let good = json!({"action": "retry", "target": "items", "filter": {"type": "a"}});
    for (field, value, pointer) in [
        ("target", json!("jobs"), "/target"),
        ("action", json!("delete"), "/target"),
        ("filter", json!({}), "/filter"),
        ("filter", json!([1]), "/filter"),
        ("filter", json!({"colour": "red"}), "/filter/colour"),
        ("filter", json!({"state": "asleep"}), "/filter/state"),
        ("filter", json!({"state": "dead", "limit": 5}), "/filter/limit"),
        ("payload_edit", json!([{"op": "set", "path": "/a"}]), "/payload_edit/0/value"),
        ("payload_edit", json!([{"op": "set", "path": "a", "value": 1}]), "/payload_edit/0/path"),
        ("rate_per_second", json!(0), "/rate_per_second"),
        ("rate_per_second", json!(1e-20), "/rate_per_second"),
    ] {
        let mut body = good.clone();
        body[field] = value;
        let refused = server.post(OPERATIONS, body).await.expect_problem(422, "invalid_body");
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    let reader = server.service("reader", &["jobs:read"]).await;
    reader.post(OPERATIONS, good).await.expect_problem(403, "forbidden");
    server.stop().await;
}
