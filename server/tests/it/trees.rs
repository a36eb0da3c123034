//! Trees with dependent jobs: feeds, dependencies, serialize queues; cancellation, repair, and completion (`feeding`,
//! `after`, `serialize-key`, `cancellation`, `manual-retry`).

use futures::future::join_all;
use serde_json::{Value, json};

use crate::{
    fair_turns::until,
    support::{Api, Server},
};

fn id(value: &Value) -> String {
    value["id"].as_str().expect("an id").to_owned()
}

fn key<'a>(tree: &'a Value, key: &str) -> &'a Value {
    fn find<'a>(job: &'a Value, key: &str) -> Option<&'a Value> {
        if job["key"] == key {
            return Some(job);
        }
        job["children"].as_array()?.iter().find_map(|child| find(child, key))
    }
    find(tree, key).expect("a job of that key")
}

async fn types(server: &Server, names: &[&str]) {
    for name in names {
        server.put(&format!("/api/v1/job-types/{name}"), json!({})).await.expect(201);
    }
}

async fn claim(api: &Api, types: &[&str], max: u32, wait: u32) -> Vec<Value> {
    let body = json!({"worker_id": "w", "types": types, "max": max, "wait_seconds": wait});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

async fn finish(api: &Api, assignment: &Value, result: Value) -> Value {
    api.post(&format!("/api/v1/assignments/{}/result", id(assignment)), json!({"result": result})).await.expect(200)
}

async fn fail(api: &Api, assignment: &Value, body: Value) -> Value {
    api.post(&format!("/api/v1/assignments/{}/failure", id(assignment)), body).await.expect(200)
}

fn fatal(message: &str) -> Value {
    json!({"error": {"message": message}, "retryable": false})
}

#[tokio::test]
async fn succeeded_items_feed_children_which_are_sealed_automatically() {
    let server = Server::start().await;
    types(&server, &["calculate", "send", "book"]).await;
    let new_tree = server
        .post(
            "/api/v1/jobs",
            json!({"type": "calculate", "key": "payroll", "sealed": true,
            "items": [{"payload": {"user": 1}}, {"payload": {"user": 2}}, {"payload": {"user": 3}}],
            "children": [{"type": "send", "key": "checks",
                "feed": {"payload": {"user": {"$from": "/payload/user"}, "amount": {"$from": "/result/amount"}}},
                "children": [{"type": "book", "key": "books", "final_stage": true, "feed": {"each": "/result/lines"}}]}]}),
        )
        .await
        .expect(201);
    let root = id(&new_tree);
    let refused = server.post(&format!("/api/v1/jobs/{}/seal", id(key(&new_tree, "checks"))), json!({})).await;
    refused.expect_problem(409, "job_is_fed");

    for assignment in claim(&server, &["calculate"], 10, 0).await {
        let user = assignment["item"]["payload"]["user"].as_i64().expect("a user");
        if user == 3 {
            fail(&server, &assignment, fatal("no account")).await;
        } else {
            finish(&server, &assignment, json!({"amount": user * 100})).await;
        }
    }
    let tree = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&tree["status"], &tree["outcome"]), (&json!("completed"), &json!("partial")));
    let checks = key(&tree, "checks");
    assert_eq!((&checks["sealed"], &checks["item_count"]), (&json!(true), &json!(2)));
    assert_eq!(key(&tree, "books")["sealed"], false);

    let sent = claim(&server, &["send"], 10, 0).await;
    let mut amounts: Vec<i64> = sent.iter().map(|a| a["item"]["payload"]["amount"].as_i64().expect("a sum")).collect();
    amounts.sort_unstable();
    assert_eq!(amounts, [100, 200]);
    let item = server.get(&format!("/api/v1/items/{}", id(&sent[0]["item"]))).await.expect(200);
    assert!(item["fed_by"].is_string(), "{item}");
    finish(&server, &sent[0], json!({"lines": [1, 2, 3]})).await;
    // A pointer to nothing is a dead letter below, and the parent's result stands.
    finish(&server, &sent[1], json!({"lines": "none"})).await;

    for assignment in claim(&server, &["book"], 10, 0).await {
        finish(&server, &assignment, json!({})).await;
    }
    let tree = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&tree["tree"]["status"], &tree["tree"]["outcome"]), (&json!("completed"), &json!("partial")));
    let books = key(&tree, "books");
    assert_eq!((&books["counts"]["succeeded"], &books["counts"]["dead"]), (&json!(3), &json!(1)));
    let dead = server.get(&format!("/api/v1/items?job={}&state=dead", id(books))).await.expect(200);
    assert_eq!(dead["data"][0]["last_error"]["kind"], "feed_invalid");
}

