//! Deletion of trees: manual, automatic, and what remains of them.

pub(crate) use crate::support::until;
use futures::StreamExt as _;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, timeout};

use crate::support::{Answer, Api, Server};

const ALL: &[&str] = &["jobs:read", "jobs:write", "work"];

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

/// Creates a sealed tree of one job with `items` items.
pub(crate) async fn tree(api: &Api, items: usize) -> String {
    let items: Vec<Value> = (0..items).map(|n| json!({"payload": n})).collect();
    let created = api.post("/api/v1/jobs", json!({"type": "a", "sealed": true, "items": items})).await.expect(201);
    id(&created).to_owned()
}

/// Processes all items of type `a`.
pub(crate) async fn work(api: &Api) {
    loop {
        let claim = json!({"worker_id": "w", "types": ["a"], "max": 1_000});
        let claimed = api.post("/api/v1/assignments", claim).await.expect(200)["assignments"].clone();
        let claimed = claimed.as_array().expect("assignments");
        if claimed.is_empty() {
            return;
        }
        let endings: Vec<Value> = claimed.iter().map(|a| json!({"assignment_id": a["id"], "result": {}})).collect();
        api.post("/api/v1/assignments/finish", json!({"endings": endings})).await.expect(200);
    }
}

/// One number from the database, for data that no API shows.
async fn count(server: &Server, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(&server.running.app.pool).await.expect("a number")
}

async fn run(server: &Server, sql: &'static str) {
    sqlx::query(sql).execute(&server.running.app.pool).await.expect("the statement runs");
}

/// Waits, by long polls, until a tree is deleted automatically.
async fn until_gone(api: &Api, path: &str) {
    let waiting = async { while api.get(&format!("{path}?wait_seconds=5")).await.status == 200 {} };
    timeout(Duration::from_secs(30), waiting).await.expect("it goes within half a minute");
}

/// Trees that were checked and postponed by about an hour.
const PUT_OFF: &str =
    "select count(*) from maintenance_check where next_check_at > clock_timestamp() + interval '50 minutes'";

