//! `debounce`: later items with the key of a waiting one replace its payload, and one run follows; exact over two servers.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Api, Server, invariants};

fn id(value: &Value) -> &str {
    value["id"].as_str().expect("an id")
}

/// A server with a type `a` that has an open job of it; its path.
async fn start() -> (Server, String) {
    let server = Server::start().await;
    server.put("/api/v1/job-types/a", json!({})).await.expect(201);
    let path = open_job(&server).await;
    (server, path)
}

async fn open_job(api: &Api) -> String {
    let job = api.post("/api/v1/jobs", json!({"type": "a"})).await.expect(201);
    format!("/api/v1/jobs/{}", id(&job))
}

fn debounced(payload: impl Into<Value>, key: &str, seconds: u32, max_seconds: u32) -> Value {
    let debounce = json!({"key": key, "seconds": seconds, "max_seconds": max_seconds});
    json!({"payload": payload.into(), "debounce": debounce})
}

/// Numbers of items that were accepted and merged.
async fn add(api: &Api, job: &str, items: Value) -> (i64, i64) {
    let added = api.post(&format!("{job}/items"), items).await.expect(200);
    assert_eq!(added["duplicates"], json!(0));
    (added["accepted"].as_i64().expect("a number"), added["merged"].as_i64().expect("a number"))
}

async fn only_item(api: &Api, job: &str) -> Value {
    let id = job.rsplit('/').next().expect("an id");
    let items = api.get(&format!("/api/v1/items?job={id}")).await.expect(200)["data"].clone();
    assert_eq!(items.as_array().map(Vec::len), Some(1), "{items}");
    api.get(&format!("/api/v1/items/{}", self::id(&items[0]))).await.expect(200)
}

async fn claim(api: &Api, wait: u32) -> Vec<Value> {
    let body = json!({"worker_id": "w", "types": ["a"], "max": 100, "wait_seconds": wait});
    api.post("/api/v1/assignments", body).await.expect(200)["assignments"].as_array().expect("assignments").clone()
}

/// The only item that can be claimed in the next seconds.
async fn claim_one(api: &Api) -> Value {
    for _ in 0..4 {
        let mut assignments = claim(api, 5).await;
        if let Some(assignment) = assignments.pop() {
            assert!(assignments.is_empty(), "{assignments:?}");
            return assignment;
        }
    }
    panic!("nothing can be claimed");
}

async fn succeed(api: &Api, assignment: &Value) {
    api.post(&format!("/api/v1/assignments/{}/result", id(assignment)), json!({})).await.expect(200);
}

async fn stop(server: Server) {
    invariants::check(&server.running.app.pool, None, Duration::from_secs(10)).await.expect("the invariants hold");
    server.stop().await;
}

/// The last payload wins, one run starts after the pause, and an item that comes while it runs is a new one.
#[tokio::test]
async fn last_payload_wins_and_runs_once() {
    let (server, job) = start().await;
    let began = Instant::now();
    assert_eq!(add(&server, &job, json!([debounced(1, "k", 1, 60), debounced(2, "k", 1, 60)])).await, (1, 1));
    assert_eq!(add(&server, &job, json!([debounced(3, "k", 2, 60), debounced(0, "other", 600, 600)])).await, (1, 1));
    let pending = server.get(&job).await.expect(200);
    assert_eq!(pending["counts"]["scheduled"], json!(2), "{pending}");

    let assignment = claim_one(&server).await;
    assert!(began.elapsed() >= Duration::from_secs(2), "it starts two seconds after the last one");
    assert_eq!(assignment["item"]["payload"], json!(3));
    let item = server.get(&format!("/api/v1/items/{}", id(&assignment["item"]))).await.expect(200);
    assert_eq!((&item["debounce"]["key"], &item["debounce"]["merged"]), (&json!("k"), &json!(2)));

    assert_eq!(add(&server, &job, json!([debounced(4, "k", 3, 60)])).await, (1, 0), "it has started");
    assert_eq!(add(&server, &job, json!([debounced(5, "k", 3, 60)])).await, (0, 1));
    succeed(&server, &assignment).await;
    let assignment = claim_one(&server).await;
    assert_eq!(assignment["item"]["payload"], json!(5));
    succeed(&server, &assignment).await;
    stop(server).await;
}