#[tokio::test]
async fn large_feed_is_propagated_before_completion() {
    let server = Server::start().await;
    types(&server, &["one", "many"]).await;
    let tree = json!({"type": "one", "sealed": true, "items": [{}],
        "children": [{"type": "many", "key": "many", "feed": {"each": "/result", "payload": {"n": {"$from": "/element"}}}}]});
    let root = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let one = claim(&server, &["one"], 1, 0).await;
    finish(&server, &one[0], Value::Array((0..2_500).map(|n| json!(n)).collect())).await;
    let mut left: Vec<i64> = (0..2_500).collect();
    while !left.is_empty() {
        let got = claim(&server, &["many"], 1_000, 5).await;
        let endings: Vec<Value> = got.iter().map(|a| json!({"assignment_id": a["id"], "result": {}})).collect();
        server.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
        for assignment in got {
            let n = assignment["item"]["payload"]["n"].as_i64().expect("a number");
            left.retain(|&other| other != n);
        }
    }
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!(key(&done, "many")["counts"]["succeeded"], 2_500);
    assert_eq!(done["tree"]["outcome"], "succeeded");
}

#[tokio::test]
async fn feed_of_large_items_is_bounded_by_bytes() {
    let server = Server::start().await;
    types(&server, &["one", "many", "copy"]).await;
    let copy = json!({"type": "copy", "key": "copy", "feed": {"payload": {"$from": "/result/text"}}});
    let many = json!({"type": "many", "key": "many",
        "feed": {"each": "/result/rows", "payload": {"n": {"$from": "/element"}, "text": {"$from": "/result/text"}}}});
    let tree = json!({"type": "one", "sealed": true, "items": [{}, {}, {}], "children": [many, copy]});
    let root = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let result = json!({"rows": (0..30).collect::<Vec<i64>>(), "text": "x".repeat(200 << 10)});
    let endings = claim(&server, &["one"], 3, 0).await;
    let endings: Vec<Value> = endings.iter().map(|a| json!({"assignment_id": a["id"], "result": result})).collect();
    server.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
    let fed = until(&server, &root, |job| {
        key(job, "many")["counts"]["available"] == 90 && key(job, "copy")["counts"]["available"] == 3
    });
    fed.await;
    let each = sqlx::query_as::<_, (i64, i64)>(
        "select sum(octet_length(payload)), count(distinct (fed_by, payload)) from item where fed_by is not null
         group by xmin::text order by 1",
    );
    let transactions = each.fetch_all(&server.running.app.pool).await.expect("bytes and items of each transaction");
    assert!(transactions.iter().all(|transaction| transaction.0 < 9 << 20), "{transactions:?}");
    assert_eq!(transactions.iter().map(|transaction| transaction.1).sum::<i64>(), 93);
}

fn site() -> Value {
    json!({"type": "site", "key": "site", "sealed": true, "children": [
        {"type": "create", "key": "create-db", "sealed": true, "items": [{}]},
        {"type": "create", "key": "create-dns", "sealed": true, "items": [{}]},
        {"type": "deploy", "key": "deploy", "sealed": true, "after": ["create-db", "create-dns"], "items": [{}]},
        {"type": "last", "key": "last", "sealed": true, "after": ["deploy"], "items": [{}]}]})
}

#[tokio::test]
async fn dependent_job_waits_and_receives_results() {
    let server = Server::start().await;
    types(&server, &["site", "create", "deploy", "last"]).await;
    let root = id(&server.post("/api/v1/jobs", site()).await.expect(201));
    let tree = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!(key(&tree, "deploy")["counts"]["blocked"], 1);
    let created = claim(&server, &["create", "deploy", "last"], 10, 0).await;
    assert_eq!(created.len(), 2);
    finish(&server, &created[0], json!({"n": 1})).await;
    assert_eq!(claim(&server, &["deploy"], 10, 0).await.len(), 0);
    finish(&server, &created[1], json!({"n": 2})).await;
    let deploy = claim(&server, &["deploy"], 10, 5).await;
    let mut inputs: Vec<i64> = ["create-db", "create-dns"]
        .iter()
        .map(|key| deploy[0]["inputs"][key][0]["n"].as_i64().expect("a result"))
        .collect();
    inputs.sort_unstable();
    assert_eq!(inputs, [1, 2]);
    finish(&server, &deploy[0], json!({})).await;
    let last = claim(&server, &["last"], 10, 5).await;
    finish(&server, &last[0], json!({})).await;
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&done["tree"]["outcome"], &done["completion"]), (&json!("succeeded"), &json!(1)));
}