const ROWS: &str =
    "select (select count(*) from item) + (select count(*) from outcome) + (select count(*) from attempt)
    + (select count(*) from item_step) + (select count(*) from earlier_step) + (select count(*) from item_dedupe) + (select count(*) from error_group)
    + (select count(*) from ready) + (select count(*) from job) + (select count(*) from job_state)
    + (select count(*) from purge) + (select count(*) from maintenance_check)";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deleted_tree_leaves_no_rows() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"steps": ["half"]})).await.expect(201);
    let owner = server.service("payroll", ALL).await;
    let other = server.service("other", ALL).await;
    let new = json!({"type": "a", "sealed": true, "items": [{"payload": 1}, {"payload": 2}],
                     "children": [{"type": "a", "sealed": true, "items": [{"payload": 3}]}]});
    let created = owner.post("/api/v1/jobs", new).await.expect(201);
    let (root, child) =
        (format!("/api/v1/jobs/{}", id(&created)), format!("/api/v1/jobs/{}", id(&created["children"][0])));

    other.delete(&root).await.expect_problem(404, "not_found");
    owner.delete(&root).await.expect_problem(409, "job_not_complete");
    assert_eq!(owner.delete(&child).await.expect_problem(409, "not_root")["id"], created["id"]);
    let reader = server.service("payroll", &["jobs:read"]).await;
    reader.delete(&root).await.expect_problem(403, "forbidden");

    let claim = json!({"worker_id": "w", "types": ["a"]});
    let claimed = owner.post("/api/v1/assignments", claim).await.expect(200)["assignments"][0].clone();
    let path = format!("/api/v1/assignments/{}", id(&claimed));
    owner.post(&format!("{path}/step"), json!({"name": "half"})).await.expect(200);
    let failure = json!({"error": {"message": "no"}, "retryable": false});
    owner.post(&format!("{path}/failure"), failure).await.expect(200);
    // What it had reached is kept for the list of its attempts.
    let retry = format!("/api/v1/items/{}/retry", id(&claimed["item"]));
    owner.post(&retry, json!({"restart": true})).await.expect(200);
    work(&owner).await;
    assert_eq!(owner.get(&root).await.expect(200)["status"], "completed");
    // As an item with a dedupe key leaves it.
    run(&server, "insert into item_dedupe (job_key, key, item_id) select job_key, 'u' || seq, id from item").await;

    let stream = owner.request(Method::GET, &format!("{child}/events")).send().await.expect("a stream");
    owner.delete(&root).await.expect(204);
    let mut output = String::new();
    let mut parts = stream.bytes_stream();
    while !output.contains("event: removed") {
        let part = parts.next().await.expect("the stream says that the tree is removed before it ends");
        output.push_str(&String::from_utf8_lossy(&part.expect("bytes")));
    }

    owner.delete(&root).await.expect_problem(410, "job_removed");
    owner.delete(&child).await.expect_problem(410, "job_removed");
    owner.post(&format!("{root}/pin"), json!({})).await.expect_problem(410, "job_removed");
    other.delete(&root).await.expect_problem(404, "not_found");
    assert!([404, 410].contains(&owner.get(&root).await.status.as_u16()), "nobody sees it any more");
    assert_eq!(owner.get("/api/v1/jobs").await.expect(200)["data"], json!([]));

    // A walk that met the tree in the moment in which it went has left when to look at it, and forgets it then.
    until(async || {
        run(
            &server,
            "update maintenance_check set next_check_at = clock_timestamp() where next_check_at > clock_timestamp()",
        )
        .await;
        count(&server, ROWS).await == 0
    })
    .await;
    owner.delete(&root).await.expect_problem(410, "job_removed");
    server.stop().await;
}

#[tokio::test]
async fn deleting_foreign_tree_requires_admin_and_reason() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let owner = server.service("payroll", ALL).await;
    let path = format!("/api/v1/jobs/{}", tree(&owner, 1).await);
    work(&owner).await;

    let user = server.person("ulla", "user").await;
    user.delete(&format!("{path}?reason=curiosity")).await.expect_problem(404, "not_found");
    let support = server.person("sam", "support").await;
    support.delete(&format!("{path}?reason=tidy")).await.expect_problem(403, "forbidden");
    let admin = server.admin().await;
    admin.delete(&path).await.expect_problem(422, "reason_required");
    admin.delete(&format!("{path}?reason=%20")).await.expect_problem(422, "reason_required");
    server.delete(&path).await.expect_problem(422, "reason_required");
    assert_eq!(owner.get(&path).await.expect(200)["status"], "completed");
    let body = json!({"reason": "they asked us to"});
    Answer::of(admin.request(Method::DELETE, &path).json(&body)).await.expect(204);
    admin.delete(&format!("{path}?reason=again")).await.expect_problem(410, "job_removed");

    let log = owner.get("/api/v1/audit?action=job.delete").await.expect(200)["data"].clone();
    assert_eq!(log.as_array().map(Vec::len), Some(1), "refusals are no deeds: {log}");
    assert_eq!(
        (&log[0]["actor"]["name"], &log[0]["action"], &log[0]["reason"], &log[0]["owner"]["name"]),
        (&json!("admin"), &json!("job.delete"), &json!("they asked us to"), &json!("payroll"))
    );
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_deletes_delete_once() {
    let server = Server::start().await;
    let second = server.another().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    for _ in 0..5 {
        let path = format!("/api/v1/jobs/{}", tree(&server, 3).await);
        work(&server).await;
        let all = (0..8).map(|n| {
            let (api, path) = (if n % 2 == 0 { &server } else { &second }, path.clone());
            async move { api.delete(&path).await.status.as_u16() }
        });
        let mut answers = futures::future::join_all(all).await;
        answers.sort_unstable();
        assert_eq!(answers, [204, 410, 410, 410, 410, 410, 410, 410]);
    }
    assert_eq!(count(&server, "select sum(n_jobs)::bigint from daily_total").await, 5, "each counted once");
    second.stop().await;
    server.stop().await;
}