/// It says why it waits and until when, and the answers name every fault.
#[tokio::test]
async fn waiting_item_shows_its_debounce_and_faults_are_named() {
    let (server, job) = start().await;
    add(&server, &job, json!([debounced(1, "k", 600, 700), debounced(2, "k", 500, 900)])).await;
    let item = only_item(&server, &job).await;
    assert_eq!((&item["state"], &item["payload"]), (&json!("scheduled"), &json!(2)));
    assert_eq!(
        (&item["waiting_for"]["reason"], &item["waiting_for"]["until"]),
        (&json!("debounce"), &item["run_after"])
    );
    let debounce = &item["debounce"];
    assert_eq!(
        (&debounce["seconds"], &debounce["max_seconds"], &debounce["merged"]),
        (&json!(500), &json!(900), &json!(1))
    );
    let plain = server.post(&format!("{job}/items"), json!([{"payload": 1}])).await.expect(200);
    assert_eq!(plain, json!({"accepted": 1, "duplicates": 0, "merged": 0, "sealed": false}));

    let faults = async |debounce: Value, more: Value| -> Vec<String> {
        let mut item = json!({"debounce": debounce});
        item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        let problem = server.post(&format!("{job}/items"), json!([item])).await.expect_problem(422, "invalid_body");
        let errors = problem["errors"].as_array().expect("errors");
        errors.iter().map(|error| error["pointer"].as_str().expect("a pointer").to_owned()).collect()
    };
    let good = json!({"key": "k", "seconds": 1, "max_seconds": 1});
    assert_eq!(
        faults(json!({"key": "", "seconds": 0, "max_seconds": 0}), json!({})).await,
        ["/0/debounce/key", "/0/debounce/seconds", "/0/debounce/max_seconds"]
    );
    assert_eq!(
        faults(json!({"key": "k", "seconds": 9, "max_seconds": 8}), json!({})).await,
        ["/0/debounce/max_seconds"]
    );
    assert_eq!(faults(good.clone(), json!({"dedupe_key": "d"})).await, ["/0/debounce"]);
    assert_eq!(faults(good, json!({"run_after": "2030-01-01T00:00:00Z"})).await, ["/0/debounce"]);
    assert_eq!(faults(json!({"key": "k", "seconds": 1}), json!({})).await.len(), 1, "all fields are required");
    stop(server).await;
}

/// However many come, it starts `max_seconds` after the first at the latest.
#[tokio::test]
async fn steady_arrivals_delay_it_to_max_seconds_at_most() {
    let (server, job) = start().await;
    let began = Instant::now();
    let arrivals = async {
        let mut last = 0;
        while began.elapsed() < Duration::from_millis(4_500) {
            last += 1;
            add(&server, &job, json!([debounced(last, "k", 2, 4)])).await;
        }
    };
    let first = async {
        let assignment = claim_one(&server).await;
        (assignment, began.elapsed())
    };
    let ((), (assignment, after)) = tokio::join!(arrivals, first);
    assert!((Duration::from_secs(4)..Duration::from_secs(12)).contains(&after), "it started after {after:?}");
    let item = server.get(&format!("/api/v1/items/{}", id(&assignment["item"]))).await.expect(200);
    let merged = item["debounce"]["merged"].as_i64().expect("a number");
    assert!(merged > 2, "{merged} were merged");
    assert_eq!(assignment["item"]["payload"], json!(merged + 1), "the last payload before the start");
    stop(server).await;
}