#[tokio::test]
async fn manual_retry_of_dead_items_completes_the_tree() {
    let server = Server::start().await;
    types(&server, &["site", "create", "deploy", "last"]).await;
    let root = id(&server.post("/api/v1/jobs", site()).await.expect(201));
    let created = claim(&server, &["create"], 10, 0).await;
    finish(&server, &created[0], json!({})).await;
    fail(&server, &created[1], fatal("disk full")).await;
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&done["tree"]["outcome"], &done["tree"]["counts"]["cancelled"]), (&json!("partial"), &json!(2)));
    let deploy = id(key(&done, "deploy"));
    let skipped = server.get(&format!("/api/v1/items?job={deploy}")).await.expect(200)["data"][0].clone();
    assert_eq!((&skipped["state"], &skipped["last_error"]["kind"]), (&json!("cancelled"), &json!("after_failed")));
    server.post(&format!("/api/v1/items/{}/retry", id(&skipped)), json!({})).await.expect_problem(409, "not_retryable");

    let dead = id(&created[1]["item"]);
    let again = server.post(&format!("/api/v1/items/{dead}/retry"), json!({"payload": {"disk": "new"}})).await;
    let again = again.expect(200);
    assert_eq!((&again["state"], &again["failures"], &again["attempts"]), (&json!("available"), &json!(0), &json!(1)));
    let open = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&open["tree"]["status"], &open["tree"]["outcome"]), (&json!("running"), &Value::Null));
    assert_eq!(key(&open, "deploy")["counts"]["blocked"], 1);

    let retried = claim(&server, &["create"], 10, 5).await;
    assert_eq!((&retried[0]["attempt"], &retried[0]["item"]["payload"]), (&json!(2), &json!({"disk": "new"})));
    finish(&server, &retried[0], json!({})).await;
    for name in ["deploy", "last"] {
        let next = claim(&server, &[name], 10, 5).await;
        finish(&server, &next[0], json!({})).await;
    }
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&done["tree"]["outcome"], &done["completion"]), (&json!("succeeded"), &json!(2)));
    let attempts = server.get(&format!("/api/v1/items/{dead}/attempts")).await.expect(200);
    let ends: Vec<&str> = attempts["data"]
        .as_array()
        .expect("attempts")
        .iter()
        .map(|a| a["ended_as"].as_str().expect("a word"))
        .collect();
    assert_eq!(ends, ["failed", "succeeded"]);
}

/// `serialize-key`: an item behind a canceled head is released, also if both are due at the same time.
#[tokio::test]
async fn item_behind_a_canceled_head_is_released_when_both_are_due() {
    // No background task ends the rows of the canceled job before they are due.
    let server = Server::start_with(|config| config.roles = "web".parse().expect("roles")).await;
    types(&server, &["a"]).await;
    let due = domain::Time(time::OffsetDateTime::now_utc() + std::time::Duration::from_secs(1));
    let job = async |payload: i64| {
        let items = json!([{"payload": payload, "serialize_key": "k"}]);
        server
            .post("/api/v1/jobs", json!({"type": "a", "sealed": true, "run_after": due, "items": items}))
            .await
            .expect(201)
    };
    let (first, _) = (job(1).await, job(2).await);
    server.post(&format!("/api/v1/jobs/{}/cancel", id(&first)), json!({})).await.expect(200);
    let engine = &server.running.app.engine;
    crate::support::until(async || engine.sweep_due().await.expect("a sweep") > 0).await;
    let claimed = claim(&server, &["a"], 10, 0).await;
    let payloads: Vec<&Value> = claimed.iter().map(|assignment| &assignment["item"]["payload"]).collect();
    assert_eq!(payloads, [&json!(2)]);
    server.stop().await;
}