#[tokio::test]
async fn deletion_corrects_shared_counts_and_frees_keys() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = format!("/api/v1/jobs/{}", tree(&server, 3).await);
    let claim = json!({"worker_id": "w", "types": ["a"], "max": 2});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"].clone();
    for assignment in claimed.as_array().expect("assignments") {
        let failure = json!({"error": {"message": "no such user"}, "retryable": false});
        server.post(&format!("/api/v1/assignments/{}/failure", id(assignment)), failure).await.expect(200);
    }
    work(&server).await;
    // As creation with a dedupe key, and two more dead letters of another tree, leave them.
    run(&server, "update job set dedupe_key = 'march'").await;
    run(
        &server,
        "insert into job_dedupe (owner_id, type_id, key, job_id) select owner_id, type_id, 'march', id from job
         on conflict do nothing",
    )
    .await;
    run(
        &server,
        "insert into owner_error (owner_id, type_id, fingerprint, message, n_dead, first_seen_at, last_seen_at,
           sample_item_id)
         select j.owner_id, j.type_id, e.fingerprint, e.message, 4, e.first_seen_at, e.last_seen_at, e.sample_item_id
         from error_group e join job j on j.job_key = e.job_key
         on conflict (owner_id, type_id, fingerprint) do update set n_dead = 4",
    )
    .await;

    server.delete(&path).await.expect(204);
    assert_eq!(count(&server, "select count(*) from job_dedupe").await, 0);
    assert_eq!(count(&server, "select sum(n_dead)::bigint from owner_error").await, 2);
    let totals = "select count(*) from daily_total where job_type = 'a' and outcome = 2 and n_jobs = 1
                  and n_succeeded = 1 and n_dead = 2 and day = (clock_timestamp() at time zone 'UTC')::date";
    assert_eq!(count(&server, totals).await, 1);
    server.stop().await;
}

#[tokio::test]
async fn large_tree_is_purged_completely() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = format!("/api/v1/jobs/{}", tree(&server, 7_000).await);
    let neighbour = format!("/api/v1/jobs/{}", tree(&server, 10).await);
    work(&server).await;
    server.delete(&path).await.expect(204);
    let rows = "select (select count(*) from item) + (select count(*) from outcome) + (select count(*) from purge)";
    until(async || count(&server, rows).await == 20).await;
    let left = server.get(&neighbour).await.expect(200);
    assert_eq!((&left["item_progress"], &left["outcome"]), (&json!(10), &json!("succeeded")));
    assert_eq!(server.get(&format!("/api/v1/items?job={}", id(&left))).await.expect(200)["data"][9]["seq"], 10);
    server.stop().await;
}