/// Items that have become available but have not started still take later payloads, and their pause begins again.
#[tokio::test]
async fn available_item_is_merged_into_and_waits_again() {
    let (server, job) = start().await;
    add(&server, &job, json!([debounced(1, "k", 1, 60), debounced(1, "full", 1, 1)])).await;
    let path = format!("/api/v1/jobs/{}", job.rsplit('/').next().expect("an id"));
    crate::support::until(async || server.get(&path).await.expect(200)["counts"]["available"] == json!(2)).await;
    assert_eq!(add(&server, &job, json!([debounced(2, "k", 600, 900), debounced(2, "full", 1, 1)])).await, (0, 2));
    let counts = server.get(&path).await.expect(200)["counts"].clone();
    assert_eq!((&counts["available"], &counts["scheduled"]), (&json!(1), &json!(1)));
    let assignment = claim_one(&server).await;
    assert_eq!(assignment["item"]["payload"], json!(2));
    succeed(&server, &assignment).await;
    stop(server).await;
}

/// Keys are of a type and an owner, over all jobs; a canceled tree and a refused request hold none.
#[tokio::test]
async fn keys_are_shared_by_jobs_and_freed_by_canceled_ones() {
    let (server, job) = start().await;
    let item = debounced(1, "k", 600, 600);
    assert_eq!(add(&server, &job, json!([item])).await, (1, 0));
    let second = server.post("/api/v1/jobs", json!({"type": "a", "items": [item, {"payload": 7}]})).await.expect(201);
    assert_eq!(
        (&second["item_count"], &second["merged"]),
        (&json!(1), &json!(1)),
        "one was merged into the item of the first job"
    );
    let second = format!("/api/v1/jobs/{}", id(&second));

    let other = server.service("other", &["jobs:write", "jobs:read"]).await;
    let of_other = open_job(&other).await;
    assert_eq!(add(&other, &of_other, json!([item])).await, (1, 0), "another owner's key is another key");

    server.post(&format!("{job}/cancel"), json!({})).await.expect(200);
    assert_eq!(add(&server, &second, json!([item, item])).await, (1, 1), "the first job is canceled");

    server.post(&format!("{second}/seal"), json!({})).await.expect(200);
    let refused = server.post(&format!("{second}/items"), json!([debounced(1, "new", 600, 600), item])).await;
    refused.expect_problem(409, "job_sealed");
    let third = open_job(&server).await;
    assert_eq!(add(&server, &third, json!([debounced(1, "new", 600, 600)])).await, (1, 0));
    assert_eq!(add(&server, &third, json!([item])).await, (0, 1), "a sealed job's item still takes payloads");
    stop(server).await;
}

/// A stream of items merges as an array does, and its answer is given again under its key.
#[tokio::test]
async fn stream_of_items_is_merged() {
    let (server, job) = start().await;
    let lines: String = (0..3_000).map(|n| format!("{}\n", debounced(n, &format!("k{}", n % 3), 600, 600))).collect();
    let send = || {
        server
            .request(reqwest::Method::POST, &format!("{job}/items"))
            .header("content-type", "application/x-ndjson")
            .header("idempotency-key", "stream")
            .body(lines.clone())
    };
    for _ in 0..2 {
        let added = crate::support::Answer::of(send()).await.expect(200);
        assert_eq!(added, json!({"accepted": 3, "duplicates": 0, "merged": 2_997, "sealed": false}));
    }
    let mut payloads: Vec<String> = sqlx::query_scalar("select payload from item order by payload")
        .fetch_all(&server.running.app.pool)
        .await
        .expect("payloads");
    payloads.sort();
    assert_eq!(payloads, ["2997", "2998", "2999"]);
    stop(server).await;
}