#[tokio::test]
async fn serialize_key_runs_one_item_at_a_time_in_order() {
    let server = Server::start().await;
    types(&server, &["a", "b"]).await;
    let item = |n: i64, key: &str| json!({"payload": n, "serialize_key": key});
    let one = json!({"type": "a", "sealed": true, "items": [item(1, "u"), item(2, "u"), item(3, "v")]});
    let two = json!({"type": "b", "sealed": true, "items": [item(4, "u"), item(5, "v")]});
    let first = id(&server.post("/api/v1/jobs", one).await.expect(201));
    let second = id(&server.post("/api/v1/jobs", two).await.expect(201));
    let mut order = Vec::new();
    loop {
        let got = claim(&server, &["a", "b"], 10, 0).await;
        if got.is_empty() {
            break;
        }
        let keys: std::collections::HashSet<&str> =
            got.iter().map(|a| a["item"]["serialize_key"].as_str().expect("a key")).collect();
        assert_eq!(keys.len(), got.len(), "one of each key at a time");
        for assignment in got {
            order.push(assignment["item"]["payload"].as_i64().expect("a number"));
            if order.len() == 1 {
                // A retryable head holds its key.
                let body = json!({"error": {"message": "later"}, "retry_after_seconds": 0.2});
                fail(&server, &assignment, body).await;
                order.pop();
                let next = claim(&server, &["a", "b"], 10, 0).await;
                assert!(next.iter().all(|a| a["item"]["serialize_key"] == "v"), "{next:?}");
                for other in next {
                    order.push(other["item"]["payload"].as_i64().expect("a number"));
                    finish(&server, &other, json!({})).await;
                }
                let head = claim(&server, &["a", "b"], 1, 5).await;
                for other in head {
                    order.push(other["item"]["payload"].as_i64().expect("a number"));
                    finish(&server, &other, json!({})).await;
                }
            } else {
                finish(&server, &assignment, json!({})).await;
            }
        }
    }
    let of = |key: &[i64]| order.iter().copied().filter(|n| key.contains(n)).collect::<Vec<_>>();
    assert_eq!((of(&[1, 2, 4]), of(&[3, 5])), (vec![1, 2, 4], vec![3, 5]));
    until(&server, &first, |job| job["status"] == "completed").await;
    until(&server, &second, |job| job["status"] == "completed").await;
}

#[tokio::test]
async fn job_with_several_dependencies_fails_when_one_is_cancelled() {
    let server = Server::start().await;
    types(&server, &["a", "below", "slow", "last"]).await;
    let tree = json!({"type": "a", "key": "root", "sealed": true, "children": [
        {"type": "a", "key": "done", "sealed": true, "items": [{}],
         "children": [{"type": "below", "key": "open", "sealed": true, "items": [{}]}]},
        {"type": "slow", "key": "slow", "sealed": true, "items": [{}]},
        {"type": "last", "key": "last", "sealed": true, "after": ["done", "slow"], "items": [{}]}]});
    let root = id(&server.post("/api/v1/jobs", tree).await.expect(201));
    let claimed = claim(&server, &["a"], 1, 5).await;
    finish(&server, &claimed[0], json!({})).await;
    let tree = until(&server, &root, |job| key(job, "done")["status"] == "completed").await;
    server.post(&format!("/api/v1/jobs/{}/cancel", id(key(&tree, "done"))), json!({})).await.expect(200);
    let job = until(&server, &root, |job| key(job, "last")["counts"]["cancelled"] == 1).await;
    assert_eq!(key(&job, "slow")["status"], "waiting", "what else it waits for has not even begun");
    let claimed = claim(&server, &["slow"], 1, 5).await;
    finish(&server, &claimed[0], json!({})).await;
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!((&done["tree"]["outcome"], &done["completion"]), (&json!("partial"), &json!(1)));
}