#[tokio::test]
async fn tree_is_deleted_after_retention_unless_pinned() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"retain_seconds": 0})).await.expect(201);
    let owner = server.service("payroll", ALL).await;
    let pinned = format!("/api/v1/jobs/{}", tree(&owner, 1).await);
    let child = json!({"type": "a", "sealed": true, "children": [{"type": "a", "sealed": true}]});
    let created = owner.post("/api/v1/jobs", child).await.expect(201);
    let below = format!("/api/v1/jobs/{}/pin", id(&created["children"][0]));
    owner.post(&below, json!({})).await.expect_problem(409, "not_root");

    assert_eq!(owner.post(&format!("{pinned}/pin"), json!({})).await.expect(200)["pinned"], true);
    owner.post(&format!("{pinned}/pin"), json!({})).await.expect(200);
    let other = server.service("other", ALL).await;
    other.post(&format!("{pinned}/pin"), json!({})).await.expect_problem(404, "not_found");
    let gone = format!("/api/v1/jobs/{}", tree(&owner, 2).await);
    let open = format!("/api/v1/jobs/{}", id(&owner.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201)));
    work(&owner).await;

    until_gone(&owner, &gone).await;
    until(async || count(&server, PUT_OFF).await == 1).await;
    assert_eq!(owner.get(&pinned).await.expect(200)["status"], "completed");
    assert_eq!(owner.get(&open).await.expect(200)["status"], "waiting");
    let totals = "select sum(n_succeeded)::bigint from daily_total where job_type = 'a' and outcome = 1";
    assert_eq!(count(&server, totals).await, 2, "the totals stay");

    assert_eq!(owner.delete(&format!("{pinned}/pin")).await.expect(200)["pinned"], false);
    until_gone(&owner, &pinned).await;
    server.stop().await;
}

#[tokio::test]
async fn tree_is_retained_while_its_idempotency_window_is_open() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({"retain_seconds": 0})).await.expect(201);
    let path = format!("/api/v1/jobs/{}", tree(&server, 1).await);
    // As a creation with an Idempotency-Key leaves it.
    run(
        &server,
        "insert into idempotency (owner_id, scope, key, fingerprint, job_id, lapses_at)
         select owner_id, '', 'k', '', id, clock_timestamp() + interval '1 hour' from job",
    )
    .await;
    work(&server).await;
    until(async || count(&server, PUT_OFF).await == 1).await;
    assert_eq!(server.get(&path).await.expect(200)["status"], "completed");

    run(&server, "update idempotency set lapses_at = clock_timestamp()").await;
    run(&server, "update maintenance_check set next_check_at = clock_timestamp()").await;
    until_gone(&server, &path).await;
    server.delete(&path).await.expect_problem(410, "job_removed");
    assert_eq!(count(&server, "select count(*) from idempotency where job_id is not null").await, 1, "it says 410");
    server.stop().await;
}

#[tokio::test]
async fn cancelled_tree_is_deleted_immediately() {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let items: Vec<Value> = (0..5_000).map(|n| json!({"payload": n, "dedupe_key": n.to_string()})).collect();
    let behind = json!({"type": "a", "items": [{"serialize_key": "k"}], "key": "top",
                        "children": [{"type": "a", "after": ["top"], "items": items}]});
    let root = id(&server.post("/api/v1/jobs", behind).await.expect(201)).to_owned();
    let next = json!({"type": "a", "sealed": true, "items": [{"payload": "next", "serialize_key": "k"}]});
    server.post("/api/v1/jobs", next).await.expect(201);
    let path = format!("/api/v1/jobs/{root}");
    server.post(&format!("{path}/cancel"), json!({})).await.expect(200);
    server.delete(&path).await.expect(204);

    // Who waited behind it for the serialize key goes on.
    let claim = json!({"worker_id": "w", "types": ["a"], "wait_seconds": 5, "max": 10});
    let claimed = server.post("/api/v1/assignments", claim).await.expect(200)["assignments"].clone();
    assert_eq!((claimed.as_array().map(Vec::len), &claimed[0]["item"]["payload"]), (Some(1), &json!("next")));
    server.post(&format!("/api/v1/assignments/{}/result", id(&claimed[0])), json!({})).await.expect(200);
    let rows = "select (select count(*) from item) + (select count(*) from outcome) + (select count(*) from blocked)
        + (select count(*) from job) + (select count(*) from job_state) + (select count(*) from item_dedupe)
        + (select count(*) from serialize_queue_entry) + (select count(*) from purge) + (select count(*) from propagation)";
    until(async || count(&server, rows).await == 4).await;
    let totals = "select sum(n_cancelled)::bigint from daily_total where outcome = 4";
    assert_eq!(count(&server, totals).await, 5_001);
    server.stop().await;
}