/// An item that has expired when it comes replaces no payload, and a later one in the same request does not vanish in it.
#[tokio::test]
async fn expired_arrival_replaces_nothing() {
    let (server, job) = start().await;
    let expired = |payload: i32| {
        let mut item = debounced(payload, "k", 600, 600);
        item["expires_at"] = json!("2020-01-01T00:00:00Z");
        item
    };
    assert_eq!(add(&server, &job, json!([expired(1), debounced(2, "k", 600, 600), expired(3)])).await, (3, 0));
    assert_eq!(add(&server, &job, json!([expired(4), debounced(5, "k", 600, 600)])).await, (1, 1));
    let id = job.rsplit('/').next().expect("an id");
    let waiting = server.get(&format!("/api/v1/items?job={id}&state=scheduled")).await.expect(200)["data"].clone();
    assert_eq!(waiting.as_array().map(Vec::len), Some(1), "{waiting}");
    assert_eq!(waiting[0]["payload"], json!(5));
    crate::support::until(async || server.get(&job).await.expect(200)["counts"]["expired"] == json!(3)).await;
    stop(server).await;
}

/// A payload is merged only into an item that waits as long as it may itself: otherwise it could expire there.
#[tokio::test]
async fn arrival_that_outlasts_the_waiting_item_is_a_new_one() {
    let (server, job) = start().await;
    let expiring = |payload: i32, key: &str, at: &str| {
        let mut item = debounced(payload, key, 600, 600);
        item["expires_at"] = json!(at);
        item
    };
    let (sooner, later) = ("2100-01-01T00:00:00Z", "2101-01-01T00:00:00Z");
    assert_eq!(add(&server, &job, json!([expiring(1, "k", sooner)])).await, (1, 0));
    assert_eq!(add(&server, &job, json!([expiring(2, "k", sooner)])).await, (0, 1), "it lasts as long");
    assert_eq!(add(&server, &job, json!([expiring(3, "k", later)])).await, (1, 0));
    assert_eq!(add(&server, &job, json!([debounced(4, "k", 600, 600)])).await, (1, 0), "it never expires");
    assert_eq!(add(&server, &job, json!([expiring(5, "k", sooner)])).await, (0, 1));
    // In one request, also into an item that waits already.
    let mixed = json!([
        debounced(6, "k", 600, 600),
        expiring(7, "one", sooner),
        expiring(8, "one", later),
        expiring(9, "one", sooner),
        debounced(10, "one", 600, 600),
        debounced(11, "one", 600, 600)
    ]);
    assert_eq!(add(&server, &job, mixed).await, (3, 3));
    let rows: Vec<(String, i64, bool)> = sqlx::query_as(
        "select i.payload, d.merged, d.is_open from item i join debounce d on d.item_id = i.id order by i.seq",
    )
    .fetch_all(&server.running.app.pool)
    .await
    .expect("the items");
    let rows: Vec<(&str, i64, bool)> = rows.iter().map(|(payload, n, open)| (payload.as_str(), *n, *open)).collect();
    let of_k = [("2", 1, false), ("3", 0, false), ("6", 2, true)];
    assert_eq!(rows, [&of_k[..], &[("7", 0, false), ("9", 1, false), ("11", 1, true)]].concat());

    let soon = time::OffsetDateTime::now_utc() + time::Duration::milliseconds(1_500);
    let soon = soon.format(&time::format_description::well_known::Rfc3339).expect("a time");
    assert_eq!(add(&server, &job, json!([expiring(12, "run", &soon)])).await, (1, 0));
    assert_eq!(add(&server, &job, json!([debounced(13, "run", 2, 60)])).await, (1, 0));
    let assignment = claim_one(&server).await;
    assert_eq!(assignment["item"]["payload"], json!(13));
    succeed(&server, &assignment).await;
    crate::support::until(async || server.get(&job).await.expect(200)["counts"]["expired"] == json!(1)).await;
    stop(server).await;
}