#[tokio::test]
async fn cancelled_job_waits_for_running_items_and_ignores_their_results() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let job = json!({"type": "a", "items": [{}, {}, {}, {}]});
    let root = id(&server.post("/api/v1/jobs", job).await.expect(201));
    let claimed = claim(&server, &["a"], 3, 0).await;
    let cancel = format!("/api/v1/jobs/{root}/cancel");
    let cancelled = server.post(&cancel, json!({})).await.expect(200);
    assert_eq!((&cancelled["status"], &cancelled["counts"]["cancelled"]), (&json!("cancelling"), &json!(1)));
    assert_eq!(cancelled["message"], "Cancelling, 3 still running…");
    server.post(&cancel, json!({})).await.expect(200);
    server.post(&format!("/api/v1/jobs/{root}/items"), json!([{}])).await.expect_problem(409, "job_cancelled");
    assert_eq!(claim(&server, &["a"], 10, 0).await.len(), 0);

    let path = |n: usize, verb: &str| format!("/api/v1/assignments/{}/{verb}", id(&claimed[n]));
    assert_eq!(server.post(&path(0, "heartbeat"), json!({})).await.expect(200)["cancel"], true);
    for _ in 0..2 {
        let late = server.post(&path(0, "result"), json!({"result": {"n": 7}})).await;
        late.expect_problem(409, "job_cancelled");
    }
    let failed = server.post(&path(1, "failure"), json!({"error": {"message": "stopped"}})).await.expect(200);
    assert_eq!((&failed["item_state"], &failed["ended_as"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(server.get(&format!("/api/v1/jobs/{root}")).await.expect(200)["status"], "cancelling");
    server.post(&path(2, "release"), json!({})).await.expect(200);

    let done = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!((&done["status"], &done["outcome"]), (&json!("completed"), &json!("cancelled")));
    assert_eq!((&done["counts"]["cancelled"], &done["message"]), (&json!(4), &json!("Job cancelled")));
    let attempts = server.get(&format!("/api/v1/items/{}/attempts", id(&claimed[0]["item"]))).await.expect(200);
    assert_eq!(
        (&attempts["data"][0]["ended_as"], &attempts["data"][0]["result"]["n"]),
        (&json!("cancelled"), &json!(7))
    );
    let retry = server.post(&format!("/api/v1/items/{}/retry", id(&claimed[1]["item"])), json!({})).await;
    retry.expect_problem(409, "job_cancelled");

    let whole = json!({"type": "a", "sealed": true, "items": []});
    let whole = id(&server.post("/api/v1/jobs", whole).await.expect(201));
    server.post(&format!("/api/v1/jobs/{whole}/cancel"), json!({})).await.expect_problem(409, "job_completed");
}

#[tokio::test]
async fn failure_with_cancel_tree_cancels_the_tree() {
    let server = Server::start().await;
    types(&server, &["site", "create", "deploy", "last"]).await;
    let root = id(&server.post("/api/v1/jobs", site()).await.expect(201));
    let created = claim(&server, &["create"], 10, 0).await;
    let body = json!({"error": {"message": "no such customer"}, "cancel_tree": true});
    assert_eq!(fail(&server, &created[0], body).await["item_state"], "dead");
    let tree = server.get(&format!("/api/v1/jobs/{root}")).await.expect(200);
    assert_eq!(tree["tree"]["status"], "cancelling");
    server
        .post(&format!("/api/v1/assignments/{}/result", id(&created[1])), json!({}))
        .await
        .expect_problem(409, "job_cancelled");
    let done = until(&server, &root, |job| job["tree"]["status"] == "completed").await;
    assert_eq!(done["tree"]["outcome"], "cancelled");
    assert_eq!((&done["tree"]["counts"]["dead"], &done["tree"]["counts"]["cancelled"]), (&json!(1), &json!(3)));

    let alone = json!({"type": "create", "sealed": true, "items": [{}]});
    let alone = id(&server.post("/api/v1/jobs", alone).await.expect(201));
    let only = claim(&server, &["create"], 1, 0).await;
    fail(&server, &only[0], json!({"error": {"message": "no"}, "cancel_tree": true})).await;
    let done = server.get(&format!("/api/v1/jobs/{alone}")).await.expect(200);
    assert_eq!((&done["status"], &done["outcome"]), (&json!("completed"), &json!("cancelled")));
}

#[tokio::test]
async fn single_item_is_cancelled_and_retried() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let job = json!({"type": "a", "sealed": true,
        "items": [{"serialize_key": "k", "payload": 1}, {"serialize_key": "k", "payload": 2}, {"payload": 3}]});
    let root = id(&server.post("/api/v1/jobs", job).await.expect(201));
    let items = server.get(&format!("/api/v1/items?job={root}")).await.expect(200)["data"].clone();
    let path = |n: usize, verb: &str| format!("/api/v1/items/{}/{verb}", id(&items[n]));
    assert_eq!(items[1]["state"], "blocked");
    // The head of the queue goes, the next moves up; given back, it stands at the end.
    assert_eq!(server.post(&path(0, "cancel"), json!({})).await.expect(200)["state"], "cancelled");
    server.post(&path(0, "cancel"), json!({})).await.expect(200);
    assert_eq!(server.get(&path(1, "")[..path(1, "").len() - 1]).await.expect(200)["state"], "available");
    assert_eq!(server.post(&path(0, "retry"), json!({})).await.expect(200)["state"], "blocked");
    let got = claim(&server, &["a"], 10, 0).await;
    let payloads: Vec<&Value> = got.iter().map(|a| &a["item"]["payload"]).collect();
    assert_eq!(payloads, [&json!(2), &json!(3)]);
    // A running one ends as cancelled, whatever its worker says.
    server.post(&path(2, "cancel"), json!({})).await.expect(200);
    let running = server.get(&path(2, "")[..path(2, "").len() - 1]).await.expect(200);
    assert_eq!(running["state"], "running");
    assert!(running["cancel_requested_at"].is_string());
    finish(&server, &got[0], json!({})).await;
    server
        .post(&format!("/api/v1/assignments/{}/result", id(&got[1])), json!({}))
        .await
        .expect_problem(409, "job_cancelled");
    let last = claim(&server, &["a"], 10, 0).await;
    finish(&server, &last[0], json!({})).await;
    server.post(&path(1, "cancel"), json!({})).await.expect_problem(409, "item_final");
    let done = until(&server, &root, |job| job["status"] == "completed").await;
    assert_eq!((&done["outcome"], &done["counts"]["succeeded"]), (&json!("partial"), &json!(2)));
    // A complete job reopens.
    server.post(&path(2, "retry"), json!({})).await.expect(200);
    let last = claim(&server, &["a"], 10, 0).await;
    finish(&server, &last[0], json!({})).await;
    let done = until(&server, &root, |job| job["status"] == "completed").await;
    assert_eq!((&done["outcome"], &done["completion"]), (&json!("succeeded"), &json!(2)));
}

/// Many at once, so that the server takes refused and accepted requests with the same key in one batch: no item is a
/// duplicate of a refused one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_seal_takes_no_dedupe_key_from_another_request() {
    const KEYS: usize = 64;
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let fed = json!([{"type": "a", "key": "fed", "feed": {"payload": {"$from": "/result"}}}]);
    let tree = server.post("/api/v1/jobs", json!({"type": "a", "children": fed})).await.expect(201);
    let path = format!("/api/v1/jobs/{}/items", id(key(&tree, "fed")));
    let calls = (0..2 * KEYS).map(|n| (n % 2 == 0, json!([{"dedupe_key": format!("k{}", n / 2)}])));
    let answers = join_all(calls.map(async |(seals, items)| {
        let query = if seals { "seal=true" } else { "on_duplicate=skip" };
        (seals, server.post(&format!("{path}?{query}"), items).await)
    }));
    for (seals, answer) in answers.await {
        if seals {
            answer.expect_problem(409, "job_is_fed");
        } else {
            assert_eq!(answer.expect(200)["accepted"], 1);
        }
    }
    server.stop().await;
}