/// An item that `after` or its serialize key blocks takes later payloads, too.
#[tokio::test]
async fn blocked_items_are_merged_into() {
    let (server, _) = start().await;
    let tree = json!({"type": "a", "sealed": true, "items": [{"payload": "first"}], "children":
        [{"type": "a", "key": "second", "after": ["a"], "sealed": true, "items": [debounced(1, "k", 1, 60)]}]});
    server.post("/api/v1/jobs", tree).await.expect(201);
    let job = open_job(&server).await;
    let serialized = |payload: &str| {
        let mut item = debounced(payload, payload.split('-').next().unwrap_or_default(), 1, 60);
        item["serialize_key"] = json!("s");
        item
    };
    assert_eq!(add(&server, &job, json!([debounced(2, "k", 1, 60)])).await, (0, 1));
    assert_eq!(add(&server, &job, json!([serialized("x-1"), serialized("y-1")])).await, (2, 0));
    let mut ran = Vec::new();
    while ran.len() < 4 {
        for assignment in claim(&server, 5).await {
            if assignment["item"]["payload"] == json!("x-1") {
                assert_eq!(add(&server, &job, json!([serialized("y-2")])).await, (0, 1));
            }
            ran.push(assignment["item"]["payload"].to_string());
            succeed(&server, &assignment).await;
        }
    }
    ran.sort();
    assert_eq!(ran, ["\"first\"", "\"x-1\"", "\"y-2\"", "2"]);
    stop(server).await;
}

/// Eight senders and four workers at two servers: each accepted item runs once, payloads only move forward, and the last
/// payload of each key runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn debounce_is_exact_over_two_servers() {
    let (server, job) = start().await;
    let other = server.another().await;
    let (apis, done) = ([&*server, &*other], AtomicBool::new(false));
    let senders = (0..8).map(|sender| {
        let job = &job;
        async move {
            let (mut sent, mut accepted) = (0, 0);
            let began = Instant::now();
            // Two senders share each key, one at each server.
            while began.elapsed() < Duration::from_secs(4) {
                sent += 1;
                let item = debounced(json!([sender, sent]), &format!("k{}", sender / 2), 1, 1);
                let (new, merged) = add(apis[sender % 2], job, json!([item])).await;
                assert_eq!(new + merged, 1);
                accepted += new;
            }
            (sender, sent, accepted)
        }
    });
    let workers = (0..4).map(|worker| {
        let done = &done;
        async move {
            loop {
                let last_round = done.load(Ordering::SeqCst);
                let assignments = claim(apis[worker % 2], 2).await;
                if assignments.is_empty() && last_round {
                    break;
                }
                for assignment in &assignments {
                    succeed(apis[worker % 2], assignment).await;
                }
            }
        }
    });
    let sending = async {
        let sent = join_all(senders).await;
        done.store(true, Ordering::SeqCst);
        sent
    };
    let (sent, _) = tokio::join!(sending, join_all(workers));
    let accepted: i64 = sent.iter().map(|(_, _, accepted)| accepted).sum();
    let ran: Vec<(String, String)> = sqlx::query_as(
        "select d.key, i.payload from outcome o join item i on i.id = o.item_id join debounce d on d.item_id = i.id
         where o.state = 1 and o.attempt = 1 order by o.started_at",
    )
    .fetch_all(&server.running.app.pool)
    .await
    .expect("outcomes");
    assert_eq!(ran.len() as i64, accepted, "every accepted item ran once");
    assert!(accepted > 4, "several runs of some of the four keys: {accepted}");
    let mut highest = std::collections::BTreeMap::new();
    for (_, payload) in &ran {
        let (sender, n): (usize, i64) = serde_json::from_str(payload).expect("a payload");
        assert!(highest.insert(sender, n).is_none_or(|before| before < n), "sender {sender} went back to {n}");
    }
    for key in 0..4 {
        let (_, payload) = ran.iter().rev().find(|(name, _)| *name == format!("k{key}")).expect("a run");
        let (sender, n): (usize, i64) = serde_json::from_str(payload).expect("a payload");
        assert_eq!(n, sent[sender].1, "the last payload of a sender ran last");
    }
    other.stop().await;
    stop(server).await;
}