#[tokio::test]
async fn dedupe_keys_are_unique_within_a_job() {
    let server = Server::start().await;
    types(&server, &["a"]).await;
    let root =
        id(&server.post("/api/v1/jobs", json!({"type": "a", "items": [{"dedupe_key": "u1"}]})).await.expect(201));
    let path = format!("/api/v1/jobs/{root}/items");
    let there = server.get(&format!("/api/v1/items?job={root}")).await.expect(200)["data"][0].clone();
    let refused = server.post(&path, json!([{"dedupe_key": "u2"}, {"dedupe_key": "u1"}])).await;
    assert_eq!(refused.expect_problem(409, "duplicate")["id"], there["id"]);
    let within = server.post(&path, json!([{"dedupe_key": "u3"}, {"dedupe_key": "u3"}])).await;
    within.expect_problem(409, "duplicate");
    let skip = format!("{path}?on_duplicate=skip&seal=true");
    let added = server.post(&skip, json!([{"dedupe_key": "u1"}, {"dedupe_key": "u2"}, {"dedupe_key": "u2"}, {}])).await;
    let added = added.expect(200);
    assert_eq!((&added["accepted"], &added["duplicates"], &added["sealed"]), (&json!(2), &json!(2), &json!(true)));
    assert_eq!(server.get(&format!("/api/v1/jobs/{root}")).await.expect(200)["item_count"], 3);
}
